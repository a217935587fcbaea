package session

import (
	"time"

	"troupe/actors/core"
)

// wallClock finds steps of the system's clock, which a machine has to know: it counts durations by the
// times of its inputs, and a step, or the sleep of a laptop, is no part of any. The zero value has seen
// none.
type wallClock struct {
	began time.Time     // the first time it was asked, with the monotonic clock
	told  time.Duration // all steps so far
}

// leastStep is the difference of the two clocks from which on it is a step. Corrections below that are
// told when they have come to as much.
const leastStep = time.Second

// step returns by how many milliseconds the clock was set since it was last asked, 0 for none.
func (w *wallClock) step(now time.Time) int64 {
	if w.began.IsZero() {
		w.began = now
		return 0
	}
	return w.drift(now.Round(0).Sub(w.began.Round(0)), now.Sub(w.began)) // Round removes the monotonic clock
}

// drift compares how long it is since the beginning by both clocks.
func (w *wallClock) drift(wall, monotonic time.Duration) int64 {
	by := wall - monotonic - w.told
	if by.Abs() < leastStep {
		return 0
	}
	w.told += by.Truncate(time.Millisecond)
	return by.Milliseconds()
}

// tell has the machine hear of a step of the clock before other inputs. Of those that come alone, or
// before all others, none is added to: then the next step says it.
func (w *wallClock) tell(ins []core.Input, now time.Time) []core.Input {
	switch ins[0].(type) {
	case core.Restored, core.Reloaded:
		return ins
	}
	if by := w.step(now); by != 0 {
		return append([]core.Input{core.ClockStepped{ByMs: by}}, ins...)
	}
	return ins
}
