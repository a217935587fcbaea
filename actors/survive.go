package actors

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
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
	log   zerolog.Logger
	stage stage // of the message in hand
	// mend makes good for a handler that broke midway. false means that nothing
	// was done for the message, or nothing that harms when it is done twice: it
	// is handled again. nil is for actors that cannot go on.
	mend func(c actor.ReceiverContext, msg any) bool
}

// again is the mend of an actor that can be told everything twice.
func again(actor.ReceiverContext, any) bool { return false }

type stage int

const (
	notBegun stage = iota
	inHand
	handled
)

// survivors describes an actor that is kept alive.
func (c *Config) survivors(produce actor.Producer, name string, mend func(actor.ReceiverContext, any) bool) *actor.Props {
	s := &survivor{log: c.Log.With().Str("actor", name).Logger(), mend: mend}
	options := append(c.mailboxes(), actor.WithSupervisor(stopWorkers), actor.WithReceiverMiddleware(s.outer))
	if c.Faults != nil {
		options = append(options, actor.WithReceiverMiddleware(c.Faults.Middleware(name)))
	}
	return actor.PropsFromProducer(produce, append(options, actor.WithReceiverMiddleware(s.inner))...)
}

// outer is around everything, injected faults among it.
func (s *survivor) outer(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
		if lifecycle(env.Message) {
			next(c, env)
			return
		}
		reason := s.try(next, c, env)
		if reason == nil || s.stage == handled {
			return
		}
		if s.stage == inHand {
			if s.mend == nil {
				panic(reason)
			}
			if s.mend(c, env.Message) {
				return
			}
		}
		if reason := s.try(next, c, env); reason != nil && s.stage != handled {
			panic(reason)
		}
	}
}

// inner is next to the actor and knows how far it has come.
func (s *survivor) inner(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
		s.stage = inHand
		next(c, env)
		s.stage = handled
	}
}

// try returns what it panicked with.
func (s *survivor) try(next actor.ReceiverFunc, c actor.ReceiverContext, env *actor.MessageEnvelope) (reason any) {
	s.stage = notBegun
	defer func() {
		if reason = recover(); reason != nil {
			s.log.Error().Str("message", fmt.Sprintf("%T", env.Message)).Str("panic", fmt.Sprint(reason)).
				Bytes("stack", debug.Stack()).Msg("actor crashed and goes on")
		}
	}()
	next(c, env)
	return nil
}
