package session

import (
	"fmt"
	"slices"
	"strconv"

	"troupe/protocol"
)

// AtRest says that nothing goes on and nobody waits for anything.
func (m *Machine) AtRest() bool {
	return !m.active() && len(m.bashes) == 0 && m.replace == nil && len(m.lookups) == 0 && len(m.waiting) == 0
}

// Phase is what a session is doing, as get_state names it.
type Phase string

const (
	PhaseIdle       Phase = "idle"
	PhaseStreaming  Phase = "streaming"
	PhaseTools      Phase = "tools"
	PhaseDialog     Phase = "dialog" // a tool call waits for the client's consent
	PhaseRetrying   Phase = "retrying"
	PhaseCompacting Phase = "compacting"
	PhaseSwitching  Phase = "switching"
)

// Machine is the state of one session. It is not safe for concurrent use: its
// owner feeds it one input after another.
type Machine struct {
	// identity; changes when a session is replaced
	who Loaded

	// configuration and what clients made of it
	set            Settings
	model          *protocol.Model
	text           []byte // JSON of textOf
	textOf         *protocol.Model
	level          protocol.ThinkingLevel
	tools          []string
	host           []protocol.HostTool
	steeringMode   protocol.QueueMode
	followUpMode   protocol.QueueMode
	interruptMode  protocol.InterruptMode
	autoRetry      bool
	autoCompaction bool

	// the conversation
	messageCount int // of the context
	size         size
	steering     []Queued
	followUp     []Queued
	held         []Held       // bash results waiting for the end of the run
	dangling     []Unanswered // calls in the log without a result: answered before the next message
	restoring    bool         // the last step closed what an earlier life had left
	keys         keyring
	todos        []protocol.TodoPhase
	reminders    int            // of open items, since the last message of the user
	fired        map[string]int // stream rules, and the turn in which each fired
	turns        int            // begun in this process

	// what is going on
	phase  Phase
	since  int64 // when the phase began
	run    *run
	retry  *retry
	tries  attempts
	settle settle

	compaction *compaction
	recovered  bool                       // an overflow of this message was met with a compaction
	overflowed *protocol.AssistantMessage // the answer of this run, if it says that its request was too large

	bashes  []bashJob
	replace *replacement
	lookups []uint64  // commands whose answers are being looked up
	waiting []Command // commands that wait for the end of a replacement
	closing *Closing
	closed  bool

	// counters; never repeat within a process
	epoch    int // run number of effects: a new one for each request to the model and after each cancel
	runs     int
	jobs     int
	dialogs  int
	queueIDs int

	now  int64 // epoch milliseconds of the input being handled
	out  []Effect
	undo []func() // by index of out; nil where nothing needs undoing
}

// run is one agent_start … agent_end.
type run struct {
	id       protocol.RunID
	messages []protocol.Message
	stream   *stream  // the answer in progress, nil during tools
	offered  []string // the tools that the latest request named: only these run
	answer   *protocol.AssistantMessage
	calls    []*call
	results  []*protocol.ToolResultMessage // of the current turn, in call order
	turns    int                           // turns begun
	queued   bool                          // started by an idle steer or follow_up: a plain prompt may still join
}

// settle follows the work that one accepted input causes, over retries and
// continuations, until agent_settled.
type settle struct {
	owed    bool // an agent_start went out since the last agent_settled
	last    protocol.RunID
	outcome string
}

// Outcomes of a run, in agent_settled.
const (
	completed   = "completed"
	aborted     = "aborted"
	failed      = "failed"
	interrupted = "interrupted"
)

// New makes a machine that waits for its [Restored].
func New() *Machine { return &Machine{phase: PhaseIdle, fired: map[string]int{}} }

