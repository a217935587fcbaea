package session

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/actors/toolbox"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
	"troupe/store/config"
)

// loadAgents reads which agents the task tool can start.
func (w *workspace) loadAgents(shared *Shared) {
	var names []string
	for _, info := range toolbox.Own(shared.Tools).Infos() {
		names = append(names, info.Name)
	}
	found, problems := config.LoadAgents(w.dirs, append(names, core.TaskTool))
	shared.complaints.all(problems)
	w.agents = found
}

// configureTasks says what children the session may have, and what it is to do that is
// one itself.
func (w *workspace) configureTasks(shared *Shared, spec link.OpenSpec) {
	f := &w.files.Task
	set := core.TaskSettings{
		Agents: w.agents.List, ProjectDir: w.agents.ProjectDir, Disabled: f.DisabledAgents, Models: f.AgentModelOverrides,
		MaxConcurrency: int(f.MaxConcurrency), MaxDepth: int(f.MaxRecursionDepth), MaxRuntimeMs: f.MaxRuntimeMs, SoftRequests: int(f.SoftRequestBudget),
		Ceiling: spec.Tools, Isolation: f.Isolation.Enabled, Surface: !f.Isolation.Apply,
		NameCommits: f.Isolation.Merge == "branch" && f.Isolation.Commits == "ai", Verify: f.Verification,
	}
	if set.Ceiling == nil || !toolbox.IsPlain(spec.Tools) {
		set.Ceiling = nil
		for _, info := range shared.Tools.Infos() {
			set.Ceiling = append(set.Ceiling, info.Name)
		}
		set.Ceiling = slices.DeleteFunc(append(set.Ceiling, core.TaskTool), func(name string) bool {
			return spec.LeavesOut(name) || spec.Tools != nil && !toolbox.Wanted(spec.Tools, name, true)
		})
	}
	if child := spec.Child; child != nil {
		set.Ceiling = child.Ceiling
		w.settings.Child = &core.Child{SubagentEntry: child.Entry, Self: child.Agent, Draws: child.Draws, Counts: child.Counts}
		w.settings.MaxReminders = 0
	}
	if shared.Cluster != nil {
		set.Node = shared.Cluster.Member.Self()
	}
	w.settings.Tasks = set
	if !set.Isolation {
		w.complainOfOpenWork(shared)
	}
}

// complainOfOpenWork names the agents whose files ask for a workspace of their own where none is made.
func (w *workspace) complainOfOpenWork(shared *Shared) {
	for _, a := range w.agents.List {
		if a.Isolated && a.Path != "" {
			err := errors.New("works where its parent does, since task.isolation.enabled is off: isolation has no effect")
			shared.complaints.all([]config.Problem{{Path: a.Path, Err: err}})
		}
	}
}

// startChild has the session of a child opened.
func (s *Session) startChild(c actor.Context, e core.StartChild) {
	spec, note := s.childSpec(e.Spec)
	k := &minder{
		shared: s.shared, attempt: e.Attempt, id: e.Spec.Entry.ID, child: child{note: note, kept: e.Spec.Resume.Node}, passes: s.clients.wants.children.level == protocol.SubagentsEvents,
		spawn: link.SpawnSession{Spec: spec, Rules: s.rules},
	}
	if s.file.path != "" {
		k.output = filepath.Join(strings.TrimSuffix(s.file.path, ".jsonl"), e.Spec.Entry.ID+".out.md")
	}
	k.limits = childLimits{runtime: time.Duration(e.Spec.MaxRuntimeMs) * time.Millisecond, requests: e.Spec.SoftRequests, budget: e.Spec.Agent.Limits, warnAt: e.Spec.WarnAt}
	if turns := e.Spec.Agent.MaxTurns; turns != nil { // a task of an agent with 0 is not begun
		k.limits.turns = int(*turns)
	}
	if wall := e.Spec.Agent.Limits.MaxWallTimeMs; wall != nil && (k.limits.runtime == 0 || time.Duration(*wall)*time.Millisecond < k.limits.runtime) {
		k.limits.runtime, k.limits.wall = time.Duration(*wall)*time.Millisecond, true
	}
	pid := s.spawn(c, "sub/"+e.Spec.Entry.ID, func() actor.Actor { return k })
	s.jobs.track(pid, job{kind: core.WorkerChild, attempt: e.Attempt, id: e.Spec.Entry.ID})
}

// childSpec says what session to open for a child, and what of its model is not as it was
// asked for.
func (s *Session) childSpec(child core.ChildSpec) (link.OpenSpec, string) {
	spec := s.spec.Fresh()
	spec.Cwd, spec.CwdSet, spec.Retain = cmp.Or(child.Workspace, s.work.cwd), true, false
	spec.Places = cmp.Or(s.shared.isolated.placesOf(child.Workspace), s.work.env.Sandbox.Places())
	spec.Tools, spec.FreeTools, spec.WithoutTools = child.Entry.Tools, false, nil
	spec.SystemPrompt, spec.PermissionMode = "", string(child.Mode)
	spec.AppendSystemPrompt = childPreamble + "\n\n" + child.Agent.Prompt
	spec.Parent = s.file.path
	spec.Path = cmp.Or(child.Resume.File, spec.Path)
	spec.Child = &link.ChildSpec{Entry: child.Entry, Agent: child.Agent, Ceiling: s.work.settings.Tasks.Ceiling, Parent: s.handle, Draws: child.Draws, Counts: child.Counts, Above: []string{s.work.cwd}, Trust: s.work.files.Project}
	if above := s.spec.Child; above != nil {
		spec.Child.Above = slices.Concat(above.Above, spec.Child.Above)
	}
	if spec.Memory = s.file.path == ""; !spec.Memory {
		spec.Child.File = filepath.Join(strings.TrimSuffix(s.file.path, ".jsonl"), child.Entry.ID+".jsonl")
	}
	chosen := s.childModel(child)
	if chosen.Model != nil {
		spec.Provider, spec.Model = chosen.Model.Provider, chosen.Model.ID
	}
	spec.Level = chosen.Level
	return spec, chosen.Warning
}

const childPreamble = `You are a subagent: another agent has given you an assignment, and no person is listening. Nobody can answer questions: decide yourself, and say what you have decided. When you are done, hand over the result with submit_result.`

// childModel chooses a child's model and its level: the first of those that it may have
// for which there is a key, else its parent's, with a warning of those that it was to have.
func (s *Session) childModel(child core.ChildSpec) providers.Choice {
	own := providers.Choice{Model: child.Model, Level: child.Level}
	own.Level = cmp.Or(child.Agent.Level, own.Level)
	catalog := s.catalog()
	var missed []string
	for _, pattern := range child.Models {
		head, level, _ := strings.Cut(pattern, ":")
		if head == protocol.ModelInherit {
			if l := protocol.ThinkingLevel(level); l.Valid() {
				own.Level = l
			}
			return own
		}
		if model := s.work.files.ModelRoles[strings.TrimPrefix(pattern, "pi/")]; model != "" {
			pattern = model
		}
		choice, err := providers.ResolveModel(catalog, "", pattern)
		switch {
		case err != nil:
			missed = append(missed, err.Error())
			continue
		case !catalog.HasKey(choice.Model.Provider):
			missed = append(missed, "there is no key for "+choice.Model.Provider)
			continue
		}
		choice.Level = cmp.Or(choice.Level, own.Level)
		return choice
	}
	if len(missed) > 0 && own.Model != nil {
		own.Warning = strings.Join(missed, "; ") + "; it ran on " + own.Model.Provider + "/" + own.Model.ID
	}
	return own
}

// minder is the one of a child; nil if it has ended.
func (s *Session) minder(attempt core.Attempt, id string) *actor.PID {
	for _, j := range s.jobs.running {
		if j.kind == core.WorkerChild && j.attempt == attempt && j.id == id {
			return j.pid
		}
	}
	return nil
}

// tellChild tells the minder of a child something, unless it has ended.
func (s *Session) tellChild(c actor.Context, attempt core.Attempt, id string, m any) {
	if pid := s.minder(attempt, id); pid != nil {
		c.Send(pid, m)
	}
}

// tellMinder tells the parent of the session something, by way of who looks after it.
func (s *Session) tellMinder(c actor.Context, m any) {
	if s.spec.Child != nil {
		c.Send(s.spec.Child.Minder, m)
	}
}

// leftByParent says whether the parent of the session listens no more.
func (s *Session) leftByParent() bool {
	if s.spec.Child == nil {
		return false
	}
	parent := s.clients.by(s.spec.Child.Minder)
	return parent == nil || parent.leaving != nil
}

// closeChild lets a child go: its minder ends when that is done.
func (s *Session) closeChild(c actor.Context, e core.CloseChild) {
	if pid := s.minder(e.Attempt, e.ID); pid != nil {
		delete(s.jobs.running, pid.Id)
		c.Send(pid, closeChild{})
	}
}

// askedByParent says whether a command is that of the parent's minder.
func (s *Session) askedByParent(r link.Request) bool {
	return s.spec.Child != nil && r.Client.Router.Equal(s.spec.Child.Minder)
}

// orphaned says whether the parent has left a child at once, for which others go on
// listening.
func (s *Session) orphaned() bool {
	if s.spec.Child == nil || s.life.end != nil {
		return false
	}
	parent := s.clients.by(s.spec.Child.Minder)
	return parent != nil && parent.leaving != nil && parent.leaving.Abort
}

