package extension

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/protocol"
	"troupe/protocol/extension"
)

// VM is the actor that stands between a session, its parent, and the virtual
// machine of the session's extensions. It answers every hook once: what the
// machine of the session waits for comes, whatever becomes of the extensions.
type VM struct {
	log   zerolog.Logger
	host  extension.Host
	spec  extension.Spec
	tools *Tools
	vm    extension.VM // nil while it is gone

	owed
	regs   extension.Registrations
	shown  json.RawMessage // the newest of what they may read at any time
	refuse refusals        // as long as nothing is loaded again
	told   uint64          // events told so far
	life   life
	deaths []time.Time // lately
}

// owed is what they have been asked and have not answered.
type owed struct {
	hooks    map[uint64]Call
	commands map[uint64]string // by their names
}

// refusals are why no tool may be called and no command of the user run; "" for
// nothing.
type refusals struct{ tools, bash string }

// life is what is known of one virtual machine.
type life struct {
	n       int         // of all actors of the session: what an earlier one says counts for nothing
	ready   bool        // it has said what is registered
	rebound bool        // it was taken along into another session
	session int         // how often it was
	closing bool        // its session does not listen to it any more
	held    []Call      // that wait until it is ready: nobody would see them before
	timer   *time.Timer // of the next life, or of the end; nil for none
}

// New returns the actor of a session's extensions, its nth. tools are those that they
// register.
func New(log zerolog.Logger, host extension.Host, spec extension.Spec, tools *Tools, nth int) *VM {
	return &VM{log: log, host: host, spec: spec, tools: tools, owed: owed{map[uint64]Call{}, map[uint64]string{}}, life: life{n: nth << 16}}
}

// What a session tells its extensions, beside [core.CancelHook] and what it says to their virtual
// machine itself, an [extension.Word]. Behind a Close the actor stops when that machine is gone.
type (
	// Call asks the extensions. SystemPrompt is for the hook that shows it.
	Call struct {
		core.CallHook
		SystemPrompt SystemPrompt
	}
	// RunCommand runs a command of one of them. Snapshot is what only commands may read.
	RunCommand struct {
		core.RunCommand
		Snapshot json.RawMessage
	}
)

// What they tell the session, beside [core.HookDone], [core.CustomSent] and
// [core.EntryMade].
type (
	// Registered says what they have registered, and why no tool may be called, or no
	// command of the user run, for now; "" for nothing.
	Registered struct {
		Nth   int    // the actor that says it: others may have taken its place
		Start uint64 // N of the [extension.Start] that they wait for; 0 if they have been started
		extension.Registrations
		Refuse, RefuseBash string
	}
	// Failed is an error of an extension, for the clients.
	Failed struct{ extension.Failure }
	// CommandOver says that a command has ended, or is lost.
	CommandOver struct{ Name string }
	// Told says that they are through with an event, and those before it.
	Told struct {
		Nth int // the actor
		N   uint64
	}
	// UI is a record for the client. With an Op it is a dialog.
	UI struct {
		Op      uint64
		Session int // for which of its sessions, from 0: so many Rebinds came before it
		Request protocol.ExtensionUIRequest
	}
	// Lost says that nobody waits any more for what the extensions have asked so far.
	Lost struct{ Nth int }
	// UIGone says that nobody waits for the dialog any more.
	UIGone struct{ Op uint64 }
	// Run is a command that an extension gives to the session. With an Op it waits for
	// the answer; an error of another is reported as that of Act.
	Run struct {
		Op        uint64
		Act       string
		Cmd       protocol.Command
		Replacing Replacing // of a command that replaces the session
	}
	// Complete is an extension that asks a model, with (model, context, options).
	Complete struct {
		Op   uint64
		Args json.RawMessage
	}
	// ExecuteTool is a tool of an extension that calls another one.
	ExecuteTool core.InnerCall
	// Key is an extension that wants to know what requests of a provider authenticate
	// with, or of one of its models.
	Key struct {
		Op                uint64
		Provider, ModelID string
	}
	// WaitIdle is an extension that waits until the session is idle.
	WaitIdle struct{ Op uint64 }
	// Shutdown is an extension that wants the session to end when its run has.
	Shutdown struct{}
)

// Message is what extensions tell a session beside inputs of its machine.
//
//sumtype:decl
type Message interface{ message() }

func (ExecuteTool) message() {}
func (Registered) message()  {}
func (Failed) message()      {}
func (CommandOver) message() {}
func (Told) message()        {}
func (UI) message()          {}
func (UIGone) message()      {}
func (Lost) message()        {}
func (Run) message()         {}
func (WaitIdle) message()    {}
func (Complete) message()    {}
func (Key) message()         {}
func (Shutdown) message()    {}

// said is what the virtual machine of a life says.
type said struct {
	life int
	what extension.Said
}

// reopen makes another virtual machine.
type reopen struct{}

func (v *VM) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		root, session := c.ActorSystem().Root, c.Parent()
		v.tools.report = func(f extension.Failure) { root.Send(session, Failed{f}) }
		v.open(c)
	case *actor.Stopping:
		if v.life.timer != nil {
			v.life.timer.Stop()
		}
		v.say(extension.Close{Reason: "quit"})
	case said:
		if m.life == v.life.n {
			v.hear(c, m.what)
		}
	case reopen:
		v.spec.Reason, v.spec.Again = "reload", true
		v.open(c)
	case Call:
		v.call(c, m)
	case core.CancelHook:
		delete(v.hooks, hookID(m.ID))
		v.life.held = slices.DeleteFunc(v.life.held, func(h Call) bool { return h.ID == m.ID })
		v.say(extension.CancelCall{ID: hookID(m.ID)})
	case RunCommand:
		v.run(c, m)
	case extension.Tell:
		v.told = m.N
		if v.vm == nil {
			c.Send(c.Parent(), Told{v.nth(), m.N})
		}
		v.say(m)
	case extension.Update:
		v.shown = m.Snapshot
		v.say(m)
	case extension.Start:
		if m.N>>32 == uint64(v.life.n) {
			v.shown = m.Snapshot
			m.N &= math.MaxUint32
			v.say(m)
		}
	case extension.Appended, extension.AbortRun:
		v.say(m.(extension.Word))
	case beside:
		if m.life == v.life.n {
			v.say(m.word)
		}
	case extension.Answer:
		if m.Op>>32 == uint64(v.life.n) {
			m.Op &= math.MaxUint32
			v.say(m)
		}
	case extension.Part:
		if m.Op>>32 == uint64(v.life.n) {
			m.Op &= math.MaxUint32
			v.say(m)
		}
	case extension.Rebind:
		v.rebind(c, m.Spec)
	case extension.Close:
		if v.vm == nil { // nobody is there who could say that it is gone
			c.Stop(c.Self())
			return
		}
		v.life.closing = true
		v.say(m)
		v.life.timer = kernel.After(c, closeLimit, c.Self(), closeDue{})
	case closeDue:
		v.giveUp(c, "the extensions do not end")
		c.Stop(c.Self())
	}
}

// closeLimit is how long a virtual machine may take to end, which has a limit of its
// own below that.
const closeLimit = 8 * time.Second

// closeDue says that it is not waited for any longer.
type closeDue struct{}

// open begins a virtual machine.
func (v *VM) open(c actor.Context) {
	v.life = life{n: v.life.n + 1}
	root, self, n := c.ActorSystem().Root, c.Self(), v.life.n
	v.vm = v.host.Open(v.spec, func(what extension.Said) { root.Send(self, said{n, what}) })
	if v.shown != nil {
		v.say(extension.Update{Snapshot: v.shown})
	}
	v.tools.use(inOrder(func(w extension.Word) { root.Send(self, beside{n, w}) }))
}

// say says something to the virtual machine, if there is one.
func (v *VM) say(w extension.Word) {
	if v.vm != nil {
		v.vm.Say(w)
	}
}

// inOrder is a virtual machine for jobs. What they ask comes behind what the session has said
// before them, entries above all: both go through the actor's mailbox.
type inOrder func(extension.Word)

func (o inOrder) Say(w extension.Word) { o(w) }

// beside is what a job says to the virtual machine of a life.
type beside struct {
	life int
	word extension.Word
}

// rebind takes the virtual machine along into another session. If it is gone, what
// held in the old session holds in the new one.
func (v *VM) rebind(c actor.Context, spec extension.Spec) {
	v.spec, v.shown = spec, nil
	v.life.session++
	if v.vm == nil {
		refuse, refuseBash := v.absent("until they are reloaded", "they have ended")
		v.registered(c, Registered{Registrations: extension.Registrations{Tools: v.regs.Tools, Flags: v.regs.Flags}, Refuse: refuse, RefuseBash: refuseBash})
		return
	}
	v.life.ready, v.life.rebound = false, true
	v.say(extension.Rebind{Spec: spec})
}

// opOf is the number of an op for the session. That of another life is another one:
// an answer to what an earlier one asked is none to what this one asks.
func (v *VM) opOf(id uint64) uint64 { return uint64(v.life.n)<<32 | id }

// nth is which actor of its session it is.
func (v *VM) nth() int { return v.life.n >> 16 }

// level is that of a line for people.
func level(name string) zerolog.Level {
	l, err := zerolog.ParseLevel(name)
	if err != nil || l == zerolog.NoLevel {
		return zerolog.InfoLevel
	}
	return l
}

// hookID is the number of a hook at the virtual machine: an even one. Calls of
// tools and commands have odd ones.
func hookID(id int) uint64 { return uint64(id) << 1 }

