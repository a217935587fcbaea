package tools

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sandbox is a Landlock domain and a filter of system calls, which bind a thread and
// whatever is started from it. So what is to be confined happens on a thread of its own,
// which ends with it: the rest of this process is not bound. That costs a tenth of a
// millisecond, where another program in between, that confines itself and then becomes
// the command, costs the start of a program of our size.

// leastLandlock is the version that also keeps files from being truncated (Linux 6.2).
const leastLandlock = 3

// Landlock versions that brought a right.
const (
	landlockIoctl  = 5
	landlockScopes = 6
)

const (
	rightsOnFiles = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	rightsOnDirs  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
)

// devices may always be written to.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// temporary are the directories for temporary files beside that of TMPDIR.
var temporary = []string{"/tmp", "/var/tmp", "/dev/shm"}

// Check says why this machine cannot provide a sandbox; nil if it can.
func (s Sandbox) Check() error {
	if !s.On() {
		return nil
	}
	version, err := landlockVersion()
	if err != nil {
		return &SandboxError{fmt.Errorf("this kernel has no Landlock: %w", err)}
	}
	if version < leastLandlock {
		return &SandboxError{fmt.Errorf("this kernel has version %d of Landlock, and %d is needed (Linux 6.2)", version, leastLandlock)}
	}
	if s.NoNetwork && auditArch == 0 {
		return &SandboxError{errors.New("on this processor the network cannot be switched off")}
	}
	return nil
}

// Do runs f on a thread that the sandbox binds, with all that f starts. It is for what
// happens in this process; nothing of f is bound that it has others do.
func (s Sandbox) Do(f func() error) error {
	if !s.On() {
		return f()
	}
	var err error
	var broken any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { broken = recover() }()
		// Never unlocked: the thread ends with this function, and is nobody else's.
		runtime.LockOSThread()
		if err = s.bind(); err == nil {
			err = f()
		}
	}()
	<-done
	if broken != nil {
		panic(broken)
	}
	return err
}

// bind confines this thread for good.
func (s Sandbox) bind() error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := s.restrict(); err != nil {
		return &SandboxError{err}
	}
	return nil
}

func (s Sandbox) restrict() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := s.bindFiles(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if s.NoNetwork {
		if err := denySockets(); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	return nil
}

// bindFiles makes a domain. There is one without limits for files, too: it keeps
// programs from looking into processes outside, and from having those do what they
// must not.
func (s Sandbox) bindFiles() error {
	version, err := landlockVersion()
	if err != nil {
		return err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK}
	if s.Files != SandboxOff {
		attr.Handled_access_fs = rightsOnFiles | rightsOnDirs
		if version >= landlockIoctl {
			attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		}
	}
	if version >= landlockScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	rules := int(fd)
	defer unix.Close(rules)
	if s.Files == SandboxOff {
		err = permit(rules, "/", attr.Handled_access_fs)
	} else {
		err = s.permitWriting(rules, attr.Handled_access_fs)
	}
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// landlockVersion asks the kernel.
func landlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(version), nil
}

func (s Sandbox) permitWriting(rules int, rights uint64) error {
	for _, device := range devices {
		if err := permit(rules, device, rights&^rightsOnDirs); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if s.Files == SandboxReadOnly {
		return nil
	}
	if err := permit(rules, s.Workspace, rights); err != nil {
		return err
	}
	for _, dir := range append([]string{os.TempDir()}, temporary...) {
		if err := permit(rules, dir, rights); err != nil && !errors.Is(err, os.ErrNotExist) && filepath.IsAbs(dir) {
			return err
		}
	}
	return nil
}

func permit(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return &os.PathError{Op: "permit", Path: path, Err: errno}
	}
	return nil
}

// auditArch is how filters know the system calls of this processor; 0 is not at all.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// x32 begins the numbers of a second set of system calls on amd64.
const x32 = 0x40000000

// Places in the data that a filter sees.
const (
	seccompNumber = 0
	seccompArch   = 4
)

// denySockets has the system refuse to make sockets, but for pairs that are connected to
// each other, and to take calls by a ring, which no filter sees.
func denySockets() error {
	const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{
		load(seccompArch),
		jump(unix.BPF_JEQ, auditArch, 0, 5), // programs for another processor make no calls at all
		load(seccompNumber),
		jump(unix.BPF_JGE, x32, 3, 0),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 2, 0),
		jump(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, 1, 0),
		end(unix.SECCOMP_RET_ALLOW),
		end(refuse),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
