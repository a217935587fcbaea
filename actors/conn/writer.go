package conn

import (
	"bytes"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
)

// writer turns responses and events into lines, in the order they arrive. What
// arrives while a write is under way is gathered and written at once when it
// returns: many lines a write under load, no delay when idle.
//
// What a client has not read yet is bounded by the [link.Window], which the writer
// credits for what it has written. Deltas of one message that wait are merged, and
// progress of a tool, which is cumulative, gives way to newer progress. No other
// record is changed. A client that receives the whole message with each delta
// receives one every [frameTime] at most.
type writer struct {
	log    zerolog.Logger
	sink   sink
	window *link.Window

	codec    protocol.Codec
	wire     protocol.Wire
	encoders map[string]protocol.Encoder // by tag

	waiting []pending
	batch   batch
	busy    bool  // a write is under way
	failed  error // nothing is written any more
	flushes []*actor.PID
	lag     lag
}

// writeLimit bounds the time of a write that may block, once the daemon ends.
type writeLimit struct {
	active bool        // a write may take [ReadLimit]
	writes uint64      // number of writes so far, to tell a late timer apart
	timer  *time.Timer // of the current write; nil before the first that is bounded
}

// beat knows how long nothing was written, for a client that wants to be told.
type beat struct {
	timer *time.Timer // sends beatDue; nil for a client that does not
	last  time.Time   // when something was
}

type beatDue struct{}

const beatEvery = protocol.HeartbeatMs * time.Millisecond

// heartbeats begins or ends them, as the client wants it.
func (w *writer) heartbeats(c actor.Context) {
	switch wants := w.wire.Has(protocol.FeatureHeartbeat); {
	case wants && w.sink.beat.timer == nil:
		w.sink.beat = beat{kernel.After(c, beatEvery, c.Self(), beatDue{}), time.Now()}
	case !wants && w.sink.beat.timer != nil:
		w.sink.beat.timer.Stop()
		w.sink.beat.timer = nil
	}
}

// heartbeat writes one if it is time. While a write is under way the client is busy anyway.
func (w *writer) heartbeat(c actor.Context) {
	if w.sink.beat.timer == nil || w.failed != nil {
		return
	}
	silent := time.Since(w.sink.beat.last)
	if silent >= beatEvery {
		if silent = 0; !w.busy {
			w.enqueue("", link.Item{Event: protocol.Heartbeat{T: time.Now().UnixMilli()}})
			w.pump(c)
		}
	}
	w.sink.beat.timer = kernel.After(c, beatEvery-silent, c.Self(), beatDue{})
}

// sink is where lines go, and when.
type sink struct {
	beat   beat
	limit  writeLimit
	frames frames
	out    io.Writer
	try    TryWriter // out, if it is one
	sees   Witness   // out, if it is one
	framer Framer    // out, if it is one
	runs   kernel.Dispatcher
	chunks chan []byte // to the goroutine that blocks; nil while there is none
}

// batch is the records that are being encoded or written.
type batch struct {
	*buffers                 // nil between the batches of a client of many
	debit    int             // what the window was debited for them
	shown    []*link.Receipt // of those among them that somebody waits for
}

// buffers are what a batch is made in.
type buffers struct {
	buf    []byte // the lines, or their frames
	framed []byte // room for the other of both
}

// scratch is shared by clients of which there may be a thousand: each has buffers only
// while it is written to.
var scratch = sync.Pool{New: func() any { return new(buffers) }}

func newWriter(out io.Writer, runs kernel.Dispatcher, window *link.Window, codec protocol.Codec, wire protocol.Wire, log zerolog.Logger, lags lag) *writer {
	lags.behind = map[string]bool{}
	try, _ := out.(TryWriter)
	sees, _ := out.(Witness)
	framer, _ := out.(Framer)
	return &writer{
		log: log, sink: sink{out: out, try: try, sees: sees, framer: framer, runs: runs}, window: window,
		codec: codec, wire: wire, encoders: map[string]protocol.Encoder{}, lag: lags,
	}
}

// pending is a record that waits to be written.
type pending struct {
	tag  string
	item link.Item
	last bool // not a record but the end of the tag: its encoder is dropped
	at   int  // of a long response: the position of its next piece, 0 before the first
}

const (
	writeChunk  = 256 << 10
	keptRecords = 32               // room for so many records is kept while none waits
	gatherTime  = time.Millisecond // what comes so soon behind a write is gathered
)

func (w *writer) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		w.heartbeats(c)
	case *actor.Stopping:
		w.abandon()
		if w.sink.beat.timer != nil {
			w.sink.beat.timer.Stop()
		}
		w.stopLimit()
		w.sink.frames.stop()
		if w.sink.chunks != nil {
			close(w.sink.chunks)
		}
	case setWire:
		w.wire = m.wire
		clear(w.encoders)
		w.heartbeats(c)
	case hearsNothing:
		w.lag.behind[m.tag] = true
	case beatDue:
		w.heartbeat(c)
	case link.Records:
		w.records(c, m)
	case link.Forget:
		w.waiting = append(w.waiting, pending{tag: m.Tag, last: true})
		delete(w.lag.behind, m.Tag)
		w.pump(c)
	case flush:
		w.flushes = append(w.flushes, c.Sender())
		w.pump(c)
		w.answerFlushes(c)
	case frameDue:
		w.sink.frames.timer = nil
		w.pump(c)
	case hurry:
		w.hurry(c)
	case stalled:
		w.stalled(c, m)
	case wrote:
		w.wrote(c, m)
	case kernel.Crashed:
		panic(m.Reason)
	}
}

