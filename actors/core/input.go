package core

import (
	"encoding/json"

	"troupe/protocol"
)

// Input is something that happened: a command of a client, or the result of an
// effect. Results carry the [Attempt] or the number that the effect had. What it
// makes of the machine is its method.
type Input interface{ apply(m *Machine) }

// Command is one request of a client.
type Command struct {
	Seq uint64 // the router's number for the answer that is owed
	ID  json.RawMessage
	// Name is the command as the client wrote it: fork and branch differ in the
	// words of their errors.
	Name string
	Cmd  protocol.Command
	LookedUp
	// Size is about how many bytes the command keeps while it waits.
	Size int
	// FromExtension says that no client wrote it, but an extension of the session.
	FromExtension bool
	// Note is a message of an extension that is to begin a run: then it is no command of
	// anybody, and nobody is answered.
	Note *CustomSent

	// By is who has given it, nil if nobody knows; set for answers to approvals and dialogs.
	By *protocol.ClientRef

	due      bool                    // it has waited, and it is its turn
	key      protocol.IdempotencyKey // of the message as the client wrote it
	prepared *Prepared               // what extensions have said to its run
}

// LookedUp is what was found for a command outside of the machine.
type LookedUp struct {
	// Said is the command as the client has said it, where a template or a skill stands in
	// the place of its words; nil for the command itself.
	Said protocol.Command
	// Slash says that the message begins with / and names no prompt template and
	// no skill.
	Slash bool
	// Refused is what is wrong with the message that was looked up.
	Refused *protocol.Error
	// Catalog is what can be selected at this moment; set for commands that
	// need models.
	Catalog *protocol.Catalog
	// Found is what the catalog has under the name of the model that the command
	// sets, or of the session's model while that is missing; nil for nothing.
	Found *protocol.Model
	// Extension is the command of an extension that the message names; nil for none.
	Extension *ExtensionCommand
	// Spent is what the session file says of what was used up; set for set_budget and
	// get_budget.
	Spent *protocol.BudgetSpent
}

// ExtensionCommand is a message /name args.
type ExtensionCommand struct{ Name, Args string }

// StreamParts are steps of the model's answer, oldest first.
type StreamParts struct {
	Attempt Attempt
	Parts   []protocol.Part
}

// StreamEnd says that the model's answer is over: Err is nil after a
// protocol.PartDone.
type StreamEnd struct {
	Attempt Attempt
	Done    protocol.PartDone
	Err     *protocol.StreamError
}

// ToolProgress is the output of a running tool so far.
type ToolProgress struct {
	Attempt Attempt
	CallID  string
	Partial protocol.ToolResult
}

// ToolDone is the result of a tool call.
type ToolDone struct {
	Attempt    Attempt
	CallID     string
	Result     protocol.ToolResult
	IsError    bool
	Refused    bool                 // the tool did not run: it is not known, or its arguments do not fit
	Submission *protocol.Submission // what a child hands over; nil for any other call
	Todos      []protocol.TodoPhase // the list that the session keeps from now on; nil for the one it has
}

// TaskReady begins a call of the task tool, whose arguments have been checked.
type TaskReady struct {
	Attempt Attempt
	CallID  string
	Args    json.RawMessage
}

// WorkspaceReady says that an item has a workspace, or why not.
type WorkspaceReady struct {
	Attempt Attempt
	ID      string
	Dir     string   // names it
	Path    string   // where its child works
	Notes   []string // for the result
	Err     string
	Never   bool // with Err: no item can have one here
}

// WorkCaptured says what a child has done in its workspace.
type WorkCaptured struct {
	Attempt  Attempt
	ID       string
	Captured json.RawMessage // for [PlanMerge]
	Tree     string          // the same for the same files
	Empty    bool            // nothing
	Patch    string          // file
	Nested   []string        // files of nested repositories
	Rest     bool            // some of it the child has not committed, and it is to be commits
	Err      string
}

