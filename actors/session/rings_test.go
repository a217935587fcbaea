package session

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
)

// household is the parent of sessions, which are probes: they do nothing unless the test does it
// for them.
type household struct {
	*rig
	all      *sessions
	pid      *actor.PID
	sessions []*actortest.Probe
}

// newHousehold makes n sessions, the first of which has been idle longest.
func newHousehold(t *testing.T, n int, configure func(*Config)) *household {
	h := &household{rig: newWorld(t, "")}
	configure(&h.shared.Config)
	h.all = &sessions{kernel: h.kernel, shared: h.shared}
	h.pid = h.sys.Root.Spawn(h.kernel.KeepAlive(h.all, "sessions", kernel.RetryMessage))
	synctest.Wait()
	for i := range n {
		probe, handle := actortest.NewProbe(h.sys), fmt.Sprintf("p%d", i)
		h.sessions = append(h.sessions, probe)
		h.all.table[handle] = &member{
			pid: probe.PID, since: uint64(i), ring: h.shared.newRingAccount(),
			info: protocol.OpenSessionInfo{SessionID: handle, Status: "idle"},
		}
	}
	return h
}

func (h *household) member(i int) *member { return h.all.table[fmt.Sprintf("p%d", i)] }

// tell sends the parent messages.
func (h *household) tell(messages ...any) {
	for _, m := range messages {
		h.sys.Root.Send(h.pid, m)
	}
	synctest.Wait()
}

// told returns which sessions were sent a message of type M since it was last called.
func told[M any](h *household) (which []int) {
	for i, probe := range h.sessions {
		for _, m := range probe.Take() {
			if _, is := m.(M); is {
				which = append(which, i)
			}
		}
	}
	return which
}

func (h *household) end() {
	require.NoError(h.t, h.sys.Root.PoisonFuture(h.pid).Wait())
	h.rig.end()
}

// TestRingsForgetEnough: while a session has not dropped its ring yet, events of a busy one cost
// no other session its ring; as many drop theirs as it takes, and those that work come last.
func TestRingsForgetEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHousehold(t, 6, func(c *Config) { c.RingsBytes = 500 })
		for i := range 6 {
			h.member(i).ring.add(100)
		}
		h.member(0).info.Status = "running"
		for range 20 {
			h.tell(ringsFull{})
		}
		require.Equal(t, []int{1}, told[forgetRing](h), "one ring is enough")

		h.member(0).ring.add(150)
		for range 20 {
			h.tell(ringsFull{})
		}
		require.Equal(t, []int{2, 3}, told[forgetRing](h), "150 bytes more take two others")

		for _, i := range []int{1, 2, 3} {
			h.member(i).ring.add(-100)
			h.tell(ringForgotten{fmt.Sprintf("p%d", i)})
		}
		require.Empty(t, told[forgetRing](h))

		h.member(0).ring.add(400)
		h.tell(ringsFull{})
		require.Equal(t, []int{0, 4, 5}, told[forgetRing](h), "empty rings are passed over")
		h.end()
	})
}

// TestRingsFillMeanwhile checks that events which a session adds between its reply and the parent's turn are counted
// with the reply.
func TestRingsFillMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHousehold(t, 1, func(c *Config) { c.RingsBytes = 50 })
		h.member(0).ring.add(100)
		h.tell(ringsFull{}, ringsFull{})
		require.Equal(t, []int{0}, told[forgetRing](h))
		h.tell(ringForgotten{"p0"})
		require.Equal(t, []int{0}, told[forgetRing](h))
		h.end()
	})
}

// TestGivenUpHasNoRing checks that a session that was given up keeps no events: no client can resume it.
func TestGivenUpHasNoRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHousehold(t, 0, func(*Config) {})
		d := &durable{kernel: h.kernel, shared: h.shared, handle: "s1", file: logFile{foreign: &foreign{}}}
		d.clients.ring.sizes, d.clients.ring.on = h.shared.newRingAccount(), true
		d.clients.firstAsked()
		d.clients.emit(protocol.TurnStart{}, nil)
		d.clients.flush(h.sys.Root)
		require.Positive(t, h.shared.ringBytes.Load())
		h.sys.Root.Spawn(h.kernel.Props(func() actor.Actor {
			return actor.ReceiveFunc(func(c actor.Context) {
				if _, starts := c.Message().(*actor.Started); starts {
					(&crashGuard{newSession(d), d}).giveUp(c, c.Message())
				}
			})
		}, ""))
		synctest.Wait()
		assert.Zero(t, h.shared.ringBytes.Load())
		h.end()
	})
}

// TestRoomForOneSession: a new session ends one other where there are too many, none while one
// ends anyway, and another one in the place of one that stays.
func TestRoomForOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHousehold(t, 4, func(c *Config) { c.MaxSessions = 4 })
		for i := range 4 {
			info := &h.member(i).info
			info.Status, info.Retain, info.SessionFile = "parked", true, new("file")
		}
		spawned := 0
		spawn := func() {
			spawned++
			h.tell(link.SpawnSession{Spec: h.spec(link.OpenSpec{Retain: true}), Key: fmt.Sprint(spawned), Rules: h.rules})
		}
		spawn()
		require.Equal(t, []int{0}, told[makeRoom](h))
		h.tell(link.Closed{Handle: "p3"})
		spawn()
		require.Empty(t, told[makeRoom](h), "p0 ends, and p3 has ended")
		spawn()
		require.Equal(t, []int{1}, told[makeRoom](h))
		h.tell(roomRefused{"p1"})
		require.Equal(t, []int{2}, told[makeRoom](h))
		h.tell(roomRefused{"p1"})
		require.Empty(t, told[makeRoom](h))
		h.end()
	})
}
