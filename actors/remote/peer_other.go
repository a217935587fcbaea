//go:build !linux

package remote

import (
	"net"
	"os"
)

// peerProcess trusts the modes of the socket and of its directory: only this user gets as
// far as here.
func peerProcess(net.Conn) (uid, pid int, err error) { return os.Getuid(), 0, nil }
