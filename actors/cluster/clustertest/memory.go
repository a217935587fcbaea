// Package clustertest is an engine in memory that does what real ones do at
// their worst: it loses answers, takes records late or twice, refuses what it could
// take, shows old tails, breaks off reads, stands still, and is cut off from one node
// and not from another. What it takes is always a log. [Suite] is what every engine
// must hold to.
package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"troupe/actors/cluster"
)

// servers is what all clients of an engine share.
type servers struct {
	mu     sync.Mutex
	rand   *rand.Rand
	faults int // of 100 calls, how many go wrong
	last   cluster.Seq
	logs   map[cluster.SessionID][]cluster.Record
	nodes  map[string]cluster.Node
	index  map[cluster.SessionID][]byte
	still  time.Time // until when it stands still
	newer  map[cluster.SessionID]bool
}

// Memory is an engine in memory, as one node sees it. It is safe for concurrent use.
type Memory struct {
	s      *servers
	mu     sync.Mutex
	cut    Cut
	frozen time.Time       // until when its node stands still
	beaten map[string]bool // lives for which this client has beaten
}

// Cut is what of the way to the engine is cut.
type Cut int

// What may be cut: what is sent there, which then does not happen, or only what comes back.
const (
	Whole Cut = iota
	Deaf      // calls arrive, answers do not
	Gone      // nothing arrives
)

// New is an empty engine of which that many calls of 100 go wrong, drawn by seed.
func New(seed uint64, faults int) *Memory {
	s := &servers{rand: rand.New(rand.NewPCG(seed, 21)), faults: faults, logs: map[cluster.SessionID][]cluster.Record{},
		nodes: map[string]cluster.Node{}, index: map[cluster.SessionID][]byte{}, newer: map[cluster.SessionID]bool{}}
	return s.client()
}

func (s *servers) client() *Memory { return &Memory{s: s, beaten: map[string]bool{}} }

// Client is another way to the same engine.
func (c *Memory) Client() *Memory { return c.s.client() }

// Cut cuts this way, or mends it. What is under way when it is cut gets no answer.
func (c *Memory) Cut(cut Cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
}

func (c *Memory) is(cut Cut) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut >= cut
}

// Freeze has the node of this way stand still for a while: it neither asks nor hears.
func (c *Memory) Freeze(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = time.Now().Add(d)
}

// Thaw waits until the node does not stand still.
func (c *Memory) Thaw() {
	for {
		c.mu.Lock()
		d := time.Until(c.frozen)
		c.mu.Unlock()
		if d <= 0 {
			return
		}
		time.Sleep(d)
	}
}

// Faults changes how many calls of 100 go wrong.
func (c *Memory) Faults(n int) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.faults = n
}

// Stop has the engine stand still for a while: calls wait.
func (c *Memory) Stop(d time.Duration) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.still = time.Now().Add(d)
}

// Damage changes what is stored of a session.
func (c *Memory) Damage(id cluster.SessionID, how func([]cluster.Record) []cluster.Record) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.logs[id] = how(slices.Clone(c.s.logs[id]))
}

// Newer has a session be one that a newer version has written, or no more: none of its records can be read.
func (c *Memory) Newer(id cluster.SessionID, is bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.newer[id] = is
}

// readable fails with ErrNewer for what this version does not read.
func (s *servers) readable(id cluster.SessionID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newer[id] {
		return cluster.ErrNewer
	}
	return nil
}

// Close does nothing.
func (c *Memory) Close() error { return nil }

// draw is a number below n.
func (s *servers) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// fault draws one of n faults, or -1 if this call goes well.
func (s *servers) fault(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rand.IntN(100) >= s.faults {
		return -1
	}
	return s.rand.IntN(n)
}

// arrive waits until a call is at the engine; an error says that it never will be.
func (c *Memory) arrive(ctx context.Context, name string) error {
	if !cluster.Valid(name) {
		return fmt.Errorf("%w: %q is no name", cluster.ErrSettings, name)
	}
	c.Thaw()
	if c.is(Gone) {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		wait := time.Duration(c.s.draw(3000)) * time.Microsecond
		c.s.mu.Lock()
		still := time.Until(c.s.still)
		c.s.mu.Unlock()
		select {
		case <-time.After(max(wait, still)):
		case <-ctx.Done():
			if still > 0 { // it is there when the engine goes on
				return nil
			}
			return ctx.Err()
		}
		if still <= 0 {
			return nil
		}
	}
}

