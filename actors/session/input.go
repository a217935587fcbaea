package session

import (
	"encoding/json"

	"troupe/protocol"
)

// Input is something that happened: a command of a client or the result of an
// effect. Results carry the number of the run that asked for them; one whose
// run is no longer current moves nothing.
//
//sumtype:decl
type Input interface{ input() }

// Command is one request of a client.
type Command struct {
	Seq uint64 // the router's number for the answer that is owed
	ID  json.RawMessage
	// Name is the command as the client wrote it: fork and branch differ in the
	// words of their errors.
	Name string
	Cmd  protocol.Command
	// Slash says that the message begins with / and names no prompt template and
	// no skill.
	Slash bool
	// Refused is what is wrong with the message that was looked up.
	Refused *protocol.Error
	// Catalog is what can be selected at this moment; set for commands that
	// need models.
	Catalog *protocol.Catalog
	// Size is about how many bytes the command keeps while it waits.
	Size int
}

// StreamParts are steps of the model's answer, oldest first.
type StreamParts struct {
	Run   int
	Parts []protocol.Part
}

// StreamEnd says that the model's answer is over: Err is nil after a
// protocol.PartDone.
type StreamEnd struct {
	Run  int
	Done protocol.PartDone
	Err  *protocol.StreamError
}

// ToolProgress is the output of a running tool so far.
type ToolProgress struct {
	Run     int
	CallID  string
	Partial protocol.ToolResult
}

// ToolDone is the result of a tool call.
type ToolDone struct {
	Run     int
	CallID  string
	Result  protocol.ToolResult
	IsError bool
}

// HostReady says that the arguments of a call of a host's tool are as the tool
// wants them.
type HostReady struct {
	Run    int
	CallID string
	Args   json.RawMessage
}

// SummaryBegun says that there is something to summarise, and that a model is
// being asked. It comes before the [Summarised] of the same run, unless that
// has refused.
type SummaryBegun struct{ Run int }

// Summarised is the answer to [Summarise]: a Compaction or Branch, or why there
// is none.
type Summarised struct {
	Run        int
	Compaction *protocol.Compaction
	Branch     *protocol.BranchSummary
	// MessageCount and Tokens describe the context that the compaction leaves,
	// as the summariser saw it. An answer that is to be made again counts as a
	// message until it is taken out.
	MessageCount int
	Tokens       int64
	Refused      *protocol.Error       // there is nothing to summarise
	Err          *protocol.StreamError // the model did not give one
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
	Run     int
	DelayMs int64
}

// RetryDue says that the wait for a retry is over.
type RetryDue struct{ Run int }

// UIAnswered is the end of a dialog: an answer, a cancel or a timeout.
type UIAnswered struct {
	ID        string
	Value     *string
	Confirmed bool
	Cancelled bool // also on timeout
}

// Prepared says that the session a command asked for is loaded and can be
// swapped in. Text is what the command returns to the client's editor.
type Prepared struct {
	Seq  uint64
	To   Loaded
	Text string
	Stay bool // navigate_tree: the leaf is there already
}

// Swapped says that the prepared session has become the current one. To is set
// if it has changed since it was prepared: a session may be switched to itself.
type Swapped struct {
	Seq uint64
	To  *Loaded
}

// LookedUp is what a [LookUp] found.
type LookedUp struct {
	Seq  uint64
	Data protocol.Result
	Err  *protocol.Error
}

// PrepareFailed says that it could not be loaded; nothing has changed.
type PrepareFailed struct {
	Seq uint64
	Err *protocol.Error
}

// WorkerGone says that the actor doing a job ended without a result.
type WorkerGone struct {
	Kind WorkerKind
	Run  int    // stream, tool, retry: the run; bash: the job
	ID   string // tool: the call
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
)

// Restored begins a machine's life: what the session log says. It is the first
// input, after a start and after a crash.
type Restored struct {
	Session  Loaded
	Settings Settings
	Vitals   *Vitals  // what a crashed predecessor had been told by its client; nil at a start
	Open     Brackets // what a crashed predecessor had begun on the wire and not ended
}

// Reconfigured brings new settings and resources, after reload_resources.
type Reconfigured struct {
	Seq      uint64 // the command to answer, 0 for none
	Settings Settings
	Data     protocol.Result // the command's answer
}

// AppendFailed says that the effect at Index of the last Step, an Append,
// could not be written, and that neither it nor anything after it was done.
type AppendFailed struct {
	Index int
	Err   error
	Open  Brackets // what the client has been shown and not seen the end of
	done  []Effect // of the last Step, before the one that failed
}

