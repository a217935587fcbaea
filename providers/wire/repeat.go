package wire

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"

	"troupe/protocol"
	"troupe/providers"
)

// The waits before repeats, as those of the official clients without their
// chance: 0.5 s, 1 s, 2 s, at most 8 s.
const (
	firstWait   = 500 * time.Millisecond
	longestWait = 8 * time.Second
)

// waitsOf lists the waits of one request.
func waitsOf(r providers.Repeats) backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstWait),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxInterval(longestWait),
		backoff.WithMaxElapsedTime(0), // the attempts are counted, not the time
	), uint64(max(r.Max, 0)))
}

// passing says whether a refusal may be gone the next time. The service knows
// best; else it is what the official clients repeat, without what no repeat
// cures: an empty account, a context that is too large.
func passing(header http.Header, err *protocol.StreamError) bool {
	switch header.Get("X-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	switch err.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return err.Kind.Retryable()
	}
	return err.Status >= 500 && err.Kind.Retryable()
}

// run makes the request, and again while it fails in a way that passes and
// nothing of an answer has come.
func (x *exchange) run() *protocol.StreamError {
	if x.parent.Err() != nil {
		return protocol.Aborted()
	}
	call, err := x.format.Encode(x.req)
	if err != nil {
		return asInvalid(err)
	}
	call.tapped(x.req.Taps)
	waits := waitsOf(x.req.Repeats)
	for made := 0; ; made++ {
		failed, passes := x.attempt(call)
		if failed != nil && made > 0 {
			failed = new(*failed) // the error of a login is that of all its requests
			failed.Repeats = made
		}
		if failed == nil || !passes {
			return failed
		}
		wait := waits.NextBackOff()
		if wait == backoff.Stop {
			return failed
		}
		if most := x.req.Repeats.MaxWait; most > 0 && failed.RetryAfter > most {
			failed.Message = fmt.Sprintf("Server requested %s retry delay (max: %s). %s", seconds(failed.RetryAfter), seconds(most), failed.Message)
			return failed
		}
		if most := x.req.Repeats.MaxQuiet; most > 0 && failed.RetryAfter > most {
			return failed
		}
		wait = max(wait, failed.RetryAfter)
		x.client.report(x.req, x.signed, failed, wait)
		if !sleep(x.parent, wait) {
			return protocol.Aborted()
		}
	}
}

// seconds is a time as people are told it, never less than it is.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
}

// sleep is false if ctx ends before the time.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes the request once. passes says that it may be made again: nothing
// of an answer has come, and the failure may be gone the next time. A server that
// stays silent is asked again only if somebody has said how long that may take:
// the usual limits are minutes.
func (x *exchange) attempt(call *Call) (failed *protocol.StreamError, passes bool) {
	ctx, cancel := context.WithCancelCause(x.parent)
	defer cancel(nil)
	x.ctx = ctx
	x.idle = newIdleTimer(providers.LimitsFor(x.req.Model, x.req.Network.Stall), cancel)
	defer x.idle.timer.Stop()

	resp, failed := x.send(call)
	if failed != nil {
		return failed, failed.Kind == protocol.ErrorNetwork || failed.Kind == protocol.ErrorStalled && x.req.Network.Stall.ConnectMs > 0
	}
	defer resp.Body.Close()
	tellAnswer(x.req.Taps, resp)
	if resp.StatusCode/100 != 2 {
		failed = x.refused(resp)
		return failed, passing(resp.Header, failed)
	}
	x.idle.headers()
	if failed := x.read(&timedReader{idle: x.idle, body: resp.Body}, resp.Header.Get("Content-Type")); failed != nil || x.left {
		return failed, false
	}
	x.drain(resp)
	return nil, false
}
