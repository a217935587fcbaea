package prefault

import (
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestHeapIsMapped: the pages behind the first object of the heap are there, whether
// somebody has asked for them or not.
func TestHeapIsMapped(t *testing.T) {
	own, err := unix.Mmap(-1, 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	if unix.Madvise(own, populateWrite) != nil {
		t.Skip("this kernel does not map pages before they are asked for")
	}
	const chunk = 4 << 20 // what the runtime maps at a time, as far as we can rely on
	page := uintptr(syscall.Getpagesize())
	from := uintptr(unsafe.Pointer(first)) &^ (page - 1)
	n := min(size, chunk-from%chunk)
	there := make([]byte, n/page)
	_, _, e := syscall.Syscall(syscall.SYS_MINCORE, from, n, uintptr(unsafe.Pointer(&there[0])))
	require.Zero(t, e)
	assert.Equal(t, -1, slices.IndexFunc(there, func(b byte) bool { return b&1 == 0 }), "of %d pages", len(there))
}