// CheckDone says how a command of a verification ended.
type CheckDone struct {
	Attempt Attempt
	ID      string
	Result  protocol.VerificationCommandResult
	Log     string          // the end of its output, for a repair
	Checked json.RawMessage // what is in the workspace after the last one; nil if that is not known
}

// MergePlanned says what a merge will change, or why there is none.
type MergePlanned struct {
	Attempt   Attempt
	ID        string
	Plan      json.RawMessage
	From, To  []string
	Paths     []string
	Conflicts []string
	Notes     []string
	Branch    string // that the work is on, which only the workspace has once it is merged
	Aside     bool   // the work is on that branch already, and none of the user's can be moved
	Err       string
}

// MergeDone says whether a merge is in the user's files.
type MergeDone struct {
	Attempt Attempt
	ID      string
	Moved   bool // the user has changed them since the plan
	Err     string
}

// ChildOpened says that the session of a child is there, or why not.
type ChildOpened struct {
	Attempt   Attempt
	ID        string
	SessionID string // its handle
	File      string // "" for one in memory
	Model     string // provider/model
	Note      string // what of that is not as it was asked for
	Err       string
}

// ChildProgress is what a child does, and what it has cost so far.
type ChildProgress struct {
	Attempt  Attempt
	ID       string
	Activity protocol.TaskActivity
	Usage    protocol.Usage
}

// ChildTold is an event of a child that the clients of its parent are to hear of.
type ChildTold struct {
	Attempt Attempt
	ID      string
	Event   protocol.Event
}

// ChildReplied is a child's answer to a command that a client has given the parent.
type ChildReplied struct {
	Attempt Attempt
	ID      string
	Seq     uint64 // of the command
	Err     *protocol.Error
}

// ChildSettled says that a child has nothing more to do.
type ChildSettled struct {
	Attempt     Attempt
	ID          string
	Outcome     string // of its last run
	Error       string // of that
	AbortReason string // why it was stopped by its parent, "" if it was not
	Submission  *protocol.Submission
	Text        string // of its last answer
	OutputPath  string // of the file that has all of its output, "" for none
	Usage       protocol.Usage
	Activity    protocol.TaskActivity
	DurationMs  int64
}

// GrantAsked is a question of a child about the budget that it draws on.
type GrantAsked struct {
	Attempt Attempt
	ID      string
	Ask     AskGrant
}

// ChildSpent is what a child has used up, and what it needs no longer.
type ChildSpent struct {
	Attempt Attempt
	ID      string
	Report  ReportSpent
}

// Granted is the answer to [AskGrant].
type Granted struct{ Grant }

// Pooled says on whose budget a child draws from now on.
type Pooled struct {
	Draws Drawing
	Spent *protocol.BudgetSpent // that its file says, for a child that draws on its own
}

// HostReady says that the client is to run a call, with these arguments.
type HostReady struct {
	Attempt Attempt
	CallID  string
	Args    json.RawMessage
}

// LoginWaits says that a request waits for a login to be renewed, or does no more.
type LoginWaits struct {
	Attempt Attempt
	For     string // the provider; "" for no more
}

// SummaryBegun says that there is something to summarise, and that a model is
// being asked. It comes before the [Summarised] of the same attempt, unless that
// says Refused.
type SummaryBegun struct{ Attempt Attempt }

// Summarised is the answer to [Summarise]: a Compaction or Branch, or why there
// is none.
type Summarised struct {
	Attempt    Attempt
	Compaction *protocol.Compaction
	Branch     *protocol.BranchSummary
	// Size is of the context that the compaction leaves, as the summariser saw it.
	// An answer that is to be made again counts as a message until it is taken out.
	Size    protocol.ContextSize
	Refused *protocol.Error       // there is nothing to summarise
	Err     *protocol.StreamError // the model did not give one
}

// BashProgress is new output of a bash command.
type BashProgress struct {
	Job   int
	Delta string
}

