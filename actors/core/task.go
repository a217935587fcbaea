package core

import (
	"encoding/json"
	"slices"
	"strings"

	"troupe/protocol"
)

// TaskSettings are what a session needs to know to have children.
type TaskSettings struct {
	Agents         protocol.Agents
	ProjectDir     string            // where the project's agents are, "" for nowhere
	Disabled       []string          // names of agents that may not be started
	Models         map[string]string // by agent, instead of what it says
	MaxConcurrency int               // children of one call at once, 0 for no limit
	MaxDepth       int               // of the tree below its root, negative for no limit
	MaxRuntimeMs   int64             // of a child, 0 for no limit
	SoftRequests   int               // requests after which a child is asked to end, 0 for never
	Ceiling        []string          // tools that a child may have
	Isolation      bool              // items may work in workspaces
	Surface        bool              // what they change is shown to the user and not merged
	NameCommits    bool              // a child words the message of the commit of what it has not committed
	Verify         protocol.VerifySettings
	Node           string // of a cluster, where files of children are; "" without one
}

// Child says what a session was made for that is the child of another.
type Child struct {
	protocol.SubagentEntry
	Self  protocol.Agent
	Draws Drawing // whose budget it draws on when it begins

	Counts TokenCounts // of its parent
}

// depth is how far a session is below the root of its tree.
func (m *Machine) depth() int {
	if m.set.Child == nil {
		return 0
	}
	return m.set.Child.Depth
}

// tasks is a call of the task tool that goes on: its items, and what clients were
// shown of them.
type tasks struct {
	args  taskCall
	check *verifyPlan // what the work of isolated items has to pass; nil for nothing
	items []*item
	began int64 // by the clock of durations, as the next two
	shown int64 // when the latest update went out
	due   int64 // when what has changed since is shown, 0 if nothing has

	untouched map[string]int // how commands end on the tree that the items began with, as far as that was tried

	overBudget bool // clients were told that a budget ends it
}

// apply begins a call of the task tool, or refuses the whole of it.
func (in TaskReady) apply(m *Machine) {
	r, c := m.callOf(in.Attempt, in.CallID)
	if c == nil {
		return
	}
	var args taskCall
	if err := json.Unmarshal(in.Args, &args); err != nil {
		m.refuseTasks(r, c, "Validation failed for tool \""+TaskTool+"\": "+err.Error())
		return
	}
	rules := &taskRules{taskWords: m.words(), raw: in.Args, agents: m.set.Tasks.Agents, disabled: m.set.Tasks.Disabled, fits: m.resumables(), verified: wantsVerify(args.Verify)}
	if m.set.Child != nil {
		rules.spawner = m.set.Child.Self
	}
	rules.isolation = m.set.Tasks.Isolation
	var check *verifyPlan
	if rules.isolation {
		check, rules.verify = planVerify(args.Verify, args.isolates(rules), &m.set.Tasks.Verify)
		rules.verified = check != nil
	}
	if why := args.refusal(rules); why != "" {
		m.refuseTasks(r, c, why)
		return
	}
	t := &tasks{args: args, check: check, began: m.clock()}
	for i, want := range args.Tasks {
		it, why := m.newItem(&args, want)
		if why != "" {
			m.refuseTasks(r, c, why)
			return
		}
		it.index = i
		it.isolated = m.set.Tasks.Isolation && (args.Isolated != nil && *args.Isolated || args.Isolated == nil && it.agent.Isolated)
		t.items = append(t.items, it)
	}
	taken := map[string]bool{}
	for _, it := range t.items {
		m.nameChild(it, taken)
	}
	c.tasks = t
	m.advance(c)
	m.showTasks(r, c)
	m.endTasks(r, c)
}

func (m *Machine) words() taskWords { return taskWords{pisces: m.set.Rules.PiscesWords} }

// refuseTasks ends a call of which nothing was begun.
func (m *Machine) refuseTasks(r *run, c *call, why string) {
	details := m.taskDetails(nil, protocol.TaskDetails{Results: []protocol.TaskResult{}})
	if m.words().pisces && strings.HasPrefix(why, "Validation failed") { // which is no word of the tool's
		details = emptyObject
	}
	m.returned(r, c, protocol.ToolResult{Content: protocol.TextContent(why), Details: details}, true)
}

