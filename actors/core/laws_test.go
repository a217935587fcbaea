package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/actors/core/logtwin"
	"troupe/protocol"
)

// The laws of doc.go over random histories. A drawn action is a command of the
// client, the next step of something the machine started, or something that
// comes too late.

type history struct {
	*world
	t        *rapid.T
	twin     *twin // nil when the history has faults
	text     int
	late     []Input // inputs of runs that are over
	calls    int
	hosted   bool             // there are host tools, todos and rules
	extended bool             // there are extensions
	tasked   bool             // there are children
	copies   *copies          // in which they work; nil if they do not
	unwanted []WorkspaceReady // of runs that are over
	crashed  bool             // a machine was lost, and what it knew of workspaces with it
}

func (h *history) say() string {
	h.text++
	return fmt.Sprintf("m%d", h.text)
}

func (h *history) pick(n int, label string) int { return rapid.IntRange(0, n-1).Draw(h.t, label) }

func drawSettings(t *rapid.T) Settings {
	set := defaults()
	dialect := rapid.SampledFrom([]protocol.Dialect{"union", "union", "s0", "pi1"}).Draw(t, "dialect")
	_, set.Rules, _ = dialect.Open()
	if rapid.Bool().Draw(t, "confirm") {
		set.Confirm = []string{"bash"}
	}
	set.Retained = rapid.Bool().Draw(t, "retained")
	set.Ephemeral = rapid.IntRange(0, 4).Draw(t, "ephemeral") == 0
	return set
}

func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { playHistory(t, false) })
}

// TestLawsUnderFaults adds appends that fail and actors that crash.
func TestLawsUnderFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { playHistory(t, true) })
}

// TestLawsOfHosts adds host tools, todos and stream rules, which the twin does
// not know, to faults.
func TestLawsOfHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		set.FailsOver = !set.Ephemeral && rapid.Bool().Draw(t, "fails over")
		set.MaxReminders = 2
		set.StreamRules = RuleSettings{Mode: rapid.SampledFrom([]string{"always", "prose-only", "never"}).Draw(t, "mode"), Gap: rapid.IntRange(0, 3).Draw(t, "gap"), Keep: rapid.Bool().Draw(t, "keep"), Rules: []Rule{
			{StreamRule: protocol.StreamRule{Name: "threes", Content: "No threes."}, Trigger: regexp.MustCompile("3")},
		}}
		h := &history{world: newWorld(set), t: t, hosted: true}
		h.send(protocol.SetHostTools{Tools: []protocol.HostTool{{Name: "open_file"}}})
		h.play(true)
	})
}

// TestLawsOfExtensions adds extensions that listen, send messages and register
// tools, which the twin does not know either, to faults.
func TestLawsOfExtensions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		set.Rules.ParallelTools = rapid.Bool().Draw(t, "parallel")
		set.Extensions.Listens = HookSet(rapid.IntRange(0, int(HookBeforeSettle)*2-1).Draw(t, "listens"))
		if rapid.Bool().Draw(t, "prepares") {
			set.Extensions.Prepares = []string{"read"}
		}
		set.KnownTools[1].Sequential = rapid.Bool().Draw(t, "sequential")
		h := &history{world: newWorld(set), t: t, extended: true}
		h.allowed = map[string]bool{}
		h.play(true)
	})
}

// TestLawsOfPermissions adds permission rules that allow, refuse, ask or fail, to faults.
func TestLawsOfPermissions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		set.Confirm = nil
		set.Permissions = rapid.Bool().Draw(t, "rules")
		set.PermissionMode = protocol.PermitAsk
		set.FailsOver = !set.Ephemeral && rapid.Bool().Draw(t, "fails over")
		set.Rules.ParallelTools = rapid.Bool().Draw(t, "parallel")
		h := &history{world: newWorld(set), t: t}
		h.permitted, h.approvals = map[string]bool{}, map[string]protocol.ApprovalRequest{}
		h.play(true)
	})
}

// answerJudge lets the permission rules answer about one of the calls.
func (h *history) answerJudge() {
	i := h.pick(len(h.judges), "judge")
	j := h.judges[i]
	h.judges = slices.Delete(h.judges, i, i+1)
	switch h.pick(4, "verdict") {
	case 0:
		h.permitted[j.Call.ID] = true
		h.step(HookDone{j.ID, Judged{}})
	case 1:
		h.step(HookDone{j.ID, Judged{Refused: "no"}})
	case 2:
		h.step(HookDone{j.ID, nil})
	default:
		h.step(HookDone{j.ID, Judged{Ask: &protocol.ApprovalRequest{Title: "Run it", Options: []protocol.ApprovalOption{
			{ID: "once", Kind: protocol.AllowOnce, Label: "Once"}, {ID: "session", Kind: protocol.AllowAlways, Label: "Always", Rules: []string{"bash(x)"}},
		}}}})
	}
}

