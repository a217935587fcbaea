package core

import (
	"fmt"
	"slices"
	"strings"

	"troupe/actors/core/logtwin"
	"troupe/protocol"
)

var (
	modelA = &protocol.Model{
		ID: "m1", Name: "m1", API: "fake", Provider: "acme", Input: []string{"text", "image"},
		ContextWindow: 100_000, MaxTokens: 4096, Cost: protocol.ModelCost{Input: 3, Output: 15},
	}
	modelB = &protocol.Model{
		ID: "think", Name: "think", API: "fake", Provider: "acme", Reasoning: true, Input: []string{"text"},
		ContextWindow: 200_000, MaxTokens: 8192,
	}
	modelC  = &protocol.Model{ID: "nokey", Name: "nokey", API: "fake", Provider: "locked", Input: []string{"text"}}
	catalog = &protocol.Catalog{
		Models: []*protocol.Model{modelA, modelB, modelC},
		Keys:   map[string]bool{"acme": true},
	}
)

func defaults() Settings {
	_, rules, _ := protocol.DialectUnion.Open()
	return Settings{
		Rules: rules, MaxRetries: 3, ReserveTokens: 16384,
		Modes: Modes{
			SteeringMode: protocol.QueueOneAtATime, FollowUpMode: protocol.QueueOneAtATime,
			InterruptMode: protocol.InterruptImmediate, AutoRetry: true, AutoCompaction: true,
		},
		Model: modelA, Level: protocol.ThinkingOff, Tools: []string{"read", "bash"},
		KnownTools: []protocol.ToolInfo{
			{Name: "read"}, {Name: "bash", Aborted: "Command aborted"}, {Name: "edit"}, {Name: "write"}, {Name: "grep"}, {Name: "find"}, {Name: "ls"}, {Name: TodoTool},
		},
	}
}

// world performs a machine's effects in the plainest way: the log is a slice,
// the wire is a slice, answers are counted.
type world struct {
	m       *Machine
	set     Settings
	now     int64
	log     []protocol.Entry
	wire    []protocol.Event
	spans   OpenSpans
	answers map[uint64]int
	owed    []uint64 // commands sent, in order
	seq     uint64
	session int // sessions seen, for ids
	logs    int // that have taken the place of another one

	// what the outside still works on
	bash        []int
	dialogs     []string
	loads       []LoadSession
	activations []uint64
	slowQueries []uint64
	caused      []Input // by effects: handled before anything else
	asked       int     // entries in the log when the latest summary was asked for
	summaries   []Summarise
	children    []StartChild    // that were asked for
	hooks       []CallHook      // that extensions have not answered
	allowed     map[string]bool // calls that they let through; nil if nobody counts
	judges      []Judge         // that the permission rules have not answered
	approvals   map[string]protocol.ApprovalRequest
	permitted   map[string]bool // calls that rules or a client let through; nil if nobody counts
	closed      int
	last        []Effect                                          // of the latest step
	failAt      int                                               // index of an Append that fails, -1 none
	dieAt       int                                               // index of an effect with which the actor crashes, -1 none
	dead        bool                                              // it has
	file        bool                                              // the session has one: until then nothing can fail
	issued      int                                               // ids, in this step
	done        func(Effect)                                      // hears of every effect that is performed; nil for nobody
	watch       func(was protocol.BudgetReason, effects []Effect) // sees every step, and what the budget was before; nil for nobody
}

// NewID is the id that the next entry gets: the world's log numbers them.
func (w *world) NewID() string {
	w.issued++
	return entryID(len(w.log) + w.issued - 1)
}

// Has finds an entry by its number.
func (w *world) Has(id string) bool {
	return slices.ContainsFunc(w.records(), func(r protocol.Record) bool { return r.ID == id })
}

// ids numbers entries of a log that nobody reads.
type ids struct{ n int }

func (i *ids) NewID() string {
	i.n++
	return entryID(i.n)
}

func (*ids) Has(string) bool { return false }

func newWorld(set Settings) *world {
	w := &world{set: set, answers: map[uint64]int{}, failAt: -1, dieAt: -1}
	w.m = New()
	w.step(Restored{Session: w.load(), Settings: set})
	return w
}

