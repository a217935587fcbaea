package session

import (
	"errors"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/protocol"
	"troupe/store/config"
	"troupe/tools"
	"troupe/tools/policy"
)

// readPermissions reads what the user's and the project's permissions.json say of a
// session.
func (h *Shared) readPermissions(dirs config.Dirs) *policy.Set {
	place := policy.Place{
		Cwd: dirs.Cwd, Home: dirs.Home, Own: []string{dirs.Agent}, Tools: append(h.Tools.Names(), core.TodoTool), Real: tools.RealPath,
	}
	var files []policy.File
	for _, f := range config.PermissionFiles(dirs) {
		files = append(files, policy.File{Path: f.Path, Content: f.Content, Err: f.Err, Tightens: f.Project})
	}
	h.loadGrants(dirs.Cwd)
	set := policy.Load(place, files...)
	for _, text := range set.Problems() {
		h.complaints.about(errors.New(text))
	}
	return set
}

// judge has the permission rules judge a call, off the actor's goroutine: they look at
// files.
func (s *Session) judge(c actor.Context, e core.Judge) {
	j := judging{asked: e, work: s.work, tools: s.shared.Tools, env: s.bashEnv(), shared: s.shared, child: s.spec.Child != nil}
	kernel.Background(c, func() any { return core.HookDone{ID: e.ID, Answer: j.answer()} })
}

// judging is one call with what it is judged by.
type judging struct {
	asked core.Judge
	work  *workspace
	tools *tools.Registry
	env   *tools.Env

	shared *Shared
	child  bool // it asks on behalf of another session, perhaps in a workspace that goes
}

// answer is nil if nothing can be said: then the call does not run.
func (j *judging) answer() (answer core.HookAnswer) {
	defer func() {
		if recover() != nil {
			answer = nil
		}
	}()
	set, err := j.work.permissions.With("this session", j.asked.Grants...)
	if err != nil {
		return nil
	}
	set = j.shared.withProject(set, j.work.cwd)
	call := j.subject()
	d := set.Decide(set.Mode(policy.Mode(j.asked.Mode)), call)
	switch d.Verdict {
	case policy.Allow:
		return core.Judged{}
	case policy.Deny:
		return core.Judged{Refused: d.Why}
	}
	return core.Judged{Ask: j.question(call, d)}
}

// subject is the call as rules see it. Of a tool that troupe does not run itself, nobody
// knows what it does.
func (j *judging) subject() policy.Call {
	name := j.asked.Call.Name
	switch {
	case slices.Contains(j.work.settings.Extensions.Tools, name):
		return policy.Call{Tool: name}
	case name == core.TodoTool:
		return policy.Call{Tool: name, Kind: policy.Own}
	}
	return j.tools.Subject(name, j.asked.Call.Arguments, j.env)
}

var kindWords = map[policy.Kind]string{policy.Read: "read", policy.Edit: "edit", policy.Command: "execute"}

// question is what a person is asked about a call.
func (j *judging) question(call policy.Call, d policy.Decision) *protocol.ApprovalRequest {
	a := &protocol.ApprovalRequest{
		Kind: kindWords[call.Kind], Title: "Run " + call.Tool, Why: protocol.ApprovalWhy{Reason: d.Why},
		Preview: protocol.ApprovalPreview{Cwd: j.env.Cwd, Command: call.Command, Paths: call.Paths},
		Options: []protocol.ApprovalOption{{ID: "once", Kind: protocol.AllowOnce, Label: "Allow once"}},
	}
	switch call.Kind {
	case policy.Command:
		a.Title += ": " + call.Command
	case policy.Read, policy.Edit:
		a.Title += ": " + strings.Join(call.Paths, ", ")
	default:
		a.Kind = "other"
	}
	if d.Rule != nil {
		a.Why.Rule, a.Why.Source = d.Rule.Text, d.Rule.Place()
	}
	if call.Kind == policy.Edit {
		a.Preview.Diff = j.tools.Preview(call.Tool, j.asked.Call.Arguments, j.env)
	}
	if len(d.Always) > 0 {
		label := "Allow in this session"
		if d.Note != "" {
			label += " (" + d.Note + ")"
		}
		a.Options = append(a.Options, protocol.ApprovalOption{ID: "session", Kind: protocol.AllowAlways, Label: label, Rules: d.Always})
		if !j.child && j.shared.grantsFile() != "" {
			a.Options = append(a.Options, protocol.ApprovalOption{
				ID: projectOption, Kind: protocol.AllowAlways, Label: strings.Replace(label, "session", "project", 1), Rules: d.Always,
			})
		}
	}
	return a
}
