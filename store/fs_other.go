//go:build !unix

package store

// Lock does nothing where the system has no lock that ends with the process.
func (osFile) Lock() error { return nil }
