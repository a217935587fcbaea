package session

import (
	"cmp"
	"slices"
	"sync/atomic"

	"troupe/actors/link"
	"troupe/protocol"
)

// DefaultRing bounds the ring of a session, in bytes, and ringsBytes those of all sessions of the
// process.
const (
	DefaultRing = 256 << 10
	ringsBytes  = 32 << 20
)

// ring is the latest events of a session, oldest first, for clients that come back
// and know up to which one they have read. There is one from the first client on
// that can tell. It is of events, not of lines: every client has its own way to be
// written to.
type ring struct {
	on    bool
	items []remembered
	bytes int
	limit int          // in bytes; 0 for DefaultRing
	sizes *ringAccount // nil if the bytes are not counted
}

// ringAccount counts the bytes of one session's ring and of the rings of all sessions. The
// session changes it, and its parent reads it to decide which rings are dropped.
type ringAccount struct {
	own atomic.Int64
	all *atomic.Int64 // shared by the sessions of the process
}

func (a *ringAccount) add(bytes int) {
	a.own.Add(int64(bytes))
	a.all.Add(int64(bytes))
}

// remembered is an event, or deltas of one block that came one after the other, whose text it
// holds without the rest. Of several changes of the queues it holds the last.
type remembered struct {
	item link.Item
	from uint64 // the number of the first
	cuts []int  // where in the text each of several begins
}

func (m *remembered) size() int { return m.item.Size + 8*len(m.cuts) }

// add takes in an event that has its number.
func (r *ring) add(it link.Item) {
	if !r.on {
		return
	}
	it.Receipt, it.Whole = nil, 0
	was := r.bytes
	n, before := len(r.items), 0
	if n > 0 {
		before = r.items[n-1].size()
	}
	if n > 0 && r.items[n-1].merge(it) {
		r.bytes += r.items[n-1].size() - before
	} else {
		r.items = append(r.items, remembered{item: it, from: it.Seq})
		r.bytes += it.Size
	}
	drop := 0
	for r.bytes > cmp.Or(r.limit, DefaultRing) && drop < len(r.items) {
		r.bytes -= r.items[drop].size()
		drop++
	}
	clear(r.items[:drop])
	r.items = r.items[drop:]
	r.count(r.bytes - was)
}

// newRingAccount returns the account of a new session's ring.
func (h *Shared) newRingAccount() *ringAccount { return &ringAccount{all: &h.ringBytes} }

// ringExcess returns by how many bytes the rings of all sessions exceed their limit, at most 0
// if they do not.
func (h *Shared) ringExcess() int64 {
	return h.ringBytes.Load() - int64(cmp.Or(h.RingsBytes, ringsBytes))
}

func (r *ring) count(bytes int) {
	if r.sizes != nil {
		r.sizes.add(bytes)
	}
}

// forget drops what it has.
func (r *ring) forget() {
	r.count(-r.bytes)
	r.items, r.bytes = nil, 0
}

// close drops the events of the ring, which accepts no more.
func (r *ring) close() {
	r.on = false
	r.forget()
}

// merge combines the record with a later one: a delta of the same block, or a newer content of the queues.
func (m *remembered) merge(next link.Item) bool {
	if _, ok := next.Event.(protocol.QueueChanged); ok {
		return m.item.Merge(next)
	}
	first, ok := m.item.Event.(*protocol.MessageUpdate)
	if !ok || first.Step != protocol.UpdateDelta {
		return false
	}
	begin := m.item.Text()
	if !m.item.Merge(next) {
		return false
	}
	if m.cuts == nil {
		m.cuts = []int{0}
	}
	m.cuts = append(m.cuts, begin)
	return true
}

// after is what is left of it behind the event with a number, which is one of its own
// or comes before them.
func (m *remembered) after(seq uint64) link.Item { return m.part(m.cut(seq), m.item.Text()) }

// until is what of it comes up to the event with a number, for a client that knows it.
func (m *remembered) until(seq uint64) link.Item {
	end := m.cut(seq)
	if seq >= m.item.Seq {
		end = m.item.Text()
	}
	it := m.part(0, end)
	it.Known = true
	return it
}

// cut is where the text begins that comes behind the event with a number.
func (m *remembered) cut(seq uint64) int {
	if n := seq + 1 - m.from; seq >= m.from && n < uint64(len(m.cuts)) {
		return m.cuts[n]
	}
	return 0
}

// part is the event with a part of its text. What is sent is not touched again.
func (m *remembered) part(begin, end int) link.Item {
	if len(m.cuts) == 0 {
		return m.item
	}
	return m.item.Part(begin, end)
}

// since is every event behind the one with a number; false if the ring does not
// have them all, or that number was not given yet.
func (r *ring) since(seq, last uint64) (events []link.Item, ok bool) {
	if seq > last || !r.on {
		return nil, false
	}
	if seq == last {
		return nil, true
	}
	if len(r.items) == 0 || r.items[0].from > seq+1 {
		return nil, false
	}
	for i := range r.items {
		if r.items[i].item.Seq > seq {
			events = append(events, r.items[i].after(seq))
		}
	}
	return events, true
}

// known is what a client that has read up to an event knows of the message that is
// open there: its records are written from it. false if the ring does not say.
func (r *ring) known(seq uint64) (events []link.Item, ok bool) {
	last := slices.IndexFunc(r.items, func(m remembered) bool { return m.from > seq })
	if last < 0 {
		last = len(r.items)
	}
	for i := last - 1; i >= 0; i-- {
		m := &r.items[i]
		switch m.item.Event.(type) {
		case protocol.MessageEnd, protocol.AgentEnd, protocol.AgentStart:
			return events, true
		case *protocol.MessageUpdate:
			events = append(events, m.until(seq))
		case protocol.MessageStart:
			events = append(events, m.until(seq))
			slices.Reverse(events)
			return events, true
		}
	}
	return nil, len(r.items) > 0 && r.items[0].from == 1 // then no message had begun
}
