package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
)

// tree is a session with its tasks, and theirs: machines that tell each other what their
// shells would. What is said between two of them arrives in order, some time.
type tree struct {
	t     *rapid.T
	root  *node
	nodes []*node // the oldest first
	calls int
	most  int64 // tokens of an answer
	fine  bool  // nothing fails
	exact bool  // everything that was used up has been told
	spent protocol.Usage

	tools int

	perByte  float64 // tokens that a provider counts for each byte of a prompt; 0 to count no prompts
	overhead int64   // tokens of a prompt beside its messages
}

// text is as long as a tool result, or what a task is to do, may be.
func (tr *tree) text() string {
	if tr.perByte == 0 {
		return "x"
	}
	return strings.Repeat("0f", rapid.IntRange(1, 2000).Draw(tr.t, "half of the bytes"))
}

type node struct {
	*world
	tree   *tree
	parent *node
	id     string
	opened bool // the parent knows
	gone   bool
	up     []Input // to the parent
	down   []Input // from it
}

// TestTreeOfBudgets lets tasks of tasks draw on one budget, with aborts, crashes, children
// that are lost and limits that change: T8, T9 and T11 for the tree.
func TestTreeOfBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := taskSettings(defaults())
		set.AutoRetry, set.AutoCompaction = false, false
		set.Tasks.Agents = append(set.Tasks.Agents, protocol.Agent{Name: "lead", Source: protocol.AgentBundled, Spawns: []string{protocol.SpawnsAll}})
		set.Rules.ParallelTools = rapid.Bool().Draw(t, "parallel")
		set.Tasks.MaxConcurrency = rapid.IntRange(0, 3).Draw(t, "concurrency")
		set.Budget.WarnAtRatio = 0.8
		constant := rapid.Bool().Draw(t, "constant limits")
		tr := &tree{t: t, exact: true, most: modelA.MaxTokens, fine: rapid.Bool().Draw(t, "nothing fails")}
		tr.perByte = rapid.SampledFrom([]float64{0, 0.25, 0.4, 0.7, 1}).Draw(t, "tokens per byte")
		tr.overhead = rapid.Int64Range(0, 3000).Draw(t, "overhead")
		if constant || rapid.Bool().Draw(t, "limited at first") {
			set.Budget.Limits = tr.drawLimits()
		}
		tr.root = tr.add(nil, "", set)
		tr.root.watch = func(was protocol.BudgetReason, effects []Effect) { checkGrants(t, was, effects) }
		for range rapid.IntRange(30, 200).Draw(t, "steps") {
			tr.step(constant)
			tr.check()
		}
		tr.quiet()
		b := tr.root.m.budget
		for _, n := range tr.nodes {
			require.True(t, n.gone || n.m.AtRest(), "%s does not come to rest: %T %+v%s", n.id, n.m.activity, n.m.awaits, tr.describe())
		}
		if b == nil {
			return
		}
		require.Empty(t, b.held, "T9: reserved for nobody")
		require.Empty(t, b.queue, "T9: waited for by nobody")
		if !constant {
			return
		}
		for i, limit := range b.pool.limits {
			if over := b.used[i] - limit; i != wallTime && !counted(i) {
				require.LessOrEqual(t, over, float64(tr.most), "more than one answer too much of %s", protocol.BudgetReasons[i])
			} else if counted(i) && tr.exact { // calls that an abort has skipped count as well
				require.LessOrEqual(t, over, 0.0, "one too many of %s", protocol.BudgetReasons[i])
			}
		}
		if tr.exact {
			require.InDelta(t, tr.spent.TotalTokens, b.used[3], 0.5, "T7: tokens")
			require.InDelta(t, tr.tools, b.used[toolCalls], 0.5, "T7: calls")
		}
	})
}

