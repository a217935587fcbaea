package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"troupe/protocol"
)

// item is one child of a call of the task tool.
type item struct {
	index  int // in the call
	id     string
	want   taskItem
	agent  protocol.Agent
	schema json.RawMessage // of what it is to submit, nil for anything
	told   string          // what the child is told
	state  itemState

	override []string // the model that it is to have whatever its agent says, and has; nil for none
	limited  bool     // it knows that it draws on a budget
	isolated bool     // it works in a workspace
	work     workspace
	begun
}

// begun is a child at work, or one that was.
type begun struct {
	began    int64 // by the clock of durations
	opened   ChildOpened
	activity protocol.TaskActivity
	heard    int64 // when that was told, epoch milliseconds
	usage    protocol.Usage
	nested   int     // children that it and its own have begun
	spent    amounts // by it and its own children, as far as that is known
	open     OpenChildren
	mode     protocol.PermissionMode // that it knows
	dialogs  []childDialog
	replies  []uint64 // clients' commands that the child was given and has not answered
	handed   *protocol.Submission
}

// itemState is where an item stands. It waits for one thing.
//
//	queued ──→ opening ──→ running ──→ done
//	              └────────────────────↗
//
// and, in a workspace,
//
//	queued → preparing → opening → running ⇄ capturing ⇄ verifying
//	                                           ↑ └──────────┴→ waiting → merging → done
//	                                         naming
//
//sumtype:decl
type itemState interface{ itemState() }

type (
	itemQueued  struct{}                      // a slot
	itemAsking  struct{ ticket Ticket }       // to be let count by the budget of the tree
	itemOpening struct{ opened *ChildOpened } // its child's session; or, if that is there, for the items before it to begin
	itemRunning struct{}                      // its child to settle

	itemPreparing struct{} // its workspace
	itemCapturing struct { // what its child has done there to be kept
		settled protocol.TaskResult
		final   bool // it has passed
	}
	itemVerifying struct{ settled protocol.TaskResult } // a command that checks it
	itemNaming    struct{ settled protocol.TaskResult } // its child to word what it has done
	itemWaiting   struct{ ended protocol.TaskResult }   // the items before it; clients have seen it end
	itemMerging   struct{ ended protocol.TaskResult }   // a plan of the merge, and then for that to be carried out
	itemDone      struct{ is protocol.TaskResult }      // nothing
)

func (itemQueued) itemState()  {}
func (itemAsking) itemState()  {}
func (itemOpening) itemState() {}
func (itemRunning) itemState() {}
func (itemDone) itemState()    {}

func (itemPreparing) itemState() {}
func (itemCapturing) itemState() {}
func (itemVerifying) itemState() {}
func (itemNaming) itemState()    {}
func (itemWaiting) itemState()   {}
func (itemMerging) itemState()   {}

// childDialog is a dialog that a child has opened.
type childDialog struct {
	ours  string // its id here
	asked string // its id in the child

	approval *protocol.ApprovalRequest // that it is, as it is shown here; nil for another
}

func (it *item) done() bool {
	_, is := it.state.(itemDone)
	return is
}

// newItem makes an item of what a call wants, or says why that cannot be.
func (m *Machine) newItem(args *taskCall, want taskItem) (*item, string) {
	agent, _ := m.set.Tasks.Agents.Named(args.agentOf(&want))
	if want.Resume != "" {
		earlier, _ := m.children.named(want.Resume)
		agent, _ = m.set.Tasks.Agents.Named(earlier.Agent)
	}
	it := &item{want: want, agent: agent, state: itemQueued{}, told: want.Assignment}
	if args.Context != "" {
		it.told = args.Context + "\n\n" + want.Assignment
	}
	switch {
	case agent.Output != nil:
		it.schema = agent.Output
	case isSchema(want.Schema), isSchema(args.Schema):
		raw := args.Schema
		if isSchema(want.Schema) {
			raw = want.Schema
		}
		schema, err := protocol.OutputSchema(raw)
		if err != nil {
			return nil, "Invalid schema: " + err.Error()
		}
		it.schema = schema
	case m.set.Child != nil:
		it.schema = m.set.Child.Schema
	}
	if len(m.childTools(agent)) == 0 {
		return nil, fmt.Sprintf("Agent %s would have no tools here.", agent.Name)
	}
	if limit := agent.Forbids(); limit != "" {
		return nil, fmt.Sprintf("Agent %s may not do anything: its limit %s is 0.", agent.Name, limit)
	}
	return it, ""
}

