package actors

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/protocol"
)

// writer turns responses and events into lines, in the order they arrive. What
// arrives while a write is under way is gathered and written at once when it
// returns: many lines a write under load, no delay when idle.
//
// What a client has not read yet is bounded by the [window], which the writer
// credits for what it has written. Steps of the same growing message that wait
// next to each other are merged, and progress of a tool, which is cumulative,
// gives way to newer progress; nothing else is ever touched.
type writer struct {
	out    io.Writer
	try    TryWriter // out, if it is one
	lead   *lead     // nil where nobody leads
	log    zerolog.Logger
	window *window

	gates    protocol.Gates
	encoders map[string]*protocol.Encoder // by tag

	waiting []pending
	buf     []byte     // being filled or written
	debit   int        // of the records in buf
	shown   []*receipt // of them
	spare   []byte
	busy    bool // a write is under way
	failed  error
	flushes []*actor.PID
	chunks  chan []byte
}

// TryWriter is an output that can be written to without waiting for its reader.
type TryWriter interface {
	// TryWrite writes what can be written at once, which may be nothing.
	TryWrite(p []byte) (n int, err error)
}

// pending is a record that waits to be written.
type pending struct {
	tag  string
	item item
	last bool // no record: the session is gone, and its encoder with it
	at   int  // of a long response: where its next piece is, 0 before the first
}

const (
	writeChunk  = 256 << 10
	keptRecords = 32 // room for so many records is kept while none waits
)

func (w *writer) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		w.encoders = map[string]*protocol.Encoder{}
		w.chunks = make(chan []byte, 1)
		w.try, _ = w.out.(TryWriter)
		go write(c.ActorSystem().Root, c.Self(), w.out, w.chunks)
	case *actor.Stopping:
		w.abandon(w.waiting)
		close(w.chunks)
	case setGates:
		w.gates = m.gates
		clear(w.encoders)
	case records:
		w.records(c, m)
	case forget:
		w.waiting = append(w.waiting, pending{tag: m.tag, last: true})
		w.pump(c)
	case flush:
		w.flushes = append(w.flushes, c.Sender())
		w.answerFlushes(c)
	case wrote:
		w.wrote(c, m)
	}
}

// write is the goroutine that blocks.
func write(root *actor.RootContext, self *actor.PID, out io.Writer, chunks chan []byte) {
	var fine any = wrote{} // one for all
	for chunk := range chunks {
		if err := writeChunkTo(out, chunk); err != nil {
			root.Send(self, wrote{err})
			continue
		}
		root.Send(self, fine)
	}
}

func writeChunkTo(out io.Writer, chunk []byte) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("writing broke: %v", reason)
		}
	}()
	_, err = out.Write(chunk)
	return err
}

func (w *writer) records(c actor.Context, m records) {
	for _, it := range m.items {
		if w.failed != nil {
			it.receipt.written()
			continue
		}
		w.enqueue(m.tag, it)
	}
	w.pump(c)
}

func (w *writer) enqueue(tag string, it item) {
	if n := len(w.waiting); n > 0 && w.waiting[n-1].tag == tag && !w.waiting[n-1].last {
		last := &w.waiting[n-1]
		debit := last.item.size + it.size
		if last.item.merge(it) {
			w.window.give(debit - last.item.size)
			return
		}
	}
	w.waiting = append(w.waiting, pending{tag: tag, item: it})
}

// pump encodes what waits and hands it to the goroutine, unless that is busy.
func (w *writer) pump(c actor.Context) {
	if w.busy || len(w.waiting) == 0 || w.failed != nil {
		return
	}
	w.buf = w.buf[:0]
	n := 0
	for n < len(w.waiting) && len(w.buf) < writeChunk {
		p := &w.waiting[n]
		if p.last {
			delete(w.encoders, p.tag)
			n++
			continue
		}
		if w.buf = w.encode(w.buf, p); p.at != 0 {
			continue // there is more of it
		}
		w.debit += p.item.size
		if p.item.receipt != nil {
			w.shown = append(w.shown, p.item.receipt)
		}
		n++
	}
	w.written(n)
	if len(w.buf) == 0 { // nothing of it exists in this client's dialect
		w.credit()
		w.pump(c)
		return
	}
	rest, err := w.tryWrite()
	switch {
	case err != nil:
		w.fail(c, err)
	case len(rest) > 0:
		w.busy = true
		w.chunks <- rest
	default:
		w.credit()
	}
}

