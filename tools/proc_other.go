//go:build unix && !linux

package tools

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminateSignals end a group. It is stopped first and woken afterwards:
// otherwise a shell might see its child die and run the next command of its
// list before its own signal arrives.
var terminateSignals = []syscall.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGCONT}

func markCloseOnExec() {
	f, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// groupAlive counts zombies, too: there is no portable way to tell.
func groupAlive(group int) bool { return hasGroup(group) }

// markedPids finds nothing: other systems do not show the environment of a
// process. What leaves its process group stays behind there.
func markedPids(string) (pids []int, unsure bool) { return nil, false }

// kernelFile knows no such files: they are Linux's.
func kernelFile(*os.File) fileKind { return diskFile }
