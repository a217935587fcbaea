// Package clustertest is an engine for logs in memory that does what real ones
// do at their worst: it loses answers, takes records late or twice, refuses what
// it could take, and shows old tails. What it takes is always a log.
package clustertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"troupe/actors/cluster"
)

// Memory is a log in memory. It is safe for concurrent use.
type Memory struct {
	mu     sync.Mutex
	rand   *rand.Rand
	faults int // of 100 calls, how many go wrong
	last   cluster.Seq
	logs   map[cluster.SessionID][]cluster.Record
}

// New is an empty log of which that many calls of 100 go wrong, drawn by seed.
func New(seed uint64, faults int) *Memory {
	return &Memory{rand: rand.New(rand.NewPCG(seed, 21)), faults: faults, logs: map[cluster.SessionID][]cluster.Record{}}
}

// draw is a number below n.
func (m *Memory) draw(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rand.IntN(n)
}

// fault draws one of n faults, or -1 if this call goes well.
func (m *Memory) fault(n int) int {
	if m.draw(100) >= m.faults {
		return -1
	}
	return m.draw(n)
}

func (m *Memory) Append(ctx context.Context, id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	select {
	case <-time.After(time.Duration(m.draw(3000)) * time.Microsecond):
	case <-ctx.Done():
		return 0, ctx.Err() // never sent, which the caller cannot know
	}
	switch m.fault(6) {
	case 0: // lost on the way
		return m.silence(ctx)
	case 1: // answer lost
		m.take(id, after, r)
		return m.silence(ctx)
	case 2: // taken late, perhaps behind other claims
		time.AfterFunc(time.Duration(m.draw(2000))*time.Millisecond, func() { m.take(id, after, r) })
		return m.silence(ctx)
	case 3: // delivered twice, and the second answer comes
		m.take(id, after, r)
	case 4:
		return 0, cluster.ErrConflict // though it could be taken
	case 5:
		return 0, cluster.ErrUnavailable
	}
	return m.take(id, after, r)
}

// silence is an answer that never comes.
func (m *Memory) silence(ctx context.Context) (cluster.Seq, error) {
	<-ctx.Done()
	return 0, cluster.ErrUnknown
}

func (m *Memory) take(id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.logs[id]
	var tail cluster.Seq
	if len(log) > 0 {
		tail = log[len(log)-1].Seq
	}
	if tail != after {
		return 0, cluster.ErrConflict
	}
	m.last += cluster.Seq(1 + m.rand.IntN(3)) // other sessions write, too
	r.Seq = m.last
	m.logs[id] = append(log, r)
	return r.Seq, nil
}

func (m *Memory) Tail(_ context.Context, id cluster.SessionID) (cluster.Record, error) {
	back := max(m.fault(4), 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.logs[id]) - 1 - back; n >= 0 {
		return m.logs[id][n], nil
	}
	return cluster.Record{}, nil
}

func (m *Memory) Read(_ context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
	m.mu.Lock()
	log := m.logs[id]
	m.mu.Unlock()
	for _, r := range log {
		if r.Seq <= after || r.Seq > to {
			continue
		}
		if r.Prev != after {
			return cluster.ErrDamaged
		}
		if err := f(r); err != nil {
			return err
		}
		after = r.Seq
	}
	return nil
}
