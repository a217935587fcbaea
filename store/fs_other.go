//go:build !unix

package store

import "os"

// Lock does nothing where the system has no lock that ends with the process.
func (osFile) Lock() error { return nil }

func (OS) LockDir(string) (unlock func(), err error) { return func() {}, nil }

// Stamp knows size and time here.
func (OS) Stamp(name string) (Stamp, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Stamp{}, err
	}
	return Stamp{Size: st.Size(), Changed: st.ModTime().UnixNano()}, nil
}

func (f osFile) Stamp() (Stamp, error) {
	st, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	return Stamp{Size: st.Size(), Changed: st.ModTime().UnixNano()}, nil
}
