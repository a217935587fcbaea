package actors

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/failpoint"
)

// survivor keeps an actor alive that nobody could replace: the parts of a
// connection and the parent of all sessions. Their state is a few tables, and a
// restart would stop their children. So a panic does not reach supervision; what
// it costs depends on how far the message had come:
//
//   - it was handled: nothing;
//   - its handler had not begun: it is handled again;
//   - its handler broke midway: mend says what to do, see there.
//
// A message that breaks its handler again ends the actor, and so the connection.
type survivor struct {
	actor.Actor
	name   string
	log    zerolog.Logger
	faults *failpoint.Plan
	stage  stage // of the message in hand
	// mend makes good for a handler that broke midway. false means that nothing
	// was done for the message, or nothing that harms when it is done twice: it
	// is handled again. nil is for actors that cannot go on.
	mend func(c actor.Context, msg any) bool
}

// again is the mend of an actor that can be told everything twice.
func again(actor.Context, any) bool { return false }

type stage int

const (
	notBegun stage = iota
	inHand
	handled
)

// survivors describes an actor that is kept alive. Injected faults strike
// around it, not as a middleware: that would wrap every message.
func (c *Config) survivors(a actor.Actor, name string, mend func(actor.Context, any) bool) *actor.Props {
	s := &survivor{Actor: a, name: name, log: c.Log.With().Str("actor", name).Logger(), faults: c.Faults, mend: mend}
	return actor.PropsFromProducer(func() actor.Actor { return s }, append(c.mailboxes(), actor.WithSupervisor(stopWorkers))...)
}

func (s *survivor) Receive(c actor.Context) {
	if lifecycle(c.Message()) {
		s.Actor.Receive(c)
		return
	}
	reason := s.try(c)
	if reason == nil || s.stage == handled {
		return
	}
	if s.stage == inHand {
		if s.mend == nil {
			panic(reason)
		}
		if s.mend(c, c.Message()) {
			return
		}
	}
	if reason := s.try(c); reason != nil && s.stage != handled {
		panic(reason)
	}
}

// try returns what it panicked with.
func (s *survivor) try(c actor.Context) (reason any) {
	s.stage = notBegun
	defer func() {
		if reason = recover(); reason != nil {
			s.log.Error().Str("message", fmt.Sprintf("%T", c.Message())).Str("panic", fmt.Sprint(reason)).
				Bytes("stack", debug.Stack()).Msg("actor crashed and goes on")
		}
	}()
	if s.faults == nil {
		s.handle(c)
		return nil
	}
	s.faults.Handle(s.name, c.Message(), func() { s.handle(c) })
	return nil
}

func (s *survivor) handle(c actor.Context) {
	s.stage = inHand
	s.Actor.Receive(c)
	s.stage = handled
}
