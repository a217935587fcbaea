package extension

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/tools"
	"troupe/tools/extension/bundle"
	"troupe/tools/extension/prelude"
	"troupe/tools/extension/quick"
)

// vm is the extensions of a session. Everything but the box is for the goroutine that takes
// from it, which is one at a time.
type vm struct {
	host *Inline
	spec Spec
	sink func(Said)
	box  box
	gone chan struct{}

	realm  *realm
	calls  map[callKey]*call
	procs  *tools.Procs
	ready  bool
	held   []heldCall // until it is ready: who has not loaded yet has no handlers
	quiet  bool
	over   bool
	ended  bool              // session_shutdown was told as a call, before its session was left
	lastOp int               // of all realms
	trials []time.Time       // when it was recycled
	broken map[string]string // extensions that are not loaded again, and why
}

// realm is one life of the engine. A VM that is recycled gets another.
type realm struct {
	engine engine
	codes  []found // of entries
	ctx    context.Context
	cancel context.CancelFunc
	born   int // how many operations were begun
	ops    map[int]*op
	timers map[int]*alarm
	files  fileTable
	conns  connections
	fresh  bool              // what is registered has changed, and the session was not told
	maps   map[string][]byte // source maps of bundles, by the name in stacks
	places map[string]*bundle.Places

	loading int  // the entry that is being loaded
	again   bool // for another session: the modules are there
	loads   *time.Timer
	watch   *time.Timer // looks at calls whose time may be over; nil while it is not set
	next    time.Time   // when it does
	errors  []LoadError
	ended   bool
	broken  bool // the engine is not to be touched again
}

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

// op is something of JavaScript that goes on outside of it.
type op struct {
	born   int
	waits  bool // a handler that waits for it has time
	asked  bool // of the daemon
	parts  bool // its answer comes in parts
	cancel context.CancelFunc
	stream stream
}

type alarm struct {
	timer *time.Timer
	idle  bool // it keeps nobody awake
}

func newVM(h *Inline, spec Spec, sink func(Said)) *vm {
	v := &vm{
		host: h, spec: spec, sink: sink, gone: make(chan struct{}),
		calls: map[callKey]*call{}, procs: tools.NewProcs(h.o.Guard),
	}
	v.box = box{turns: h.o.Turns, run: v.run, list: []func(){v.begin}, ready: true}
	return v
}

// cacheVersion is what bytecode depends on beside its source.
var cacheVersion = sync.OnceValue(func() string {
	version := prelude.Version() + " " + runtime.GOARCH
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "modernc.org/libquickjs" || d.Path == "github.com/evanw/esbuild" {
				version += " " + d.Version
			}
		}
	}
	return version
})

// run does what is in the box.
func (v *vm) run() {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a wild pointer of the engine is a panic that we survive
	for list := v.box.next(); list != nil; list = v.box.next() {
		for _, f := range list {
			if v.guard(f); v.over {
				v.box.close()
				v.host.forget(v)
				close(v.gone)
				return
			}
		}
	}
}

// guard does some work. A panic is the engine's, which cannot be trusted afterwards.
func (v *vm) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			v.realm.broken = true
			v.recycle(fmt.Sprintf("the JavaScript engine failed: %v", p))
		}
	}()
	f()
	if !v.over {
		v.settle()
	}
}

// stop ends the VM without a word to its extensions.
func (v *vm) stop(why string) { v.box.put(func() { v.end(why) }) }

func (v *vm) end(why string) {
	v.leave(why)
	v.over = true
	v.host.kills.Go(func() { v.procs.KillAll(0) })
	v.sink(Gone{Why: why})
}

// leave ends the realm and answers what is under way.
func (v *vm) leave(why string) {
	for id, o := range v.realm.ops {
		if o.asked {
			v.sink(OpCancel{ID: uint64(id)})
		}
	}
	v.realm.close()
	v.held = nil
	if why == "" {
		why = "the session is closed"
	}
	for k := range v.calls {
		delete(v.calls, k)
		v.finish(k, why)
	}
}

// finish answers a call that will have no result.
func (v *vm) finish(k callKey, why string) {
	switch k.kind {
	case "tell":
		if k.id > 0 {
			v.sink(Told{N: k.id})
		}
	case "call":
		v.sink(Done{ID: k.id, Err: why})
	case "prepare":
		v.sink(Prepared{ID: k.id, Err: why})
	case "tool":
		text, _ := json.Marshal(why) // a text always has a form
		v.sink(ToolDone{ID: k.id, Result: json.RawMessage(`{"content":[{"type":"text","text":` + string(text) + `}]}`), IsError: true})
	case "command":
		v.sink(CommandDone{ID: k.id, Err: why})
	}
}