// Closing asks the machine to finish: the client is gone or the daemon stops.
type Closing struct {
	Abort bool // stop the run now; else let it finish
	Deaf  bool // the client can answer nothing any more
}

func (Command) input()        {}
func (StreamParts) input()    {}
func (StreamEnd) input()      {}
func (ToolProgress) input()   {}
func (ToolDone) input()       {}
func (HostReady) input()      {}
func (SummaryBegun) input()   {}
func (Summarised) input()     {}
func (BashProgress) input()   {}
func (BashDone) input()       {}
func (RetryScheduled) input() {}
func (RetryDue) input()       {}
func (UIAnswered) input()     {}
func (Prepared) input()       {}
func (LookedUp) input()       {}
func (PrepareFailed) input()  {}
func (Swapped) input()        {}
func (WorkerGone) input()     {}
func (Restored) input()       {}
func (Reconfigured) input()   {}
func (AppendFailed) input()   {}
func (Closing) input()        {}

// Loaded is what a session log tells about its session.
type Loaded struct {
	SessionID    string
	File         string // "" for a session in memory
	Durability   string // none, process or sync
	Name         string
	Model        *protocol.Model // of the branch; nil if it has none, or another one was asked for instead
	Level        protocol.ThinkingLevel
	HasLevel     bool // the branch says which level
	LeafID       string
	Last         protocol.Message // of the branch, nil in an empty session
	MessageCount int              // messages of the context
	Queue        []Queued
	Held         []Held // bash results that wait for their place in the history
	Tokens       int64  // of the context, estimated where no answer reports them
	TokensFresh  bool   // there is an answer since the last compaction
	Unanswered   []Unanswered
	Interrupted  bool // the branch ends inside a run
	Foreign      bool // the file has queued input and is not the user's own, so that it is not in Queue and Held
	LastQueueID  int
	Keys         []SeenKey       // idempotency keys, oldest first
	Todos        json.RawMessage // what keepTodos wrote last, nil for nothing
	Rules        []string        // stream rules that have fired
}

// Unanswered is a tool call of the last assistant message without a result.
type Unanswered struct {
	Call    protocol.ToolCall
	Started bool // it may have had effects
}

// Queued is an accepted message that was not delivered yet.
type Queued struct {
	ID     string
	Kind   protocol.QueueKind
	Text   string
	Images []protocol.Image
	Key    string
}

// Held is a bash result that waits for the end of a run.
type Held struct {
	ID      string
	Message *protocol.BashExecutionMessage
}

// SeenKey is an idempotency key that was used, and what it was answered.
type SeenKey struct {
	protocol.IdempotencyKey
	Disposition string
}

// Settings is the part of the configuration that the rules depend on.
type Settings struct {
	Gates          protocol.Gates
	SteeringMode   protocol.QueueMode
	FollowUpMode   protocol.QueueMode
	InterruptMode  protocol.InterruptMode
	AutoRetry      bool
	MaxRetries     int
	AutoCompaction bool
	ReserveTokens  int64                  // compact when less than this is free in the window
	ReserveFor     map[string]int64       // by provider/model, where it differs
	Model          *protocol.Model        // for a session that names none
	Level          protocol.ThinkingLevel // for a session that names none
	Scope          []ScopedModel          // --models: what cycle_model cycles through
	Tools          []string               // active at the start
	KnownTools     []string
	// Check says what is wrong with the arguments of a call that was offered;
	// host is set for a tool of the host. It is a function of what it is given.
	// Nil takes every call.
	Check func(call protocol.ToolCall, host *protocol.HostTool) error

	Confirm      []string // tools that run only after the client confirmed
	MaxReminders int      // of open todo items, for each message of the user
	StreamRules  RuleSettings
	Ephemeral    bool // the session is in memory: queued input is not logged
	Project      protocol.ProjectTrust
}

// ScopedModel is an entry of --models.
type ScopedModel struct {
	Model *protocol.Model
	Level protocol.ThinkingLevel // "" keeps the current one
}

// Vitals is what clients told the machine and the log does not hold, plus the
// counters that must never repeat. The shell keeps a copy outside the actor,
// so that a crash does not lose it.
type Vitals struct {
	SteeringMode   protocol.QueueMode
	FollowUpMode   protocol.QueueMode
	InterruptMode  protocol.InterruptMode
	AutoRetry      bool
	AutoCompaction bool
	Model          *protocol.Model
	Level          protocol.ThinkingLevel
	Tools          []string
	Host           []protocol.HostTool
	Epoch          int // last run number of the effects
	Runs           int // last run id of the wire
	Jobs           int
	Dialogs        int
	QueueIDs       int
}
