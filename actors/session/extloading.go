package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/toolbox"
	"troupe/protocol"
	words "troupe/protocol/extension"
)

// passes says whether a command goes on while one before it waits for extensions: an
// answer, for which they may be waiting themselves, or the end of the session.
func passes(cmd protocol.Command) bool {
	_, isClose := cmd.(protocol.CloseSession)
	return isClose || protocol.TraitsOf(cmd).Is(protocol.Answers)
}

// startTime limits how long commands wait for the handlers of session_start, and the first answer for the extensions.
const startTime = 100 * time.Millisecond

// loading says whether extensions are being loaded, the first time or again. Handlers of session_start count as part
// of it for startTime: what they register is there when the next command is executed, as in pi.
func (x *extensions) loading() bool {
	return x.load.again || x.pid != nil && (!x.load.over() || x.load.start != 0)
}

// Timers of the start.
type (
	// startDue ends the wait for the handlers of the session_start before an event of an actor.
	startDue struct {
		nth   int
		event uint64
	}
	// firstDue ends the wait of the first command.
	firstDue struct{}
)

// startOver continues with the commands that wait for session_start.
func (s *Session) startOver(c actor.Context) {
	s.ext.load.start = 0
	if s.ext.load.done {
		s.answerReload()
		s.retellLoaded(c)
	}
}

func (s *Session) onStartDue(c actor.Context, m startDue) {
	if m.nth == s.ext.nth && m.event == s.ext.load.start {
		s.startOver(c)
		s.clients.flush(c.ActorSystem().Root)
	}
}

// onFirstDue executes the first command, if it does not need the extensions, without waiting for them any longer.
func (s *Session) onFirstDue(c actor.Context) {
	if s.clients.first.done {
		return
	}
	s.clients.first.done = true
	s.retell(c)
	s.clients.flush(c.ActorSystem().Root)
}

// holdsFirst reports whether the first command of a session waits for its extensions, whichever command it is. In pi,
// records of session_start precede the first answer.
func (s *Session) holdsFirst() bool {
	return !s.clients.first.done && !s.rules.AnswersAtOnce && s.ext.pid != nil
}

// busy says whether a command that needs extensions comes too early: they are being loaded, or, in
// a run without RPC, which goes on with its next message when nothing comes of the last one any more,
// they may still send something.
func (s *Session) busy() bool {
	return s.ext.loading() || s.shared.Mode != "" && (!s.ext.through() || len(s.ext.asks.hooks) > 0)
}

// waits says whether a command has to wait until the extensions are ready for it: one that
// needs them, the first one, and every later one, because an abort concerns the commands before it.
func (s *Session) waits(cmd protocol.Command) bool {
	return s.busy() && (protocol.TraitsOf(cmd).Is(protocol.NeedsExtensions) || (s.holdsFirst() || len(s.ext.load.held) > 0) && !passes(cmd))
}

// leaveWaits reports whether the end of the last client waits for the extensions: commands that were sent before it
// wait for them, or a reload_resources that is not answered.
func (s *Session) leaveWaits() bool {
	l := &s.ext.load
	return s.ext.loading() && (len(l.held) > 0 || l.again || l.asker != 0) && (s.life.end == nil || !s.life.end.abort)
}

// hold keeps a message until the extensions are loaded.
func (s *Session) hold(c actor.Context, m any) {
	if s.holdsFirst() && len(s.ext.load.held) == 0 {
		kernel.After(c, startTime, c.Self(), firstDue{})
	}
	s.ext.load.held = append(s.ext.load.held, m)
	s.clients.unsent, s.clients.first.early = append(s.clients.first.early, s.clients.unsent...), nil // what they say may be what the command waits for
	s.clients.flush(c.ActorSystem().Root)
}

// heldCommand is a command that waited in the machine, and now for the extensions: see [Session.lookUpAgain].
type heldCommand struct{ core.Command }

// lookUpAgain completes a command that waited in the machine. One that needs extensions waits for them as well:
// a reload_resources before it may have ended those that were there when it came.
func (s *Session) lookUpAgain(c actor.Context, cmd core.Command) {
	if s.waitsAgain(cmd) {
		s.hold(c, heldCommand{cmd})
		return
	}
	s.inputs.cause(s.complete(cmd))
}

