package extension

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

// yield lets others have the processor.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }

// loadavg says, among others, how many threads of the machine run or could: proc(5).
var loadavg = sync.OnceValue(func() *os.File {
	f, _ := os.Open("/proc/loadavg") // nil if nobody says
	return f
})

// spare says whether a processor would be idle else: one who waits awake takes it from nobody.
func spare() bool {
	var text [64]byte
	n, _ := loadavg().ReadAt(text[:], 0) // nothing if nobody says
	return idle(string(text[:n]), runtime.NumCPU())
}

// idle reads it from what the kernel says, in which who reads is among those that run.
func idle(load string, processors int) bool {
	fields := strings.Fields(load)
	if len(fields) < 4 {
		return false
	}
	running, _, _ := strings.Cut(fields[3], "/")
	many, err := strconv.Atoi(running)
	return err == nil && many <= processors && processors > 1
}
