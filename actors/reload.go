package actors

import (
	"path/filepath"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/store/resource"
)

// catalog is what can be selected at this moment.
func (s *Session) catalog() *protocol.Catalog {
	catalog, problem := s.cfg.Models.Catalog()
	s.cfg.complainOnce(problem)
	return catalog
}

// reassembled is a workspace that was read again.
type reassembled struct {
	seq  uint64
	work *workspace
	err  *protocol.Error
}

// reconfigure reads settings and resources again, off the actor's goroutine.
func (s *Session) reconfigure(c actor.Context, seq uint64) {
	cfg, spec, gates, procs := s.cfg, s.spec, s.gates, s.work.procs
	spec.Cwd = s.work.cwd
	background(c, func() any {
		cfg.forgetSaid() // what is still broken is named again
		w, err := assemble(cfg, spec, gates, procs)
		if err == nil {
			w.texts()
		}
		return reassembled{seq, w, err}
	})
}

func (s *Session) onReassembled(c actor.Context, m reassembled) {
	if m.err != nil {
		s.do(c, session.Reply{Seq: m.seq, Err: m.err})
		s.flush(c.ActorSystem().Root)
		return
	}
	s.life.work = m.work
	s.step(c, session.Reconfigured{Seq: m.seq, Settings: m.work.settings, Data: s.commands()})
}

// commands is the answer to get_commands.
func (s *Session) commands() protocol.Result {
	list := s.work.texts().expander.Commands()
	for i := range list {
		c := &list[i]
		if s.gates.TemplateSource && c.Source == "prompt" {
			c.Source = "template"
		}
		if s.gates.SourceInfo {
			c.SourceInfo = s.work.sourceOf(c)
		}
		if s.gates.NoLocation {
			c.Path, c.Location = "", ""
		}
	}
	return protocol.JSON(protocol.CommandList{Commands: list})
}

// sourceOf says in the words of pi 1.x where a command comes from: found in the
// user's or the project's directory, or named by settings or a flag.
func (w *workspace) sourceOf(c *protocol.SlashCommand) *protocol.SourceInfo {
	info := &protocol.SourceInfo{Path: c.Path, Source: "auto", Scope: c.Location, Origin: "top-level"}
	switch resource.Location(c.Location) {
	case resource.User:
		info.BaseDir = within(w.dirs.Agent, c.Path)
	case resource.Project:
		info.BaseDir = within(filepath.Join(w.dirs.Cwd, ".pi"), c.Path)
	case resource.Path:
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