// waitsAgain reports whether a command that waited in the machine waits for extensions.
func (s *Session) waitsAgain(cmd core.Command) bool {
	ends := s.life.end != nil && s.life.end.abort
	return s.ext.loading() && !cmd.FromExtension && !ends && protocol.TraitsOf(cmd.Cmd).Is(protocol.NeedsExtensions)
}

// releaseHeldCommands gives the machine the commands that lookUpAgain holds, without waiting any longer.
func (s *Session) releaseHeldCommands(c actor.Context) {
	var commands []core.Input
	s.ext.load.held = slices.DeleteFunc(s.ext.load.held, func(m any) bool {
		held, ok := m.(heldCommand)
		if ok {
			commands = append(commands, held.Command)
		}
		return ok
	})
	s.step(c, commands...)
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
	set.Extensions = core.Extensions{Loaded: true, Listens: extension.Listens(m.Listens), Refuse: m.Refuse}
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
	s.tellStart(c, m)
	if s.ext.load.done || s.ext.load.asked {
		return
	}
	for name := range s.shared.ExtensionOptions {
		if !slices.ContainsFunc(m.Flags, func(f words.FlagDef) bool { return f.Name == name }) {
			err := fmt.Errorf("unknown option --%s: no extension has it", name)
			if s.shared.SimilarOption != nil {
				if similar := s.shared.SimilarOption("--" + name); similar != "" {
					err = fmt.Errorf("%w (did you mean %q?)", err, similar)
				}
			}
			s.shared.complaints.about(err)
		}
	}
	s.work.nameUnknownTools(s.shared, s.ownTools(), s.spec)
	for _, text := range extension.Unsupported(m.Registrations) {
		s.shared.complaints.about(errors.New(text))
	}
	if s.asksTrust() {
		s.askTrust(c)
		return
	}
	s.goOnLoading(c)
}

// tellStart sends session_start, with a snapshot that includes what the extensions registered. A second event
// without handlers follows it: its answer shows that all handlers of session_start have returned. Work and
// commands wait until then.
func (s *Session) tellStart(c actor.Context, m extension.Registered) {
	if m.Start == 0 {
		return
	}
	s.ext.send(words.Start{N: m.Start, Snapshot: s.snapshot(true)})
	if s.ext.listens["session_start"] {
		s.tellEvent(json.RawMessage(`{"type":"session_start_over"}`))
		s.ext.load.start = s.ext.fence.told
		kernel.After(c, startTime, c.Self(), startDue{s.ext.nth, s.ext.load.start})
	}
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
	if s.ext.load.start == 0 {
		s.answerReload()
	}
	s.beginWork(c)
	for _, a := range s.ext.asks.later {
		s.ext.send(a)
	}
	s.ext.asks.later = nil
	s.retellLoaded(c)
}

// retellLoaded executes the commands that have waited, unless they have to wait for others.
func (s *Session) retellLoaded(c actor.Context) {
	if !s.ext.loading() {
		s.retell(c)
	}
}

// release goes on with what has waited until they are ready.
func (s *Session) release(c actor.Context) {
	if len(s.ext.load.held) > 0 && !s.busy() {
		s.retell(c)
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
		return toolbox.Wanted(s.spec.Tools, t.Name, t.DefaultActive == nil || *t.DefaultActive)
	default:
		return t.DefaultActive == nil || *t.DefaultActive
	}
}

// retell goes on with what waited, once: nobody else has it.
func (s *Session) retell(c actor.Context) {
	held := s.ext.load.held
	s.ext.load.held = nil
	for _, m := range held {
		switch m := m.(type) {
		case link.Request:
			if s.clients.replies.expects(m.Seq) { // else its client has left
				s.command(c, m)
			}
		case link.Leave:
			if s.leaveWaits() { // for others that were about to be loaded meanwhile
				s.hold(c, m)
			} else {
				s.leave(c)
			}
		case heldCommand:
			if s.waitsAgain(m.Command) {
				s.hold(c, m)
			} else {
				s.step(c, s.complete(m.Command))
			}
		}
	}
	s.askAgain(c)
}