// answerApproval answers the question about a call, in one of the ways there are.
func (h *history) answerApproval(id string, about protocol.ApprovalRequest) {
	o := about.Options[h.pick(len(about.Options), "option")]
	way := h.pick(3, "way")
	if way > 0 && o.Kind != protocol.RejectOnce {
		h.permitted[about.ToolCallID] = true
	}
	switch way {
	case 0:
		h.step(UIAnswered{ID: id, Cancelled: true})
	case 1:
		h.step(UIAnswered{ID: id, Value: new(o.Text())})
	default:
		h.send(protocol.ApprovalResponse{ApprovalID: id, OptionID: "nothing"})
		h.send(protocol.ApprovalResponse{ApprovalID: id, OptionID: o.ID})
	}
}

func playHistory(t *rapid.T, faults bool) {
	set := drawSettings(t)
	h := &history{world: newWorld(set), t: t}
	if !faults {
		h.twin = newTwin(set)
	}
	h.play(faults)
}

func (h *history) play(faults bool) {
	t := h.t
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		if faults && h.pick(12, "fault") == 0 {
			h.fault()
			continue
		}
		h.action()
		h.check()
	}
	h.finish()
	h.check()
	for i, seq := range h.owed {
		require.Equal(t, 1, h.answers[seq], "law 1: answers to command %d (%d of %d)", seq, i, len(h.owed))
	}
	require.True(t, h.spans.Idle(), "law 2: everything begun is ended: %+v", h.spans)
	checkNesting(t, h.wire)
	checkLogOrder(t, h.log)
}

func (h *history) fault() {
	h.crashed = true
	switch h.pick(4, "kind") {
	case 0:
		h.crash()
	case 3:
		h.restarts()
	case 1:
		h.failAt = h.pick(3, "append")
		h.action()
		h.failAt = -1
	case 2: // in the middle of a step, perhaps of one that fails, and the disk is still full afterwards
		h.failAt = h.pick(4, "append") - 1
		h.dieAt = h.pick(12, "effect")
		h.action()
		h.failAt, h.dieAt = -1, -1
		if h.dead {
			h.failAt = h.pick(4, "append") - 1
			h.crash()
			h.failAt = -1
		}
	}
	h.check()
}

// restarts is the end of the process. Where clients were being asked about calls, and none
// had begun, they are asked again under the same ids, and nothing runs before they answer.
func (h *history) restarts() {
	if h.m.set.Ephemeral || h.tasked || h.m.swap != nil {
		return
	}
	if h.pick(2, "told") == 0 {
		h.toldToEnd()
	}
	open := h.load()
	h.late = nil // the old process has told nobody
	h.restart()
	asked := h.set.Retained && onlyAsked(open.Resume)
	require.Equal(h.t, asked, h.m.AsksAgain())
	if h.pick(4, "first") == 0 {
		h.action()
	}
	again := h.m.AsksAgain() && h.m.isIdle() && len(h.m.openCalls) > 0
	h.step(AskAgain{})
	require.False(h.t, h.m.AsksAgain())
	require.False(h.t, again && h.m.isIdle() && h.m.overBudget() == "")
	if again && h.m.overBudget() == "" && h.judges == nil && len(h.hooks) == 0 && len(h.set.Confirm) > 0 {
		for _, c := range open.OpenCalls {
			if c.Asked != "" && slices.Contains(h.set.Confirm, c.Call.Name) && slices.Contains(h.m.tools, c.Call.Name) {
				require.Contains(h.t, h.dialogs, c.Asked)
				break // the next one is asked about when this is answered
			}
		}
	}
}

// toldToEnd is a process that ends in order, and not by a crash: where it leaves a run to the
// next one, it writes nothing, and that one finds questions and nothing else.
func (h *history) toldToEnd() {
	h.m.closing = &Closing{GoesOn: true}
	asks := h.m.onlyAsks()
	h.m.closing = nil
	if !asks {
		return
	}
	require.True(h.t, onlyAsked(h.load().Resume))
	written := len(h.log)
	h.step(Closing{GoesOn: true, Deaf: h.pick(2, "deaf") == 0, Abort: true})
	require.Len(h.t, h.log, written)
}

// action does one random thing.
func (h *history) action() {
	if h.hosted && h.pick(12, "host") == 0 {
		h.hostAction()
		return
	}
	if h.extended && h.pick(6, "extension") == 0 {
		h.extensionAction()
		return
	}
	switch h.pick(20, "action") {
	case 0, 1:
		h.prompt()
	case 2:
		text := h.say()
		h.note(func(w *twin) { w.say(text, protocol.QueueSteer) })
		h.send(protocol.Steer{Message: text})
	case 3:
		text := h.say()
		h.note(func(w *twin) { w.say(text, protocol.QueueFollowUp) })
		h.send(protocol.FollowUp{Message: text})
	case 4:
		text := h.say()
		h.note(func(w *twin) { w.inject(text) })
		h.send(protocol.QueueMessage{Message: text})
	case 5:
		if h.tasked && h.m.swap == nil {
			h.retire()
		}
		h.note((*twin).abort)
		h.send(protocol.Abort{})
	case 6:
		h.setting()
	case 7:
		h.bashAction()
	case 8:
		h.lateInput()
	case 9:
		h.switchAction()
	default:
		h.progress()
	}
}

