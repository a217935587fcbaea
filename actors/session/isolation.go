package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/store"
	"troupe/tools"
	"troupe/tools/git"
)

// workspaces are those of the process, by the directory that they are in.
type workspaces struct {
	checks chan struct{} // that run at once: they are builds

	mu    sync.Mutex
	jobs  int           // under way, of sessions that may have ended meanwhile
	none  chan struct{} // closed when there is none left, if somebody waits for that
	list  map[string]*git.Workspaces
	swept map[string]bool // by the directory that a session works in
	// places are [tools.Sandbox.Places] by the path of a workspace, of those that sandboxed commands may write.
	places map[string]string
}

func (w *workspaces) open(dir, places string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if places != "" {
		w.places[dir] = places
	}
}

// placesOf returns those of a workspace, "" if it is in no sandbox.
func (w *workspaces) placesOf(dir string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places[dir]
}

func (w *workspaces) forget(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.places, dir)
}

// first says whether nobody has asked for a directory before.
func (w *workspaces) first(dir string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.swept[dir]
	w.swept[dir] = true
	return !asked
}

// begin counts a job; the function that it returns says that the job has ended.
func (w *workspaces) begin() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.jobs--; w.jobs == 0 && w.none != nil {
			close(w.none)
			w.none = nil
		}
	}
}

// settle returns when nothing more is done with any workspace, or after the time. No
// session may be left that begins something.
func (w *workspaces) settle(within time.Duration) bool {
	w.mu.Lock()
	if w.jobs == 0 {
		w.mu.Unlock()
		return true
	}
	none := make(chan struct{})
	w.none = none
	w.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-none:
		return true
	case <-timer.C:
		return false
	}
}

func newWorkspaces() *workspaces {
	return &workspaces{checks: make(chan struct{}, max(2, runtime.NumCPU())), list: make(map[string]*git.Workspaces), swept: make(map[string]bool), places: make(map[string]string)}
}

func (w *workspaces) in(dir string) *git.Workspaces {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list[dir] == nil {
		w.list[dir] = git.New(dir)
	}
	return w.list[dir]
}