// load reads the log, as the shell does.
func (w *world) load() Loaded {
	l := Loaded{Identity: Identity{SessionID: fmt.Sprintf("session-%d", w.session), Durability: "none"}}
	if !w.set.Ephemeral {
		l.File, l.Durability = fmt.Sprintf("/sessions/%d.jsonl", w.session), "process"
	}
	if n := len(w.log); n > 0 {
		l.LeafID = entryID(n - 1)
	}
	for i, e := range w.log {
		if _, own := e.(protocol.Custom); !own {
			l.ShownLeaf = entryID(i)
		}
	}
	l.Resume = logtwin.Resume(w.records(), l.LeafID)
	l.Spent = logtwin.Spent(w.records())
	for _, e := range w.log {
		if e, ok := e.(protocol.ModelChange); ok {
			l.Model = catalog.Find(e.Provider, e.ModelID)
		}
	}
	return l
}

func entryID(i int) string { return fmt.Sprintf("e%d", i) }

// records is the log as a file has it.
func (w *world) records() (list []protocol.Record) {
	parent := ""
	for i, e := range w.log {
		id := entryID(i)
		list = append(list, protocol.Record{EntryMeta: protocol.EntryMeta{ID: id, ParentID: parent}, Entry: e})
		parent = id
	}
	return list
}

// write adds an entry to the log, which gives back of it what a session file
// does: the next life knows no more than that.
func (w *world) write(e protocol.Entry) {
	r, err := protocol.DecodeRecord(protocol.Record{Entry: e}.AppendJSON(nil))
	if err != nil {
		panic(err)
	}
	w.log = append(w.log, r.Entry)
}

// step feeds one input and performs its effects.
func (w *world) step(in Input) []Effect {
	if w.dead {
		return nil
	}
	w.now += 1000
	w.issued = 0
	was := w.m.overBudget()
	effects := slices.Clone(w.m.Step(w.now, w, in))
	w.last = effects
	if w.watch != nil {
		w.watch(was, effects)
	}
	failAt := w.failAt
	w.failAt = -1
	for i, e := range effects {
		if a, isAppend := e.(Append); isAppend && failAt >= 0 && (a.Durable || w.file) {
			if failAt == 0 {
				after := w.step(Reloaded{Session: w.load(), Open: w.spans, Err: fmt.Errorf("disk full"), Undone: i})
				w.last = append(slices.Clone(effects[:i]), after...)
				return w.last
			}
			failAt--
		}
		w.perform(e)
		if i == w.dieAt {
			w.die(effects[i+1:])
			return effects
		}
	}
	for len(w.caused) > 0 {
		in := w.caused[0]
		w.caused = w.caused[1:]
		effects = append(effects, w.step(in)...)
		w.last = effects
	}
	return effects
}

// die is a crash of the actor between two effects. Entries that are written
// together with one that was may be in the log.
func (w *world) die(rest []Effect) {
	w.dieAt, w.dead = -1, true
	for _, e := range rest {
		switch e := e.(type) {
		case Append:
			w.write(e.Entry)
		case Emit, Reply:
		default:
			return
		}
	}
}

func (w *world) perform(e Effect) {
	if w.done != nil {
		w.done(e)
	}
	switch e := e.(type) {
	case Append:
		if e.ID != entryID(len(w.log)) {
			panic("the entry has the id of another: " + e.ID)
		}
		w.write(e.Entry)
		w.file = w.file || e.Durable
	case Reply:
		w.answers[e.Seq]++
	case Query:
		w.answers[e.Seq]++
	case Summarise:
		w.summaries, w.asked = append(w.summaries, e), len(w.log)
	case SlowQuery:
		w.slowQueries = append(w.slowQueries, e.Seq)
	case ResolveUI:
		w.answers[e.Seq]++
	case NoReply:
		w.answers[e.Seq]++
	case LookUp:
		e.Command.LookedUp = w.lookUp(e.Command.Cmd)
		w.caused = append(w.caused, e.Command)
	case Emit:
		w.spans.Observe(e.Event)
		w.wire = append(w.wire, e.Event)
	case Cancel:
		w.summaries = slices.DeleteFunc(w.summaries, func(s Summarise) bool { return s.Attempt == e.Attempt })
	case StartBash:
		w.bash = append(w.bash, e.Job)
	case AskUI:
		w.dialogs = append(w.dialogs, e.Request.ID)
		if e.Approval != nil && w.approvals != nil {
			w.approvals[e.Request.ID] = *e.Approval
		}
	case Judge:
		w.judges = append(w.judges, e)
	case CancelUI:
		w.dialogs = slices.DeleteFunc(w.dialogs, func(id string) bool { return id == e.ID })
	case LoadSession:
		w.loads = append(w.loads, e)
	case ActivateSession:
		w.activations = append(w.activations, e.Seq)
	case Closed:
		w.closed++
	case CallHook:
		w.hooks = append(w.hooks, e)
	case CancelHook:
		w.hooks = slices.DeleteFunc(w.hooks, func(h CallHook) bool { return h.ID == e.ID })
		w.judges = slices.DeleteFunc(w.judges, func(j Judge) bool { return j.ID == e.ID })
	case StartTool:
		if w.permitted != nil && !w.permitted[e.Call.ID] {
			panic("P1: a call ran that nobody has permitted: " + e.Call.ID)
		}
		if w.allowed != nil && w.set.Extensions.Listens.Has(HookToolCall) && !w.allowed[e.Call.ID] {
			panic("X8: a call ran that the gate has not seen: " + e.Call.ID)
		}
	case StartChild:
		w.children = append(w.children, e)
	case TellChild, CloseChild, AskGrant, ReportSpent, AnswerGrant, LimitChild:
	case StartStream, ScheduleRetry, CancelBash, DropLoaded, Reconfigure, RunCommand, SetTimer, CancelTimer:
	}
}