// goOn shows how far a call is, begins what may begin after an item has got on, there and in
// calls beside it, and ends a call whose items are done.
func (m *Machine) goOn(r *run, c *call) {
	m.taskChanged(r, c)
	if m.advance(c) {
		m.taskChanged(r, c)
	}
	m.endTasks(r, c)
	for _, other := range r.calls { // what waits there for this one to have begun
		if other != c && other.tasks != nil && other.state == callRunning && m.advance(other) {
			m.taskChanged(r, other)
			m.endTasks(r, other)
		}
	}
}

// crowd is how many items a call may have whose every change is shown at once. An update
// shows all items, so with more of them a change waits for others: a millisecond an item.
const crowd = 16

// tasksTimer shows what has waited.
const tasksTimer = "tasks"

// taskChanged shows a change of an item, now or soon.
func (m *Machine) taskChanged(r *run, c *call) {
	t, n := c.tasks, int64(len(c.tasks.items))
	if at := t.shown + n; n > crowd && at > m.clock() {
		m.showAt(t, at)
		return
	}
	m.showTasks(r, c)
}

// showAt has a call shown at a time, or before.
func (m *Machine) showAt(t *tasks, at int64) {
	if t.due == 0 || at < t.due {
		t.due = at
		m.do(SetTimer{Name: tasksTimer, AfterMs: at - m.clock()})
	}
}

// tasksDue shows what has changed in calls with many items.
func (m *Machine) tasksDue() {
	if a, ok := m.activity.(*runningTools); ok {
		for _, c := range a.run.calls {
			if c.tasks != nil && c.tasks.due != 0 {
				m.showTasks(a.run, c)
			}
		}
	}
}

// endTasks ends a call whose items are done.
func (m *Machine) endTasks(r *run, c *call) {
	if !slices.ContainsFunc(c.tasks.items, func(it *item) bool { return !it.done() }) {
		m.endIsolated(c)
		m.returned(r, c, m.taskResult(c.tasks), false)
	}
}

// advance begins what may begin, and says whether that was anything. Items begin in
// their order.
func (m *Machine) advance(c *call) (begun bool) {
	live, next := 0, true
	for _, it := range c.tasks.items {
		switch s := it.state.(type) {
		case itemQueued:
			limit := m.set.Tasks.MaxConcurrency
			if (!next || m.beginning() > 0) && m.childTooMany() { // it is told of when those that may begin have begun
				continue
			}
			if limit <= 0 || live < limit {
				begun = true
				if m.childRefusedByBudget(c, it) {
					continue
				}
				live++
				if m.draws == DrawsAbove {
					it.state = itemAsking{m.askCount(protocol.BudgetUsed{Subagents: 1})}
				} else {
					m.beginItem(c, it)
				}
			}
			next = false
		case itemOpening:
			live++
			if s.opened == nil || !next {
				next = false
				continue
			}
			begun = true
			if m.openedBeyondBudget(c, it) {
				live--
				continue
			}
			m.beginChild(c, it, *s.opened)
		case itemAsking, itemPreparing:
			live++
			next = false
		case itemWaiting:
			live++
			if allDone(c.tasks.items[:it.index]) {
				begun = true
				m.planMerge(it, s.ended)
			}
		case itemRunning, itemCapturing, itemVerifying, itemNaming, itemMerging:
			live++
		case itemDone:
		}
	}
	return begun
}

func allDone(items []*item) bool {
	return !slices.ContainsFunc(items, func(it *item) bool { return !it.done() })
}

// beginItem begins what an item begins with.
func (m *Machine) beginItem(c *call, it *item) {
	if !it.isolated {
		m.openChild(c, it)
		return
	}
	it.state = itemPreparing{}
	m.do(PrepareWorkspace{Attempt: m.activity.begun(), Job: it.nextJob(), Call: c.ID, ID: it.id})
}

// openChild has the session of an item's child opened.
func (m *Machine) openChild(c *call, it *item) {
	it.state = itemOpening{}
	m.do(StartChild{Attempt: m.activity.begun(), Call: c.ID, Spec: m.childSpec(c, it)})
}

// abortedTasks is the result of a call that somebody stops, or a budget whose time is over.
func (m *Machine) abortedTasks(c *call) protocol.ToolResult {
	why := m.cutBy()
	if why == "" {
		return m.cutTasks(c, "Aborted")
	}
	m.tellTaskOfBudget(c)
	return m.cutTasks(c, why.Error())
}

