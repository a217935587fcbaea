package tools

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
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
	rightsOnFiles = landlock.AccessFSWriteFile | landlock.AccessFSTruncate
	rightsOnDirs  = landlock.AccessFSRemoveDir | landlock.AccessFSRemoveFile | landlock.AccessFSMakeChar | landlock.AccessFSMakeDir | landlock.AccessFSMakeReg |
		landlock.AccessFSMakeSock | landlock.AccessFSMakeFifo | landlock.AccessFSMakeBlock | landlock.AccessFSMakeSym | landlock.AccessFSRefer
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
	version, err := landlock.LandlockGetABIVersion()
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
	if s.Files != SandboxOff {
		if err := dropCapabilities(); err != nil {
			return fmt.Errorf("capabilities: %w", err)
		}
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
	version, err := landlock.LandlockGetABIVersion()
	if err != nil {
		return err
	}
	attr := landlock.RulesetAttr{HandledAccessFS: landlock.AccessFSMakeBlock}
	if s.Files != SandboxOff {
		attr.HandledAccessFS = rightsOnFiles | rightsOnDirs
		if version >= landlockIoctl {
			attr.HandledAccessFS |= landlock.AccessFSIoctlDev
		}
	}
	if version >= landlockScopes {
		attr.Scoped = landlock.ScopeAbstractUnixSocket
	}
	rules, err := landlock.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return err
	}
	defer unix.Close(rules)
	switch {
	case s.Files == SandboxOff:
		err = permit(rules, "/", attr.HandledAccessFS)
	default:
		err = permitDevices(rules, attr.HandledAccessFS)
	}
	if err == nil && s.Files == SandboxWorkspace { // a device that a program makes is a way past all files
		err = s.permitWriting(rules, attr.HandledAccessFS&^(landlock.AccessFSMakeChar|landlock.AccessFSMakeBlock))
	}
	if err != nil {
		return err
	}
	return landlock.LandlockRestrictSelf(rules, 0) // this thread, and no other
}

// permitDevices allows writing to devices that programs cannot do without.
func permitDevices(rules int, rights uint64) error {
	for _, device := range devices {
		if err := permit(rules, device, rights&^rightsOnDirs); err != nil && !errors.Is(err, os.ErrNotExist) {
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
	return permitAt(rules, fd, path, rights)
}

// permitAt is permit for a file that is open.
func permitAt(rules, fd int, path string, rights uint64) error {
	if err := landlock.LandlockAddPathBeneathRule(rules, &landlock.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0); err != nil {
		return &os.PathError{Op: "permit", Path: path, Err: err}
	}
	return nil
}

// keptCapabilities are what programs of root need for files and processes. Those that are not
// here reach the whole system, past any file: its clock, name, swap, modules, mounts, devices,
// interfaces.
var keptCapabilities = [...]int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP,
	unix.CAP_SETFCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SYS_CHROOT, unix.CAP_AUDIT_WRITE,
}

// dropCapabilities leaves this thread those that are kept. What it starts gets none back: it has
// no new privileges.
func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return err
	}
	var kept [2]uint32
	for _, c := range keptCapabilities {
		kept[c/32] |= 1 << (c % 32)
	}
	for i := range have {
		have[i].Effective &= kept[i]
		have[i].Permitted &= kept[i]
		have[i].Inheritable &= kept[i]
	}
	return unix.Capset(&head, &have[0])
}

// auditArch is how filters know the system calls of this processor; 0 is not at all.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// x32 begins the numbers of a second set of system calls on amd64.
const x32 = 0x40000000

// Places in the data that a filter sees.
const (
	seccompNumber   = 0
	seccompArch     = 4
	seccompArgument = 16 // the lower half of the first; each has eight bytes
)

// socketType is the part of the type of a socket that is no flag.
const socketType = 0xf

// denySockets has the system refuse to make sockets, but for pairs that are connected to
// each other for good, and to take calls by a ring, which no filter sees. A pair for datagrams can
// send elsewhere.
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
		jump(unix.BPF_JEQ, auditArch, 0, 11), // programs for another processor make no calls at all
		load(seccompNumber),
		jump(unix.BPF_JGE, x32, 9, 0),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 8, 0),
		jump(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, 7, 0),
		jump(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, 0, 7),
		load(seccompArgument),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 0, 4),
		load(seccompArgument + 8),
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: socketType},
		jump(unix.BPF_JEQ, unix.SOCK_STREAM, 2, 0),
		jump(unix.BPF_JEQ, unix.SOCK_SEQPACKET, 1, 0),
		end(refuse),
		end(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
