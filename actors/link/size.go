package link

import "troupe/protocol"

// RecordSize is an upper bound of the bytes that a record takes beside its contents: its type, the
// session that it belongs to, its numbers, and the names of its members.
const RecordSize = 200

// updateSize is RecordSize for a message_update, which has the usage so far as well.
const updateSize = 400

// Sizer computes the size of the records of one session, which depends on the
// assistant message that is streamed.
type Sizer struct {
	message int   // bytes of that message on the wire, so far
	blocks  []int // of that, the bytes of each of its blocks
}

// Size sets how many bytes an event takes on the wire, at most. It must be called
// for every event of a session, in order.
func (s *Sizer) Size(it *Item) {
	switch ev := it.Event.(type) {
	case *protocol.MessageUpdate:
		s.updateSize(it, ev)
		return
	case protocol.MessageStart:
		s.message, s.blocks = protocol.SizeOf(ev.Message), s.blocks[:0]
	case protocol.MessageEnd:
		s.message, s.blocks = 0, s.blocks[:0]
	default: // stands for itself
	}
	it.Size = EventSize(it.Event)
}

// EventSize returns how many bytes an event takes that is not part of a message.
func EventSize(ev protocol.Event) int { return RecordSize + protocol.EventSize(ev) }

// updateSize follows the growing message, which a client without deltaUpdates is
// shown twice in each update.
func (s *Sizer) updateSize(it *Item, ev *protocol.MessageUpdate) {
	for len(s.blocks) <= ev.Index {
		s.blocks = append(s.blocks, 0)
	}
	step, grown := 0, 0
	switch ev.Step {
	case protocol.UpdateStart:
		step = protocol.SizeOf(ev.Block)
		grown = 60 + step
	case protocol.UpdateDelta:
		step = protocol.EscapedSize(ev.Delta)
		grown = step
	case protocol.UpdateEnd:
		step = protocol.SizeOf(ev.Block)
		grown = step - s.blocks[ev.Index] // it takes the place of what was streamed
	}
	s.blocks[ev.Index] += grown
	s.message += grown
	it.Size, it.Whole = updateSize+step, 2*s.message
}

// Fit is how many parts of a model's answer make records of no more than room
// bytes: at least those of the first record. Deltas of one block behind each other
// are one record. With deltas the client has the feature deltaUpdates.
func (s *Sizer) Fit(parts []protocol.Part, room int, deltas bool) int {
	message, before := s.message, -1
	for i, p := range parts {
		same := false
		if delta, ok := p.(protocol.PartDelta); ok {
			same, before = delta.Index == before, delta.Index
			n := protocol.EscapedSize(delta.Delta)
			message += n
			room -= n
		} else {
			before = -1
		}
		if same {
			continue
		}
		room -= updateSize
		if !deltas {
			room -= 2 * message
		}
		if room < 0 && i > 0 {
			return i
		}
	}
	return len(parts)
}

// responseSize returns how many bytes an answer takes.
func responseSize(r *protocol.Response) int {
	if r == nil {
		return RecordSize
	}
	return RecordSize + r.Size()
}
