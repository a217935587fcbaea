package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a process may take to end after the tests. Processes that were sent SIGKILL end
// immediately, so the limit only matters on a busy machine.
const grace = 5 * time.Second

// supervise runs the tests and returns their exit code and the processes that they left running.
func supervise(binary string, args, env []string) (code int, left []string, err error) {
	// A process that loses its parent becomes a child of this one, see prctl(2).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, nil, err
	}
	unix.Umask(0o022)
	signals := make(chan os.Signal, 16) // a signal with a handler here is not ignored in the child
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	runtime.LockOSThread() // Pdeathsig refers to the thread
	child, err := os.StartProcess(binary, append([]string{binary}, args...), &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return 1, nil, err
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s) // fails only if it has ended
		}
	}()
	ended := make(chan int, 1)
	go reap(child.Pid, ended)
	code = <-ended
	return code, endAll(ended), nil
}

// reap waits for all child processes. It sends the exit code of pid and closes the channel when no
// child process is left.
func reap(pid int, ended chan<- int) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // ECHILD
			close(ended)
			return
		case got == pid && status.Signaled():
			ended <- 128 + int(status.Signal())
		case got == pid:
			ended <- status.ExitStatus()
		}
	}
}

// endAll kills the processes that do not end by themselves and describes them. gone is closed when
// no child process is left.
func endAll(gone <-chan int) (left []string) {
	select {
	case <-gone:
		return nil
	case <-time.After(grace):
	}
	for _, pid := range children() {
		left = append(left, describe(pid))
	}
	for end := time.Now().Add(grace); time.Now().Before(end); {
		for _, pid := range children() { // each round finds the children of processes killed before
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-gone:
			return left
		case <-time.After(10 * time.Millisecond):
		}
	}
	return append(left, "a process that cannot be killed")
}

// children returns the child processes of this one.
func children() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		content, _ := os.ReadFile(stat) // the process may be gone
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func describe(pid int) string {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
	return fmt.Sprintf("process %d: %s (in %s)", pid, bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}), cwd)
}

// exit ends the process without the second that the race detector waits for in os.Exit.
func exit(code int) { syscall.Exit(code) }
