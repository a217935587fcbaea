package core

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/protocol/pi"
)

// TestScripts plays the stories of testdata: each names inputs and shows the
// effects they must have. -rewrite takes what happened for what should.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				w = newWorld(scriptSettings(t, d))
				return describe(w.last)
			}
			require.NotNil(t, w, "the script must begin with new")
			if d.HasArg("fail-append") {
				d.ScanArgs(t, "fail-append", &w.failAt)
			}
			before := w.spans
			effects := describe(scriptStep(t, w, d))
			if d.HasArg("untold") { // it crashes between the entries and the events
				w.spans = before
			}
			return effects
		})
	})
}

func scriptSettings(t *testing.T, d *datadriven.TestData) Settings {
	set := defaults()
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "dialect":
			_, rules, ok := protocol.Dialect(arg.Vals[0]).Open()
			require.True(t, ok)
			set.Rules = rules
		case "mode":
			set.PermissionMode = protocol.PermissionMode(arg.Vals[0])
		case "confirm":
			set.Confirm = arg.Vals
		case "retained":
			set.Retained = true
		case "ephemeral":
			set.Ephemeral = true
		case "no-model":
			set.Model = nil
		case "model":
			set.Model = catalog.Models[slices.IndexFunc(catalog.Models, func(m *protocol.Model) bool { return m.ID == arg.Vals[0] })]
		case "rule":
			set.StreamRules = RuleSettings{Mode: "always", Rules: []Rule{{
				StreamRule: protocol.StreamRule{Name: "no-" + arg.Vals[0], Path: "/rules/x.md", Content: "Never write it."},
				Trigger:    regexp.MustCompile(arg.Vals[0]),
			}}}
		case "rule-mode":
			set.StreamRules.Mode = arg.Vals[0]
		case "rule-scope": // text, thinking, or a tool's name
			kind, known := map[string]protocol.BlockKind{"text": protocol.BlockText, "thinking": protocol.BlockThinking}[arg.Vals[0]]
			scope := RuleScope{Kind: kind}
			if !known {
				scope = RuleScope{Kind: protocol.BlockToolCall, Tool: arg.Vals[0], Files: func(path string) bool { return strings.HasSuffix(path, ".ts") }}
			}
			set.StreamRules.Rules[0].Scopes = append(set.StreamRules.Rules[0].Scopes, scope)
		case "check":
			set.Check = func(call protocol.ToolCall, own []protocol.HostTool, exact bool) error {
				isHost := slices.ContainsFunc(own, func(t protocol.HostTool) bool { return t.Name == call.Name })
				if strings.Contains(string(call.Arguments), "bad") {
					return fmt.Errorf("Validation failed for %s (host: %t)", call.Name, isHost)
				}
				return nil
			}
		case "listens":
			for _, hook := range arg.Vals {
				set.Extensions.Listens |= hookNames[hook]
			}
		case "prepares":
			set.Extensions.Prepares = arg.Vals
		case "tasks":
			set = taskSettings(set)
		case "child":
			set.Child = &Child{SubagentEntry: protocol.SubagentEntry{ID: "A", Agent: "task", ToolCallID: "c0", Depth: 1, Tools: []string{"read", SubmitTool}}}
			if len(arg.Vals) > 0 {
				set.Child.Schema = json.RawMessage(`{"type":"object"}`)
			}
			set.KnownTools = append(set.KnownTools, protocol.ToolInfo{Name: SubmitTool})
			set.Tools = append(set.Tools, SubmitTool)
		case "sequential":
			for i, t := range set.KnownTools {
				set.KnownTools[i].Sequential = slices.Contains(arg.Vals, t.Name)
			}
		case "refuse":
			set.Extensions.Refuse = "The gate is not there."
		case "fails-over":
			set.FailsOver = true
		case "parallel":
			set.Rules.ParallelTools = true
		case "reminders":
			set.MaxReminders = 2
		case "budget": // limits, as settings have them
			var err error
			set.Budget.WarnAtRatio = 0.8
			set.Budget.Limits, err = protocol.ParseBudgetLimits(set.Budget.Limits, []byte(fmt.Sprintf("{%q:%s}", arg.Vals[0], arg.Vals[1])))
			require.NoError(t, err)
		case "scope":
			set.Scope = []ScopedModel{{modelA, ""}, {modelB, protocol.ThinkingHigh}}
		default:
			t.Fatalf("unknown argument %s", arg.Key)
		}
	}
	return set
}