// BashDone ends a bash command. Err is set if it could not be run at all.
type BashDone struct {
	Job    int
	Result protocol.BashResult
	Err    *protocol.Error
}

// RetryScheduled says how long the retry supervisor will wait.
type RetryScheduled struct {
	Attempt Attempt
	DelayMs int64
}

// RetryDue says that the wait for a retry is over.
type RetryDue struct{ Attempt Attempt }

// UIAnswered is the end of a dialog: an answer, a cancel or a timeout.
type UIAnswered struct {
	ID        string
	Value     *string
	Confirmed bool
	Cancelled bool // also on timeout
	Late      bool // nobody has answered in time

	By *protocol.ClientRef // who has answered; nil if nobody knows
}

// SessionLoaded says that the session a command asked for is loaded and can take
// this one's place, or why not. Text is what the command returns to the client's
// editor.
type SessionLoaded struct {
	Seq  uint64
	Err  *protocol.Error // it could not be loaded, and nothing has changed
	Veto bool            // an extension does not want it to be
	To   Loaded
	Text string
	Stay bool // navigate_tree: the leaf is there already
	// Nav and Summary are what extensions make of navigate_tree; nil for nothing.
	Nav     *protocol.NavigateTree  // the command itself
	Summary *protocol.BranchSummary // of the branch that it leaves: no model is asked for one
}

// SwitchAsked says that extensions are asked whether a command may replace the session.
// It comes again whenever they begin to ask a person, and when nobody is asked any more.
type SwitchAsked struct {
	Seq    uint64
	Dialog bool // somebody is asked, and may take any time
}

// SessionActivated says that the session that was loaded is the current one. To
// is set if it has changed since: a session may be switched to itself.
type SessionActivated struct {
	Seq uint64
	To  *Loaded
}

// QueryDone is what a [SlowQuery] found.
type QueryDone struct {
	Seq  uint64
	Data protocol.Result
	Err  *protocol.Error
}

// WorkerGone says that the actor doing a job ended without a result.
type WorkerGone struct {
	Kind    WorkerKind
	Attempt Attempt // of any but bash and UI
	Job     int     // bash
	ID      string  // tool: the call; child: its id
}

// WorkerKind tells jobs apart.
type WorkerKind uint8

const (
	WorkerStream WorkerKind = iota
	WorkerTool
	WorkerBash
	WorkerRetry
	WorkerUI      // every open dialog is lost
	WorkerSummary // of a compaction or a branch
	WorkerChild
	WorkerIsolated // of an item with a workspace
)

// Restored begins a machine's life: what the session log says. It is the first
// input, after a start and after a crash.
type Restored struct {
	Session   Loaded
	Settings  Settings
	Requested Requested  // for a stored session that is opened: these values replace the stored ones
	Carryover *Carryover // what a crashed predecessor had been told by its client; nil at a start
	Open      OpenSpans  // what a crashed predecessor had begun on the wire and not ended
	Failover  *Failover  // the node was lost that had the session; nil for any other cause
	Life      string     // is in the ids of what clients are asked, where other lives may have asked the same ones; "" where none have
}

// Requested lists the values that a user requested explicitly when a stored session was opened, by
// flags or by open_session. They replace the stored ones.
type Requested struct {
	Model bool                   // the model of the settings
	Level protocol.ThinkingLevel // limited to the levels of the model; "" keeps the stored level
	Name  string                 // "" keeps the stored name
}

// Failover says that a session comes from a node that was lost.
type Failover struct {
	From  string // the node
	Stop  bool   // a run that was cut off is not to go on
	Cwd   string // where the session works now, if that is another directory; "" if not
	Saved bool   // what its files have is what was saved behind a turn that had settled
	Older bool   // and that was not the last one
}

// Reconfigured brings new settings and resources, after reload_resources.
type Reconfigured struct {
	Seq      uint64 // the command to answer, 0 for none
	Settings Settings
	Data     protocol.Result       // the command's answer
	Spent    *protocol.BudgetSpent // what the file says was used up; nil where nothing is limited
}

