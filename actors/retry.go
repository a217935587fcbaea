package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"troupe/actors/session"
)

// RetryPolicy says how long to wait before a failed request is made again.
type RetryPolicy struct {
	Base time.Duration // before the first retry; doubles with each
	Max  time.Duration // never longer than this, whatever the provider asks for
}

// DefaultRetry is pi's: 2 s, 4 s, 8 s, at most a minute, without jitter, for
// clients show the announced delay.
var DefaultRetry = RetryPolicy{Base: 2 * time.Second, Max: time.Minute}

// delay is how long to wait before retry number attempt, from 1. A provider
// that asks for longer gets it, up to the maximum.
func (p RetryPolicy) delay(attempt int, asked time.Duration) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.Base),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxInterval(p.Max),
		backoff.WithMaxElapsedTime(0), // attempts are counted, not time
	)
	d := b.NextBackOff()
	for range attempt - 1 {
		d = b.NextBackOff()
	}
	return min(max(d, asked), p.Max)
}

// retrySupervisor keeps the timer between a failed attempt and the next.
type retrySupervisor struct {
	policy RetryPolicy
	timer  *time.Timer
}

// startRetry asks for a wait; cancelRetry ends it.
type (
	startRetry struct {
		run     int
		attempt int
		asked   time.Duration
	}
	cancelRetry struct{ run int }
)

func (r *retrySupervisor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case startRetry:
		r.stop()
		d := r.policy.delay(m.attempt, m.asked)
		c.Send(c.Parent(), session.RetryScheduled{Run: m.run, DelayMs: d.Milliseconds()})
		root, parent := c.ActorSystem().Root, c.Parent()
		r.timer = time.AfterFunc(d, func() { root.Send(parent, session.RetryDue{Run: m.run}) })
	case cancelRetry, *actor.Stopping:
		r.stop()
	}
}

func (r *retrySupervisor) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}
