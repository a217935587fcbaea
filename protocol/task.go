package protocol

import "encoding/json"

// TaskDetails is the member details of results and updates of the tool task.
type TaskDetails struct {
	ProjectAgentsDir *string        `json:"projectAgentsDir" doc:"The directory of the project's agent files."`
	Results          []TaskResult   `json:"results" doc:"One for each task of the call, in their order. Empty in updates."`
	TotalDurationMs  int64          `json:"totalDurationMs"`
	Usage            *Usage         `json:"usage,omitempty" doc:"Of all children."`
	OutputPaths      []string       `json:"outputPaths,omitempty" doc:"The files with the whole outputs."`
	Progress         []TaskProgress `json:"progress,omitempty" doc:"In updates: one for each task."`
}

// TaskResult describes how one task of a call of the tool task ended.
type TaskResult struct {
	Index         int         `json:"index" doc:"Its place in the call, from 0."`
	ID            string      `json:"id"`
	Agent         string      `json:"agent"`
	AgentSource   AgentSource `json:"agentSource"`
	Task          string      `json:"task" doc:"The message that the child received: context and assignment."`
	Assignment    string      `json:"assignment"`
	Description   string      `json:"description,omitempty"`
	ExitCode      int         `json:"exitCode" doc:"0 if the child succeeded."`
	Output        string      `json:"output"`
	Stderr        string      `json:"stderr" doc:"In s1 the same as error, otherwise empty."`
	Truncated     bool        `json:"truncated" doc:"output is shortened; the whole text is in outputPath."`
	DurationMs    int64       `json:"durationMs"`
	Tokens        int64       `json:"tokens"`
	ModelOverride []string    `json:"modelOverride,omitempty" doc:"The requested model, if the child has it. In s1 the model that it runs on."`
	ResolvedModel string      `json:"resolvedModel,omitempty" doc:"The model at its start."`
	Error         string      `json:"error,omitempty"`
	Aborted       bool        `json:"aborted"`
	AbortReason   string      `json:"abortReason,omitempty"`

	Usage            *Usage          `json:"usage,omitempty" doc:"Of the child and its own children."`
	Requests         int             `json:"requests,omitempty" doc:"Requests to a model."`
	Subagents        int             `json:"subagents,omitempty" doc:"The number of its descendants."`
	OutputPath       string          `json:"outputPath,omitempty" doc:"The file with the whole output."`
	OutputMeta       *OutputMeta     `json:"outputMeta,omitempty"`
	StructuredOutput json.RawMessage `json:"structuredOutput,omitempty" doc:"The data that the child returned."`
	Extracted        *ToolData       `json:"extractedToolData,omitempty" since:"s1"`
	SessionID        string          `json:"sessionId,omitempty"`
	SessionFile      string          `json:"sessionFile,omitempty"`

	// Of a task that worked in an isolated copy.
	Verification  *VerificationResult `json:"verification,omitempty"`
	PatchPath     string              `json:"patchPath,omitempty" doc:"The file with its changes."`
	NestedPatches []string            `json:"nestedPatches,omitzero" doc:"Changes in nested repositories. In s1 also if there are none."`
	BranchName    string              `json:"branchName,omitempty" doc:"The branch of the task. It is in the user's repository unless it was merged."`
	Merged        *bool               `json:"merged,omitempty" doc:"Its changes are in the user's files."`
	Conflicts     []string            `json:"conflicts,omitempty" doc:"The files that prevented the merge."`
	Workspace     string              `json:"workspace,omitempty" doc:"The copy, if it was kept."`
	Notes         []string            `json:"notes,omitempty"`
}

// ToolData is, in s1, what calls of a child's tools have come to.
type ToolData struct {
	Submitted []SubmittedData   `json:"submit_result,omitempty"`
	Tasks     []json.RawMessage `json:"task,omitempty"` // the details of its own calls of the tool task
}

// SubmittedData is what a child has handed over.
type SubmittedData struct {
	Data   json.RawMessage `json:"data,omitempty"`
	Status string          `json:"status" enum:"success,aborted"`
	Error  string          `json:"error,omitempty"`
}

// OutputMeta says how long a text is.
type OutputMeta struct {
	LineCount int `json:"lineCount"`
	CharCount int `json:"charCount"`
}

// Where an item of a task call stands.
const (
	TaskPending   = "pending"
	TaskRunning   = "running"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
	TaskAborted   = "aborted"
)

