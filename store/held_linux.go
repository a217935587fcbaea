package store

// isKernels is that of [OS].
func (h Held) isKernels(name string) bool { return OS{}.isKernels(name) }