// Step handles inputs and returns what is to be done, in order. now is epoch
// milliseconds. Several inputs are handled as one by one, but what they want is
// performed together: if an append fails, so does everything behind it. An
// [AppendFailed] comes alone. The returned slice is valid until the next Step.
func (m *Machine) Step(now int64, ins ...Input) []Effect {
	m.now = now
	var failedAt []Effect
	if f, ok := ins[0].(AppendFailed); ok {
		failedAt = append(failedAt, m.out[f.Index:]...)
		f.done = append(f.done, m.out[:f.Index]...)
		ins = []Input{f}
		m.rollBack(f.Index)
	} else {
		m.restoring = false
	}
	m.out, m.undo = m.out[:0], m.undo[:0]
	for _, in := range ins {
		m.handle(in, failedAt)
		m.maybeClosed()
	}
	return m.out
}

func (m *Machine) handle(in Input, failedAt []Effect) {
	switch in := in.(type) {
	case Command:
		m.command(in)
	case StreamParts:
		m.streamParts(in)
	case StreamEnd:
		m.streamEnd(in)
	case ToolProgress:
		m.toolProgress(in)
	case ToolDone:
		m.toolDone(in)
	case HostReady:
		m.hostReady(in)
	case SummaryBegun:
		m.summaryBegun(in)
	case Summarised:
		m.summarised(in)
	case BashProgress:
		m.bashProgress(in)
	case BashDone:
		m.bashDone(in)
	case RetryScheduled:
		m.retryScheduled(in)
	case RetryDue:
		m.retryDue(in)
	case UIAnswered:
		m.uiAnswered(in)
	case LookedUp:
		m.lookedUp(in)
	case Prepared:
		m.prepared(in)
	case PrepareFailed:
		m.prepareFailed(in)
	case Swapped:
		m.swapped(in)
	case WorkerGone:
		m.workerGone(in)
	case Restored:
		m.restored(in)
	case Reconfigured:
		m.reconfigured(in)
	case AppendFailed:
		m.appendFailed(in, failedAt)
	case Closing:
		m.close(in)
	}
}

// command takes one command. A replacement in progress holds everything
// back, so that later commands see the session they were meant for.
func (m *Machine) command(c Command) {
	switch {
	case c.Refused != nil:
		m.fail(c, c.Refused)
	case m.closing != nil && !endsWork(c.Cmd):
		m.fail(c, protocol.CodeSessionClosing.Errorf("Session is closing"))
	case m.leaving() && supersedes(c.Cmd):
		m.cancelNavigation()
		m.command(c)
	case m.leaving() && len(m.waiting) == 0 && keepsBranch(c.Cmd):
		m.dispatch(c) // nothing has moved yet
	case m.replace != nil || len(m.waiting) > 0 || len(m.lookups) > 0 && replaces(c.Cmd):
		m.wait(c)
	default:
		m.dispatch(c)
	}
}

// wait keeps a command for later, unless too much waits already.
func (m *Machine) wait(c Command) {
	bytes := c.Size
	for i := range m.waiting {
		bytes += m.waiting[i].Size
	}
	if len(m.waiting) > 0 && bytes > protocol.MaxWaiting {
		m.fail(c, protocol.CodeOverloaded.Errorf("Too many commands wait: the limit is %d MiB", protocol.MaxWaiting>>20))
		return
	}
	m.waiting = append(m.waiting, c)
}

// endsWork says whether a command may still come while a closing session lets
// its run finish: the run may wait for just that.
func endsWork(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.ExtensionUIResponse, protocol.HostToolResult, protocol.HostToolUpdate,
		protocol.Abort, protocol.AbortRetry, protocol.AbortBash:
		return true
	default:
		return false
	}
}

