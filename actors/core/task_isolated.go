package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"troupe/protocol"
)

// workspace is the copy of the user's files that an item works in, and what became
// of the work. The zero value is none.
type workspace struct {
	dir   string // names it
	path  string // where the child works
	notes []string

	contents
	named   bool   // the child was asked to word what is not committed
	message string // that it has given
	verified
	plans int // of its merge

	job int // the number of what it waits for
}

// contents are what was in a workspace when it was looked at last.
type contents struct {
	captured json.RawMessage
	tree     string // of that
	empty    bool   // nothing was changed
	rest     bool   // something was, and not committed
	patch    string
	nested   []string
}

// verified is what checks have said of a workspace.
type verified struct {
	since    int64           // when the command began that runs, epoch milliseconds
	checked  json.RawMessage // what was there when the latest had run
	attempts []protocol.VerificationAttempt
	logs     []string // of the commands of the latest attempt that failed
	failed   string   // the tree that did not pass
	repairs  int      // how often the child was sent back to work
}

// nextJob numbers what an item waits for, so that the end of what it waited for
// before means nothing.
func (it *item) nextJob() int {
	it.work.job++
	return it.work.job
}

// maxPlans is how often a merge is planned while others go on changing the same files: the user, or tasks of
// another session in the same repository, which win one round each.
const maxPlans = 30

// isolates says whether all items of a call work in workspaces.
func (c *taskCall) isolates(r *taskRules) bool {
	return c.Isolated != nil && *c.Isolated || c.agentsIsolate(r)
}

// wantsVerify says whether a call asks for verification at all.
func wantsVerify(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "false" && string(raw) != "null"
}

// isolatedItem is an item whose state is S.
func isolatedItem[S itemState](m *Machine, attempt Attempt, id string) (r *run, c *call, it *item, s S) {
	r, c, it = m.childCall(attempt, id)
	if it == nil {
		return nil, nil, nil, s
	}
	s, ok := it.state.(S)
	if !ok {
		return nil, nil, nil, s
	}
	return r, c, it, s
}

func (in WorkspaceReady) apply(m *Machine) {
	r, c, it, _ := isolatedItem[itemPreparing](m, in.Attempt, in.ID)
	if it == nil {
		if in.Dir != "" { // nobody wants it any more
			m.do(LeaveWorkspace{Dir: in.Dir})
		}
		return
	}
	if in.Never && !slices.ContainsFunc(c.tasks.items, func(it *item) bool { return it.work.dir != "" }) {
		for _, it := range c.tasks.items {
			it.state = itemDone{it.result()}
		}
		m.refuseTasks(r, c, in.Err)
		return
	}
	if in.Err != "" {
		result := it.result()
		result.ExitCode, result.Error = 1, in.Err
		it.state = itemDone{result}
	} else {
		it.work = workspace{dir: in.Dir, path: in.Path, notes: in.Notes, job: it.work.job}
		m.openChild(c, it)
	}
	m.goOn(r, c)
}

// capture keeps what a child has done, whatever came of it. Final work has passed.
func (m *Machine) capture(it *item, settled protocol.TaskResult, final bool) {
	it.state = itemCapturing{settled, final}
	m.do(CaptureWork{
		Attempt: m.activity.begun(), Job: it.nextJob(), ID: it.id, Dir: it.work.dir, Description: it.want.Description, Message: it.work.message,
		Before: it.work.captured, Checked: it.work.checked,
	})
}

func (in WorkCaptured) apply(m *Machine) {
	r, c, it, s := isolatedItem[itemCapturing](m, in.Attempt, in.ID)
	if it == nil {
		return
	}
	w := &it.work
	if in.Err != "" { // the work is in the workspace and nowhere else
		m.loseWork(c, it, s.settled, in.Err)
		m.goOn(r, c)
		return
	}
	w.captured, w.tree, w.empty, w.patch, w.nested, w.rest = in.Captured, in.Tree, in.Empty, in.Patch, in.Nested, in.Rest
	switch check := c.tasks.check; {
	case s.settled.ExitCode != 0:
		m.endIsolatedChild(c, it, s.settled)
	case check == nil || s.final:
		m.passed(c, it, s.settled)
	case w.failed == w.tree: // nothing was repaired: it cannot pass
		m.notVerified(c, it, s.settled, it.unverified())
	default:
		m.beginVerification(c, it, s.settled)
	}
	m.goOn(r, c)
}

