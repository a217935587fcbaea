package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	words "troupe/protocol/extension"
	"troupe/providers"
	"troupe/store/config"
	"troupe/tools"
)

// extensions is what a session knows of its extensions. The zero value is a
// session without any: nothing is told, and nothing waits.
type extensions struct {
	registered
	nth     int // of their actors: the end of one must not be taken for that of the next
	root    *actor.RootContext
	pid     *actor.PID       // of their actor, nil for none
	tools   *extension.Tools // that they run
	load    loading
	seen    seen // the snapshot that they have
	tooling tooling
	events  extension.Events // that they are told
	fence   fence
	asks    asks
}

// registered is what extensions have registered, as far as the session depends on it.
type registered struct {
	listens    map[string]bool // events with a handler
	regs       int             // how often that has changed
	refuseBash string          // why no command of a client may run; "" refuses none
	commands   []words.CommandDef
	models     modelsOf
}

// modelsOf is what extensions add to the models of the process.
type modelsOf struct {
	own   Models // nil for nothing
	known string // the registrations of which it was made
}

// fence is work that waits until the extensions are through with what they were
// told before it: what a handler does is done before the work, as in pi.
type fence struct {
	told  uint64 // events
	heard uint64 // of these, they are through with so many
	work  []core.Effect
}

// send tells the actor of the extensions.
func (x *extensions) send(msg any) { x.root.Send(x.pid, msg) }

// loading is how far they are.
type loading struct {
	done   bool   // they have said what they are
	asked  bool   // and are asked for resources before that counts
	again  bool   // others are about to take their place
	held   []any  // commands that came before and need to know, and a gentle end behind them
	reason string // why they are: as in session_start
	rebind string // why the session is about to be another one, "" if it is not
	left   string // the file of the session before it, "" for none
	others bool   // that has other extensions
	nth    int    // session of theirs, from 0
	asker  uint64 // the reload_resources that is answered when they are loaded, 0 for none
}

// over says whether nothing has to wait for it.
func (l *loading) over() bool { return l.done && !l.again }

// asks is what extensions wait for.
type asks struct {
	commands map[uint64]ask                 // by the number of the command they gave
	dialogs  map[string]uint64              // by id
	idle     []uint64                       // for the end of what goes on
	seq      uint64                         // of their last command
	later    []extension.Answer             // about a session that they have to be taken to first
	more     map[uint64]extension.Replacing // about commands that replace the session
	hooks    map[int]core.Hook              // that they were asked and have not answered
	answers  map[uint64]context.CancelFunc  // of models, on their way
	inner    map[uint64]bool                // calls of tools that they make
	over     bool                           // their end has begun: nobody answers a dialog
	parting  parting                        // the session, if they are asked about that
}

// parting is a command that replaces the session, about which extensions are asked. The
// zero value is none.
type parting struct {
	seq    uint64
	cancel context.CancelFunc // of the question
}

// atRest says whether nothing goes on between them and the session: nobody waits for the
// other. There may be none.
func (x *extensions) atRest() bool {
	a := &x.asks
	return x.pid == nil || x.load.over() && x.fence.heard == x.fence.told && len(x.fence.work) == 0 && !a.over &&
		len(a.commands)+len(a.dialogs)+len(a.idle)+len(a.later)+len(a.hooks)+len(a.answers)+len(a.inner) == 0
}

// ask is a command of an extension. One without an op is not waited for.
type ask struct {
	op  uint64
	act string
}

// startExtensions has the extensions of a session loaded, if there are any.
// left is the file of the session before it, "" for none.
func (s *Session) startExtensions(c actor.Context, reason, left string) {
	s.ext = extensions{nth: s.ext.nth + 1}
	s.dialogsLost()
	s.clients.stands.list = nil
	found := s.work.extensions
	if len(found) == 0 || s.shared.ExtensionHost == nil {
		return
	}
	spec := s.extensionSpec(reason, left)
	s.ext.load.reason = reason
	s.ext.root, s.ext.tools = c.ActorSystem().Root, extension.NewTools()
	s.ext.asks = asks{commands: map[uint64]ask{}, dialogs: map[string]uint64{}, hooks: map[int]core.Hook{}, more: map[uint64]extension.Replacing{}, answers: map[uint64]context.CancelFunc{}, inner: map[uint64]bool{}, seq: firstSeq}
	log, host, box, nth := s.log, s.shared.ExtensionHost, s.ext.tools, s.ext.nth
	s.ext.pid = s.spawn(c, fmt.Sprintf("extensions/%d", nth), func() actor.Actor { return extension.New(log, host, spec, box, nth) })
}

// beginExtensions has extensions loaded when the file was opened: anew if it was opened
// again, since they know another one.
func (s *Session) beginExtensions(c actor.Context, reason string) {
	if s.ext.pid == nil {
		s.startExtensions(c, reason, "")
		return
	}
	s.retellIfNone(c, s.restartExtensions(c, "reload", ""))
}

// extensionSpec is what the extensions of the session begin with.
func (s *Session) extensionSpec(reason, left string) words.Spec {
	spec := words.Spec{
		Cwd: s.work.cwd, SessionFile: s.file.path, Reason: reason, Previous: left, Flags: s.shared.ExtensionOptions, Snapshot: s.snapshot(true),
		Argv: s.shared.Argv, AgentDir: s.shared.AgentDir,
		Sandbox: string(s.work.env.Sandbox.Files), NoNetwork: s.work.env.Sandbox.NoNetwork,
	}
	for _, x := range s.work.extensions {
		spec.Entries = append(spec.Entries, ExtensionEntry(x))
	}
	return spec
}

// firstSeq is above the numbers of all commands of clients.
const firstSeq = 1 << 63

