package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"troupe/protocol"
	words "troupe/protocol/extension"
	"troupe/tools"
	"troupe/tools/extension/bundle"
	"troupe/tools/extension/prelude"
	"troupe/tools/extension/quick"
)

// vm is the extensions of a session. Everything but the box is for the goroutine that takes
// from it, which is one at a time.
type vm struct {
	host *Inline
	spec words.Spec
	sink func(words.Said)
	box  box
	gone chan struct{}

	realm    *realm
	calls    map[callKey]*call
	procs    *tools.Procs
	ready    bool       // everything is loaded
	started  bool       // session_start was told, after that
	loadings uint64     // number of times that everything was loaded
	held     []heldCall // calls until it is started: extensions that are not loaded have no handlers
	quiet    bool
	over     bool
	ended    bool              // session_shutdown was told as a call, before its session was left
	lastOp   int               // of all realms
	trials   []time.Time       // when it was recycled
	broken   map[string]string // extensions that are not loaded again, and why
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
	files  table[*os.File]
	conns  table[net.Conn]   // that were accepted and that no socket has taken yet
	fresh  bool              // what is registered has changed, and the session was not told
	maps   map[string][]byte // source maps of bundles, by the name in stacks
	places map[string]*bundle.Places

	loading int  // the entry that is being loaded
	again   bool // for another session: the modules are there
	loads   *time.Timer
	watch   *time.Timer // looks at calls whose time may be over; nil while it is not set
	next    time.Time   // when it does
	errors  []words.LoadError
	ended   bool
	broken  bool // the engine is not to be touched again
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

func newVM(h *Inline, spec words.Spec, sink func(words.Said)) *vm {
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
	v.sink(words.Gone{Why: why})
}

// leave ends the realm and answers what is under way.
func (v *vm) leave(why string) {
	for id, o := range v.realm.ops {
		if o.asked {
			v.sink(words.OpCancel{ID: uint64(id)})
		}
	}
	v.realm.close()
	v.held = nil
	why = cmp.Or(why, "the session is closed")
	for k := range v.calls {
		delete(v.calls, k)
		v.finish(k, why)
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
	v.realm, v.ready, v.started, v.ended = r, false, false, false
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
	v.sink(words.Failure{Path: path, Event: event, Message: e.Message, Stack: e.Stack})
}

// settle goes on with what was done, and looks after the VM.
func (v *vm) settle() {
	v.realm.engine.settle()
	if !v.over {
		v.sayQuiet()
	}
}

func (v *vm) sayQuiet() {
	quiet := len(v.realm.ops) == 0 && len(v.calls) == 0 && v.started
	for _, t := range v.realm.timers {
		quiet = quiet && t.idle
	}
	if quiet != v.quiet {
		v.quiet = quiet
		v.sink(words.Quiet{Quiet: quiet})
	}
}

// recycle begins anew: another realm, the same extensions. State comes from entries.
func (v *vm) recycle(why string) {
	v.leave(why)
	v.sink(words.Failure{Path: "<runtime>", Event: "recycle", Message: why})
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

// postAndWait is post for who goes on behind it; false says that ctx has ended before.
func (v *vm) postAndWait(ctx context.Context, r *realm, f func()) bool {
	done := make(chan struct{})
	v.post(r, func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func quoted(s string) string { return string(protocol.JSON(s)) }

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