func (tr *tree) drawLimits() (l protocol.BudgetLimits) {
	draw := func(name string, values ...int64) *int64 {
		if n := rapid.SampledFrom(values).Draw(tr.t, name); n >= 0 {
			return &n
		}
		return nil
	}
	l.MaxOutputTokens = draw("output", -1, 3000, 9000, 9000, 30_000)
	l.MaxToolCalls = draw("calls", -1, 2, 5, 20)
	l.MaxSubagents = draw("tasks", -1, 1, 4)
	l.MaxTotalTokens = draw("total", 9000, 20_000, 60_000, 1_000_000)
	l.MaxInputTokens = draw("input", -1, 9000, 30_000)
	return l
}

// add makes a session, as the task of another or as the root.
func (tr *tree) add(parent *node, id string, set Settings) *node {
	n := &node{tree: tr, parent: parent, id: id}
	n.world = &world{set: set, answers: map[uint64]int{}, failAt: -1, dieAt: -1, done: n.hear}
	n.m = New()
	tr.nodes = append(tr.nodes, n)
	n.step(Restored{Session: n.load(), Settings: set})
	return n
}

// hear does what the shell of a session does about an effect.
func (n *node) hear(e Effect) {
	tell := func(id string, in Input) {
		if child := n.child(id); child != nil {
			child.down = append(child.down, in)
		}
	}
	switch e := e.(type) {
	case AskGrant:
		n.up = append(n.up, GrantAsked{ID: n.id, Ask: e})
	case ReportSpent:
		n.up = append(n.up, ChildSpent{ID: n.id, Report: e})
	case AnswerGrant:
		tell(e.ID, Granted{e.Grant})
	case LimitChild:
		tell(e.ID, Pooled{Draws: e.Draws})
	case StartChild:
		set := n.set
		set.Budget.Limits = n.tree.root.set.Budget.Limits // files say the same to all
		set.Child = &Child{SubagentEntry: e.Spec.Entry, Self: e.Spec.Agent, Draws: e.Spec.Draws, Counts: e.Spec.Counts}
		set.Tools = e.Spec.Entry.Tools
		n.tree.add(n, e.Spec.Entry.ID, set)
	case TellChild:
		if child := n.child(e.ID); child != nil {
			if p, is := e.Cmd.(protocol.Prompt); is {
				child.down = append(child.down, Command{Name: "prompt", Cmd: p})
			}
		}
	case CloseChild:
		if child := n.child(e.ID); child != nil {
			child.gone = true
		}
	case Cancel:
		for _, child := range n.tree.nodes { // their minders are stopped with the run
			if child.parent == n && n.m.activity.begun() != e.Attempt {
				n.tree.lose(child)
			}
		}
	case Emit:
		switch ev := e.Event.(type) {
		case protocol.ToolExecutionStart:
			n.tree.tools++
		case protocol.ToolExecutionEnd:
			if strings.HasPrefix(ev.Result.Content.Text(""), "Budget exceeded") { // it has not run
				n.tree.tools--
			}
		case protocol.AgentSettled:
			n.up = append(n.up, ChildSettled{ID: n.id, Outcome: ev.Outcome, Text: "done"})
		}
	}
}

// child is a task that has not ended.
func (n *node) child(id string) *node {
	for _, c := range slices.Backward(n.tree.nodes) {
		if c.parent == n && c.id == id && !c.gone {
			return c
		}
	}
	return nil
}

// lose ends a session and those below it, from one moment to the next.
func (tr *tree) lose(n *node) {
	if n.gone {
		return
	}
	n.gone = true
	tr.exact = false
	for _, child := range tr.nodes {
		if child.parent == n {
			tr.lose(child)
		}
	}
}

// alive are the sessions that are there.
func (tr *tree) alive() (list []*node) {
	for _, n := range tr.nodes {
		if !n.gone {
			list = append(list, n)
		}
	}
	return list
}

