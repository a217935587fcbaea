package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// How often garbage is collected: seldom where little lives, since that costs time; often
// where a thousand clients or a hundred tasks have much that lives, since that costs memory.
const (
	gcSeldom = 200
	gcOften  = 60
	gcMuch   = 12 << 20 // bytes that live
)

// tuneGC has every collection look at what lives, from now on.
func tuneGC() {
	debug.SetGCPercent(gcSeldom)
	lookAfterGC(&gcTuner{now: gcSeldom, much: gcMuch})
}

type gcTuner struct {
	stats runtime.MemStats
	now   int    // percent
	much  uint64 // bytes
}

// lookAfterGC looks when the next collection is over, and after each one that follows: that
// is when something dies. A process in which nothing happens is not woken up.
func lookAfterGC(t *gcTuner) {
	dies := new([16]byte) // of a class of its own: smaller ones share a block with what lives
	runtime.AddCleanup(dies, func(t *gcTuner) {
		t.look()
		lookAfterGC(t)
	}, t)
}

// look sets the percentage by what lived when the last collection was over: the size of the
// heap at which the next begins is that and so many percent of it. (runtime/metrics says it
// without arithmetic, and sorts its names at every start.)
func (t *gcTuner) look() {
	runtime.ReadMemStats(&t.stats)
	want := gcSeldom
	if t.stats.NextGC*100/uint64(100+t.now) > t.much {
		want = gcOften
	}
	if want != t.now {
		t.now = want
		debug.SetGCPercent(want)
	}
}

// idleMemory is by how many bytes the heap may have grown after a run without being collected for it.
const idleMemory = 32 << 20

// heapKept is the size of the heap when memory was returned last.
var heapKept atomic.Uint64

// giveBack returns memory to the system: always, or if the heap has grown much since it did so last. A large prompt
// leaves many times its size, and an idle process has no other reason to collect.
func giveBack(always bool) {
	kept := heapKept.Load()
	if always || residentHeap() > kept+max(idleMemory, kept/4) {
		debug.FreeOSMemory()
		heapKept.Store(residentHeap())
	}
}

// residentHeap is how many bytes of memory the heap has from the system.
func residentHeap() (bytes uint64) {
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(heap)
	for _, s := range heap {
		bytes += s.Value.Uint64()
	}
	return bytes
}
