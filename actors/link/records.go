package link

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/protocol"
)

// Client is the way from a session to one of its clients: the writer of a
// connection, and the tag that the session's records carry there.
type Client struct {
	Writer *actor.PID
	Router *actor.PID     // is told when the session has ended
	Window *Window        // of the connection
	Wire   *protocol.Wire // how it is written to
	Who    *Who           // what it has said of itself; nil for nothing
	Tag    string         // routing handle, "" for the connection's default session
}

// Who is a client as it has named itself.
type Who struct {
	Ref    protocol.ClientRef
	Ledger *Ledger // of its commands; nil without a clientId, or when its connection has ended
}

// Name is the client as others are told of it; nil for one that has not named itself.
func (cl Client) Name() *protocol.ClientRef {
	if cl.Who == nil {
		return nil
	}
	return &cl.Who.Ref
}

// Ledger is that of the client's commands; nil for none.
func (cl Client) Ledger() *Ledger {
	if cl.Who == nil {
		return nil
	}
	return cl.Who.Ledger
}

// Is says whether it is the same way to the same client.
func (cl Client) Is(other Client) bool { return cl.Writer.Equal(other.Writer) && cl.Tag == other.Tag }

// Known is false for the zero value.
func (cl Client) Known() bool { return cl.Writer != nil }

// Send debits records, as large as they are for this client, and sends them to
// the writer.
func (cl Client) Send(root *actor.RootContext, items ...Item) {
	bytes := 0
	for i := range items {
		if r := items[i].Response; r != nil && cl.Ledger() != nil {
			if instead := cl.Ledger().done(r, cl); instead.Known() {
				instead.Send(root, Item{Response: r})
			}
		}
		cl.measure(&items[i])
		bytes += items[i].Size
	}
	cl.Window.take(bytes)
	root.Send(cl.Writer, Records{Tag: cl.Tag, Items: items})
}

// What a writer is told.
type (
	// Records are responses and events in the order they are to be written.
	Records struct {
		Tag   string
		Items []Item
	}
	// Item is an event or a response.
	Item struct {
		Event    protocol.Event
		Response *protocol.Response
		Seq      uint64   // of an event, among those of its session; 0 for what one client alone is told
		Size     int      // bytes that it takes; at the writer, that were debited for it
		Whole    int      // beside Size, for a client that is shown whole messages; 0 at the writer
		Known    bool     // an event that the client has read before, of which its writer does not know
		Lines    []byte   // in the place of both: what another node has written for the client, whole lines
		Owed     bool     // an event that the answer to an attach has promised: it is not left out
		Receipt  *Receipt // told when it is written; nil for nobody
		merged   []byte   // the deltas of Event and of those merged into it, nil if it is alone
	}
	// Forget says that no record with this tag follows: its session is gone.
	Forget struct{ Tag string }
)

// measure sets the size of a record as this client receives it.
func (cl Client) measure(it *Item) {
	if it.Size == 0 {
		it.Size = it.size()
	}
	if queue, ok := it.Event.(protocol.QueueChanged); ok && !cl.Wire.Has(protocol.FeatureQueueUpdate) {
		it.Event, it.Size = protocol.QueueChanged{PendingMessageCount: queue.PendingMessageCount}, RecordSize
	}
	if it.Whole > 0 && !cl.Wire.Has(protocol.FeatureDeltaUpdates) {
		it.Size += it.Whole
	}
	it.Whole = 0
}

// size computes the bytes of a record whose Size is not set.
func (it *Item) size() int {
	switch {
	case it.Event != nil:
		return EventSize(it.Event)
	case it.Lines != nil:
		return RecordSize + len(it.Lines)
	default:
		return responseSize(it.Response)
	}
}

// Merge takes a later record into this one, if nothing is lost by it: deltas of
// one block are one delta; progress of a tool and the content of the queues, which are
// cumulative, are replaced by the newer record. The result has the same content as the later record.
func (it *Item) Merge(later Item) bool {
	if it.Known != later.Known {
		return false
	}
	switch next := later.Event.(type) {
	case *protocol.MessageUpdate:
		first, ok := it.Event.(*protocol.MessageUpdate)
		if !ok || first.Step != protocol.UpdateDelta || next.Step != protocol.UpdateDelta ||
			first.Index != next.Index || first.RunID != next.RunID {
			return false
		}
		if it.merged == nil {
			it.merged = append([]byte(nil), first.Delta...)
			one := *first
			it.Event, first = &one, &one
		}
		it.merged = append(it.merged, next.Delta...)
		it.Size = max(it.Size, later.Size) + protocol.EscapedSize(next.Delta)
		it.Whole = max(it.Whole, later.Whole)
		it.Seq = later.Seq
		if next.Usage != nil {
			first.Usage = next.Usage
		}
		return true
	case protocol.ToolExecutionUpdate:
		first, ok := it.Event.(protocol.ToolExecutionUpdate)
		if !ok || first.ToolCallID != next.ToolCallID || first.RunID != next.RunID {
			return false
		}
		*it = later
		return true
	case protocol.QueueChanged:
		if _, ok := it.Event.(protocol.QueueChanged); !ok || it.Receipt != nil {
			return false
		}
		later.Owed = later.Owed || it.Owed
		*it = later
		return true
	default:
		return false
	}
}

// Text is how long the text of an update is by now; 0 for other records.
func (it *Item) Text() int {
	if it.merged != nil {
		return len(it.merged)
	}
	if u, ok := it.Event.(*protocol.MessageUpdate); ok {
		return len(u.Delta)
	}
	return 0
}

// Part is a record of an update that has a part of the text of this one.
func (it *Item) Part(begin, end int) Item {
	part, u := *it, *it.Event.(*protocol.MessageUpdate)
	if it.merged != nil {
		u.Delta = string(it.merged[begin:end])
	} else {
		u.Delta = u.Delta[begin:end]
	}
	part.Event, part.merged = &u, nil
	return part
}

// Settle completes an event that others were merged into; it must be called
// before the event is read.
func (it *Item) Settle() {
	if it.merged != nil {
		it.Event.(*protocol.MessageUpdate).Delta = string(it.merged)
		it.merged = nil
	}
}
