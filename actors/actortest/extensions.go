package actortest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol/extension"
)

// Extensions is an extension host whose VMs run no code and act at random. They listen to messages,
// calls and results, have a tool and a command, open dialogs, answer late, and die.
type Extensions struct {
	mu      sync.Mutex
	rng     *rand.Rand
	vms     map[*fakeVM]bool
	Allowed map[string]bool // calls that they have allowed
	Closed  bool
	opened  int
}

// NewExtensions returns a host whose random numbers have a seed.
func NewExtensions(seed uint64) *Extensions {
	return &Extensions{rng: rand.New(rand.NewPCG(seed, 7)), vms: map[*fakeVM]bool{}, Allowed: map[string]bool{}}
}

// Kill ends every VM, as the death of their process does.
func (x *Extensions) Kill() {
	x.mu.Lock()
	vms := x.vms
	x.vms = map[*fakeVM]bool{}
	x.mu.Unlock()
	for v := range vms {
		v.end("killed")
	}
}

// Opened returns how many VMs were opened.
func (x *Extensions) Opened() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.opened
}

// Act makes every VM send an action that nothing asked for.
func (x *Extensions) Act(name, args string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for v := range x.vms {
		v.behind(time.Second, func() { v.say(extension.Act{Name: name, Args: json.RawMessage(args)}) })
	}
}

// Close ends the host and its VMs.
func (x *Extensions) Close() error {
	x.Kill()
	x.Closed = true
	return nil
}

// draw returns a random number below n.
func (x *Extensions) draw(n int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rng.IntN(n)
}

// MayRun reports whether a call was allowed.
func (x *Extensions) MayRun(call string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Allowed[call]
}

var fakeRegistrations = extension.Registrations{
	Listens:  []string{"input", "before_agent_start", "tool_call", "tool_result", "agent_start", "message_end", "turn_end", "agent_end", "agent_before_settle", "session_before_switch", "session_shutdown"},
	Tools:    []extension.ToolDef{{Name: "xt", Description: "of an extension", Parameters: json.RawMessage(`{"type":"object"}`), Path: "x.ts", Prepares: true}},
	Commands: []extension.CommandDef{{Name: "xc", Path: "x.ts"}},
}

func (x *Extensions) Open(_ extension.Spec, sink func(extension.Said)) extension.VM {
	v := &fakeVM{host: x, jobs: make(chan func(), 1000), quit: make(chan struct{}), sink: sink}
	x.mu.Lock()
	x.vms[v] = true
	x.opened++
	x.mu.Unlock()
	go v.run()
	v.later(func() { v.say(extension.Ready{Registrations: fakeRegistrations}) })
	return v
}

// fakeVM executes one job after another, each after a delay.
type fakeVM struct {
	host *Extensions
	jobs chan func()
	quit chan struct{}
	once sync.Once

	mu    sync.Mutex
	sink  func(extension.Said)
	gone  bool
	ops   uint64
	asked map[uint64]func(json.RawMessage)
}

func (v *fakeVM) run() {
	for {
		select {
		case job := <-v.jobs:
			job()
		case <-v.quit:
			return
		}
	}
}

// later queues a job with a random delay after the jobs that are queued already.
func (v *fakeVM) later(job func()) {
	v.behind(time.Duration(v.host.draw(3000))*time.Millisecond, job)
}

// behind queues a job with a delay after the jobs that are queued already.
func (v *fakeVM) behind(wait time.Duration, job func()) {
	select {
	case v.jobs <- func() {
		select {
		case <-time.After(wait):
			job()
		case <-v.quit:
		}
	}:
	case <-v.quit:
	}
}

func (v *fakeVM) say(m extension.Said) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.gone {
		v.sink(m)
	}
}

func (v *fakeVM) end(why string) {
	v.once.Do(func() {
		v.say(extension.Gone{Why: why})
		v.mu.Lock()
		v.gone = true
		v.mu.Unlock()
		close(v.quit)
		v.host.mu.Lock()
		delete(v.host.vms, v)
		v.host.mu.Unlock()
	})
}

