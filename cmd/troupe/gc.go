package main

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How often garbage is collected: seldom where little lives, since that costs time; often
// where a thousand clients have much that lives, since that costs memory.
const (
	gcSeldom  = 200
	gcOften   = 60
	gcMuch    = 12 << 20 // bytes that live
	gcLooking = time.Second
)

// startOver is when what only the start has needed is let go.
const startOver = 50 * time.Millisecond

// tuneGC looks from time to time at what lives, until over is closed.
func tuneGC(over <-chan struct{}) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := gcSeldom
	debug.SetGCPercent(now)
	tick := time.NewTicker(gcLooking)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		metrics.Read(live)
		want := gcSeldom
		if live[0].Value.Kind() == metrics.KindUint64 && live[0].Value.Uint64() > gcMuch {
			want = gcOften
		}
		if want != now {
			now = want
			debug.SetGCPercent(now)
		}
	}
}
