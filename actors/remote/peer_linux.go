package remote

import (
	"errors"
	"net"
	"syscall"
)

// peerProcess says whose process a client on a socket is: the kernel knows.
func peerProcess(c net.Conn) (uid, pid int, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, 0, errors.New("no socket of the file system")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, 0, err
	}
	if failed != nil {
		return 0, 0, failed
	}
	return int(cred.Uid), int(cred.Pid), nil
}
