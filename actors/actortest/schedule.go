package actortest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
)

// Schedule decides which actor handles its next message. It stands in for the
// mailboxes of a whole actor system: nothing is handled until the schedule
// picks it, one message at a time, and everything that a message sets going
// (goroutines of workers, the client, the disk) comes to a halt before the next
// is picked. So a seed explores one interleaving of the actors, and the same
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

// Mailbox makes the mailbox of an actor: it is a Config.Mailbox.
func (s *Schedule) Mailbox() actor.Mailbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &mailbox{s: s}
	s.boxes = append(s.boxes, b)
	return b
}

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

// Stop ends the schedule, when all its actors have ended.
func (s *Schedule) Stop() { close(s.stop) }

// Trace says how many messages have been handled, and which were the last.
func (s *Schedule) Trace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := []string{fmt.Sprintf("%d messages by %T, the last:", s.steps, s.policy)}
	for i := max(1, s.steps-traced+1); i <= s.steps; i++ {
		h := s.trace[i%traced]
		lines = append(lines, fmt.Sprintf("%6d %s %s", h.step, h.actor, strings.TrimPrefix(fmt.Sprintf("%T", h.message), "actors.")))
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
			go b.handle()
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
	b.busy = true
	return b
}

// mailbox is one actor's, with the semantics of the library's: messages of the
// system first, and no others while it is suspended.
type mailbox struct {
	s       *Schedule
	invoker actor.MessageInvoker

	system, user []any
	suspended    bool
	busy         bool // a message is being handled
}

func (b *mailbox) can() bool {
	return !b.busy && (len(b.system) > 0 || len(b.user) > 0 && !b.suspended)
}

func (b *mailbox) PostUserMessage(m any)   { b.post(&b.user, m) }
func (b *mailbox) PostSystemMessage(m any) { b.post(&b.system, m) }

func (b *mailbox) post(queue *[]any, m any) {
	b.s.mu.Lock()
	*queue = append(*queue, m)
	b.s.mu.Unlock()
	b.s.poke()
}

func (b *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	b.invoker = invoker
}

func (b *mailbox) Start() {}

func (b *mailbox) UserMessageCount() int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return len(b.user)
}

// handle is one step.
func (b *mailbox) handle() {
	m, system := b.take()
	defer func() {
		if reason := recover(); reason != nil {
			b.invoker.EscalateFailure(reason, m)
		}
		b.s.mu.Lock()
		b.busy = false
		b.s.mu.Unlock()
		b.s.poke()
	}()
	if !system {
		b.invoker.InvokeUserMessage(m)
		return
	}
	switch m.(type) {
	case *actor.SuspendMailbox:
		b.suspend(true)
	case *actor.ResumeMailbox:
		b.suspend(false)
	default:
		b.invoker.InvokeSystemMessage(m)
	}
}

func (b *mailbox) suspend(on bool) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.suspended = on
}

func (b *mailbox) take() (m any, system bool) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	queue := &b.user
	if len(b.system) > 0 {
		queue, system = &b.system, true
	}
	m = (*queue)[0]
	*queue = (*queue)[1:]
	h := handled{step: b.s.steps, message: m}
	if env, ok := m.(*actor.MessageEnvelope); ok {
		h.message = env.Message
	}
	if c, ok := b.invoker.(interface{ Self() *actor.PID }); ok && c.Self() != nil {
		h.actor = c.Self().Id
	}
	b.s.trace[b.s.steps%traced] = h
	return m, system
}