// keepsBranch says whether it makes no difference to a command which branch is
// the current one: it only asks, or changes a mode or a queue.
func keepsBranch(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.Prompt, protocol.Steer, protocol.FollowUp, protocol.QueueMessage, protocol.ClearQueue,
		protocol.SetSteeringMode, protocol.SetQueueMode, protocol.SetFollowUpMode, protocol.SetInterruptMode,
		protocol.SetAutoRetry, protocol.SetAutoCompaction, protocol.AbortRetry, protocol.AbortBash,
		protocol.ExtensionUIResponse, protocol.HostToolResult, protocol.HostToolUpdate,
		protocol.GetState, protocol.GetMessages, protocol.GetAvailableModels, protocol.GetAvailableThinkingLevels,
		protocol.GetSessionStats, protocol.GetLastAssistantText, protocol.GetForkMessages, protocol.GetSessionTree,
		protocol.GetTree, protocol.GetEntries, protocol.GetContextUsage, protocol.GetCommands, protocol.GetTools, protocol.ListSessions:
		return true
	default:
		return false
	}
}

// supersedes says whether a command gives up a navigation that waits for its
// summary.
func supersedes(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.Abort, protocol.AbortAndPrompt:
		return true
	default:
		return replaces(cmd)
	}
}

// stopping says that the session is closing and does not wait for its work.
func (m *Machine) stopping() bool { return m.closing != nil && m.closing.Abort }

func (m *Machine) dispatch(c Command) {
	switch cmd := c.Cmd.(type) {
	case protocol.Prompt:
		m.prompt(c, cmd)
	case protocol.Steer:
		m.steer(c, cmd)
	case protocol.FollowUp:
		m.followUpCmd(c, cmd)
	case protocol.QueueMessage:
		m.queueMessage(c, cmd)
	case protocol.Abort:
		m.abort(c)
	case protocol.AbortAndPrompt:
		m.abortAndPrompt(c, cmd)
	case protocol.ClearQueue:
		m.clearQueue(c)
	case protocol.GetState:
		m.tell(c, func(m *Machine, _ string) protocol.Result { return m.State() })
	case protocol.SetModel:
		m.setModel(c, cmd)
	case protocol.CycleModel:
		m.cycleModel(c)
	case protocol.GetAvailableModels:
		m.do(Reply{Seq: c.Seq, Data: protocol.JSON(protocol.ModelList{Models: emptyNotNil(c.Catalog.Available())}), Regardless: true, Reads: true})
	case protocol.SetThinkingLevel:
		m.setLevel(m.set.Gates.Clamp(m.model, cmd.Level))
		m.reply(c, nil)
	case protocol.CycleThinkingLevel:
		m.cycleLevel(c)
	case protocol.GetAvailableThinkingLevels:
		m.tell(c, func(m *Machine, _ string) protocol.Result {
			return protocol.JSON(protocol.LevelList{Levels: m.set.Gates.Levels(m.model)})
		})
	case protocol.SetSteeringMode:
		m.steeringMode = cmd.Mode
		m.done(c, nil)
	case protocol.SetQueueMode:
		m.steeringMode = cmd.Mode
		m.done(c, nil)
	case protocol.SetFollowUpMode:
		m.followUpMode = cmd.Mode
		m.done(c, nil)
	case protocol.SetInterruptMode:
		m.interruptMode = cmd.Mode
		m.done(c, nil)
	case protocol.SetAutoRetry:
		m.autoRetry = cmd.Enabled
		m.done(c, nil)
	case protocol.SetAutoCompaction:
		m.autoCompaction = cmd.Enabled
		m.done(c, nil)
	case protocol.AbortRetry:
		m.abortRetry(c)
	case protocol.Bash:
		m.bash(c, cmd)
	case protocol.AbortBash:
		m.abortBash(c)
	case protocol.SetSessionName:
		m.setName(c, cmd)
	case protocol.SetActiveTools:
		m.setActiveTools(c, cmd)
	case protocol.NewSession, protocol.SwitchSession, protocol.Fork, protocol.Clone, protocol.NavigateTree:
		m.beginReplacement(c)
	case protocol.ReloadResources:
		m.reloadResources(c)
	case protocol.ExtensionUIResponse:
		m.do(ResolveUI{c.Seq, cmd})
	case protocol.GetMessages, protocol.GetSessionStats, protocol.GetLastAssistantText,
		protocol.GetForkMessages, protocol.GetSessionTree, protocol.GetTree, protocol.GetEntries,
		protocol.GetContextUsage, protocol.GetCommands, protocol.GetTools, protocol.SetEntryLabel:
		m.do(Answer{c.Seq, c.Name, c.Cmd})
	case protocol.ExportHTML, protocol.ListSessions:
		m.lookups = append(m.lookups, c.Seq)
		m.do(LookUp{c.Seq, c.Cmd})
	case protocol.Compact:
		m.compact(c, cmd)
	case protocol.SetTodos:
		m.setTodos(c, cmd)
	case protocol.SetHostTools:
		m.setHostTools(c, cmd)
	case protocol.HostToolUpdate:
		m.hostUpdate(c, cmd)
	case protocol.HostToolResult:
		m.hostResult(c, cmd)
	case protocol.Hello, protocol.GetProtocolInfo, protocol.OpenSession, protocol.CloseSession,
		protocol.AttachSession, protocol.DetachSession, protocol.ListOpenSessions:
		panic("session: " + c.Name + " belongs to the router")
	}
}

