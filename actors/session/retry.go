package session

import "troupe/protocol"

// retry is the wait between a failed attempt and the next.
type retry struct {
	attempt   int
	run       int // epoch the supervisor answers with
	message   string
	kind      protocol.ErrorKind
	announced bool // auto_retry_start went out
}

// The attempts of one piece of work are counted across runs: attempt is the
// number of the retry made last, 0 when the work has not failed yet.
type attempts struct {
	n         int
	announced int   // attempt of the latest auto_retry_start, 0 before the first
	won       bool  // the retried request has been answered
	since     int64 // when the first attempt failed
}

// maxRetryTime is how long the same work is tried again at most, whatever the
// settings allow: after that the client should hear of it.
const maxRetryTime = 30 * 60 * 1000 // milliseconds

// mayRetry says whether a failure is followed by another attempt.
func (m *Machine) mayRetry(err *protocol.StreamError) bool {
	made := m.tries.n
	if m.tries.won {
		made = 0
	}
	tooLong := made > 0 && m.now-m.tries.since > maxRetryTime
	return err != nil && err.Kind.Retryable() && m.autoRetry && !m.stopping() && made < m.set.MaxRetries && !tooLong
}

// retryWon notes that a retried request has been answered.
func (m *Machine) retryWon() {
	if m.tries.n == 0 || m.tries.won {
		return
	}
	m.tries.won = true
	if m.set.Gates.RetryEndEarly {
		m.emit(protocol.AutoRetryEnd{Success: true, Attempt: m.tries.n})
		m.tries = attempts{}
	}
}

// retryOver closes a retry sequence that succeeded, after its run.
func (m *Machine) retryOver() {
	if m.tries.won {
		m.emit(protocol.AutoRetryEnd{Success: true, Attempt: m.tries.n})
		m.tries = attempts{}
	}
}

// giveUpRetry closes a retry sequence that did not.
func (m *Machine) giveUpRetry(outcome, message string) {
	if m.tries.n == 0 {
		return
	}
	if outcome == aborted {
		message = m.retryCancelled()
	}
	m.emit(protocol.AutoRetryEnd{Success: false, Attempt: m.tries.n, FinalError: message})
	m.tries = attempts{}
}

func (m *Machine) scheduleRetry(err *protocol.StreamError) {
	if m.tries.n == 0 {
		m.tries.since = m.now
	}
	m.tries.n++
	m.retry = &retry{attempt: m.tries.n, run: m.epoch, message: err.Message, kind: err.Kind}
	m.enter(PhaseRetrying)
	m.do(ScheduleRetry{Run: m.epoch, Attempt: m.tries.n, After: err.RetryAfter})
}

// retryScheduled announces the wait with its real length.
func (m *Machine) retryScheduled(in RetryScheduled) {
	if c := m.retryOfCompaction(in.Run); c != nil {
		m.summaryRetryScheduled(c, in.DelayMs)
		return
	}
	if m.retry == nil || m.retry.run != in.Run || m.retry.announced {
		return
	}
	m.retry.announced = true
	m.tries.announced = m.retry.attempt
	m.emit(protocol.AutoRetryStart{
		Attempt: m.retry.attempt, MaxAttempts: m.set.MaxRetries, DelayMs: in.DelayMs,
		ErrorMessage: m.retry.message, ErrorKind: string(m.retry.kind),
	})
}

// retryDue makes the next attempt: a run without a new user message.
func (m *Machine) retryDue(in RetryDue) {
	if c := m.retryOfCompaction(in.Run); c != nil {
		m.summaryRetryDue(c)
		return
	}
	if m.retry == nil || m.retry.run != in.Run {
		return
	}
	m.retry = nil
	m.startRun(nil)
}

// cancelRetry ends a wait for good and says whether there was one.
func (m *Machine) cancelRetry(why string) bool {
	if m.retry == nil {
		return false
	}
	m.do(CancelRetry{m.retry.run})
	if m.tries.announced > 0 {
		m.emit(protocol.AutoRetryEnd{Success: false, Attempt: m.tries.announced, FinalError: why})
	}
	m.retry = nil
	m.tries = attempts{}
	m.nextEpoch()
	m.enter(PhaseIdle)
	return true
}

// retryCancelled is the final error of a retry that the client did not want.
func (m *Machine) retryCancelled() string {
	if m.set.Gates.RustTexts {
		return "Retry aborted"
	}
	return "Retry cancelled"
}

func (m *Machine) abortRetry(c Command) {
	switch {
	case m.compaction != nil && m.compaction.waiting:
		m.stop(aborted)
	case m.cancelRetry(m.retryCancelled()):
		m.settled(failed) // the failure stands; nothing else was stopped
	}
	m.do(Reply{Seq: c.Seq, Regardless: true})
}
