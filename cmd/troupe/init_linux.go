package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// asInit does the duty of process 1, if that is what we are, in a container
// without an init: orphans become its children, and stay zombies unless it
// reaps them. The work is done by another troupe below it, so that nobody reaps
// what that one waits for.
func asInit() (code int, done bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	path, err := os.Executable()
	if err != nil {
		return 0, false
	}
	code, err = supervise(path, os.Args)
	return code, err == nil
}

// supervise runs a program as its init: it passes on signals, reaps everybody,
// and returns when the program has ended, with the code for that. The error
// says why it could not be started.
func supervise(path string, args []string) (code int, err error) {
	signals := make(chan os.Signal, 16)
	passed := []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	signal.Notify(signals, passed...)
	child, err := os.StartProcess(path, args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		signal.Reset(passed...)
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s) // fails only if it has ended
		}
	}()
	return reapUntil(child.Pid), nil
}

// reapUntil reaps children, by birth and adopted, up to the one that counts.
func reapUntil(last int) (code int) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no children: somebody else has reaped it
			return exitError
		case pid == last && status.Signaled():
			return 128 + int(status.Signal())
		case pid == last:
			return status.ExitStatus()
		}
	}
}
