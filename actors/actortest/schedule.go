package actortest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
)

// Schedule is a dispatcher that decides which actor handles its next message:
// nothing is handled until it picks an actor, one message at a time, and
// everything that a message sets going (goroutines of workers, the client, the
// disk) comes to a halt before the next is picked. The mailboxes are those of
// production. So a seed explores one interleaving of the actors, and the same
// seed explores it again; what several goroutines that wake at the same instant
// tell one actor is the only order it does not decide.
//
// It works in a bubble of testing/synctest only, and there [Schedule.Settle] has
// to be used in place of [Settle].
type Schedule struct {
	rng    *rand.Rand
	policy policy

	mu      sync.Mutex // guards what follows
	boxes   []*mailbox
	ready   []*mailbox // those that can handle something
	steps   int
	waiting []waiter
	wake    chan struct{}
	stop    chan struct{}
	trace   [traced]handled // the last ones, by step
}

// handled is one step, for who has to understand a failure.
type handled struct {
	step    int
	actor   string
	message any
}

const traced = 100

// waiter is somebody who waits until a step has been made or nothing can be.
type waiter struct {
	step int
	done chan struct{}
}

// policy picks one of the actors that have something to handle.
type policy interface {
	pick(ready []*mailbox, step int, rng *rand.Rand) *mailbox
}

// NewSchedule starts the schedule of a seed. Stop ends it.
func NewSchedule(seed uint64) *Schedule {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &Schedule{rng: rng, policy: drawPolicy(rng), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	go s.run()
	return s
}

func drawPolicy(rng *rand.Rand) policy {
	switch rng.IntN(4) {
	case 0:
		return anyOf{}
	case 1:
		return &sticky{most: 1 + rng.IntN(20)}
	default:
		p := &ranked{rank: map[*mailbox]int{}, changes: map[int]bool{}}
		for range rng.IntN(6) { // few reorderings uncover most races (Burckhardt et al., probabilistic concurrency testing)
			p.changes[rng.IntN(2000)] = true
		}
		return p
	}
}

// anyOf picks each with the same chance.
type anyOf struct{}

func (anyOf) pick(ready []*mailbox, _ int, rng *rand.Rand) *mailbox {
	return ready[rng.IntN(len(ready))]
}

// sticky lets an actor handle several messages before another may.
type sticky struct {
	last *mailbox
	left int
	most int
}

func (p *sticky) pick(ready []*mailbox, _ int, rng *rand.Rand) *mailbox {
	for _, b := range ready {
		if b == p.last && p.left > 0 {
			p.left--
			return b
		}
	}
	p.last, p.left = ready[rng.IntN(len(ready))], rng.IntN(p.most)
	return p.last
}

// ranked gives every actor a rank and picks the highest, which starves the
// others; at a few steps the highest falls to the bottom.
type ranked struct {
	rank    map[*mailbox]int
	changes map[int]bool
	bottom  int
}

func (p *ranked) pick(ready []*mailbox, step int, rng *rand.Rand) *mailbox {
	var best *mailbox
	for _, b := range ready {
		if _, known := p.rank[b]; !known {
			p.rank[b] = 1 + rng.IntN(1_000_000)
		}
		if best == nil || p.rank[b] > p.rank[best] {
			best = b
		}
	}
	if p.changes[step] {
		p.bottom--
		p.rank[best] = p.bottom
	}
	return best
}

// Mailbox has an actor's mailbox run by the schedule.
func (s *Schedule) Mailbox() []actor.PropsOption {
	return []actor.PropsOption{actor.WithMailbox(func() actor.Mailbox {
		b := &mailbox{s: s, resume: make(chan struct{})}
		b.Mailbox = actor.Unbounded(b)()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.boxes = append(s.boxes, b)
		return b
	})}
}

// Schedule runs what is no mailbox at once.
func (s *Schedule) Schedule(ready func()) { go ready() }

// Go runs a job at once.
func (s *Schedule) Go(job func()) { go job() }

// Inline runs nothing inline: what tell makes ready waits for its turn.
func (s *Schedule) Inline(tell, _ func()) (reads bool) {
	tell()
	return true
}

// AtEnd does it at once.
func (s *Schedule) AtEnd(f func()) { f() }

// First does it: which mailbox is next is drawn.
func (s *Schedule) First(f func()) { f() }

// Inlining is drawn: who asks may do either.
func (s *Schedule) Inlining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(2) == 0
}

// Close does nothing: the schedule may outlive the daemon. See Stop.
func (s *Schedule) Close() {}

