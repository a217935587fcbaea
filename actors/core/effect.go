package core

import (
	"encoding/json"

	"time"

	"troupe/protocol"
)

// Effect is something the shell must do. What clients can see happens in the
// order of the slice, and an [Append] precedes what follows it; entries with
// nothing but answers and events between them may be written together. When an
// Append fails, nothing after it is done: the shell reads the log again and tells
// the machine with [Reloaded].
//
//sumtype:decl
type Effect interface{ effect() nature }

// nature is what becomes of an effect before which an entry could not be written.
type nature uint8

const (
	special nature = iota // see [Machine.instead]
	inRun                 // a step of a run, which ends: it is not made, and nobody was told
	apart                 // it is made all the same: nothing of it depends on the entry
)

// Attempt numbers what the machine has begun outside: a request to a model with
// the calls of its answer, a summary, a wait. Results carry the attempt that they
// belong to. One that is not the current activity's changes nothing.
type Attempt int

// Append adds an entry to the session log. An entry that is not Durable may
// wait in memory until the first durable one creates the file.
type Append struct {
	ID      string // that the entry gets
	Entry   protocol.Entry
	Durable bool

	was *earlier // what the entry replaces; nil for an entry that takes nothing away which only memory has
}

// earlier is what a client had chosen before an entry that records another choice. The log
// says it in part only: what settings say, and what is being counted, is in no entry.
type earlier struct {
	model   *modelChoice           // nil before an entry that records something else
	chosen  bool                   // the entry records choices
	choices *choices               // those before; nil where only the log has changed
	limits  *protocol.BudgetLimits // of a client; nil for none
	set     protocol.BudgetLimits  // that counted
	budget  *budget                // with what only memory has counted; nil where nothing was limited
}

// Reply answers a command.
type Reply struct {
	Seq  uint64
	Data protocol.Result
	Err  *protocol.Error
	// Regardless keeps the answer when an entry before it cannot be written: an
	// abort has stopped the run even if the log does not say so.
	Regardless bool
	// Reads says that the command changes nothing: a large answer may wait until
	// the client has read what it was sent before.
	Reads bool

	// instead makes the answer that is given when an entry before it cannot be
	// written, and why. Without it, and unless Regardless, the command fails.
	instead func(m *Machine, why string) protocol.Result
}

// Query answers a command from what the shell has at hand: the session log,
// the resources, the tools.
type Query struct {
	Seq  uint64
	Name string // as the client wrote it
	Cmd  protocol.Command
}

// SlowQuery answers a command like [Query], but takes long. It reports
// [QueryDone], and other commands go on meanwhile.
type SlowQuery struct {
	Seq uint64
	Cmd protocol.Command
}

// LookUp hands back a command that has waited, with what is found for it now: what was found when it
// came was found in another session, or before what that has done since. It comes before anything else.
type LookUp struct{ Command Command }

// NoReply says that a command needs no answer.
type NoReply struct{ Seq uint64 }

// Emit tells the session's clients.
type Emit struct{ Event protocol.Event }

// StartStream asks the model for the next message of the branch.
type StartStream struct {
	Attempt Attempt
	Model   *protocol.Model
	Level   protocol.ThinkingLevel
	Tools   []string
	// SystemPrompt stands in the place of the usual one for this run, where an
	// extension has made another.
	SystemPrompt *string
	Must         string // the tool that it has to call, "" for none
	Again        bool   // the request before it failed
	Repeats      int    // how often the request may be repeated, visibly or not; RetriesOff without retries
}

// StartTool runs a tool call, Unbound without the session's sandbox.
type StartTool struct {
	Attempt Attempt
	Call    protocol.ToolCall
	Unbound bool
}

// StartChild opens the session of a child. It reports [ChildOpened]; then, until
// [CloseChild] or the end of the attempt, what the child does.
type StartChild struct {
	Attempt Attempt
	Call    string // the tool call
	Spec    ChildSpec
}

// ChildSpec is what the session of a child is made with.
type ChildSpec struct {
	Entry        protocol.SubagentEntry
	Agent        protocol.Agent
	Models       []string                // patterns, the first that is available counts; none for that of the parent
	Model        *protocol.Model         // the parent's
	Level        protocol.ThinkingLevel  // likewise
	Mode         protocol.PermissionMode // the parent's: a child may do no more unasked
	MaxRuntimeMs int64                   // 0 for no limit
	BudgetShare
	WarnAt       float64 // the part of the agent's limits at which clients are warned
	SoftRequests int     // requests after which the child is asked to end, 0 for never
	Workspace    string  // the directory that it works in, "" for its parent's
	Resume       Earlier // the child to go on with
}

// Earlier is what a child has left that has ended.
type Earlier struct {
	File string // of its session; "" for a new child
	Node string // where that is, in a cluster; "" if that is not known
}

// PrepareWorkspace makes a workspace for an item. It reports [WorkspaceReady].
type PrepareWorkspace struct {
	Attempt Attempt
	Job     int    // of the item: its number
	Call    string // items of one call begin with the same files
	ID      string
}