// is says whether an actor is theirs.
func (x *extensions) is(pid *actor.PID) bool { return x.pid != nil && x.pid.Equal(pid) }

// restartExtensions ends the extensions of a session that was configured anew, and
// has them loaded again. held is what waits for it.
func (s *Session) restartExtensions(c actor.Context, reason, left string) (held []any) {
	s.stopCompletions()
	if s.ext.pid != nil {
		s.ext.send(extension.Close{Reason: reason})
	}
	s.answerReload()
	held = s.ext.load.held
	work := s.ext.fence.work
	s.dismissDialogs(c)
	s.startExtensions(c, reason, left)
	s.ext.load.held, s.ext.fence.work = held, work
	return held
}

// moveExtensions takes them along into a session that takes the place of another, or
// replaces them where that has others: it may be one of another directory. They hear
// of it when the machine has gone over.
func (s *Session) moveExtensions(reason, left string, before *workspace) {
	others := !slices.Equal(s.work.extensions, before.extensions) || s.work.env.Sandbox != before.env.Sandbox
	if s.ext.pid == nil && !others {
		return
	}
	if !others {
		s.work.settings.Extensions = before.settings.Extensions
		s.offerTools()
	}
	s.ext.load.done, s.ext.load.rebind, s.ext.load.others, s.ext.load.left = false, reason, others, left
}

// rebound tells them that the session is another one now.
func (s *Session) rebound(c actor.Context) {
	reason := s.ext.load.rebind
	if reason == "" {
		return
	}
	s.ext.load.rebind = ""
	left := s.ext.load.left
	if s.ext.load.others {
		s.retellIfNone(c, s.restartExtensions(c, reason, left))
		return
	}
	s.ext.seen = seen{}
	s.ext.load.nth++
	s.ext.send(extension.Rebind{Spec: s.extensionSpec(reason, left)})
}

// offerTools makes the tools of extensions known to the machine.
func (s *Session) offerTools() {
	box := s.ownTools()
	s.work.settings.KnownTools = box.Infos()
	s.work.settings.Check = box.CheckWith
}

// closeExtensions lets the extensions say what they have to say about the end,
// which is gone on with when they have. It is false if there are none.
func (s *Session) closeExtensions(c actor.Context) bool {
	if s.ext.pid == nil {
		return false
	}
	s.dismissDialogs(c)
	s.stopCompletions()
	s.ext.asks.over = true
	s.ext.send(extension.Close{Reason: "quit"})
	return true
}

// extensionsOver says that the actor of the extensions has ended.
type extensionsOver struct{ who *actor.PID }

// extensionsEnded goes on without their actor. If that was not the end of the
// session, what was asked of them is answered, and a gate that is not there any
// more lets nothing pass.
func (s *Session) extensionsEnded(c actor.Context) {
	hooks := slices.Sorted(maps.Keys(s.ext.asks.hooks))
	s.stopCompletions()
	s.answerReload()
	gated, held := s.ext.listens["tool_call"], s.ext.load.held
	commands := &s.reported.commands
	commands.over, commands.running = append(commands.over, commands.running...), nil
	s.ext = extensions{nth: s.ext.nth}
	if s.m.Done() {
		s.onClosed(c)
		return
	}
	set := &s.work.settings
	set.Extensions = core.Extensions{}
	if gated {
		set.Extensions.Refuse = "Tool calls are refused until the extensions are reloaded: those that have to see them have ended."
	}
	s.offerTools()
	s.step(c, core.Reconfigured{Settings: *set})
	for _, id := range hooks {
		s.step(c, core.HookDone{ID: id})
	}
	s.retell(c, held)
	s.extensionFailed(words.Failure{Path: "<runtime>", Event: "disabled", Message: "the actor of the extensions has ended"})
	s.clients.flush(c.ActorSystem().Root)
}

// passes says whether a command goes on while one before it waits for extensions: an
// answer, for which they may be waiting themselves, or the end of the session.
func passes(cmd protocol.Command) bool {
	_, isClose := cmd.(protocol.CloseSession)
	return isClose || protocol.TraitsOf(cmd).Is(protocol.Answers)
}

// loading says whether extensions are being loaded, the first time or again.
func (x *extensions) loading() bool { return x.load.again || x.pid != nil && !x.load.over() }

// waits says whether a command has to wait until the extensions are loaded: one that
// needs them, and those behind it, too, for an abort is about what was sent before it.
func (s *Session) waits(cmd protocol.Command) bool {
	return s.ext.loading() && (protocol.TraitsOf(cmd).Is(protocol.NeedsExtensions) || len(s.ext.load.held) > 0 && !passes(cmd))
}

// leaveWaits says the same of the end of the last client.
func (s *Session) leaveWaits() bool {
	return s.ext.loading() && len(s.ext.load.held) > 0 && (s.life.end == nil || !s.life.end.abort)
}

// hold keeps a message until the extensions are loaded.
func (s *Session) hold(c actor.Context, m any) {
	s.ext.load.held = append(s.ext.load.held, m)
	s.clients.unsent, s.clients.first.early = append(s.clients.first.early, s.clients.unsent...), nil // what they say may be what the command waits for
	s.clients.flush(c.ActorSystem().Root)
}