func (tr *tree) step(constant bool) {
	list := tr.alive()
	n := list[rapid.IntRange(0, len(list)-1).Draw(tr.t, "who")]
	what := rapid.IntRange(0, 30).Draw(tr.t, "what")
	if tr.fine && what < 3 {
		what = 9
	}
	switch what {
	case 0:
		tr.exact = false
		n.send(protocol.Abort{})
	case 1:
		tr.exact = false
		for _, child := range list {
			if child.parent == n {
				tr.lose(child)
			}
		}
		n.crash()
	case 2:
		if n.parent != nil && n.opened {
			tr.lose(n)
			n.parent.step(childGone(n.parent.m.activity.begun(), n.id))
		}
	case 3:
		if !constant {
			raw, err := json.Marshal(tr.drawLimits())
			require.NoError(tr.t, err)
			if rapid.IntRange(0, 2).Draw(tr.t, "none") == 0 {
				raw = []byte(`{"maxOutputTokens":null,"maxToolCalls":null,"maxSubagents":null,"maxTotalTokens":null}`)
			}
			tr.root.send(protocol.SetBudget{Limits: raw})
		}
	default:
		tr.move(n)
	}
}

// move does the next thing that a session waits for, and says whether there was one.
func (tr *tree) move(n *node) bool {
	switch {
	case len(n.up) > 0 && n.parent != nil && n.opened:
		in := n.up[0]
		n.up = n.up[1:]
		n.parent.step(addressed(in, n.parent.m.activity.begun()))
		return true
	case len(n.down) > 0:
		in := n.down[0]
		n.down = n.down[1:]
		if cmd, is := in.(Command); is {
			n.send(cmd.Cmd)
		} else {
			n.step(in)
		}
		return true
	case n.parent != nil && !n.opened:
		n.opened = true
		n.parent.step(ChildOpened{Attempt: n.parent.m.activity.begun(), ID: n.id, SessionID: "s9", File: "/sessions/" + n.id + ".jsonl"})
		return true
	case n.m.awaits != nil:
		return false
	}
	switch a := n.m.activity.(type) {
	case idle:
		if n.parent == nil && n.m.overBudget() == "" && len(tr.nodes) < 25 && rapid.IntRange(0, 3).Draw(tr.t, "again") > 0 {
			n.send(protocol.Prompt{Message: "go"})
			return true
		}
		return false
	case *streaming:
		tr.answer(n, a)
		return true
	case *runningTools:
		return tr.tool(n, a)
	default:
		tr.t.Fatalf("%s: %T", n.id, a)
	}
	return false
}

// addressed is what a minder makes of what its child says.
func addressed(in Input, attempt Attempt) Input {
	switch in := in.(type) {
	case GrantAsked:
		in.Attempt = attempt
		return in
	case ChildSpent:
		in.Attempt = attempt
		return in
	case ChildSettled:
		in.Attempt = attempt
		return in
	}
	panic("nobody says this")
}

// answer ends a request to the model.
func (tr *tree) answer(n *node, a *streaming) {
	var parts []protocol.Part
	stop := protocol.StopStop
	tools := []string{"read"}
	if slices.Contains(n.m.tools, TaskTool) && len(tr.nodes) < 25 {
		tools = append(tools, TaskTool, TaskTool)
	}
	for i := range rapid.IntRange(0, 3).Draw(tr.t, "calls") {
		tr.calls++
		stop = protocol.StopToolUse
		parts = append(parts, protocol.PartBlockStart{Index: i, Kind: protocol.BlockToolCall, ID: fmt.Sprint("call", tr.calls), Name: rapid.SampledFrom(tools).Draw(tr.t, "tool")},
			protocol.PartDelta{Index: i, Delta: "{}"}, protocol.PartBlockEnd{Index: i})
	}
	u := protocol.Usage{Output: rapid.Int64Range(1, modelA.MaxTokens).Draw(tr.t, "output")}
	if tr.perByte > 0 {
		size := n.m.size
		if u.Input = size.Reported + int64(tr.perByte*4*float64(size.Tokens-size.Reported)); size.Reported == 0 {
			u.Input += tr.overhead
		}
	}
	u.TotalTokens = u.Input + u.Output
	tr.most = max(tr.most, u.TotalTokens)
	tr.spent = tr.spent.Add(u)
	n.step(StreamParts{a.attempt, append(parts, protocol.PartUsage{Usage: u})})
	n.step(StreamEnd{Attempt: a.attempt, Done: protocol.PartDone{StopReason: stop}})
}