// credit gives back what the records that have left the buffer were debited, and
// tells who waits for one of them.
func (w *writer) credit() {
	for _, r := range w.shown {
		r.written()
	}
	w.shown = w.shown[:0]
	if w.debit > 0 {
		w.window.give(w.debit)
		w.debit = 0
	}
}

// tryWrite writes the answer to a single command here and now, if the client
// takes it: all else is better gathered. rest is what is left.
func (w *writer) tryWrite() (rest []byte, err error) {
	if w.try == nil || w.lead == nil || !w.lead.leading.Load() || len(w.waiting) > 0 {
		return w.buf, nil
	}
	n, err := w.try.TryWrite(w.buf)
	return w.buf[n:], err
}

func (w *writer) fail(c actor.Context, err error) {
	w.failed = err
	w.abandon(w.waiting)
	w.waiting = nil
	w.window.close()
	c.Send(c.Parent(), outputFailed{err})
}

// abandon ends the waiting for records that will not be written.
func (w *writer) abandon(list []pending) {
	for _, p := range list {
		p.item.receipt.written()
	}
	for _, r := range w.shown {
		r.written()
	}
	w.shown = nil
}

// written lets go of the first n records.
func (w *writer) written(n int) {
	clear(w.waiting[:n])
	switch {
	case n < len(w.waiting):
		w.waiting = w.waiting[n:]
		return
	case cap(w.waiting) <= keptRecords:
		w.waiting = w.waiting[:0]
	default:
		w.waiting = nil
	}
}

// encode appends a record. One that cannot be encoded costs its own line: a
// command is told so, an event is left out. Only an answer that is half written
// cannot be taken back.
func (w *writer) encode(dst []byte, p *pending) (out []byte) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		if p.at != 0 {
			panic(reason)
		}
		w.log.Error().Str("panic", fmt.Sprint(reason)).Bytes("stack", debug.Stack()).Msg("record could not be encoded")
		out = dst
		if resp := p.item.response; resp != nil {
			broken := *resp
			broken.Data, broken.Err = nil, protocol.CodeInternal.Errorf("Internal error: the answer could not be encoded")
			out = w.encoders[p.tag].AppendResponse(dst, broken)
		}
	}()
	enc := w.encoders[p.tag]
	if enc == nil {
		enc = protocol.NewEncoder(w.gates, p.tag)
		w.encoders[p.tag] = enc
	}
	if resp := p.item.response; resp != nil {
		if long, ok := resp.Data.(protocol.Long); ok {
			dst, p.at = enc.AppendLong(dst, *resp, long, p.at)
			return dst
		}
		return enc.AppendResponse(dst, *resp)
	}
	p.item.settle()
	return enc.AppendEvent(dst, p.item.event)
}

func (w *writer) wrote(c actor.Context, m wrote) {
	w.busy = false
	w.buf, w.spare = w.spare, w.buf
	if cap(w.spare) > 4*writeChunk { // one huge line must not keep its buffer for life
		w.spare = nil
	}
	if m.err != nil && w.failed == nil {
		w.fail(c, m.err)
	}
	w.credit()
	w.pump(c)
	w.answerFlushes(c)
}

func (w *writer) answerFlushes(c actor.Context) {
	if w.failed == nil && (w.busy || len(w.waiting) > 0) {
		return
	}
	for _, pid := range w.flushes {
		c.Send(pid, flushed{w.failed})
	}
	w.flushes = nil
}