// hostAction is what a host does beside answering calls.
func (h *history) hostAction() {
	switch h.pick(4, "host action") {
	case 0:
		status := rapid.SampledFrom([]string{"pending", "completed"}).Draw(h.t, "status")
		h.send(protocol.SetTodos{Phases: []protocol.TodoPhase{{Name: "A", Tasks: []protocol.TodoItem{{Content: "x", Status: status}}}}})
	case 1:
		tools := []protocol.HostTool{{Name: "open_file"}}
		h.send(protocol.SetHostTools{Tools: tools[:h.pick(2, "tools")]})
	case 2:
		h.send(protocol.HostToolResult{ID: fmt.Sprintf("host_%d", h.pick(20, "late host")), Result: json.RawMessage(`"late"`)})
	case 3:
		h.send(protocol.HostToolUpdate{ID: fmt.Sprintf("host_%d", h.pick(20, "late host")), PartialResult: json.RawMessage(`{"content":[]}`)})
	}
}

// extensionAction is what an extension does, asked or not.
func (h *history) extensionAction() {
	switch h.pick(5, "extension action") {
	case 0:
		text := h.say()
		h.step(CustomSent{
			Message: protocol.CustomMessageEntry{CustomType: "note", Content: protocol.TextContent(text), Display: true},
			Trigger: h.pick(2, "trigger") == 0, Deliver: Deliver(h.pick(4, "deliver")),
		})
	case 1:
		h.step(EntryMade{Entry: protocol.Custom{CustomType: "note", Data: json.RawMessage(`{"n":1}`)}})
	case 2: // an answer that nobody asked for, or that was given
		id := h.pick(30, "late hook")
		if !slices.ContainsFunc(h.hooks, func(c CallHook) bool { return c.ID == id }) {
			require.Empty(h.t, h.step(HookDone{ID: id, Answer: Gated{}}), "X2: late answer")
		}
	case 3:
		if len(h.dialogs) > 0 { // about a call that was past them
			return
		}
		h.set.Extensions.Listens = HookSet(h.pick(int(HookBeforeSettle)*2, "listens"))
		h.step(Reconfigured{Settings: h.set})
	default:
		h.answerHook()
	}
}

// answerHook lets extensions answer one of the open hooks.
func (h *history) answerHook() {
	if len(h.hooks) == 0 {
		return
	}
	i := h.pick(len(h.hooks), "hook")
	c := h.hooks[i]
	h.hooks = slices.Delete(h.hooks, i, i+1)
	h.step(HookDone{c.ID, h.draw(c.Hook)})
}

// draw draws what extensions say to a hook.
func (h *history) draw(hook Hook) HookAnswer {
	if h.pick(4, "silent") == 0 {
		return nil
	}
	switch hook := hook.(type) {
	case InputHook:
		c := hook.Command
		switch h.pick(4, "input") {
		case 0:
			return Taken{Handled: true}
		case 1:
			c.Refused = protocol.CodeInvalidParams.Errorf("no")
		}
		return Taken{Command: c}
	case BeforeAgentStartHook:
		return Prepared{Messages: []protocol.CustomMessageEntry{{CustomType: "plan", Content: protocol.TextContent(h.say())}}}
	case ToolCallHook:
		if h.pick(3, "block") == 0 {
			return Gated{Blocked: true, Reason: "no"}
		}
		h.allowed[hook.Call.ID] = true
		return Gated{}
	case MessageEndHook:
		if h.pick(2, "rewrite") == 0 {
			return Rewritten{}
		}
		msg := hook.Message.Unsealed()
		msg.Content = append(protocol.TextContent("rewritten"), msg.Content...)
		return Rewritten{msg}
	case TurnEndHook, BeforeSettleHook:
		var said Proposed
		if h.pick(3, "verdict") == 0 {
			goesOn := h.pick(3, "continue") == 0
			said.Continue = &goesOn
		}
		if h.pick(3, "drafts") == 0 {
			said.Entries = []protocol.Entry{protocol.CustomMessageEntry{CustomType: "plan", Content: protocol.TextContent(h.say())}, protocol.Custom{CustomType: "note"}}
		}
		return said
	case AgentEndHook:
		return nil
	case PrepareHook:
		return Arranged{Args: hook.Call.Arguments, Err: []string{"", "bad"}[h.pick(2, "unprepared")]}
	case ToolResultHook:
		return Patched{Result: protocol.ToolResult{Content: protocol.TextContent("patched")}}
	}
	panic("core: unknown hook")
}

func (h *history) note(f func(*twin)) {
	if h.twin != nil && h.m.swap == nil && len(h.m.waiting) == 0 {
		f(h.twin)
	}
}

func (h *history) prompt() {
	text := h.say()
	behavior := rapid.SampledFrom([]protocol.StreamingBehavior{"", "steer", "followUp"}).Draw(h.t, "behavior")
	h.note(func(w *twin) { w.prompt(text, behavior) })
	h.send(protocol.Prompt{Message: text, StreamingBehavior: behavior})
}