// fromExtensions is everything that they say.
func (s *Session) fromExtensions(c actor.Context, m extension.Message) {
	if _, over := m.(extension.CommandOver); s.ext.pid == nil && !over { // a command may be of some that nobody has replaced
		return // they have ended, and with them whoever waits
	}
	switch m := m.(type) {
	case extension.Registered:
		if m.Nth == s.ext.nth { // those before it say nothing of what is loaded now
			s.registered(c, m)
		}
	case extension.Failed:
		s.extensionFailed(m.Failure)
	case extension.CommandOver:
		s.commandOver(m.Name)
	case extension.Told:
		if m.Nth == s.ext.nth {
			s.throughWith(c, m.N)
		}
	case extension.UI:
		s.extensionUI(c, m)
	case extension.ExecuteTool:
		s.ext.asks.inner[m.Op] = true
		s.step(c, core.InnerCall(m))
	case extension.UIGone:
		s.stopCompletion(m.Op)
		if s.ext.asks.inner[m.Op] {
			delete(s.ext.asks.inner, m.Op)
			s.step(c, core.InnerCancelled{Op: m.Op})
		}
		s.dialogGone(c, m.Op)
	case extension.Complete:
		s.askModel(c, m)
	case extension.Key:
		s.tellKey(c, m)
	case extension.Lost:
		if m.Nth == s.ext.nth {
			s.stopCompletions()
			s.dismissDialogs(c)
		}
	case extension.Run:
		s.runFor(c, m)
	case extension.WaitIdle:
		s.ext.asks.idle = append(s.ext.asks.idle, m.Op)
		s.answerIdle()
	case extension.Shutdown:
		s.close(c, ending{quit: true})
	}
	s.nextDialog(c)
	s.clients.flush(c.ActorSystem().Root)
	s.report(c) // they may have asked something
}

// registered takes over what is registered now.
func (s *Session) registered(c actor.Context, m extension.Registered) {
	s.ext.listens = map[string]bool{}
	for _, name := range m.Listens {
		s.ext.listens[name] = true
	}
	s.ext.commands = m.Commands
	s.ext.regs++
	set := &s.work.settings
	set.Extensions = core.Extensions{Listens: extension.Listens(m.Listens), Refuse: m.Refuse}
	s.ext.refuseBash = m.RefuseBash
	if s.shared.IgnoreExtensionErrors {
		set.Extensions.Refuse, s.ext.refuseBash = "", ""
	}
	for _, t := range m.Tools {
		if s.wantsTool(t) {
			set.Extensions.Tools = append(set.Extensions.Tools, t.Name)
		}
		if t.Prepares {
			set.Extensions.Prepares = append(set.Extensions.Prepares, t.Name)
		}
	}
	s.offerTools()
	s.ext.events.Begin(s.m.Level(), s.file.Leaf())
	s.addProviders(m.Providers)
	s.step(c, core.Reconfigured{Settings: *set})
	if s.ext.load.done || s.ext.load.asked {
		return
	}
	for name := range s.shared.ExtensionOptions {
		if !slices.ContainsFunc(m.Flags, func(f words.FlagDef) bool { return f.Name == name }) {
			s.shared.complaints.about(fmt.Errorf("unknown option --%s: no extension has it", name))
		}
	}
	s.nameUnknownTools()
	for _, text := range extension.Unsupported(m.Registrations) {
		s.shared.complaints.about(errors.New(text))
	}
	if s.asksTrust() {
		s.askTrust(c)
		return
	}
	s.goOnLoading(c)
}

// goOnLoading does what comes when it is known what extensions there are.
func (s *Session) goOnLoading(c actor.Context) {
	if s.ext.listens["resources_discover"] {
		s.discover(c)
		return
	}
	s.extensionsLoaded(c)
}

// discover asks extensions for resources, off the actor's goroutine.
func (s *Session) discover(c actor.Context) {
	s.ext.load.asked = true
	box, cwd, nth, reason := s.ext.tools, s.work.cwd, s.ext.nth, "startup"
	if s.ext.load.reason == "reload" {
		reason = "reload"
	}
	kernel.Background(c, func() any {
		return discovered{nth, box.Discover(context.Background(), cwd, reason)}
	})
}

// discovered is what the extensions of an actor bring along.
type discovered struct {
	nth   int
	found extension.Resources
}

func (s *Session) onDiscovered(c actor.Context, m discovered) {
	if m.nth != s.ext.nth || !s.ext.load.asked {
		return
	}
	s.ext.load.asked = false
	s.work.prompts.add(m.found)
	s.extensionsLoaded(c)
	s.clients.flush(c.ActorSystem().Root)
}

// extensionsLoaded goes on with what has waited for them.
func (s *Session) extensionsLoaded(c actor.Context) {
	s.ext.load.done = true
	s.answerReload()
	s.beginWork(c)
	for _, a := range s.ext.asks.later {
		s.ext.send(a)
	}
	s.ext.asks.later = nil
	if s.ext.load.over() {
		s.retell(c, s.ext.load.held)
	}
}

// answerReload answers the reload_resources that waits, with the commands that there are.
func (s *Session) answerReload() {
	seq := s.ext.load.asker
	s.ext.load.asker = 0
	if seq != 0 && s.clients.replies.expects(seq) {
		s.reply(seq, s.commands(), nil)
	}
}

// wantsTool says whether a tool of an extension is active as soon as it is there.
func (s *Session) wantsTool(t words.ToolDef) bool {
	switch {
	case slices.Contains(s.spec.WithoutTools, t.Name), t.Exposure == "hidden":
		return false
	case s.spec.Tools != nil && !s.spec.FreeTools:
		return slices.Contains(s.spec.Tools, t.Name)
	default:
		return t.DefaultActive == nil || *t.DefaultActive
	}
}

// nameUnknownTools names, once, the tools that were asked for and neither we nor an
// extension has.
func (s *Session) nameUnknownTools() {
	box := s.ownTools()
	for _, asked := range []struct {
		source string
		names  []string
	}{{"--tools", s.spec.Tools}, {"--exclude-tools", s.spec.WithoutTools}, {"--confirm", s.shared.Confirm}, {"settings defaultTools", s.work.files.DefaultTools}} {
		for _, n := range asked.names {
			if _, ok := box.Lookup(strings.TrimLeft(n, "+-")); !ok {
				s.shared.complaints.about(fmt.Errorf("%s: unknown tool %s", asked.source, n))
			}
		}
	}
}

