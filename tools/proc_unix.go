//go:build unix

package tools

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// ownSession puts a command into a session, and so a process group, of its
// own. It has no terminal then, so what wants to ask for a password fails
// instead of waiting, and kill 0 in it reaches nobody else.
//
// There is no Pdeathsig on purpose: it reaches only the shell and not what the
// shell started, and it goes off when the thread that forked ends, which in Go
// is no event anybody controls. The [Guard] does the same job for all
// descendants.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// closeOnExec keeps file descriptors that this process inherited from its
// parent, which Go does not know of, from reaching its children.
var closeOnExec = sync.OnceFunc(markCloseOnExec)

// terminate asks every process of a group to end, the stopped ones, too.
func terminate(group int) {
	for _, sig := range terminateSignals {
		syscall.Kill(-group, sig) // fails only if nobody is left
	}
}

// hasGroup says that the group has members, if only zombies.
func hasGroup(group int) bool {
	return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
}

// exitCode is what a shell would report, 128+n for death by signal n, and the
// signal's name in that case.
func exitCode(state *os.ProcessState) (code int, signal string) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal().String()
	}
	return state.ExitCode(), ""
}