// answer is what the client gets of an answer.
func (c *Memory) answer(ctx context.Context) error {
	c.Thaw()
	if c.is(Deaf) {
		<-ctx.Done()
	}
	return ctx.Err()
}

// Append is that of [cluster.Log], with every fault there is.
func (c *Memory) Append(ctx context.Context, id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	s := c.s
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.Lines) > cluster.MostLines {
		return 0, cluster.ErrTooLarge
	}
	if err := c.arrive(ctx, string(id)); errors.Is(err, cluster.ErrSettings) {
		return 0, err
	} else if err != nil {
		return 0, cluster.ErrUnknown // never sent, which the caller cannot know
	}
	fault := s.fault(7)
	switch fault {
	case 0: // lost on the way
		<-ctx.Done()
		return 0, cluster.ErrUnknown
	case 2: // taken late, perhaps behind other claims
		time.AfterFunc(time.Duration(s.draw(2000))*time.Millisecond, func() { _, _ = s.take(id, after, r) })
		<-ctx.Done()
		return 0, cluster.ErrUnknown
	case 3: // delivered twice, and the second answer comes
		_, _ = s.take(id, after, r)
	case 4:
		return 0, cluster.ErrConflict // though it could be taken
	case 5:
		return 0, cluster.ErrUnavailable
	case 6: // delivered twice, the second time much later
		time.AfterFunc(time.Duration(s.draw(4000))*time.Millisecond, func() { _, _ = s.take(id, after, r) })
	}
	seq, err := s.take(id, after, r)
	if fault == 1 { // answer lost
		<-ctx.Done()
	}
	if c.answer(ctx) != nil {
		return 0, cluster.ErrUnknown
	}
	return seq, err
}

func (s *servers) take(id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.logs[id]
	var tail cluster.Seq
	if len(log) > 0 {
		tail = log[len(log)-1].Seq
	}
	if tail != after {
		return 0, cluster.ErrConflict
	}
	s.last += cluster.Seq(1 + s.rand.IntN(3)) // other sessions write, too
	r.Seq = s.last
	r.Lines = slices.Clone(r.Lines)
	s.logs[id] = append(log[:len(log):len(log)], r)
	return r.Seq, nil
}

// Tail is that of [cluster.Log]: now and then up to three records old.
func (c *Memory) Tail(ctx context.Context, id cluster.SessionID) (cluster.Record, error) {
	if err := c.arrive(ctx, string(id)); err != nil {
		return cluster.Record{}, err
	}
	back := max(c.s.fault(4), 0)
	c.s.mu.Lock()
	var r cluster.Record
	if n := len(c.s.logs[id]) - 1 - back; n >= 0 {
		r = c.s.logs[id][n]
	}
	c.s.mu.Unlock()
	return r, cmp.Or(c.answer(ctx), c.s.readable(id))
}

// Sources is that of [cluster.Log].
func (c *Memory) Sources() []cluster.Source { return []cluster.Source{{Name: "memory", Read: c.Read}} }

// Damaged does nothing.
func (c *Memory) Damaged(cluster.SessionID, string, error) {}