// CaptureWork keeps what a child has done in its workspace. It reports [WorkCaptured].
type CaptureWork struct {
	Attempt     Attempt
	Job         int // of the item: its number
	ID          string
	Dir         string // the workspace
	Description string
	Message     string          // of the commit of what the child has not committed; "" for one made of the description
	Before      json.RawMessage // an earlier capture, before checks have run; nil for none
	Checked     json.RawMessage // what was there when they had
}

// RunCheck runs a command of a verification in a workspace. It reports [CheckDone].
type RunCheck struct {
	Attempt Attempt
	Job     int // of the item: its number
	ID      string
	Dir     string
	Try     int // from 1
	Index   int // of the command
	Last    bool
	Command protocol.VerifyCommand

	Call     string
	Baseline bool // one that fails is tried on the untouched tree as well
}

// PlanMerge computes how what a child has done meets what the user has done
// meanwhile. It reports [MergePlanned] and writes nothing.
type PlanMerge struct {
	Attempt  Attempt
	Job      int // of the item: its number
	ID       string
	Dir      string
	Captured json.RawMessage
}

// ApplyMerge carries out a plan that the log has. It reports [MergeDone].
type ApplyMerge struct {
	Attempt Attempt
	Job     int // of the item: its number
	ID      string
	Dir     string
	Plan    json.RawMessage
}

// LeaveWorkspace removes a workspace, or keeps it for the user.
type LeaveWorkspace struct {
	Dir     string
	Keep    bool
	Merged  bool
	Discard []string // files that go with it
}

// EndIsolated says that no other item of a call needs a workspace.
type EndIsolated struct{ Call string }

// CancelIsolated stops what is being done with the workspace of one item, whose call
// goes on.
type CancelIsolated struct {
	Attempt Attempt
	ID      string
}

// TellChild gives a child a command.
type TellChild struct {
	Attempt Attempt
	ID      string
	Cmd     protocol.Command
	Anew    bool // with a prompt: what the child has said before does not count as its answer

	By  *protocol.ClientRef // who has given it, if it is an answer to a dialog
	For uint64              // the command of a client that the child's answer is one to: [ChildReplied]; 0 for none
}

// AskGrant asks the parent whether the budget of the tree allows something. It is answered
// by [Granted], unless [ReportSpent] takes it back.
type AskGrant struct {
	Ticket   Ticket
	Need     protocol.BudgetUsed // of what is counted, or what an answer may cost
	Unpriced *protocol.Model     // whose price is not known; nil for a known one
}

// ReportSpent tells the parent what was used up since the session is its child, and that
// what a ticket was given is not needed any more: All for every ticket of the session that
// the ticket names, and those below it.
type ReportSpent struct {
	Ticket Ticket
	All    bool
	Used   protocol.BudgetUsed
}

// AnswerGrant answers what a child has asked for.
type AnswerGrant struct {
	Attempt Attempt
	ID      string
	Grant   Grant
}

// LimitChild tells a child on whose budget it draws from now on.
type LimitChild struct {
	Attempt Attempt
	ID      string
	Draws   Drawing
}

// CloseChild lets a child go. Its session ends, unless somebody else listens to it.
type CloseChild struct {
	Attempt Attempt
	ID      string
}

// Summarise asks a model for a summary: of older history, for a compaction, or,
// with Branch, of the branch that navigate_tree leaves. It reports
// [Summarised].
type Summarise struct {
	Attempt      Attempt
	Model        *protocol.Model
	Level        protocol.ThinkingLevel
	Instructions string
	Replace      bool   // Instructions stand in the place of the built-in ones
	Branch       uint64 // the command whose target the leaf goes to, 0 for a compaction
	Redo         bool   // a compaction leaves out the newest answer: it will be made again
	Reason       string // of a compaction, as on the wire
	Retries      bool   // the request that did not fit is made again behind it
	Repeats      int    // how often each request for it may be repeated, as in StartStream
}

// Cancel stops whatever was begun as an attempt. Results that still come are
// stale; nobody waits for it to be gone.
type Cancel struct{ Attempt Attempt }

// StartBash runs a command of the client.
type StartBash struct {
	Seq     uint64 // of the command
	Job     int
	Command string
	Exclude bool // no model is shown it
}

// CancelBash kills a command of the client. Its result still counts.
type CancelBash struct{ Job int }

// ScheduleRetry asks the retry supervisor to wait before a request is made
// again. It reports [RetryScheduled] and [RetryDue].
type ScheduleRetry struct {
	Attempt Attempt       // of the wait
	Number  int           // of the retry, from 1
	After   time.Duration // what the provider asked for, 0 if nothing
}

// AskUI opens a dialog.
type AskUI struct {
	Request  protocol.ExtensionUIRequest
	Approval *protocol.ApprovalRequest // that the dialog is about; nil for another
}

