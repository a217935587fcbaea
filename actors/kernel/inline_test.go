package kernel

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counted runs nothing elsewhere, but counts it.
type counted struct {
	inline
	handed, taken atomic.Int32
}

func newCounted() *counted {
	s := new(counted)
	s.elsewhere = func(func()) { s.handed.Add(1) }
	return s
}

func (s *counted) takeOver() { s.taken.Add(1) }

// TestInline: what a line sets off runs on the goroutine that read it, in order,
// one mailbox at a time.
func TestInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		var ran []string
		assert.False(t, s.trySchedule(func() {}), "no turn is on")
		var want []string
		reads := s.Inline(func() {
			assert.True(t, s.trySchedule(func() {
				ran = append(ran, "router")
				assert.True(t, s.trySchedule(func() { ran = append(ran, "session") }))
			}))
			want = append(want, "router")
			for i := 1; i < inlineQueue; i++ {
				assert.True(t, s.trySchedule(func() { ran = append(ran, fmt.Sprint(i)) }))
				want = append(want, fmt.Sprint(i))
			}
			assert.False(t, s.trySchedule(func() {}), "enough wait already")
			assert.Empty(t, ran, "not in the middle of another")
		}, s.takeOver)
		assert.True(t, reads)
		assert.Equal(t, append(want, "session"), ran)
		assert.False(t, s.trySchedule(func() {}), "the turn is over")
		for range 1000 { // the watchdog looks all the while, and finds nothing wrong
			time.Sleep(InlineLimit / 7)
			require.True(t, s.Inline(func() {}, s.takeOver))
		}
		time.Sleep(time.Hour)
		assert.Zero(t, s.taken.Load())
		assert.Zero(t, s.handed.Load())
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.False(t, s.watchdog.awake, "the watchdog sleeps when no line comes")
	})
}

// TestInline_takenOver: when a turn lasts too long, another goroutine reads on,
// once; what waited is run elsewhere; and for a while nothing is run inline.
func TestInline_takenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		began := time.Now()
		reads := s.Inline(func() {
			for range 3 {
				assert.True(t, s.trySchedule(func() { t.Error("run by a turn that was ended") }))
			}
			for end := began.Add(time.Minute); s.taken.Load() == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			assert.LessOrEqual(t, time.Since(began), 2*InlineLimit)
			assert.False(t, s.trySchedule(func() {}))
		}, s.takeOver)
		assert.False(t, reads)
		assert.EqualValues(t, 3, s.handed.Load())
		assert.True(t, s.Inline(func() { assert.False(t, s.trySchedule(func() {}), "too early") }, s.takeOver))
		time.Sleep(inlinePause)
		synctest.Wait()
		assert.True(t, s.Inline(func() { assert.True(t, s.trySchedule(func() {})) }, s.takeOver))
		assert.EqualValues(t, 1, s.taken.Load())
	})
}

// TestInline_late: a turn that was ended takes nothing from the one that is on.
func TestInline_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		back, over := make(chan bool), make(chan bool)
		go func() {
			assert.False(t, s.Inline(func() { <-back }, s.takeOver))
			over <- true
		}()
		time.Sleep(InlineLimit + inlinePause)
		synctest.Wait()
		ran := false
		assert.True(t, s.Inline(func() {
			require.True(t, s.trySchedule(func() { ran = true }))
			back <- true
			<-over
			assert.False(t, ran)
		}, s.takeOver))
		assert.True(t, ran)
		assert.EqualValues(t, 1, s.taken.Load())
	})
}

// TestInline_panic: a turn that ends by a panic leaves nothing behind that nobody
// runs, and nobody takes over as well.
func TestInline_panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		assert.Panics(t, func() {
			s.Inline(func() {
				s.trySchedule(func() {})
				s.trySchedule(func() {})
				panic("x")
			}, s.takeOver)
		})
		assert.EqualValues(t, 2, s.handed.Load())
		time.Sleep(time.Hour)
		assert.Zero(t, s.taken.Load())
		assert.True(t, s.Inline(func() {}, s.takeOver))
	})
}

// TestInlineOfTwo: while one goroutine runs what its line sets off, another one
// that reads does not, and both read on.
func TestInlineOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		var order []string
		reads := s.Inline(func() {
			assert.True(t, s.trySchedule(func() {
				assert.True(t, s.Inline(func() { order = append(order, "the other's line") }, s.takeOver))
				assert.True(t, s.trySchedule(func() { order = append(order, "what was set off later") }), "the turn is still on")
			}))
		}, s.takeOver)
		assert.True(t, reads, "the first goes on reading")
		assert.Equal(t, []string{"the other's line", "what was set off later"}, order)
		assert.Zero(t, s.taken.Load())
	})
}

// TestInline_first: what is said first goes before mailboxes that have become ready meanwhile,
// also where those are as many as a turn takes; of these there is a limit as well.
func TestInline_first(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		var ran []string
		assert.True(t, s.Inline(func() {
			for range inlineQueue {
				assert.True(t, s.trySchedule(func() { ran = append(ran, "another") }))
			}
			s.First(func() {
				for range inlineQueue {
					assert.True(t, s.trySchedule(func() { ran = append(ran, "first") }))
				}
				assert.False(t, s.trySchedule(func() {}), "enough wait already")
			})
			assert.Panics(t, func() { s.First(func() { panic("x") }) })
			assert.False(t, s.trySchedule(func() {}), "it is over")
		}, s.takeOver))
		require.Len(t, ran, 2*inlineQueue)
		assert.Equal(t, slices.Repeat([]string{"first"}, inlineQueue), ran[:inlineQueue])
	})
}

// TestAtEnd: what is for the end of a turn is done when nothing of the turn is left to run, at
// once where none is on, and also when the turn does not end by itself.
func TestAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		var order []string
		note := func(what string) func() { return func() { order = append(order, what) } }
		s.AtEnd(note("no turn"))
		assert.True(t, s.Inline(func() {
			s.AtEnd(func() {
				assert.False(t, s.Inlining())
				note("end")()
			})
			assert.True(t, s.trySchedule(func() {
				note("mailbox")()
				s.AtEnd(note("of the mailbox"))
				assert.True(t, s.trySchedule(note("last mailbox")))
			}))
		}, s.takeOver))
		assert.Equal(t, []string{"no turn", "mailbox", "last mailbox", "end", "of the mailbox"}, order)

		assert.Panics(t, func() { s.Inline(func() { s.AtEnd(func() {}); panic("x") }, s.takeOver) })
		assert.EqualValues(t, 1, s.handed.Load(), "a panic")
		s.Inline(func() {
			s.AtEnd(func() {})
			time.Sleep(3 * InlineLimit)
			assert.EqualValues(t, 2, s.handed.Load(), "a turn that was ended")
		}, s.takeOver)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 2, s.handed.Load(), "once")
	})
}
