package core

import "troupe/protocol"

// retries counts how often one piece of work was tried again: for an answer
// over the runs that failed, for a summary within its compaction. The repeats that
// its requests made without an event count as well.
type retries struct {
	made      int
	announced int   // number of the latest auto_retry_start, 0 before the first
	won       bool  // the retried request has been answered
	since     int64 // when the first request failed
}

// maxRetryTime is how long the same work is tried again at most, whatever the
// settings allow: after that the client should hear of it.
const maxRetryTime = 30 * 60 * 1000 // milliseconds

// RepeatsAllowed is how often the settings allow a new request to be repeated.
func (m *Machine) RepeatsAllowed() int { return m.repeatsLeft(&retries{}) }

// mayRetry says whether a failure is followed by another attempt.
func (m *Machine) mayRetry(t *retries, err *protocol.StreamError) bool {
	made := t.pending()
	tooLong := made > 0 && m.clock()-t.since > maxRetryTime
	return err != nil && m.overBudget() == "" && err.Kind.Retryable() && m.AutoRetry && !m.stopping() && made+err.Repeats < m.set.MaxRetries && !tooLong
}

// pending is the number of retries since the last answer.
func (t *retries) pending() int {
	if t.won {
		return 0
	}
	return t.made
}

// RetriesOff stands for the number of retries left in a session that makes none.
const RetriesOff = -1

// repeatsLeft is how often the settings allow the next request to be repeated.
func (m *Machine) repeatsLeft(t *retries) int {
	if !m.AutoRetry {
		return RetriesOff
	}
	return max(0, m.set.MaxRetries-t.pending())
}

// scheduleRetry waits before the next attempt.
func (m *Machine) scheduleRetry(t *retries, a *retrying) {
	if t.made == 0 {
		t.since = m.clock()
	}
	t.made += a.failure.Repeats + 1
	a.number, a.attempt = t.made, m.newAttempt()
	m.enter(a)
	m.do(ScheduleRetry{Attempt: a.attempt, Number: a.number, After: a.failure.RetryAfter})
}

// apply announces the wait with its real length.
func (in RetryScheduled) apply(m *Machine) {
	a, ok := current[*retrying](m, in.Attempt)
	switch {
	case !ok || a.announced:
		return
	case a.summary != nil:
		m.emit(protocol.SummarizationRetryScheduled{
			Attempt: a.number, MaxAttempts: m.set.MaxRetries, DelayMs: in.DelayMs,
			ErrorMessage: a.failure.Message, Source: "compaction", Reason: a.summary.reason,
		})
	default:
		m.work.retries.announced = a.number
		m.emit(protocol.AutoRetryStart{
			Attempt: a.number, MaxAttempts: m.set.MaxRetries, DelayMs: in.DelayMs,
			ErrorMessage: a.failure.Message, ErrorKind: string(a.failure.Kind),
		})
	}
	a.announced = true
}

// apply makes the next attempt: for an answer, a run without a new message.
func (in RetryDue) apply(m *Machine) {
	switch a, ok := current[*retrying](m, in.Attempt); {
	case !ok:
	case a.summary != nil:
		m.emit(protocol.SummarizationRetryAttempt{Attempt: a.number, MaxAttempts: m.set.MaxRetries})
		m.summarise(a.summary)
	default:
		m.startRun(cause{note: a.note})
	}
}

// retryGone ends the wait of a timer that is lost: the failure stands.
func (m *Machine) retryGone(a *retrying, why string) {
	if a.summary != nil {
		m.summaryFailed(a.summary, why)
		return
	}
	m.release()
	m.endRetries(failed, why)
}

// endRetries leaves the wait before another answer: the failure stands.
func (m *Machine) endRetries(outcome, why string) {
	m.enter(idle{})
	m.failRetries(m.work.retries.announced, why)
	m.announceSettled(outcome)
}

// retryWon notes that a retried request has been answered.
func (m *Machine) retryWon() {
	t := &m.work.retries
	if t.made == 0 || t.won {
		return
	}
	t.won = true
	if m.set.Rules.RetryEndEarly {
		m.retryOver()
	}
}

// retryOver closes a sequence of retries that succeeded.
func (m *Machine) retryOver() {
	if t := &m.work.retries; t.won {
		m.emit(protocol.AutoRetryEnd{Success: true, Attempt: t.made})
		*t = retries{}
	}
}

// failRetries closes a sequence of retries that did not, of which the client has
// seen so many.
func (m *Machine) failRetries(shown int, why string) {
	if shown > 0 {
		m.emit(protocol.AutoRetryEnd{Success: false, Attempt: shown, FinalError: why})
	}
	m.work.retries = retries{}
}

// retryCancelled is the final error of a retry that the client did not want.
func (m *Machine) retryCancelled() string {
	if m.set.Rules.RustTexts {
		return "Retry aborted"
	}
	return "Retry cancelled"
}

func (m *Machine) abortRetry(c Command) {
	switch a, waits := m.activity.(*retrying); {
	case waits && a.summary != nil:
		m.stop(aborted)
	case waits, m.isIdle() && m.tried > 0:
		m.stop(failed) // the failure stands; nothing else was stopped
	}
	m.done(c, nil)
}