// passed ends the work of an item of which nothing more is asked but, where the settings
// want that, a message for what it has not committed itself.
func (m *Machine) passed(c *call, it *item, settled protocol.TaskResult) {
	w := &it.work
	if !m.set.Tasks.NameCommits || w.named || !w.rest || w.empty {
		m.endIsolatedChild(c, it, settled)
		return
	}
	w.named = true
	it.state = itemNaming{settled}
	m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: protocol.SetActiveTools{ToolNames: []string{}}}) // it is to change nothing any more
	m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: protocol.Prompt{Message: namePrompt}, Anew: true})
}

const (
	namePrompt = "What you have changed and not committed will be one commit. Write its message, and nothing else: a line of at most 72 characters " +
		"that says what changes, and, if that is not enough, an empty line and a few lines that say why."
	maxMessage = 4_000 // bytes of such a message
)

// named goes on with the message that a child has given for its commit, or without.
func (m *Machine) named(it *item, settled protocol.TaskResult, in ChildSettled) {
	if in.Outcome == completed && in.AbortReason == "" {
		it.work.message = strings.ToValidUTF8(clipped(strings.Trim(strings.TrimSpace(in.Text), "`\n"), maxMessage), "")
	}
	u := it.usage
	settled.Usage, settled.Tokens, settled.Requests = &u, u.Sum(), max(settled.Requests, in.Activity.Requests)
	if it.work.message == "" {
		settled.Notes = append(settled.Notes, "its commit has no message of its own")
	}
	m.capture(it, settled, true)
}

func clipped(text string, limit int) string { return text[:min(len(text), limit)] }

// beginVerification begins an attempt.
func (m *Machine) beginVerification(c *call, it *item, settled protocol.TaskResult) {
	it.state = itemVerifying{settled}
	w := &it.work
	w.logs = nil
	w.attempts = append(w.attempts, protocol.VerificationAttempt{Attempt: len(w.attempts) + 1, StartedAt: m.now, CommandResults: []protocol.VerificationCommandResult{}})
	m.emitChild(it, protocol.SubagentVerificationStart{ID: it.id, Attempt: len(w.attempts), Profile: c.tasks.check.Profile})
	m.nextCheck(c, it)
}

// attempt is the latest.
func (w *workspace) attempt() *protocol.VerificationAttempt { return &w.attempts[len(w.attempts)-1] }

// nextCheck runs the next command of an attempt.
func (m *Machine) nextCheck(c *call, it *item) {
	a, list := it.work.attempt(), c.tasks.check.Commands
	i := len(a.CommandResults)
	it.work.since = m.clock()
	m.emitChild(it, protocol.SubagentVerificationCommandStart{ID: it.id, Attempt: a.Attempt, CommandName: list[i].Name, Command: list[i].Command})
	_, known := c.tasks.untouched[list[i].Command]
	m.do(RunCheck{
		Attempt: m.activity.begun(), Job: it.nextJob(), ID: it.id, Dir: it.work.dir, Try: a.Attempt, Index: i + 1, Last: i == len(list)-1,
		Command: list[i], Call: c.ID, Baseline: m.set.Tasks.Verify.Baseline && !known,
	})
}

func (in CheckDone) apply(m *Machine) {
	r, c, it, s := isolatedItem[itemVerifying](m, in.Attempt, in.ID)
	if it == nil {
		return
	}
	a := it.work.attempt()
	in.Result.Optional = c.tasks.check.Commands[len(a.CommandResults)].Optional
	c.tasks.baseline(&in.Result)
	a.CommandResults = append(a.CommandResults, in.Result)
	if in.Result.ExitCode != 0 {
		it.work.logs = append(it.work.logs, failedCheck(&in))
	}
	m.emitChild(it, protocol.SubagentVerificationCommandEnd{
		ID: it.id, Attempt: a.Attempt, CommandName: in.Result.Name, ExitCode: in.Result.ExitCode, DurationMs: in.Result.DurationMs, ArtifactID: in.Result.ArtifactPath,
	})
	if len(a.CommandResults) < len(c.tasks.check.Commands) {
		m.nextCheck(c, it)
		return
	}
	it.work.checked = in.Checked
	m.endVerification(c, it, s.settled)
	m.goOn(r, c)
}

