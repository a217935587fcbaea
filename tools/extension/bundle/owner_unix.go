//go:build unix

package bundle

import (
	"io/fs"
	"os"
	"syscall"
)

// mine says that a file belongs to the user of this process.
func mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
