package main

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestGCTuner: garbage is collected often while much lives, and seldom again when it is gone.
func TestGCTuner(t *testing.T) {
	was := debug.SetGCPercent(gcSeldom)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	runtime.GC()
	tuner := &gcTuner{now: gcSeldom}
	runtime.ReadMemStats(&tuner.stats)
	tuner.much = tuner.stats.HeapAlloc + gcMuch // other tests have left something
	look := func() int {
		runtime.GC()
		tuner.look()
		return tuner.now
	}
	assert.Equal(t, gcSeldom, look())
	lives = make([]byte, 4*gcMuch)
	assert.Equal(t, gcOften, look())
	assert.Equal(t, gcOften, look(), "at the other percentage as well")
	lives = nil
	assert.Equal(t, gcSeldom, look())
}

var lives []byte // a variable of the function may live longer than it is used

// TestGiveBack checks that much garbage is returned to the system.
func TestGiveBack(t *testing.T) {
	giveBack(true)
	before := residentHeap()
	lives = make([]byte, 4*idleMemory)
	for i := range lives {
		lives[i] = 1
	}
	assert.Greater(t, residentHeap(), before+3*idleMemory)
	lives = nil
	giveBack(false)
	assert.Less(t, residentHeap(), before+idleMemory)
}
