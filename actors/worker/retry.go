package worker

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"troupe/actors/core"
	"troupe/actors/kernel"
)

// RetryPolicy says how long to wait before a failed request is made again. There
// is no jitter, for clients show the announced delay.
type RetryPolicy struct {
	Base time.Duration // before the first retry; doubles with each
	Max  time.Duration // never longer than this, whatever the provider asks for
}

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

// RetrySupervisor keeps the timer between a failed attempt and the next.
type RetrySupervisor struct {
	Policy RetryPolicy
	timer  *time.Timer
}

// Receive takes the machine's effects as they are: core.ScheduleRetry and
// core.Cancel.
func (r *RetrySupervisor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case core.ScheduleRetry:
		r.stop()
		d := r.Policy.delay(m.Number, m.After)
		c.Send(c.Parent(), core.RetryScheduled{Attempt: m.Attempt, DelayMs: d.Milliseconds()})
		r.timer = kernel.After(c, d, c.Parent(), core.RetryDue{Attempt: m.Attempt})
	case core.Cancel, *actor.Stopping:
		r.stop()
	}
}

func (r *RetrySupervisor) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
