package conn

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/relay"
)

// conn is one connection: a reader, a router and a writer. It ends when its
// client says no more, reads no more or is to be left, and then writes out what
// its sessions still have to say. It ends once, whatever ends it and however many
// things do, and ends nothing that is not its own. How long its sessions may
// take is not its decision: see [Cut].
type conn struct {
	kernel    *kernel.Kernel
	server    *Server
	cfg       Config
	transport Transport

	reader, router, writer *actor.PID
	drained                bool        // only output is still to be written
	cut                    bool        // its sessions are not waited for any more
	why                    error       // what it ends with although nothing else is wrong: a part has crashed, or a newer connection has taken its place
	over                   bool        // the parent has been told
	limit                  *time.Timer // of the last flush; nil before it
}

func (k *conn) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		k.start(c)
	case *actor.Stopping:
		c.Unwatch(k.server.Sessions)     // who is watched outlives this, and would hold it
		k.finish(c, ErrConnectionBroken) // unless it has ended in order: whoever waits must not wait for ever
	case Shutdown:
		if !k.cfg.Final {
			c.Send(k.writer, hurry{})
		}
		c.Send(k.router, m)
	case ending:
		k.tell(c, m.abort)
	case drained:
		k.drain(c)
	case flushed:
		k.finish(c, cmp.Or(m.err, k.why))
	case replaced:
		k.why = ErrReplaced
		c.Send(k.router, clientLost{deaf: true})
	case outputFailed:
		k.kernel.Log.Info().Err(m.err).Msg("client is gone")
		c.Send(k.router, clientLost{deaf: true})
	case Cut:
		k.cutShort(c)
	case lateFlush:
		k.finish(c, ErrUnread)
	case *actor.Terminated:
		k.childGone(c, m)
	}
}

func (k *conn) start(c actor.Context) {
	c.Watch(k.server.Sessions)
	wire, rules, _ := k.cfg.Dialect.Open(k.cfg.Features...)
	w := link.NewWindow(k.cfg.MaxOutput, c.ActorSystem().Root)
	lags := lag{most: k.cfg.Lag, others: &k.server.lossy}
	if k.cfg.Lag > 0 {
		k.server.lossy.Add(1)
		w = link.NewLossyWindow(k.cfg.MaxOutput, c.ActorSystem().Root)
	}
	if k.cfg.OnWindow != nil {
		k.cfg.OnWindow(w)
	}
	name, runs, faults := k.name(c), k.kernel.Dispatcher, k.kernel.Faults
	stream, isStream := k.transport.(Stream)
	local, isLocal := k.transport.(values)
	switch {
	case isStream:
		k.writer = k.spawn(c, "writer", newWriter(stream, runs, w, k.cfg.Codec, wire, k.kernel.Log, lags), nil)
	case isLocal:
		k.writer = k.spawn(c, "writer", &delivery{local.Client, w}, kernel.RetryMessage)
	default:
		panic(fmt.Sprintf("conn: %T carries neither bytes nor values", k.transport))
	}
	r := &router{
		cfg: &k.cfg, server: k.server, faults: faults, name: name + "/router",
		out: link.Client{Writer: k.writer, Window: w, Wire: &wire}, rules: rules,
	}
	var far *actor.PID
	if k.server.Cluster != nil && isStream {
		a, onPanic := relay.New(k.kernel, k.server.Cluster, r.out, k.cfg.identity(), k.cfg.Peer)
		far = k.spawn(c, "relay", a, onPanic)
		r.routes.relay = far
	}
	k.router = k.spawn(c, "router", r, r.onPanic) // r is its own from here on
	if far != nil {
		c.Send(far, relay.Begin{Router: k.router})
	}
	if isLocal {
		local.connected(c.ActorSystem().Root, k.router, w)
		return
	}
	k.reader = k.spawn(c, "reader", &reader{lines: k.cfg.Codec.Frames(stream, k.cfg.MaxLine), name: name + "/reader", router: k.router, window: w, runs: runs, faults: faults}, nil)
}

// name is the connection's name in fault plans.
func (k *conn) name(c actor.Context) string { return path.Base(c.Self().Id) }

func (k *conn) spawn(c actor.Context, name string, a actor.Actor, onPanic func(actor.Context, any) bool) *actor.PID {
	pid, err := c.SpawnNamed(k.kernel.KeepAlive(a, k.name(c)+"/"+name, onPanic), name)
	if err != nil {
		panic(err)
	}
	return pid
}

// tell tells the parent that the end has begun.
func (k *conn) tell(c actor.Context, abort bool) {
	if !k.over {
		c.Send(c.Parent(), Ending{c.Self(), abort})
	}
}

// drain writes out what is left, when nothing more will be said.
func (k *conn) drain(c actor.Context) {
	k.drained = true
	if errors.Is(k.why, ErrReplaced) { // nobody reads
		k.finish(c, k.why)
		return
	}
	if !k.over && k.limit == nil {
		c.Request(k.writer, flush{})
		k.limit = kernel.After(c, FlushLimit, c.Self(), lateFlush{})
	}
}

// cutShort ends the waiting for sessions, and the second time that for the
// client.
func (k *conn) cutShort(c actor.Context) {
	if k.drained || k.cut {
		k.finish(c, ErrUnread)
		return
	}
	k.cut = true
	c.Request(k.writer, flush{})
}

// childGone ends the connection when one of its parts has crashed.
func (k *conn) childGone(c actor.Context, m *actor.Terminated) {
	if k.over {
		return
	}
	k.kernel.Log.Error().Str("actor", m.Who.Id).Msg("connection lost a part of it")
	if !m.Who.Equal(k.reader) { // nobody is left who could answer
		k.finish(c, ErrConnectionBroken)
		return
	}
	k.why = ErrConnectionBroken
	c.Send(k.router, clientLost{})
}

func (k *conn) finish(c actor.Context, err error) {
	if k.over {
		return
	}
	k.over = true
	if k.cfg.Lag > 0 {
		k.server.lossy.Add(-1)
	}
	if k.limit != nil {
		k.limit.Stop()
	}
	end := k.transport.Close
	if told, is := k.transport.(Told); is {
		end = func() error { return told.End(err) }
	}
	if err := end(); err != nil {
		k.kernel.Log.Debug().Err(err).Stringer("client", k.transport).Msg("closing the connection")
	}
	c.Send(c.Parent(), Ended{c.Self(), err})
}
