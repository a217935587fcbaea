package session

import (
	"context"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/store"
	"troupe/store/config"
	"troupe/tools"
)

// trusts is who trusts the project of a working directory for this run, "" if nobody has
// said so.
func (h *Shared) trusts(cwd string) string {
	by, _ := h.trust.said.Load(cwd)
	who, _ := by.(string)
	return who
}

// asksTrust says whether extensions are to be asked if they trust the project: where
// something was left out, and nobody has decided for this run.
func (s *Session) asksTrust() bool {
	_, said := s.shared.trust.said.Load(s.work.cwd)
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
	if m.nth != s.ext.nth || !s.ext.load.asked || s.m.Done() {
		return
	}
	s.ext.load.asked = false
	if m.says == "yes" || m.says == "no" {
		s.shared.trust.said.Store(m.cwd, map[bool]string{true: config.TrustedByExtension}[m.says == "yes"])
	}
	if m.says == "yes" {
		s.log.Info().Str("cwd", m.cwd).Msg("an extension trusts the project")
		s.reconfigure(c, 0)
		return
	}
	s.goOnLoading(c)
	s.clients.flush(c.ActorSystem().Root)
}

// Answers to the question whether a project is trusted.
const (
	trustAlways  = "Trust it"
	trustThisRun = "Trust it until troupe ends"
	trustNot     = "Do not trust it"
)

// trustQuestion is where the question stands whether the project is trusted. Of a
// directory one session of the process asks, once.
type trustQuestion struct {
	dialog string // that is open; "" for none
	dir    string // that it is about, without symbolic links
	said   bool   // yes, while something was under way: it counts when that is over
}

// offerTrust asks the clients whether they trust the project, where that is wanted, and
// takes on what a trusted one brings as soon as the session rests.
func (s *Session) offerTrust(c actor.Context) {
	if !s.shared.AskTrust || s.life.state != live || s.life.end != nil || !s.ext.load.over() && s.ext.pid != nil {
		return
	}
	if s.trust.said && s.m.AtRest() {
		s.trust.said = false
		s.reconfigure(c, 0)
		return
	}
	project := s.work.files.Project
	if s.trust.dialog != "" || !s.work.files.Undecided || len(project.LeftOut) == 0 || s.shared.Consent != config.Unsaid ||
		s.spec.Child != nil || s.clients.attached() == 0 {
		return
	}
	if _, said := s.shared.trust.said.Load(s.work.cwd); said {
		return
	}
	dir := tools.RealPath(s.work.cwd)
	if _, asked := s.shared.trust.asked.LoadOrStore(dir, true); asked {
		return
	}
	s.trust = trustQuestion{dialog: s.shared.recordID("trust", s.life.ids), dir: dir}
	ask := protocol.ExtensionUIRequest{
		ID: s.trust.dialog, Method: "select", Options: []string{trustAlways, trustThisRun, trustNot},
		Title: new("Do you trust the project " + dir + "?\n\nIt brings " + strings.Join(project.LeftOut, ", ") +
			". This is left out until you trust the project: what it brings can run commands."),
	}
	s.clients.stands.note(ask, true)
	s.emit(ask)
	s.tellUI(c, worker.AskUI{Request: ask})
	s.clients.flush(c.ActorSystem().Root)
	s.report(c)
}

// answersTrust takes the answer of a client as soon as it comes: behind it the client may
// be gone, and with it the session. What does not fit is left to the worker of dialogs.
func (s *Session) answersTrust(c actor.Context, r link.Request, a protocol.ExtensionUIResponse) bool {
	x := s.clients.stands.dialog(a.ID)
	if s.trust.dialog == "" || a.ID != s.trust.dialog || x == nil || x.answer == nil {
		return false
	}
	asked, _ := x.record.(protocol.ExtensionUIRequest)
	answer, fits := worker.ReadAnswer(asked, a)
	if !fits {
		return false
	}
	s.tellUI(c, worker.CancelUI{ID: a.ID})
	s.trustAnswered(c, answer, *x.answer)
	s.reply(r.Seq, nil, nil)
	s.clients.flush(c.ActorSystem().Root)
	s.report(c)
	return true
}

// trustAnswered takes the answer; false if the dialog is another one. An answer that
// cannot be kept counts for this run, and no answer means no.
func (s *Session) trustAnswered(c actor.Context, m core.UIAnswered, how protocol.DialogOver) bool {
	if s.trust.dialog == "" || m.ID != s.trust.dialog {
		return false
	}
	dir, cwd := s.trust.dir, s.work.cwd
	s.trust = trustQuestion{}
	s.dialogOver(m.ID, how)
	if m.Cancelled || m.Value == nil {
		return true
	}
	yes := *m.Value != trustNot
	s.shared.trust.said.Store(cwd, map[bool]string{true: config.TrustedByAnswer}[yes])
	done := func(c actor.Context, err error) {
		if err != nil {
			s.log.Warn().Err(err).Str("cwd", dir).Msg("trust decision cannot be stored: it is valid until troupe exits")
		}
		s.log.Info().Str("cwd", dir).Bool("trusted", yes).Msg("client asked to trust the project")
		s.trust.said = yes && s.work.cwd == cwd
		s.offerTrust(c)
	}
	file := s.shared.trustFile()
	if *m.Value == trustThisRun || file == "" {
		done(c, nil)
		return true
	}
	h := s.shared
	kernel.Background(c, func() any {
		err := store.SaveTrust(h.fs(), file, dir, yes)
		if err == nil {
			h.trust.said.Delete(cwd) // the file says so from now on, and can be changed
		}
		return granted{err, done}
	})
	return true
}

// trustUnanswered lets another session ask: of this one nobody can answer any more.
func (s *Session) trustUnanswered() {
	if s.trust.dialog != "" {
		s.shared.trust.asked.Delete(s.trust.dir)
	}
	s.trust = trustQuestion{said: s.trust.said}
}
