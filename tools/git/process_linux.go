package git

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// processStart says when a process started, and in which life of the system. A
// number is given again, but not with the same start. "" is no process.
func processStart(pid int) (start, boot string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	// The name before may have spaces and brackets in it.
	after := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(after) < 20 {
		return "", ""
	}
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return after[19], strings.TrimSpace(string(id))
}

// cloneFile makes a file that shares the blocks of another.
func cloneFile(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }
