package extension

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	words "troupe/protocol/extension"
	"troupe/tools/extension/quick"
)

// callKey names what is under way.
type callKey struct {
	kind string // tell, call, tool, command, prepare
	id   uint64
}

// heldCall is a call that waits until everything is loaded.
type heldCall struct {
	key callKey
	do  func()
}

type call struct {
	event string
	born  int
	limit time.Duration // of its handlers; 0 is none
	due   time.Time     // when it is looked at
	grace bool          // it was busy when its time was over
}

// finish answers a call that will have no result.
func (v *vm) finish(k callKey, why string) {
	switch k.kind {
	case "tell":
		if k.id > 0 {
			v.sink(words.Told{N: k.id})
		}
	case "call":
		v.sink(words.Done{ID: k.id, Err: why})
	case "prepare":
		v.sink(words.Prepared{ID: k.id, Err: why})
	case "tool":
		v.sink(words.ToolDone{ID: k.id, Result: json.RawMessage(`{"content":[{"type":"text","text":` + quoted(why) + `}]}`), IsError: true})
	case "command":
		v.sink(words.CommandDone{ID: k.id, Err: why})
	}
}

// interrupted says which handler was cut short, and ends what waits for it: nothing
// else would.
func (v *vm) interrupted(path, event string) {
	why := v.overlong()
	v.sink(words.Failure{Path: path, Event: event, Message: why})
	if !v.ready {
		if v.realm.loading >= len(v.spec.Entries) {
			return
		}
		v.loaded(v.realm.loading, why, "")
		return
	}
	for k, c := range v.calls {
		if c.event == event || event == "" {
			v.cancelWait(k)
			v.conclude(k)
			v.finish(k, why)
		}
	}
}

// open notes what is under way.
func (v *vm) open(k callKey, event string) {
	v.calls[k] = &call{event: event, born: v.realm.born}
}

// conclude forgets it; false says that it was over before.
func (v *vm) conclude(k callKey) bool {
	_, ok := v.calls[k]
	delete(v.calls, k)
	return ok
}

func (v *vm) cancelWait(k callKey) { v.dispatch("cancel", k.kind, float64(k.id)) }

// began starts the time of a handler.
func (v *vm) began(k callKey) {
	c, ok := v.calls[k]
	if !ok {
		return
	}
	c.born, c.limit = v.realm.born, v.host.o.Limits.Hook
	if c.event == "session_shutdown" {
		c.limit = v.host.o.Limits.Shutdown
	}
	v.lookAt(c, c.limit)
}

// graceStep is how often a handler whose time is over, but which has an open dialog or
// operation, is looked at.
const graceStep = time.Second

// lookAt has a call looked at after a while. One timer does it for all of them: nearly all are
// through long before, and setting one wakes a thread.
func (v *vm) lookAt(c *call, in time.Duration) {
	r := v.realm
	c.due = time.Now().Add(in)
	switch {
	case r.watch == nil:
		r.watch = time.AfterFunc(in, func() { v.post(r, v.look) })
	case c.due.Before(r.next):
		r.watch.Reset(in)
	default:
		return
	}
	r.next = c.due
}

// look looks at the calls whose time may be over.
func (v *vm) look() {
	r, now := v.realm, time.Now()
	r.watch = nil
	for k, c := range v.calls {
		if c.limit == 0 || c.due.After(now) {
			continue
		}
		switch {
		case c.event != "session_shutdown" && (v.busySince(c.born) || r.engine.busy(k)):
			c.grace = true
			c.due = now.Add(min(graceStep, c.limit))
		case c.grace:
			c.grace = false
			c.due = now.Add(c.limit)
		default:
			v.late(k, c)
			if v.realm != r || r.ended {
				return
			}
		}
	}
	var next *call
	for _, c := range v.calls {
		if c.limit > 0 && (next == nil || c.due.Before(next.due)) {
			next = c
		}
	}
	if next != nil && r.watch == nil {
		v.lookAt(next, next.due.Sub(now))
	}
}

// busySince says whether something is open that was begun after a handler was.
func (v *vm) busySince(born int) bool {
	for _, o := range v.realm.ops {
		if o.waits && o.born > born {
			return true
		}
	}
	return false
}

// late ends the wait for a handler that does not end.
func (v *vm) late(k callKey, c *call) {
	v.conclude(k)
	v.sink(words.Failure{Path: "<runtime>", Event: c.event, Message: fmt.Sprintf("timed out after %v", c.limit)})
	v.cancelWait(k)
	switch {
	case k.kind == "call" && k.id == closing:
		v.end("")
	case k.kind == "call" && k.id == leaving:
		v.left()
	case k.kind == "call":
		v.sink(words.Done{ID: k.id, TimedOut: true})
	case k.kind == "tell" && k.id > 0:
		v.sink(words.Told{N: k.id})
	}
}

// closing and leaving are the ids of the calls that tell session_shutdown, before the
// end and before another session.
const (
	closing = 1 << 52
	leaving = closing + 1
)