// cutTasks is the result of a call that is cut off. What clients have seen begin of
// its children ends here; nobody waits for them.
func (m *Machine) cutTasks(c *call, why string) protocol.ToolResult {
	for _, it := range c.tasks.items {
		if it.done() {
			continue
		}
		m.cutItem(c, it, why)
		m.childOver(it)
	}
	m.endIsolated(c)
	result := m.taskResult(c.tasks)
	result.Content = protocol.TextContent("Task execution was cut off: " + why + "\n\n" + result.Content.Text("\n"))
	return result
}

// childCall is the running call whose item has an id, and the item; nil if the
// attempt is over or the item done.
func (m *Machine) childCall(attempt Attempt, id string) (*run, *call, *item) {
	if _, ok := current[*runningTools](m, attempt); !ok {
		return nil, nil, nil
	}
	var found *item
	r, c := m.findCall(func(c *call) bool {
		if c.tasks == nil || c.state != callRunning {
			return false
		}
		i := slices.IndexFunc(c.tasks.items, func(it *item) bool { return it.id == id && !it.done() })
		if i >= 0 {
			found = c.tasks.items[i]
		}
		return i >= 0
	})
	return r, c, found
}

// apply notes that the session of a child is there, or cannot be.
func (in ChildOpened) apply(m *Machine) {
	r, c, it := m.childCall(in.Attempt, in.ID)
	if it == nil {
		return
	}
	if _, opening := it.state.(itemOpening); !opening {
		return
	}
	if in.Err != "" { // it has neither begun nor ended
		result := it.result()
		result.ExitCode, result.Error = 1, in.Err
		it.state = itemDone{result}
		m.do(CloseChild{Attempt: in.Attempt, ID: it.id})
		m.leave(it, LeaveWorkspace{})
	} else {
		it.state = itemOpening{opened: &in}
		switch {
		case m.words().pisces && in.Model != "": // which names what it runs on
			it.override = []string{in.Model}
		case in.Note != "":
			it.override = nil
		}
	}
	m.goOn(r, c)
}

// beginChild tells clients of a child, and the child what it is to do.
func (m *Machine) beginChild(c *call, it *item, opened ChildOpened) {
	it.state = itemRunning{}
	it.began, it.opened = m.clock(), opened
	m.countChild()
	m.tellLimited(it)
	m.tellMode(it)
	op := protocol.TaskOp{
		Op: protocol.TaskStart, Call: c.ID, ID: it.id, Agent: it.agent.Name, File: opened.File, Workspace: it.work.dir,
		At: m.now, Index: it.index, Source: it.agent.Source, Description: it.want.Description, Node: m.set.Tasks.Node,
	}
	m.children.begun(op, protocol.TaskRunning)
	m.appendOwn(protocol.CustomTask, op)
	m.emitChild(it, protocol.SubagentStart{ID: it.id, Agent: it.agent.Name, Isolated: it.isolated, SessionID: opened.SessionID, ToolCallID: c.ID})
	m.tellReport(c, it)
	m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: protocol.Prompt{Message: it.told}})
}

// apply shows what a child does, not more often than somebody can follow.
func (in ChildProgress) apply(m *Machine) {
	r, c, it := m.childCall(in.Attempt, in.ID)
	if it == nil {
		return
	}
	it.activity, it.heard = in.Activity, m.now
	m.tellReport(c, it)
	m.spendChild(it, in.Usage)
	if at := c.tasks.shown + max(150, 10*int64(len(c.tasks.items))); at > m.clock() {
		m.showAt(c.tasks, at) // what it does now may go on for long
	} else {
		m.showTasks(r, c)
	}
}

// moved says whether there is more to show of a call than that it has begun: an item that
// has begun, or is being prepared, or will never begin.
// For pisces those that begin first have begun together.
func (t *tasks) moved(pisces bool) bool {
	if pisces && t.shown == 0 && slices.ContainsFunc(t.items, (*item).begins) {
		return false
	}
	return slices.ContainsFunc(t.items, func(it *item) bool { return it.isolated || it.opened.ID != "" || it.done() })
}

// piscesBegins is after how many milliseconds pisces shows items at work, which it shows
// first as they were before.
const piscesBegins = 100

