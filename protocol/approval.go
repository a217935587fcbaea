package protocol

import (
	"encoding/json"
	"strings"
)

// PermissionMode is what happens to tool calls of which no permission rule says
// anything; "" is what the daemon was started with.
type PermissionMode string

// The modes, from the loosest to the strictest.
const (
	PermitAuto     PermissionMode = "auto"     // they run
	PermitEdits    PermissionMode = "edits"    // reading, and editing in the working directory, run; the rest asks
	PermitAsk      PermissionMode = "ask"      // reading in the working directory runs, the rest asks
	PermitReadOnly PermissionMode = "readonly" // reading in the working directory runs, the rest is refused
)

// Kinds of options of an approval.
const (
	AllowOnce   = "allow_once"
	AllowAlways = "allow_always"
	RejectOnce  = "reject_once"
)

// ApprovalOption is one answer to an [ApprovalRequest].
type ApprovalOption struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind" enum:"allow_once,allow_always,reject_once"`
	Label string   `json:"label"`
	Rules []string `json:"rules,omitempty" doc:"With allow_always: the rules that are added."`
}

// ApprovalWhy is why a call is asked about.
type ApprovalWhy struct {
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty" doc:"The rule that requires the approval. Absent if the permission mode requires it."`
	Source string `json:"source,omitempty" doc:"File and line of the rule."`
}

// ApprovalPreview is what a call would do.
type ApprovalPreview struct {
	Cwd     string   `json:"cwd"`
	Command string   `json:"command,omitempty"`
	Paths   []string `json:"paths,omitempty" doc:"The files that it reads or writes, as absolute paths."`
	Diff    string   `json:"diff,omitempty" doc:"A diff of the change. Absent if it cannot be computed, or is too long."`
}

// Select is the question as a dialog for clients that know nothing of approvals. What
// an option adds is in its label.
func (r ApprovalRequest) Select() ExtensionUIRequest {
	title := r.Title + "\n" + r.Why.Reason
	switch {
	case r.Preview.Diff != "":
		title += "\n\n" + r.Preview.Diff
	case r.Kind == "other": // its title says of no argument what it is
		args := Prefix(string(r.Args), mostArgs)
		title += "\n\n" + args
		if len(args) < len(r.Args) {
			title += "…"
		}
	}
	options := make([]string, len(r.Options))
	for i, o := range r.Options {
		options[i] = o.Text()
	}
	timeout := int64(0)
	if r.ExpiresAt > 0 {
		timeout = r.ExpiresAt - r.AskedAt
	}
	return ExtensionUIRequest{Timeout: timeout, ID: r.ID, Method: "select", Title: &title, Options: options, ToolCallID: r.ToolCallID}
}

// mostArgs is how many bytes of the arguments of a call the title of a dialog has.
const mostArgs = 4 << 10

// Dialog is the end of the question as clients see it that know nothing of approvals.
func (r ApprovalResolved) Dialog() DialogResolved {
	end := DialogResolved{ID: r.ID, Outcome: DialogAnswered, By: r.By}
	switch {
	case r.Outcome == string(DialogTimeout):
		end.Outcome = DialogTimeout
	case r.OptionID == "":
		end.Outcome = DialogAborted
	}
	return end
}

// Text is the option with what it adds, in a line.
func (o ApprovalOption) Text() string {
	if len(o.Rules) == 0 {
		return o.Label
	}
	return o.Label + ": " + strings.Join(o.Rules, ", ")
}

// Permissions answers get_permissions.
type Permissions struct {
	Mode   PermissionMode    `json:"mode" doc:"The effective mode. A project may have made it stricter."`
	Rules  []PermissionRule  `json:"rules"`
	Grants []PermissionGrant `json:"grants"`
}

// PermissionRule is a rule of a permissions.json.
type PermissionRule struct {
	Action string `json:"action" enum:"deny,ask,allow"`
	Rule   string `json:"rule"`
	Source string `json:"source" doc:"The file."`
	Line   int    `json:"line,omitempty"`
}

// PermissionGrant is a rule that was allowed by the answer to an approval.
type PermissionGrant struct {
	Rule  string `json:"rule"`
	Scope string `json:"scope" enum:"session,project"`
	By    string `json:"by,omitempty" doc:"With project: the client that has allowed it, if it has a clientId."`
	At    int64  `json:"at,omitempty" doc:"With project: when it was allowed, in milliseconds since 1970."`
}

// ApprovalOp records a question about a tool call, or its answer.
type ApprovalOp struct {
	Op         string           `json:"op"` // ask or answer
	ID         string           `json:"id"`
	ToolCallID string           `json:"toolCallId"`
	Why        *ApprovalWhy     `json:"why,omitempty"`     // ask
	Options    []ApprovalOption `json:"options,omitempty"` // ask
	OptionID   string           `json:"optionId,omitempty"`
	Outcome    string           `json:"outcome,omitempty"` // answer: as in ApprovalResolved
	Feedback   string           `json:"feedback,omitempty"`
	By         *ClientRef       `json:"by,omitempty"`   // answer: who
	Args       json.RawMessage  `json:"args,omitempty"` // answer: the arguments that were allowed, if they are others
}

// Call is what the entry says of its call.
func (op ApprovalOp) Call() CallOp {
	if op.Op == "ask" {
		return CallOp{op.Op, op.ID}
	}
	return CallOp{Op: op.Op}
}