// Say implements [extension.VM]. It ignores cancellations: every call is answered.
func (v *fakeVM) Say(w extension.Word) {
	switch w := w.(type) {
	case extension.Tell:
		v.later(func() { v.say(extension.Told{N: w.N}) })
	case extension.Call:
		v.call(w.ID, w.Event)
	case extension.Prepare:
		v.prepare(w)
	case extension.RunTool:
		v.later(func() {
			v.say(extension.ToolUpdate{ID: w.ID, Partial: json.RawMessage(`{"content":"so far"}`)})
			v.say(extension.ToolDone{ID: w.ID, Result: json.RawMessage(fmt.Sprintf(`{"content":"did %s","details":{"n":1}}`, w.Call.Name)), IsError: v.host.draw(4) == 0})
		})
	case extension.RunCommand:
		v.command(w.ID)
	case extension.Answer:
		v.answer(w)
	case extension.Rebind:
		v.later(func() { v.say(extension.Ready{Registrations: fakeRegistrations}) })
	case extension.Close:
		v.later(func() { v.end("") })
	default:
	}
}

// call answers an event after a random delay, with one of the results that its type allows.
func (v *fakeVM) call(id uint64, event json.RawMessage) {
	v.later(func() {
		ev := gjson.ParseBytes(event)
		done := extension.Done{ID: id}
		switch kind, n := ev.Get("type").Str, v.host.draw(10); {
		case n == 0:
			done.Err = "a handler threw"
		case n == 1:
			done.TimedOut = true
		case n == 2 && kind == "tool_call":
			done.Result = json.RawMessage(`{"block":true,"reason":"no"}`)
		case n == 2 && kind == "input":
			done.Result = json.RawMessage(`{"action":"handled"}`)
		case n == 2 && kind == "session_before_switch":
			done.Result = json.RawMessage(`{"cancel":true}`)
		case n == 3 && kind == "before_agent_start":
			done.Result = json.RawMessage(`{"systemPrompt":"x","messages":[{"customType":"n","content":"of an extension","display":true}]}`)
		case n == 3 && (kind == "turn_end" || kind == "agent_before_settle"):
			done.Result = json.RawMessage(`{"continue":true,"entries":[{"type":"custom_message","customType":"n","content":"go on","display":true}]}`)
		case n == 3 && kind == "message_end" && ev.Get("message.role").Str == "assistant":
			done.Result = json.RawMessage(`{"message":` + ev.Get("message").Raw + `}`)
		case n < 6 && kind == "tool_call": // the user decides
			v.ask(func(answer json.RawMessage) {
				if !gjson.GetBytes(answer, "confirmed").Bool() {
					done.Result = json.RawMessage(`{"block":true,"reason":"not allowed"}`)
				} else {
					v.allow(ev.Get("toolCallId").Str)
				}
				v.say(done)
			})
			return
		case kind == "tool_call":
			v.allow(ev.Get("toolCallId").Str)
		case n == 7:
			v.say(extension.Act{Name: "appendEntry", Args: json.RawMessage(`{"customType":"n","data":1}`)})
		case n == 8:
			v.say(extension.Act{Name: "sendMessage", Args: json.RawMessage(`{"message":{"customType":"n","content":"of an extension","display":true}}`)})
		case n == 9:
			v.say(extension.Act{Name: "ui", Args: json.RawMessage(`{"method":"notify","message":"hm"}`)})
		}
		v.say(done)
	})
}

func (v *fakeVM) allow(call string) {
	v.host.mu.Lock()
	v.host.Allowed[call] = true
	v.host.mu.Unlock()
}

func (v *fakeVM) ask(then func(json.RawMessage)) {
	v.mu.Lock()
	v.ops++
	op := v.ops
	if v.asked == nil {
		v.asked = map[uint64]func(json.RawMessage){}
	}
	v.asked[op] = then
	v.mu.Unlock()
	v.say(extension.Op{ID: op, Name: "ui", Args: json.RawMessage(`{"method":"confirm","title":"t","message":"m","timeout":20000}`)})
}

