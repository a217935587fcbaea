package protocol

import "time"

// RetryInfo is the data of an error that the command itself did not cause, such as a lost node. It says
// whether the command may have run, and whether a client may send it again.
type RetryInfo struct {
	// Outcome is OutcomeUnknown for a command that may have run, "" for one that did not.
	Outcome string `json:"outcome,omitempty" enum:"unknown" doc:"unknown: the command may have run, in part or as a whole. Absent: it did not run."`
	// Retryable is false where sending the command again could carry it out twice.
	Retryable bool `json:"retryable" doc:"Sending the command again carries it out once. false: look at the session first, or repeat the same line under the same clientId and id."`
	// RetryAfterMs is 0 where no time can be given, as for every command that may have run.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty" doc:"When to send it again."`

	Node  string `json:"node,omitempty" doc:"node_lost: the node that would be needed."`
	Since int64  `json:"since,omitempty" doc:"node_lost: its last heartbeat, in milliseconds since 1970."`
}

// OutcomeUnknown is the outcome of a command that may have run.
const OutcomeUnknown = "unknown"

// RetryAfter is the delay before a command is repeated that did not run because its session was unavailable.
const RetryAfter = time.Second

// NotRun returns a copy of the error for a command that did not run and may be sent again after the given
// time. A time of 0 is left out.
func (e *Error) NotRun(after time.Duration) *Error {
	return e.with(RetryInfo{Retryable: true, RetryAfterMs: after.Milliseconds()})
}

// MayHaveRun returns a copy of the error for a command whose outcome is unknown.
func (e *Error) MayHaveRun() *Error { return e.with(RetryInfo{Outcome: OutcomeUnknown}) }

// with returns a copy of the error with a RetryInfo. It keeps the node of a previous RetryInfo.
func (e *Error) with(info RetryInfo) *Error {
	if was, is := e.Data.(RetryInfo); is {
		info.Node, info.Since = was.Node, was.Since
	}
	as := *e
	as.Data = info
	return &as
}

// CutOff returns a copy of the error for an interrupted command. Its outcome is unknown if it had begun and
// changes something; otherwise it did not run.
func (e *Error) CutOff(spec *Spec, begun bool) *Error {
	if begun && (spec == nil || spec.Effect() != EffectNone) {
		return e.MayHaveRun()
	}
	return e.NotRun(RetryAfter)
}

// OutcomeIsUnknown reports whether the failed command may have run.
func (e *Error) OutcomeIsUnknown() bool {
	info, is := e.Data.(RetryInfo)
	return is && info.Outcome == OutcomeUnknown
}