func (m *Machine) do(e Effect) {
	m.out = append(m.out, e)
	m.undo = append(m.undo, nil)
}

func (m *Machine) emit(ev protocol.Event) { m.do(Emit{ev}) }

func (m *Machine) reply(c Command, data protocol.Result) { m.do(Reply{Seq: c.Seq, Data: data}) }

// done answers a command that has left nothing in the log.
func (m *Machine) done(c Command, data protocol.Result) {
	m.do(Reply{Seq: c.Seq, Data: data, Regardless: true})
}

// tell answers a command that asks for what the machine knows. Where an entry
// before the answer cannot be written it is asked again: the machine is not what
// it was.
func (m *Machine) tell(c Command, what func(m *Machine, why string) protocol.Result) {
	m.do(Reply{Seq: c.Seq, Data: what(m, ""), Reads: true, instead: what})
}

func (m *Machine) fail(c Command, err *protocol.Error) { m.do(Reply{Seq: c.Seq, Err: err}) }

// append writes an entry; undo takes back what the machine already made of it,
// in case it cannot be written.
func (m *Machine) append(e protocol.Entry, undo func()) {
	m.do(Append{Entry: e, Durable: true})
	m.undo[len(m.undo)-1] = undo
}

// note writes an entry that may wait for the first durable one: nobody was told
// of it.
func (m *Machine) note(e protocol.Entry, undo func()) {
	m.do(Append{Entry: e})
	m.undo[len(m.undo)-1] = undo
}

// appendMessage adds a message to the branch; undo, if not nil, takes back
// what else the machine made of it.
func (m *Machine) appendMessage(e protocol.MessageEntry, undo func()) {
	old := m.size
	m.messageCount++
	m.size.grow(e.Message)
	m.append(e, func() {
		m.messageCount--
		m.size = old
		if undo != nil {
			undo()
		}
	})
}

func (m *Machine) enter(p Phase) {
	if m.phase != p {
		m.phase, m.since = p, m.now
	}
}

func (m *Machine) nextEpoch() int {
	m.epoch++
	return m.epoch
}

// busy says whether a plain prompt has to be refused.
func (m *Machine) busy() bool { return m.run != nil }

// active says whether something is going on that ends with agent_settled.
func (m *Machine) active() bool { return m.run != nil || m.retry != nil || m.summarising() }

// summarising says whether a summary is being made: of the history or of a
// branch.
func (m *Machine) summarising() bool { return m.compaction != nil || m.leaving() }