// Settle returns when nothing can be handled before time passes.
func (s *Schedule) Settle() { s.Steps(1 << 62) }

// Steps returns when n more messages have been handled, or nothing can be
// before time passes.
func (s *Schedule) Steps(n int) {
	s.mu.Lock()
	w := waiter{s.steps + n, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	s.poke()
	<-w.done
}

// Stop ends the schedule and the goroutines of its mailboxes, when all its actors
// have ended.
func (s *Schedule) Stop() { close(s.stop) }

// Trace says how many messages have been handled, and which were the last.
func (s *Schedule) Trace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := []string{fmt.Sprintf("%d messages by %T, the last:", s.steps, s.policy)}
	for i := max(1, s.steps-traced+1); i <= s.steps; i++ {
		h := s.trace[i%traced]
		lines = append(lines, fmt.Sprintf("%6d %s %s", h.step, h.actor, kindOf(h.message)))
	}
	return strings.Join(lines, "\n")
}

func (s *Schedule) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run is the schedule's goroutine.
func (s *Schedule) run() {
	for {
		synctest.Wait()
		b := s.next()
		if b != nil {
			b.goOn()
			continue
		}
		select {
		case <-s.wake:
		case <-s.stop:
			return
		}
	}
}

// next picks who is to handle a message, nil if nobody can.
func (s *Schedule) next() *mailbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.ready[:0]
	for _, b := range s.boxes {
		if b.can() {
			ready = append(ready, b)
		}
	}
	s.ready = ready
	kept := s.waiting[:0]
	for _, w := range s.waiting {
		if s.steps >= w.step || len(ready) == 0 {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	released := len(kept) < len(s.waiting)
	s.waiting = kept
	if len(ready) == 0 {
		return nil
	}
	if released { // whoever has waited goes first
		s.poke()
		return nil
	}
	s.steps++
	b := s.policy.pick(ready, s.steps, s.rng)
	b.handling, b.step = true, s.steps
	s.trace[s.steps%traced] = handled{step: s.steps, actor: b.name}
	return b
}

// mailbox is one actor's: the library's, which is stopped behind each message
// until the schedule picks it again.
type mailbox struct {
	actor.Mailbox
	s      *Schedule
	name   string
	resume chan struct{} // goes on with the next message

	// Guarded by s.mu.
	start    func() // runs the mailbox, which has become ready; nil if it runs or is empty
	stopped  bool   // it runs, and has stopped behind a message
	handling bool   // it runs, and has not
	queued   int    // messages; more than there are once a handler has panicked, which costs an empty step
	step     int    // when it was picked last
}

func (b *mailbox) can() bool {
	return !b.handling && (b.start != nil || b.stopped && b.queued > 0)
}

// goOn runs the mailbox up to the end of its next message.
func (b *mailbox) goOn() {
	b.s.mu.Lock()
	start := b.start
	b.start = nil
	b.s.mu.Unlock()
	if start == nil {
		b.resume <- struct{}{}
		return
	}
	go func() {
		start()
		b.halt(false)
	}()
}

// halt notes that no message is in hand.
func (b *mailbox) halt(stopped bool) {
	b.s.mu.Lock()
	b.handling, b.stopped = false, stopped
	b.s.mu.Unlock()
	b.s.poke()
}

// RegisterHandlers makes the mailbox its own dispatcher.
func (b *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	b.Mailbox.RegisterHandlers(invoker, b)
	if c, ok := invoker.(interface{ Self() *actor.PID }); ok && c.Self() != nil {
		b.name = c.Self().Id
	}
}

// Schedule is called when the mailbox becomes ready.
func (b *mailbox) Schedule(run func()) {
	b.s.mu.Lock()
	b.start = run
	b.s.mu.Unlock()
	b.s.poke()
}

func (b *mailbox) Throughput() int { return 1 << 30 }
func (b *mailbox) MailboxStarted() {}
func (b *mailbox) MailboxEmpty()   {}

func (b *mailbox) MessagePosted(any) {
	b.s.mu.Lock()
	b.queued++
	b.s.mu.Unlock()
	b.s.poke()
}

// MessageReceived is called behind a message.
func (b *mailbox) MessageReceived(m any) {
	if env, ok := m.(*actor.MessageEnvelope); ok {
		m = env.Message
	}
	b.s.mu.Lock()
	b.queued--
	b.s.trace[b.step%traced].message = m
	b.s.mu.Unlock()
	b.halt(true)
	select {
	case <-b.resume:
	case <-b.s.stop:
	}
}
