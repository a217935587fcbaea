package session

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/protocol"
	words "troupe/protocol/extension"
	"troupe/store/config"
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
	start  uint64 // number of the event after session_start, while commands wait for its handlers; 0 if none does
}

// over says whether nothing has to wait for it.
func (l *loading) over() bool { return l.done && !l.again }

// asks is what extensions wait for.
type asks struct {
	commands map[uint64]ask                 // by the number of the command they gave
	dialogs  map[string]uint64              // by id
	idle     []uint64                       // for the end of what goes on
	seq      uint64                         // of their last command
	later    []words.Answer                 // about a session that they have to be taken to first
	more     map[uint64]extension.Replacing // about commands that replace the session
	hooks    map[int]core.Hook              // that they were asked and have not answered
	answers  map[uint64]context.CancelFunc  // of models, on their way
	inner    map[uint64]bool                // calls of tools that they make
	over     bool                           // their end has begun: nobody answers a dialog
	unseen   int                            // dialogs that nobody was shown
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
	return x.pid == nil || x.through() && len(x.fence.work) == 0 && !a.over &&
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
	s.replaceExtensions(c, "reload", "")
}

// extensionSpec is what the extensions of the session begin with.
func (s *Session) extensionSpec(reason, left string) words.Spec {
	spec := words.Spec{
		Cwd: s.work.cwd, SessionFile: s.file.path, Reason: reason, Previous: left, Flags: s.shared.ExtensionOptions, Snapshot: s.snapshot(true),
		Argv: s.shared.Argv, AgentDir: s.shared.AgentDir, Mode: s.shared.Mode,
		Sandbox: string(s.work.env.Sandbox.Files), NoNetwork: s.work.env.Sandbox.NoNetwork,
		Places: s.work.env.Sandbox.Places(),
	}
	for _, x := range s.work.extensions {
		spec.Entries = append(spec.Entries, ExtensionEntry(x))
	}
	return spec
}

// ExtensionEntry names an extension to what runs it.
func ExtensionEntry(x config.Extension) words.Entry {
	kinds := map[config.Form]words.Kind{config.AHook: words.Hook, config.ACustomTool: words.Tool}
	return words.Entry{Path: x.Path, Kind: kinds[x.Form]}
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

// firstSeq is above the numbers of all commands of clients.
const firstSeq = 1 << 63

// is says whether an actor is theirs.
func (x *extensions) is(pid *actor.PID) bool { return x.pid != nil && x.pid.Equal(pid) }

// restartExtensions ends the extensions of a session that was configured anew, and
// has them loaded again. What waits for it still does.
func (s *Session) restartExtensions(c actor.Context, reason, left string) {
	s.stopCompletions()
	if s.ext.pid != nil {
		s.ext.send(words.Close{Reason: reason})
	}
	s.answerReload()
	held, work := s.ext.load.held, s.ext.fence.work
	s.dismissDialogs(c)
	s.startExtensions(c, reason, left)
	s.ext.load.held, s.ext.fence.work = held, work
}

// replaceExtensions does so, and goes on with what waits if there are no others.
func (s *Session) replaceExtensions(c actor.Context, reason, left string) {
	if s.restartExtensions(c, reason, left); s.ext.pid == nil {
		s.retell(c)
	}
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
		s.replaceExtensions(c, reason, left)
		return
	}
	s.ext.seen = seen{}
	s.ext.load.nth++
	s.ext.send(words.Rebind{Spec: s.extensionSpec(reason, left)})
}

// offerTools makes the tools of extensions known to the machine. Children may have those that are
// active: they have the same extensions.
func (s *Session) offerTools() {
	box, set := s.ownTools(), &s.work.settings
	set.KnownTools = box.Infos()
	set.Check = box.CheckWith
	for _, name := range set.Extensions.Tools {
		if !slices.Contains(set.Tasks.Ceiling, name) {
			set.Tasks.Ceiling = append(slices.Clip(set.Tasks.Ceiling), name)
		}
	}
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
	s.ext.send(words.Close{Reason: "quit"})
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
	gated, held, again := s.ext.listens["tool_call"], s.ext.load.held, s.ext.load.again
	commands := &s.reported.commands
	commands.over, commands.running = append(commands.over, commands.running...), nil
	s.ext = extensions{nth: s.ext.nth}
	s.ext.load.again = again
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
	s.ext.load.held = held
	s.retell(c)
	s.extensionFailed(runtimeFailure("disabled", "the actor of the extensions has ended"))
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

// extensionFailed names an error of an extension to the clients and on stderr.
func (s *Session) extensionFailed(f words.Failure) {
	s.log.Warn().Str("extension", f.Path).Str("event", f.Event).Msg(f.Message)
	s.emit(protocol.ExtensionError{ExtensionPath: f.Path, Event: f.Event, Error: f.Message})
}

// runtimeFailure is an error that is no extension's own.
func runtimeFailure(event, message string) words.Failure {
	return words.Failure{Path: "<runtime>", Event: event, Message: message}
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
