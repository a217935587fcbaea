package session

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/store/config"
)

// trusts says whether extensions have said that they trust the project of a working
// directory.
func (h *Shared) trusts(cwd string) bool {
	yes, _ := h.trusted.Load(cwd)
	return yes == true
}

// asksTrust says whether extensions are to be asked if they trust the project: where
// something was left out, and nobody has decided for this run.
func (s *Session) asksTrust() bool {
	_, said := s.shared.trusted.Load(s.work.cwd)
	return s.ext.listens["project_trust"] && s.shared.Consent == config.Unsaid && !said && len(s.work.files.Project.LeftOut) > 0
}

// askTrust asks them, off the actor's goroutine. They are the user's: those of a project
// that is not trusted are not loaded.
func (s *Session) askTrust(c actor.Context) {
	s.ext.load.asked = true
	box, cwd, nth := s.ext.tools, s.work.cwd, s.ext.nth
	kernel.Background(c, func() any { return trustSaid{nth, cwd, box.Trust(context.Background(), cwd)} })
}

// trustSaid is what the extensions of an actor say to the project of a directory.
type trustSaid struct {
	nth       int
	cwd, says string
}

// onTrustSaid reads what the project brings if it is trusted now, and goes on without
// that if not.
func (s *Session) onTrustSaid(c actor.Context, m trustSaid) {
	if m.nth != s.ext.nth || !s.ext.load.asked {
		return
	}
	s.ext.load.asked = false
	if m.says == "yes" || m.says == "no" {
		s.shared.trusted.Store(m.cwd, m.says == "yes")
	}
	if m.says == "yes" {
		s.log.Info().Str("cwd", m.cwd).Msg("an extension trusts the project")
		s.reconfigure(c, 0)
		return
	}
	s.goOnLoading(c)
	s.clients.flush(c.ActorSystem().Root)
}
