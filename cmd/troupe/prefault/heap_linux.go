package prefault

import (
	"syscall"
	"unsafe"
)

// size is about what the initialisers take, in bytes: pages that nobody would have asked for
// would count as memory of the process.
const size = 1 << 20

// populateWrite is MADV_POPULATE_WRITE of Linux 5.14 (madvise(2)). Older kernels refuse it,
// and pages come one by one.
const populateWrite = 23

// first lies near the beginning of the heap. It stays, so that it is allocated there.
var first = new([64]byte)

func init() {
	from := uintptr(unsafe.Pointer(first)) &^ uintptr(syscall.Getpagesize()-1)
	// Where the heap ends before, this fails behind the pages that there are.
	_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, from, size, populateWrite)
}
