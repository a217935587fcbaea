package session

import (
	"path/filepath"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/protocol"
	"troupe/store/config"
)

// catalog is what can be selected at this moment.
func (s *Session) catalog() *protocol.Catalog {
	catalog, problem := s.models().Catalog()
	s.shared.complaints.about(problem)
	return catalog
}

// lookUp finds the model that a command sets, or the session's if that was missing:
// it may be there again.
func (s *Session) lookUp(cmd protocol.Command, catalog *protocol.Catalog) *protocol.Model {
	if set, ok := cmd.(protocol.SetModel); ok {
		return catalog.Find(set.Provider, set.ModelID)
	}
	if m := s.m.Model(); m != nil && m.Missing {
		return catalog.Find(m.Provider, m.ID)
	}
	return nil
}

// reconfigured is a workspace that was read again.
type reconfigured struct {
	seq  uint64
	work *workspace
	err  *protocol.Error
}

// reconfigure reads settings and resources again, off the actor's goroutine.
func (s *Session) reconfigure(c actor.Context, seq uint64) {
	shared, spec, rules, procs := s.shared, s.spec, s.rules, s.work.env.Procs
	spec.Cwd, spec.Places = s.work.cwd, s.work.env.Sandbox.Places()
	s.ext.load.again = true // what comes now waits for those that are loaded next: the present ones must not see half of it
	kernel.Background(c, func() any {
		shared.complaints.forget() // what is still broken is named again
		w, err := newWorkspace(shared, spec, rules, procs)
		if err == nil {
			w.prompts.get()
		}
		return reconfigured{seq, w, err}
	})
}

func (s *Session) onReconfigured(c actor.Context, m reconfigured) {
	if s.m.Done() { // the session ends: extensions that are started now would not end with it
		s.reconfiguredAtEnd(c, m)
		return
	}
	if m.err != nil {
		s.ext.load.again = false
		switch {
		case m.seq != 0:
			s.do(c, core.Reply{Seq: m.seq, Err: m.err})
		default:
			s.log.Warn().Str("error", m.err.Message).Msg("project configuration cannot be read")
		}
		switch {
		case s.ext.pid == nil || s.ext.load.done:
			s.beginWork(c)
			s.retell(c)
		case m.seq == 0:
			s.goOnLoading(c)
		}
		s.clients.flush(c.ActorSystem().Root)
		return
	}
	s.work = m.work
	s.restartExtensions(c, "reload", "")
	if s.ext.pid != nil { // what they will want to see, nobody knows yet: a call waits for them
		s.work.settings.Extensions.Listens = core.HookToolCall
	}
	if s.ext.pid != nil && m.seq < firstSeq { // the answer names their commands
		s.ext.load.asker = m.seq
	}
	in := core.Reconfigured{Seq: m.seq, Settings: m.work.settings, Data: s.commands()}
	if s.m.Unlimited() && !in.Settings.Budget.Limits.None() {
		in.Spent = s.spent()
	}
	s.step(c, in)
	if s.ext.pid == nil { // nobody is left whom they wait for
		s.beginWork(c)
		s.retell(c)
	}
}

// reconfiguredAtEnd answers a reload_resources of a session that has nothing else left to do, and ends the session.
func (s *Session) reconfiguredAtEnd(c actor.Context, m reconfigured) {
	s.ext.load.again = false
	switch {
	case m.err != nil:
		s.do(c, core.Reply{Seq: m.seq, Err: m.err})
	case m.seq != 0:
		m.work.settings.Extensions = s.work.settings.Extensions
		s.work = m.work
		s.offerTools()
		s.step(c, core.Reconfigured{Seq: m.seq, Settings: m.work.settings, Data: s.commands()})
	}
	s.onClosed(c)
}

// spent is what the session's file says was used up; nil if it cannot be read, which
// is found out by what comes next.
func (s *Session) spent() *protocol.BudgetSpent {
	spent, err := s.file.View().Spent()
	if err != nil {
		s.log.Warn().Err(err).Msg("past usage of the session cannot be read: usage is counted from now on")
		s.suspect(protocol.CodeIO.Errorf("%s", err))
	}
	return spent
}

// commands is the answer to get_commands.
func (s *Session) commands() protocol.Result { return s.commandList() }

// commandList is what a message may begin with: commands of extensions, templates,
// skills.
func (s *Session) commandList() protocol.CommandList {
	list := s.extensionCommands()
	for _, c := range s.work.prompts.get().expander.Commands() {
		if c.SourceInfo == nil {
			c.SourceInfo = s.work.sourceOf(&c)
		}
		list = append(list, c)
	}
	return protocol.CommandList{Commands: list}
}

// sourceOf says in the words of pi 1.x where a command comes from: found in the
// user's or the project's directory, or named by settings or a flag.
func (w *workspace) sourceOf(c *protocol.SlashCommand) *protocol.SourceInfo {
	info := &protocol.SourceInfo{Path: c.Path, Source: "auto", Scope: c.Location, Origin: "top-level"}
	switch config.Location(c.Location) {
	case config.User:
		info.BaseDir = within(w.dirs.Agent, c.Path)
	case config.Project:
		info.BaseDir = within(filepath.Join(w.dirs.Cwd, ".pi"), c.Path)
	case config.Path:
		info.Source, info.Scope = "local", "temporary"
	}
	return info
}

// within is dir if path lies in it, else "".
func within(dir, path string) string {
	if strings.HasPrefix(path, dir+string(filepath.Separator)) {
		return dir
	}
	return ""
}