// send gives a command its number and feeds it.
func (w *world) send(cmd protocol.Command) []Effect {
	w.seq++
	w.owed = append(w.owed, w.seq)
	return w.step(Command{Seq: w.seq, Name: nameOf(cmd), Cmd: cmd, LookedUp: w.lookUp(cmd)})
}

// lookUp finds what the shell finds for a command at this moment. /ext is a command of an extension.
func (w *world) lookUp(cmd protocol.Command) LookedUp {
	l := LookedUp{Catalog: catalog, Found: found(w.m, cmd)}
	if _, limits := cmd.(protocol.SetBudget); limits && w.m.Unlimited() {
		l.Spent = logtwin.Spent(w.records())
	}
	if said, is := cmd.(protocol.Expandable); is {
		l.Slash = strings.HasPrefix(said.Text(), "/")
		if args, is := strings.CutPrefix(said.Text(), "/ext "); is {
			l.Extension = &ExtensionCommand{Name: "ext", Args: args}
		}
	}
	return l
}

// found looks up the model that a command is about, as the shell does.
func found(m *Machine, cmd protocol.Command) *protocol.Model {
	if set, ok := cmd.(protocol.SetModel); ok {
		return catalog.Find(set.Provider, set.ModelID)
	}
	if m.model != nil {
		return catalog.Find(m.model.Provider, m.model.ID)
	}
	return nil
}

func nameOf(cmd protocol.Command) string {
	for _, s := range protocol.Commands {
		if fmt.Sprintf("%T", cmd) == s.Params.String() {
			return s.Name
		}
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", cmd), "protocol."))
}

// activated performs a pending activation: the other session's log, or that of
// the other branch, takes this one's place.
func (w *world) activated(to []protocol.Entry) {
	seq := w.activations[0]
	w.activations = w.activations[1:]
	w.moveTo(to)
	w.dieAt = -1 // what was shown of another log cannot be judged any more
	l := w.load()
	w.step(SessionActivated{Seq: seq, To: &l})
}

func (w *world) moveTo(log []protocol.Entry) {
	w.logs++
	w.log, w.file = log, len(log) > 0
	if _, ok := w.m.activity.(*activating); ok {
		if _, isNav := w.m.swap.navigation(); !isNav {
			w.session++
		}
	}
}

// restart is the end of the process, at any moment, and a new one that opens the file: its
// clients have heard nothing of the old one.
func (w *world) restart() []Effect {
	w.lose()
	w.wire, w.spans = nil, OpenSpans{}
	clear(w.allowed)
	clear(w.permitted)
	clear(w.approvals)
	return w.step(Restored{Session: w.load(), Settings: w.set})
}

// failover is a restart on another node, which has lost the one before.
func (w *world) failover(stop bool, cwd string, older bool) []Effect {
	w.lose()
	w.wire, w.spans = nil, OpenSpans{}
	clear(w.allowed)
	clear(w.permitted)
	clear(w.approvals)
	return w.step(Restored{Session: w.load(), Settings: w.set, Failover: &Failover{From: "w1", Stop: stop, Cwd: cwd, Saved: older, Older: older}})
}

// crash loses the machine and everything it had started, and begins anew from
// the log, as the shell does.
func (w *world) crash() []Effect {
	carryover := w.m.Carryover()
	w.lose()
	return w.step(Restored{Session: w.load(), Settings: w.set, Carryover: &carryover, Open: w.spans})
}

func (w *world) lose() {
	w.dead = false
	w.m = New()
	w.bash, w.dialogs, w.loads, w.activations, w.slowQueries, w.summaries, w.caused = nil, nil, nil, nil, nil, nil, nil
	w.hooks, w.judges = nil, nil
	for _, seq := range w.owed { // the ledger answers for the dead
		if w.answers[seq] == 0 {
			w.answers[seq]++
		}
	}
}
