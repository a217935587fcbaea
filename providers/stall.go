package providers

import (
	"context"
	"errors"
	"io"
	"time"

	"troupe/protocol"
)

// DefaultStall is how long a model may be silent, unless the model's
// [protocol.ModelExtra] or the client's configuration says otherwise.
//
//   - Connect, until the response headers: 5 minutes. Most services answer at
//     once, but gateways hold the headers back until the first token.
//   - First, from the headers to the first content: 5 minutes. Models think
//     before they speak, and some do it silently.
//   - Content, between two pieces of content: 5 minutes, the idle time that
//     clients of these services have lived with.
//
// Comments, pings and empty events are no content: a server that only keeps the
// connection alive is cut off. There is no limit on a whole answer: one that
// keeps coming, however slowly, is never cut off.
var DefaultStall = protocol.StallLimits{ConnectMs: 300_000, FirstMs: 300_000, ContentMs: 300_000}

// localStall replaces DefaultStall for servers on this machine or in a private
// network: they load the model and read the whole prompt before they send a
// byte, which on a slow machine takes longer than any service would.
var localStall = protocol.StallLimits{ConnectMs: 1_800_000, FirstMs: 1_800_000, ContentMs: 300_000}

// closingLimit is how long trailing information may take once an answer is
// complete. Some servers keep the connection open instead of ending it.
const closingLimit = 5 * time.Second

// LimitsFor puts the limits of one exchange together: the model's, else the
// session's, else the default.
func LimitsFor(model *protocol.Model, session protocol.StallLimits) protocol.StallLimits {
	limits := DefaultStall
	if IsLocal(model.BaseURL) {
		limits = localStall
	}
	limits = overlay(limits, session)
	if model.Settings != nil {
		limits = overlay(limits, model.Settings.Stall)
	}
	return limits
}

// overlay returns base with the fields that over sets.
func overlay(base, over protocol.StallLimits) protocol.StallLimits {
	set := func(dst *int64, v int64) {
		if v != 0 {
			*dst = v
		}
	}
	set(&base.ConnectMs, over.ConnectMs)
	set(&base.FirstMs, over.FirstMs)
	set(&base.ContentMs, over.ContentMs)
	return base
}

// errStalled is the cause with which a watch cancels an exchange.
var errStalled = errors.New("the answer stalled")

// watch bounds the silence of one exchange. It counts only the time spent
// waiting for the server: a reader that takes an hour over a part is not the
// server's fault. It belongs to one goroutine; its timer only cancels.
type watch struct {
	limits protocol.StallLimits
	timer  *time.Timer

	what   string        // what is waited for
	limit  time.Duration // of the current wait, not above 0 for none
	silent time.Duration // how much of it is used up
}

func newWatch(limits protocol.StallLimits, cancel context.CancelCauseFunc) *watch {
	w := &watch{limits: limits, timer: time.AfterFunc(time.Hour, func() { cancel(errStalled) })}
	w.timer.Stop()
	w.expect("no response", limits.ConnectMs)
	return w
}

// expect begins a new silence.
func (w *watch) expect(what string, limitMs int64) {
	w.what, w.limit, w.silent = what, time.Duration(limitMs)*time.Millisecond, 0
}

// headers says that the server has answered, content that it has said
// something, closing that nothing important is missing any more.
func (w *watch) headers() { w.expect("no content", w.limits.FirstMs) }
func (w *watch) content() { w.expect("no further content", w.limits.ContentMs) }
func (w *watch) closing() { w.expect("no end", closingLimit.Milliseconds()) }

// begin and end stand around everything that waits for the server.
func (w *watch) begin() time.Time {
	if w.limit > 0 {
		w.timer.Reset(max(w.limit-w.silent, 0))
	}
	return time.Now()
}

func (w *watch) end(begun time.Time) {
	w.timer.Stop()
	w.silent += time.Since(begun)
}

func (w *watch) failure() *protocol.StreamError {
	return protocol.ErrorStalled.Errorf("The answer stalled: %s within %v", w.what, w.limit)
}

// watchedReader watches every read of a response and remembers how it began.
type watchedReader struct {
	w    *watch
	body io.Reader
	head []byte // the first bytes, at most headSize
}

// headSize is how much of a response is kept to explain one that is no stream.
const headSize = 4 << 10

func (r *watchedReader) Read(p []byte) (int, error) {
	begun := r.w.begin()
	n, err := r.body.Read(p)
	r.w.end(begun)
	if room := headSize - len(r.head); room > 0 && n > 0 {
		r.head = append(r.head, p[:min(n, room)]...)
	}
	return n, err
}
