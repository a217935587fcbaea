package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/tidwall/gjson"
)

// The checkers of this file ask for linearizability: there is one order of what
// the client asked for and what it saw happen, in which each takes effect at
// some instant between its question and its answer, that a simple model allows.
// Times are positions in the history. What was never answered, or by an answer
// that leaves it open, may have taken effect at any later instant, or not.

// linear checks the queues and the dialogs of each session of a life. Where a
// life goes on with the files of another, its queues do not begin empty: only
// those of the first are followed.
//
// The queues of a session that several clients speak to are not followed.
func linear(l life, first bool, o Options) (found []string) {
	alone := onlySpeakers(l, o)
	for _, view := range views(l) {
		if !first || o.Extended {
			break
		}
		found = append(found, linearQueues(view, alone, o)...)
	}
	for dialog, ops := range dialogOps(l, o) {
		if !porcupine.CheckOperations(dialogModel, ops) {
			found = append(found, fmt.Sprintf("linearizability: dialog %s: %s", dialog, describe(ops)))
		}
	}
	return found
}

// onlySpeakers are the sessions that no more than one client has spoken to, and
// which it is.
func onlySpeakers(l life, o Options) map[string]int {
	speaker := map[string]int{}
	for _, r := range l.records {
		if r.Kind != Command {
			continue
		}
		session := o.sessionOf(r.Conn, parseCommand(r.Line).session)
		if who, known := speaker[session]; known && who != r.Conn {
			speaker[session] = -1
		} else {
			speaker[session] = r.Conn
		}
	}
	return speaker
}

func linearQueues(l life, alone map[string]int, o Options) (found []string) {
	for session, ops := range queueOps(l) {
		if alone[o.sessionOf(l.of, session)] != l.of {
			continue
		}
		if !porcupine.CheckOperations(queueModel, ops) {
			found = append(found, fmt.Sprintf("linearizability: the queues of session %q: %s", session, describe(ops)))
		}
	}
	return found
}

func describe(ops []porcupine.Operation) string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, fmt.Sprintf("[%d,%d] %+v → %+v", op.Call, op.Return, op.Input, op.Output))
	}
	return "\n\t" + strings.Join(lines, "\n\t")
}

// Model A: the queues of a session.

// queues is its state.
type queues struct {
	steering, followUp []string
	direct             []string // accepted and begun, not seen yet
	done               int      // how many commands have taken effect
}

func (q queues) clone() queues {
	return queues{slices.Clone(q.steering), slices.Clone(q.followUp), slices.Clone(q.direct), q.done}
}

// asks is an operation of the client. Those of one session take effect in the
// order in which they were sent, which is more than linearizability asks for;
// n counts them, -1 for one that was sent several times under one key.
type asks struct {
	n  int
	op any
}

// say is a message that a client sent; its outcome is "queued", "started",
// "accepted" for one of these, or "unknown". A refused one is no operation.
type say struct{ class, text string }

// deliver is a message that became part of the conversation.
type deliver struct{ text string }

// clearAll empties the queues; its outcome is what was in them.
type clearAll struct{}

// count is how many wait.
type count struct{}

var queueModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{queues{}} },
	Step: func(state, input, output any) []any {
		q := state.(queues)
		if in, ok := input.(asks); ok {
			if input = in.op; in.n >= 0 {
				if in.n != q.done {
					return nil
				}
				q.done++
			}
		}
		switch in := input.(type) {
		case say:
			return q.say(in, output.(string))
		case deliver:
			return q.deliver(in.text)
		case clearAll:
			if got := output.(queues); slices.Equal(got.steering, q.steering) && slices.Equal(got.followUp, q.followUp) {
				return []any{queues{direct: q.direct, done: q.done}}
			}
		case count:
			if output.(int) == len(q.steering)+len(q.followUp) {
				return []any{q}
			}
		}
		return nil
	},
	Equal: func(a, b any) bool {
		x, y := a.(queues), b.(queues)
		return x.done == y.done && slices.Equal(x.steering, y.steering) && slices.Equal(x.followUp, y.followUp) && slices.Equal(x.direct, y.direct)
	},
}).ToModel()

