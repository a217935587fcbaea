package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"troupe/protocol"
)

// ExecSpec is one shell command.
type ExecSpec struct {
	Env     *Env
	Command string
	Timeout time.Duration // 0 is none

	// Sanitize makes plain text of the output: no escape sequences, no control
	// characters but tab and line feed. Without it the bytes are kept. The
	// result is valid UTF-8 either way.
	Sanitize bool

	// Output, if not nil, gets the bytes of the command as they come, and the result
	// has none. It is called from one goroutine. It wants none of the others above
	// and below that are about output.
	Output io.Writer

	// KillGroup ends what the command left in the background when the shell
	// ends. Without it that runs on, until Env.Procs ends it.
	KillGroup bool

	// Progress, if not nil, is called with the output so far: when the first
	// arrives, then at most every 100 ms, and once more at the end if there was
	// more. Delta, if not nil, gets only what is new, in pieces of any size, cut
	// between characters; it wants Sanitize. Both are called from one goroutine,
	// never after Exec returned, and may block: then the command waits, too.
	Progress func(ExecProgress)
	Delta    func(string)
}

// ExecProgress is the output of a command that still runs.
type ExecProgress struct {
	Output         Truncation
	FullOutputPath string // "" as long as nothing is truncated
}

// ExecResult says how a command ended: of its own, or by TimedOut, or by
// Cancelled. A command that had ended before either is not touched by them.
type ExecResult struct {
	Output         Truncation // the tail of the output
	FullOutputPath string     // where all of it is, if truncated
	FullOutputErr  error      // why it is not there
	FullOutputCut  bool       // it is only the beginning: there was more than a log may have

	ExitCode  int    // 128+n after death by signal n
	Signal    string // its name, e.g. "killed"
	TimedOut  bool
	Cancelled bool // ctx ended first
}

// BashResult is the result as the bash command of the protocol answers it.
func (r ExecResult) BashResult() protocol.BashResult {
	res := protocol.BashResult{
		Output: r.Output.Content, Cancelled: r.Cancelled || r.TimedOut,
		Truncated: r.Output.Truncated, FullOutputPath: r.FullOutputPath,
	}
	if res.Truncated {
		res.TotalLines, res.TotalBytes = r.Output.TotalLines, r.Output.TotalBytes
	}
	if !res.Cancelled {
		res.ExitCode = &r.ExitCode
	}
	return res
}

const (
	// drainTime is how long the output stays open after the shell has ended
	// while somebody else holds it: long enough for a tee in a process
	// substitution, short enough not to be noticed after "server &".
	drainTime = 250 * time.Millisecond

	progressEvery = 100 * time.Millisecond
	deltaBytes    = 32 << 10 // pending delta that does not wait for progressEvery
)