// Read is a [cluster.Reader]: now and then it breaks off in the middle.
func (c *Memory) Read(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
	if err := c.arrive(ctx, string(id)); err != nil {
		return err
	}
	s := c.s
	if err := s.readable(id); err != nil {
		return err
	}
	s.mu.Lock()
	log := s.logs[id]
	s.mu.Unlock()
	breaks := -1
	if s.fault(2) == 0 {
		breaks = s.draw(len(log) + 1)
	}
	if err := c.answer(ctx); err != nil {
		return err
	}
	for i, r := range log {
		if i == breaks {
			return cluster.ErrUnavailable
		}
		if r.Seq <= after || r.Seq > to {
			continue
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// List is that of [cluster.Log].
func (c *Memory) List(ctx context.Context, page string, n int) ([]cluster.SessionID, string, error) {
	if err := c.arrive(ctx, "list"); err != nil {
		return nil, "", err
	}
	c.s.mu.Lock()
	var ids []cluster.SessionID
	for id := range c.s.logs {
		ids = append(ids, id)
	}
	c.s.mu.Unlock()
	slices.Sort(ids)
	from, _ := strconv.Atoi(page)
	ids = ids[min(from, len(ids)):]
	next := ""
	if len(ids) > n {
		ids, next = ids[:n], strconv.Itoa(from+n)
	}
	return ids, next, c.answer(ctx)
}

// Trim is that of [cluster.Log].
func (c *Memory) Trim(ctx context.Context, id cluster.SessionID, before cluster.Seq) error {
	if err := c.arrive(ctx, string(id)); err != nil {
		return err
	}
	c.s.mu.Lock()
	c.s.logs[id] = slices.DeleteFunc(slices.Clone(c.s.logs[id]), func(r cluster.Record) bool { return r.Seq < before })
	c.s.mu.Unlock()
	return c.answer(ctx)
}

// Beat is that of [cluster.Registry]: lost on the way, or with its answer lost, now and then.
func (c *Memory) Beat(ctx context.Context, n cluster.Node) error {
	if err := c.arrive(ctx, n.Name); err != nil {
		return err
	}
	fault := c.s.fault(2)
	if fault == 0 {
		<-ctx.Done()
		return cluster.ErrUnknown
	}
	c.mu.Lock()
	first := !c.beaten[n.Boot]
	c.beaten[n.Boot] = true
	c.mu.Unlock()
	c.s.mu.Lock()
	fenced := !first && c.s.nodes[n.Name].Boot != n.Boot
	if !fenced {
		c.s.nodes[n.Name] = n
	}
	c.s.mu.Unlock()
	if fault == 1 {
		<-ctx.Done()
	}
	if c.answer(ctx) != nil {
		return cluster.ErrUnknown
	}
	if fenced {
		return cluster.ErrFenced
	}
	return nil
}

// Node is that of [cluster.Registry].
func (c *Memory) Node(ctx context.Context, name string) (cluster.Node, bool, error) {
	if err := c.arrive(ctx, name); err != nil {
		return cluster.Node{}, false, err
	}
	if c.s.fault(1) == 0 {
		return cluster.Node{}, false, cluster.ErrUnavailable
	}
	c.s.mu.Lock()
	n, found := c.s.nodes[name]
	c.s.mu.Unlock()
	return n, found, c.answer(ctx)
}

// Nodes is that of [cluster.Registry]; who is cut off hears nothing, which here is nobody.
func (c *Memory) Nodes() []cluster.Node {
	if c.is(Deaf) {
		return nil
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	nodes := make([]cluster.Node, 0, len(c.s.nodes))
	for _, n := range c.s.nodes {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// SetIndex is that of [cluster.Index].
func (c *Memory) SetIndex(ctx context.Context, id cluster.SessionID, text []byte) error {
	if err := c.arrive(ctx, string(id)); err != nil {
		return err
	}
	c.s.mu.Lock()
	c.s.index[id] = slices.Clone(text)
	c.s.mu.Unlock()
	return c.answer(ctx)
}

// Indexed is that of [cluster.Index].
func (c *Memory) Indexed(ctx context.Context, ids []cluster.SessionID) (map[cluster.SessionID][]byte, error) {
	if err := c.arrive(ctx, "index"); err != nil {
		return nil, err
	}
	texts := map[cluster.SessionID][]byte{}
	c.s.mu.Lock()
	for _, id := range ids {
		if text, ok := c.s.index[id]; ok {
			texts[id] = text
		}
	}
	c.s.mu.Unlock()
	return texts, c.answer(ctx)
}

// Status is that of [cluster.Engine].
func (c *Memory) Status(ctx context.Context) (cluster.Status, error) {
	if err := c.arrive(ctx, "status"); err != nil {
		return cluster.Status{}, err
	}
	c.s.mu.Lock()
	g := cluster.Group{Name: "memory", Leader: "one", Others: []cluster.Server{{Name: "two", Current: true}}}
	for _, log := range c.s.logs {
		g.Records += uint64(len(log))
	}
	c.s.mu.Unlock()
	return cluster.Status{Engine: "memory", Groups: []cluster.Group{g}}, c.answer(ctx)
}

// Spread does nothing: there is one leader.
func (c *Memory) Spread(context.Context) error { return nil }