func isSchema(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// nameChild gives an item an id that no child of the session has had, nor an item
// before it: the files of children have them for names.
func (m *Machine) nameChild(it *item, taken map[string]bool) {
	used := func(id string) bool {
		_, had := m.children.named(id)
		return had || taken[strings.ToLower(id)] || m.atWork(func(it *item) bool { return strings.EqualFold(it.id, id) })
	}
	it.id = it.want.ID
	for n := 2; used(it.id); n++ {
		it.id = it.want.ID + "-" + strconv.Itoa(n)
	}
	taken[strings.ToLower(it.id)] = true
}

// childSpec is what the session of a child is made with.
func (m *Machine) childSpec(c *call, it *item) ChildSpec {
	spec := ChildSpec{
		Entry: protocol.SubagentEntry{
			ID: it.id, Agent: it.agent.Name, ToolCallID: c.ID, Depth: m.depth() + 1, Isolated: it.isolated, Schema: it.schema,
			Tools: append(m.childTools(it.agent), SubmitTool),
		},
		Agent: it.agent, Models: it.agent.Models, Model: m.model, Level: m.Level(), Mode: m.PermissionMode, MaxRuntimeMs: m.set.Tasks.MaxRuntimeMs,
		SoftRequests: m.set.Tasks.SoftRequests, WarnAt: m.set.Budget.WarnAtRatio,
	}
	it.limited, it.mode = m.limited(), m.PermissionMode
	spec.Draws, spec.Counts = drawsBelow(it.limited), m.counts
	spec.Workspace = it.work.path
	if it.want.Resume != "" {
		earlier, _ := m.children.named(it.want.Resume)
		spec.Resume = Earlier{earlier.File, earlier.Node}
	}
	if model := cmp.Or(m.set.Tasks.Models[it.agent.Name], it.want.Model); model != "" {
		it.override = []string{model}
		spec.Models = it.override
	}
	return spec
}

// childTools are the tools that a child of an agent has beside submit_result: what the
// agent wants of what children may have.
func (m *Machine) childTools(agent protocol.Agent) (names []string) {
	deeper := len(agent.Spawns) > 0 && (m.set.Tasks.MaxDepth < 0 || m.depth()+1 < m.set.Tasks.MaxDepth)
	for _, name := range m.set.Tasks.Ceiling {
		switch {
		case name == TodoTool, name == SubmitTool, m.isHosts(name):
		case name == TaskTool && !deeper:
		case agent.Tools != nil && !slices.Contains(agent.Tools, name) && name != TaskTool:
		case slices.Contains(agent.Disallowed, name):
		default:
			names = append(names, name)
		}
	}
	return names
}

// result is what is known of an item before it has ended.
func (it *item) result() protocol.TaskResult {
	u := it.usage
	r := protocol.TaskResult{
		Index: it.index, ID: it.id, Agent: it.agent.Name, AgentSource: it.agent.Source, Task: it.told, Assignment: it.want.Assignment,
		Description: it.want.Description, ModelOverride: it.override, ResolvedModel: it.opened.Model,
		Tokens: u.Sum(), Usage: &u, Requests: it.activity.Requests, Subagents: it.nested, SessionID: it.opened.SessionID, SessionFile: it.opened.File,
	}
	if it.opened.Note != "" {
		r.Notes = []string{"model: " + it.opened.Note}
	}
	return r
}

// settled is the result of an item whose child has settled.
func (it *item) settled(in ChildSettled) protocol.TaskResult {
	r := it.result()
	r.DurationMs, r.OutputPath = in.DurationMs, in.OutputPath
	r.Output, it.handed = in.Text, in.Submission
	switch s := in.Submission; {
	case in.AbortReason != "":
		r.ExitCode, r.Aborted, r.AbortReason, r.Error = 1, true, in.AbortReason, in.AbortReason
		if strings.HasPrefix(in.AbortReason, "Budget exceeded") { // a limit of its agent
			r.AbortReason = abortedByBudget
		}
	case s == nil && in.Outcome != completed:
		r.ExitCode, r.Error = 1, in.Error
		if in.Outcome == aborted {
			r.Aborted, r.AbortReason, r.Error = true, abortedByClient, abortedByClient
		}
	case s == nil && it.schema != nil:
		r.ExitCode, r.Error = 1, "Subagent ended without submit_result"
	case s == nil:
	case s.Error != "":
		r.ExitCode, r.Aborted, r.AbortReason, r.Error = 1, true, s.Error, s.Error
	default:
		r.StructuredOutput, r.Output = s.Data, s.Text()
		if s.Unfit != "" {
			r.ExitCode, r.Error = 1, s.Unfit
		}
	}
	r.OutputMeta = &protocol.OutputMeta{LineCount: strings.Count(r.Output, "\n") + 1, CharCount: len([]rune(r.Output))}
	return r
}

// status is how an ended item is called.
func status(r *protocol.TaskResult) string {
	switch {
	case r.ExitCode == 0:
		return protocol.TaskCompleted
	case r.Aborted:
		return protocol.TaskAborted
	}
	return protocol.TaskFailed
}

// begins says whether a child works where its parent does and is about to be told of.
func (it *item) begins() bool {
	switch it.state.(type) {
	case itemAsking, itemOpening:
		return !it.isolated
	default:
		return false
	}
}

// progress is what clients are shown of an item.
func (it *item) progress(now int64) protocol.TaskProgress {
	p := protocol.TaskProgress{
		Index: it.index, ID: it.id, Agent: it.agent.Name, AgentSource: it.agent.Source, Status: protocol.TaskPending,
		Task: it.told, Assignment: it.want.Assignment, Description: it.want.Description, ModelOverride: it.override,
		ResolvedModel: it.opened.Model, SessionID: it.opened.SessionID, SessionFile: it.opened.File,
	}
	p.Shows(it.activity)
	switch s := it.state.(type) {
	case itemQueued:
	case itemAsking, itemOpening, itemPreparing:
		p.Phase = "preparing"
	case itemCapturing, itemVerifying:
		p.Status, p.Phase, p.DurationMs = protocol.TaskRunning, "verifying", now-it.began
	case itemNaming, itemWaiting, itemMerging:
		p.Status, p.Phase, p.DurationMs = protocol.TaskRunning, "merging", now-it.began
	case itemRunning:
		p.Status, p.Phase, p.DurationMs = protocol.TaskRunning, "running", now-it.began
	case itemDone:
		p.Status, p.DurationMs, p.Tokens = status(&s.is), s.is.DurationMs, s.is.Tokens
	}
	return p
}

// Limits of what the result of a call shows the model, in bytes.
const (
	maxItemText = 5_000  // of the output of one item
	maxTaskText = 50_000 // of the whole
)

// taskResult is what came of a call whose items are done.
func (m *Machine) taskResult(t *tasks) protocol.ToolResult {
	details := protocol.TaskDetails{Results: make([]protocol.TaskResult, 0, len(t.items)), Usage: new(protocol.Usage)}
	for _, it := range t.items {
		r := it.state.(itemDone).is
		if m.words().pisces {
			it.inPisces(&r)
		}
		*details.Usage = details.Usage.Add(*r.Usage)
		if r.OutputPath != "" {
			details.OutputPaths = append(details.OutputPaths, r.OutputPath)
		}
		details.Results = append(details.Results, r)
	}
	return protocol.ToolResult{Content: protocol.TextContent(m.words().summary(details.Results, m.clock()-t.began)), Details: m.taskDetails(t, details)}
}

// taskDetails are details as JSON.
func (m *Machine) taskDetails(t *tasks, d protocol.TaskDetails) json.RawMessage {
	dir := m.set.Tasks.ProjectDir
	d.ProjectAgentsDir = optional(&dir)
	if t != nil {
		d.TotalDurationMs = m.clock() - t.began
	}
	return encoded(d, ownEntry*(1+len(d.Results)+len(d.Progress)))
}

func appendHead(dst []byte, r *protocol.TaskResult) []byte {
	dst = strconv.AppendQuote(append(dst, "\n<task id="...), r.ID)
	dst = strconv.AppendQuote(append(dst, " agent="...), r.Agent)
	return append(strconv.AppendQuote(append(dst, " status="...), status(r)), ">\n"...)
}

// appendResult appends what the model is told of one item.
func appendResult(dst []byte, r *protocol.TaskResult) []byte {
	line := func(before, text string) { dst = append(append(append(dst, before...), text...), '\n') }
	dst = appendHead(dst, r)
	if r.Error != "" {
		line("Error: ", cut(r.Error, maxItemText/5))
	}
	if r.Output != "" {
		line("", cut(r.Output, maxItemText))
	}
	if len(r.Output) > maxItemText && r.OutputPath != "" {
		line("The whole output: ", r.OutputPath)
	}
	dst = append(dst, workText(r)...)
	if r.ExitCode != 0 && r.SessionFile != "" {
		line("Its session: ", r.SessionFile)
	}
	return append(dst, "</task>\n"...)
}

// cut takes the middle out of a text that is longer than limit bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head := strings.ToValidUTF8(text[:limit/2], "")
	tail := strings.ToValidUTF8(text[len(text)-limit/2:], "")
	return fmt.Sprintf("%s\n[%d bytes are left out]\n%s", head, len(text)-len(head)-len(tail), tail)
}

// shortened is a result without what is kept elsewhere.
func shortened(r protocol.TaskResult) *protocol.TaskResult {
	r.Output = cut(r.Output, maxItemText)
	if len(r.StructuredOutput) > maxItemText {
		r.StructuredOutput = nil
	}
	r.Task = ""
	return &r
}