func (r *realm) close() {
	if r.ended {
		return
	}
	r.ended = true
	r.cancel()
	for _, t := range r.timers {
		t.timer.Stop()
	}
	for _, t := range []*time.Timer{r.loads, r.watch} {
		if t != nil {
			t.Stop()
		}
	}
	r.files.closeAll()
	r.conns.closeAll()
	r.engine.close(r.broken)
}

// begin makes a realm and begins to load.
func (v *vm) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	r := &realm{ctx: ctx, cancel: cancel, ops: map[int]*op{}, timers: map[int]*alarm{}, maps: map[string][]byte{}, places: map[string]*bundle.Places{}, ended: true}
	v.realm, v.ready, v.ended = r, false, false
	r.codes = v.find()
	var err error
	if r.engine, err = v.engine(r.codes); err == nil {
		r.ended = false
		err = v.boot()
	}
	if err != nil {
		v.end("the JavaScript engine does not start: " + err.Error())
		return
	}
	v.loadNext()
}

// boot evaluates the prelude.
func (v *vm) boot() error {
	record, err := json.Marshal(v.bootRecord())
	if err != nil {
		return err
	}
	return v.realm.engine.boot(record)
}

// dispatch goes into JavaScript.
func (v *vm) dispatch(kind string, args ...any) {
	if v.realm.ended {
		return
	}
	if _, err := v.realm.engine.enter(kind, args...); err != nil && err.Error() != interruptedError {
		v.fail("<runtime>", kind, v.inSources(err))
	}
}

// interruptedError is what the engine says at the end of a turn; settle reports it.
const interruptedError = "InternalError: interrupted"

// inSources is an error whose stack names sources.
func (v *vm) inSources(err error) *quick.Error {
	e, ok := err.(*quick.Error)
	if !ok {
		return &quick.Error{Message: err.Error()}
	}
	e.Stack = v.stack(e.Stack)
	return e
}

func (v *vm) overlong() string {
	return fmt.Sprintf("interrupted: it ran for %v without a break", v.host.o.Limits.Turn)
}

func (v *vm) stack(text string) string {
	for name, data := range v.realm.maps { // read when the first error names the bundle
		if !strings.Contains(text, name) {
			continue
		}
		p := v.realm.places[name]
		if p == nil {
			var err error
			if p, err = bundle.ReadMap(data); err != nil {
				continue
			}
			v.realm.places[name] = p
		}
		text = p.Stack(name, text)
	}
	return text
}

func (v *vm) fail(path, event string, e *quick.Error) {
	v.sink(Failure{Path: path, Event: event, Message: e.Message, Stack: e.Stack})
}

// settle goes on with what was done, and looks after the VM.
func (v *vm) settle() {
	v.realm.engine.settle()
	if !v.over {
		v.sayQuiet()
	}
}