func (h *history) setting() {
	mode := rapid.SampledFrom([]protocol.QueueMode{protocol.QueueAll, protocol.QueueOneAtATime}).Draw(h.t, "mode")
	switch h.pick(10, "setting") {
	case 0:
		h.note(func(w *twin) { w.steerAll = mode == protocol.QueueAll })
		h.send(protocol.SetSteeringMode{Mode: mode})
	case 1:
		h.note(func(w *twin) { w.followAll = mode == protocol.QueueAll })
		h.send(protocol.SetFollowUpMode{Mode: mode})
	case 2:
		wait := rapid.Bool().Draw(h.t, "wait")
		h.note(func(w *twin) { w.wait = wait })
		im := protocol.InterruptImmediate
		if wait {
			im = protocol.InterruptWait
		}
		h.send(protocol.SetInterruptMode{Mode: im})
	case 3:
		h.send(protocol.SetModel{Provider: "acme", ModelID: []string{"m1", "think", "nope"}[h.pick(3, "model")]})
	case 4:
		h.send(protocol.SetThinkingLevel{Level: protocol.ThinkingHigh})
	case 5:
		h.send(protocol.SetSessionName{Name: h.say()})
	case 6:
		h.note(func(w *twin) { w.steering, w.followUp = []string{}, []string{} })
		h.send(protocol.ClearQueue{})
	case 7:
		h.note((*twin).compact)
		h.send(protocol.Compact{})
	case 8:
		h.send(protocol.ListSessions{})
	case 9:
		h.send(protocol.SetEntryLabel{TargetID: entryID(h.pick(10, "target")), Label: "l"})
	}
}

func (h *history) bashAction() {
	if len(h.bash) > 0 && h.pick(2, "bash done") == 0 {
		job := h.bash[0]
		h.bash = h.bash[1:]
		code := 0
		if h.pick(4, "bash cannot begin") == 0 {
			h.step(BashDone{Job: job, Err: protocol.CodeIO.Errorf("no")})
			return
		}
		h.step(BashDone{Job: job, Result: protocol.BashResult{Output: "out", ExitCode: &code}})
		return
	}
	if h.pick(3, "abort bash") == 0 {
		h.send(protocol.AbortBash{})
		return
	}
	if key := h.key(); key != "" {
		h.send(protocol.Bash{Command: "run " + key, IdempotencyKey: key})
		return
	}
	h.send(protocol.Bash{Command: h.say()})
}

// key is an idempotency key, often one that was used before, or none.
func (h *history) key() string { return rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(h.t, "key") }

// usage is small, or more than any model's window takes before it is compacted.
func (h *history) usage() protocol.Usage {
	switch h.pick(6, "full") {
	case 0, 1:
		return protocol.Usage{Output: 190_000}
	case 2:
		return protocol.Usage{Input: 190_000, Output: 10}
	}
	return protocol.Usage{Output: 10}
}

// lateInput feeds what a cancelled run had still in its pockets.
func (h *history) lateInput() {
	if n := len(h.unwanted); n > 0 {
		in := h.unwanted[n-1]
		h.unwanted = h.unwanted[:n-1]
		h.copies.of[in.Dir] = &copyOf{item: in.ID}
		require.Equal(h.t, []Effect{LeaveWorkspace{Dir: in.Dir}}, h.step(in), "T15: a workspace that nobody wants any more")
		return
	}
	if len(h.late) == 0 {
		return
	}
	in := h.late[h.pick(len(h.late), "late")]
	before := len(h.wire)
	effects := h.step(in)
	require.Empty(h.t, effects, "law 5: late %T", in)
	require.Len(h.t, h.wire, before)
}

func (h *history) switchAction() {
	switch {
	case len(h.loads) > 0 && h.pick(3, "extensions are asked") == 0:
		h.step(SwitchAsked{Seq: h.loads[0].Seq, Dialog: h.pick(2, "and a person") == 0})
		h.replay()
	case len(h.loads) > 0:
		p := h.loads[0]
		h.loads = h.loads[1:]
		if h.pick(3, "load fails") == 0 {
			h.step(SessionLoaded{Seq: p.Seq, Err: protocol.CodeNotFound.Errorf("no")})
			h.replay()
			return
		}
		if h.m.swapOf(p.Seq) != nil && len(h.slowQueries) == 0 { // else it is not wanted any more, or waits
			h.retire()
		}
		h.replay()
		h.step(SessionLoaded{Seq: p.Seq, To: Loaded{Identity: Identity{SessionID: "other"}}})
	case len(h.activations) > 0:
		var log []protocol.Entry
		if _, isNav := h.m.swap.navigation(); isNav {
			log = queued(h.load().Queue)
		}
		h.activated(log)
	case h.pick(2, "navigate") == 0:
		h.send(protocol.NavigateTree{
			TargetID: "e0", Summarize: rapid.Bool().Draw(h.t, "summarize"), Label: rapid.SampledFrom([]string{"", "l"}).Draw(h.t, "label"),
		})
	default:
		h.send(protocol.NewSession{IdempotencyKey: h.key()})
	}
}

// queued is what a log says of the queues, which belong to the whole session.
func queued(queue []protocol.QueuedInput) (entries []protocol.Entry) {
	for _, q := range queue {
		data, err := json.Marshal(protocol.QueueOp{Op: "add", QueuedInput: q})
		if err != nil {
			panic(err)
		}
		entries = append(entries, protocol.Custom{CustomType: protocol.CustomQueue, Data: data})
	}
	return entries
}