// copied says whether a file is in a workspace of a task: a copy of what is in the directory of its parent.
func (w *workspaces) copied(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir := range w.list {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// isolation is what a job needs to work with a workspace.
type isolation struct {
	all      *git.Workspaces
	env      *tools.Env
	session  string
	files    string // directory of what is kept of children
	shared   *workspaces
	slots    chan struct{} // of checks that may run at once in the process
	settings settingsOfIsolation
}

type settingsOfIsolation struct {
	branch, surface bool
	untracked       int64 // bytes that may be copied of files that git does not track; 0 for the usual
	carry           []string
	carryBy         string
	keep            time.Duration
	lines           int // of the output of a check that a repair is shown
}

// isolationBase returns the directory of all workspaces: the setting task.isolation.base, in which ~ stands for the
// home directory, or the default.
func isolationBase(setting string, h *Shared) string {
	if setting == "" {
		return git.DefaultDir(h.Env)
	}
	return store.ExpandHome(setting, h.Home)
}

// isolation is that of the session as it stands.
func (s *Session) isolation() isolation {
	f := &s.work.files.Task
	iso := isolation{
		all: s.shared.isolated.in(isolationBase(f.Isolation.Base, s.shared)), env: s.bashEnv(), session: s.file.id,
		files: strings.TrimSuffix(s.file.path, ".jsonl"), shared: s.shared.isolated, slots: s.shared.isolated.checks,
		settings: settingsOfIsolation{
			branch: f.Isolation.Merge == "branch", surface: !f.Isolation.Apply, carry: f.Isolation.Carry, carryBy: f.Isolation.CarryBy,
			untracked: f.Isolation.MaxBytes, keep: time.Duration(f.Isolation.KeepDays) * 24 * time.Hour, lines: int(f.Verification.ContextLines),
		},
	}
	if iso.settings.carryBy == "clone" {
		iso.settings.carryBy = ""
	}
	if s.file.path == "" {
		iso.files = filepath.Join(os.TempDir(), "troupe-"+s.file.id)
		if s.work.env.Sandbox.Files != tools.SandboxOff { // where a command may put a link in its place
			iso.files = filepath.Join(s.shared.AgentDir, "troupe", "tasks", s.file.id)
		}
	}
	return iso
}

// isolate has something done with the workspace of an item. The process does not end
// before: what has to go would stay.
func (s *Session) isolate(c actor.Context, e core.Effect) {
	what, j, do := s.isolation().work(e)
	ended := s.shared.isolated.begin()
	run := func(ctx context.Context, tell func(any)) {
		defer ended()
		if in := do(ctx); in != nil {
			tell(in)
		}
	}
	s.jobs.isolated++
	j.kind = core.WorkerIsolated
	s.startWorker(c, fmt.Sprintf("%s/%d/%s", what, s.jobs.isolated, j.id), run, j)
}

// work is what an effect has done, by what name and as which job. What it finds out is an
// input of the machine; nil for nothing.
func (iso isolation) work(e core.Effect) (what string, j job, do func(context.Context) any) {
	switch e := e.(type) {
	case core.PrepareWorkspace:
		return "ws", job{attempt: e.Attempt, id: e.ID, number: e.Job}, func(ctx context.Context) any { return iso.prepare(ctx, e) }
	case core.CaptureWork:
		return "ws", job{attempt: e.Attempt, id: e.ID, number: e.Job}, func(ctx context.Context) any { return iso.capture(ctx, e) }
	case core.RunCheck:
		return "check", job{attempt: e.Attempt, id: e.ID, number: e.Job}, func(ctx context.Context) any { return iso.check(ctx, e) }
	case core.PlanMerge:
		return "merge", job{attempt: e.Attempt, id: e.ID, number: e.Job}, func(ctx context.Context) any { return iso.plan(ctx, e) }
	case core.ApplyMerge:
		return "merge", job{attempt: e.Attempt, id: e.ID, number: e.Job}, func(ctx context.Context) any { return iso.apply(ctx, e) }
	case core.LeaveWorkspace:
		return "ws", job{}, func(context.Context) any { iso.leave(e); return nil }
	case core.EndIsolated:
		return "ws", job{}, func(ctx context.Context) any {
			_ = iso.all.EndCall(context.WithoutCancel(ctx), iso.session, e.Call) // what it leaves, a sweep removes
			return nil
		}
	default: // is about no workspace: see perform
		return "", job{}, nil
	}
}

func (iso isolation) prepare(ctx context.Context, e core.PrepareWorkspace) core.WorkspaceReady {
	in := core.WorkspaceReady{Attempt: e.Attempt, ID: e.ID}
	if iso.shared.first(iso.env.Cwd) {
		_, _ = iso.all.Sweep(ctx, iso.env, iso.settings.keep) // what it cannot remove, a later one does
	}
	ws, err := iso.all.Prepare(ctx, iso.env, git.Spec{
		Session: iso.session, Call: e.Call, ID: e.ID, File: filepath.Join(iso.files, e.ID+".jsonl"),
		Branch: iso.settings.branch, Carry: iso.settings.carry, CarryBy: iso.settings.carryBy, MaxUntracked: iso.settings.untracked,
	})
	if err != nil {
		in.Err, in.Never = err.Error(), git.Refused(err)
		return in
	}
	if ctx.Err() != nil {
		iso.leave(core.LeaveWorkspace{Dir: ws.Dir})
		in.Err = ctx.Err().Error()
		return in
	}
	iso.open(ws.Path)
	in.Dir, in.Path, in.Notes = ws.Dir, ws.Path, ws.Notes
	return in
}

func (iso isolation) capture(ctx context.Context, e core.CaptureWork) core.WorkCaptured {
	in := core.WorkCaptured{Attempt: e.Attempt, ID: e.ID}
	fail := func(err error) core.WorkCaptured {
		in.Err = "the work could not be captured: " + err.Error()
		return in
	}
	ws, err := iso.all.Open(e.Dir)
	if err == nil && !iso.sandbox(ws.Path).Same(ws.Path) {
		err = fmt.Errorf("another directory is in the place of its workspace: %s", ws.Path)
	}
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(iso.files, 0o700); err != nil {
		return fail(err)
	}
	spec := git.CaptureSpec{Patch: filepath.Join(iso.files, e.ID+".patch"), Message: cmp.Or(e.Message, "task "+e.ID+": "+e.Description)}
	if e.Before != nil && e.Checked != nil {
		spec.Since = new(git.Captured)
		if err := errors.Join(json.Unmarshal(e.Before, spec.Since), json.Unmarshal(e.Checked, &spec.Checked)); err != nil {
			return fail(err)
		}
	}
	c, err := iso.all.Capture(ctx, iso.env, ws, spec)
	if err != nil {
		return fail(err)
	}
	in.Empty, in.Patch, in.Nested, in.Rest, in.Tree = c.Empty, c.Patch, c.Nested, c.Rest, strings.Join(c.Trees, " ")
	if in.Captured, err = json.Marshal(c); err != nil {
		return fail(err)
	}
	return in
}

func (iso isolation) check(ctx context.Context, e core.RunCheck) any {
	ws, err := iso.all.Open(e.Dir)
	if err != nil {
		ws.Path = e.Dir
	}
	select {
	case iso.slots <- struct{}{}:
		defer func() { <-iso.slots }()
	case <-ctx.Done(): // the attempt is over
		return nil
	}
	r := tools.RunCheck(ctx, iso.checkSpec(e, ws, iso.checkLog(e)))
	in := core.CheckDone{Attempt: e.Attempt, ID: e.ID, Result: protocol.VerificationCommandResult{
		Name: e.Command.Name, Command: e.Command.Command, ExitCode: r.ExitCode, DurationMs: r.Duration.Milliseconds(), TimedOut: r.TimedOut,
		ArtifactPath: r.Log, OutputPreview: r.Preview,
	}}
	if r.LogErr != nil {
		in.Result.OutputPreview += "\n" + r.LogErr.Error()
	}
	if r.ExitCode != 0 {
		in.Log = lastLines(r.Log, iso.settings.lines)
	}
	if r.ExitCode != 0 && e.Baseline && ctx.Err() == nil {
		in.Result.BaselineExitCode = iso.untouched(ctx, e)
	}
	if e.Last {
		if trees, err := iso.all.Mark(ctx, iso.env, ws); err == nil {
			in.Checked, _ = json.Marshal(trees) // strings are always JSON
		}
	}
	return in
}

// untouched is how a command ends on the tree that the item began with; nil if that
// could not be tried.
func (iso isolation) untouched(ctx context.Context, e core.RunCheck) *int {
	ws, err := iso.all.Prepare(ctx, iso.env, git.Spec{
		Session: iso.session, Call: e.Call, ID: e.ID + ".untouched", Carry: iso.settings.carry, CarryBy: iso.settings.carryBy,
		MaxUntracked: iso.settings.untracked,
	})
	if err != nil {
		return nil
	}
	defer func() { _ = iso.all.Remove(context.WithoutCancel(ctx), ws) }() // else a sweep does
	r := tools.RunCheck(ctx, iso.checkSpec(e, ws, ""))
	if r.Cancelled {
		return nil
	}
	return &r.ExitCode
}

// sandbox is that of commands in a workspace, which they may write.
func (iso isolation) sandbox(dir string) tools.Sandbox {
	s := iso.env.Sandbox
	return s.With(cmp.Or(iso.shared.placesOf(dir), s.Places())).In(dir)
}

// open notes which directory a workspace is, before anything runs that may put another one in its place.
func (iso isolation) open(dir string) { iso.shared.open(dir, iso.env.Sandbox.In(dir).Places()) }

// checkSpec has a command run in a workspace, which is what the sandbox of the session
// lets it write, as it does for the child.
func (iso isolation) checkSpec(e core.RunCheck, ws git.Workspace, log string) tools.CheckSpec {
	env := *iso.env
	env.Sandbox, env.Environ = iso.sandbox(ws.Path), git.WithCeiling(ws.Path, env.Environ)
	return tools.CheckSpec{
		Env: &env, Dir: ws.Path, Command: e.Command.Command, Timeout: time.Duration(e.Command.TimeoutMs) * time.Millisecond,
		Vars: []string{"TROUPE_TASK_ID=" + e.ID, fmt.Sprintf("TROUPE_TASK_ATTEMPT=%d", e.Try), "TROUPE_TASK_BASE=" + ws.Baseline},
		Log:  log,
	}
}

// checkLog is the file for the output of a command.
func (iso isolation) checkLog(e core.RunCheck) string {
	if os.MkdirAll(iso.files, 0o700) != nil {
		return ""
	}
	return filepath.Join(iso.files, fmt.Sprintf("%s.verify.a%d-%d-%s.log", e.ID, e.Try, e.Index, slug(e.Command.Name)))
}

// slug is a name as part of that of a file: type-check for Type Check.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(protocol.Prefix(name, 64)), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.'
	})
	return cmp.Or(strings.Join(words, "-"), "check")
}