func (v *VM) call(c actor.Context, m Call) {
	if v.vm == nil {
		c.Send(c.Parent(), core.HookDone{ID: m.ID})
		return
	}
	id := hookID(m.ID)
	v.hooks[id] = m
	if !v.life.ready {
		v.life.held = append(v.life.held, m)
		return
	}
	if h, ok := m.Hook.(core.PrepareHook); ok {
		v.say(extension.Prepare{ID: id, Call: extension.ToolCall{ID: h.Call.ID, Name: h.Call.Name, Args: h.Call.Arguments}})
		return
	}
	v.say(extension.Call{ID: id, Event: payload(m.Hook, m.SystemPrompt)})
}

func (v *VM) run(c actor.Context, m RunCommand) {
	if v.vm == nil {
		v.commandOver(c, m.Name, "the extensions are not running")
		return
	}
	id := v.tools.number()
	v.commands[id] = m.Name
	v.say(extension.Update{Snapshot: m.Snapshot})
	v.say(extension.RunCommand{ID: id, Name: m.Name, Args: m.Args})
}

// commandOver tells the end of a command, and why it failed, "" if it did not.
func (v *VM) commandOver(c actor.Context, name, why string) {
	if why != "" {
		v.fail(c, extension.Failure{Path: "command:" + name, Event: "command", Message: why})
	}
	c.Send(c.Parent(), CommandOver{name})
}

func (v *VM) fail(c actor.Context, f extension.Failure) { c.Send(c.Parent(), Failed{f}) }

// hear takes what the virtual machine says.
func (v *VM) hear(c actor.Context, what extension.Said) {
	switch m := what.(type) {
	case extension.Ready:
		for _, e := range m.Errors {
			v.fail(c, extension.Failure{Path: e.Path, Event: "load", Message: e.Message, Stack: e.Stack})
		}
		v.ready(c, m)
	case extension.Changed:
		v.regs = m.Registrations
		v.registered(c, Registered{Registrations: v.regs, Refuse: v.refuse.tools, RefuseBash: v.refuse.bash})
	case extension.Told:
		if !v.life.closing && m.N < aside {
			c.Send(c.Parent(), Told{v.nth(), m.N})
		}
	case extension.Done:
		v.done(c, m)
	case extension.ToolUpdate:
		v.tools.update(m)
	case extension.ToolDone:
		v.tools.done(m)
	case extension.CommandDone:
		name := v.commands[m.ID]
		delete(v.commands, m.ID)
		if v.life.closing {
			m.Err = ""
		}
		v.commandOver(c, name, m.Err)
	case extension.Act:
		if err := v.actHere(c, m); err != nil {
			v.fail(c, extension.Failure{Path: "<runtime>", Event: m.Name, Message: err.Error()})
		}
	case extension.Op:
		if err := v.op(c, m); err != nil {
			v.say(extension.Answer{Op: m.ID, Err: err.Error()})
		}
	case extension.OpCancel:
		c.Send(c.Parent(), UIGone{v.opOf(m.ID)})
	case extension.Failure:
		v.fail(c, m)
	case extension.Log:
		v.log.WithLevel(level(m.Level)).Msg(m.Text)
	case extension.Prepared:
		v.prepared(c, m)
	case extension.Quiet:
	case extension.Gone:
		v.gone(c, m)
	}
}

// actHere does what an extension wants in the session that it knows: not in the one
// that has taken its place.
func (v *VM) actHere(c actor.Context, m extension.Act) error {
	if v.life.rebound && !v.life.ready && m.Name != "ui" && m.Name != "streamPart" {
		return fmt.Errorf("%s: the session was replaced", m.Name)
	}
	return v.act(c, m)
}

// ready goes on when everything is loaded. What could not be loaded at first is not
// loaded again for another session, and refuses there, too.
func (v *VM) ready(c actor.Context, m extension.Ready) {
	refuse, refuseBash := missingGate(m.Errors, "tool_call", "Tool calls are"), missingGate(m.Errors, "user_bash", "Commands of the user are")
	if v.life.rebound {
		refuse, refuseBash = cmp.Or(v.refuse.tools, refuse), cmp.Or(v.refuse.bash, refuseBash)
	}
	v.refuse.tools, v.refuse.bash, v.regs = refuse, refuseBash, m.Registrations
	if v.regs.Listens == nil {
		v.regs.Listens = []string{} // they have said that it is nothing
	}
	v.life.ready = true
	v.registered(c, Registered{Start: v.opOf(m.N), Registrations: v.regs, Refuse: refuse, RefuseBash: refuseBash})
	held := v.life.held
	v.life.held = nil
	for _, call := range held {
		v.call(c, call)
	}
}