func (q queues) say(in say, outcome string) (next []any) {
	queued := func(class string) {
		n := q.clone()
		if class == "followUp" {
			n.followUp = append(n.followUp, in.text)
		} else {
			n.steering = append(n.steering, in.text)
		}
		next = append(next, n)
	}
	started := func() {
		n := q.clone()
		n.direct = append(n.direct, in.text)
		slices.Sort(n.direct)
		next = append(next, n)
	}
	switch outcome {
	case "queued":
		queued(in.class)
	case "started":
		started()
	case "accepted": // queue_message does not say
		queued(in.class)
		started()
	default:
		next = append(next, q)
		queued(in.class)
		started()
	}
	return next
}

func (q queues) deliver(text string) (next []any) {
	n := q.clone()
	if i, ok := slices.BinarySearch(n.direct, text); ok {
		n.direct = slices.Delete(n.direct, i, i+1)
		return []any{n}
	}
	switch {
	case len(q.steering) > 0 && q.steering[0] == text:
		n.steering = n.steering[1:]
	case len(q.steering) == 0 && len(q.followUp) > 0 && q.followUp[0] == text: // steering goes first
		n.followUp = n.followUp[1:]
	default:
		return nil
	}
	return []any{n}
}

// queueOps reads the operations of each session, up to where the client loses
// sight of it, another takes its place under the same handle, or it crashes:
// what was delivered just then is in the file, but was not shown.
func queueOps(l life) map[string][]porcupine.Operation {
	r := &queueReader{
		ops: map[string][]*porcupine.Operation{}, asked: map[string]*porcupine.Operation{}, of: map[string]string{},
		said: map[string]*porcupine.Operation{}, keys: map[string]*porcupine.Operation{}, over: map[string]bool{},
		repeated: map[*porcupine.Operation]bool{}, seen: map[*porcupine.Operation]bool{},
	}
	for i, rec := range l.records {
		switch rec.Kind {
		case Command:
			r.command(int64(i), parseCommand(rec.Line))
		case Output:
			if v := gjson.Parse(rec.Line); isResponse(v) {
				r.response(int64(i), v)
			} else {
				r.event(int64(i), v)
			}
		}
	}
	all := map[string][]porcupine.Operation{}
	for session := range r.ops {
		all[session] = r.compile(session, int64(len(l.records)))
	}
	return all
}

// compile numbers the operations of a session. What nobody heard the outcome of
// is open until the end.
func (r *queueReader) compile(session string, end int64) (ops []porcupine.Operation) {
	n, open := 0, 0
	for _, op := range r.ops[session] {
		switch op.Input.(type) {
		case deliver:
			ops = append(ops, *op)
			continue
		case say:
			if op.Output == "refused" || op.Output == nil && !r.seen[op] {
				continue // the process died before it said anything that came after it
			}
			if op.Return == 0 {
				op.Return, op.Output = end, "unknown"
				if open++; open > mostOpen {
					return nil
				}
			}
		default:
			if op.Return == 0 {
				continue // nothing was heard after it
			}
		}
		number := -1
		if !r.repeated[op] {
			number = n
			n++
		}
		op.Input = asks{number, op.Input}
		ops = append(ops, *op)
	}
	return ops
}

// mostOpen bounds the operations with an open outcome: each triples what the
// model has to consider. A session with more is left to the other checkers.
const mostOpen = 6

type queueReader struct {
	ops   map[string][]*porcupine.Operation // by session
	asked map[string]*porcupine.Operation   // by command id
	of    map[string]string                 // the session of a command id
	said  map[string]*porcupine.Operation   // by session and text
	keys  map[string]*porcupine.Operation   // by session and idempotency key
	over  map[string]bool                   // sessions that are not followed further

	repeated map[*porcupine.Operation]bool // those sent several times under one key
	seen     map[*porcupine.Operation]bool // those whose message was delivered
}