// baseline notes how a command that failed has ended on the untouched tree, or says so
// where that was tried before.
func (t *tasks) baseline(r *protocol.VerificationCommandResult) {
	if r.ExitCode == 0 {
		return
	}
	if r.BaselineExitCode != nil {
		if t.untouched == nil {
			t.untouched = map[string]int{}
		}
		t.untouched[r.Command] = *r.BaselineExitCode
	} else if code, known := t.untouched[r.Command]; known {
		r.BaselineExitCode = &code
	}
}

// baselineText says how a command that failed ends without what the child has done.
func baselineText(r *protocol.VerificationCommandResult) string {
	switch {
	case r.BaselineExitCode == nil:
		return ""
	case *r.BaselineExitCode == 0:
		return " (it passes on the tree without these changes)"
	}
	return fmt.Sprintf(" (it fails on the tree without these changes, too: exit code %d)", *r.BaselineExitCode)
}

// endVerification ends an attempt, and decides what follows.
func (m *Machine) endVerification(c *call, it *item, settled protocol.TaskResult) {
	a := it.work.attempt()
	a.EndedAt, a.Status = m.now, protocol.VerifyPassed
	if len(failedChecks(a)) > 0 {
		a.Status, a.Error = protocol.VerifyFailed, "One or more verification commands failed."
	}
	m.emitChild(it, protocol.SubagentVerificationEnd{ID: it.id, Attempt: a.Attempt, Status: a.Status})
	switch {
	case a.Status == protocol.VerifyPassed && m.set.Tasks.Verify.CaptureAfter:
		it.work.captured, it.work.checked = nil, nil // what the commands have written is part of the work
		m.capture(it, settled, true)
	case a.Status == protocol.VerifyPassed:
		m.passed(c, it, settled)
	case len(it.work.attempts) <= c.tasks.check.Repairs && m.budget != nil && m.budget.stopsTasks() != "":
		m.tellTaskOfBudget(c)
		m.notVerified(c, it, settled, m.budget.stopsTasks().Error()+"; repair skipped")
	case len(it.work.attempts) <= c.tasks.check.Repairs && m.budget != nil && !m.budget.hasRoom(protocol.BudgetSubagents, m.clock()):
		m.notVerified(c, it, settled, it.unverified()) // as in pisces: with the last task that a limit allows, repairs end
	case len(it.work.attempts) <= c.tasks.check.Repairs:
		it.work.failed = it.work.tree
		it.work.repairs++
		it.state, it.handed = itemRunning{}, nil
		m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: protocol.Prompt{Message: repairText(it.work.logs)}})
	default:
		m.notVerified(c, it, settled, it.unverified())
	}
}

// failedChecks names the commands of an attempt that had to pass and did not.
func failedChecks(a *protocol.VerificationAttempt) (names []string) {
	for _, r := range a.CommandResults {
		if r.ExitCode != 0 && !r.Optional {
			names = append(names, r.Name)
		}
	}
	return names
}

// Limits of what a repair is shown, in bytes.
const (
	maxCheckLog  = 16 << 10 // of one command
	maxCheckLogs = 48 << 10
)

// failedCheck is what a repair is told of a command.
func failedCheck(in *CheckDone) string {
	r := in.Result
	text := fmt.Sprintf("%s: %s\nexit code %d", r.Name, r.Command, r.ExitCode)
	if r.TimedOut {
		text += " (it took too long)"
	}
	text += baselineText(&r)
	if r.ArtifactPath != "" {
		text += ", its output is in " + r.ArtifactPath
	}
	return text + "\n" + in.Log[max(0, len(in.Log)-maxCheckLog):]
}

func repairText(logs []string) string {
	text := strings.Join(logs, "\n\n")
	return "What you have done does not pass the checks. Repair it, and hand over the result again.\n\n" + strings.ToValidUTF8(text[:min(len(text), maxCheckLogs)], "")
}

