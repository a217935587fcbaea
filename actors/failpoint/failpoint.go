// Package failpoint injects faults into actors. A plan is one line of text and does
// the same thing for the same actor names and message order whenever it runs:
//
//	Panic s*/tool/* ToolDone 2; Delay 50ms * * 0.1/42; PanicAfter * StreamEnd; Stall writer *
//
// A fault is an action, the name of an actor, the type of a message, and if wanted
// which of those messages. Actions: Panic before the message is handled, PanicAfter
// it was handled, Delay for a time, Stall until the plan is released, Drop the
// message, Kill the process before and KillAfter the message is handled. Only faults
// that the design promises to survive make sense; a dropped message is for testing
// the tests.
//
// Names are globs, "*" for any; a trailing * of an actor's also spans slashes. Which:
// "3" the fourth for an actor, "3+" that and all later ones, "0.1/42" one in ten by
// the seed 42, drawn per actor so that one actor's faults do not depend on how others
// interleave.
//
// A point is a message in the mailbox of an actor, or an effect that a session
// performs: "Panic * Append" strikes before an entry is written, "PanicAfter * Append"
// between the write and what shows it, and Reply and Emit likewise.
package failpoint

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Plan is a set of faults. A nil Plan injects nothing and costs nothing.
type Plan struct {
	text     string
	faults   []*fault
	released chan struct{}
	once     sync.Once

	mu   sync.Mutex // guards hits
	hits []Hit
}

// Hit is a fault that happened.
type Hit struct {
	Fault string // the fault's own text
	Actor string
	Msg   string
}

type fault struct {
	text       string
	action     action
	delay      time.Duration
	actor, msg string
	which      which

	mu   sync.Mutex            // guards seen and rngs
	seen map[string]int        // how many matched before, by actor
	rngs map[string]*rand.Rand // by actor
}

// which of the messages that match.
type which struct {
	random bool
	share  float64 // of random ones
	seed   uint64
	n      int // from 0
	later  bool
}

type action string

const (
	actPanic      action = "Panic"
	actPanicAfter action = "PanicAfter"
	actDelay      action = "Delay"
	actStall      action = "Stall"
	actDrop       action = "Drop"
	actKill       action = "Kill"
	actKillAfter  action = "KillAfter"
)

// Injected is the value that injected panics carry.
type Injected struct{ Fault string }

func (i Injected) Error() string { return "injected by " + i.Fault }

func (p *Plan) String() string {
	if p == nil {
		return ""
	}
	return p.text
}

// Hits lists the faults that happened so far.
func (p *Plan) Hits() []Hit {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Hit(nil), p.hits...)
}

// Release wakes every stalled actor and disables the plan.
func (p *Plan) Release() {
	if p != nil {
		p.once.Do(func() { close(p.released) })
	}
}

// Middleware is the receiver middleware for one actor. Lifecycle messages pass
// untouched: a panic while stopping would revive the actor.
func (p *Plan) Middleware(name string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			p.Handle(name, env.Message, func() { next(c, env) })
		}
	}
}

// Handle lets an actor handle a message, with the faults before and after it. It
// is for actors that have no middleware.
func (p *Plan) Handle(name string, m any, handle func()) {
	if household(m) {
		handle()
		return
	}
	msg := typeName(m)
	after, dropped := p.before(name, msg)
	if dropped {
		return
	}
	handle()
	p.strike(after, name, msg)
}

// Around is for what an actor does in the course of a message: it acts before
// the deed and returns what acts after it. The point has the deed's type name.
func (p *Plan) Around(name string, deed any) (after func()) {
	point := typeName(deed)
	f, _ := p.before(name, point)
	if f == nil {
		return nothing
	}
	return func() { p.strike(f, name, point) }
}

func nothing() {}

func (p *Plan) note(f *fault, name, point string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hits = append(p.hits, Hit{f.text, name, point})
}

// strike acts out the fault that was to happen afterwards, nil for none.
func (p *Plan) strike(f *fault, name, point string) {
	if f == nil {
		return
	}
	p.note(f, name, point)
	if f.action == actKillAfter {
		die()
	}
	panic(Injected{f.text})
}

// die ends the process as a kill -9 does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Hit is for code outside Receive: goroutines of workers and I/O. It may panic,
// delay or stall as the plan says for an actor and a point named like a message.
func (p *Plan) Hit(name, point string) {
	if p == nil {
		return
	}
	after, _ := p.before(name, point)
	p.strike(after, name, point)
}

// before acts out the faults that match and returns one that is to happen
// afterwards.
func (p *Plan) before(name, msg string) (after *fault, dropped bool) {
	select {
	case <-p.released:
		return nil, false
	default:
	}
	for _, f := range p.faults {
		if !f.strikes(name, msg) {
			continue
		}
		if f.action != actPanicAfter && f.action != actKillAfter {
			p.note(f, name, msg)
		}
		switch f.action {
		case actPanic:
			panic(Injected{f.text})
		case actPanicAfter, actKillAfter:
			after = f
		case actKill:
			die()
		case actDelay:
			time.Sleep(f.delay)
		case actStall:
			<-p.released
		case actDrop:
			dropped = true
		}
	}
	return after, dropped
}

func household(m any) bool {
	switch m.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return true
	}
	return false
}

func typeName(m any) string {
	t := reflect.TypeOf(m)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// strikes says whether a message is one that the fault is for, and counts it.
func (f *fault) strikes(name, msg string) bool {
	if !isActor(f.actor, name) || f.msg != "*" && f.msg != msg {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.which.random {
		r := f.rngs[name]
		if r == nil {
			h := fnv.New64a()
			h.Write([]byte(name))
			r = rand.New(rand.NewPCG(f.which.seed, h.Sum64()))
			f.rngs[name] = r
		}
		return r.Float64() < f.which.share
	}
	n := f.seen[name]
	f.seen[name] = n + 1
	return n == f.which.n || f.which.later && n > f.which.n
}

func isActor(glob, name string) bool {
	if ok, _ := path.Match(glob, name); ok {
		return true
	}
	rest, star := strings.CutSuffix(glob, "*")
	return star && !strings.ContainsAny(rest, "*?[") && strings.HasPrefix(name, rest)
}
