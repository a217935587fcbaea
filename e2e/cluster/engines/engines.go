// Package engines runs the engines of a cluster on one machine, for tests and for a
// look: NATS servers and PostgreSQL, each in a directory of its own, which can be killed, stopped,
// cut off from each other, and started again.
package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is a program that is started again with the same arguments.
type Process struct {
	Name string
	Dir  string   // where it runs and writes its log
	Args []string // the program and its arguments
	User *syscall.Credential
	Env  []string // besides that of this process

	cmd  *exec.Cmd
	done chan struct{}
}

// Start begins it.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.Dir+"/"+p.Name+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.Args[0], p.Args[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.Dir, log, log
	p.cmd.Env = append(os.Environ(), p.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.User, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
	return nil
}

// Alive says whether it runs, or is stopped.
func (p *Process) Alive() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to it and to what it has started.
func (p *Process) Signal(s syscall.Signal) {
	if p.Alive() {
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// Pid is its number, of its first start on.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends it without a word, and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.Wait()
}

// Wait waits until it is gone.
func (p *Process) Wait() {
	if p.done != nil {
		<-p.done
	}
}

// Free is a port that nobody has, a moment ago.
func Free() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Until does something every few milliseconds until it says true, or ctx ends.
func Until(ctx context.Context, what string, is func() bool) error {
	for !is() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
	return nil
}

// Server is the path of nats-server in the version of .ci/nats.mod, which is built if it is not
// in the build cache yet. root is that of the repository.
func Server(root string) (string, error) {
	cmd := exec.Command("go", "tool", "-modfile=.ci/nats.mod", "-n", "nats-server")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if exit, is := errors.AsType[*exec.ExitError](err); is {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("nats-server cannot be built: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