// Reloaded says that the log was read again while the session goes on: because an
// entry could not be written, or because another program has changed the file.
type Reloaded struct {
	Session Loaded
	Open    OpenSpans // what clients have been shown and not seen the end of
	Err     error     // why an entry could not be written; nil if none was to be
	Undone  int       // the index of its Append in the last Step: neither it nor what follows was done
	Changed bool      // the file is not the one that was read before: what goes on ends
	Unsure  bool      // an entry may be in the log all the same, or come into it still
}

// refusal answers commands of which an entry could not be written.
func (in Reloaded) refusal(why string) *protocol.Error {
	if !in.Unsure {
		return protocol.CodeNotDurable.Errorf("%s", why)
	}
	err := protocol.CodeSessionUnavailable.Errorf("%s", why).MayHaveRun()
	err.Undecided = true
	return err
}

// HostGone says that the client that runs the host tools has left or detached: it
// hears of no call, and the session goes on without it.
type HostGone struct{}

// ChildAborted says that a client has told a child to stop, which may be doing nothing.
type ChildAborted struct {
	Attempt Attempt
	ID      string
}

// ChildLeft says what a child has cost altogether whose call was stopped with it: its last
// answer was under way, and its parent did not wait.
type ChildLeft struct {
	Call  string
	ID    string
	Usage protocol.Usage
}

// AskAgain says that everybody is there who decides about tool calls: clients are asked
// again about those that a restart of the process has left open, if the session is
// [Settings.Retained], and a run that was cut off with its node goes on.
type AskAgain struct{}

// ChildrenWatched says whether a client wants to be told of children more than
// everybody is.
type ChildrenWatched struct{ On bool }

// Orphaned says that the parent of a child has left it at once: what it was to do is not
// wanted any more. Others may still listen to it.
type Orphaned struct{}

// Withdrawn says that nobody waits any more for commands: the client that gave them
// leaves at once, and others go on. Those that have not begun never do.
type Withdrawn struct{ Seqs []uint64 }

// HookDone is what extensions say to a [CallHook]; a nil Answer is nothing.
type HookDone struct {
	ID     int
	Answer HookAnswer
}

// CustomSent is a message of an extension to the model (pi.sendMessage).
type CustomSent struct {
	Message protocol.CustomMessageEntry
	Trigger bool // starts a run when none is on
	Deliver Deliver
}

// Deliver is when a message of an extension comes to the model.
type Deliver uint8

const (
	DeliverSteer     Deliver = iota // before the next request
	DeliverFollowUp                 // when the model wants nothing more
	DeliverAfterTurn                // when the turn is over, without another
	DeliverNextTurn                 // behind the next message of the user
)

// EntryMade is an entry of an extension (pi.appendEntry), which no model sees.
// Its author has named it ID and may look for it by that; "" leaves the id to the
// machine.
type EntryMade struct {
	ID    string
	Entry protocol.Custom
}

// InnerCall is a call that a tool of an extension makes (ctx.executeTool), by the id of its
// own. It is answered by [InnerDone], once.
type InnerCall struct {
	Op     uint64
	Parent string
	Name   string
	Args   json.RawMessage
}

// InnerCancelled says that nobody waits for an [InnerCall] any more.
type InnerCancelled struct{ Op uint64 }

// TimerDue is the end of a [SetTimer].
type TimerDue struct{ Name string }

// ClockStepped says that the clock was set, or that the machine slept, since the step before.
type ClockStepped struct{ ByMs int64 } // negative if it was set back

// Closing asks the machine to finish: the client is gone or the daemon stops.
type Closing struct {
	Abort bool // stop the run now; else let it finish
	Deaf  bool // the client can answer nothing any more
	// GoesOn says that another process takes the session up if it is [Settings.Retained]: what
	// only waits for an answer about calls that have not begun is left to it, see [AskAgain].
	GoesOn bool
	Over   bool // nobody goes on with the session: who opens it again chooses anew

	forgotten bool // the log says so
}

