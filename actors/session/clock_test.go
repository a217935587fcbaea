package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors/core"
)

// TestWallClock checks which differences of the clocks are steps, and that each is reported once.
func TestWallClock(t *testing.T) {
	var w wallClock
	begin := time.Now()
	require.Zero(t, w.step(begin))
	require.Zero(t, w.step(begin.Add(time.Hour)), "time that passes is no step")
	require.EqualValues(t, 3_600_000, w.drift(2*time.Hour, time.Hour))
	require.Zero(t, w.drift(2*time.Hour+time.Minute, time.Hour+time.Minute))
	require.EqualValues(t, -7_200_000, w.drift(time.Minute, time.Hour+time.Minute))
	require.Zero(t, w.drift(time.Minute+900*time.Millisecond, time.Hour+time.Minute))
	require.EqualValues(t, 1100, w.drift(time.Minute+1100*time.Millisecond, time.Hour+time.Minute), "small ones add up")

	w = wallClock{began: begin, told: -time.Hour} // so that the clock looks as if it had been set since
	alone := []core.Input{core.Reloaded{}}
	require.Equal(t, alone, w.tell(alone, begin), "it comes alone")
	ins := []core.Input{core.TimerDue{}}
	require.Equal(t, []core.Input{core.ClockStepped{ByMs: 3_600_000}, core.TimerDue{}}, w.tell(ins, begin))
	require.Equal(t, ins, w.tell(ins, begin))
}