// replay gives the twin up: the order of commands held back over a switch is
// checked by the scripts.
func (h *history) replay() { h.twin = nil }

// retire remembers inputs that a cancelled epoch could still send.
func (h *history) retire() {
	e := h.m.attempts
	h.late = append(h.late, StreamParts{e, []protocol.Part{protocol.PartStart{}}}, StreamEnd{Attempt: e},
		RetryDue{e}, RetryScheduled{e, 1}, WorkerGone{Kind: WorkerStream, Attempt: e}, SummaryBegun{e}, Summarised{Attempt: e}, LoginWaits{e, "acme"})
	if r := h.m.activity.inRun(); r != nil {
		for _, c := range r.calls {
			h.late = append(h.late, ToolDone{Attempt: e, CallID: c.ID}, ToolProgress{Attempt: e, CallID: c.ID})
			if c.tasks == nil {
				continue
			}
			for _, it := range c.tasks.items {
				h.lateCopies(e, it)
				h.late = append(h.late, childGone(e, it.id), ChildOpened{Attempt: e, ID: it.id}, ChildProgress{Attempt: e, ID: it.id}, ChildSettled{Attempt: e, ID: it.id})
			}
		}
	}
	h.late = h.late[max(0, len(h.late)-20):]
}

// progress moves on whatever the machine waits for.
func (h *history) progress() {
	switch {
	case len(h.slowQueries) > 0:
		seq := h.slowQueries[0]
		h.slowQueries = h.slowQueries[1:]
		if slices.ContainsFunc(h.m.waiting, func(c Command) bool { return keyOfCommand(c.Cmd).Key != "" }) {
			h.replay() // it may be answered at once, and the twin has not heard of those behind it
		}
		h.step(QueryDone{Seq: seq})
	case len(h.loads) > 0 || len(h.activations) > 0:
		h.switchAction()
	case len(h.summaries) > 0:
		h.summaryStep()
	case len(h.hooks) > 0:
		h.answerHook()
	case len(h.judges) > 0:
		h.answerJudge()
	case len(h.dialogs) > 0:
		id := h.dialogs[0]
		h.dialogs = h.dialogs[1:]
		if about, is := h.approvals[id]; is {
			h.answerApproval(id, about)
			return
		}
		ok := rapid.Bool().Draw(h.t, "consent")
		h.note(func(w *twin) { w.consent(ok) })
		h.step(UIAnswered{ID: id, Confirmed: ok, Cancelled: !ok})
	default:
		h.goOn()
	}
}

// goOn moves the activity.
func (h *history) goOn() {
	switch a := h.m.activity.(type) {
	case idle:
		h.prompt()
	case *streaming:
		h.streamStep(a)
	case *runningTools:
		h.toolStep(a)
	case *retrying:
		if !a.announced {
			h.step(RetryScheduled{a.attempt, 2000})
			return
		}
		if a.summary == nil {
			h.note((*twin).retryDue)
		}
		h.step(RetryDue{a.attempt})
		h.late = append(h.late, RetryDue{a.attempt})
	case *compacting, *leavingBranch, *activating:
		h.t.Fatalf("%T: nobody was asked", a)
	}
}

// summaryStep answers what the summariser was asked.
func (h *history) summaryStep() {
	ask := h.summaries[0]
	h.summaries = h.summaries[1:]
	in := Summarised{Attempt: ask.Attempt}
	switch {
	case h.pick(4, "summary") == 0:
		kind := rapid.SampledFrom([]protocol.ErrorKind{protocol.ErrorOverloaded, protocol.ErrorInvalid}).Draw(h.t, "kind")
		in.Err = kind.Errorf("failed")
	case ask.Branch != 0:
		in.Branch = &protocol.BranchSummary{FromID: "e0", Summary: "left"}
	case h.pick(4, "refuse") == 0:
		in.Refused = protocol.CodeNothingToDo.Errorf("Nothing to compact")
	default:
		h.compact(ask, &in)
	}
	c := h.m.compaction()
	again := in.Err != nil && in.Err.Kind.Retryable() && c != nil && c.retries.made < h.set.MaxRetries
	if ask.Branch == 0 && !again {
		done := in.Compaction != nil
		h.note(func(w *twin) { w.compacted(done) })
	}
	if in.Refused == nil && h.pick(8, "begun") > 0 {
		h.step(SummaryBegun{ask.Attempt})
	}
	h.step(in)
}

// compact makes a summary of what was there when it was asked for.
func (h *history) compact(ask Summarise, in *Summarised) {
	answer := h.asked
	if ask.Redo { // the answer that is made again is among what is kept
		for answer--; !isAnswer(h.log[answer]); answer-- {
		}
	}
	in.Compaction = &protocol.Compaction{Summary: "s", FirstKeptEntryID: entryID(h.pick(answer+1, "kept"))}
	seen := append(h.records()[:h.asked:h.asked], protocol.Record{EntryMeta: protocol.EntryMeta{ID: "compaction"}, Entry: *in.Compaction})
	for _, m := range logtwin.Context(seen) {
		if ask.Redo && m.ID == entryID(answer) {
			in.Size.Messages++
		} else {
			in.Size.Keep(m.Message)
		}
	}
}