func (in ChildrenWatched) apply(m *Machine) { m.childrenWatched = in.On }

func (Orphaned) apply(m *Machine) {
	m.dropIntake(protocol.CodeCancelled.Errorf("Aborted"))
	m.stop(aborted)
}

func (in EntryMade) apply(m *Machine) { m.add(Append{ID: in.ID, Entry: in.Entry, Durable: true}) }
func (Reloaded) apply(_ *Machine)     { panic("core: Reloaded comes alone") }

// Loaded is a session as its log has it.
type Loaded struct {
	Identity
	protocol.Resume
	Model *protocol.Model // of the branch; nil if it has none, or another one was asked for instead
}

// Identity says which session it is, and where.
type Identity struct {
	SessionID  string
	File       string // "" for a session in memory
	Durability string // none, process or sync
	LeafID     string // the entry that the next one follows, "" before the first
	ShownLeaf  string // the same as clients see it, who are not shown entries of troupe's own
	Foreign    bool   // the file has queued input and is not the user's own, so that it is left out
}

// Settings is the part of the configuration that the rules depend on.
type Settings struct {
	Rules         protocol.Rules
	Modes         // at the start
	MaxRetries    int
	ReserveTokens int64                  // compact when less than this is free in the window
	ReserveFor    map[string]int64       // by provider/model, where it differs
	Model         *protocol.Model        // for a session that names none
	Level         protocol.ThinkingLevel // for a session that names none
	Scope         []ScopedModel          // --models: what cycle_model cycles through
	Tools         []string               // active at the start
	KnownTools    []protocol.ToolInfo    // that may be active, beside the client's own
	// Check says what is wrong with the arguments of a call that was offered;
	// own are the tools of the client. Exact: what a model may write carelessly, such as
	// a number for a text, is wrong as well. It is a function of what it is given. Nil
	// takes every call.
	Check func(call protocol.ToolCall, own []protocol.HostTool, exact bool) error

	Tasks        TaskSettings
	Child        *Child // what the session is the child for; nil for a root
	Extensions   Extensions
	Confirm      []string // tools that run only after the client confirmed
	Permissions  bool     // calls are judged in every mode: there are rules
	Budget       protocol.BudgetSettings
	MaxReminders int  // of open todo items, for each message of the user
	TodosOff     bool // the user has left todo_write out: a list that the log holds does not bring it
	StreamRules  RuleSettings
	// ApprovalTimeout is how long an approval waits, in milliseconds; 0 for ever.
	ApprovalTimeout int64
	Ephemeral       bool // the session is in memory: queued input is not logged
	// Retained says that the session stays when nobody listens: calls that clients were
	// asked about wait for an answer over the end of the process, see [AskAgain].
	Retained bool
	// FailsOver says that another process goes on with what its log ends with: where nothing goes on
	// the log says so.
	FailsOver bool
	NoFiles   bool // the session has no directory that moves with it: nothing runs that would use one
	// Opened is what the session was opened with, for who goes on with it: see [protocol.ChoicesOp]. Nil for nothing.
	Opened  json.RawMessage
	Project protocol.ProjectTrust
}

// Modes are what clients can change of how the machine works.
type Modes struct {
	SteeringMode   protocol.QueueMode
	FollowUpMode   protocol.QueueMode
	InterruptMode  protocol.InterruptMode
	PermissionMode protocol.PermissionMode
	AutoRetry      bool
	AutoCompaction bool
}

// ScopedModel is an entry of --models.
type ScopedModel struct {
	Model *protocol.Model
	Level protocol.ThinkingLevel // "" keeps the current one
}

// Carryover is what clients told the machine and the log does not hold, plus the
// counters that must never repeat. The shell keeps a copy outside the actor,
// so that a crash does not lose it.
type Carryover struct {
	choices
	counters
}