func describe(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		b.WriteString(Describe(e))
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return "(nothing)\n"
	}
	return b.String()
}

func scriptStep(t *testing.T, w *world, d *datadriven.TestData) []Effect {
	arg := func(name string) string {
		var s string
		d.MaybeScanArgs(t, name, &s)
		return s
	}
	num := func(name string) int {
		var n int
		d.MaybeScanArgs(t, name, &n)
		return n
	}
	attempt := func() Attempt { return Attempt(num("attempt")) }
	text := strings.TrimSuffix(d.Input, "\n")
	switch d.Cmd {
	case "send": // one command a line, as a client writes it
		var all []Effect
		for line := range strings.Lines(text) {
			req, err := pi.Decode([]byte(strings.TrimSpace(line)))
			require.Nil(t, err, line)
			w.seq++
			w.owed = append(w.owed, w.seq)
			c := Command{
				Seq: w.seq, ID: req.ID, Name: req.Name, Cmd: req.Cmd, FromExtension: arg("by") == "extension", LookedUp: w.lookUp(req.Cmd),
			}
			all = append(all, w.step(c)...)
		}
		return all
	case "parts":
		return w.step(StreamParts{attempt(), scriptParts(t, text)})
	case "done":
		return w.step(StreamEnd{Attempt: attempt(), Done: protocol.PartDone{StopReason: protocol.StopReason(arg("reason"))}})
	case "error":
		after, _ := time.ParseDuration(arg("after"))
		return w.step(StreamEnd{Attempt: attempt(), Err: &protocol.StreamError{
			Kind: protocol.ErrorKind(arg("kind")), Message: text, RetryAfter: after,
		}})
	case "answer": // a whole text answer
		return slices.Concat(
			w.step(StreamParts{attempt(), scriptParts(t, "start\ntext 0\ndelta 0 "+text+"\nend 0")}),
			w.step(StreamEnd{Attempt: attempt(), Done: protocol.PartDone{StopReason: protocol.StopStop}}))
	case "calls": // a whole answer of tool calls, one a line: id name arguments
		var lines []string
		for i, line := range strings.Split(text, "\n") {
			id, rest, _ := strings.Cut(line, " ")
			name, args, _ := strings.Cut(rest, " ")
			lines = append(lines, fmt.Sprintf("call %d %s %s", i, id, name), fmt.Sprintf("delta %d %s", i, args), fmt.Sprintf("end %d", i))
		}
		w.step(StreamParts{attempt(), scriptParts(t, "start\n"+strings.Join(lines, "\n"))})
		return w.step(StreamEnd{Attempt: attempt(), Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	case "tool-progress":
		return w.step(ToolProgress{attempt(), arg("id"), protocol.ToolResult{Content: protocol.TextContent(text)}})
	case "tool-done":
		done := ToolDone{Attempt: attempt(), CallID: arg("id"), IsError: d.HasArg("error")}
		if d.HasArg("todos") { // the first line is the new list
			list, rest, _ := strings.Cut(text, "\n")
			require.NoError(t, json.Unmarshal([]byte(list), &done.Todos))
			text = rest
		}
		done.Result.Content, done.Result.Terminate = protocol.TextContent(text), d.HasArg("final")
		return w.step(done)
	case "bash-output":
		return w.step(BashProgress{num("job"), text})
	case "bash-done":
		code := num("code")
		return w.step(BashDone{Job: num("job"), Result: protocol.BashResult{Output: text, ExitCode: &code}})
	case "bash-killed":
		return w.step(BashDone{Job: num("job"), Result: protocol.BashResult{Output: text, Cancelled: true}})
	case "retry-scheduled":
		return w.step(RetryScheduled{attempt(), int64(num("ms"))})
	case "retry-due":
		return w.step(RetryDue{attempt()})
	case "task-ready":
		return w.step(TaskReady{attempt(), arg("id"), json.RawMessage(text)})
	case "child-opened":
		in := ChildOpened{Attempt: attempt(), ID: arg("id"), SessionID: "s-" + arg("id"), File: "/sessions/0/" + arg("id") + ".jsonl", Model: "acme/m1", Err: text}
		return w.step(in)
	case "child-progress":
		return w.step(ChildProgress{Attempt: attempt(), ID: arg("id"), Activity: protocol.TaskActivity{CurrentTool: text, Requests: 1}, Usage: protocol.Usage{Input: 5, TotalTokens: 5}})
	case "child-told":
		ev := map[string]protocol.Event{
			"start": protocol.SubagentStart{ID: "N", Agent: "look"}, "end": protocol.SubagentEnd{ID: "N", Agent: "look"},
			"confirm": protocol.ExtensionUIRequest{ID: "confirm_7", Method: "confirm", Title: new("Run bash?")},
			"notify":  protocol.ExtensionUIRequest{ID: "notify_7", Method: "notify", Message: new("Look here.")},
			"verify":  protocol.SubagentVerificationStart{ID: "N", Attempt: 1, Profile: "go"},
			"approval": protocol.ApprovalRequest{
				ID: "approval_7", ToolCallID: "b1", ToolName: "bash", Title: "Run bash: make", Options: []protocol.ApprovalOption{{ID: "once", Kind: protocol.AllowOnce, Label: "Allow once"}},
			},
		}[text]
		return w.step(ChildTold{attempt(), arg("id"), ev})
	case "child-settled":
		in := ChildSettled{Attempt: attempt(), ID: arg("id"), Outcome: completed, Text: text, Usage: protocol.Usage{Input: 10, TotalTokens: 10}, Activity: protocol.TaskActivity{ToolCount: 2, Requests: 1}, DurationMs: 5}
		if d.HasArg("submitted") {
			in.Submission, in.Text = &protocol.Submission{Data: json.RawMessage(text)}, ""
		}
		if d.HasArg("failed") {
			in.Outcome, in.Error = failed, text
		}
		return w.step(in)
	case "submitted":
		s := &protocol.Submission{Data: json.RawMessage(text)}
		if d.HasArg("unfit") {
			s.Unfit = "Output does not match schema: n"
		}
		return w.step(ToolDone{Attempt: attempt(), CallID: arg("id"), Submission: s, Result: protocol.ToolResult{Content: protocol.TextContent("Handed over.")}})
	case "host-ready":
		return w.step(HostReady{attempt(), arg("id"), json.RawMessage(`{"n":1}`)})
	case "summary":
		return w.step(Summarised{
			Attempt: attempt(), Compaction: &protocol.Compaction{Summary: text, FirstKeptEntryID: arg("kept"), TokensBefore: 7, Details: json.RawMessage(`{}`)},
			Size: protocol.ContextSize{Messages: num("messages"), Tokens: 100},
		})
	case "branch-summary":
		return w.step(Summarised{Attempt: attempt(), Branch: &protocol.BranchSummary{FromID: "e0", Summary: text}})
	case "login-waits": // who renews it
		return w.step(LoginWaits{attempt(), arg("for")})
	case "begun": // there is something to summarise
		return w.step(SummaryBegun{attempt()})
	case "refused":
		return w.step(Summarised{Attempt: attempt(), Refused: protocol.CodeNothingToDo.Errorf("%s", text)})
	case "summary-failed":
		return w.step(Summarised{Attempt: attempt(), Err: protocol.ErrorKind(arg("kind")).Errorf("%s", text)})
	case "judged": // what the permission rules say
		in := HookDone{ID: num("id"), Answer: Judged{Refused: arg("refused")}}
		switch {
		case d.HasArg("nothing"):
			in.Answer = nil
		case d.HasArg("ask"):
			in.Answer = Judged{Ask: &protocol.ApprovalRequest{Kind: "execute", Title: "Run it", Why: protocol.ApprovalWhy{Reason: "the mode is ask"}, Options: []protocol.ApprovalOption{
				{ID: "once", Kind: protocol.AllowOnce, Label: "Allow once"},
				{ID: "session", Kind: protocol.AllowAlways, Label: "Allow for this session", Rules: []string{"bash(make)"}},
			}}}
		}
		return w.step(in)
	case "ui":
		in := UIAnswered{ID: arg("id"), Confirmed: d.HasArg("confirmed"), Cancelled: d.HasArg("cancelled")}
		if text != "" {
			in.Value = &text
		}
		return w.step(in)
	case "loaded":
		to := Loaded{Identity: Identity{
			SessionID: fmt.Sprintf("session-%d", w.session+1), File: fmt.Sprintf("/sessions/%d.jsonl", w.session+1), Durability: "process",
		}}
		to.Context.Messages = num("messages")
		return w.step(SessionLoaded{Seq: uint64(num("seq")), Text: text, To: to, Stay: d.HasArg("stay")})
	case "switch-asked":
		return w.step(SwitchAsked{Seq: uint64(num("seq")), Dialog: d.HasArg("dialog")})
	case "query-done":
		return w.step(QueryDone{Seq: uint64(num("seq"))})
	case "activated":
		in := SessionActivated{Seq: uint64(num("seq"))}
		if _, ok := w.m.activity.(*activating); ok {
			if _, isNav := w.m.swap.navigation(); isNav { // queues are the session's, not the branch's
				in.To = &Loaded{Identity: w.load().Identity, Resume: protocol.Resume{Queue: w.load().Queue}}
				in.To.LeafID, in.To.ShownLeaf = "", ""
			}
		}
		log := w.log
		if d.HasArg("empty") { // else what is replaced has left all of it to the next one
			log = nil
		}
		w.moveTo(log)
		return w.step(in)
	case "not-loaded":
		return w.step(SessionLoaded{Seq: uint64(num("seq")), Err: protocol.CodeNotFound.Errorf("%s", text)})
	case "gone":
		kinds := map[string]WorkerKind{"stream": WorkerStream, "tool": WorkerTool, "bash": WorkerBash, "retry": WorkerRetry, "child": WorkerChild}
		return w.step(WorkerGone{kinds[arg("kind")], attempt(), num("job"), arg("id")})
	case "hook": // what extensions say to one
		return w.step(HookDone{num("id"), scriptAnswer(t, d, w)})
	case "custom": // pi.sendMessage
		in := CustomSent{Message: protocol.CustomMessageEntry{CustomType: "note", Content: protocol.TextContent(text), Display: true}, Trigger: d.HasArg("trigger")}
		in.Deliver = map[string]Deliver{"": DeliverSteer, "followUp": DeliverFollowUp, "afterTurn": DeliverAfterTurn, "nextTurn": DeliverNextTurn}[arg("deliver")]
		return w.step(in)
	case "entry": // pi.appendEntry
		return w.step(EntryMade{Entry: protocol.Custom{CustomType: "note", Data: json.RawMessage(text)}})
	case "tools": // extensions have registered others
		set := w.set
		set.Extensions.Tools = strings.Fields(text)
		for _, name := range set.Extensions.Tools {
			set.KnownTools = append(set.KnownTools[:len(set.KnownTools):len(set.KnownTools)], protocol.ToolInfo{Name: name})
		}
		return w.step(Reconfigured{Settings: set})
	case "call": // ctx.executeTool
		return w.step(InnerCall{Op: uint64(num("op")), Parent: arg("parent"), Name: arg("name"), Args: json.RawMessage(text)})
	case "uncall":
		return w.step(InnerCancelled{Op: uint64(num("op"))})
	case "timer":
		return w.step(TimerDue{Name: arg("name")})
	case "wait": // milliseconds, on top of the second that every step takes
		w.now += int64(num("ms"))
		return nil
	case "host-gone":
		return w.step(HostGone{})
	case "withdrawn":
		return w.step(Withdrawn{Seqs: []uint64{uint64(num("seq"))}})
	case "closing":
		return w.step(Closing{Abort: d.HasArg("abort"), Deaf: d.HasArg("deaf"), GoesOn: d.HasArg("goes-on")})
	case "crash":
		return w.crash()
	case "restart":
		return w.restart()
	case "failover":
		return w.failover(d.HasArg("stop"), arg("cwd"), d.HasArg("older"))
	case "ask-again":
		return w.step(AskAgain{})
	}
	t.Fatalf("unknown verb %s", d.Cmd)
	return nil
}

var hookNames = map[string]HookSet{
	"input": HookInput, "before_agent_start": HookBeforeAgentStart, "tool_call": HookToolCall, "tool_result": HookToolResult,
	"message_end": HookMessageEnd, "turn_end": HookTurnEnd, "agent_end": HookAgentEnd, "agent_before_settle": HookBeforeSettle,
}

// scriptAnswer reads what extensions say: the first argument names it.
func scriptAnswer(t *testing.T, d *datadriven.TestData, w *world) HookAnswer {
	text := strings.TrimSuffix(d.Input, "\n")
	var c Command
	if len(w.m.intake.list) > 0 {
		c = w.m.intake.list[0]
	}
	switch {
	case d.HasArg("nothing"):
		return nil
	case d.HasArg("handled"):
		return Taken{Handled: true}
	case d.HasArg("refused"):
		c.Refused = protocol.CodeInvalidParams.Errorf("%s", text)
		return Taken{Command: c}
	case d.HasArg("text"):
		c.Cmd = protocol.Prompt{Message: text}
		return Taken{Command: c}
	case d.HasArg("system"):
		return Prepared{SystemPrompt: &text, Messages: []protocol.CustomMessageEntry{{CustomType: "plan", Content: protocol.TextContent("think first")}}}
	case d.HasArg("rewrite"):
		i := slices.IndexFunc(w.hooks, func(h CallHook) bool { return fmt.Sprint(h.ID) == d.CmdArgs[0].Vals[0] })
		msg := w.hooks[i].Hook.(MessageEndHook).Message.Unsealed()
		msg.Content = protocol.TextContent(text)
		return Rewritten{msg}
	case d.HasArg("go-on"), d.HasArg("stop"):
		goesOn := d.HasArg("go-on")
		return Proposed{Continue: &goesOn, Entries: []protocol.Entry{
			protocol.CustomMessageEntry{CustomType: "plan", Content: protocol.TextContent(text)}, protocol.Custom{CustomType: "state", Data: json.RawMessage("1")},
			protocol.ContextEdit{TargetID: "nobody"},
		}}
	case d.HasArg("arranged"):
		return Arranged{Args: json.RawMessage(text)}
	case d.HasArg("unarranged"):
		return Arranged{Err: text}
	case d.HasArg("allow"):
		return Gated{}
	case d.HasArg("args"):
		return Gated{Args: json.RawMessage(text)}
	case d.HasArg("block"):
		return Gated{Blocked: true, Reason: text, Final: d.HasArg("final")}
	case d.HasArg("patch"):
		return Patched{Result: protocol.ToolResult{Content: protocol.TextContent(text)}, IsError: d.HasArg("error")}
	}
	t.Fatalf("%s: what do the extensions say?", d.Pos)
	return nil
}

func scriptParts(t *testing.T, text string) []protocol.Part {
	var parts []protocol.Part
	for _, line := range strings.Split(text, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		at, rest, _ := strings.Cut(rest, " ")
		var i int
		fmt.Sscan(at, &i)
		switch verb {
		case "start":
			parts = append(parts, protocol.PartStart{ResponseID: "resp"})
		case "text":
			parts = append(parts, protocol.PartBlockStart{Index: i, Kind: protocol.BlockText})
		case "thinking":
			parts = append(parts, protocol.PartBlockStart{Index: i, Kind: protocol.BlockThinking})
		case "call":
			id, name, _ := strings.Cut(rest, " ")
			parts = append(parts, protocol.PartBlockStart{Index: i, Kind: protocol.BlockToolCall, ID: id, Name: name})
		case "delta":
			parts = append(parts, protocol.PartDelta{Index: i, Delta: rest})
		case "end":
			parts = append(parts, protocol.PartBlockEnd{Index: i, Signature: rest})
		case "usage":
			var u protocol.Usage
			fmt.Sscan(at+" "+rest, &u.Input, &u.Output)
			parts = append(parts, protocol.PartUsage{Usage: u})
		default:
			t.Fatalf("unknown part %q", line)
		}
	}
	return parts
}
