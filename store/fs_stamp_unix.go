//go:build unix && !linux

package store

func stampOf(fd int) (Stamp, error)      { return fstat(fd) }
func stampAt(name string) (Stamp, error) { return stat(name) }