// retellIfNone goes on with what waited if there are no extensions any more.
func (s *Session) retellIfNone(c actor.Context, held []any) {
	if s.ext.pid == nil {
		s.retell(c, held)
	}
}

// retell goes on with what waited.
func (s *Session) retell(c actor.Context, held []any) {
	s.ext.load.held = nil
	for _, m := range held {
		switch m := m.(type) {
		case link.Request:
			if s.clients.replies.expects(m.Seq) { // else its client has left
				s.command(c, m)
			}
		case link.Leave:
			s.leave(c)
		}
	}
	s.askAgain(c)
}

// extensionFailed names an error of an extension to the clients and on stderr.
func (s *Session) extensionFailed(f words.Failure) {
	s.log.Warn().Str("extension", f.Path).Str("event", f.Event).Msg(f.Message)
	s.emit(protocol.ExtensionError{ExtensionPath: f.Path, Event: f.Event, Error: f.Message})
}

// tellExtensions tells them an event of the session, if one of them listens.
func (s *Session) tellExtensions(ev protocol.Event) {
	if len(s.ext.listens) == 0 {
		return
	}
	name, payload := s.ext.events.Of(ev, func(name string) bool { return s.ext.listens[name] })
	if name == "" {
		return
	}
	if name != "message_update" && name != "tool_execution_update" { // nothing has changed but what they show
		s.update()
	}
	s.tellEvent(payload)
}

func (s *Session) tellEvent(payload json.RawMessage) {
	s.ext.fence.told++
	s.ext.send(extension.Tell{N: s.ext.fence.told, Event: payload})
}

// update shows the extensions what they may read at any time, if it has changed.
func (s *Session) update() {
	if now := (seen{s.changing(), &s.tooling()[0]}); now != s.ext.seen {
		s.ext.seen = now
		s.ext.send(extension.Update{Snapshot: s.snapshot(false)})
	}
}

// fenced keeps work back until the extensions are through.
func (s *Session) fenced(e core.Effect) bool {
	switch e.(type) {
	case core.StartStream, core.StartTool, core.StartBash, core.Summarise:
		if s.ext.pid == nil || s.ext.load.over() && s.ext.fence.heard == s.ext.fence.told {
			return false
		}
		s.ext.fence.work = append(s.ext.fence.work, e)
		return true
	default:
		return false
	}
}

// abortSignal tells handlers that what goes on was stopped.
func (s *Session) abortSignal() {
	if s.ext.pid != nil {
		s.ext.send(extension.AbortRun{})
	}
}

// unfence drops work that was not begun and is not wanted any more.
func (s *Session) unfence(attempt core.Attempt) {
	s.ext.fence.work = slices.DeleteFunc(s.ext.fence.work, func(e core.Effect) bool {
		switch e := e.(type) {
		case core.StartStream:
			return e.Attempt == attempt
		case core.StartTool:
			return e.Attempt == attempt
		case core.Summarise:
			return e.Attempt == attempt
		default:
			return false
		}
	})
}

// unfenceCall takes back a call that was not begun.
func (s *Session) unfenceCall(e core.CancelCall) {
	s.ext.fence.work = slices.DeleteFunc(s.ext.fence.work, func(w core.Effect) bool {
		start, ok := w.(core.StartTool)
		return ok && start.Attempt == e.Attempt && start.Call.ID == e.CallID
	})
}

// unfenceBash takes back a command that was not begun, and tells its end.
func (s *Session) unfenceBash(job int) {
	i := slices.IndexFunc(s.ext.fence.work, func(e core.Effect) bool {
		start, ok := e.(core.StartBash)
		return ok && start.Job == job
	})
	if i >= 0 {
		s.ext.fence.work = slices.Delete(s.ext.fence.work, i, i+1)
		s.inputs.cause(core.BashDone{Job: job, Result: protocol.BashResult{Cancelled: true}})
	}
}

// throughWith begins the work that waited.
func (s *Session) throughWith(c actor.Context, n uint64) {
	s.ext.fence.heard = max(s.ext.fence.heard, min(n, s.ext.fence.told))
	s.beginWork(c)
}

// beginWork begins what waited, when nothing is left to wait for.
func (s *Session) beginWork(c actor.Context) {
	if s.ext.pid != nil && (!s.ext.load.over() || s.ext.fence.heard != s.ext.fence.told) {
		return
	}
	work := s.ext.fence.work
	s.ext.fence.work = nil
	for _, e := range work {
		s.do(c, e)
	}
	if in := s.inputs.first(); in != nil {
		s.step(c, in...)
	}
}

// callHook asks the extensions.
func (s *Session) callHook(c actor.Context, e core.CallHook) {
	s.rebound(c) // the machine asks for the session that it is in
	if s.ext.pid == nil {
		s.inputs.cause(core.HookDone{ID: e.ID})
		return
	}
	call := extension.Call{CallHook: e}
	if _, ok := e.Hook.(core.BeforeAgentStartHook); ok {
		call.SystemPrompt = extension.SystemPrompt{Text: s.systemPrompt(), Options: s.promptOptions(), Make: systemOf}
	}
	s.update()
	s.ext.asks.hooks[e.ID] = e.Hook
	s.ext.events.Asked(e.Hook, false)
	s.ext.send(call)
}

func (s *Session) cancelHook(e core.CancelHook) {
	asked := s.ext.asks.hooks[e.ID]
	if asked == nil { // about permissions
		return
	}
	s.ext.events.Asked(asked, true)
	delete(s.ext.asks.hooks, e.ID)
	if s.ext.pid != nil {
		s.ext.send(e)
	}
}

