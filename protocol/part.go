package protocol

import (
	"fmt"
	"time"
)

// Part is one step of a model's streamed answer, as a provider reports it and
// the session folds it into an [AssistantMessage]. The order a provider must
// keep: [PartStart] once; then for each block its start, its deltas and its
// end, the blocks' indexes rising from 0 without gaps; [PartUsage] anywhere;
// [PartDone] once, last. Blocks may overlap in time but start in index order.
//
//sumtype:decl
type Part interface{ part() }

// PartStart says that the provider accepted the request and answers.
type PartStart struct {
	ResponseID string // the provider's id of the answer, if it has one
	Named      string // what the provider calls the model, if it says so
	Model      *Model // who answers, if that is another than was asked: see VirtualAPI
}

// PartBlockStart opens a block.
type PartBlockStart struct {
	Index int
	Kind  BlockKind
	ID    string // tool call only
	Name  string // tool call only
}

// PartDelta grows a block: text, thinking, or the JSON text of a tool call's
// arguments. Deltas end at character boundaries.
type PartDelta struct {
	Index int
	Delta string
}

// PartBlockEnd closes a block.
type PartBlockEnd struct {
	Index int
	// Signature is the provider's opaque proof, byte for byte: of the text, the
	// thinking or the tool call, by the block's kind.
	Signature string
	Redacted  bool   // thinking without readable text
	ID        string // tool call: replaces the id given at the start if not empty
	Name      string // tool call: replaces the name given at the start if not empty
}

// PartUsage reports token counts so far; the latest replaces earlier ones.
// The cost is filled in from the model's price list.
type PartUsage struct{ Usage Usage }

// PartDone ends the answer.
type PartDone struct {
	StopReason StopReason // stop, length or toolUse
	Raw        string     // the provider's own word for it
}

func (PartStart) part()      {}
func (PartBlockStart) part() {}
func (PartDelta) part()      {}
func (PartBlockEnd) part()   {}
func (PartUsage) part()      {}
func (PartDone) part()       {}

// BlockKind is the type of a streamed block.
type BlockKind uint8

const (
	BlockText BlockKind = iota
	BlockThinking
	BlockToolCall
)

func (k BlockKind) String() string {
	return [...]string{"text", "thinking", "toolcall"}[k]
}

// ErrorKind classifies a provider's failure. What happens next is decided on
// the kind alone, never on the text.
type ErrorKind string

const (
	ErrorOverloaded ErrorKind = "overloaded"      // the provider has no capacity now (529, 503)
	ErrorRateLimit  ErrorKind = "rate_limit"      // too many requests (429)
	ErrorServer     ErrorKind = "server_error"    // the provider broke (5xx)
	ErrorNetwork    ErrorKind = "network"         // refused, reset, no route, DNS
	ErrorCutStream  ErrorKind = "cut_stream"      // the answer ended without its closing event
	ErrorStalled    ErrorKind = "stream_stalled"  // the answer stopped coming
	ErrorQuota      ErrorKind = "quota"           // out of money or monthly allowance
	ErrorAuth       ErrorKind = "auth"            // no key, wrong key, no permission
	ErrorOverflow   ErrorKind = "overflow"        // the context is larger than the model's window
	ErrorInvalid    ErrorKind = "invalid_request" // the provider rejects the request as it is
	ErrorRefusal    ErrorKind = "refusal"         // the model or a filter declined to answer
	ErrorAborted    ErrorKind = "aborted"         // we cancelled
	ErrorInternal   ErrorKind = "internal"        // a fault of ours
)

// Retryable says whether the same request may succeed later.
func (k ErrorKind) Retryable() bool {
	switch k {
	case ErrorOverloaded, ErrorRateLimit, ErrorServer, ErrorNetwork, ErrorCutStream, ErrorStalled:
		return true
	}
	return false
}

// StreamError is how a provider reports that an answer failed.
type StreamError struct {
	Kind       ErrorKind
	Message    string        // what the client and the session file see; free of secrets
	Body       string        // what the provider said, whole but for its length, for the log; free of secrets
	Status     int           // HTTP status, 0 if there was none
	RetryAfter time.Duration // how long the provider asked us to wait, 0 if it did not say
	Repeats    int           // how often the request was repeated before it failed for good
}

func (e *StreamError) Error() string { return e.Message }

// Aborted is the failure of a request that was cancelled.
func Aborted() *StreamError { return ErrorAborted.Errorf("Request was aborted.") }

// Errorf makes a StreamError.
func (k ErrorKind) Errorf(format string, args ...any) *StreamError {
	return &StreamError{Kind: k, Message: fmt.Sprintf(format, args...)}
}
