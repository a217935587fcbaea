package extension

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func systemNames() (release, version, name string) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "", "", "Linux"
	}
	return unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:]), unix.ByteSliceToString(u.Sysname[:])
}

func totalMemory() uint64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return uint64(s.Totalram) * uint64(s.Unit)
}

// statRecord is a file as Node describes it.
func statRecord(info fs.FileInfo) map[string]any {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return map[string]any{"size": info.Size(), "mode": uint32(info.Mode().Perm()), "mtimeMs": float64(info.ModTime().UnixNano()) / 1e6}
	}
	ms := func(t syscall.Timespec) float64 { return float64(t.Sec)*1e3 + float64(t.Nsec)/1e6 }
	return map[string]any{
		"dev": st.Dev, "ino": st.Ino, "mode": st.Mode, "nlink": st.Nlink, "uid": st.Uid, "gid": st.Gid, "size": st.Size, "blocks": st.Blocks,
		"blksize": st.Blksize, "atimeMs": ms(st.Atim), "mtimeMs": ms(st.Mtim), "ctimeMs": ms(st.Ctim), "birthtimeMs": ms(st.Ctim),
	}
}

// cpuOf is how much of the processor a process has used, -1 if nobody says.
func cpuOf(pid int) time.Duration {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return -1
	}
	_, rest, _ := strings.Cut(string(data), ") ") // its name may have blanks
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return -1
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return -1
	}
	const tick = time.Second / 100 // USER_HZ, which is part of the kernel's interface
	return time.Duration(user+system) * tick
}