// block has a chunk written by a goroutine, since a write may block and an actor must
// not. That of a client of many ends with the write: most of the time nothing blocks.
func (w *writer) block(c actor.Context, chunk []byte) {
	w.busy = true
	if w.sink.chunks == nil {
		root, self, out, chunks := c.ActorSystem().Root, c.Self(), w.sink.out, make(chan []byte, 1)
		kernel.Go(root, self, func() { write(root, self, out, chunks) })
		w.sink.chunks = chunks
	}
	w.sink.chunks <- chunk
	if w.many() {
		close(w.sink.chunks)
		w.sink.chunks = nil
	}
	w.sink.limit.writes++
	w.limitWrite(c)
}

// hurry bounds the current write and those that follow.
func (w *writer) hurry(c actor.Context) {
	if !w.sink.limit.active {
		w.sink.limit.active = true
		w.limitWrite(c)
		w.pump(c)
	}
}

// limitWrite has the writer look at the current write after [ReadLimit] if the daemon ends.
func (w *writer) limitWrite(c actor.Context) {
	if w.sink.limit.active && w.busy {
		w.stopLimit()
		w.sink.limit.timer = kernel.After(c, ReadLimit, c.Self(), stalled{w.sink.limit.writes})
	}
}

func (w *writer) stopLimit() {
	if w.sink.limit.timer != nil {
		w.sink.limit.timer.Stop()
	}
}

// stalled gives up on a client that has not taken a write within [ReadLimit].
func (w *writer) stalled(c actor.Context, m stalled) {
	if w.busy && w.failed == nil && m.write == w.sink.limit.writes {
		w.fail(c, ErrUnread)
		w.answerFlushes(c)
	}
}

// many says whether this may be one of a thousand clients.
func (w *writer) many() bool { return w.lag.most > 0 }