// interrupted says which handler was cut short, and ends what waits for it: nothing
// else would.
func (v *vm) interrupted(path, event string) {
	why := v.overlong()
	v.sink(Failure{Path: path, Event: event, Message: why})
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

func (v *vm) sayQuiet() {
	quiet := len(v.realm.ops) == 0 && len(v.calls) == 0 && v.ready
	for _, t := range v.realm.timers {
		quiet = quiet && t.idle
	}
	if quiet != v.quiet {
		v.quiet = quiet
		v.sink(Quiet{Quiet: quiet})
	}
}

// recycle begins anew: another realm, the same extensions. State comes from entries.
func (v *vm) recycle(why string) {
	v.leave(why)
	v.sink(Failure{Path: "<runtime>", Event: "recycle", Message: why})
	now := time.Now()
	recent := v.trials[:0]
	for _, t := range v.trials {
		if now.Sub(t) < recycleIn {
			recent = append(recent, t)
		}
	}
	v.trials = append(recent, now)
	if len(v.trials) >= v.host.o.Limits.Recycles {
		v.end("disabled: " + why)
		return
	}
	v.spec.Reason = "reload"
	v.begin()
	v.post(v.realm, func() {}) // what was begun wants to settle
}

// refuse has an extension not loaded again.
func (v *vm) refuse(path, why string) {
	if v.broken == nil {
		v.broken = map[string]string{}
	}
	v.broken[path] = why
}

// post has work done by the VM's goroutine, unless its realm is gone by then.
func (v *vm) post(r *realm, f func()) {
	v.box.put(func() {
		if v.realm == r && !r.ended {
			f()
		}
	})
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
	v.sink(Failure{Path: "<runtime>", Event: c.event, Message: fmt.Sprintf("timed out after %v", c.limit)})
	v.cancelWait(k)
	switch {
	case k.kind == "call" && k.id == closing:
		v.end("")
	case k.kind == "call" && k.id == leaving:
		v.left()
	case k.kind == "call":
		v.sink(Done{ID: k.id, TimedOut: true})
	case k.kind == "tell" && k.id > 0:
		v.sink(Told{N: k.id})
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

// enter has a call made. Until everything is loaded, and while another session is about to
// begin, it waits: a gate that is not there yet would let everything pass.
func (v *vm) enter(k callKey, event string, f func()) {
	v.do(func() {
		v.open(k, event)
		if _, leaves := v.calls[callKey{"call", leaving}]; v.ready && !leaves {
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

func (v *vm) Tell(n uint64, event json.RawMessage) {
	v.enter(callKey{"tell", n}, typeOf(event), func() { v.dispatch("tell", float64(n), string(event)) })
}

func (v *vm) Call(id uint64, event json.RawMessage) {
	kind := typeOf(event)
	v.enter(callKey{"call", id}, kind, func() {
		v.ended = v.ended || kind == "session_shutdown"
		v.dispatch("hook", float64(id), string(event))
	})
}

func (v *vm) CancelCall(id uint64) {
	v.do(func() {
		if k := (callKey{"call", id}); v.conclude(k) {
			v.cancelWait(k)
		}
	})
}

func (v *vm) Prepare(id uint64, c ToolCall) {
	v.callTool("prepare", id, c)
}

func (v *vm) Tool(id uint64, c ToolCall) { v.callTool("tool", id, c) }

func (v *vm) callTool(kind string, id uint64, c ToolCall) {
	k := callKey{kind, id}
	v.enter(k, c.Name, func() {
		text, err := json.Marshal(c)
		if err != nil {
			v.conclude(k)
			v.finish(k, err.Error())
			return
		}
		v.dispatch(kind, float64(id), string(text))
	})
}

func (v *vm) CancelTool(id uint64) {
	k := callKey{"tool", id}
	v.do(func() {
		if i := slices.IndexFunc(v.held, func(h heldCall) bool { return h.key == k }); i >= 0 {
			v.held = slices.Delete(v.held, i, i+1)
			v.conclude(k)
			return
		}
		v.dispatch("cancelTool", float64(id))
	})
}

func (v *vm) Command(id uint64, name, args string) {
	v.enter(callKey{"command", id}, name, func() { v.dispatch("command", float64(id), name, args) })
}

func (v *vm) Invoke(id uint64, key, member string, args []json.RawMessage) {
	k := callKey{"call", id}
	v.enter(k, "", func() {
		if args == nil {
			args = []json.RawMessage{}
		}
		text, err := json.Marshal(args)
		if err != nil {
			v.conclude(k)
			v.finish(k, err.Error())
			return
		}
		v.dispatch("invoke", float64(id), key, member, string(text))
	})
}

func (v *vm) Answer(id uint64, result json.RawMessage, err string) {
	v.do(func() {
		o := v.realm.ops[int(id)]
		if o == nil || !o.asked {
			return
		}
		delete(v.realm.ops, int(id))
		switch {
		case o.parts && err != "":
			v.dispatch("stream", float64(id), "error", &failure{Message: err})
		case o.parts:
			v.dispatch("stream", float64(id), "end", quick.JSON(result))
		case err != "":
			v.dispatch("answer", float64(id), nil, err)
		case result == nil:
			v.dispatch("answer", float64(id))
		default:
			v.dispatch("answer", float64(id), string(result))
		}
	})
}

func (v *vm) Part(id uint64, event json.RawMessage) {
	v.do(func() {
		if o := v.realm.ops[int(id)]; o != nil && o.parts {
			v.dispatch("stream", float64(id), "part", quick.JSON(event))
		}
	})
}

func (v *vm) Update(snapshot json.RawMessage) {
	v.do(func() {
		v.spec.Snapshot = merged(v.spec.Snapshot, snapshot)
		v.dispatch("snap", string(snapshot))
	})
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

func (v *vm) Entry(entry json.RawMessage) { v.do(func() { v.dispatch("entry", string(entry)) }) }

func (v *vm) AbortRun() { v.do(func() { v.dispatch("abortRun") }) }

func (v *vm) Rebind(spec Spec) {
	v.do(func() {
		spec.Entries, spec.Argv, spec.AgentDir = v.spec.Entries, v.spec.Argv, v.spec.AgentDir
		v.spec = spec
		switch {
		case !v.ready: // what is being loaded is for this session already
		case v.ended:
			v.left()
		default:
			v.shutdown(leaving, spec.Reason, spec.SessionFile)
		}
	})
}

// shutdown tells the end of a session, as a call: its end is gone on with.
func (v *vm) shutdown(id uint64, reason, target string) {
	event := map[string]string{"type": "session_shutdown", "reason": reason}
	if target != "" {
		event["targetSessionFile"] = target
	}
	text, err := json.Marshal(event)
	if err != nil {
		text = json.RawMessage(`{"type":"session_shutdown"}`)
	}
	v.open(callKey{"call", id}, "session_shutdown")
	v.dispatch("hook", float64(id), string(text))
}

// left goes on when the handlers of the session that is left are through.
func (v *vm) left() {
	r := v.realm
	v.ready, v.ended, r.loading, r.again = false, false, 0, true
	v.dispatch("rebind", v.spec.Cwd)
	v.loadNext()
}

func (v *vm) Close(reason string) {
	v.do(func() {
		if !v.ready || v.ended {
			v.end("")
			return
		}
		v.shutdown(closing, reason, "")
	})
}

// snapshot is what handlers read, with what the VM knows itself.
func (v *vm) snapshot() string {
	own, err := json.Marshal(struct {
		Cwd         string            `json:"cwd"`
		Flags       map[string]string `json:"flags,omitempty"`
		SessionFile string            `json:"sessionFile,omitempty"`
	}{v.spec.Cwd, v.spec.Flags, v.spec.SessionFile})
	if err != nil {
		return "{}"
	}
	return string(merged(own, v.spec.Snapshot))
}

// loadNext loads one extension after another.
func (v *vm) loadNext() {
	r := v.realm
	if r.loading >= len(v.spec.Entries) {
		v.bound()
		return
	}
	e, index := v.spec.Entries[r.loading], r.loading
	if r.again {
		v.limitLoad(e, index)
		v.dispatch("again", float64(index), e.Path)
		return
	}
	code := r.codes[index]
	if code.err != nil {
		v.loaded(index, code.err.Error(), "")
		return
	}
	r.maps[code.entry.Path] = code.entry.Map
	v.limitLoad(e, index)
	r.engine.load(index, e, code.entry)
}

// limitLoad bounds the time in which an entry is loaded.
func (v *vm) limitLoad(e Entry, index int) {
	r := v.realm
	r.loads = time.AfterFunc(v.host.o.Limits.Load, func() {
		v.post(r, func() {
			if r.loading == index && !v.ready {
				v.dispatch("drop", e.Path)
				v.loaded(index, fmt.Sprintf("not loaded within %v", v.host.o.Limits.Load), "")
			}
		})
	})
}

// loaded is the end of one extension's loading.
func (v *vm) loaded(index int, message, stack string) {
	r := v.realm
	if index != r.loading || v.ready {
		return
	}
	if r.loads != nil {
		r.loads.Stop()
	}
	if message != "" {
		path := v.spec.Entries[index].Path
		r.errors = append(r.errors, LoadError{Path: path, Message: message, Stack: v.stack(stack), Gates: v.host.gates(path)})
	}
	r.loading++
	v.post(r, v.loadNext)
}

// bound is the end of loading.
func (v *vm) bound() {
	v.dispatch("bound", v.snapshot())
	v.sessionStart()
	v.release()
}

func (v *vm) sessionStart() {
	event, err := json.Marshal(struct {
		Type     string `json:"type"`
		Reason   string `json:"reason"`
		Previous string `json:"previousSessionFile,omitempty"`
	}{"session_start", v.spec.Reason, v.spec.Previous})
	if err == nil {
		v.open(callKey{"tell", 0}, "session_start")
		v.dispatch("tell", float64(0), string(event))
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a text always has a form
	return string(b)
}

// environ is the environment of extensions and what they start.
func environ() map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		if k, val, ok := strings.Cut(pair, "="); ok {
			env[k] = val
		}
	}
	return env
}