// unverified names the commands that the work of an item did not pass.
func (it *item) unverified() string {
	return "Verification failed: " + strings.Join(failedChecks(it.work.attempt()), ", ")
}

// notVerified ends an item whose work did not pass: it is not merged.
func (m *Machine) notVerified(c *call, it *item, result protocol.TaskResult, why string) {
	result.ExitCode, result.Error = 1, why
	m.endIsolatedChild(c, it, result)
}

// verification is the record of how an item's work was checked; nil if nobody asked.
func (it *item) verification(check *verifyPlan) *protocol.VerificationResult {
	if check == nil || !it.isolated {
		return nil
	}
	v := &protocol.VerificationResult{
		Requested: true, Profile: check.Profile, Mode: "command", Status: protocol.VerifySkipped, Attempts: it.work.attempts, OnFailure: check.OnFailure,
	}
	if v.Attempts == nil {
		v.Attempts = []protocol.VerificationAttempt{}
		return v
	}
	v.RetriesUsed = it.work.repairs // one that changes nothing has no attempt after it
	v.Status = protocol.VerifyFailed
	if it.work.attempt().Status == protocol.VerifyPassed {
		v.Status = protocol.VerifyPassed
	}
	return v
}

// endIsolatedChild ends the work of an item. What passed and changed anything waits
// to be merged.
func (m *Machine) endIsolatedChild(c *call, it *item, result protocol.TaskResult) {
	w, check := &it.work, c.tasks.check
	result.Verification = it.verification(check)
	result.PatchPath, result.NestedPatches, result.Notes = w.patch, w.nested, append(slices.Clip(w.notes), result.Notes...)
	if check != nil && check.Note != "" {
		result.Notes = append(result.Notes, check.Note)
	}
	result.Merged = new(bool)
	lost := w.captured == nil
	if lost {
		result.Workspace = w.dir
	}
	leave := LeaveWorkspace{Keep: lost}
	if check != nil && check.OnFailure == protocol.DiscardPatch && result.Verification.Status == protocol.VerifyFailed {
		leave.Discard = append(w.nested, w.patch)
		result.PatchPath, result.NestedPatches = "", nil
	}
	m.endChild(c, it, result)
	m.do(CloseChild{Attempt: m.activity.begun(), ID: it.id})
	if result.ExitCode == 0 && !w.empty {
		it.state = itemWaiting{result}
		return
	}
	m.leave(it, leave)
}

// leave gives up a workspace, if there is one.
func (m *Machine) leave(it *item, how LeaveWorkspace) {
	if it.work.dir == "" {
		return
	}
	how.Dir = it.work.dir
	m.do(how)
}

// planMerge begins to bring the work of an item into the user's files.
func (m *Machine) planMerge(it *item, ended protocol.TaskResult) {
	it.state = itemMerging{ended}
	it.work.plans++
	m.do(PlanMerge{Attempt: m.activity.begun(), Job: it.nextJob(), ID: it.id, Dir: it.work.dir, Captured: it.work.captured})
}

func (in MergePlanned) apply(m *Machine) {
	r, c, it, s := isolatedItem[itemMerging](m, in.Attempt, in.ID)
	if it == nil {
		return
	}
	s.ended.BranchName = in.Branch
	for _, note := range in.Notes {
		if !slices.Contains(s.ended.Notes, note) { // an earlier plan has said it
			s.ended.Notes = append(s.ended.Notes, note)
		}
	}
	switch {
	case in.Err != "" || len(in.Conflicts) > 0 || m.set.Tasks.Surface || in.Aside:
		s.ended.Conflicts = in.Conflicts
		m.notMerged(it, s.ended, in.Err)
	case in.Plan == nil: // the user has the same already
		m.mergeEnded(it, s.ended)
	default:
		m.appendOwn(protocol.CustomTask, protocol.TaskOp{
			Op: protocol.TaskMerge, Call: c.ID, ID: it.id, Workspace: it.work.dir, From: in.From, To: in.To, Paths: in.Paths,
		})
		it.state = s
		m.do(ApplyMerge{Attempt: m.activity.begun(), Job: it.nextJob(), ID: it.id, Dir: it.work.dir, Plan: in.Plan})
		return
	}
	m.goOn(r, c)
}

