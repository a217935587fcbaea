package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"troupe/protocol"
)

// Phase is what a session is doing, as get_state names it.
type Phase string

const (
	PhaseIdle       Phase = "idle"
	PhaseStreaming  Phase = "streaming"
	PhaseAuth       Phase = "auth" // a model is to be asked, and its login is renewed
	PhaseTools      Phase = "tools"
	PhaseDialog     Phase = "dialog" // a tool call waits for the client's consent
	PhaseRetrying   Phase = "retrying"
	PhaseCompacting Phase = "compacting"
	PhaseSwitching  Phase = "switching"
)

// Machine is the state of one session. It is not safe for concurrent use: its
// owner feeds it one input after another.
type Machine struct {
	set Settings
	conversation
	choices
	counters

	budget *budget // nil where nothing is limited
	above
	doing

	beside
	asides
	submission submission

	ended
	handling
}

// doing is what a session is about.
type doing struct {
	activity activity
	shown    Phase // as it was noted last
	since    int64 // when the phase began, epoch milliseconds
	work     work
}

// ended is how far a session is with its end.
type ended struct {
	closing *Closing // nil for one that goes on
	closed  bool
}

// handling is one step.
type handling struct {
	now     int64 // epoch milliseconds of the input being handled
	stepped int64 // by how much the clock was set since the machine exists, in milliseconds
	log     Log
	out     []Effect
}

// Log is what the machine knows of the session log beyond what it was loaded with.
// It stands still during a step.
type Log interface {
	NewID() string // an id that no entry has
	Has(id string) bool
}

// conversation is what the session log says.
type conversation struct {
	identity Identity // changes when a session is replaced
	given
	size protocol.ContextSize // of what a model is shown
	queues
	openCalls []protocol.OpenCall // answered before the next message
	keys      keyring
	fired     map[string]int // stream rules, and the turn in which each fired
	headless  bool           // not even what a session begins with could be written
	omitted   bool           // the last answer was taken out, since its request is made again
	cutOff

	children   children
	unfinished []protocol.TaskOp // of children whose calls are open
}

// given is what clients have given the session.
type given struct {
	name   string
	todos  []protocol.TodoPhase
	kept   *protocol.BudgetLimits // that one has set; nil for none
	said   json.RawMessage        // what they have chosen, as the log has it, see [protocol.ChoicesOp]; nil for nothing
	unsaid bool                   // what they have chosen could not be written
}

// queues are what waits for the end of a turn or of the run.
type queues struct {
	steering []protocol.QueuedInput
	followUp []protocol.QueuedInput
	held     []heldBash // wait for the end of the run
}

// cutOff is what an earlier life has left to do.
type cutOff struct {
	lost     *Failover                  // with which the run ended that is to go on; nil for none
	tried    int                        // how often its request had been made in vain, when it was to be made again
	failure  string                     // the last time
	leftOpen *protocol.AssistantMessage // its calls are open, and clients are asked about them again; nil for none
	untold   *protocol.Custom           // what the log could not be told of it, see [Machine.sayFailedOver]; nil for nothing
	run      protocol.RunID             // that has gone on with it; "" for none
}

// choices are what clients made of the settings, as far as the log does not say
// it.
type choices struct {
	modelChoice
	Modes
	tools  []string
	picked bool // a client has said which tools are active
	host   []protocol.HostTool
	grants []string               // permission rules that were allowed in this session
	limits *protocol.BudgetLimits // that a client has set, in the place of those of the settings; nil for none
	draws  Drawing

	childrenWatched bool // somebody has subscribed to what children do
}

// beside is what goes on beside the activity, and what waits for that.
type beside struct {
	intake      intake
	bashes      []bashJob
	slowQueries []uint64       // commands whose answers are being looked up
	swap        *sessionSwitch // is under way; nil for none
	waiting     []Command      // behind a command that replaces the session
	lookUps     int            // of commands that have waited
	reloading   bool           // a reload_resources was executed, and the settings have not been replaced
}

func (b *beside) empty() bool {
	return len(b.bashes) == 0 && len(b.slowQueries) == 0 && b.swap == nil && len(b.waiting) == 0 && b.lookUps == 0 && len(b.intake.list) == 0
}

// modelChoice is what the next request goes to.
type modelChoice struct {
	model *protocol.Model
	level protocol.ThinkingLevel
}

// counters number what must not be numbered twice in the life of a process.
type counters struct {
	attempts Attempt
	runs     int
	jobs     int
	life     string // as of [Restored.Life], for dialogs and what else clients answer
	dialogs  int
	queueIDs int
	turns    int // requests for an answer
	hooks    int
	tickets  int                 // for things that a budget counts
	reported protocol.BudgetUsed // of a task, with its own: what its parent is told
}