// ResolveUI passes a client's answer to the dialog's owner.
type ResolveUI struct {
	Seq    uint64
	Answer protocol.ExtensionUIResponse
}

// CancelUI closes a dialog that is no longer wanted.
type CancelUI struct {
	ID  string
	How protocol.DialogOver // as it has ended elsewhere; without an outcome it was aborted
}

// LoadSession loads or makes the session that a command wants in this one's
// place, without touching the current one. It reports [SessionLoaded].
type LoadSession struct {
	Seq  uint64
	Name string
	Cmd  protocol.Command
	// Again is the file of the session that the same command has begun before: where it is
	// there, it is the one that is wanted. "" for none.
	Again string
}

// ActivateSession makes the session that was loaded the current one. It reports
// [SessionActivated].
type ActivateSession struct{ Seq uint64 }

// DropLoaded lets go of a session that was loaded in vain.
type DropLoaded struct{ Seq uint64 }

// Reconfigure reads settings and resources again and reports Reconfigured.
type Reconfigure struct{ Seq uint64 }

// CallHook asks the extensions. It reports [HookDone], once.
type CallHook struct {
	ID   int
	Hook Hook
}

// Judge has the permission rules judge a call, as it would run. It reports [HookDone],
// once, with a [Judged], or with nothing if that cannot be told.
type Judge struct {
	ID     int
	Call   protocol.ToolCall
	Mode   protocol.PermissionMode
	Grants []string // rules that were allowed in this session
}

// CancelHook says that nobody waits for an answer any more.
type CancelHook struct{ ID int }

// RunCommand starts a command of an extension. Seq is the number of the client's command that invoked it.
type RunCommand struct {
	Seq        uint64
	Name, Args string
}

// InnerProgress shows how far an [InnerCall] is.
type InnerProgress struct {
	Op      uint64
	Partial protocol.ToolResult
}

// InnerDone answers an [InnerCall]: with the call as it was made and its result, or with Err, why
// there is none.
type InnerDone struct {
	Op      uint64
	Call    protocol.ToolCall
	Result  protocol.ToolResult
	IsError bool
	TookMs  int64
	Err     string
}

// CancelCall stops one call of an attempt. What still comes of it is stale.
type CancelCall struct {
	Attempt Attempt
	CallID  string
}

// SetTimer asks for a [TimerDue] after a while. A timer of the same name is replaced.
type SetTimer struct {
	Name    string
	AfterMs int64
}

// CancelTimer says that nobody waits for a timer. One that is due already is stale.
type CancelTimer struct{ Name string }

// Closed says that the machine is done: nothing runs, nothing is owed.
type Closed struct{}

func (Append) effect() nature           { return special }
func (Reply) effect() nature            { return special }
func (Query) effect() nature            { return apart }
func (SlowQuery) effect() nature        { return apart }
func (LookUp) effect() nature           { return apart }
func (NoReply) effect() nature          { return apart }
func (Emit) effect() nature             { return special }
func (StartStream) effect() nature      { return inRun }
func (StartTool) effect() nature        { return inRun }
func (StartChild) effect() nature       { return inRun }
func (PrepareWorkspace) effect() nature { return inRun }
func (CaptureWork) effect() nature      { return inRun }
func (RunCheck) effect() nature         { return inRun }
func (PlanMerge) effect() nature        { return inRun }
func (ApplyMerge) effect() nature       { return inRun }
func (LeaveWorkspace) effect() nature   { return inRun }
func (EndIsolated) effect() nature      { return inRun }
func (CancelIsolated) effect() nature   { return inRun }
func (TellChild) effect() nature        { return inRun }
func (CloseChild) effect() nature       { return inRun }
func (AskGrant) effect() nature         { return inRun }
func (ReportSpent) effect() nature      { return apart }
func (AnswerGrant) effect() nature      { return apart }
func (LimitChild) effect() nature       { return apart }
func (Summarise) effect() nature        { return inRun }
func (Cancel) effect() nature           { return apart }
func (StartBash) effect() nature        { return special }
func (CancelBash) effect() nature       { return apart }
func (ScheduleRetry) effect() nature    { return inRun }
func (Judge) effect() nature            { return inRun }
func (InnerProgress) effect() nature    { return apart }
func (InnerDone) effect() nature        { return apart }
func (CancelCall) effect() nature       { return apart }
func (SetTimer) effect() nature         { return apart }
func (CancelTimer) effect() nature      { return apart }
func (AskUI) effect() nature            { return inRun }
func (ResolveUI) effect() nature        { return apart }
func (CancelUI) effect() nature         { return apart }
func (LoadSession) effect() nature      { return special }
func (ActivateSession) effect() nature  { return special }
func (DropLoaded) effect() nature       { return apart }
func (Reconfigure) effect() nature      { return apart }
func (CallHook) effect() nature         { return special }
func (CancelHook) effect() nature       { return apart }
func (RunCommand) effect() nature       { return special }
func (Closed) effect() nature           { return special }