// hookDone completes what extensions made of a message as if a client had sent it.
func (s *Session) hookDone(c actor.Context, in core.HookDone) {
	delete(s.ext.asks.hooks, in.ID)
	if taken, ok := in.Answer.(core.Taken); ok && !taken.Handled {
		s.expand(&taken.Command)
		in.Answer = taken
	}
	s.step(c, in)
}

// extensionCommand finds the command of an extension that a message names.
func (s *Session) extensionCommand(cmd protocol.Command) *core.ExtensionCommand {
	text, ok := cmd.(protocol.Expandable)
	if !ok || len(s.ext.commands) == 0 {
		return nil
	}
	name, args, ok := slashCommand(text.Text())
	if !ok || !slices.ContainsFunc(s.ext.commands, func(x words.CommandDef) bool { return x.Name == name }) {
		return nil
	}
	return &core.ExtensionCommand{Name: name, Args: args}
}

func (s *Session) runExtensionCommand(e core.RunCommand) {
	s.update()
	more, err := json.Marshal(map[string]json.RawMessage{"systemPromptOptions": s.promptOptions()})
	if err != nil {
		panic("session: command: " + err.Error())
	}
	s.reported.commands.running = append(s.reported.commands.running, e.Name)
	s.ext.send(extension.RunCommand{RunCommand: e, Snapshot: more})
}

// commandsOf are the commands of extensions whose end clients have not been told.
type commandsOf struct {
	running []string
	over    []string // while something goes on in the session
}

func (s *Session) commandOver(name string) {
	of := &s.reported.commands
	if i := slices.Index(of.running, name); i >= 0 {
		of.running = slices.Delete(of.running, i, i+1)
		of.over = append(of.over, name)
	}
	s.tellCommands()
}

// tellCommands tells clients of the commands that have ended, when what they have begun has, too.
func (s *Session) tellCommands() {
	of := &s.reported.commands
	if len(of.over) == 0 || !s.m.AtRest() {
		return
	}
	for _, name := range of.over {
		s.emit(protocol.ExtensionCommandEnd{Name: name})
	}
	of.over = nil
}

// extensionsSee says whether a message goes past extensions as its author wrote it.
func (s *Session) extensionsSee(cmd protocol.Command) bool {
	return protocol.TraitsOf(cmd).Is(protocol.TakesInput) && s.ext.listens["input"]
}

// slashCommand takes /name args apart.
func slashCommand(text string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(text, "/")
	name, args, _ = strings.Cut(rest, " ")
	return name, args, ok && name != ""
}

// showEntry shows the extensions an entry that was added to the log.
func (s *Session) showEntry(r protocol.Record) {
	if s.ext.pid == nil {
		return
	}
	s.ext.send(extension.Entry{Raw: r.AppendJSON(nil)})
	name, payload := s.ext.events.OfEntry(r, s.reported.model, s.m.Model(), func(name string) bool { return s.ext.listens[name] })
	if name != "" && s.ext.load.done { // what a session begins with is no event to those who come into it
		s.tellEvent(payload)
	}
}

// extensionUI shows a record of an extension to the clients, and opens a dialog if
// it wants an answer. Nobody there means no.
func (s *Session) extensionUI(c actor.Context, m extension.UI) {
	m.Request.ID = s.shared.recordID("ext")
	if m.Op == 0 {
		s.clients.stands.note(m.Request, false)
		s.emit(m.Request)
		return
	}
	switch {
	case s.ext.asks.over, m.Session != s.ext.load.nth, s.clients.attached() == 0 && !s.waitsForSomebody():
		s.answerOp(m.Op, json.RawMessage(`{"cancelled":true}`), "")
		return
	case len(s.ext.asks.dialogs) >= maxDialogs:
		s.answerOp(m.Op, json.RawMessage(`{"cancelled":true}`), "")
		s.extensionFailed(words.Failure{Path: "<runtime>", Event: "ui", Message: fmt.Sprintf("more than %d dialogs are open", maxDialogs)})
		return
	}
	s.ext.asks.dialogs[m.Request.ID] = m.Op
	s.oneByOne(c, m.Request.ID, func(c actor.Context) {
		s.clients.stands.note(m.Request, true)
		s.tellPrompt("ui_prompt_start", m.Request)
		s.emit(m.Request)
		s.tellUI(c, worker.AskUI{Request: m.Request})
		s.unseen(c)
	})
	s.partingAsks(c)
}

// maxDialogs is how many dialogs of extensions may be open at once.
const maxDialogs = 64

// dialogAnswered gives an extension the answer to its dialog; false if it is not
// its own.
func (s *Session) dialogAnswered(m core.UIAnswered, how protocol.DialogOver) bool {
	op, ok := s.ext.asks.dialogs[m.ID]
	if !ok {
		return false
	}
	delete(s.ext.asks.dialogs, m.ID)
	s.promptOver(m.ID, how)
	var a any = map[string]bool{"cancelled": true}
	switch {
	case m.Cancelled:
	case m.Value != nil:
		a = map[string]string{"value": *m.Value}
	default:
		a = map[string]bool{"confirmed": m.Confirmed}
	}
	raw, err := json.Marshal(a)
	if err != nil {
		panic("session: dialog: " + err.Error())
	}
	s.answerOp(op, raw, "")
	return true
}

// promptOver takes a dialog of an extension away.
func (s *Session) promptOver(id string, how protocol.DialogOver) {
	if x := s.dialogOver(id, how); x != nil {
		if r, is := x.record.(protocol.ExtensionUIRequest); is {
			s.tellPrompt("ui_prompt_end", r)
		}
	}
}

