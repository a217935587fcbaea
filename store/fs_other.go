//go:build !unix

package store

// Lock does nothing where the system has no lock that ends with the process.
func (osFile) Lock() error { return nil }

// Size does not know of names here.
func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