// showTasks tells clients how far the items of a call are.
func (m *Machine) showTasks(r *run, c *call) {
	if c.state != callRunning || c.hook != 0 || !c.tasks.moved(m.words().pisces) {
		return
	}
	t := c.tasks
	first := m.words().pisces && t.shown == 0
	t.shown, t.due = m.clock(), 0
	if first {
		m.showAt(t, m.clock()+piscesBegins)
	}
	details := protocol.TaskDetails{Results: []protocol.TaskResult{}}
	done, running := 0, 0
	for _, it := range t.items {
		details.Progress = append(details.Progress, it.progress(m.clock()))
		p := &details.Progress[len(details.Progress)-1]
		if first && p.Status == protocol.TaskRunning {
			p.Status = protocol.TaskPending
		}
		if m.words().pisces {
			m.progressInPisces(it, p)
		}
		switch it.state.(type) {
		case itemDone:
			done++
		case itemQueued:
		default:
			running++
		}
	}
	fitUpdate(details.Progress)
	m.progressed(r, c, protocol.ToolResult{Content: protocol.TextContent(m.words().running(len(t.items), done, running)), Details: m.taskDetails(t, details)})
}

// apply passes on what clients are to hear of a child: what becomes of its own
// children, and its dialogs.
func (in ChildTold) apply(m *Machine) {
	_, c, it := m.childCall(in.Attempt, in.ID)
	if it == nil {
		return
	}
	switch ev := in.Event.(type) {
	case protocol.ExtensionUIRequest:
		m.childAsks(c, it, ev)
		return
	case protocol.DialogResolved:
		m.childDialogOver(it, ev)
		return
	case protocol.ApprovalRequest:
		m.childAsksApproval(it, ev)
		return
	case protocol.ApprovalResolved:
		m.childApprovalOver(it, ev)
		return
	case protocol.BudgetWarning: // of a limit of its agent
		ev.ID = it.id
		m.emit(ev)
		return
	case protocol.BudgetExceeded:
		ev.ID = it.id
		m.emit(ev)
		return
	default:
	}
	if ev := prefixed(it.id+".", in.Event); ev != nil {
		if _, begins := ev.(protocol.SubagentStart); begins {
			it.nested++
		}
		m.emitChild(it, ev)
	}
}

// prefixed is an event about a child's child as the parent tells it; nil for any other.
func prefixed(prefix string, ev protocol.Event) protocol.Event {
	switch ev := ev.(type) {
	case protocol.SubagentStart:
		ev.ID = prefix + ev.ID
		if ev.ParentID = prefix + ev.ParentID; strings.HasSuffix(ev.ParentID, ".") {
			ev.ParentID = prefix[:len(prefix)-1]
		}
		return ev
	case protocol.SubagentVerificationStart:
		ev.ID = prefix + ev.ID
		return ev
	case protocol.SubagentVerificationCommandStart:
		ev.ID = prefix + ev.ID
		return ev
	case protocol.SubagentVerificationCommandEnd:
		ev.ID = prefix + ev.ID
		return ev
	case protocol.SubagentVerificationEnd:
		ev.ID = prefix + ev.ID
		return ev
	case protocol.SubagentEnd:
		ev.ID = prefix + ev.ID
		return ev
	default:
		return nil
	}
}

// emitChild tells clients of a child, or of a child of it, and notes what that opens.
func (m *Machine) emitChild(it *item, ev protocol.Event) {
	it.open.observe(ev)
	m.emit(ev)
}

// apply ends an item: its child has nothing more to do.
func (in ChildSettled) apply(m *Machine) {
	r, c, it := m.childCall(in.Attempt, in.ID)
	if it == nil {
		return
	}
	switch s := it.state.(type) {
	case itemRunning:
	case itemNaming:
		m.spendChild(it, in.Usage)
		m.childOver(it)
		m.named(it, s.settled, in)
		m.goOn(r, c)
		return
	default:
		return
	}
	it.activity, it.heard = in.Activity, m.now
	m.spendChild(it, in.Usage)
	m.childOver(it)
	ended := m.stoppedByBudget(c, it.settled(in))
	if it.isolated {
		m.capture(it, ended, false)
		m.goOn(r, c)
		return
	}
	m.endChild(c, it, ended)
	m.do(CloseChild{Attempt: in.Attempt, ID: it.id})
	m.goOn(r, c)
}

