package session

import (
	"encoding/json"
	"time"

	"troupe/protocol"
)

// Effect is something the shell must do. Effects are performed in slice order;
// when an Append fails, nothing after it is done and the machine is told with
// [AppendFailed].
//
//sumtype:decl
type Effect interface{ effect() }

// Append adds an entry to the session log. An entry that is not Durable may
// wait in memory until the first durable one creates the file.
type Append struct {
	Entry   protocol.Entry
	Durable bool
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

// Answer answers a command from what the shell has at hand: the session log,
// the resources, the tools.
type Answer struct {
	Seq  uint64
	Name string // as the client wrote it
	Cmd  protocol.Command
}

// LookUp answers a command like Answer, but takes long: what it finds comes as
// [LookedUp], and other commands go on meanwhile.
type LookUp struct {
	Seq uint64
	Cmd protocol.Command
}

// Quiet says that a command needs no answer.
type Quiet struct{ Seq uint64 }

// Emit tells the session's clients.
type Emit struct{ Event protocol.Event }

// StartStream asks the model for the next message of the branch.
type StartStream struct {
	Run   int
	Model *protocol.Model
	Level protocol.ThinkingLevel
	Tools []string
}

// StartTool runs a tool call.
type StartTool struct {
	Run  int
	Call protocol.ToolCall
}

// Summarise asks a model for a summary: of older history, for a compaction, or,
// with Branch, of the branch that navigate_tree leaves. It reports
// [Summarised].
type Summarise struct {
	Run          int
	Model        *protocol.Model
	Level        protocol.ThinkingLevel
	Instructions string
	Replace      bool   // Instructions stand in the place of the built-in ones
	Branch       uint64 // the command whose target the leaf goes to, 0 for a compaction
	Redo         bool   // a compaction leaves out the newest answer: it will be made again

	problem string // why it is asked again
}

// CancelRun stops whatever was started under a run number. Its results are
// stale from now on; nobody waits for it to be gone.
type CancelRun struct{ Run int }

// StartBash runs a command of the client.
type StartBash struct {
	Job     int
	ID      json.RawMessage // of the command, for its updates
	Command string
}

// CancelBash kills a command of the client. Its result still counts.
type CancelBash struct{ Job int }

// ScheduleRetry asks the retry supervisor to wait before a further attempt.
type ScheduleRetry struct {
	Run     int
	Attempt int           // from 1
	After   time.Duration // what the provider asked for, 0 if nothing
}

// CancelRetry stops the wait.
type CancelRetry struct{ Run int }

// AskUI opens a dialog.
type AskUI struct {
	ID      string
	Request protocol.ExtensionUIRequest
}

// ResolveUI passes a client's answer to the dialog's owner.
type ResolveUI struct {
	Seq    uint64
	Answer protocol.ExtensionUIResponse
}

// CancelUI closes a dialog that is no longer wanted.
type CancelUI struct{ ID string }

// Prepare loads or makes the session that a replacing command asks for, without
// touching the current one.
type Prepare struct {
	Seq  uint64
	Name string
	Cmd  protocol.Command
}

// Swap makes the prepared session the current one and reports Swapped.
type Swap struct{ Seq uint64 }

// Discard lets go of a prepared session that is not wanted.
type Discard struct{ Seq uint64 }

// Reconfigure reads settings and resources again and reports Reconfigured.
type Reconfigure struct{ Seq uint64 }

// Closed says that the machine is done: nothing runs, nothing is owed.
type Closed struct{}

func (Append) effect()        {}
func (Reply) effect()         {}
func (Answer) effect()        {}
func (LookUp) effect()        {}
func (Quiet) effect()         {}
func (Emit) effect()          {}
func (StartStream) effect()   {}
func (StartTool) effect()     {}
func (Summarise) effect()     {}
func (CancelRun) effect()     {}
func (StartBash) effect()     {}
func (CancelBash) effect()    {}
func (ScheduleRetry) effect() {}
func (CancelRetry) effect()   {}
func (AskUI) effect()         {}
func (ResolveUI) effect()     {}
func (CancelUI) effect()      {}
func (Prepare) effect()       {}
func (Swap) effect()          {}
func (Discard) effect()       {}
func (Reconfigure) effect()   {}
func (Closed) effect()        {}