// TaskProgress is what an item of a task call does.
type TaskProgress struct {
	Index         int         `json:"index"`
	ID            string      `json:"id"`
	Agent         string      `json:"agent"`
	AgentSource   AgentSource `json:"agentSource"`
	Status        string      `json:"status" enum:"pending,running,completed,failed,aborted"`
	Task          string      `json:"task"`
	Assignment    string      `json:"assignment"`
	Description   string      `json:"description,omitempty"`
	ModelOverride []string    `json:"modelOverride,omitempty"`
	ResolvedModel string      `json:"resolvedModel,omitempty"`
	DurationMs    int64       `json:"durationMs"`
	SessionID     string      `json:"sessionId,omitempty"`
	SessionFile   string      `json:"sessionFile,omitempty"`
	Phase         string      `json:"phase,omitempty"`

	CurrentTool        string     `json:"currentTool,omitempty"`
	CurrentToolArgs    string     `json:"currentToolArgs,omitempty"`
	CurrentToolStartMs int64      `json:"currentToolStartMs,omitempty"`
	RecentTools        []TaskTool `json:"recentTools"`
	RecentOutput       []string   `json:"recentOutput"`
	ToolCount          int        `json:"toolCount"`
	Tokens             int64      `json:"tokens"`
	Requests           int        `json:"requests,omitempty"`
	Cost               float64    `json:"cost,omitempty"`
	Extracted          *ToolData  `json:"extractedToolData,omitempty"`
}

// Shows makes what is seen of a child a part of it.
func (p *TaskProgress) Shows(a TaskActivity) {
	p.CurrentTool, p.CurrentToolArgs, p.CurrentToolStartMs = a.CurrentTool, a.CurrentToolArgs, a.CurrentToolStartMs
	p.RecentTools, p.RecentOutput, p.ToolCount = a.RecentTools, a.RecentOutput, a.ToolCount
	p.Tokens, p.Requests, p.Cost = a.Tokens, a.Requests, a.Cost
	if p.RecentTools == nil {
		p.RecentTools = []TaskTool{}
	}
	if p.RecentOutput == nil {
		p.RecentOutput = []string{}
	}
}

// TaskActivity is what is seen of a child while it works.
type TaskActivity struct {
	CurrentTool        string
	CurrentToolArgs    string     // the beginning
	CurrentToolStartMs int64      // epoch milliseconds
	RecentTools        []TaskTool // newest first
	RecentOutput       []string   // lines, newest last
	ToolCount          int
	Tokens             int64
	Requests           int
	Cost               float64           // US dollars
	Tasks              []json.RawMessage // details of its own calls of the tool task
}

// TaskTool is a tool call of a child that is over.
type TaskTool struct {
	Tool  string `json:"tool"`
	Args  string `json:"args"` // the beginning
	EndMs int64  `json:"endMs"`
}

// TaskOp is a step of a child of the session: it begins, it has ended, it had cost more
// than was known then, what it changed is about to be merged, or was merged.
type TaskOp struct {
	Op     string      `json:"op"`   // start, end, spent, merge or merged
	Call   string      `json:"call"` // the tool call
	ID     string      `json:"id"`
	Agent  string      `json:"agent,omitempty"`
	File   string      `json:"file,omitempty"`   // of its session, "" for one in memory
	Result *TaskResult `json:"result,omitempty"` // end
	// Workspace is where the child works: start, of an isolated one; merge.
	Workspace string   `json:"workspace,omitempty"`
	From      []string `json:"from,omitempty"`  // merge: the user's trees before
	To        []string `json:"to,omitempty"`    // merge: and behind it
	Paths     []string `json:"paths,omitempty"` // merge: that change
	// Spent is what a child has cost that the result at its end does not say: spent.
	Spent *Usage `json:"spent,omitempty"`

	At          int64       `json:"at,omitempty"`    // start and end: epoch milliseconds
	Index       int         `json:"index,omitempty"` // start: in the call
	Source      AgentSource `json:"source,omitempty"`
	Description string      `json:"description,omitempty"`
	Node        string      `json:"node,omitempty"` // start: of a cluster, where the file is

	Recovered *TaskRecovery `json:"-"` // merge: how one ended that has no end in the log; nil if that was not looked at
	Left      *Usage        `json:"-"` // start: what the file of a child says that has no end; nil if it was not read
}

// Steps of a child.
const (
	TaskStart  = "start"
	TaskEnd    = "end"
	TaskSpent  = "spent"
	TaskMerge  = "merge"
	TaskMerged = "merged"
)

// TaskRecovery says how a merge ended that was cut: it is whole, or undone, or the
// user has changed files of it since, and nothing was touched.
type TaskRecovery struct {
	Merged  bool
	Foreign []string
	Err     string
}

// SubagentEntry is the first entry of a child's file: what it was made for.
type SubagentEntry struct {
	ID         string          `json:"id"` // in the session of its parent
	Agent      string          `json:"agent"`
	ToolCallID string          `json:"toolCallId"`
	Depth      int             `json:"depth"` // of a child of a root: 1
	Isolated   bool            `json:"isolated"`
	Schema     json.RawMessage `json:"schema,omitempty"` // of what it submits
	Tools      []string        `json:"tools"`
}

// Submission is what a child hands over with submit_result.
type Submission struct {
	Data  json.RawMessage `json:"data,omitempty"`
	Error string          `json:"error,omitempty"` // why there is nothing to hand over
	Unfit string          `json:"unfit,omitempty"` // what is wrong with Data, if it was handed over all the same
}

// Text is the data for people and models: a string as itself, all else as JSON.
func (s *Submission) Text() string {
	var text *string // null is none
	if json.Unmarshal(s.Data, &text) == nil && text != nil {
		return *text
	}
	return string(s.Data)
}