// registered tells the session what there is.
func (v *VM) registered(c actor.Context, r Registered) {
	v.tools.set(r.Tools)
	if r.Nth = v.nth(); !v.life.closing {
		c.Send(c.Parent(), r)
	}
}

// absent says why something may not happen while the extensions are gone: of those
// that have never said what they want to see, everything may be.
func (v *VM) absent(until, why string) (refuse, refuseBash string) {
	refuse, refuseBash = v.refuse.tools, v.refuse.bash
	unknown := v.regs.Listens == nil
	if refuse == "" && (unknown || slices.Contains(v.regs.Listens, "tool_call")) {
		refuse = "Tool calls are refused " + until + ": the extensions that have to see them have ended (" + why + ")."
	}
	if refuseBash == "" && (unknown || slices.Contains(v.regs.Listens, "user_bash")) {
		refuseBash = "Commands of the user are refused " + until + ": the extensions that have to see them have ended (" + why + ")."
	}
	return refuse, refuseBash
}

// missingGate says why something may not happen: what could not be loaded may be
// what has to see it.
func missingGate(failed []extension.LoadError, event, what string) string {
	for _, f := range failed {
		if slices.Contains(f.Gates, event) {
			return fmt.Sprintf("%s refused: the extension %s has to see them and could not be loaded (%s). "+
				"Mend it and reload, or start with --extension-errors ignore.", what, f.Path, f.Message)
		}
	}
	return ""
}

// done gives the session's machine the answer to a hook.
func (v *VM) done(c actor.Context, m extension.Done) {
	if v.tools.answer(m) {
		return
	}
	h, open := v.hooks[m.ID]
	if !open {
		return
	}
	delete(v.hooks, m.ID)
	in := core.HookDone{ID: h.ID}
	if err := failed(m); err != nil {
		m.Err = err.Error()
	}
	if m.Err == "" {
		ans, err := answer(h, m.Result)
		if err == nil {
			in.Answer = ans
		} else {
			v.fail(c, extension.Failure{Path: cmp.Or(m.Path, "<runtime>"), Event: hookName(h.Hook), Message: err.Error()})
		}
	} else if _, gate := h.Hook.(core.ToolCallHook); gate {
		in.Answer = core.Gated{Blocked: true, Reason: bounded(m.Err)}
	}
	c.Send(c.Parent(), in)
}

// prepared gives it the arguments of a call.
func (v *VM) prepared(c actor.Context, m extension.Prepared) {
	h, open := v.hooks[m.ID]
	if !open {
		return
	}
	delete(v.hooks, m.ID)
	c.Send(c.Parent(), core.HookDone{ID: h.ID, Answer: core.Arranged{Args: m.Args, Err: bounded(m.Err)}})
}

// Lives of a virtual machine: it is begun again after these delays, and not any
// more after as many deaths within a minute.
var restarts = []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second}

const restartWindow = time.Minute

// giveUp answers what was asked of a virtual machine that says no more.
func (v *VM) giveUp(c actor.Context, why string) {
	v.tools.lose(why)
	for _, id := range slices.Sorted(maps.Keys(v.hooks)) {
		h := v.hooks[id]
		delete(v.hooks, id)
		c.Send(c.Parent(), core.HookDone{ID: h.ID})
	}
	for id, name := range v.commands {
		delete(v.commands, id)
		v.commandOver(c, name, why) // one that has ended its own session is through
	}
}

// gone goes on without a virtual machine that is no more, and begins another. Until then
// a gate that was there refuses what it cannot see.
func (v *VM) gone(c actor.Context, m extension.Gone) {
	v.vm = nil
	v.giveUp(c, m.Why)
	v.life.ready, v.life.held = false, nil
	if m.Why == "" || v.life.closing { // it was closed
		c.Stop(c.Self())
		return
	}
	c.Send(c.Parent(), Told{v.nth(), v.told})
	c.Send(c.Parent(), Lost{v.nth()})
	now := time.Now()
	v.deaths = slices.DeleteFunc(v.deaths, func(t time.Time) bool { return now.Sub(t) > restartWindow })
	v.deaths = append(v.deaths, now)
	v.log.Error().Str("why", m.Why).Int("deaths", len(v.deaths)).Msg("extensions of a session ended")
	again := "until they are back"
	if len(v.deaths) > len(restarts) {
		again = "until they are reloaded"
		v.fail(c, extension.Failure{Path: "<runtime>", Event: "disabled", Message: m.Why})
	} else {
		v.fail(c, extension.Failure{Path: "<runtime>", Event: "host", Message: m.Why})
		v.life.timer = kernel.After(c, restarts[len(v.deaths)-1], c.Self(), reopen{})
	}
	refuse, refuseBash := v.absent(again, m.Why)
	r := v.regs
	r.Listens = nil
	c.Send(c.Parent(), Registered{Nth: v.nth(), Registrations: r, Refuse: refuse, RefuseBash: refuseBash})
}