// Exec runs a command in the shell of its environment and waits for the shell
// to end, not for what it put into the background. When ctx ends or the time is
// over, the command and all its descendants are ended: SIGTERM to the process
// group, SIGKILL after Env.Grace; Exec returns when they are gone. The error is
// about commands that could not be started; how a started one ended is in the
// result.
func Exec(ctx context.Context, spec ExecSpec) (ExecResult, error) {
	if ctx.Err() != nil {
		return ExecResult{Cancelled: true}, nil
	}
	cmd, err := spec.shell()
	if err != nil {
		return ExecResult{}, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return ExecResult{}, fmt.Errorf("pipe for the output: %w", err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	spec.Env.Procs.prepare()
	g, err := startGroup(cmd, spec.Env.Procs, spec.Env.Sandbox)
	w.Close()
	if err != nil {
		r.Close()
		return ExecResult{}, startError(err)
	}
	return spec.follow(ctx, g, r)
}

// follow sees a started command to its end.
func (spec *ExecSpec) follow(ctx context.Context, g *group, r *os.File) (res ExecResult, err error) {
	spec.Env.Interrupt.add(g)
	p := newPump(spec, r)
	go p.run()
	switch g.await(ctx, spec.expiry()) {
	case timedOut:
		res.TimedOut = true
	case cancelled:
		res.Cancelled = true
	}
	spec.Env.Interrupt.remove(g) // its number may soon mean something else
	killed := res.TimedOut || res.Cancelled || spec.KillGroup
	if killed {
		g.kill(graceOr(spec.Env.Grace))
	}
	open := p.drain(ctx, killed)
	if !open || killed || !spec.Env.Procs.adopt(r) {
		r.Close()
	}
	spec.Env.Procs.done(g, killed)
	res.Output, res.FullOutputPath = p.out.finish()
	res.FullOutputErr, res.FullOutputCut = p.out.err, p.out.full
	err = g.status(&res)
	return res, err
}

// shell prepares the command without output.
func (spec *ExecSpec) shell() (*exec.Cmd, error) {
	env := spec.Env
	if err := checkDir(env.Cwd); err != nil {
		return nil, err
	}
	path, err := env.findShell()
	if err != nil {
		return nil, err
	}
	command := spec.Command
	if env.ShellPrefix != "" {
		command = env.ShellPrefix + "\n" + command
	}
	cmd := exec.Command(path, "-c", command)
	cmd.Dir, cmd.Env = env.Cwd, env.Environ
	return cmd, nil
}

// checkDir words what would else be an error about the shell.
func checkDir(cwd string) error {
	info, err := os.Stat(cwd)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("working directory does not exist: %s", cwd)
	case err != nil:
		return fmt.Errorf("working directory cannot be used: %w", fileError("stat", cwd, err))
	case !info.IsDir():
		return fmt.Errorf("working directory is not a directory: %s", cwd)
	}
	return nil
}

func (e *Env) findShell() (string, error) {
	if e.Shell != "" {
		if _, err := os.Stat(e.Shell); err != nil {
			return "", fmt.Errorf("shell not found: %w", fileError("stat", e.Shell, err))
		}
		return e.Shell, nil
	}
	for _, name := range []string{"/bin/bash", "bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", errors.New("no shell found: neither bash nor sh is on the PATH")
}

func startError(err error) error {
	var sandbox *SandboxError
	switch {
	case errors.Is(err, errClosing), errors.As(err, &sandbox):
		return err
	case errors.Is(err, syscall.E2BIG):
		return errors.New("the command is too long for the system: write it to a file and run that")
	case errors.Is(err, syscall.EINVAL):
		return errors.New("the command contains a NUL character")
	}
	return fmt.Errorf("start the shell: %w", err)
}

// end is what happened first to a command.
type end int

const (
	exited end = iota
	timedOut
	cancelled
)

// expiry returns a channel that receives when the command's time is over; nil if that is unlimited.
func (spec *ExecSpec) expiry() <-chan time.Time {
	if spec.Timeout <= 0 {
		return nil
	}
	return spec.Env.timer(spec.Timeout)
}

// timer is time.After, unless a test has another one.
func (e *Env) timer(d time.Duration) <-chan time.Time {
	if e.after != nil {
		return e.after(d)
	}
	return time.After(d)
}

// await waits until the command has exited, ctx has ended or expired receives, and returns the first.
func (g *group) await(ctx context.Context, expired <-chan time.Time) (first end) {
	select {
	case <-g.exited:
		return g.ending()
	case <-ctx.Done():
		first = cancelled
	case <-expired:
		first = timedOut
	}
	select {
	case <-g.exited: // before we could do anything about it
		return g.ending()
	default:
		return first
	}
}

// ending is how a command ended that is over: by itself, or by an [Interrupt].
func (g *group) ending() end {
	if g.terminated.Load() {
		return cancelled
	}
	return exited
}

// status fills in how the shell ended. One that even SIGKILL did not end in
// time has no status.
func (g *group) status(res *ExecResult) error {
	select {
	case <-g.exited:
	default:
		res.ExitCode, res.Signal = 128+int(syscall.SIGKILL), syscall.SIGKILL.String()
		return nil
	}
	if g.state == nil {
		return fmt.Errorf("wait for the shell: %w", g.err)
	}
	res.ExitCode, res.Signal = exitCode(g.state)
	return nil
}

// pump reads the output of one command and shows it.
type pump struct {
	spec *ExecSpec
	r    *os.File
	done chan struct{} // closed when run returns: out is the caller's then

	out     output
	clean   sanitizer
	plain   []byte // buffer of clean's text
	delta   []byte // not yet shown
	unseen  bool   // there is output that was not shown
	next    time.Time
	stopped atomic.Bool
}

func newPump(spec *ExecSpec, r *os.File) *pump {
	return &pump{spec: spec, r: r, done: make(chan struct{}), out: output{dir: spec.Env.TempDir, sandbox: spec.Env.Sandbox, logs: spec.Env.Procs.outputs()}}
}

const readSize = 64 << 10 // what a pipe holds

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// run reads until the pipe is closed on the other side, or stop.
func (p *pump) run() {
	defer close(p.done)
	defer p.last()
	buf := readBuffers.Get().(*[readSize]byte)
	defer readBuffers.Put(buf)
	for {
		n, err := p.r.Read(buf[:])
		if n > 0 {
			p.take(buf[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !p.stopped.Load():
			p.show()
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.take(p.remainder(buf[:]))
			return
		default:
			return
		}
	}
}

// remainder is what the pipe holds right now. The shell may have written it
// while we were busy showing what came before.
func (p *pump) remainder(buf []byte) []byte {
	n := 0
	conn, err := p.r.SyscallConn()
	if err == nil {
		conn.Control(func(fd uintptr) { // unlike a read it ignores the deadline
			n, _ = syscall.Read(int(fd), buf) // does not block; -1 if there is nothing
		})
	}
	return buf[:max(n, 0)]
}

func (p *pump) take(b []byte) {
	if p.spec.Output != nil {
		p.spec.Output.Write(b) // whether it can, it knows itself: the command goes on
		return
	}
	if p.spec.Sanitize {
		p.plain = p.clean.append(p.plain[:0], b)
		b = p.plain
	}
	if len(b) == 0 {
		return
	}
	p.out.write(b)
	if p.spec.Delta != nil {
		if p.delta = append(p.delta, b...); len(p.delta) >= deltaBytes {
			p.sendDelta()
		}
	}
	p.announce()
}

// announce shows the output now, or has the read wake up when it may be shown:
// that saves a timer.
func (p *pump) announce() {
	if p.spec.Progress == nil && p.spec.Delta == nil {
		return
	}
	if !time.Now().Before(p.next) {
		p.show()
	} else if !p.unseen {
		p.unseen = true
		p.wake(p.next)
	}
}

// wake sets the time at which a read gives up, unless the pump was stopped: see
// stop for the order of steps.
func (p *pump) wake(at time.Time) {
	p.r.SetReadDeadline(at)
	if p.stopped.Load() {
		p.r.SetReadDeadline(past)
	}
}

func (p *pump) show() {
	if p.unseen {
		p.unseen = false
		p.wake(time.Time{})
	}
	p.sendDelta()
	p.sendProgress(false)
	p.next = time.Now().Add(progressEvery)
}

func (p *pump) sendProgress(end bool) {
	if p.spec.Progress != nil {
		p.spec.Progress(ExecProgress{p.out.truncation(end), p.out.path()})
	}
}

func (p *pump) sendDelta() {
	if len(p.delta) > 0 {
		p.spec.Delta(string(p.delta))
		p.delta = p.delta[:0]
	}
}

// last shows what is left at the end.
func (p *pump) last() {
	if p.spec.Sanitize {
		p.plain = p.clean.finish(p.plain[:0])
		p.out.write(p.plain)
		if p.spec.Delta != nil {
			p.delta = append(p.delta, p.plain...)
		}
		p.unseen = p.unseen || len(p.plain) > 0
	}
	p.sendDelta()
	if p.unseen {
		p.sendProgress(true)
	}
}

// drain waits for the end of the output once the shell has ended: not at all
// if nobody else has the pipe, else for a short time. Open says that somebody
// still has it.
func (p *pump) drain(ctx context.Context, killed bool) (open bool) {
	hurry := ctx.Done()
	if killed { // then ctx may well be the reason
		hurry = nil
	}
	select {
	case <-p.done:
		return false
	case <-hurry:
	case <-p.spec.Env.timer(drainTime):
	}
	select {
	case <-p.done:
		return false
	default:
		p.stop()
		return true
	}
}

// stop makes run return. Run may be about to set a deadline of its own: it
// looks at stopped after that, and we set stopped before our deadline, so the
// last word is ours in any order.
func (p *pump) stop() {
	p.stopped.Store(true)
	p.r.SetReadDeadline(past)
	<-p.done
}
