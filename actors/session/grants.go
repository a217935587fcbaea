package session

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
	"troupe/tools"
	"troupe/tools/policy"
)

// projectOption is the option of an approval that allows its rules for the project.
const projectOption = "project"

// projectGrants are the rules that were allowed for projects, as all sessions of the
// process see them: by the directory without symbolic links.
type projectGrants struct{ byDir sync.Map }

func (g *projectGrants) of(dir string) []store.Grant {
	list, _ := g.byDir.Load(dir)
	grants, _ := list.([]store.Grant)
	return grants
}

// grantsFile is where grants are kept, trustFile where it is kept which projects are trusted; "" for nowhere.
func (h *Shared) grantsFile() string { return h.ownPath("grants.json") }
func (h *Shared) trustFile() string  { return h.ownPath("trust.json") }

func (h *Shared) ownPath(name string) string {
	if h.AgentDir == "" {
		return ""
	}
	return filepath.Join(h.AgentDir, "troupe", name)
}

// loadGrants reads what was allowed for the project of a directory.
func (h *Shared) loadGrants(cwd string) {
	if h.grantsFile() == "" {
		return
	}
	dir := tools.RealPath(cwd)
	grants, err := store.Grants(h.fs(), h.grantsFile(), dir)
	h.complaints.about(err)
	h.grants.byDir.Store(dir, grants)
}

// withProject is a set with what was allowed for the project of a directory. A rule that
// cannot be read allows nothing.
func (h *Shared) withProject(set *policy.Set, cwd string) *policy.Set {
	for _, g := range h.grants.of(tools.RealPath(cwd)) {
		more, err := set.With(h.grantsFile(), g.Rule)
		if err != nil {
			h.complaints.about(err)
			continue
		}
		set = more
	}
	return set
}

// approvalOption is an option of an approval that is open and has no answer; nil for none.
func (s *Session) approvalOption(id string, wanted func(protocol.ApprovalOption) bool) *protocol.ApprovalOption {
	x := s.clients.stands.dialog(id)
	if x == nil {
		return nil
	}
	r, is := x.record.(protocol.ApprovalRequest)
	if i := slices.IndexFunc(r.Options, wanted); is && i >= 0 {
		return &r.Options[i]
	}
	return nil
}

// granted says that what was allowed for a project is kept, or why not; then is what has
// waited for it.
type granted struct {
	err  error
	then func(actor.Context, error)
}

// keepGrants writes rules into the project's grants, off the actor's goroutine. No call
// runs on the strength of a rule that is not kept.
func (s *Session) keepGrants(c actor.Context, rules []string, by *protocol.ClientRef, then func(actor.Context, error)) {
	s.inputs.step.noteEffect()
	h, dir := s.shared, tools.RealPath(s.work.cwd)
	more := make([]store.Grant, 0, len(rules))
	for _, rule := range rules {
		g := store.Grant{Rule: rule, At: time.Now().UnixMilli()}
		if by != nil {
			g.By = cmp.Or(by.Name, by.ClientID)
		}
		more = append(more, g)
	}
	kernel.Background(c, func() any {
		list, err := store.AddGrants(h.fs(), h.grantsFile(), dir, more...)
		if err == nil {
			h.grants.byDir.Store(dir, list)
		}
		return granted{err, then}
	})
}

// approvedForProject keeps an answer that allows something for the project until that is
// written down; false if the answer does not.
func (s *Session) approvedForProject(c actor.Context, r link.Request) bool {
	cmd, is := r.Cmd.(protocol.ApprovalResponse)
	if !is || cmd.OptionID != projectOption || len(cmd.Args) > 0 {
		return false
	}
	o := s.approvalOption(cmd.ApprovalID, func(o protocol.ApprovalOption) bool { return o.ID == projectOption })
	if o == nil {
		return false
	}
	s.clients.stands.dialog(cmd.ApprovalID).answer = &protocol.DialogOver{Outcome: "allowed", By: r.By}
	s.keepGrants(c, o.Rules, r.By, func(c actor.Context, err error) {
		if err == nil {
			s.step(c, r.Command)
			return
		}
		if x := s.clients.stands.dialog(cmd.ApprovalID); x != nil {
			x.answer = nil
		}
		s.answerAtOnce(c, core.Reply{Seq: r.Seq, Err: protocol.CodeIO.Errorf("What is allowed for the project cannot be kept: %s", err)})
	})
	return true
}

// answeredForProject is the same for the answer to a dialog. If it cannot be kept, it is
// allowed for the session.
func (s *Session) answeredForProject(c actor.Context, m core.UIAnswered, then func(actor.Context)) bool {
	if m.Value == nil || m.Cancelled {
		return false
	}
	o := s.approvalOption(m.ID, func(o protocol.ApprovalOption) bool { return o.Text() == *m.Value })
	if o == nil || o.ID != projectOption {
		return false
	}
	s.keepGrants(c, o.Rules, m.By, func(c actor.Context, err error) {
		if err != nil {
			s.log.Warn().Err(err).Msg("grant for the project cannot be stored: it is granted for the session")
		}
		then(c)
	})
	return true
}

// permissions are what calls of the session are judged by.
func (s *Session) permissions() protocol.Permissions {
	set := s.work.permissions
	p := protocol.Permissions{
		Mode:  protocol.PermissionMode(set.Mode(policy.Mode(s.m.PermissionMode))),
		Rules: []protocol.PermissionRule{}, Grants: []protocol.PermissionGrant{},
	}
	for _, r := range set.Rules() {
		p.Rules = append(p.Rules, protocol.PermissionRule{Action: r.Action(), Rule: r.Text, Source: r.Source, Line: r.Line})
	}
	for _, rule := range s.m.Grants() {
		p.Grants = append(p.Grants, protocol.PermissionGrant{Rule: rule, Scope: "session"})
	}
	for _, g := range s.shared.grants.of(tools.RealPath(s.work.cwd)) {
		p.Grants = append(p.Grants, protocol.PermissionGrant{Rule: g.Rule, Scope: projectOption, By: g.By, At: g.At})
	}
	return p
}

// revokeForProject takes back what was allowed for the project.
func (s *Session) revokeForProject(c actor.Context, seq uint64, rule string) {
	h, dir := s.shared, tools.RealPath(s.work.cwd)
	answer := func(c actor.Context, err error) {
		switch {
		case errors.Is(err, store.ErrNoEntry):
			s.answerAtOnce(c, core.Reply{Seq: seq, Err: protocol.CodeNotFound.Errorf("The project has no such grant: %s", rule)})
		case err != nil:
			s.answerAtOnce(c, core.Reply{Seq: seq, Err: protocol.CodeIO.Errorf("What is allowed for the project cannot be changed: %s", err)})
		default:
			s.answerAtOnce(c, core.Reply{Seq: seq})
		}
	}
	if h.grantsFile() == "" {
		answer(c, store.ErrNoEntry)
		return
	}
	kernel.Background(c, func() any {
		left, err := store.RevokeGrant(h.fs(), h.grantsFile(), dir, rule)
		if err == nil {
			h.grants.byDir.Store(dir, left)
		}
		return granted{err, answer}
	})
}
