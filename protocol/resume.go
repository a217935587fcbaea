package protocol

import "encoding/json"

// Resume is what a session file says to whoever goes on with the session: the
// store reads it, the machine lives on it.
type Resume struct {
	Name              string        // "" if it has none
	Provider, ModelID string        // of the branch's model, "" if it names none
	Level             ThinkingLevel // "" if the branch names none
	Context           ContextSize

	// Last is the newest message of the branch, not counting bash records: nil if
	// there is none, or one that cannot be read.
	Last Message
	// Interrupted says that the branch ends inside a run: after a message of the
	// user or the result of a tool, or with calls that have none.
	Interrupted bool
	// Tried is how many answers in a row the branch ends with that were taken out of the context, since their
	// request was to be made again, and was not answered: it was waited for that, or for a summary. 0 where an entry
	// says that nothing goes on any more.
	Tried     int
	OpenCalls []OpenCall // in the order of the message; empty unless a run was cut
	// Answer is the message with the open calls; nil if there are none.
	Answer *AssistantMessage
	// Results are those that the calls of the last answer have, in the order of the file.
	Results []*ToolResultMessage

	Queue       []QueuedInput   // accepted and not delivered, in the order of acceptance
	LastQueueID int             // the highest n of all ids of the form q<n> that were ever queued
	Keys        []SeenKey       // at most MaxKeys, oldest first
	Todos       json.RawMessage // the todo list, as the newest troupe.todos of the branch has it
	Rules       []string        // stream rules that have fired on the branch
	Spent       *BudgetSpent    // of the whole file; nil where nobody has asked for it
	Limits      *BudgetLimits   // that a client has set, as the newest entry of the file has them; nil for none
	Working     bool            // work was going on of which a budget counts the time, and nothing says when it ended
	Choices     json.RawMessage // the newest ChoicesOp of the file; nil for none
	Tasks       []TaskOp        // steps of children, of the whole file: their files have their ids for names
}

// OpenCall is a tool call of the last answer that has no result.
type OpenCall struct {
	Call ToolCall
	// Started says that its effects may have happened: an entry says that it was
	// about to start, or it was next in order and not waiting for consent.
	Started bool
	// Asked is the id of the dialog in which clients were asked about it, if nobody has
	// answered; "" for none.
	Asked string
}

// CallOp is the newest entry about a call that has no result: start, ask or answer, ""
// for none; and for ask the dialog.
type CallOp struct{ Op, Dialog string }

// Open is a call without a result, of which an entry says op. Calls run in their order, so
// that the first open one may have begun without an entry that says so; where that would
// be wrong there is one.
func (op CallOp) Open(call ToolCall, first bool) OpenCall {
	return OpenCall{Call: call, Started: op.Op == "start" || op.Op == "" && first, Asked: op.Dialog}
}

// MaxKeys is how many idempotency keys a session remembers, the newest ones.
const MaxKeys = 1024

// SeenKey is an idempotency key that was used, and what became of the command.
type SeenKey struct {
	Key         IdempotencyKey `json:"key"`
	Disposition string         `json:"disposition"`    // of a message the word of [Started] or [Queued], else one of those below
	Next        string         `json:"next,omitempty"` // left: the file of the session that has taken this one's place
	Text        string         `json:"text,omitempty"` // left and done: what fork has answered
}

// What became of a command that is no message.
const (
	KeyBegun  = "begun"  // it may have had effects, and nothing says which
	KeyDone   = "done"   // a record has what it was answered; or this session is what came of it
	KeyLeft   = "left"   // it has put another session in the place of this one
	KeyUndone = "undone" // it could not begin: it may come again
)

// Later is what another entry makes of the key. Whose message took it first keeps it.
func (k *SeenKey) Later(e SeenKey) {
	switch {
	case k.Disposition == KeyUndone, e.Disposition != Started.Disposition && e.Disposition != Queued.Disposition:
		*k = e
	case k.Disposition == KeyBegun:
		k.Disposition = KeyDone
	}
}
