package git

import (
	"fmt"
	"os"
	"slices"
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

// spread has the file system put each directory in a directory apart from its neighbours.
// An ext4 without a journal looks at every file that was removed in the last minutes before
// it makes one in the same place: beside a workspace of 1,000 files that has just gone, those of
// the next took 20 times as long. Where this means nothing, nothing happens.
func spread(dir string) {
	const apart = 0x20000 // FS_TOPDIR_FL
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	if flags, err := unix.IoctlGetUint32(int(d.Fd()), unix.FS_IOC_GETFLAGS); err == nil && flags&apart == 0 {
		_ = unix.IoctlSetPointerInt(int(d.Fd()), unix.FS_IOC_SETFLAGS, int(flags|apart))
	}
}

// withoutPOSIX are the file systems that may lack symbolic links or the mode of a file, by their magic
// numbers: FAT, exFAT, NTFS, CIFS, 9P, and FUSE, which may serve any file system.
var withoutPOSIX = []int64{
	unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, 0x5346544e, 0x7366746e, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
	unix.SMB_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC,
}

// isPOSIX reports whether the file system of a directory is known to keep symbolic links and modes.
func isPOSIX(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	return !slices.Contains(withoutPOSIX, int64(uint32(st.Type)))
}

// cloneFile makes a file that shares the blocks of another.
func cloneFile(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }
