package session

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store/config"
	"troupe/tools"
	"troupe/tools/policy"
	"troupe/tools/realpath"
)

// readPermissions reads what the user's and the project's permissions.json say of a
// session. For a child the project's is also that of the sessions above it: its own
// directory may be a copy, without what git ignores.
func (h *Shared) readPermissions(dirs config.Dirs, child *link.ChildSpec, programs func() []string) *policy.Set {
	place := policy.Place{
		Cwd: dirs.Cwd, Home: dirs.Home, Own: []string{dirs.Agent}, Tools: append(h.Tools.Names(), core.TodoTool),
		Programs: sync.OnceValue(programs), Real: realpath.Resolve, Exists: realpath.Exists,
	}
	var files []policy.File
	list := config.PermissionFiles(dirs)
	if child != nil {
		for _, dir := range child.Above {
			if f, there := config.ProjectPermissions(dir); there && dir != dirs.Cwd {
				list = append(list, f)
			}
		}
	}
	for _, f := range list {
		files = append(files, policy.File{Path: f.Path, Content: f.Content, Err: f.Err, Tightens: f.Project})
	}
	h.loadGrants(dirs.Cwd)
	set := policy.Load(place, files...)
	for _, text := range set.Problems() {
		h.complaints.about(errors.New(text))
	}
	return set
}

// judged says whether permission rules have a say in the calls of the model.
func (s *Session) judged() bool {
	set := s.work.permissions
	return set.Active() || set.Mode(policy.Mode(s.m.PermissionMode)) != policy.Auto
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
	call, mode := j.subject(), set.Mode(policy.Mode(j.asked.Mode))
	d := set.Decide(mode, call)
	if j.ofExtension() && d.Verdict != policy.Deny {
		if limit := set.Decide(policy.Auto, j.builtIn()); limit.Verdict < d.Verdict {
			d = limit
		}
	}
	if j.asked.Call.Name == core.TaskTool && d.Verdict != policy.Deny {
		call, d = j.withChecks(set, mode, call, d)
	}
	switch d.Verdict {
	case policy.Allow:
		return core.Judged{}
	case policy.Deny:
		return core.Judged{Refused: d.Why}
	}
	return core.Judged{Ask: j.question(call, d)}
}

// withChecks judges with a call of the task tool the commands that it would have run to
// verify what is done, as calls of bash. Those of profiles are the user's own words, so
// that nobody is asked about them; what is denied stays denied.
func (j *judging) withChecks(set *policy.Set, mode policy.Mode, call policy.Call, d policy.Decision) (policy.Call, policy.Decision) {
	profile, own := j.work.settings.Tasks.Checks(j.asked.Call.Arguments)
	var asked []string
	for i, command := range slices.Concat(profile, own) {
		args, _ := json.Marshal(map[string]string{"command": command}) // strings are always JSON
		check := set.Decide(mode, j.tools.Subject("bash", args, j.env))
		switch {
		case check.Verdict == policy.Deny:
			check.Why = "its verification runs " + command + ": " + check.Why
			return call, check
		case check.Verdict == policy.Allow || i < len(profile):
		case d.Verdict == policy.Allow && len(asked) == 0:
			d = check
			asked = append(asked, command)
		default:
			d.Always, d.Note = nil, "" // one answer allows nothing for all of them
			asked = append(asked, command)
		}
	}
	call.Command = strings.Join(asked, "\n")
	return call, d
}

// subject is the call as rules see it. Of a tool that troupe does not run itself, nobody
// knows what it does.
func (j *judging) subject() policy.Call {
	name := j.asked.Call.Name
	switch {
	case j.ofExtension():
		return policy.Call{Tool: name}
	case name == core.TodoTool:
		return policy.Call{Tool: name, Kind: policy.Own}
	}
	return j.tools.Subject(name, j.asked.Call.Arguments, j.env)
}

func (j *judging) ofExtension() bool {
	return slices.Contains(j.work.settings.Extensions.Tools, j.asked.Call.Name)
}

// builtIn is the call as one of the built-in tool that an extension has taken the place of, as
// far as its arguments are the same: what rules deny of that one, or ask about, they mean of
// whatever has its name. What they allow counts for nothing. Any other call is one of which
// nothing is known.
func (j *judging) builtIn() policy.Call {
	call := j.tools.Subject(j.asked.Call.Name, j.asked.Call.Arguments, j.env)
	call.Unbound = false // the process of extensions is bound as the session is
	return call
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
		if a.Unbound = call.Unbound; a.Unbound {
			a.Title += " without the sandbox"
		}
		a.Title += ": " + call.Command
	case policy.Read, policy.Edit:
		a.Title += ": " + strings.Join(call.Paths, ", ")
	default:
		a.Kind = "other"
		if call.Command != "" {
			a.Title += ", verified by: " + call.Command
		}
	}
	if d.Rule != nil {
		a.Why.Rule, a.Why.Source = d.Rule.Text, d.Rule.Place()
	}
	if call.Kind == policy.Edit {
		a.Preview.Diff = j.tools.Preview(call.Tool, j.asked.Call.Arguments, j.env)
	}
	if len(d.Always) > 0 {
		label := "Allow for this session"
		if d.Note != "" {
			label += " (" + d.Note + ")"
		}
		a.Options = append(a.Options, protocol.ApprovalOption{ID: "session", Kind: protocol.AllowAlways, Label: label, Rules: d.Always})
		replaces := j.ofExtension() && slices.Contains(j.tools.Names(), call.Tool) // the rule would be one for the built-in tool, too, which outlives the extension
		if !j.child && !replaces && j.shared.grantsFile() != "" {
			a.Options = append(a.Options, protocol.ApprovalOption{
				ID: projectOption, Kind: protocol.AllowAlways, Label: strings.Replace(label, "session", "project", 1), Rules: d.Always,
			})
		}
	}
	return a
}
