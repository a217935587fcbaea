package actors

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/protocol"
)

// headless is a lead whose other goroutines are counted, not run.
type headless struct {
	lead
	handed, relieved atomic.Int32
}

func newHeadless() *headless {
	s := new(headless)
	s.run = func(func()) { s.handed.Add(1) }
	return s
}

func (s *headless) relief() { s.relieved.Add(1) }

// TestLead: what a line sets off runs on the goroutine that read it, in order,
// one mailbox at a time.
func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHeadless()
		var ran []string
		assert.False(t, s.offer(func() {}), "nobody leads")
		var want []string
		reads := s.follow(func() {
			assert.True(t, s.offer(func() {
				ran = append(ran, "router")
				assert.True(t, s.offer(func() { ran = append(ran, "session") }))
			}))
			want = append(want, "router")
			for i := 1; i < leadQueue; i++ {
				assert.True(t, s.offer(func() { ran = append(ran, fmt.Sprint(i)) }))
				want = append(want, fmt.Sprint(i))
			}
			assert.False(t, s.offer(func() {}), "enough wait already")
			assert.Empty(t, ran, "not in the middle of another")
		}, s.relief)
		assert.True(t, reads)
		assert.Equal(t, append(want, "session"), ran)
		assert.False(t, s.offer(func() {}), "the turn is over")
		for range 1000 { // the guard looks all the while, and finds nothing wrong
			time.Sleep(leadLimit / 7)
			require.True(t, s.follow(func() {}, s.relief))
		}
		time.Sleep(time.Hour)
		assert.Zero(t, s.relieved.Load())
		assert.Zero(t, s.handed.Load())
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.False(t, s.awake, "the guard sleeps when no line comes")
	})
}

// TestLead_relief: a leader that is kept is relieved, once; what waited for it
// is run elsewhere; and for a while nobody leads.
func TestLead_relief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHeadless()
		began := time.Now()
		reads := s.follow(func() {
			for range 3 {
				assert.True(t, s.offer(func() { t.Error("run by who was relieved") }))
			}
			for end := began.Add(time.Minute); s.relieved.Load() == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			assert.LessOrEqual(t, time.Since(began), 2*leadLimit)
			assert.False(t, s.offer(func() {}))
		}, s.relief)
		assert.False(t, reads)
		assert.EqualValues(t, 3, s.handed.Load())
		assert.True(t, s.follow(func() { assert.False(t, s.offer(func() {}), "too early") }, s.relief))
		time.Sleep(leadPause)
		synctest.Wait()
		assert.True(t, s.follow(func() { assert.True(t, s.offer(func() {})) }, s.relief))
		assert.EqualValues(t, 1, s.relieved.Load())
	})
}

// TestLead_late: a leader that comes back while another one leads takes nothing
// from it.
func TestLead_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHeadless()
		back, over := make(chan bool), make(chan bool)
		go func() {
			assert.False(t, s.follow(func() { <-back }, s.relief))
			over <- true
		}()
		time.Sleep(leadLimit + leadPause)
		synctest.Wait()
		ran := false
		assert.True(t, s.follow(func() {
			require.True(t, s.offer(func() { ran = true }))
			back <- true
			<-over
			assert.False(t, ran)
		}, s.relief))
		assert.True(t, ran)
		assert.EqualValues(t, 1, s.relieved.Load())
	})
}

// TestLead_panic: a leader that panics leaves nothing behind that nobody runs,
// and is not relieved as well.
func TestLead_panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHeadless()
		assert.Panics(t, func() {
			s.follow(func() {
				s.offer(func() {})
				s.offer(func() {})
				panic("x")
			}, s.relief)
		})
		assert.EqualValues(t, 2, s.handed.Load())
		time.Sleep(time.Hour)
		assert.Zero(t, s.relieved.Load())
		assert.True(t, s.follow(func() {}, s.relief))
	})
}

// TestHungActors: whichever actor hangs on the goroutine that reads, others are
// served within twice the limit, and what it was told is not lost.
func TestHungActors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`(Stall (And (Actor "s1") (Msg "request") (OnIndex 1)))`))
		bad, good := b.open(), b.open()
		b.pass(time.Minute)
		hung := b.Send(`{"type":"get_state"` + at(bad) + `}`)
		began := time.Now()
		for i := range 50 {
			require.True(t, b.Call(t, `{"type":"set_session_name","name":"`+fmt.Sprint(i)+`"`+at(good)+`}`).Get("success").Bool())
			require.LessOrEqual(t, time.Since(began), 2*leadLimit)
			began = time.Now()
		}
		behind := b.Send(`{"type":"get_state"` + at(bad) + `}`)
		b.pass(time.Minute)
		require.Contains(t, b.Unanswered(), hung)
		b.cfg.Faults.Release()
		b.pass(time.Minute)
		assert.True(t, b.Answer(t, hung).Get("success").Bool())
		assert.True(t, b.Answer(t, behind).Get("success").Bool())
		b.end()
		b.check()
	})
}

// narrow takes some bytes of what is tried, and all of what is written.
type narrow struct {
	bytes.Buffer
	room  int // for each try
	err   error
	tries int
}

func (n *narrow) TryWrite(p []byte) (int, error) {
	n.tries++
	if n.err != nil {
		return 0, n.err
	}
	return n.Write(p[:min(n.room, len(p))])
}

// TestTryWrite: an answer is written at once if the client takes it; what it
// does not take is written by who may wait, and nothing overtakes it.
func TestTryWrite(t *testing.T) {
	for _, room := range []int{1 << 20, 300, 5, 0} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gates, _ := protocol.DialectUnion.Gates()
				out := &narrow{room: room}
				b := newBinOn(out, 1<<20, gates)
				b.lead.leading.Store(true)
				var want []string
				for i := range 100 {
					items := []item{response(fmt.Sprint(i))}
					if i%3 == 0 {
						items = append(items, response(fmt.Sprint(i, "b")))
					}
					for _, it := range items {
						want = append(want, strings.Trim(string(it.response.ID), `"`))
					}
					b.tell(items...)
					if i%10 == 0 {
						actortest.Settle()
					}
				}
				actortest.Settle()
				var got []string
				for line := range strings.Lines(out.String()) {
					got = append(got, gjson.Get(line, "id").Str)
				}
				assert.Equal(t, want, got)
				assert.NotZero(t, out.tries)
				b.end(t)
			})
		})
	}
}

// TestTryWrite_gone: a client that is gone is noticed there, too.
func TestTryWrite_gone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gates, _ := protocol.DialectUnion.Gates()
		b := newBinOn(&narrow{err: syscall.EPIPE}, 1<<20, gates)
		b.lead.leading.Store(true)
		b.tell(response("1"))
		actortest.Settle()
		assert.Equal(t, syscall.EPIPE, actortest.Expect[outputFailed](t, b.probe).err)
		b.end(t)
	})
}