func (iso isolation) plan(ctx context.Context, e core.PlanMerge) core.MergePlanned {
	in := core.MergePlanned{Attempt: e.Attempt, ID: e.ID}
	fail := func(err error) core.MergePlanned { in.Err = err.Error(); return in }
	ws, err := iso.all.Open(e.Dir)
	if err != nil {
		return fail(err)
	}
	var c git.Captured
	if err := json.Unmarshal(e.Captured, &c); err != nil {
		return fail(err)
	}
	if iso.settings.surface {
		if in.Branch, err = iso.all.Surface(ctx, iso.env, ws, c); err != nil {
			return fail(err)
		}
		return in
	}
	p, err := iso.all.Plan(ctx, iso.env, ws, c)
	if err != nil {
		return fail(err)
	}
	in.From, in.To, in.Paths, in.Conflicts, in.Notes = p.From, p.To, p.Paths(ws), p.Conflicts, p.Notes
	if len(p.Conflicts) > 0 {
		if in.Branch, err = iso.all.Surface(ctx, iso.env, ws, c); err != nil {
			in.Notes = append(in.Notes, "no branch: "+err.Error())
		}
		return in
	}
	if p.Ref != nil {
		if in.Aside = p.Ref.Only; in.Aside { // a branch that nobody has checked out: no file is touched
			if err := iso.all.Apply(ctx, iso.env, ws, p); err != nil {
				return fail(err)
			}
		}
		if in.Branch = ws.Branch; in.Aside {
			return in
		}
	}
	if len(p.Changes) > 0 || p.Ref != nil {
		if in.Plan, err = json.Marshal(p); err != nil {
			return fail(err)
		}
	}
	return in
}