// work is what one accepted input causes, over retries and continuations, until
// agent_settled.
type work struct {
	unsettled bool // an agent_start went out since the last agent_settled
	lastRun   protocol.RunID
	outcome   string
	retries   retries // of answers
	recovered bool    // a request that was too large was met with a compaction
	futile    bool    // the last compaction has failed: there is none before the next answer
	reminders int     // of open todo items
}

// Outcomes of a run, in agent_settled.
const (
	completed   = "completed"
	aborted     = "aborted"
	failed      = "failed"
	interrupted = "interrupted"
)

// New makes a machine that waits for its [Restored].
func New() *Machine {
	return &Machine{doing: doing{activity: idle{}, shown: PhaseIdle}, conversation: conversation{fired: map[string]int{}}}
}

// Step handles inputs and returns what is to be done, in order. now is epoch
// milliseconds; entries get their ids from log. Several inputs are handled as one
// by one, but what they want is performed together: if an append fails, so does
// everything behind it. The [Reloaded] that follows it comes alone. The returned
// slice is valid until the next Step.
func (m *Machine) Step(now int64, log Log, ins ...Input) []Effect {
	m.now, m.log = now, log
	if in, ok := ins[0].(Reloaded); ok {
		var undone []Effect
		if in.Err != nil {
			undone = slices.Clone(m.out[in.Undone:])
		}
		m.out = m.out[:0]
		m.reloaded(in, undone)
		m.handled()
		return m.out
	}
	m.out = m.out[:0]
	for _, in := range ins {
		in.apply(m)
		m.handled()
	}
	return m.out
}

// handled looks at what an input has made of the machine.
func (m *Machine) handled() {
	m.leaveAsked()
	m.notePhase()
	m.maybeClosed()
}

// apply takes one command. A switch in progress holds everything back, so
// that later commands see the session they were meant for.
func (c Command) apply(m *Machine) {
	traits := protocol.TraitsOf(c.Cmd)
	_, isLeaving := m.activity.(*leavingBranch)
	switch {
	case c.due:
		m.lookedUp(c)
	case c.Refused != nil:
		m.fail(c, c.Refused)
	case m.closing != nil && !traits.Is(protocol.EndsWork):
		m.fail(c, protocol.CodeSessionClosing.Errorf("Session is closing"))
	case isLeaving && traits.Is(protocol.EndsNavigation):
		m.stop(aborted)
		c.apply(m)
	case isLeaving && len(m.waiting) == 0 && m.lookUps == 0 && traits.KeepsBranch():
		m.dispatch(c) // nothing has moved yet
	case m.endsSwitch(c):
		m.cancelSwitch()
		c.apply(m)
	case traits.Is(protocol.Answers), m.passesSwitch(c): // to what may be waited for
		m.dispatch(c)
	case m.swap != nil || len(m.waiting) > 0 || m.lookUps > 0 || m.mustWait(c):
		m.wait(c)
	default:
		m.dispatch(c)
	}
}