// write is the body of the goroutine that writes.
func write(root *actor.RootContext, self *actor.PID, out io.Writer, chunks chan []byte) {
	var fine any = wrote{} // boxed once
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

func (w *writer) records(c actor.Context, m link.Records) {
	for _, it := range m.Items {
		if it.Response != nil && w.sink.sees != nil {
			w.sink.sees.Answered(answerOf(m.Tag, it.Response))
		}
		if w.failed != nil || w.lag.refuses(m.Tag, &it) {
			it.Receipt.Written()
			w.window.Give(it.Size)
			continue
		}
		w.enqueue(m.Tag, it)
	}
	w.pump(c)
	if w.lag.most > 0 && w.window.Out() > w.lag.limit() {
		w.catchUp()
	}
}

func (w *writer) enqueue(tag string, it link.Item) {
	for i := len(w.waiting) - 1; i >= max(0, len(w.waiting)-mergeDistance); i-- {
		p := &w.waiting[i]
		if p.tag != tag {
			if p.delta() {
				continue
			}
			break
		}
		debit := p.item.Size + it.Size
		if !p.last && p.item.Merge(it) {
			w.window.Give(debit - p.item.Size)
			return
		}
		break
	}
	w.waiting = append(w.waiting, pending{tag: tag, item: it})
}

// pump encodes what waits and has it written, unless a write is under way.
func (w *writer) pump(c actor.Context) {
	if w.busy || len(w.waiting) == 0 || w.failed != nil || w.hold(c) {
		return
	}
	w.encodeWaiting()
	if len(w.batch.buf) == 0 { // nothing of it exists in this client's dialect
		w.release()
		w.credit()
		w.pump(c)
		return
	}
	rest, err := w.tryWrite()
	switch {
	case err != nil:
		w.fail(c, err)
	case len(rest) > 0:
		w.block(c, rest)
	default:
		w.release()
		w.credit()
		w.pump(c)
	}
}

// release gives the buffers back that a client of many does not need until the next batch.
func (w *writer) release() {
	b := &w.batch
	if !w.many() || b.buffers == nil || len(w.waiting) > 0 {
		return
	}
	if cap(b.buf)+cap(b.framed) <= writeChunk {
		scratch.Put(b.buffers)
	}
	b.buffers = nil
}

// encodeWaiting encodes records that wait into the batch, until that is large
// enough for one write.
func (w *writer) encodeWaiting() {
	b := &w.batch
	if b.buffers == nil {
		b.buffers = scratch.Get().(*buffers)
	}
	need, n, cumulative, now := 0, 0, w.cumulative(), time.Now()
	for i := 0; i < len(w.waiting) && need < writeChunk; i++ {
		need += w.waiting[i].item.Size
	}
	b.buf = slices.Grow(b.buf[:0], min(need, 2*writeChunk))
	for n < len(w.waiting) && len(b.buf) < writeChunk {
		p := &w.waiting[n]
		if cumulative {
			w.sink.frames.encoded(p, now)
		}
		if p.last {
			delete(w.encoders, p.tag)
			n++
			continue
		}
		if b.buf = w.encode(b.buf, p); p.at != 0 {
			continue // there is more of it
		}
		b.debit += p.item.Size
		if p.item.Receipt != nil {
			b.shown = append(b.shown, p.item.Receipt)
		}
		n++
	}
	w.dropEncoded(n)
	switch {
	case len(b.buf) == 0:
	case w.sink.framer != nil:
		b.framed, b.buf = b.buf, w.sink.framer.Frame(b.framed[:0], b.buf)
	default:
		b.framed, b.buf = escapeSeparators(b.framed[:0], b.buf)
	}
}

// separatorStart are the first two of the three bytes of U+2028 and U+2029 in UTF-8.
var separatorStart = []byte("\xe2\x80")

// escapeSeparators replaces U+2028 and U+2029 in JSON lines by their escapes. Clients that read
// lines with Node's readline take either for the end of a line. It returns the buffer that
// is free and the one that holds the lines; dst is used only if lines has such a character.
func escapeSeparators(dst, lines []byte) (free, escaped []byte) {
	done := 0
	for at := 0; ; {
		i := bytes.Index(lines[at:], separatorStart)
		if i < 0 || at+i+2 >= len(lines) {
			break
		}
		at += i
		if last := lines[at+2]; last == 0xa8 || last == 0xa9 {
			dst = append(append(dst, lines[done:at]...), `\u202`...)
			dst = append(dst, last-0xa8+'8')
			done = at + 3
		}
		at += 2
	}
	if done == 0 {
		return dst, lines
	}
	return lines, append(dst, lines[done:]...)
}

// credit credits the batch to the window, and says in its receipts that it was
// written.
func (w *writer) credit() {
	for _, r := range w.batch.shown {
		r.Written()
	}
	w.batch.shown = w.batch.shown[:0]
	if w.batch.debit > 0 {
		w.window.Give(w.batch.debit)
		w.batch.debit = 0
	}
}

// tryWrite writes the batch without the goroutine, as far as that does not block,
// while a line is handled inline: then it is the answer to one command. A client of
// many is written to like this whenever it is some time since the last write, unless
// more records wait: then the goroutine writes them together. rest is what was not written.
func (w *writer) tryWrite() (rest []byte, err error) {
	buf, now := w.batch.buf, time.Now()
	gathers := now.Sub(w.sink.beat.last) < gatherTime
	w.sink.beat.last = now
	if w.sink.try == nil || !w.sink.runs.Inlining() && (gathers || len(w.waiting) > 0 || !w.many()) {
		return buf, nil
	}
	n, err := w.sink.try.TryWrite(buf)
	return buf[n:], err
}

func (w *writer) fail(c actor.Context, err error) {
	w.failed = err
	w.abandon()
	c.Send(c.Parent(), outputFailed{err})
}

// abandon drops all records: it credits them to the window, completes their
// receipts and closes the window, so that nobody waits for a client that is gone.
func (w *writer) abandon() {
	for _, p := range w.waiting {
		p.item.Receipt.Written()
		w.window.Give(p.item.Size)
	}
	w.waiting = nil
	w.credit()
	w.window.Close()
}

// dropEncoded removes the first n records from those that wait.
func (w *writer) dropEncoded(n int) {
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
		if resp := p.item.Response; resp != nil {
			broken := *resp
			err := protocol.CodeInternal.Errorf("Internal error: the answer could not be encoded")
			broken.Data, broken.Err = nil, err.CutOff(protocol.Lookup(resp.Command), resp.Err == nil)
			out = w.encoders[p.tag].AppendResponse(dst, broken)
		}
	}()
	if p.item.Lines != nil {
		return append(dst, p.item.Lines...)
	}
	enc := w.encoders[p.tag]
	if enc == nil {
		enc = w.codec.Encoder(w.wire, p.tag)
		w.encoders[p.tag] = enc
	}
	if resp := p.item.Response; resp != nil {
		if long, ok := resp.Data.(protocol.Long); ok {
			dst, p.at = enc.AppendLong(dst, *resp, long, p.at)
			return dst
		}
		return enc.AppendResponse(dst, *resp)
	}
	p.item.Settle()
	if p.item.Known {
		enc.Fold(p.item.Event)
		return dst
	}
	return enc.AppendEvent(dst, p.item.Event, p.item.Seq)
}

func (w *writer) wrote(c actor.Context, m wrote) {
	w.busy = false
	if b := w.batch.buffers; cap(b.buf)+cap(b.framed) > 4*writeChunk { // one huge line must not keep its buffer for life
		*b = buffers{}
	}
	w.release()
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
