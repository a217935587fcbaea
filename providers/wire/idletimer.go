package wire

import (
	"context"
	"errors"
	"io"
	"time"

	"troupe/protocol"
)

// closingLimit is how long trailing information may take once an answer is
// complete. Some servers keep the connection open instead of ending it.
const closingLimit = 5 * time.Second

// errStalled is the cause with which an idleTimer cancels an exchange.
var errStalled = errors.New("the answer stalled")

// idleTimer bounds the silence of one exchange. It counts only the time spent
// waiting for the server: a reader that takes an hour over a part is not the
// server's fault. It belongs to one goroutine; its timer only cancels.
type idleTimer struct {
	limits protocol.StallLimits
	timer  *time.Timer

	what   string        // what is waited for
	limit  time.Duration // of the current wait, not above 0 for none
	silent time.Duration // how much of it is used up
	read   int64         // bytes since it began, which say nothing
}

func newIdleTimer(limits protocol.StallLimits, cancel context.CancelCauseFunc) *idleTimer {
	t := &idleTimer{limits: limits, timer: time.AfterFunc(time.Hour, func() { cancel(errStalled) })}
	t.timer.Stop()
	t.expect("no response", limits.ConnectMs)
	return t
}

// expect begins a new silence.
func (t *idleTimer) expect(what string, limitMs int64) {
	t.what, t.limit, t.silent, t.read = what, time.Duration(limitMs)*time.Millisecond, 0, 0
}

// headers says that the server has answered, content that it has said
// something, closing that nothing important is missing any more.
func (t *idleTimer) headers() { t.expect("no content", t.limits.FirstMs) }
func (t *idleTimer) content() { t.expect("no further content", t.limits.ContentMs) }
func (t *idleTimer) closing() { t.expect("no end", closingLimit.Milliseconds()) }

// begin and end stand around everything that waits for the server.
func (t *idleTimer) begin() time.Time {
	if t.limit > 0 {
		t.timer.Reset(max(t.limit-t.silent, 0))
	}
	return time.Now()
}

func (t *idleTimer) end(begun time.Time) {
	t.timer.Stop()
	t.silent += time.Since(begun)
}

// floods says that the server sends and sends, and says nothing: the time that it takes is
// our own, for reading.
func (t *idleTimer) floods() bool { return t.read > protocol.MaxNoise }

func (t *idleTimer) failure() *protocol.StreamError {
	if t.floods() {
		return protocol.ErrorStalled.Errorf("The answer stalled: %s in %d bytes", t.what, t.read)
	}
	return protocol.ErrorStalled.Errorf("The answer stalled: %s within %v", t.what, t.limit)
}

// timedReader times every read of a response and remembers how that began.
type timedReader struct {
	idle *idleTimer
	body io.Reader
	head []byte // the first bytes, at most headSize
}

// headSize is how much of a response is kept to explain one that is no stream.
const headSize = 4 << 10

func (r *timedReader) Read(p []byte) (int, error) {
	begun := r.idle.begin()
	n, err := r.body.Read(p)
	r.idle.end(begun)
	if r.idle.read += int64(n); r.idle.floods() {
		return 0, errStalled
	}
	if room := headSize - len(r.head); room > 0 && n > 0 {
		r.head = append(r.head, p[:min(n, room)]...)
	}
	return n, err
}