func (v *fakeVM) answer(w extension.Answer) {
	v.mu.Lock()
	then := v.asked[w.Op]
	delete(v.asked, w.Op)
	v.mu.Unlock()
	if then != nil {
		v.later(func() { then(w.Result) })
	}
}

func (v *fakeVM) command(id uint64) {
	v.later(func() { v.say(extension.CommandDone{ID: id}) })
	if v.host.draw(2) == 0 { // without a request, much later
		v.later(func() { time.Sleep(20 * time.Second) })
		v.later(func() {
			v.say(extension.Act{Name: "appendEntry", Args: json.RawMessage(`{"customType":"n","data":2}`)})
			v.say(extension.Act{Name: "sendMessage", Args: json.RawMessage(`{"message":{"customType":"n","content":"of an extension","display":true},"options":{"triggerTurn":true}}`)})
		})
	}
}

func (v *fakeVM) prepare(w extension.Prepare) {
	v.later(func() {
		p := extension.Prepared{ID: w.ID, Args: w.Call.Args}
		if v.host.draw(5) == 0 {
			p = extension.Prepared{ID: w.ID, Err: "no arguments"}
		}
		v.say(p)
	})
}

// StartHost runs an extension whose handler of session_start shows a notice and registers a command, late1 in the first
// session, late2 in the second.
type StartHost struct {
	Load, Handle time.Duration // how long loading and the handler take
}

func (h StartHost) Open(_ extension.Spec, sink func(extension.Said)) extension.VM {
	v := &startVM{host: h, fake: &fakeVM{jobs: make(chan func(), 1000), quit: make(chan struct{}), sink: sink, host: &Extensions{vms: map[*fakeVM]bool{}}}}
	go v.fake.run()
	v.load()
	return v
}

func (h StartHost) Close() error { return nil }

type startVM struct {
	host StartHost
	fake *fakeVM
	nth  int
}

func (v *startVM) registered(commands ...extension.CommandDef) extension.Registrations {
	return extension.Registrations{Listens: []string{"session_start"}, Commands: commands}
}

func (v *startVM) load() {
	v.fake.behind(v.host.Load, func() { v.fake.say(extension.Ready{Registrations: v.registered()}) })
}

// Say implements [extension.VM].
func (v *startVM) Say(w extension.Word) {
	switch w := w.(type) {
	case extension.Rebind:
		v.load()
	case extension.Start:
		v.fake.behind(v.host.Handle, func() {
			v.nth++
			v.fake.say(extension.Act{Name: "ui", Args: json.RawMessage(`{"method":"notify","message":"started"}`)})
			v.fake.say(extension.Changed{Registrations: v.registered(extension.CommandDef{Name: fmt.Sprint("late", v.nth), Path: "x.ts"})})
		})
	case extension.Tell:
		v.fake.behind(0, func() { v.fake.say(extension.Told{N: w.N}) })
	case extension.Close:
		v.fake.behind(0, func() { v.fake.end("") })
	default:
	}
}

// AskingHost runs an extension that opens a dialog before a session is left, and one in a session
// that was left.
type AskingHost struct{}

func (AskingHost) Open(spec extension.Spec, sink func(extension.Said)) extension.VM {
	x := &askingVM{sink: sink}
	x.Say(extension.Rebind{Spec: spec})
	return x
}

func (AskingHost) Close() error { return nil }

// askingVM opens a dialog for every call.
type askingVM struct {
	sink     func(extension.Said)
	call, op uint64
}