func (in MergeDone) apply(m *Machine) {
	r, c, it, s := isolatedItem[itemMerging](m, in.Attempt, in.ID)
	if it == nil {
		return
	}
	switch {
	case in.Err == "":
		m.appendOwn(protocol.CustomTask, protocol.TaskOp{Op: protocol.TaskMerged, Call: c.ID, ID: it.id})
		m.mergeEnded(it, s.ended)
	case in.Moved && it.work.plans < maxPlans:
		m.planMerge(it, s.ended)
		return
	default:
		s.ended.BranchName = "" // it is in the workspace alone
		m.notMerged(it, s.ended, in.Err)
	}
	m.goOn(r, c)
}

// mergeEnded ends an item whose work is in the user's files.
func (m *Machine) mergeEnded(it *item, result protocol.TaskResult) {
	result.Merged = new(true)
	it.state = itemDone{result}
	m.leave(it, LeaveWorkspace{Merged: true})
}

// notMerged ends an item whose work stays in its patch and its workspace.
func (m *Machine) notMerged(it *item, result protocol.TaskResult, why string) {
	if why != "" {
		result.Notes = append(result.Notes, "not merged: "+why)
	}
	surfaced := why == "" && len(result.Conflicts) == 0
	if !surfaced {
		result.Workspace = it.work.dir
	}
	it.state = itemDone{result}
	m.leave(it, LeaveWorkspace{Keep: !surfaced})
}

// isolatedGone ends an item whose workspace nobody works with any more.
func (m *Machine) isolatedGone(in WorkerGone) {
	r, c, it := m.childCall(in.Attempt, in.ID)
	if it == nil || it.work.job != in.Job {
		return
	}
	const why = "Internal error"
	switch s := it.state.(type) {
	case itemWaiting:
		return
	case itemMerging:
		m.notMerged(it, s.ended, why)
	case itemCapturing:
		m.loseWork(c, it, s.settled, why)
	case itemVerifying:
		m.loseWork(c, it, s.settled, why)
	case itemNaming: // waits for its child
		return
	case itemPreparing:
		result := it.result()
		result.ExitCode, result.Error = 1, why
		it.state = itemDone{result}
	case itemQueued, itemAsking, itemOpening, itemRunning, itemDone:
		return
	}
	m.goOn(r, c)
}

// loseWork ends an item that could not be brought to its end. Its workspace is kept.
func (m *Machine) loseWork(c *call, it *item, result protocol.TaskResult, why string) {
	result.ExitCode, result.Error = 1, why
	m.cutAttempt(c, it, why)
	it.work.captured = nil
	m.endIsolatedChild(c, it, result)
}

// cutShort is the exit code of a command that is cut off.
const cutShort = 130

// cutAttempt ends the attempt that an item is in, if it is in one: the command that runs
// has the result that clients are told of.
func (m *Machine) cutAttempt(c *call, it *item, why string) {
	if !it.isolated || len(it.work.attempts) == 0 || it.work.attempt().Status != "" {
		return
	}
	a := it.work.attempt()
	cut := c.tasks.check.Commands[len(a.CommandResults)]
	a.CommandResults = append(a.CommandResults, protocol.VerificationCommandResult{Name: cut.Name, Command: cut.Command, ExitCode: cutShort, DurationMs: m.clock() - it.work.since, Optional: cut.Optional})
	a.Status, a.EndedAt, a.Error = protocol.VerifySkipped, m.now, why
}

// cutItem ends an item of a call that is cut off.
func (m *Machine) cutItem(c *call, it *item, why string) {
	var result protocol.TaskResult
	switch s := it.state.(type) {
	case itemWaiting: // clients have seen it end
		result = s.ended
		result.Notes = append(result.Notes, "not merged: "+why)
		it.state = itemDone{result}
	case itemMerging:
		result = s.ended
		result.Notes = append(result.Notes, "its merge was cut off: "+why)
		it.state = itemDone{result}
	default:
		if result = it.result(); it.opened.ID != "" {
			result.DurationMs = m.clock() - it.began
		}
		switch s := s.(type) { // what it has handed over
		case itemCapturing:
			result = s.settled
		case itemVerifying:
			result = s.settled
		case itemNaming:
			result = s.settled
		default:
		}
		m.cutAttempt(c, it, why)
		result.Verification = it.verification(c.tasks.check)
		result.PatchPath, result.Workspace = it.work.patch, it.work.dir
		result.ExitCode, result.Aborted, result.AbortReason, result.Error = 1, true, why, why
		if m.cutBy() != "" {
			result.AbortReason = abortedByBudget
		}
		m.endChild(c, it, result)
	}
	m.leave(it, LeaveWorkspace{Keep: true})
}