func isAnswer(e protocol.Entry) bool {
	m, _ := e.(protocol.MessageEntry)
	_, ok := m.Message.(*protocol.AssistantMessage)
	return ok
}

func (h *history) streamStep(s *streaming) {
	epoch := s.attempt
	n := len(s.blocks)
	open := n > 0 && s.blocks[n-1].done == nil
	switch h.pick(6, "stream") {
	case 0:
		u := h.usage()
		h.note(func(w *twin) {
			w.firstByte()
			w.usage, w.input = u.Input+u.Output, u.Input
		})
		h.step(StreamParts{epoch, []protocol.Part{protocol.PartStart{}, protocol.PartUsage{Usage: u}}})
	case 1, 2:
		h.note((*twin).firstByte)
		var parts []protocol.Part
		if open {
			parts = append(parts, protocol.PartBlockEnd{Index: n - 1})
		}
		if h.pick(2, "block") == 0 {
			h.calls++
			names := []string{"bash", "read"}
			if h.hosted {
				names = append(names, "open_file", "todo_write")
			}
			if h.tasked {
				names = append(names, TaskTool, TaskTool)
			}
			name := rapid.SampledFrom(names).Draw(h.t, "tool")
			parts = append(parts,
				protocol.PartBlockStart{Index: n, Kind: protocol.BlockToolCall, ID: fmt.Sprintf("c%d", h.calls), Name: name},
				protocol.PartDelta{Index: n, Delta: rapid.SampledFrom([]string{`{"a":1}`, `{"a":`}).Draw(h.t, "args")})
		} else {
			parts = append(parts, protocol.PartBlockStart{Index: n, Kind: protocol.BlockText}, protocol.PartDelta{Index: n, Delta: h.say()})
		}
		h.step(StreamParts{epoch, parts})
	case 3:
		h.retire()
		kind := rapid.SampledFrom([]protocol.ErrorKind{protocol.ErrorOverloaded, protocol.ErrorInvalid, protocol.ErrorOverflow}).Draw(h.t, "kind")
		mine := sameModel(s.model, h.m.model)
		err := kind.Errorf("failed")
		err.Repeats = h.pick(3, "repeats")
		h.note(func(w *twin) { w.failed(kind.Retryable(), kind == protocol.ErrorOverflow && mine, err.Repeats) })
		h.step(StreamEnd{Attempt: epoch, Err: err})
	default:
		if n == 0 {
			h.note((*twin).firstByte)
			h.step(StreamParts{epoch, []protocol.Part{protocol.PartBlockStart{Index: 0, Kind: protocol.BlockText}, protocol.PartDelta{Index: 0, Delta: "x"}}})
		}
		var names []string
		for i := range s.blocks {
			if b := &s.blocks[i]; b.kind == protocol.BlockToolCall {
				name := b.call.Name
				if !b.args.Complete() {
					name = "cut"
				}
				names = append(names, name)
			}
		}
		h.late = append(h.late, StreamEnd{Attempt: epoch})
		mine := sameModel(s.model, h.m.model)
		h.note(func(w *twin) {
			w.mine = mine
			w.answered(names)
		})
		h.step(StreamEnd{Attempt: epoch, Done: protocol.PartDone{StopReason: protocol.StopStop}})
	}
}

func (h *history) toolStep(a *runningTools) {
	for _, c := range a.run.calls {
		if c.state != callRunning || c.dialog != "" || c.hook != 0 {
			continue
		}
		if c.Name == TaskTool {
			h.taskStep(a, c)
			return
		}
		if c.Name == "open_file" {
			h.hostStep(a, c)
			return
		}
		if h.pick(4, "tool") == 0 {
			h.step(ToolProgress{a.attempt, c.ID, protocol.ToolResult{Content: protocol.TextContent("so far")}})
			return
		}
		if h.pick(8, "tool dies") == 0 {
			h.note((*twin).toolDone)
			h.step(WorkerGone{Kind: WorkerTool, Attempt: a.attempt, ID: c.ID})
			return
		}
		h.note((*twin).toolDone)
		h.step(ToolDone{Attempt: a.attempt, CallID: c.ID, Result: protocol.ToolResult{Content: protocol.TextContent("out")}})
		return
	}
}

// hostStep hands a call to the host, or lets the host answer it.
func (h *history) hostStep(a *runningTools, c *call) {
	switch {
	case c.host != "" && h.pick(3, "host update") == 0:
		h.send(protocol.HostToolUpdate{ID: c.host, PartialResult: json.RawMessage(`{"content":"so far"}`)})
	case c.host != "":
		h.send(protocol.HostToolResult{ID: c.host, Result: json.RawMessage(`"done"`), IsError: h.pick(2, "host error") == 0})
	case h.pick(4, "bad arguments") == 0:
		h.step(ToolDone{Attempt: a.attempt, CallID: c.ID, Result: errorResult("bad arguments"), IsError: true})
	default:
		h.step(HostReady{a.attempt, c.ID, c.Arguments})
	}
}