// Say implements [extension.VM].
func (x *askingVM) Say(w extension.Word) {
	switch w := w.(type) {
	case extension.Rebind:
		if w.Spec.Reason == "new" {
			x.sink(extension.Op{ID: 1 << 20, Name: "ui", Args: json.RawMessage(`{"method":"confirm","title":"Too late?"}`)})
		}
		x.sink(extension.Ready{Registrations: extension.Registrations{Listens: []string{"session_before_switch"}}})
	case extension.Call:
		x.call, x.op = w.ID, x.op+1
		x.sink(extension.Op{ID: x.op, Name: "ui", Args: json.RawMessage(`{"method":"confirm","title":"Leave?"}`)})
	case extension.Answer:
		if w.Op == 1<<20 {
			x.sink(extension.Act{Name: "ui", Args: fmt.Appendf(nil, `{"method":"notify","message":%q}`, w.Result)})
			return
		}
		x.sink(extension.Done{ID: x.call, Result: fmt.Appendf(nil, `{"cancel":%t}`, !gjson.GetBytes(w.Result, "confirmed").Bool())})
	case extension.CancelCall:
		x.sink(extension.OpCancel{ID: x.op})
	case extension.Tell:
		x.sink(extension.Told{N: w.N})
	case extension.Close:
		x.sink(extension.Gone{})
	default:
	}
}

// StubbornHost runs an extension that opens a dialog again whenever it is answered, up to a hundred
// thousand times. Asked counts the dialogs.
type StubbornHost struct{ Asked atomic.Uint64 }

// Open returns a VM that has opened its first dialog.
func (h *StubbornHost) Open(_ extension.Spec, sink func(extension.Said)) extension.VM {
	sink(extension.Ready{})
	x := &stubbornVM{askingVM{sink: sink}, h}
	x.ask()
	return x
}

// Close does nothing.
func (h *StubbornHost) Close() error { return nil }

type stubbornVM struct {
	askingVM
	host *StubbornHost
}

func (x *stubbornVM) ask() {
	if n := x.host.Asked.Add(1); n < 100_000 {
		x.sink(extension.Op{ID: n, Name: "ui", Args: json.RawMessage(`{"method":"input","title":"Why?"}`)})
	}
}

// Say implements [extension.VM].
func (x *stubbornVM) Say(w extension.Word) {
	if _, answered := w.(extension.Answer); answered {
		x.ask()
		return
	}
	x.askingVM.Say(w)
}

// GateHost runs an extension that opens a dialog for every call, and for each run of its command
// xc.
type GateHost struct {
	Ran *atomic.Int32 // number of runs of the command; nil counts nothing
}

// Open implements the host's interface.
func (h GateHost) Open(_ extension.Spec, sink func(extension.Said)) extension.VM {
	sink(extension.Ready{Registrations: extension.Registrations{
		Listens: []string{"tool_call"}, Commands: []extension.CommandDef{{Name: "xc", Path: "x.ts"}},
	}})
	return &gateVM{host: h, sink: sink, asked: map[uint64]func(bool){}}
}

// Close implements the host's interface.
func (GateHost) Close() error { return nil }

type gateVM struct {
	host  GateHost
	sink  func(extension.Said)
	op    uint64
	asked map[uint64]func(yes bool)
}

// Say implements [extension.VM].
func (x *gateVM) Say(w extension.Word) {
	switch w := w.(type) {
	case extension.Rebind:
		x.sink(extension.Ready{Registrations: extension.Registrations{Listens: []string{"tool_call"}}})
	case extension.Call:
		x.ask(func(yes bool) { x.sink(extension.Done{ID: w.ID, Result: fmt.Appendf(nil, `{"block":%t}`, !yes)}) })
	case extension.RunCommand:
		if x.host.Ran != nil {
			x.host.Ran.Add(1)
		}
		x.ask(func(bool) { x.sink(extension.CommandDone{ID: w.ID}) })
	case extension.Answer:
		if then := x.asked[w.Op]; then != nil {
			delete(x.asked, w.Op)
			then(gjson.GetBytes(w.Result, "confirmed").Bool())
		}
	case extension.Tell:
		x.sink(extension.Told{N: w.N})
	case extension.Close:
		x.sink(extension.Gone{})
	default:
	}
}

func (x *gateVM) ask(then func(bool)) {
	x.op++
	x.asked[x.op] = then
	x.sink(extension.Op{ID: x.op, Name: "ui", Args: json.RawMessage(`{"method":"confirm","title":"Run?"}`)})
}
