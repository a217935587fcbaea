package tools

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// SpawnSpec is a program that runs beside us, with streams of its own.
type SpawnSpec struct {
	Procs   *Procs // ends it with the session
	Command string
	Args    []string
	Dir     string
	Env     []string
	Files   []*os.File // its descriptors from 3 on
	Sandbox Sandbox

	EndsWithUs bool // by itself: it is started before its guard, which takes longer than it may
}

// Spawned is a running program.
type Spawned struct {
	Stdin          *os.File // for us to write and close
	Stdout, Stderr *os.File // for us to read to their end and close

	procs *Procs
	g     *group
}

// ErrNoProgram is the error of a [Spawn] that looked for a name in PATH and did not
// find it.
var ErrNoProgram = exec.ErrNotFound

// Spawn starts a program. Its error is the system's: one that is not there is
// os.ErrNotExist or [ErrNoProgram].
func Spawn(spec SpawnSpec) (*Spawned, error) {
	cmd := exec.Command(spec.Command, spec.Args...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = spec.Dir, spec.Env, spec.Files
	var ours, theirs []*os.File
	closeAll := func(list []*os.File) {
		for _, f := range list {
			f.Close()
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return nil, err
		}
		if len(ours) == 0 {
			r, w = w, r // we write to the first
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if !spec.EndsWithUs {
		spec.Procs.prepare()
	}
	g, err := startGroup(cmd, spec.Procs, spec.Sandbox)
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	return &Spawned{Stdin: ours[0], Stdout: ours[1], Stderr: ours[2], procs: spec.Procs, g: g}, nil
}

// Pid is its number.
func (s *Spawned) Pid() int { return s.g.id }

// Exited is closed when the program has ended. What it started may run on.
func (s *Spawned) Exited() <-chan struct{} { return s.g.exited }

// Signal sends a signal to the program and all its descendants in its group.
func (s *Spawned) Signal(sig syscall.Signal) error {
	select {
	case <-s.g.exited:
		return os.ErrProcessDone
	default:
		return syscall.Kill(-s.g.id, sig)
	}
}

// Kill ends the program and all its descendants: SIGTERM, and SIGKILL after grace. It
// returns when they are gone.
func (s *Spawned) Kill(grace time.Duration) {
	s.g.kill(grace)
	s.procs.done(s.g, true)
}

// End is how the program ended: its code, or the number of the signal that killed it.
// It is asked when the program has.
func (s *Spawned) End() (code int, sig syscall.Signal, err error) {
	s.procs.done(s.g, false)
	if s.g.state == nil {
		return 0, 0, errors.Join(errors.New("wait for the program"), s.g.err)
	}
	if ws, ok := s.g.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 0, ws.Signal(), nil
	}
	return s.g.state.ExitCode(), 0, nil
}