// belongs says that a session is a task of another, which alone decides what it does:
// others may look on, and steer it.
func (s *Session) belongs(r link.Request) *protocol.Error {
	child := s.spec.Child
	if child == nil || len(s.clients.list) == 0 {
		return nil
	}
	parent := s.clients.by(child.Minder)
	if parent == nil || parent.leaving != nil || parent.Router.Equal(r.Client.Router) || !protocol.TraitsOf(r.Cmd).Is(protocol.ParentsOnly) {
		return nil
	}
	return protocol.CodeSessionBusy.Errorf("Session belongs to task %s", child.Entry.ID)
}

// stoppedByClient tells the parent of a child that somebody else stops it: the child may have
// done its part, and what it has done not yet passed.
func (s *Session) stoppedByClient(c actor.Context, r link.Request) {
	child := s.spec.Child
	if child == nil || r.Client.Router.Equal(child.Minder) {
		return
	}
	if parent := s.clients.by(child.Minder); parent != nil && parent.leaving == nil {
		c.Send(child.Minder, clientAborted{})
	}
}

// offersTasks says whether the task tool is active without being asked for.
func (w *workspace) offersTasks(rules protocol.Rules) bool {
	if w.tasksOff() {
		return false
	}
	if w.files.Task.Enabled != nil {
		return true
	}
	return rules.TaskTool || rules.TaskIfWanted && (w.agents.Own || w.files.Task.Mentioned)
}

// tasksOff says that the session has no task tool, whoever asks for it. What children have
// is decided by their parents.
func (w *workspace) tasksOff() bool {
	f := &w.files.Task
	return f.Enabled != nil && !*f.Enabled || f.MaxRecursionDepth == 0
}

// ownBox is the tools of a session that are not the client's.
func (w *workspace) ownBox(shared *Shared, spec link.OpenSpec, rules protocol.Rules, bound bool) toolbox.Box {
	child := spec.Child
	set := toolSet{bound: bound, none: shared.Cluster.noFiles(w.cwd), offer: core.TaskOffer{
		Agents: w.agents.List, Strict: rules.PiscesWords, Isolation: w.files.Task.Isolation.Enabled, Verify: w.files.Task.Verification.Enabled,
	}}
	set.tasks = !w.tasksOff() && (child == nil || slices.Contains(child.Entry.Tools, core.TaskTool))
	box := shared.ownTools(set)
	if child != nil {
		box = box.With(toolbox.Submit{Schema: child.Entry.Schema})
	}
	return box
}

// toolSet is what the tools of a session depend on that are not its client's.
type toolSet struct {
	bound, tasks bool
	none         bool // nothing touches files
	offer        core.TaskOffer
	box          toolbox.Box
}

// fits says whether the tools are the same, not only equal.
func (t *toolSet) fits(other toolSet) bool {
	mine, its := t.offer.Agents, other.offer.Agents
	sameList := len(mine) == len(its) && (len(mine) == 0 || &mine[0] == &its[0])
	return sameList && t.bound == other.bound && t.none == other.none && t.tasks == other.tasks && t.offer.Strict == other.offer.Strict &&
		t.offer.Isolation == other.offer.Isolation && t.offer.Verify == other.offer.Verify
}

// ownTools makes the tools of a set. Sessions that follow each other have mostly the same
// one, and share what describes it, which are some KiB.
func (h *Shared) ownTools(set toolSet) toolbox.Box {
	if last := h.lastTools.Load(); last != nil && last.fits(set) {
		return last.box
	}
	reg := h.Tools
	if set.bound {
		reg = reg.Bound()
	}
	if set.box = toolbox.Own(reg); set.none {
		set.box = toolbox.Box{toolbox.Todo{}}
	}
	if set.tasks {
		set.box = set.box.With(toolbox.NewTask(set.offer))
	}
	set.box = set.box.Described()
	h.lastTools.Store(&set)
	return set.box
}

// addChildren adds what children cost that are at work: the log says it when they have
// ended.
func (s *Session) addChildren(stats *protocol.SessionStats) {
	spent, n := s.m.ChildUsage()
	if n == 0 {
		return
	}
	if stats.Subagents == nil {
		stats.Subagents = &protocol.ChildTotals{}
	}
	stats.Subagents.Count += n
	for _, t := range []*protocol.TokenTotals{&stats.Tokens, &stats.Session.Tokens, &stats.Subagents.Tokens} {
		t.Add(spent)
	}
	stats.Cost += spent.Cost.Total
	stats.Session.Cost += spent.Cost.Total
	stats.Session.Costs = stats.Session.Costs.Add(spent.Cost)
	stats.Subagents.Cost += spent.Cost.Total
}

// subagents are the children of the session. A file that is on another node is not named.
func (s *Session) subagents() protocol.SubagentList {
	list := s.m.Subagents()
	if s.shared.Cluster != nil {
		for i := range list.Subagents {
			if a := &list.Subagents[i]; a.SessionFile != "" && a.Progress == nil && gone(s.shared.fs(), a.SessionFile) {
				a.SessionFile = ""
			}
		}
	}
	return list
}

func gone(fsys store.FS, path string) bool {
	_, err := fsys.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
