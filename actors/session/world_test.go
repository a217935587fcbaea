package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
	gates, _ := protocol.DialectUnion.Gates()
	return Settings{
		Gates: gates, SteeringMode: protocol.QueueOneAtATime, FollowUpMode: protocol.QueueOneAtATime,
		InterruptMode: protocol.InterruptImmediate, AutoRetry: true, MaxRetries: 3, AutoCompaction: true, ReserveTokens: 16384,
		Model: modelA, Level: protocol.ThinkingOff, Tools: []string{"read", "bash"},
		KnownTools: []string{"read", "bash", "edit", "write", "grep", "find", "ls"},
	}
}

// world performs a machine's effects in the plainest way: the log is a slice,
// the wire is a slice, answers are counted.
type world struct {
	m        *Machine
	set      Settings
	now      int64
	log      []protocol.Entry
	wire     []protocol.Event
	brackets Brackets
	answers  map[uint64]int
	owed     []uint64 // commands sent, in order
	seq      uint64
	session  int // sessions seen, for ids

	streams, tools []int // what the outside still works on: epochs
	calls          map[string]StartTool
	cancelled      map[int]bool // epochs cancelled
	retryRun       int          // epoch of a scheduled retry, 0 none
	bash           []int
	dialogs        []string
	prepares       []Prepare
	swaps          []uint64
	reconf         []uint64
	lookups        []uint64
	summaries      []Summarise
	closed         int
	last           []Effect // of the latest step
	failAt         int      // index of an Append that fails, -1 none
	dieAt          int      // index of an effect with which the actor crashes, -1 none
	dead           bool     // it has
	file           bool     // the session has one: until then nothing can fail
}

func newWorld(set Settings) *world {
	w := &world{set: set, answers: map[uint64]int{}, calls: map[string]StartTool{}, cancelled: map[int]bool{}, failAt: -1, dieAt: -1}
	w.m = New()
	w.step(Restored{Session: w.load(), Settings: set})
	return w
}

func (w *world) load() Loaded {
	l := fold(w.log)
	l.SessionID = fmt.Sprintf("session-%d", w.session)
	if !w.set.Ephemeral {
		l.File, l.Durability = fmt.Sprintf("/sessions/%d.jsonl", w.session), "process"
	} else {
		l.Durability = "none"
	}
	return l
}

