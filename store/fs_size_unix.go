//go:build unix && !linux

package store

// Size is how long the file is now.
func (f osFile) Size() (int64, error) { return f.fstat() }
