package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
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
		cfg.said.Clear() // what is still broken is named again
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
		s.flush(c.ActorSystem().Root, c.Self())
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
			c.SourceInfo = &protocol.SourceInfo{Path: c.Path, Source: "local", Scope: c.Location, Origin: "top-level"}
			c.Path, c.Location = "", ""
		}
	}
	return protocol.JSON(protocol.CommandList{Commands: list})
}