// finish lets everything that was begun come to an end.
func (h *history) finish() {
	for range 500 {
		switch {
		case len(h.bash) > 0:
			job := h.bash[0]
			h.bash = h.bash[1:]
			h.step(BashDone{Job: job, Result: protocol.BashResult{Cancelled: true}})
		case len(h.slowQueries) > 0, h.m.intake.hook != 0 && h.pick(2, "silent") == 0:
			h.progress()
		case !h.m.isIdle() || len(h.m.intake.list) > 0 || h.m.swap != nil:
			if h.m.swap == nil {
				h.retire()
				h.note((*twin).abort)
				h.send(protocol.Abort{})
			} else {
				h.progress()
			}
		default:
			return
		}
	}
	h.t.Fatalf("the machine does not come to rest: phase %s", h.m.Phase())
}

// check compares the machine with what its log says, law 7, and with the twin.
func (h *history) check() {
	l, m := h.load(), h.m
	again := New() // what a reload makes of the log
	again.load(l)
	require.Equal(h.t, again.size, m.size, "law 7: context")
	require.Equal(h.t, again.name, m.name, "law 7: name")
	if m.swap == nil {
		require.Equal(h.t, again.identity.LeafID, m.identity.LeafID, "law 7: leaf")
	}
	if m.swap == nil && m.size.Messages > 0 {
		require.Equal(h.t, again.identity.ShownLeaf, m.identity.ShownLeaf, "law 7: leaf as clients see it")
	}
	require.Equal(h.t, again.todos, m.todos, "law 7: todos")
	require.Equal(h.t, slices.Sorted(maps.Keys(again.fired)), slices.Sorted(maps.Keys(m.fired)), "law 7: rules")
	if !m.set.Ephemeral {
		require.Equal(h.t, texts(again.steering), texts(m.steering), "law 7: steering")
		require.Equal(h.t, texts(again.followUp), texts(m.followUp), "law 7: follow-ups")
		require.Equal(h.t, len(again.held), len(m.held), "law 7: held bash results")
		require.Equal(h.t, again.keys.seen, m.keys.seen, "law 7: keys")
	}
	if m.activity.inRun() == nil {
		require.Equal(h.t, again.openCalls, m.openCalls, "law 7: calls without a result")
	}
	require.LessOrEqual(h.t, l.LastQueueID, m.queueIDs)
	if m.swap == nil && len(h.activations) == 0 {
		require.True(h.t, l.Model == nil || sameModel(l.Model, m.model), "law 7: model")
		require.True(h.t, l.Level == "" || m.model.Clamp(l.Level) == m.level, "law 7: level") // of a branch that names no model, a restart makes what the default model has
	}
	if m.set.FailsOver && !m.unsaid && m.swap == nil && m.closing == nil && len(h.activations) == 0 {
		said := cmp.Or(string(l.Choices), string(none))
		require.JSONEq(h.t, string(encoded(m.choicesOp(), ownEntry)), said, "law 7: what clients have chosen")
		next := New()
		next.Step(0, &ids{}, Restored{Session: l, Settings: m.set})
		require.Equal(h.t, m.Modes, next.Modes, "law 7: what clients have chosen")
		require.Equal(h.t, m.picked, next.picked, "law 7: what clients have chosen")
	}
	if m.isIdle() {
		require.True(h.t, h.spans.Idle(), "law 2: idle, and open on the wire: %+v", h.spans)
	}
	for seq, n := range h.answers {
		require.Equal(h.t, 1, n, "law 1: answers to command %d", seq)
	}
	checkShown(h.t, h.log, h.wire)
	if h.twin != nil {
		require.Equal(h.t, h.twin.delivered, userTexts(h.log), "law 4: order of delivery")
		require.Equal(h.t, h.twin.steering, texts(m.steering), "twin: steering queue")
		require.Equal(h.t, h.twin.followUp, texts(m.followUp), "twin: follow-up queue")
		require.Equal(h.t, h.twin.skipped, skips(h.log), "twin: skipped calls")
	}
}

func userTexts(log []protocol.Entry) []string {
	list := []string{}
	for _, e := range log {
		if e, ok := e.(protocol.MessageEntry); ok {
			if u, ok := e.Message.(*protocol.UserMessage); ok {
				list = append(list, u.Content.Text(""))
			}
		}
	}
	return list
}

func skips(log []protocol.Entry) int {
	n := 0
	for _, e := range log {
		if e, ok := e.(protocol.MessageEntry); ok {
			if r, ok := e.Message.(*protocol.ToolResultMessage); ok && strings.HasPrefix(r.Content.Text(""), "Skipped") {
				n++
			}
		}
	}
	return n
}

// checkShown is law 6: what the wire shows whole is in the log, unless it says
// itself that it could not be written.
func checkShown(t *rapid.T, log []protocol.Entry, wire []protocol.Event) {
	if len(log) == 0 { // a fresh session: the old log is gone
		return
	}
	logged := map[string]bool{}
	for _, e := range log {
		if e, ok := e.(protocol.MessageEntry); ok {
			logged[string(e.Message.AppendJSON(nil))] = true
		}
		if e, ok := e.(protocol.CustomMessageEntry); ok {
			logged[e.CustomType+e.Content.Text("")] = true
		}
	}
	start := 0
	for i, ev := range wire {
		if _, ok := ev.(protocol.SessionChanged); ok {
			start = i
		}
	}
	for _, ev := range wire[start:] {
		if end, ok := ev.(protocol.MessageEnd); ok {
			text := string(end.Message.AppendJSON(nil))
			if m, ok := end.Message.(*protocol.CustomMessage); ok { // its entry has no time of its own
				text = m.CustomType + m.Content.Text("")
			}
			require.True(t, logged[text] || strings.Contains(text, "could not be written") || strings.Contains(text, "interrupted"),
				"law 6: shown and not logged: %s", text)
		}
	}
}