// tellPrompt tells extensions that somebody is asked something, or not any more.
func (s *Session) tellPrompt(name string, r protocol.ExtensionUIRequest) {
	if !s.ext.listens[name] || s.ext.asks.over {
		return
	}
	raw, err := json.Marshal(map[string]any{"type": name, "reason": "ui_prompt", "kind": r.Method, "title": r.Title})
	if err != nil {
		panic("session: " + name + ": " + err.Error())
	}
	s.tellEvent(raw)
}

// dialogGone closes a dialog that its extension does not want any more.
func (s *Session) dialogGone(c actor.Context, op uint64) {
	for id, of := range s.ext.asks.dialogs {
		if of == op {
			delete(s.ext.asks.dialogs, id)
			s.promptOver(id, protocol.DialogOver{Outcome: string(protocol.DialogAborted)})
			s.tellUI(c, worker.CancelUI{ID: id})
			s.partingAsks(c)
		}
	}
}

// dismissDialogs ends every dialog of extensions as if it had been cancelled:
// nobody can answer.
func (s *Session) dismissDialogs(c actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.ext.asks.dialogs)) {
		s.tellUI(c, worker.CancelUI{ID: id})
		s.dialogAnswered(core.UIAnswered{ID: id, Cancelled: true}, protocol.DialogOver{Outcome: string(protocol.DialogLost)})
	}
}

func (s *Session) answerOp(op uint64, result json.RawMessage, err string) {
	s.ext.send(extension.Answer{Op: op, Result: result, Err: err})
}

// runFor carries out a command of an extension.
func (s *Session) runFor(c actor.Context, m extension.Run) {
	s.ext.asks.seq++
	cmd := core.Command{Seq: s.ext.asks.seq, Name: m.Act, Cmd: m.Cmd, FromExtension: true}
	s.ext.asks.commands[cmd.Seq] = ask{m.Op, m.Act}
	if len(m.Replacing.Setup) > 0 || m.Replacing.At {
		s.ext.asks.more[cmd.Seq] = m.Replacing
	}
	if protocol.TraitsOf(cmd.Cmd).Is(protocol.NeedsModels) {
		cmd.Catalog = s.catalog()
		cmd.Found = s.lookUp(cmd.Cmd, cmd.Catalog)
	}
	s.step(c, cmd)
}

// replied gives an extension the answer to its command; false if it is not its own.
func (s *Session) replied(seq uint64, data protocol.Result, err *protocol.Error) bool {
	a, ok := s.ext.asks.commands[seq]
	if !ok {
		return seq >= firstSeq // of those that have been replaced: nobody waits any more
	}
	delete(s.ext.asks.commands, seq)
	switch {
	case a.op != 0 && a.act == "setModel" && err != nil && err.Code == protocol.CodeNoKey:
		s.answerOp(a.op, json.RawMessage(`{"noKey":true}`), "")
	case a.op != 0 && err != nil:
		s.answerOp(a.op, nil, err.Message)
	case a.op != 0:
		raw := json.RawMessage("null")
		if data != nil {
			raw = protocol.AppendValue(nil, data)
		}
		if s.ext.load.rebind != "" { // they belong to another session from now on
			s.ext.asks.later = append(s.ext.asks.later, extension.Answer{Op: a.op, Result: raw})
			break
		}
		s.answerOp(a.op, raw, "")
	case err != nil:
		s.extensionFailed(words.Failure{Path: "<runtime>", Event: a.act, Message: err.Message})
	}
	return true
}

// innerDone gives an extension the result of a call that its tool has made.
func (s *Session) innerDone(e core.InnerDone) {
	if !s.ext.asks.inner[e.Op] {
		return // nobody waits any more
	}
	delete(s.ext.asks.inner, e.Op)
	if e.Err != "" {
		s.answerOp(e.Op, nil, e.Err)
		return
	}
	s.answerOp(e.Op, extension.Executed(e), "")
}

// answerIdle tells extensions that have waited that nothing goes on any more.
func (s *Session) answerIdle() {
	if len(s.ext.asks.idle) == 0 || s.m.Phase() != core.PhaseIdle {
		return
	}
	for _, op := range s.ext.asks.idle {
		s.answerOp(op, json.RawMessage("null"), "")
	}
	s.ext.asks.idle = nil
}

// snapshot is what extensions may read of the session at any time.
type snapshot struct {
	changing
	ActiveTools []string          `json:"activeTools"`
	Scoped      []json.RawMessage `json:"scopedModels,omitempty"`    // at the beginning
	Models      json.RawMessage   `json:"models,omitempty"`          // at the beginning
	Available   json.RawMessage   `json:"availableModels,omitempty"` // likewise
	Settings    json.RawMessage   `json:"settings,omitempty"`        // likewise
}

// changing is what of a snapshot changes while a session is at work. It can be compared: it is
// taken for every hook, and seldom another one.
type changing struct {
	Cwd         string                 `json:"cwd"`
	SessionID   string                 `json:"sessionId"`
	SessionFile string                 `json:"sessionFile,omitempty"`
	SessionName orNull                 `json:"sessionName"`
	Model       shownModel             `json:"model"`
	Level       protocol.ThinkingLevel `json:"thinkingLevel"`
	Idle        bool                   `json:"idle"`
	Running     bool                   `json:"running"`
	Pending     int                    `json:"pending"`
	LeafID      orNull                 `json:"leafId"`
	Trusted     bool                   `json:"trusted"`
	Usage       contextUsage           `json:"contextUsage"`
}

// seen is the snapshot that extensions have. What is in it beside what changes is as old as tooling.
type seen struct {
	changing
	tooling *byte
}

// orNull is a text that may be missing.
type orNull string

func (t orNull) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

