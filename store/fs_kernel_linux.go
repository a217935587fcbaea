package store

import "golang.org/x/sys/unix"

// isKernels says whether a file is one that the kernel makes up, as those below
// /proc and /sys are. They say that they are regular and empty, and some of them
// wait when they are read.
func (OS) isKernels(name string) bool {
	var st unix.Statfs_t
	if again(func() error { return unix.Statfs(name, &st) }) != nil {
		return false
	}
	switch int64(st.Type) & 0xffffffff {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC,
		unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.BINFMTFS_MAGIC:
		return true
	}
	return false
}