// apply ends an item whose child has done its part when a client stops it: it is
// captured, verified or worded. One that is at work says itself how that ends.
func (in ChildAborted) apply(m *Machine) {
	r, c, it := m.childCall(in.Attempt, in.ID)
	if it == nil {
		return
	}
	switch it.state.(type) {
	case itemCapturing, itemVerifying, itemNaming:
		m.do(CancelIsolated(in))
		m.cutItem(c, it, abortedByClient)
		m.do(CloseChild(in))
		m.goOn(r, c)
	default:
	}
}

const abortedByClient = "Aborted by the client"

// childGone ends an item whose child was lost.
func (m *Machine) childGone(attempt Attempt, id string) {
	r, c, it := m.childCall(attempt, id)
	if it == nil {
		return
	}
	m.childOver(it)
	result := it.result()
	result.ExitCode, result.Error = 1, "Internal error"
	switch s := it.state.(type) {
	case itemNaming: // it has handed over what it did
		m.named(it, s.settled, ChildSettled{Outcome: failed, Activity: it.activity})
		m.goOn(r, c)
	case itemQueued, itemAsking, itemPreparing, itemOpening, itemRunning:
		m.endChild(c, it, result)
		m.leave(it, LeaveWorkspace{Keep: true})
		m.goOn(r, c)
	default: // it has handed over what it did
	}
}

// endChild ends an item, in the log before clients hear of it.
func (m *Machine) endChild(c *call, it *item, result protocol.TaskResult) {
	began := it.opened.ID != ""
	it.state = itemDone{result}
	m.cancelChildDialogs(it)
	if !began {
		return
	}
	op := protocol.TaskOp{Op: protocol.TaskEnd, Call: c.ID, ID: it.id, Agent: it.agent.Name, File: it.opened.File, Result: shortened(result), At: m.now}
	m.children.ended(op)
	m.children.by[strings.ToLower(it.id)].spent = it.spent
	m.appendOwn(protocol.CustomTask, op)
	m.tellReport(c, it)
	verified := protocol.VerifySkipped
	if result.AbortReason == abortedByBudget {
		verified = abortedByBudget
	}
	for _, ev := range it.open.closing(result.Error, verified) {
		switch end := ev.(type) {
		case protocol.SubagentEnd:
			if end.ID == it.id {
				end.ExitCode, end.Aborted, end.Error, end.Verification = result.ExitCode, result.Aborted, result.Error, result.Verification
				ev = end
			}
		case protocol.SubagentVerificationCommandEnd:
			if end.ID == it.id {
				end.DurationMs = m.clock() - it.work.since
				ev = end
			}
		default: // of a child of it
		}
		m.emitChild(it, ev)
	}
}

// dropTasks forgets the children of a call: clients are told otherwise that they are
// over.
func (m *Machine) dropTasks(c *call) {
	if c.tasks == nil {
		return
	}
	for _, it := range c.tasks.items {
		m.cancelChildDialogs(it)
		m.childOver(it)
	}
}

// ChildUsage is what the children cost of which the log does not say it yet, as far as that
// is known: those that are at work, and those of a run that ended when the log could not be
// written.
func (m *Machine) ChildUsage() (u protocol.Usage, count int) {
	for _, op := range m.unfinished {
		if op.Left != nil {
			u, count = u.Add(*op.Left), count+1
		}
	}
	if a, ok := m.activity.(*runningTools); ok {
		for _, c := range a.run.calls {
			if c.tasks == nil {
				continue
			}
			for _, it := range c.tasks.items {
				switch it.state.(type) {
				case itemRunning, itemCapturing, itemVerifying, itemNaming: // the log does not say yet what they have cost
					u, count = u.Add(it.usage), count+1+it.nested
				default:
				}
			}
		}
	}
	return u, count
}