// step feeds one input and performs its effects.
func (w *world) step(in Input) []Effect {
	if w.dead {
		return nil
	}
	w.now += 1000
	effects := slices.Clone(w.m.Step(w.now, in))
	w.last = effects
	failAt := w.failAt
	w.failAt = -1
	for i, e := range effects {
		if a, isAppend := e.(Append); isAppend && failAt >= 0 && (a.Durable || w.file) {
			if failAt == 0 {
				after := w.step(AppendFailed{Index: i, Err: fmt.Errorf("disk full"), Open: w.brackets})
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
	return effects
}

// die is a crash of the actor between two effects. Entries that are written
// together with one that was may be in the log.
func (w *world) die(rest []Effect) {
	w.dieAt, w.dead = -1, true
	for _, e := range rest {
		switch e := e.(type) {
		case Append:
			w.log = append(w.log, reread(e.Entry))
		case Emit, Reply:
		default:
			return
		}
	}
}

// reread is what a session file gives back of an entry: the next life knows no
// more than that.
func reread(e protocol.Entry) protocol.Entry {
	r, err := protocol.DecodeRecord(protocol.Record{Entry: e}.AppendJSON(nil))
	if err != nil {
		panic(err)
	}
	return r.Entry
}

func (w *world) perform(e Effect) {
	switch e := e.(type) {
	case Append:
		w.log, w.file = append(w.log, reread(e.Entry)), w.file || e.Durable
	case Reply:
		w.answers[e.Seq]++
	case Answer:
		w.answers[e.Seq]++
	case Summarise:
		w.summaries = append(w.summaries, e)
	case LookUp:
		w.lookups = append(w.lookups, e.Seq)
	case ResolveUI:
		w.answers[e.Seq]++
	case Quiet:
		w.answers[e.Seq]++
	case Emit:
		w.brackets.Note(e.Event)
		w.wire = append(w.wire, e.Event)
	case StartStream:
		w.streams = append(w.streams, e.Run)
	case StartTool:
		w.tools = append(w.tools, e.Run)
		w.calls[e.Call.ID] = e
	case CancelRun:
		w.cancelled[e.Run] = true
		w.summaries = slices.DeleteFunc(w.summaries, func(s Summarise) bool { return s.Run == e.Run })
		w.streams = slices.DeleteFunc(w.streams, func(r int) bool { return r == e.Run })
		for id, c := range w.calls {
			if c.Run == e.Run {
				delete(w.calls, id)
			}
		}
	case StartBash:
		w.bash = append(w.bash, e.Job)
	case CancelBash:
	case ScheduleRetry:
		w.retryRun = e.Run
	case CancelRetry:
		w.retryRun = 0
	case AskUI:
		w.dialogs = append(w.dialogs, e.ID)
	case CancelUI:
		w.dialogs = slices.DeleteFunc(w.dialogs, func(id string) bool { return id == e.ID })
	case Prepare:
		w.prepares = append(w.prepares, e)
	case Swap:
		w.swaps = append(w.swaps, e.Seq)
	case Discard:
	case Reconfigure:
		w.reconf = append(w.reconf, e.Seq)
	case Closed:
		w.closed++
	}
}

// send gives a command its number and feeds it.
func (w *world) send(cmd protocol.Command) []Effect {
	w.seq++
	w.owed = append(w.owed, w.seq)
	return w.step(Command{Seq: w.seq, Name: nameOf(cmd), Cmd: cmd, Catalog: catalog})
}

func nameOf(cmd protocol.Command) string {
	for _, s := range protocol.Commands {
		if fmt.Sprintf("%T", cmd) == s.Params.String() {
			return s.Name
		}
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", cmd), "protocol."))
}

// swapDone performs a pending swap: the other session's log takes this one's
// place.
func (w *world) swapDone(to []protocol.Entry) {
	seq := w.swaps[0]
	w.swaps = w.swaps[1:]
	w.log, w.file = to, len(to) > 0
	w.dieAt = -1 // what was shown of another log cannot be judged any more
	w.step(Swapped{Seq: seq})
}

// crash loses the machine and everything it had started, and begins anew from
// the log, as the shell does.
func (w *world) crash() []Effect {
	w.dead = false
	vitals := w.m.Vitals()
	w.m = New()
	w.streams, w.tools, w.bash, w.dialogs, w.prepares, w.swaps, w.lookups, w.summaries = nil, nil, nil, nil, nil, nil, nil, nil
	clear(w.calls)
	w.retryRun = 0
	for _, seq := range w.owed { // the ledger answers for the dead
		if w.answers[seq] == 0 {
			w.answers[seq]++
		}
	}
	return w.step(Restored{Session: w.load(), Settings: w.set, Vitals: &vitals, Open: w.brackets})
}

// messagesFrom counts the messages from an entry on.
func messagesFrom(log []protocol.Entry, id string) int {
	n, from := 0, false
	for i, e := range log {
		from = from || fmt.Sprintf("e%d", i) == id
		if _, ok := e.(protocol.MessageEntry); ok && from {
			n++
		}
	}
	return n
}

// fold reads a log in the plainest way. It is the twin of what the store
// computes on load.
func fold(log []protocol.Entry) Loaded {
	var l Loaded
	var queue []Queued
	var held []Held
	var last *protocol.AssistantMessage
	answered := map[string]bool{}
	open := false // the branch ends inside a run
	for i, e := range log {
		l.LeafID = fmt.Sprintf("e%d", i)
		switch e := e.(type) {
		case protocol.ModelChange:
			l.Model = catalog.Find(e.Provider, e.ModelID)
		case protocol.ThinkingLevelChange:
			l.Level, l.HasLevel = e.ThinkingLevel, true
		case protocol.SessionInfo:
			l.Name = e.Name
		case protocol.Compaction:
			l.MessageCount = 1 + messagesFrom(log[:i], e.FirstKeptEntryID)
		case protocol.BranchSummary:
			l.MessageCount++
		case protocol.ContextEdit:
			l.MessageCount--
		case protocol.CustomMessageEntry:
			l.MessageCount++
		case protocol.MessageEntry:
			l.MessageCount++
			queue = slices.DeleteFunc(queue, func(q Queued) bool { return q.ID == e.QueueID })
			held = slices.DeleteFunc(held, func(h Held) bool { return h.ID == e.QueueID })
			if e.Key.Key != "" {
				l.Keys = append(l.Keys, SeenKey{e.Key, "started"})
			}
			l.Last = e.Message
			switch msg := e.Message.(type) {
			case *protocol.AssistantMessage:
				last, open = msg, msg.StopReason == protocol.StopToolUse
				clear(answered)
			case *protocol.ToolResultMessage:
				answered[msg.ToolCallID] = true
				open = true
			case *protocol.UserMessage:
				open = true
			}
		case protocol.Custom:
			if e.CustomType == protocol.CustomQueue {
				var op protocol.QueueOp
				if err := json.Unmarshal(e.Data, &op); err != nil {
					panic(err)
				}
				switch {
				case op.Op == "remove":
					queue = slices.DeleteFunc(queue, func(q Queued) bool { return slices.Contains(op.IDs, q.ID) })
				case op.Kind == protocol.QueueBash:
					msg, err := protocol.DecodeMessage(op.Message)
					if err != nil {
						panic(err)
					}
					held = append(held, Held{op.ID, msg.(*protocol.BashExecutionMessage)})
				default:
					queue = append(queue, Queued{ID: op.ID, Kind: op.Kind, Text: op.Text, Images: op.Images, Key: op.Key.Key})
					if op.Key.Key != "" {
						l.Keys = append(l.Keys, SeenKey{op.Key, "queued"})
					}
				}
				fmt.Sscanf(op.ID, "q%d", &l.LastQueueID)
			}
		}
	}
	if last != nil {
		for _, c := range last.Content.ToolCalls() {
			if !answered[c.ID] && last.StopReason != protocol.StopAborted && last.StopReason != protocol.StopError {
				l.Unanswered = append(l.Unanswered, Unanswered{c, len(l.Unanswered) == 0})
			}
		}
	}
	l.Queue, l.Held = queue, held
	l.Interrupted = open
	return l
}
