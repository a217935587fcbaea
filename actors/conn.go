package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// conn is one connection: a reader, a router and a writer. When its input ends,
// or the process is told to stop, it lets its sessions finish within a bound,
// writes out what they had to say, and reports. It does so once, whatever ends
// it and however many things do.
type conn struct {
	cfg      *Config
	log      zerolog.Logger
	sessions *actor.PID
	seq      *uint64
	done     chan<- error // receives once: nil after an orderly end, else why the output was cut

	reader, router, writer *actor.PID
	ending                 bool
	aborting               bool
	drained                bool // only output is still to be written
	over                   bool
	broken                 bool // a part has crashed: not all that was read may have been handled
	timers                 []*time.Timer
}

func (k *conn) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		k.start(c)
	case *actor.Stopping:
		k.finish(errConnectionBroken) // unless it has ended in order: whoever waits must not wait for ever
	case shutdown:
		k.end(c, m.abort)
		c.Send(k.router, m)
	case ending:
		k.end(c, m.abort)
	case drained:
		k.drained = true
		if !k.over {
			c.Request(k.writer, flush{})
		}
	case flushed:
		if m.err == nil && k.broken {
			m.err = errConnectionBroken
		}
		k.finish(m.err)
	case outputFailed:
		k.log.Info().Err(m.err).Msg("client is gone")
		k.end(c, true)
		c.Send(k.router, shutdown{abort: true})
	case deadline:
		k.deadline(c, m)
	case *actor.Terminated:
		k.childGone(c, m)
	}
}

func (k *conn) start(c actor.Context) {
	c.Watch(k.sessions)
	gates, _ := k.cfg.Dialect.Gates(k.cfg.Features...)
	w := newWindow(k.cfg.MaxOutput, c.ActorSystem().Root)
	if k.cfg.onWindow != nil {
		k.cfg.onWindow(w)
	}
	k.writer = k.spawn(c, "writer", &writer{out: k.cfg.Out, log: k.log, window: w, gates: gates, lead: k.cfg.lead()}, nil)
	r := &router{
		cfg: k.cfg, log: k.log, name: c.Self().Id + "/router", sessions: k.sessions, writer: k.writer, window: w,
		gates: gates, dialect: k.cfg.Dialect, seq: k.seq,
	}
	k.router = k.spawn(c, "router", r, r.mend)
	k.reader = k.spawn(c, "reader", &reader{in: k.cfg.In, max: k.cfg.MaxLine, router: k.router, window: w, lead: k.cfg.lead(), faults: k.cfg.Faults}, nil)
}

func (k *conn) spawn(c actor.Context, name string, a actor.Actor, mend func(actor.Context, any) bool) *actor.PID {
	pid, err := c.SpawnNamed(k.cfg.survivors(a, c.Self().Id+"/"+name, mend), name)
	if err != nil {
		panic(err)
	}
	return pid
}

// end begins the end, or tightens it.
func (k *conn) end(c actor.Context, abort bool) {
	if k.aborting || k.ending && !abort {
		return
	}
	k.ending, k.aborting = true, abort
	limit := k.cfg.DrainLimit
	if abort {
		limit = k.cfg.AbortLimit
	}
	self, root := c.Self(), c.ActorSystem().Root
	k.timers = append(k.timers, time.AfterFunc(limit, func() { root.Send(self, deadline{abort}) }))
}

// deadline is reached when sessions take too long: first they are made to stop,
// then they are not waited for any more.
func (k *conn) deadline(c actor.Context, m deadline) {
	if k.over {
		return
	}
	if !m.abort {
		k.log.Warn().Dur("limit", k.cfg.DrainLimit).Msg("run did not finish in time: aborting it")
		k.end(c, true)
		c.Send(k.router, shutdown{abort: true})
		return
	}
	if k.drained {
		k.finish(errFlushTimeout)
		return
	}
	k.log.Error().Dur("limit", k.cfg.AbortLimit).Msg("sessions did not stop in time")
	c.Request(k.writer, flush{})
	self, root := c.Self(), c.ActorSystem().Root
	k.timers = append(k.timers, time.AfterFunc(k.cfg.AbortLimit, func() { root.Send(self, flushed{errFlushTimeout}) }))
}

// childGone ends the connection when one of its parts has crashed.
func (k *conn) childGone(c actor.Context, m *actor.Terminated) {
	if k.over {
		return
	}
	k.log.Error().Str("actor", m.Who.Id).Msg("connection lost a part of it")
	if m.Who.Equal(k.router) || m.Who.Equal(k.sessions) { // nobody is left who could answer
		k.finish(errConnectionBroken)
		return
	}
	k.broken = true
	k.end(c, true)
	c.Send(k.router, shutdown{abort: true})
	if m.Who.Equal(k.writer) {
		k.finish(errConnectionBroken)
	}
}

func (k *conn) finish(err error) {
	if k.over {
		return
	}
	k.over = true
	k.stopTimers()
	k.done <- err
}

func (k *conn) stopTimers() {
	for _, t := range k.timers {
		t.Stop()
	}
}