// mustWait says whether a command would take away what others are about: the file
// that is being read, the session for which extensions are asked about a message.
func (m *Machine) mustWait(c Command) bool {
	return (len(m.slowQueries) > 0 || len(m.intake.list) > 0) && protocol.TraitsOf(c.Cmd).Replaces()
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

// apply refuses commands that wait: for another session, or for what extensions
// say about a message.
func (in Withdrawn) apply(m *Machine) {
	refused := func(c Command) bool {
		is := slices.Contains(in.Seqs, c.Seq)
		if is {
			m.fail(c, protocol.CodeSessionClosing.Errorf("The connection is closing"))
		}
		return is
	}
	m.waiting = slices.DeleteFunc(m.waiting, refused)
	if len(m.intake.list) == 0 {
		return
	}
	first := m.intake.list[0]
	m.intake.list = append([]Command{first}, slices.DeleteFunc(slices.Clone(m.intake.list[1:]), refused)...)
	if refused(first) {
		m.cancelIntakeHook()
		m.intake.next()
		m.takeNext()
	}
}

// Waits reports whether a command has not begun, because it waits for the replacement of the session or for the
// extensions that inspect its message.
func (m *Machine) Waits(seq uint64) bool {
	is := func(c Command) bool { return c.Seq == seq && c.Note == nil }
	return slices.ContainsFunc(m.waiting, is) || slices.ContainsFunc(m.intake.list, is)
}

// stopping says that the session is closing and does not wait for its work.
func (m *Machine) stopping() bool { return m.closing != nil && m.closing.Abort }

func (m *Machine) dispatch(c Command) {
	switch cmd := c.Cmd.(type) {
	case protocol.Prompt, protocol.Steer, protocol.FollowUp:
		m.message(c)
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
		m.do(Reply{Seq: c.Seq, Data: protocol.ModelList{Models: emptyNotNil(c.Catalog.Available())}, Regardless: true, Reads: true})
	case protocol.SetThinkingLevel:
		m.setLevel(m.set.Rules.Clamp(m.model, cmd.Level))
		m.reply(c, nil)
	case protocol.CycleThinkingLevel:
		m.cycleLevel(c)
	case protocol.GetAvailableThinkingLevels:
		m.tell(c, (*Machine).levels)
	case protocol.SetSteeringMode, protocol.SetQueueMode, protocol.SetFollowUpMode, protocol.SetInterruptMode,
		protocol.SetPermissionMode, protocol.SetAutoRetry, protocol.SetAutoCompaction:
		m.setMode(c)
	case protocol.ApprovalResponse:
		m.approve(c, cmd)
	case protocol.RevokePermission:
		m.revoke(c, cmd)
	case protocol.AbortRetry:
		m.abortRetry(c)
	case protocol.Bash:
		m.bash(c, cmd)
	case protocol.AbortBash:
		m.stopBashes()
		m.done(c, nil)
	case protocol.SetSessionName:
		m.setName(c, cmd)
	case protocol.SetActiveTools:
		m.setActiveTools(c, cmd)
	case protocol.NewSession, protocol.SwitchSession, protocol.Fork, protocol.Clone, protocol.NavigateTree:
		m.beginSwitch(c)
	case protocol.ReloadResources:
		m.reloadResources(c)
	case protocol.ExtensionUIResponse:
		m.do(ResolveUI{c.Seq, cmd})
	case protocol.SetEntryLabel:
		m.setLabel(c, cmd)
	case protocol.ExportHTML, protocol.ListSessions, protocol.GetSubagentMessages:
		m.slowQueries = append(m.slowQueries, c.Seq)
		m.do(SlowQuery{c.Seq, c.Cmd})
	case protocol.Compact:
		m.compact(c, cmd)
	case protocol.SetTodos:
		m.setTodos(c, cmd)
	case protocol.SetSubagentSubscription: // which clients are told what is the shell's
		m.do(Reply{Seq: c.Seq, Data: protocol.SubagentSubscription{Level: cmd.Level}, Regardless: true})
	case protocol.SetBudget:
		m.setBudget(c, cmd)
	case protocol.GetBudget:
		m.tell(c, func(m *Machine, _ string) protocol.Result { return m.budgetReport() })
	case protocol.SetHostTools:
		m.setHostTools(c, cmd)
	case protocol.HostToolUpdate:
		m.hostUpdate(c, cmd)
	case protocol.HostToolResult:
		m.hostResult(c, cmd)
	default: // the shell has what the log, the resources and the tools say
		if protocol.TraitsOf(cmd).Scope != protocol.ScopeQuery {
			panic("core: no rule for " + c.Name)
		}
		m.do(Query{c.Seq, c.Name, c.Cmd})
	}
}

// abort ends what was begun, before the answer; queued messages stay queued.
func (m *Machine) abort(c Command) {
	m.dropIntake(protocol.CodeCancelled.Errorf("Aborted"))
	m.stop(aborted)
	m.done(c, nil)
}

func (m *Machine) levels(string) protocol.Result {
	return protocol.LevelList{Levels: m.set.Rules.Levels(m.model)}
}

// setMode sets one of the modes.
func (m *Machine) setMode(c Command) {
	was := m.choices
	switch cmd := c.Cmd.(type) {
	case protocol.SetSteeringMode:
		m.SteeringMode = cmd.Mode
	case protocol.SetQueueMode:
		m.SteeringMode = cmd.Mode
	case protocol.SetFollowUpMode:
		m.FollowUpMode = cmd.Mode
	case protocol.SetInterruptMode:
		m.InterruptMode = cmd.Mode
	case protocol.SetPermissionMode:
		m.PermissionMode = cmd.Mode
		m.tellTasks()
	case protocol.SetAutoRetry:
		m.AutoRetry = cmd.Enabled
	case protocol.SetAutoCompaction:
		m.AutoCompaction = cmd.Enabled
	default:
		panic("core: no mode is set by " + c.Name)
	}
	m.chosen(c, was, nil)
}

func (m *Machine) do(e Effect) { m.out = append(m.out, e) }

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

// append writes an entry and returns its id.
func (m *Machine) append(e protocol.Entry) string { return m.add(Append{Entry: e, Durable: true}) }

// note writes an entry that may wait for the first durable one: nobody was told
// of it.
func (m *Machine) note(e protocol.Entry) { m.add(Append{Entry: e}) }

// add gives an entry its id and its place behind the leaf. One that no other event
// shows is shown to clients that follow entries.
func (m *Machine) add(a Append) string {
	m.writeHead()
	m.sayChoices()
	if a.ID == "" || m.log.Has(a.ID) {
		a.ID = m.log.NewID()
	}
	m.do(a)
	e, isCustom := a.Entry.(protocol.Custom)
	own := isCustom && strings.HasPrefix(e.CustomType, protocol.OwnPrefix)
	switch a.Entry.(type) {
	case protocol.Label, protocol.ContextEdit, protocol.BranchSummary, protocol.Custom:
		if own {
			break
		}
		meta := protocol.EntryMeta{ID: a.ID, ParentID: m.identity.LeafID, Timestamp: protocol.FormatTime(m.now)}
		m.emit(protocol.EntryAppended{Entry: protocol.Record{EntryMeta: meta, Entry: a.Entry}})
	default: // its event shows it, or nothing does
	}
	if e, is := a.Entry.(protocol.MessageEntry); is && e.Message.Role() != protocol.RoleBashExecution {
		m.omitted = false
	}
	m.identity.LeafID = a.ID
	if !isCustom && (m.identity.ShownLeaf != "" || m.size.Messages > 0) {
		m.identity.ShownLeaf = a.ID // in a session without messages clients see no leaf, whatever settings wait in it
	}
	return a.ID
}

// appendOwn writes an entry of troupe's own, which clients and other programs pass
// over.
func (m *Machine) appendOwn(customType string, data any) {
	m.append(protocol.Custom{CustomType: customType, Data: encoded(data, ownEntry)})
}

// noteOwn writes an entry of troupe's own that may wait for the next durable one.
func (m *Machine) noteOwn(customType string, data any) {
	m.note(protocol.Custom{CustomType: customType, Data: encoded(data, ownEntry)})
}

// encoded is a value as JSON, which has about so many bytes.
func encoded(v any, size int) json.RawMessage {
	return protocol.AppendValue(make([]byte, 0, size), v)
}

// ownEntry is about how many bytes an entry of troupe's own has.
const ownEntry = 768

// appendMessage adds a message to the branch.
func (m *Machine) appendMessage(e protocol.MessageEntry) string {
	m.size.Add(e.Message)
	return m.append(e)
}

// AtRest says that nothing goes on and nobody waits for anything.
func (m *Machine) AtRest() bool {
	return m.isIdle() && m.beside.empty()
}

// Idle says that no run and no compaction is on, and no run about to begin.
func (m *Machine) Idle() bool { return m.isIdle() && !(m.intake.seen && m.intake.hook != 0) }

// Done says that the machine has closed.
func (m *Machine) Done() bool { return m.closed }

// State is the answer to get_state.
func (m *Machine) State() *protocol.SessionState {
	pending := m.Pending()
	m.notePhase()
	made := &struct { // in one piece: this is what embedders poll
		state      protocol.SessionState
		file, name string
	}{file: m.identity.File, name: m.name}
	state := &made.state
	*state = protocol.SessionState{
		Model:                 m.model,
		ThinkingLevel:         m.Level(),
		IsStreaming:           m.activity.inRun() != nil || m.shown == PhaseRetrying || m.shown == PhaseStreaming || m.AsksAgain(),
		IsCompacting:          m.shown == PhaseCompacting,
		SteeringMode:          m.SteeringMode,
		FollowUpMode:          m.FollowUpMode,
		InterruptMode:         m.InterruptMode,
		QueueMode:             m.SteeringMode,
		SessionFile:           optional(&made.file),
		SessionID:             m.identity.SessionID,
		SessionName:           optional(&made.name),
		AutoCompactionEnabled: m.AutoCompaction,
		AutoRetryEnabled:      m.AutoRetry,
		MessageCount:          m.size.Messages,
		PendingMessageCount:   pending,
		QueuedMessageCount:    pending,
		Durability:            m.identity.Durability,
		Phase:                 string(m.shown),
		PhaseSince:            m.since,
		WaitingFor:            m.waitingFor(),
		PermissionMode:        cmp.Or(m.PermissionMode, protocol.PermitAuto),
	}
	state.Budget = m.budgetState()
	if len(m.set.Project.LeftOut) > 0 || m.identity.Foreign {
		state.Project = m.project()
	}
	return state
}

// project is what was left out of what came with the project and the file.
func (m *Machine) project() *protocol.ProjectTrust {
	p := m.set.Project
	if m.identity.Foreign {
		p.LeftOut = append(slices.Clip(p.LeftOut), "queued input")
	}
	return &p
}

func (m *Machine) waitingFor() []string {
	list := m.activity.waitingFor()
	if m.awaits != nil {
		list = []string{"budget"}
	}
	if m.swap != nil && list == nil {
		list = []string{m.swap.cmd.Name}
	}
	if m.intake.hook != 0 {
		list = append(list, "extension input")
	}
	for _, b := range m.bashes {
		list = append(list, fmt.Sprintf("bash %d", b.job))
	}
	return list
}

// Carryover is what must survive a crash and is not in the log.
func (m *Machine) Carryover() Carryover { return Carryover{m.choices, m.counters} }

// Limited says that a client has limited what the session may use up.
func (c *Carryover) Limited() bool { return c.limits != nil && !c.limits.None() }

// optional is a text, nil for the empty one.
func optional(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}

func emptyNotNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Pending is how many messages wait in the queues.
func (m *Machine) Pending() int { return len(m.steering) + len(m.followUp) }

// ContextTokens is about how many tokens the context takes.
func (m *Machine) ContextTokens() int64 { return m.size.Tokens }

// Name is the session's display name, "" if it has none.
func (m *Machine) Name() string { return m.name }

// Model is the selected model, nil if there is none.
func (m *Machine) Model() *protocol.Model { return m.model }

// Level is the thinking level, as far as the client's dialect has it: a session
// may have been begun in another one.
func (m *Machine) Level() protocol.ThinkingLevel {
	if m.level != protocol.ThinkingMax {
		return m.level
	}
	return m.set.Rules.Clamp(m.model, m.level)
}

// ActiveTools are the tools that a model may call from its next request on.
func (m *Machine) ActiveTools() []string { return m.tools }

// Nameplate is what is known of a session whose log cannot be read: which it is.
func (m *Machine) Nameplate() Loaded {
	return Loaded{Identity: m.identity, Resume: protocol.Resume{Name: m.name}}
}

// apply stops taking commands. Work goes on to its end, or stops now.
func (in Closing) apply(m *Machine) {
	if m.closing == nil {
		m.closing = &in
	}
	m.closing.Abort = m.closing.Abort || in.Abort
	m.closing.Deaf = m.closing.Deaf || in.Deaf
	m.closing.GoesOn = m.closing.GoesOn || in.GoesOn
	m.closing.Over = m.closing.Over || in.Over
	if !in.Abort {
		if in.Deaf {
			m.nobodyAnswers()
		}
		return
	}
	m.dropIntake(protocol.CodeSessionClosing.Errorf("Session is closing"))
	if !m.onlyAsks() && !(m.closing.GoesOn && m.AsksAgain()) {
		m.stop(aborted)
	}
	m.stopBashes()
}

// maybeClosed reports, once, that a closing machine has nothing left to do.
func (m *Machine) maybeClosed() {
	if m.closing == nil || m.closed || !m.AtRest() {
		return
	}
	m.closed = true
	m.dropChoices()
	m.do(Closed{})
}

// apply turns the silent end of a worker into a result. A result that the
// worker sent before it ended has been handled already, and the job is closed.
func (in WorkerGone) apply(m *Machine) {
	const why = "internal error: the worker ended without a result"
	switch in.Kind {
	case WorkerStream:
		StreamEnd{Attempt: in.Attempt, Err: protocol.ErrorInternal.Errorf("%s", why)}.apply(m)
	case WorkerTool:
		ToolDone{Attempt: in.Attempt, CallID: in.ID, Result: errorResult(why), IsError: true}.apply(m)
	case WorkerBash:
		BashDone{Job: in.Job, Err: protocol.CodeInternal.Errorf("%s", why).MayHaveRun()}.apply(m)
	case WorkerRetry:
		if a, ok := current[*retrying](m, in.Attempt); ok {
			m.retryGone(a, why)
		}
	case WorkerSummary:
		Summarised{Attempt: in.Attempt, Err: protocol.ErrorInternal.Errorf("%s", why)}.apply(m)
	case WorkerUI:
		m.dialogsLost()
	case WorkerIsolated:
		m.isolatedGone(in)
	case WorkerChild:
		m.childGone(in.Attempt, in.ID)
	}
}
