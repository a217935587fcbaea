package tools

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminateSignals end a group. Linux sends a signal to all of a group before
// any of them can act on it. (SIGSTOP first, as on other systems, would do harm:
// of a SIGSTOP and a SIGCONT during a fork the child gets only the former.)
var terminateSignals = []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}

func markCloseOnExec() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	for _, fd := range numbers("/proc/self/fd") { // before Linux 5.11
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// groupAlive says that a member of the group is not a zombie. Orphans stay
// zombies for good where process 1 does not reap.
func groupAlive(group int) bool {
	if !hasGroup(group) {
		return false
	}
	for _, pid := range numbers("/proc") {
		stat, err := os.ReadFile(procFile(pid, "stat"))
		if err != nil {
			continue
		}
		// pid (comm) state ppid pgrp …, where comm may hold anything
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
			continue
		}
		if pgrp, err := strconv.Atoi(string(fields[2])); err == nil && pgrp == group {
			return true
		}
	}
	return false
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// markedPids finds the processes that were started with the mark in their
// environment, wherever they went since. Unsure says that some process shows no
// environment: it was given none, or is just being started.
func markedPids(mark string) (pids []int, unsure bool) {
	all := marks.look()
	for _, p := range all.list {
		if bytes.Contains(p.marks, []byte(mark)) {
			pids = append(pids, p.pid)
		}
	}
	return pids, all.unsure
}

// markedProcs are the processes of the system that bear marks, as somebody saw them.
type markedProcs struct {
	list   []markedProc
	unsure bool // some process shows no environment
}

type markedProc struct {
	pid   int
	marks []byte // the variable of its environment
}

// marks is shared: of a hundred commands that end at once each wants to know who is left,
// and to look at every process of the system for each takes longer than to end them.
var marks procScan

// procScan looks for processes with marks. Who asks while somebody looks waits for the
// next look: the present one may have passed what he wants to know.
type procScan struct {
	begun atomic.Int64 // looks
	mu    sync.Mutex   // one looks at a time
	last  markedProcs
	nth   int64 // of last
}

func (s *procScan) look() markedProcs {
	asked := s.begun.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nth > asked { // begun since
		return s.last
	}
	s.nth = s.begun.Add(1)
	s.last = scanMarks()
	return s.last
}

func scanMarks() (found markedProcs) {
	self := os.Getpid()
	for _, pid := range numbers("/proc") {
		if pid == self {
			continue
		}
		env, err := os.ReadFile(procFile(pid, "environ"))
		if err != nil {
			continue
		}
		if len(env) == 0 {
			found.unsure = found.unsure || hasMemory(pid)
			continue
		}
		if i := bytes.Index(env, []byte(markKey+"=")); i >= 0 {
			value, _, _ := bytes.Cut(env[i:], []byte{0})
			found.list = append(found.list, markedProc{pid, bytes.Clone(value)})
		}
	}
	return found
}

// hasMemory tells a program from a zombie or a thread of the kernel.
func hasMemory(pid int) bool {
	statm, err := os.ReadFile(procFile(pid, "statm"))
	return err == nil && !bytes.HasPrefix(statm, []byte("0 "))
}

// numbers lists the entries of dir whose names are numbers.
func numbers(dir string) (list []int) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // as many as there are
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// kernelFile tells files whose content the kernel makes up from others. What a
// link leads to counts, not its name.
func kernelFile(f *os.File) (kind fileKind) {
	conn, err := f.SyscallConn()
	if err != nil {
		return diskFile
	}
	_ = conn.Control(func(fd uintptr) { kind = kernelFD(int(fd)) }) // unlike Fd it leaves the deadlines alone
	return kind
}

func kernelFD(fd int) fileKind {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return diskFile
	}
	switch int64(fs.Type) {
	case unix.PROC_SUPER_MAGIC:
		path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil || strings.HasSuffix(path, "/environ") {
			return environFile
		}
		return anyKernel
	case unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return anyKernel
	}
	return diskFile
}