type shownModel struct{ model *protocol.Model }

func (m shownModel) MarshalJSON() ([]byte, error) {
	if m.model == nil {
		return []byte("null"), nil
	}
	return modelJSON(m.model), nil
}

// contextUsage is nothing without a model whose window is known.
type contextUsage struct{ tokens, window int64 }

func (u contextUsage) MarshalJSON() ([]byte, error) {
	if u.window <= 0 {
		return []byte("null"), nil
	}
	return json.Marshal(map[string]any{"tokens": u.tokens, "contextWindow": u.window, "percent": 100 * float64(u.tokens) / float64(u.window)})
}

// shownTool is a tool as extensions see it.
type shownTool struct {
	protocol.ToolInfo
	Guidelines []string             `json:"promptGuidelines,omitempty"`
	Source     *protocol.SourceInfo `json:"sourceInfo,omitempty"`
}

// toolsShown are all tools, with where they come from.
func (s *Session) toolsShown() []shownTool {
	infos := s.box().Infos()
	list := make([]shownTool, len(infos))
	for i, info := range infos {
		source := &protocol.SourceInfo{Path: "builtin:" + info.Name, Source: "builtin", Scope: "temporary", Origin: "top-level"}
		if path := s.ext.tools.PathOf(info.Name); path != "" {
			source = s.sourceOf(path)
		}
		list[i] = shownTool{info, info.Guidelines, source}
	}
	return list
}

// sourceOf says where an extension was found; nil if it was not.
func (s *Session) sourceOf(path string) *protocol.SourceInfo {
	for _, x := range s.work.extensions {
		if x.Path == path {
			origin := "top-level"
			if x.Package {
				origin = "package"
			}
			return &protocol.SourceInfo{Path: x.Path, Source: x.Source, Scope: x.Scope, Origin: origin, BaseDir: x.Base}
		}
	}
	return nil
}

// changing takes that part of a snapshot.
func (s *Session) changing() changing {
	st := s.m.State()
	now := changing{
		Cwd: s.work.cwd, SessionID: st.SessionID, SessionFile: s.file.path, SessionName: orNull(s.m.Name()),
		Model: shownModel{st.Model}, Level: st.ThinkingLevel, Idle: s.m.Idle(), Running: st.IsStreaming, Pending: s.m.Pending(),
		LeafID: orNull(s.file.Leaf()), Trusted: s.work.trusted(),
	}
	if m := st.Model; m != nil {
		now.Usage = contextUsage{s.m.ContextTokens(), m.ContextWindow}
	}
	return now
}

// snapshot takes one; whole has what hardly changes, too.
func (s *Session) snapshot(whole bool) json.RawMessage {
	snap := snapshot{changing: s.changing(), ActiveTools: s.m.ActiveTools()}
	if whole {
		for _, scoped := range s.work.settings.Scope {
			snap.Scoped = append(snap.Scoped, modelJSON(scoped.Model))
		}
		snap.Settings = s.work.files.Given
		catalog := s.catalog()
		snap.Models, snap.Available = protocol.AppendValue(nil, catalog.Models), protocol.AppendValue(nil, catalog.Available())
	}
	raw, err := json.Marshal(snap)
	if err != nil {
		panic("session: snapshot: " + err.Error())
	}
	raw = append(raw[:len(raw)-1], ',')
	return append(raw, s.tooling()...)
}

// tooling is what a snapshot says of tools and commands. It is large, and is made again only when
// something of what it is made of is another: a snapshot is taken for every hook.
type tooling struct {
	active  []string
	hosts   []protocol.HostTool
	prompts *promptResources
	regs    int
	made    []byte // members of the snapshot, and its end
}

func (s *Session) tooling() []byte {
	t, active, hosts, prompts := &s.ext.tooling, s.m.ActiveTools(), s.m.HostTools(), s.work.prompts.get()
	sameHosts := len(t.hosts) == len(hosts) && (len(hosts) == 0 || &t.hosts[0] == &hosts[0])
	if t.made != nil && sameHosts && t.prompts == prompts && t.regs == s.ext.regs && slices.Equal(t.active, active) {
		return t.made
	}
	raw, err := json.Marshal(struct {
		Tools        []shownTool     `json:"tools"`
		Commands     json.RawMessage `json:"commands"`
		SystemPrompt string          `json:"systemPrompt"`
	}{s.toolsShown(), protocol.AppendValue(nil, s.commandList().Commands), s.systemPrompt()})
	if err != nil {
		panic("session: snapshot: " + err.Error())
	}
	*t = tooling{slices.Clone(active), hosts, prompts, s.ext.regs, raw[1:]}
	return t.made
}

func modelJSON(m *protocol.Model) json.RawMessage {
	if m == nil {
		return nil
	}
	return protocol.AppendValue(nil, m)
}

// systemPrompt is the one in force.
func (s *Session) systemPrompt() string {
	return s.work.prompts.get().system(s.box().Select(s.m.ActiveTools()))
}

// promptOptions are what it is made of.
func (s *Session) promptOptions() json.RawMessage {
	raw, err := json.Marshal(s.work.prompts.get().options(s.box().Select(s.m.ActiveTools())))
	if err != nil {
		panic("session: prompt options: " + err.Error())
	}
	return raw
}

// beginning is why a session begins to be open.
func (s *Session) beginning(to core.Loaded) string {
	switch {
	case len(s.life.crashes) > 0:
		return "reload"
	case to.LeafID != "":
		return "resume"
	default:
		return "startup"
	}
}

// ExtensionEntry names an extension to what runs it.
func ExtensionEntry(x config.Extension) words.Entry {
	kinds := map[config.Form]words.Kind{config.AHook: words.Hook, config.ACustomTool: words.Tool}
	return words.Entry{Path: x.Path, Kind: kinds[x.Form]}
}