func (r *queueReader) command(i int64, c command) {
	switch c.kind {
	case "new_session", "switch_session", "fork", "branch", "clone", "navigate_tree", "close_session", "detach":
		r.over[c.session] = true
	}
	if r.over[c.session] || c.id == "" {
		return
	}
	op := &porcupine.Operation{Call: i}
	switch class := classOf(c); {
	case class != "":
		if class == "queue" {
			class = "steer"
		}
		text := c.raw.Get("message").Str
		key := c.session + " " + c.raw.Get("idempotencyKey").Str
		if c.raw.Get("idempotencyKey").Exists() {
			if first := r.keys[key]; first != nil { // takes effect once, whichever of them does it
				r.asked[c.id], r.of[c.id] = first, c.session
				r.repeated[first] = true
				return
			}
			r.keys[key] = op
		}
		op.Input = say{class, text}
		r.said[c.session+" "+text] = op
	case c.kind == "clear_queue":
		op.Input = clearAll{}
	case c.kind == "get_state":
		op.Input = count{}
	default:
		return
	}
	r.asked[c.id], r.of[c.id] = op, c.session
	r.ops[c.session] = append(r.ops[c.session], op)
}

func (r *queueReader) response(i int64, v gjson.Result) {
	id := v.Get("id").Raw
	if state := v.Get("data.state"); state.Get("pendingMessageCount").Int() > 0 {
		r.over[v.Get("data.sessionId").Str] = true // an old file's queue
	}
	op, ok := r.asked[id]
	if !ok || r.over[r.of[id]] || op.Return != 0 && op.Output != "refused" { // refused once, it may be sent again
		return
	}
	success, code := v.Get("success").Bool(), v.Get("code").Str
	if code == "internal" || code == "session_failed" {
		r.over[r.of[id]] = true
	}
	switch op.Input.(type) {
	case say:
		switch {
		case success && v.Get("command").Str == "queue_message":
			op.Output, op.Return = "accepted", i
		case success && v.Get("data.disposition").Str == "queued":
			op.Output, op.Return = "queued", i
		case success:
			op.Output, op.Return = "started", i
		case code != "internal" && code != "session_failed":
			op.Output, op.Return = "refused", i
		default:
			op.Output = "unknown"
		}
	case clearAll:
		if success {
			op.Output, op.Return = queues{steering: texts(v.Get("data.steering")), followUp: texts(v.Get("data.followUp"))}, i
		} else {
			r.forget(op, r.of[id])
		}
	case count:
		if success {
			op.Output, op.Return = int(v.Get("data.pendingMessageCount").Int()), i
		} else {
			r.forget(op, r.of[id])
		}
	}
}

func (r *queueReader) forget(op *porcupine.Operation, session string) {
	r.ops[session] = slices.DeleteFunc(r.ops[session], func(x *porcupine.Operation) bool { return x == op })
}

// event sees deliveries. A message that nobody sent is another checker's
// matter.
func (r *queueReader) event(i int64, v gjson.Result) {
	session := handleOf(v)
	if v.Get("outcome").Str == "interrupted" {
		r.over[session] = true
	}
	if v.Get("type").Str != "message_start" || v.Get("message.role").Str != "user" || r.over[session] {
		return
	}
	text := textOf(v.Get("message.content"))
	if sent := r.said[session+" "+text]; sent != nil {
		r.seen[sent] = true
		r.ops[session] = append(r.ops[session], &porcupine.Operation{Input: deliver{text}, Call: sent.Call, Return: i})
	}
}

func texts(list gjson.Result) (all []string) {
	for _, t := range list.Array() {
		all = append(all, t.Str)
	}
	return all
}

// Model C: a dialog that asks for consent to a tool call.

type dialogOp string

const (
	asked    dialogOp = "ask"
	answered dialogOp = "answer yes"
	denied   dialogOp = "answer no"
	ran      dialogOp = "run"
	ended    dialogOp = "end of the call"
)

var dialogModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{"none"} },
	Step: func(state, input, _ any) []any {
		switch s := state.(string); input.(dialogOp) {
		case asked:
			if s == "none" {
				return []any{"open"}
			}
		case answered, denied:
			switch {
			case s != "open": // too early or too late: it changes nothing
				return []any{s}
			case input == denied:
				return []any{"no", s}
			default:
				return []any{"yes", s} // s: its session crashed over it
			}
		case ran:
			if s == "yes" {
				return []any{"used"}
			}
		case ended:
			if s != "none" {
				return []any{"over"}
			}
		}
		return nil
	},
}).ToModel()

func dialogOps(l life, o Options) map[string][]porcupine.Operation {
	all := map[string][]porcupine.Operation{}
	calls := map[string]string{} // dialog by tool call
	seenBy := map[string]int{}   // the connection that saw the dialog first
	came := map[string]bool{}    // by connection and session: it has attached since it saw a dialog of it
	over := map[string]bool{}    // by connection, session and tool call: it saw the end of the call
	for i, r := range l.records {
		at := int64(i)
		switch r.Kind {
		case Command:
			c := parseCommand(r.Line)
			dialog := o.sessionOf(r.Conn, c.session) + "/" + c.raw.Get("id").Str
			if c.kind != "extension_ui_response" || all[dialog] == nil {
				continue
			}
			op := denied
			if c.raw.Get("confirmed").Bool() && !c.raw.Get("cancelled").Bool() {
				op = answered
			}
			all[dialog] = append(all[dialog], porcupine.Operation{Input: op, Call: at, Return: int64(len(l.records))})
		case Output:
			v := gjson.Parse(r.Line)
			session := o.sessionOf(r.Conn, handleOf(v))
			client := fmt.Sprint(r.Conn, " ", session)
			switch call := v.Get("toolCallId").Str; v.Get("type").Str {
			case "response":
				if v.Get("command").Str == "attach" && v.Get("success").Bool() {
					came[client] = true
				}
			case "extension_ui_request":
				if v.Get("method").Str == "confirm" && call != "" {
					dialog := session + "/" + v.Get("id").Str
					if first, seen := seenBy[dialog]; seen && (first != r.Conn || came[client] && !over[client+call]) {
						break // the same, shown to another client, or again to one that left and came back
					}
					seenBy[dialog], came[client] = r.Conn, false
					calls[call] = dialog
					all[dialog] = append(all[dialog], porcupine.Operation{Input: asked, Call: at, Return: at})
				}
			case "tool_execution_end":
				over[client+call] = true
				if dialog := calls[call]; dialog != "" {
					all[dialog] = append(all[dialog], porcupine.Operation{Input: ended, Call: at, Return: at})
					delete(calls, call)
				}
			}
		case Ran:
			if dialog := calls[r.Line]; dialog != "" {
				all[dialog] = append(all[dialog], porcupine.Operation{Input: ran, Call: at, Return: at})
			}
		}
	}
	return all
}

// Model B: the lease of a session file among processes.

// LeaseOp is something that a process does about one session file.
type LeaseOp struct {
	Path string
	Who  string // the process
	Do   string // "open", "close", or "crash": the process was killed
}

// Leases says whether opens, closes and crashes are linearizable: a file has at
// most one owner, it is refused only while it has one, and the death of its
// owner frees it. The output of an open is whether it succeeded; Call and Return
// are the times of asking and hearing.
func Leases(ops []porcupine.Operation) bool {
	return porcupine.CheckOperations(porcupine.Model{
		Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
			byPath := map[string][]porcupine.Operation{}
			for _, op := range all {
				path := op.Input.(LeaseOp).Path
				byPath[path] = append(byPath[path], op)
			}
			for _, part := range byPath {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			owner, op := state.(string), input.(LeaseOp)
			switch op.Do {
			case "open":
				if opened := output.(bool); opened {
					return owner == "", op.Who
				}
				return owner != "", owner
			case "close":
				return owner == op.Who, ""
			default:
				if owner == op.Who {
					owner = ""
				}
				return true, owner
			}
		},
	}, ops)
}
