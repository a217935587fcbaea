package conn

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/protocol"
)

// frameTime is the shortest time between two deltas of one message for a client
// that receives the whole message with each of them. A screen shows no more, and
// the client parses the message 125 times a second at most, however fast the
// model is.
const frameTime = 8 * time.Millisecond

// mergeDistance is how many records back [writer.enqueue] looks for a delta of the
// same session, past deltas of other sessions.
const mergeDistance = 64

// frames holds cumulative updates back so that neighbours merge.
//
// The first delta of a message is written at once, and so is the last: any record
// other than a delta releases everything that is held.
type frames struct {
	written map[string]time.Time // when the last delta of the open message was written, by tag
	timer   *time.Timer          // sends frameDue; nil while nothing is held
}

// frameDue is sent to the writer when the deltas that it holds may be written.
type frameDue struct{}

// delta reports whether a record is the delta of a message that the client reads live.
func (p *pending) delta() bool {
	update, ok := p.item.Event.(*protocol.MessageUpdate)
	return ok && update.Step == protocol.UpdateDelta && !p.item.Known && !p.last
}

// hold reports whether the waiting records are all deltas that are not due yet. It
// then has the writer sent frameDue when the first of them is.
func (w *writer) hold(c actor.Context) bool {
	if !w.cumulative() || len(w.flushes) > 0 || w.sink.limit.active {
		return false
	}
	now, wait := time.Now(), frameTime
	for i := range w.waiting {
		p := &w.waiting[i]
		if !p.delta() {
			return false
		}
		left := frameTime - now.Sub(w.sink.frames.written[p.tag])
		if left <= 0 {
			return false
		}
		wait = min(wait, left)
	}
	if w.sink.frames.timer == nil {
		w.sink.frames.timer = kernel.After(c, wait, c.Self(), frameDue{})
	}
	return true
}

// cumulative reports whether updates show the client the whole message.
func (w *writer) cumulative() bool { return !w.wire.Has(protocol.FeatureDeltaUpdates) }

// encoded records that p is in the batch.
func (f *frames) encoded(p *pending, now time.Time) {
	if !p.delta() {
		delete(f.written, p.tag)
		return
	}
	if f.written == nil {
		f.written = map[string]time.Time{}
	}
	f.written[p.tag] = now
}

func (f *frames) stop() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}