// said is what extensions say to a command that replaces the session or goes elsewhere
// in it.
type said struct {
	veto    bool
	nav     *protocol.NavigateTree  // in the place of the command
	summary *protocol.BranchSummary // of the branch that it leaves
}

// beforeSwitch asks the extensions about a command that replaces the session. It is to
// be called off the actor's goroutine.
func (s *Session) beforeSwitch(e core.LoadSession, more extension.Replacing) func() said {
	name, event := extension.BeforeSwitch(e.Cmd, more)
	if name == "" || !s.ext.listens[name] {
		return func() said { return said{} }
	}
	s.update()
	ctx, cancel := context.WithCancel(context.Background())
	s.ext.asks.parting = parting{e.Seq, cancel}
	s.inputs.cause(core.SwitchAsked{Seq: e.Seq, Dialog: len(s.ext.asks.dialogs) > 0})
	box, leaf := s.ext.tools, s.file.Leaf()
	return func() (says said) {
		if nav, is := e.Cmd.(protocol.NavigateTree); is {
			says.veto, nav, says.summary = box.BeforeTree(ctx, nav, leaf)
			says.nav = &nav
		} else {
			says.veto = box.Vetoes(ctx, name, event)
		}
		says.veto = says.veto || ctx.Err() != nil
		return says
	}
}

// partingOver ends the question about a command that replaces the session.
func (s *Session) partingOver(seq uint64) {
	if l := s.ext.asks.parting; l.cancel != nil && l.seq == seq {
		l.cancel()
		s.ext.asks.parting = parting{}
	}
}

// partingAsks tells the machine whether extensions that are asked about a command ask a
// person now.
func (s *Session) partingAsks(c actor.Context) {
	if l := s.ext.asks.parting; l.cancel != nil {
		s.step(c, core.SwitchAsked{Seq: l.seq, Dialog: len(s.ext.asks.dialogs) > 0})
	}
}

// beforeCompact is what extensions say to a compaction, off the actor's goroutine;
// nil if nobody listens.
func (s *Session) beforeCompact() func(context.Context, *worker.Compactor) (*protocol.Compaction, *protocol.Error) {
	if !s.ext.listens["session_before_compact"] {
		return nil
	}
	s.update()
	box, set := s.ext.tools, s.work.files.Compaction
	return func(ctx context.Context, k *worker.Compactor) (*protocol.Compaction, *protocol.Error) {
		c, cancelled := box.BeforeCompact(ctx, k, set.Enabled)
		if cancelled {
			return nil, protocol.CodeCancelled.Errorf("Compaction cancelled")
		}
		return c, nil
	}
}

// taps let extensions look at requests, by those of the events that they listen to.
func (s *Session) taps(model *protocol.Model, events ...string) func(context.Context) *providers.Taps {
	box, listens := s.ext.tools, s.ext.listens
	if box == nil || !slices.ContainsFunc(events, func(name string) bool { return listens[name] }) {
		return func(context.Context) *providers.Taps { return nil }
	}
	heard := map[string]bool{}
	for _, name := range events {
		heard[name] = listens[name]
	}
	return func(ctx context.Context) *providers.Taps { return box.Taps(ctx, model, heard) }
}

// contextHook is what extensions make of the messages that a model is to be shown,
// off the actor's goroutine.
func (s *Session) contextHook() func(context.Context, *providers.Request) {
	box, first, whole := s.ext.tools, s.ext.listens["context"], s.ext.listens["context_with_system"]
	return func(ctx context.Context, req *providers.Request) {
		if first {
			req.Messages = box.Context(ctx, req.Messages)
		}
		if whole {
			box.ContextWithSystem(ctx, req)
		}
	}
}

// bashJob runs a command of a client, which extensions that listen see first: one
// that does not answer lets it not pass.
func (s *Session) bashJob(e core.StartBash) worker.Job {
	exec := s.shared.Exec
	if wait := s.grace(); wait != nil {
		exec = func(ctx context.Context, spec tools.ExecSpec) (tools.ExecResult, error) {
			if wait(ctx) != nil {
				return tools.ExecResult{Cancelled: true}, nil
			}
			return s.shared.Exec(ctx, spec)
		}
	}
	run := worker.BashJob(exec, e, s.bashEnv(), s.clients.told(protocol.FeatureBashUpdates))
	refuse := s.ext.refuseBash
	if refuse == "" && !s.ext.listens["user_bash"] {
		return run
	}
	s.update()
	box, cwd := s.ext.tools, s.work.cwd
	return func(ctx context.Context, tell func(any)) {
		if refuse != "" {
			tell(core.BashDone{Job: e.Job, Err: protocol.CodeUnsupported.Errorf("%s", refuse)})
			return
		}
		result, err := box.UserBash(ctx, e.Command, cwd, e.Exclude)
		switch {
		case ctx.Err() != nil:
			tell(core.BashDone{Job: e.Job, Result: protocol.BashResult{Cancelled: true}})
		case err != nil:
			tell(core.BashDone{Job: e.Job, Err: protocol.CodeUnsupported.Errorf("%s", err)})
		case result != nil:
			tell(core.BashDone{Job: e.Job, Result: *result})
		default:
			run(ctx, tell)
		}
	}
}

// extensionCommands are the commands that extensions have registered, with where
// they come from.
func (s *Session) extensionCommands() []protocol.SlashCommand {
	list := []protocol.SlashCommand{}
	for _, c := range s.ext.commands {
		list = append(list, protocol.SlashCommand{Name: c.Name, Description: c.Description, Source: "extension", Path: c.Path, SourceInfo: s.sourceOf(c.Path)})
	}
	return list
}