// unfinishedTasks is the result of a call of the task tool that a log ends with, from
// what it says of its children. Those that were at work are recorded as over.
func (m *Machine) unfinishedTasks(call string) (result protocol.ToolResult, begun bool) {
	const why = "interrupted"
	details := protocol.TaskDetails{Results: []protocol.TaskResult{}}
	var list []*protocol.TaskResult
	ended := map[string]bool{}
	for _, op := range m.unfinished {
		if op.Call != call {
			continue
		}
		switch op.Op {
		case protocol.TaskStart:
			r := protocol.TaskResult{Index: len(list), ID: op.ID, Agent: op.Agent, ExitCode: 1, Aborted: true, AbortReason: why, Error: why, SessionFile: op.File, Workspace: op.Workspace, Usage: new(protocol.Usage)}
			list = append(list, &r)
		case protocol.TaskEnd:
			i := slices.IndexFunc(list, func(r *protocol.TaskResult) bool { return r.ID == op.ID })
			if i >= 0 && op.Result != nil {
				list[i], ended[op.ID] = op.Result, true
			}
		case protocol.TaskMerge, protocol.TaskMerged:
			i := slices.IndexFunc(list, func(r *protocol.TaskResult) bool { return r.ID == op.ID })
			if i >= 0 {
				m.recoverMerge(op, list[i])
			}
		}
	}
	for _, r := range list {
		if !ended[r.ID] {
			if left := m.leftByChild(r.ID); left != nil {
				r.Usage = left
			}
			op := protocol.TaskOp{Op: protocol.TaskEnd, Call: call, ID: r.ID, Agent: r.Agent, File: r.SessionFile, Result: r, At: m.now}
			m.children.ended(op)
			m.appendOwn(protocol.CustomTask, op)
		}
		details.Results = append(details.Results, *r)
	}
	text := "This call was running when the run was interrupted.\n" + string(taskWords{}.items(details.Results, 0))
	result = protocol.ToolResult{Content: protocol.TextContent(text), Details: m.taskDetails(nil, details)}
	return result, len(list) > 0
}

// leftByChild is what a child has cost that was cut off, where its file could be read.
func (m *Machine) leftByChild(id string) *protocol.Usage {
	for _, op := range m.unfinished {
		if op.ID == id && op.Op == protocol.TaskStart {
			return op.Left
		}
	}
	return nil
}

// loadTasks notes the ids of children that there have been, and what the log says of
// those whose calls have no result.
func (m *Machine) loadTasks(ops []protocol.TaskOp, open []protocol.OpenCall) {
	for _, op := range ops {
		switch op.Op {
		case protocol.TaskStart: // nothing goes on by itself that has no end
			m.children.begun(op, protocol.TaskAborted)
		case protocol.TaskEnd:
			m.children.ended(op)
		}
		if slices.ContainsFunc(open, func(o protocol.OpenCall) bool { return o.Call.ID == op.Call }) {
			m.unfinished = append(m.unfinished, op)
		}
	}
}

// resumables says why items of a call cannot go on with earlier children, "" for no reason:
// with one child goes on one item.
func (m *Machine) resumables() func(taskItem) string {
	by := map[string]string{} // who goes on with a file
	return func(want taskItem) string {
		if why := m.resumable(want); why != "" {
			return why
		}
		op, _ := m.children.named(want.Resume)
		if other := by[op.File]; other != "" {
			return "Task " + want.Resume + " cannot be resumed by " + want.ID + ": " + other + " goes on with it."
		}
		by[op.File] = want.ID
		return ""
	}
}

// resumable says why an item cannot go on with an earlier child, "" for no reason.
func (m *Machine) resumable(want taskItem) string {
	op, known := m.children.named(want.Resume)
	agent, there := m.set.Tasks.Agents.Named(op.Agent)
	switch {
	case !known:
		return "No earlier task " + want.Resume + " to resume."
	case op.File == "":
		return "Task " + want.Resume + " cannot be resumed: its session was kept in memory."
	case want.Agent != "" && !strings.EqualFold(want.Agent, op.Agent):
		return "Task " + want.Resume + " cannot be resumed as " + want.Agent + ": its agent is " + op.Agent + "."
	case slices.Contains(m.set.Tasks.Disabled, agent.Name):
		return m.words().disabledAgent(agent.Name, m.set.Tasks.Agents, m.set.Tasks.Disabled)
	case !there:
		return "Task " + want.Resume + " cannot be resumed: its agent " + op.Agent + " is gone."
	case m.atWork(m.worksIn(op.File)):
		return "Task " + want.Resume + " cannot be resumed: it is at work."
	}
	return ""
}

// atWork says whether there is an item that has not ended.
func (m *Machine) atWork(which func(*item) bool) bool {
	_, c := m.findCall(func(c *call) bool {
		return c.tasks != nil && slices.ContainsFunc(c.tasks.items, func(it *item) bool { return !it.done() && which(it) })
	})
	return c != nil
}

// worksIn says whether the session of an item is in a file, which it began or goes on with.
func (m *Machine) worksIn(file string) func(*item) bool {
	return func(it *item) bool {
		earlier, _ := m.children.named(it.want.Resume)
		return it.opened.File == file || earlier.File == file
	}
}
