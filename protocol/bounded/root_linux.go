package bounded

import "golang.org/x/sys/unix"

// directoryOnly opens a directory that may be searched, also one that may not be read.
const directoryOnly = unix.O_PATH