// recoverMerge notes in the result of an item how its merge ended that a log has.
func (m *Machine) recoverMerge(op protocol.TaskOp, r *protocol.TaskResult) {
	switch {
	case op.Op == protocol.TaskMerged:
		r.Merged, r.Workspace = new(true), ""
	case op.Recovered == nil:
	case op.Recovered.Merged:
		m.appendOwn(protocol.CustomTask, protocol.TaskOp{Op: protocol.TaskMerged, Call: op.Call, ID: op.ID})
		r.Merged, r.Workspace = new(true), ""
	case op.Recovered.Err != "":
		r.Notes = append(r.Notes, "its merge was cut off, and could not be undone: "+op.Recovered.Err)
	case len(op.Recovered.Foreign) > 0:
		r.Conflicts = op.Recovered.Foreign
		r.Notes = append(r.Notes, "its merge was cut off in the middle; files of it have been changed since, so nothing was undone")
	default:
		r.Notes = append(r.Notes, "its merge was cut off and undone")
	}
}

// endIsolated lets go of what the items of a call have in common.
func (m *Machine) endIsolated(c *call) {
	for _, it := range c.tasks.items {
		if it.work.dir != "" {
			m.do(EndIsolated{c.ID})
			return
		}
	}
}

// workText is what the model is told of an item's changes.
func workText(r *protocol.TaskResult) string {
	if r.Merged == nil { // it was cut off, or has never been isolated
		return placesText(r) + notesText(r)
	}
	var b strings.Builder
	if v := r.Verification; v != nil {
		fmt.Fprintf(&b, "Verification: %s\n", v.Status)
		if v.Status == protocol.VerifyFailed {
			b.WriteString(failedText(&v.Attempts[len(v.Attempts)-1]))
		}
	}
	switch {
	case *r.Merged:
		b.WriteString("Its changes were merged.\n")
	case len(r.Conflicts) > 0:
		fmt.Fprintf(&b, "Its changes were not merged, because of conflicts in: %s\n", cut(strings.Join(r.Conflicts, ", "), maxItemText/5))
	case r.PatchPath != "":
		b.WriteString("Its changes were not merged.\n")
	case r.Workspace != "":
		b.WriteString("What it changed is only in its workspace.\n")
	case r.Verification != nil && r.Verification.Status == protocol.VerifyFailed && r.Verification.OnFailure == protocol.DiscardPatch:
		b.WriteString("What it changed was discarded.\n")
	default:
		b.WriteString("It changed no file.\n")
	}
	if !*r.Merged {
		b.WriteString(placesText(r))
	}
	return b.String() + notesText(r)
}

// placesText says where work is that is not in the user's files.
func placesText(r *protocol.TaskResult) (text string) {
	for _, line := range []struct{ what, path string }{{"Patch", r.PatchPath}, {"Branch", r.BranchName}, {"Workspace", r.Workspace}} {
		if line.path != "" {
			text += line.what + ": " + line.path + "\n"
		}
	}
	return text
}

func notesText(r *protocol.TaskResult) (text string) {
	for _, note := range r.Notes {
		text += "Note: " + cut(note, maxItemText/10) + "\n"
	}
	return text
}

// failedText names the commands that failed, and shows the first.
func failedText(a *protocol.VerificationAttempt) string {
	var b strings.Builder
	for _, r := range a.CommandResults {
		if r.ExitCode == 0 || r.Optional {
			continue
		}
		first := b.Len() == 0
		fmt.Fprintf(&b, "%s: exit code %d%s, output: %s\n", r.Name, r.ExitCode, baselineText(&r), cmp.Or(r.ArtifactPath, "none"))
		if first && r.OutputPreview != "" {
			b.WriteString(r.OutputPreview + "\n")
		}
	}
	return b.String()
}
