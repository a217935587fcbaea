package protocol

import "encoding/json"

// SubagentLevel is how much a client is told of children beside the six events that
// everybody is told.
type SubagentLevel string

const (
	SubagentsOff      SubagentLevel = "off"      // the zero value means it, too
	SubagentsProgress SubagentLevel = "progress" // when each begins and ends, and what it does
	SubagentsEvents   SubagentLevel = "events"   // and every event of its session
)

// SubagentSubscription answers set_subagent_subscription.
type SubagentSubscription struct {
	Level SubagentLevel `json:"level"`
}

// SubagentList answers get_subagents.
type SubagentList struct {
	Subagents []Subagent `json:"subagents" doc:"In the order of their start, including those of earlier calls and processes."`
}

// Long is the list as a result that is written in pieces.
func (l SubagentList) Long() Pieces {
	bytes := 0
	for i := range l.Subagents {
		bytes += SizeOf(l.Subagents[i])
	}
	return NewList(`{"subagents":[`, `]}`, len(l.Subagents), bytes, func(dst []byte, i int) []byte { return AppendValue(dst, l.Subagents[i]) })
}

// Subagent is a child of a session: one that is at work, or was.
type Subagent struct {
	ID               string        `json:"id"`
	Index            int           `json:"index" doc:"In its call."`
	Agent            string        `json:"agent"`
	AgentSource      AgentSource   `json:"agentSource"`
	Description      string        `json:"description,omitempty"`
	Status           string        `json:"status" enum:"pending,running,completed,failed,aborted"`
	Task             string        `json:"task,omitempty" doc:"The message that the child received. Only while its call is running."`
	Assignment       string        `json:"assignment,omitempty" doc:"Likewise."`
	SessionFile      string        `json:"sessionFile,omitempty" doc:"Absent for one in memory, and for one whose file is on another node of the cluster."`
	LastUpdate       int64         `json:"lastUpdate" doc:"Epoch milliseconds."`
	Progress         *TaskProgress `json:"progress,omitempty" doc:"Only while its call is running."`
	ParentToolCallID string        `json:"parentToolCallId,omitempty"`
	ChildSessionID   string        `json:"childSessionId,omitempty" since:"troupe" doc:"The handle of its session for attach, while its call is running."`
}

// SubagentMessages answers get_subagent_messages: a part of a child's session file.
type SubagentMessages struct {
	SessionFile string            `json:"sessionFile"`
	FromByte    int64             `json:"fromByte" doc:"Where the part begins."`
	NextByte    int64             `json:"nextByte" doc:"The position of the next part: after the last complete line."`
	Reset       bool              `json:"reset" doc:"The file is shorter than fromByte. The response starts at its beginning."`
	Entries     []json.RawMessage `json:"entries" doc:"The lines, header and troupe's own notes included."`
	Messages    []Message         `json:"messages" doc:"Of the entries that are messages."`
	HasMore     bool              `json:"hasMore" since:"troupe" doc:"The part is incomplete, see Limits. Continue with nextByte."`
}

// SubagentPart is a part of a child's session file as it was read.
type SubagentPart struct {
	File           string
	From, Next     int64
	Reset, HasMore bool
	Entries        []json.RawMessage
	Messages       []json.RawMessage
}

// Long is the part as a result that is written in pieces.
func (p *SubagentPart) Long() Pieces {
	head := OpenObject(nil)
	head.Str("sessionFile", p.File)
	head.Int("fromByte", p.From)
	head.Int("nextByte", p.Next)
	head.Bool("reset", p.Reset)
	head.Key("entries")
	tail := Object{B: []byte(`]`)}
	tail.Bool("hasMore", p.HasMore)
	n, bytes := len(p.Entries), len(head.B)+len(tail.B)
	for _, list := range [][]json.RawMessage{p.Entries, p.Messages} {
		for _, raw := range list {
			bytes += len(raw) + 1
		}
	}
	end := string(tail.Close())
	return Pieces{N: n + len(p.Messages) + 3, Bytes: bytes, Append: func(dst []byte, i int, _ Dialect) []byte {
		switch {
		case i == 0:
			return append(append(dst, head.B...), '[')
		case i <= n:
			return appendItem(dst, p.Entries, i-1)
		case i == n+1:
			return append(dst, `],"messages":[`...)
		case i < n+2+len(p.Messages):
			return appendItem(dst, p.Messages, i-n-2)
		}
		return append(dst, end...)
	}}
}

// appendItem appends the i-th item of a list, with a comma before it unless it is the
// first.
func appendItem(dst []byte, list []json.RawMessage, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return AppendRaw(dst, list[i])
}

// SubagentStage says that a child has begun or ended.
type SubagentStage struct {
	ID               string      `json:"id"`
	Agent            string      `json:"agent"`
	AgentSource      AgentSource `json:"agentSource"`
	Description      string      `json:"description,omitempty"`
	Status           string      `json:"status" enum:"started,completed,failed,aborted"`
	SessionFile      string      `json:"sessionFile,omitempty"`
	ParentToolCallID string      `json:"parentToolCallId,omitempty"`
	Index            int         `json:"index"`
	Isolated         bool        `json:"isolated,omitempty"`
}

// SubagentBegun is the status of a [SubagentStage] that is no end.
const SubagentBegun = "started"

// SubagentReport says what a child does.
type SubagentReport struct {
	Index            int          `json:"index"`
	Agent            string       `json:"agent"`
	AgentSource      AgentSource  `json:"agentSource"`
	Task             string       `json:"task"`
	ParentToolCallID string       `json:"parentToolCallId,omitempty"`
	Assignment       string       `json:"assignment,omitempty"`
	Progress         TaskProgress `json:"progress"`
	SessionFile      string       `json:"sessionFile,omitempty"`
}

// ChildEvent is an event of a child's session.
type ChildEvent struct {
	ID    string          `json:"id" doc:"Of the child."`
	Event json.RawMessage `json:"event" doc:"The event as a client of the child's session receives it. Dialogs and approvals are sent as those of this session instead."`

	Is Event `json:"-"` // the event, to be written as each client is written to
}
