//go:build unix && !linux

package bounded

import "golang.org/x/sys/unix"

const directoryOnly = unix.O_RDONLY