func typeOf(event json.RawMessage) string {
	if rest, ok := bytes.CutPrefix(event, []byte(`{"type":"`)); ok { // as ours are: the rest may be long
		if name, _, ok := bytes.Cut(rest, []byte{'"'}); ok {
			return string(name)
		}
	}
	var e struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(event, &e) // what has no type has no handlers
	return e.Type
}

// enter makes a call. It waits until all extensions are loaded and have received session_start, and while
// the session is being replaced: a gate that is not registered yet would let everything pass.
func (v *vm) enter(k callKey, event string, f func()) {
	v.do(func() {
		v.open(k, event)
		if _, leaves := v.calls[callKey{"call", leaving}]; v.started && !leaves {
			f()
			return
		}
		v.held = append(v.held, heldCall{k, f})
	})
}

// release makes the calls that have waited, but for those that nobody waits for any more.
func (v *vm) release() {
	held := v.held
	v.held = nil
	for _, h := range held {
		if v.calls[h.key] != nil {
			h.do()
		}
	}
}

// do has work done, unless the engine has ended.
func (v *vm) do(f func()) {
	v.box.put(func() {
		if v.realm.ended {
			return
		}
		f()
	})
}

// Say implements [VM].
func (v *vm) Say(w words.Word) {
	switch w := w.(type) {
	case words.Start:
		v.do(func() { v.sessionStart(w) })
	case words.Tell:
		v.enter(callKey{"tell", w.N}, typeOf(w.Event), func() { v.dispatch("tell", float64(w.N), string(w.Event)) })
	case words.Call:
		kind := typeOf(w.Event)
		v.enter(callKey{"call", w.ID}, kind, func() {
			v.ended = v.ended || kind == "session_shutdown"
			v.dispatch("hook", float64(w.ID), string(w.Event))
		})
	case words.CancelCall:
		v.do(func() {
			if k := (callKey{"call", w.ID}); v.conclude(k) {
				v.cancelWait(k)
			}
		})
	case words.Prepare:
		v.callTool("prepare", w.ID, w.Call)
	case words.RunTool:
		v.callTool("tool", w.ID, w.Call)
	case words.CancelTool:
		v.do(func() { v.cancelTool(w.ID) })
	case words.RunCommand:
		v.enter(callKey{"command", w.ID}, w.Name, func() { v.dispatch("command", float64(w.ID), w.Name, w.Args) })
	case words.Invoke:
		list := append([]json.RawMessage{}, w.Args...) // none is [] and not null
		v.enterWith(callKey{"call", w.ID}, "", list, func(text string) { v.dispatch("invoke", float64(w.ID), w.Key, w.Member, text) })
	case words.Answer:
		v.do(func() { v.answer(w) })
	case words.Part:
		v.do(func() {
			if o := v.realm.ops[int(w.Op)]; o != nil && o.parts {
				v.dispatch("stream", float64(w.Op), "part", quick.JSON(w.Event))
			}
		})
	case words.Update:
		v.do(func() { v.update(w.Snapshot) })
	case words.Appended:
		v.do(func() { v.dispatch("entry", string(w.Entry)) })
	case words.AbortRun:
		v.do(func() { v.dispatch("abortRun") })
	case words.Rebind:
		v.do(func() { v.rebind(w.Spec) })
	case words.Close:
		v.do(func() { v.shut(w.Reason) })
	}
}

func (v *vm) callTool(kind string, id uint64, c words.ToolCall) {
	v.enterWith(callKey{kind, id}, c.Name, c, func(text string) { v.dispatch(kind, float64(id), text) })
}

// enterWith is enter for a call with something that goes along as JSON.
func (v *vm) enterWith(k callKey, event string, what any, f func(text string)) {
	v.enter(k, event, func() {
		text, err := json.Marshal(what)
		if err != nil {
			v.conclude(k)
			v.finish(k, err.Error())
			return
		}
		f(string(text))
	})
}

func (v *vm) cancelTool(id uint64) {
	k := callKey{"tool", id}
	if i := slices.IndexFunc(v.held, func(h heldCall) bool { return h.key == k }); i >= 0 {
		v.held = slices.Delete(v.held, i, i+1)
		v.conclude(k)
		return
	}
	v.dispatch("cancelTool", float64(id))
}

func (v *vm) answer(w words.Answer) {
	o, id := v.realm.ops[int(w.Op)], float64(w.Op)
	if o == nil || !o.asked {
		return
	}
	delete(v.realm.ops, int(w.Op))
	switch {
	case o.parts && w.Err != "":
		v.dispatch("stream", id, "error", &failure{Message: w.Err})
	case o.parts:
		v.dispatch("stream", id, "end", quick.JSON(w.Result))
	case w.Err != "":
		v.dispatch("answer", id, nil, w.Err)
	case w.Result == nil:
		v.dispatch("answer", id)
	default:
		v.dispatch("answer", id, string(w.Result))
	}
}

// merged is a snapshot with changed members; null takes one out.
func merged(old, changes json.RawMessage) json.RawMessage {
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(old, &all) // what is no object has no members
	var more map[string]json.RawMessage
	_ = json.Unmarshal(changes, &more)
	for k, m := range more {
		if string(m) == "null" {
			delete(all, k)
		} else {
			all[k] = m
		}
	}
	text, _ := json.Marshal(all) // it was JSON before
	return text
}