func (iso isolation) apply(ctx context.Context, e core.ApplyMerge) core.MergeDone {
	in := core.MergeDone{Attempt: e.Attempt, ID: e.ID}
	var p git.Plan
	ws, err := iso.all.Open(e.Dir)
	if err == nil {
		err = json.Unmarshal(e.Plan, &p)
	}
	if err == nil {
		err = iso.all.Apply(ctx, iso.env, ws, p)
	}
	if err != nil {
		in.Err, in.Moved = err.Error(), errors.Is(err, git.ErrMoved)
	}
	return in
}

// leave removes a workspace or lets it stay. Nobody waits for it: what fails here, a
// sweep does later.
func (iso isolation) leave(e core.LeaveWorkspace) {
	ws, err := iso.all.Open(e.Dir)
	if err != nil {
		return
	}
	if e.Merged {
		_ = iso.all.Merged(ws)
	}
	for _, name := range e.Discard {
		if name != "" {
			os.Remove(name)
		}
	}
	if e.Keep {
		_ = iso.all.Keep(ws)
		return
	}
	iso.shared.forget(ws.Path)
	_ = iso.all.Remove(context.Background(), ws)
}

// lastLines is the end of a file.
func lastLines(name string, n int) string {
	if name == "" {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		f.Seek(-most, 2)
	}
	buf := make([]byte, most)
	k, _ := f.Read(buf)
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(buf[:k]), ""), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// recoverMerges ends the merges that a log has the beginning of and not the end.
func (l *loader) recoverMerges(ops []protocol.TaskOp, w *workspace) {
	for i := range ops {
		op := &ops[i]
		if op.Op != protocol.TaskMerge || op.Workspace == "" || mergedLater(ops[i+1:], op.ID) {
			continue
		}
		all := l.shared.isolated.in(filepath.Dir(filepath.Dir(op.Workspace)))
		op.Recovered = recoverMerge(all, w.env, op.Workspace)
	}
}

func mergedLater(ops []protocol.TaskOp, id string) bool {
	return slices.ContainsFunc(ops, func(op protocol.TaskOp) bool {
		return op.ID == id && (op.Op == protocol.TaskMerged || op.Op == protocol.TaskMerge)
	})
}

func recoverMerge(all *git.Workspaces, env *tools.Env, dir string) *protocol.TaskRecovery {
	ws, err := all.Open(dir)
	if errors.Is(err, fs.ErrNotExist) { // on the node that was lost, or somebody has removed it
		err = fmt.Errorf("its workspace is not on this machine, and what of it is in the files is not known: %s", dir)
	}
	if err != nil {
		return &protocol.TaskRecovery{Err: err.Error()}
	}
	r, err := all.Recover(context.Background(), env, ws)
	if err != nil {
		return &protocol.TaskRecovery{Err: err.Error()}
	}
	if r.Merged {
		_ = all.Merged(ws)
		_ = all.Remove(context.Background(), ws)
	} else {
		_ = all.Keep(ws)
	}
	return &protocol.TaskRecovery{Merged: r.Merged, Foreign: r.Foreign}
}
