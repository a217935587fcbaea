//go:build unix && !linux

package git

import (
	"errors"
	"os"
	"syscall"
)

// processStart knows only whether there is a process of that number: a workspace
// whose number was given again is kept.
func processStart(pid int) (start, boot string) {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return "", ""
	}
	return "?", ""
}

// isPOSIX is false where that is not known: the configuration of the repository counts.
func isPOSIX(string) bool { return false }

func spread(string) {}

func cloneFile(*os.File, *os.File) error { return errors.ErrUnsupported }
