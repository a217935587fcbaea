package kernel

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/failpoint"
)

// keepAlive is around an actor that must not be restarted: the parts of a
// connection and the parent of all sessions. Their state is a few tables, and a
// restart would stop their children. So a panic does not reach supervision; what
// it costs depends on how far the message had come:
//
//   - it was handled: nothing;
//   - its handler had not begun: the message is handled again;
//   - its handler broke midway: onPanic decides.
//
// A message that breaks its handler again ends the actor, and so the connection.
type keepAlive struct {
	actor.Actor
	name    string
	log     zerolog.Logger
	faults  *failpoint.Plan
	stage   stage // of the message in hand
	onPanic func(c actor.Context, msg any) (done bool)
}

// RetryMessage is for actors that can handle every message twice; see KeepAlive.
func RetryMessage(actor.Context, any) bool { return false }

type stage int

const (
	notBegun stage = iota
	inHand
	handled
)

// KeepAlive describes an actor that goes on after a panic. When a handler broke
// midway, onPanic makes good for it; it returns false if the message is to be
// handled again. A nil onPanic is for actors that cannot go on.
//
// Injected faults strike around the actor, not in a middleware, which would wrap
// every message.
func (k *Kernel) KeepAlive(a actor.Actor, name string, onPanic func(c actor.Context, msg any) (done bool)) *actor.Props {
	s := &keepAlive{Actor: a, name: name, log: k.Log, faults: k.Faults, onPanic: onPanic}
	return k.Props(func() actor.Actor { return s }, "")
}

func (s *keepAlive) Receive(c actor.Context) {
	if Lifecycle(c.Message()) {
		s.Actor.Receive(c)
		return
	}
	reason := s.try(c)
	if reason == nil || s.stage == handled {
		return
	}
	if s.stage == inHand {
		if s.onPanic == nil {
			panic(reason)
		}
		if s.onPanic(c, c.Message()) {
			return
		}
	}
	if reason := s.try(c); reason != nil && s.stage != handled {
		panic(reason)
	}
}

// try handles the message and returns what that panicked with.
func (s *keepAlive) try(c actor.Context) (reason any) {
	s.stage = notBegun
	defer func() {
		if reason = recover(); reason != nil {
			s.log.Error().Str("actor", s.name).Str("message", fmt.Sprintf("%T", c.Message())).Str("panic", fmt.Sprint(reason)).
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

func (s *keepAlive) handle(c actor.Context) {
	s.stage = inHand
	s.Actor.Receive(c)
	s.stage = handled
}
