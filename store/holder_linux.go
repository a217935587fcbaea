package store

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Holder is the process that holds the lock on a session file, 0 if none is
// known.
func Holder(path string) int {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	// 1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF
	inode := ":" + strconv.FormatUint(sys.Ino, 10)
	for scan := bufio.NewScanner(locks); scan.Scan(); {
		f := strings.Fields(scan.Text())
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], inode) {
			continue
		}
		var major, minor uint64
		if _, err := fmt.Sscanf(f[5], "%x:%x:", &major, &minor); err != nil || major != devMajor(sys.Dev) || minor != devMinor(sys.Dev) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}

// devMajor and devMinor take a device number apart as the kernel does.
func devMajor(dev uint64) uint64 { return dev>>8&0xfff | dev>>32&^0xfff }
func devMinor(dev uint64) uint64 { return dev&0xff | dev>>12&^0xff }
