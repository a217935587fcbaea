package protocol

import (
	"encoding/json"
	"strconv"
	"strings"
)

// OwnPrefix begins the custom types of troupe's own entries.
const OwnPrefix = "troupe."

// Types of the custom entries in which troupe keeps what pi has no entry for.
// pi carries them along and shows them to no model.
const (
	CustomQueue       = "troupe.queue"       // data is a QueueOp
	CustomTool        = "troupe.tool"        // data is a ToolOp
	CustomTodos       = "troupe.todos"       // data is a TodoResult: the whole list
	CustomRules       = "troupe.rules"       // data is a RulesOp
	CustomApproval    = "troupe.approval"    // data is an ApprovalOp
	CustomBudget      = "troupe.budget"      // data is a BudgetOp
	CustomTask        = "troupe.task"        // data is a TaskOp
	CustomSubagent    = "troupe.subagent"    // data is a SubagentEntry
	CustomInterrupted = "troupe.interrupted" // a run was cut off here and closed on load
	CustomFailover    = "troupe.failover"    // data is a FailoverOp: a run was cut off here with its node, and goes on
	CustomAdopted     = "troupe.adopted"     // data is an AdoptedOp: the session has another directory from here on
	CustomCommand     = "troupe.command"     // data is a SeenKey: of a command that is no message
	CustomMoved       = "troupe.moved"       // data is a MovedOp: the session goes on in a cluster
	CustomChoices     = "troupe.choices"     // data is a ChoicesOp: how the session of a cluster was opened, and what clients have chosen since
)

// Types of the messages that troupe itself adds to a conversation.
const (
	NoteFailover = "failover"       // of a node that was lost
	NoteTodos    = "todo-reminder"  // of open items of the todo list
	NoteRules    = "ttsr-injection" // of stream rules that an answer ran against
)

// FailoverOp says which node of a cluster was lost.
type FailoverOp struct {
	From string `json:"from"`
}

// AdoptedOp says where a session works whose directory was on another node of a cluster.
type AdoptedOp struct {
	From string `json:"from"` // the node that had it
	Cwd  string `json:"cwd"`
}

// MovedOp says where a session is that was in this file.
type MovedOp struct {
	ID string `json:"id"` // of the session in the cluster
}

// ChoicesOp is what clients have chosen for a session, as far as no other entry says it and it is not what the node
// has by itself. The newest of a file counts. The zero value is for none, and for a session that was closed.
type ChoicesOp struct {
	Opened json.RawMessage `json:"opened,omitempty"` // what it was opened with, as the daemon has it

	SteeringMode   QueueMode      `json:"steeringMode,omitempty"`
	FollowUpMode   QueueMode      `json:"followUpMode,omitempty"`
	InterruptMode  InterruptMode  `json:"interruptMode,omitempty"`
	PermissionMode PermissionMode `json:"permissionMode,omitempty"`
	AutoRetry      *bool          `json:"autoRetry,omitempty"`
	AutoCompaction *bool          `json:"autoCompaction,omitempty"`
	Tools          []string       `json:"tools,omitzero"`   // that are active, without those of clients; nil where nobody has said which
	Grants         []string       `json:"grants,omitempty"` // permission rules that were allowed in the session
	Limits         *BudgetLimits  `json:"limits,omitzero"`  // in the place of those of the settings
}

// MovedEntry says that a session goes on in a cluster.
func MovedEntry(id string) Custom { return ownEntry(CustomMoved, MovedOp{id}) }

// AdoptedEntry says that a session goes on in another directory.
func AdoptedEntry(from, cwd string) Custom { return ownEntry(CustomAdopted, AdoptedOp{from, cwd}) }

func ownEntry(customType string, op any) Custom {
	data, err := json.Marshal(op)
	if err != nil {
		panic(err) // there is nothing in it that could not be written
	}
	return Custom{CustomType: customType, Data: data}
}

// QueueKind says by which command a message was queued.
type QueueKind string

const (
	QueueSteer    QueueKind = "steer"
	QueueFollowUp QueueKind = "followUp"
	QueueInject   QueueKind = "queue" // queue_message: delivered as a steer, never starts a run
	QueueBash     QueueKind = "bash"  // not input: a bash result that waits for the end of the run
)

// QueuedInput is a message that was accepted and not delivered yet, or the record
// of a bash command that waits for the end of the run.
type QueuedInput struct {
	ID      string          `json:"id,omitempty"` // unique in the session
	Kind    QueueKind       `json:"kind,omitempty"`
	Text    string          `json:"text,omitempty"`
	Images  []Image         `json:"images,omitempty"`
	Key     IdempotencyKey  `json:"key,omitzero"`
	Message json.RawMessage `json:"message,omitempty"` // kind bash: the message

	Custom *CustomMessageEntry `json:"custom,omitempty"` // the message of an extension; Text is its text
}

// Number is the n of an id q<n>, as a session numbers what it queues; 0 for ids
// that somebody else made.
func (q QueuedInput) Number() int {
	digits, ok := strings.CutPrefix(q.ID, "q")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return 0
	}
	return n
}

// QueueOp records a change of the queues of a session. Input leaves its queue by
// a remove, or by the message entry that delivers it and names it
// ([MessageEntry.QueueID]).
type QueueOp struct {
	Op          string   `json:"op"` // add or remove
	QueuedInput          // add
	IDs         []string `json:"ids,omitempty"` // remove
}

// IdempotencyKey is the name that a client gave to a message or another command, so that a
// repeat runs nothing, and a fingerprint of it, by which a repeat is told from something
// else with the same name. The zero value is no key.
//
// In a session file both are one string: the key, #, and the fingerprint. A key
// may have any characters; a fingerprint has no #.
type IdempotencyKey struct{ Key, Fingerprint string }

// ParseIdempotencyKey reads the string of a session file.
func ParseIdempotencyKey(s string) IdempotencyKey {
	i := strings.LastIndexByte(s, '#')
	if i < 0 {
		return IdempotencyKey{Key: s}
	}
	return IdempotencyKey{s[:i], s[i+1:]}
}

// String is the key as session files have it, "" for none.
func (k IdempotencyKey) String() string {
	if k.Key == "" {
		return ""
	}
	return k.Key + "#" + k.Fingerprint
}

func (k IdempotencyKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func (k *IdempotencyKey) UnmarshalText(text []byte) error {
	*k = ParseIdempotencyKey(string(text))
	return nil
}

// ToolOp records which tool calls of the last answer were about to start. It is
// written where the order of the calls does not say it: when calls run at the
// same time, and when a call waits for consent.
type ToolOp struct {
	Op  string   `json:"op"` // start, or ask: the client is asked first
	IDs []string `json:"ids"`
	// Dialog is the id of the dialog that asks; of the one call that it is about.
	Dialog string `json:"dialog,omitempty"`
}

// Calls are what an entry says of tool calls, by id.
func (op ToolOp) Calls(yield func(id string, of CallOp)) {
	for _, id := range op.IDs {
		yield(id, CallOp{op.Op, op.Dialog})
	}
}

// RulesOp records which stream rules have fired.
type RulesOp struct {
	Rules []string `json:"rules"`
}
