// Package failpoint injects faults into actors, as receiver middleware. A plan
// is one line of text, prints as the line it was parsed from, and does the same
// thing for the same actor names and message order whenever it runs:
//
//	(Panic (And (Actor "s*/tool/*") (Msg "ToolDone") (OnIndex 2)))
//	(Delay 50ms (Randomly 0.1 42))
//	(PanicAfter (Msg "StreamEnd")) (Stall (Actor "writer"))
//
// Actions: Panic before the message is handled, PanicAfter it was handled,
// Delay for a time, Stall until the plan is released, Drop the message, Kill
// the process before and KillAfter the message is handled. Only faults that the
// design promises to survive make sense; a dropped message is for testing the
// tests.
//
// A point is a message in the mailbox of an actor, or an effect that a session
// performs: (Panic (Msg "Append")) strikes before an entry is written,
// (PanicAfter (Msg "Append")) between the write and what shows it, and Reply and
// Emit likewise.
//
// Predicates: (Actor "glob"), (Msg "TypeName"), (OnIndex n) the n-th match from
// 0 per actor, (From n) the n-th and later, (Randomly p seed) drawn per actor
// so that one actor's faults do not depend on how others interleave, (And …),
// (Or …), (Not …).
package failpoint

import (
	"fmt"
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
	faults   []fault
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
	text   string
	action action
	delay  time.Duration
	when   predicate
	counts *counts
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

// event is a message about to be handled.
type event struct {
	actor, msg string
	counts     *counts
}

type predicate interface {
	match(e event) bool
	String() string
}

// counts keeps what predicates remember, per actor.
type counts struct {
	mu   sync.Mutex // guards seen and rngs
	seen map[string]int
	rngs map[string]*rand.Rand
}

func (c *counts) next(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.seen[key]
	c.seen[key] = n + 1
	return n
}

func (c *counts) float(key string, seed uint64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rngs[key]
	if r == nil {
		h := fnv.New64a()
		h.Write([]byte(key))
		r = rand.New(rand.NewPCG(seed, h.Sum64()))
		c.rngs[key] = r
	}
	return r.Float64()
}

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
	for i := range p.faults {
		f := &p.faults[i]
		if !f.when.match(event{name, msg, f.counts}) {
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

type actorIs struct{ glob string }

func (a actorIs) match(e event) bool {
	ok, _ := path.Match(a.glob, e.actor)
	// A trailing * also spans slashes: "s1/*" is everything below s1.
	if rest, star := strings.CutSuffix(a.glob, "*"); !ok && star && !strings.ContainsAny(rest, "*?[") {
		ok = strings.HasPrefix(e.actor, rest)
	}
	return ok
}
func (a actorIs) String() string { return fmt.Sprintf("(Actor %q)", a.glob) }

type msgIs struct{ name string }

func (m msgIs) match(e event) bool { return m.name == e.msg }
func (m msgIs) String() string     { return fmt.Sprintf("(Msg %q)", m.name) }

type onIndex struct {
	n    int
	from bool
}

func (o onIndex) match(e event) bool {
	n := e.counts.next(o.String() + e.actor)
	return n == o.n || o.from && n > o.n
}

func (o onIndex) String() string {
	if o.from {
		return fmt.Sprintf("(From %d)", o.n)
	}
	return fmt.Sprintf("(OnIndex %d)", o.n)
}

type randomly struct {
	p    float64
	seed uint64
}

func (r randomly) match(e event) bool {
	return e.counts.float(r.String()+e.actor, r.seed) < r.p
}
func (r randomly) String() string { return fmt.Sprintf("(Randomly %g %d)", r.p, r.seed) }

type and []predicate

func (a and) match(e event) bool {
	for _, p := range a {
		if !p.match(e) { // in order, so that a count after a filter counts what the filter lets pass
			return false
		}
	}
	return true
}
func (a and) String() string { return list("And", a) }

type or []predicate

func (o or) match(e event) bool {
	for _, p := range o {
		if p.match(e) {
			return true
		}
	}
	return false
}
func (o or) String() string { return list("Or", o) }

type not struct{ p predicate }

func (n not) match(e event) bool { return !n.p.match(e) }
func (n not) String() string     { return fmt.Sprintf("(Not %s)", n.p) }

func list(name string, ps []predicate) string {
	parts := make([]string, 0, len(ps))
	for _, p := range ps {
		parts = append(parts, p.String())
	}
	return "(" + name + " " + strings.Join(parts, " ") + ")"
}
