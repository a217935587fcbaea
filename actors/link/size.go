package link

import "troupe/protocol"

// RecordSize is about how many bytes a record takes beside its contents.
const RecordSize = 200

// Sizer knows how large the records of one session are, which depends on the
// message that grows.
type Sizer struct {
	message int // bytes of the assistant message that grows on the wire
}

// Size notes about how many bytes an event takes on the wire. It must be asked
// of every event of a session, in order.
func (s *Sizer) Size(it *Item) {
	it.Size = RecordSize
	switch ev := it.Event.(type) {
	case *protocol.MessageUpdate:
		s.updateSize(it, ev)
		return
	case protocol.MessageStart:
		s.message = protocol.SizeOf(ev.Message)
	case protocol.MessageEnd:
		s.message = 0
	default: // stands for itself
	}
	it.Size += protocol.SizeOf(it.Event)
}

// updateSize follows the growing message, which a client without deltaUpdates is
// shown twice in each update.
func (s *Sizer) updateSize(it *Item, ev *protocol.MessageUpdate) {
	step := len(ev.Delta)
	if ev.Step == protocol.UpdateStart {
		s.message += 60
	}
	s.message += len(ev.Delta)
	if ev.Step == protocol.UpdateEnd {
		step = protocol.SizeOf(ev.Block)
	}
	it.Size, it.Whole = RecordSize+step, 2*s.message
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
			message += len(delta.Delta)
			room -= len(delta.Delta)
		} else {
			before = -1
		}
		if same {
			continue
		}
		room -= RecordSize
		if !deltas {
			room -= 2 * message
		}
		if room < 0 && i > 0 {
			return i
		}
	}
	return len(parts)
}

// Weight is about how many bytes an answer's data takes.
func Weight(r *protocol.Response) int {
	if r == nil {
		return 0
	}
	return protocol.SizeOf(r.Data)
}