// tool moves a call of an answer.
func (tr *tree) tool(n *node, a *runningTools) bool {
	for _, c := range a.run.calls {
		switch {
		case c.state != callRunning:
		case c.Name != TaskTool:
			n.step(ToolDone{Attempt: a.attempt, CallID: c.ID, Result: protocol.ToolResult{Content: protocol.TextContent(tr.text())}})
			return true
		case c.tasks == nil:
			var items []string
			for i := range rapid.IntRange(1, 4).Draw(tr.t, "items") {
				items = append(items, fmt.Sprintf(`{"id":"%s%d","description":"d","assignment":"%s"}`, c.ID, i, tr.text()))
			}
			agent := []string{"lead", "task"}[n.m.depth()] // none begins another of itself
			n.step(TaskReady{a.attempt, c.ID, json.RawMessage(`{"agent":"` + agent + `","tasks":[` + strings.Join(items, ",") + `]}`)})
			return true
		}
	}
	return false
}

// quiet goes on until nobody has anything to do.
func (tr *tree) quiet() {
	for moved := true; moved; {
		moved = false
		for _, n := range tr.alive() {
			if n.parent == nil && n.m.AtRest() {
				continue
			}
			moved = !n.gone && tr.move(n) || moved
			tr.check()
		}
	}
}