// State is the answer to get_state.
func (m *Machine) State() *protocol.SessionState {
	pending := len(m.steering) + len(m.followUp)
	state := &protocol.SessionState{
		ThinkingLevel:         m.Level(),
		IsStreaming:           m.run != nil || m.retry != nil,
		IsCompacting:          m.summarising(),
		SteeringMode:          m.steeringMode,
		FollowUpMode:          m.followUpMode,
		InterruptMode:         m.interruptMode,
		QueueMode:             m.steeringMode,
		SessionFile:           optional(m.who.File),
		SessionID:             m.who.SessionID,
		SessionName:           optional(m.who.Name),
		AutoCompactionEnabled: m.autoCompaction,
		AutoRetryEnabled:      m.autoRetry,
		MessageCount:          m.messageCount,
		PendingMessageCount:   pending,
		QueuedMessageCount:    pending,
		Durability:            m.who.Durability,
		Phase:                 string(m.phase),
		PhaseSince:            m.since,
		WaitingFor:            m.waitingFor(),
		Nulls:                 m.set.Gates.Nulls,
	}
	if len(m.set.Project.LeftOut) > 0 || m.who.Foreign {
		state.Project = m.project()
	}
	state.SetModel(m.model, m.modelText())
	return state
}

// project is what was left out of what came with the project and the file.
func (m *Machine) project() *protocol.ProjectTrust {
	p := m.set.Project
	if m.who.Foreign {
		p.LeftOut = append(slices.Clip(p.LeftOut), "queued input")
	}
	return &p
}

// modelText is the model as JSON, made once for each: models do not change.
func (m *Machine) modelText() []byte {
	if m.model != m.textOf {
		m.textOf, m.text = m.model, m.model.AppendJSON(nil)
	}
	return m.text
}

func (m *Machine) waitingFor() []string {
	var list []string
	switch {
	case m.run != nil && m.compaction != nil:
		list = append(list, "compaction "+m.compaction.reason)
	case m.run != nil && m.run.stream != nil && m.model != nil:
		list = append(list, "model "+m.model.Provider+"/"+m.model.ID)
	case m.run != nil:
		for _, c := range m.run.calls {
			if c.dialog != "" {
				list = append(list, "dialog "+c.dialog)
			} else if c.host != "" {
				list = append(list, "host "+c.Name+" "+c.ID)
			} else if c.state == callRunning {
				list = append(list, "tool "+c.Name+" "+c.ID)
			}
		}
	case m.compaction != nil:
		list = append(list, "compaction "+m.compaction.reason)
	case m.retry != nil:
		list = append(list, "retry "+strconv.Itoa(m.retry.attempt))
	case m.replace != nil:
		list = append(list, m.replace.cmd.Name)
	}
	for _, b := range m.bashes {
		list = append(list, fmt.Sprintf("bash %d", b.job))
	}
	return list
}

// Vitals is what must survive a crash and is not in the log.
func (m *Machine) Vitals() Vitals {
	return Vitals{
		m.steeringMode, m.followUpMode, m.interruptMode, m.autoRetry, m.autoCompaction,
		m.model, m.level, m.tools, m.host, m.epoch, m.runs, m.jobs, m.dialogs, m.queueIDs,
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func emptyNotNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Phase is what the session is doing.
func (m *Machine) Phase() Phase { return m.phase }

// Pending is how many messages wait in the queues.
func (m *Machine) Pending() int { return len(m.steering) + len(m.followUp) }

// ContextTokens is about how many tokens the context takes.
func (m *Machine) ContextTokens() int64 { return m.size.tokens }

// Name is the session's display name, "" if it has none.
func (m *Machine) Name() string { return m.who.Name }

// Model is the selected model, nil if there is none.
func (m *Machine) Model() *protocol.Model { return m.model }

// Level is the thinking level, as far as the client's dialect has it: a session
// may have been begun in another one.
func (m *Machine) Level() protocol.ThinkingLevel {
	if m.level != protocol.ThinkingMax {
		return m.level
	}
	return m.set.Gates.Clamp(m.model, m.level)
}

// ActiveTools are the tools that a model may call from its next request on.
func (m *Machine) ActiveTools() []string { return m.tools }