// checkNesting is law 2, as a parser of the wire's grammar.
func checkNesting(t require.TestingT, wire []protocol.Event) {
	var run, turn, settled bool
	settled = true
	var open protocol.Message
	tools := map[string]bool{}
	for i, ev := range wire {
		at := func(ok bool, what string) { require.True(t, ok, "law 2: event %d %s: %s", i, DescribeEvent(ev), what) }
		switch ev := ev.(type) {
		case protocol.AgentStart:
			at(!run, "run in run")
			run, settled = true, false
		case protocol.AgentEnd:
			at(run && !turn && open == nil && len(tools) == 0, "something is open")
			run = false
		case protocol.TurnStart:
			at(run && !turn, "turn")
			turn = true
		case protocol.TurnEnd:
			at(turn && open == nil && len(tools) == 0, "turn end")
			turn = false
			require.NotNil(t, ev.Message)
			calls := ev.Message.(*protocol.AssistantMessage).Content.ToolCalls()
			if !strings.Contains(string(ev.Message.AppendJSON(nil)), `"aborted"`) {
				for j, r := range ev.ToolResults {
					require.Equal(t, calls[j].ID, r.ToolCallID, "law 3: order of results")
				}
			}
		case protocol.MessageStart:
			at(open == nil && (turn || ev.Message.Role() == "custom"), "message start") // extensions speak outside of turns, too
			open = ev.Message
		case *protocol.MessageUpdate:
			at(open != nil && open.Role() == "assistant", "update outside a message")
		case protocol.MessageEnd:
			at(open != nil && open.Role() == ev.Message.Role(), "message end")
			open = nil
		case protocol.ToolExecutionStart:
			at(turn && open == nil, "tool start")
			tools[ev.ToolCallID] = true
		case protocol.ToolExecutionUpdate:
			at(tools[ev.ToolCallID], "tool update")
		case protocol.ToolExecutionEnd:
			at(tools[ev.ToolCallID], "tool end")
			delete(tools, ev.ToolCallID)
		case protocol.AgentSettled:
			at(!run && !settled, "settled")
			settled = true
		}
	}
	require.True(t, settled, "law 2: the last run was not settled")
}

// checkLogOrder is law 3 on the log: the results of a message's calls follow
// it, each once, in call order, before the next message of another kind.
func checkLogOrder(t *rapid.T, log []protocol.Entry) {
	var pending []protocol.ToolCall
	for _, e := range log {
		e, ok := e.(protocol.MessageEntry)
		if !ok {
			continue
		}
		switch msg := e.Message.(type) {
		case *protocol.AssistantMessage:
			require.Empty(t, pending, "law 3: calls without a result before the next answer")
			if msg.StopReason == protocol.StopToolUse || msg.StopReason == protocol.StopLength {
				pending = msg.Content.ToolCalls()
			}
		case *protocol.ToolResultMessage:
			require.NotEmpty(t, pending, "law 3: a result nobody asked for")
			require.Equal(t, pending[0].ID, msg.ToolCallID, "law 3: call order")
			pending = pending[1:]
		case *protocol.UserMessage, *protocol.BashExecutionMessage:
			require.Empty(t, pending, "law 3: %T between a call and its result", msg)
		}
	}
}

// TestStepIsDeterministic is law 8: the same inputs give the same effects.
func TestStepIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Int().Draw(t, "seed")
		first, second := script(seed), script(seed)
		require.Equal(t, first, second)
	})
}

// script plays a fixed pseudo-random history and prints every effect.
func script(seed int) string {
	w := newWorld(defaults())
	var out strings.Builder
	x := uint64(seed)
	for i := range 60 {
		x = x*6364136223846793005 + 1442695040888963407
		var effects []Effect
		switch (x >> 33) % 8 {
		case 0:
			effects = w.send(protocol.Prompt{Message: fmt.Sprint(i)})
		case 1:
			effects = w.send(protocol.Steer{Message: fmt.Sprint(i)})
		case 2:
			effects = w.send(protocol.Abort{})
		case 3:
			effects = w.step(StreamParts{w.m.attempts, []protocol.Part{protocol.PartStart{}}})
		case 4:
			effects = w.step(StreamEnd{Attempt: w.m.attempts, Done: protocol.PartDone{StopReason: protocol.StopStop}})
		case 5:
			effects = w.step(StreamEnd{Attempt: w.m.attempts, Err: protocol.ErrorOverloaded.Errorf("x")})
		case 6:
			effects = w.step(RetryDue{w.m.attempts})
		case 7:
			effects = w.send(protocol.FollowUp{Message: fmt.Sprint(i)})
		}
		out.WriteString(describe(effects))
	}
	return out.String()
}