// TestNoMoreTasksEndsNone: that there are to be no more tasks ends none of those that have
// begun; another limit does.
func TestNoMoreTasksEndsNone(t *testing.T) {
	set := taskSettings(defaults())
	var err error
	set.Budget.Limits, err = protocol.ParseBudgetLimits(set.Budget.Limits, []byte(`{"maxSubagents":1,"maxInputTokens":100}`))
	require.NoError(t, err)
	w := newWorld(set)
	w.send(protocol.Prompt{Message: "go"})
	attempt := w.m.attempts
	w.step(StreamParts{attempt, []protocol.Part{
		protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "c1", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
	}})
	w.step(StreamEnd{Attempt: attempt, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	w.step(TaskReady{attempt, "c1", json.RawMessage(`{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"do"},{"id":"B","description":"b","assignment":"do"}]}`)})
	w.step(ChildOpened{Attempt: attempt, ID: "A", SessionID: "s-A", Model: "acme/m1"})
	require.Equal(t, protocol.BudgetSubagents, w.m.overBudget())
	ask := func(n int) Grant {
		w.step(GrantAsked{Attempt: attempt, ID: "A", Ask: AskGrant{Ticket: Ticket{N: n}, Need: protocol.BudgetUsed{InputTokens: 1, TotalTokens: 1}}})
		return find[AnswerGrant](t, w.last).Grant
	}
	require.Empty(t, ask(1).Denied)
	w.step(ChildProgress{Attempt: attempt, ID: "A", Usage: protocol.Usage{Input: 100, TotalTokens: 100}})
	require.Contains(t, ask(2).Denied, "input_tokens")
}

// TestTasksGoOnWithoutLimits: when the limits of a tree are taken away, a task that has waited
// to be let count begins, and those at work are told that they need not ask any more.
func TestTasksGoOnWithoutLimits(t *testing.T) {
	set := taskSettings(defaults())
	set.Tasks.MaxDepth = 3
	set.Child = &Child{SubagentEntry: protocol.SubagentEntry{Depth: 1}, Self: protocol.Agent{Name: "lead", Spawns: []string{protocol.SpawnsAll}}, Draws: DrawsAbove}
	w := newWorld(set)
	granted := func() { w.step(Granted{Grant{Ticket: find[AskGrant](t, w.last).Ticket, N: 1}}) }
	w.send(protocol.Prompt{Message: "go"})
	granted()
	attempt := w.m.attempts
	w.step(StreamParts{attempt, []protocol.Part{
		protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "c1", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
	}})
	w.step(StreamEnd{Attempt: attempt, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	granted()
	w.step(TaskReady{attempt, "c1", json.RawMessage(`{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"do"},{"id":"B","description":"b","assignment":"do"}]}`)})
	granted()
	w.step(ChildOpened{Attempt: attempt, ID: "A", SessionID: "s-A", Model: "acme/m1"})
	w.step(Pooled{Draws: DrawsAbove})
	require.Empty(t, all[StartChild](w.last), "nothing has changed")
	w.step(Pooled{Draws: DrawsFreely})
	begun := find[StartChild](t, w.last)
	require.Equal(t, "B", begun.Spec.Entry.ID)
	require.Equal(t, DrawsFreely, begun.Spec.Draws)
	require.Equal(t, []LimitChild{{Attempt: attempt, ID: "A", Draws: DrawsFreely}}, all[LimitChild](w.last))
}

// TestDialogIsOverInAChild: a dialog that a client has answered at the child is over at its
// parent, too, as it was there; one that was answered here is over once.
func TestDialogIsOverInAChild(t *testing.T) {
	w := newWorld(taskSettings(defaults()))
	w.send(protocol.Prompt{Message: "go"})
	attempt := w.m.attempts
	w.step(StreamParts{attempt, []protocol.Part{
		protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "c1", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
	}})
	w.step(StreamEnd{Attempt: attempt, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	w.step(TaskReady{attempt, "c1", json.RawMessage(`{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"do"}]}`)})
	w.step(ChildOpened{Attempt: attempt, ID: "A", SessionID: "s-A", Model: "acme/m1"})
	tell := func(ev protocol.Event) { w.step(ChildTold{Attempt: attempt, ID: "A", Event: ev}) }
	over := protocol.DialogResolved{ID: "ui_1", Outcome: protocol.DialogAnswered, By: &protocol.ClientRef{Name: "Bob"}}
	tell(protocol.ExtensionUIRequest{ID: "ui_1", Method: "confirm", Title: new("Sure?")})
	ours := find[AskUI](t, w.last).Request.ID
	tell(over)
	require.Equal(t, []CancelUI{{ID: ours, How: protocol.DialogOver{Outcome: "answered", By: over.By}}}, all[CancelUI](w.last))

	tell(protocol.ExtensionUIRequest{ID: "ui_2", Method: "confirm", Title: new("Sure?")})
	w.step(UIAnswered{ID: find[AskUI](t, w.last).Request.ID, Confirmed: true})
	find[TellChild](t, w.last)
	over.ID = "ui_2"
	tell(over)
	require.Empty(t, all[CancelUI](w.last))
}

// TestLateWorkspace: a workspace that comes when nobody wants it any more is left.
func TestLateWorkspace(t *testing.T) {
	w := newWorld(taskSettings(defaults()))
	w.step(WorkspaceReady{Attempt: 7, ID: "A", Dir: "/copies/A"})
	require.Equal(t, []LeaveWorkspace{{Dir: "/copies/A"}}, all[LeaveWorkspace](w.last))
	w.step(WorkspaceReady{Attempt: 7, ID: "A", Err: "no room"})
	require.Empty(t, all[LeaveWorkspace](w.last))
}

// checkGrants is T11: nothing is granted behind a budget that is exceeded, but to tasks that
// have begun where there are only to be no more of them.
func checkGrants(t *rapid.T, was protocol.BudgetReason, effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Append:
			if c, ok := e.Entry.(protocol.Custom); ok && string(c.Data) == `{"op":"cleared"}` {
				was = ""
			}
		case Emit:
			if ev, ok := e.Event.(protocol.BudgetExceeded); ok && ev.Scope == budgetOfSession {
				was = ev.Snapshot.Reason
			}
		case AnswerGrant:
			if e.Grant.Ticket.N > 0 { // the calls of the answer in hand may run
				require.True(t, was == "" || was == protocol.BudgetSubagents || e.Grant.Denied != "", "T11: granted behind %s", was)
			}
		}
	}
}

// check looks at what is reserved: it belongs to requests in flight, or to those of which
// the root has not been told yet that they are over.
func (tr *tree) check() {
	b := tr.root.m.budget
	if b == nil {
		return
	}
	for ticket := range b.held {
		if ticket.Child == "" {
			require.Equal(tr.t, int(tr.root.m.activity.begun()), ticket.N, "T9")
			continue
		}
		n, told := tr.root, true
		for id := range strings.SplitSeq(ticket.Child, "/") {
			child := n.child(id)
			if child == nil {
				require.False(tr.t, told, "T9: reserved for %s, which is gone", ticket.Child)
				break
			}
			n, told = child, told && len(child.up) == 0
		}
	}
}

// describe is what everybody said, and waits for.
func (tr *tree) describe() string {
	var b strings.Builder
	for _, n := range tr.nodes {
		fmt.Fprintf(&b, "\n%q of depth %d, gone %t: %T, awaits %+v, to say %v, to hear %v\n", n.id, n.m.depth(), n.gone, n.m.activity, n.m.awaits, n.up, n.down)
		for _, ev := range n.wire {
			b.WriteString("   " + DescribeEvent(ev) + "\n")
		}
	}
	return b.String()
}

// TestSummariesAreGranted: what a task summarises is asked for as well.
func TestSummariesAreGranted(t *testing.T) {
	begin := func(cmd protocol.Command) (*world, Ticket) {
		set := taskSettings(defaults())
		set.Child = &Child{Draws: DrawsAbove}
		w := newWorld(set)
		w.send(protocol.Prompt{Message: "go"})
		ask := find[AskGrant](t, w.last)
		require.Empty(t, all[StartStream](w.last))
		require.Equal(t, []string{"budget"}, w.m.State().WaitingFor)
		w.step(Granted{Grant{Ticket: ask.Ticket}})
		find[StartStream](t, w.last)
		w.step(StreamParts{w.m.attempts, []protocol.Part{
			protocol.PartBlockStart{Kind: protocol.BlockText}, protocol.PartDelta{Delta: "hello"}, protocol.PartBlockEnd{},
		}})
		w.step(StreamEnd{Attempt: w.m.attempts, Done: protocol.PartDone{StopReason: protocol.StopStop}})
		w.send(cmd)
		if len(w.loads) > 0 {
			w.step(SessionLoaded{Seq: w.loads[0].Seq, To: w.load()})
		}
		require.Empty(t, all[Summarise](w.last))
		return w, find[AskGrant](t, w.last).Ticket
	}
	w, ticket := begin(protocol.Compact{})
	w.step(Granted{Grant{Ticket: ticket}})
	find[Summarise](t, w.last)

	w, ticket = begin(protocol.Compact{})
	w.step(Granted{Grant{Ticket: ticket, Denied: "Budget exceeded (cost)"}})
	require.Empty(t, all[Summarise](w.last))
	reply := find[Reply](t, w.last)
	require.Equal(t, protocol.CodeBudgetExceeded, reply.Err.Code)
	require.True(t, w.m.AtRest())

	w, _ = begin(protocol.Compact{})
	w.send(protocol.Abort{})
	report := find[ReportSpent](t, w.last)
	require.Positive(t, report.Used.OutputTokens)
	require.True(t, w.m.AtRest())
}

func all[E Effect](effects []Effect) (list []E) {
	for _, e := range effects {
		if e, is := e.(E); is {
			list = append(list, e)
		}
	}
	return list
}

func find[E Effect](t *testing.T, effects []Effect) (one E) {
	t.Helper()
	list := all[E](effects)
	require.NotEmpty(t, list, "no %T in %v", one, effects)
	return list[0]
}
