package session

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
)

// minder looks after a child: it opens the child's session, is its client, and tells
// the parent what matters of it. Its parent is the session that the child is of; when
// it is stopped, the child has lost its client and ends.
type minder struct {
	shared  *Shared
	attempt core.Attempt
	id      string // of the child
	spawn   link.SpawnSession
	limits  childLimits
	output  string // the file that gets all of what the child hands over, "" for none
	passes  bool   // every event of the child goes to the parent

	child  child
	seen   watched
	asked  asked
	tokens worker.Tokens // of reports on their way to the parent
	timers minderTimers
}

// child is the session that a minder looks after.
type child struct {
	pid    *actor.PID // nil until it is spawned
	handle string
	note   string // what of its model is not as it was asked for, "" for nothing
	kept   string // the node that has the file with which it goes on; "" if that is not known
	told   bool   // the parent knows that it is open, or why not
}

// asked are the commands to which the minder waits for an answer.
type asked struct {
	open, before, prompt, stats, last uint64
	said                              protocol.Command  // with the prompt
	clients                           map[string]uint64 // by the child's: those of clients of the parent; nil for none
}

type minderTimers struct {
	progress, runtime, warning *time.Timer // nil while there is none
}

func (t *minderTimers) stop() {
	for _, timer := range []*time.Timer{t.progress, t.runtime, t.warning} {
		if timer != nil {
			timer.Stop()
		}
	}
	*t = minderTimers{}
}

// What a minder tells itself and its parent.
type (
	progressDue struct{}
	runtimeOver struct{}
	runtimeNear struct{}
	closeChild  struct{}
	// abandoned says that the child was stopped with the call that it is of.
	abandoned   struct{}
	leavingLate struct{}
	// clientAborted says that somebody else has told the child to stop.
	clientAborted struct{}
	// childProgress is a report with the token to give back for it.
	childProgress struct {
		core.ChildProgress
		Tokens worker.Tokens
	}
	// childSettled is the end of a child's work, whose output is kept.
	childSettled struct{ core.ChildSettled }
)

// progressEvery is how often a parent hears of what a child does, at most.
const progressEvery = 150 * time.Millisecond

// minderWindow is how many bytes may be under way from a child to its minder.
const minderWindow = 1 << 20

func (k *minder) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		k.begin(c)
	case *actor.Stopping:
		k.timers.stop()
		k.spawn.Client.Window.Close()
	case link.SessionSpawned:
		k.spawned(c, m)
	case link.Records:
		for _, it := range m.Items {
			it.Receipt.Written()
			if k.passes && it.Event != nil && passesOn(it.Event) {
				c.Send(c.Parent(), childHeard{k.attempt, k.id, it.Event, it.Size, k.spawn.Client.Window})
			} else {
				k.spawn.Client.Window.Give(it.Size)
			}
			if it.Response != nil {
				k.answered(c, it.Response)
			} else {
				k.heard(c, it.Event)
			}
		}
	case link.Closed:
		for _, r := range m.Replies {
			k.answered(c, r.Response)
		}
		if m.Refused != nil && !k.child.told { // it was over before it was asked anything
			c.Send(c.Parent(), core.ChildOpened{Attempt: k.attempt, ID: k.id, Err: k.refused(m.Refused)})
		}
		if k.child.pid != nil {
			c.Send(k.child.pid, link.RouteClosed{Router: c.Self()})
		}
		c.Stop(c.Self())
	case link.Left:
		c.Stop(c.Self())
	case clientAborted:
		c.Send(c.Parent(), core.ChildAborted{Attempt: k.attempt, ID: k.id})
	case passEvents:
		k.passes = m.on
	case core.TellChild:
		k.tell(c, m)
	case core.AskGrant:
		c.Send(c.Parent(), core.GrantAsked{Attempt: k.attempt, ID: k.id, Ask: m})
	case core.ReportSpent:
		c.Send(c.Parent(), core.ChildSpent{Attempt: k.attempt, ID: k.id, Report: m})
	case core.Granted, core.Pooled:
		c.Send(k.child.pid, m)
	case progressDue:
		k.timers.progress = nil
		k.report(c)
	case runtimeNear:
		k.warnTime(c)
	case runtimeOver:
		k.seen.end.abortReason = "Timed out after " + k.limits.runtime.String()
		if k.limits.wall {
			k.exceeded(c, protocol.BudgetWallTime)
		}
		k.command(c, protocol.Abort{})
	case abandoned:
		k.abandon(c)
	case leavingLate:
		c.Stop(c.Self())
	case closeChild:
		c.Send(k.child.pid, link.Leave{Router: c.Self()})
	case childSettled:
		c.Send(c.Parent(), m.ChildSettled)
	case kernel.Crashed:
		panic(m.Reason)
	}
}

// begin asks for the session.
func (k *minder) begin(c actor.Context) {
	wire, _, _ := protocol.DialectUnion.Open(string(protocol.FeatureDeltaUpdates), string(protocol.FeatureDialogEvents))
	k.tokens = make(worker.Tokens, 1)
	k.spawn.Client = link.Client{
		Writer: c.Self(), Router: c.Self(), Window: link.NewWindow(minderWindow, c.ActorSystem().Root), Wire: &wire,
	}
	k.spawn.Key = k.id
	k.spawn.Spec.Child.Minder = c.Self()
	c.Send(k.sessions(c), k.spawn)
}

// sessions is the parent of all sessions: the parent of the parent of the minder.
func (k *minder) sessions(c actor.Context) *actor.PID {
	path := c.Parent().Id
	return actor.NewPID(c.Parent().Address, path[:strings.LastIndexByte(path, '/')])
}

func (k *minder) spawned(c actor.Context, m link.SessionSpawned) {
	if m.Err != nil {
		c.Send(c.Parent(), core.ChildOpened{Attempt: k.attempt, ID: k.id, Err: k.refused(m.Err)})
		return
	}
	k.child.pid, k.child.handle = m.PID, m.Handle
	k.asked.open = k.command(c, protocol.OpenSession{})
	if k.spawn.Spec.Path != "" {
		k.asked.before = k.command(c, protocol.GetSessionStats{})
	}
}

// command gives the child a command, and returns its number.
func (k *minder) command(c actor.Context, cmd protocol.Command) uint64 { return k.give(c, cmd, nil) }

// give is the same with a command that somebody else has given.
func (k *minder) give(c actor.Context, cmd protocol.Command, by *protocol.ClientRef) uint64 {
	seq := k.shared.Seq.Next()
	name := protocol.SpecOf(cmd).Name
	c.Send(k.child.pid, link.Request{
		Command: core.Command{Seq: seq, ID: json.RawMessage(strconv.FormatUint(seq, 10)), Name: name, Cmd: cmd, By: by}, Client: k.spawn.Client,
	})
	return seq
}

// tell gives the child what its parent has to say.
func (k *minder) tell(c actor.Context, m core.TellChild) {
	seq := k.give(c, m.Cmd, m.By)
	if m.For != 0 {
		if k.asked.clients == nil {
			k.asked.clients = map[string]uint64{}
		}
		k.asked.clients[strconv.FormatUint(seq, 10)] = m.For
	}
	if _, is := m.Cmd.(protocol.Prompt); is {
		k.asked.prompt, k.asked.said = seq, m.Cmd
		k.seen.began, k.seen.over = time.Now(), false
		if m.Anew {
			k.seen.text = ""
		}
		if k.limits.runtime > 0 && k.timers.runtime == nil {
			k.timers.runtime = kernel.After(c, k.limits.runtime, c.Self(), runtimeOver{})
			if near := time.Duration(k.limits.warnAt * float64(k.limits.runtime)); k.limits.wall && near > 0 && near < k.limits.runtime {
				k.timers.warning = kernel.After(c, near, c.Self(), runtimeNear{})
			}
		}
	}
}

// leavesWithin is how long an abandoned child may take to say what it has cost.
const leavesWithin = 5 * time.Second

// abandon ends a child for which nobody waits any more. What its last answer has cost that
// was under way is told all the same.
func (k *minder) abandon(c actor.Context) {
	k.timers.stop()
	if k.child.pid == nil {
		c.Stop(c.Self())
		return
	}
	k.passes, k.asked = false, asked{}
	k.command(c, protocol.Abort{})
	k.asked.last = k.command(c, protocol.GetSessionStats{})
	k.timers.runtime = kernel.After(c, leavesWithin, c.Self(), leavingLate{})
}

// answered takes an answer of the child.
func (k *minder) answered(c actor.Context, r *protocol.Response) {
	if of := k.asked.clients[string(r.ID)]; of != 0 {
		delete(k.asked.clients, string(r.ID))
		c.Send(c.Parent(), core.ChildReplied{Attempt: k.attempt, ID: k.id, Seq: of, Err: r.Err})
		return
	}
	switch string(r.ID) {
	case strconv.FormatUint(k.asked.last, 10):
		if stats, ok := r.Data.(protocol.SessionStats); ok {
			c.Send(c.Parent(), core.ChildLeft{Call: k.spawn.Spec.Child.Entry.ToolCallID, ID: k.id, Usage: usageOf(stats).Minus(k.seen.before)})
		}
		c.Stop(c.Self())
	case strconv.FormatUint(k.asked.open, 10):
		k.opened(c, r)
	case strconv.FormatUint(k.asked.before, 10):
		if stats, ok := r.Data.(protocol.SessionStats); ok {
			k.seen.before = usageOf(stats)
		}
	case strconv.FormatUint(k.asked.prompt, 10):
		if r.Err != nil && r.Err.Code == protocol.CodeInternal && !k.seen.resumed { // it has crashed over it
			k.seen.resumed = true
			k.asked.prompt = k.command(c, k.asked.said)
			return
		}
		if r.Err != nil {
			k.seen.end.outcome, k.seen.end.err = "failed", r.Err.Message
			k.settled(c)
		}
	case strconv.FormatUint(k.asked.stats, 10):
		if stats, ok := r.Data.(protocol.SessionStats); ok {
			k.seen.usage = usageOf(stats).Minus(k.seen.before)
		}
		k.finish(c)
	}
}

func (k *minder) opened(c actor.Context, r *protocol.Response) {
	k.child.told = true
	in := core.ChildOpened{Attempt: k.attempt, ID: k.id, SessionID: k.child.handle, Note: k.child.note}
	if open, ok := r.Data.(protocol.OpenedSession); ok {
		if state := open.State; state != nil {
			if state.SessionFile != nil {
				in.File = *state.SessionFile
			}
			if state.Model != nil {
				in.Model = state.Model.Provider + "/" + state.Model.ID
			}
		}
	}
	if r.Err != nil {
		in.Err = k.refused(r.Err)
	}
	c.Send(c.Parent(), in)
}

// refused is why the child's session cannot be opened. The file of an earlier one does not go with its session to another node.
func (k *minder) refused(err *protocol.Error) string {
	if k.shared.Cluster == nil || k.spawn.Spec.Path == "" || err.Code != protocol.CodeNotFound {
		return err.Message
	}
	where := "the node where it ran"
	if k.child.kept != "" {
		where = "node " + k.child.kept + ", where it ran"
	}
	return "The task cannot be resumed: its session is kept on " + where + ", and is not on this one"
}

// heard takes an event of the child.
func (k *minder) heard(c actor.Context, ev protocol.Event) {
	if k.asked.last != 0 {
		return
	}
	switch ev := ev.(type) {
	case protocol.ExtensionUIRequest, protocol.DialogResolved, protocol.ApprovalRequest, protocol.ApprovalResolved:
		c.Send(c.Parent(), core.ChildTold{Attempt: k.attempt, ID: k.id, Event: ev})
		return
	case protocol.AgentSettled:
		k.seen.end.outcome, k.seen.end.submission = ev.Outcome, ev.Submission
		if ev.Outcome == "interrupted" && !k.seen.resumed {
			k.seen.resumed = true
			k.asked.prompt = k.command(c, protocol.Prompt{Message: "An internal error has interrupted you. Go on with your assignment."})
			return
		}
		k.settled(c)
		return
	case protocol.SessionFailed:
		k.seen.end.outcome, k.seen.end.err = "failed", "Internal error"
		k.finish(c)
		return
	default:
		if protocol.RowOf(ev).OfChild() { // of the child's
			c.Send(c.Parent(), core.ChildTold{Attempt: k.attempt, ID: k.id, Event: ev})
			return
		}
		if !k.seen.take(ev) {
			return
		}
		if _, calls := ev.(protocol.ToolExecutionStart); calls {
			k.called(c)
		}
		if _, answered := ev.(protocol.MessageEnd); answered { // what it has cost counts whenever its parent is stopped
			k.bound(c)
			k.report(c)
			return
		}
	}
	if k.timers.progress == nil {
		k.timers.progress = kernel.After(c, progressEvery, c.Self(), progressDue{})
	}
}

// report tells the parent what the child does, unless the last report has not been
// read yet: then somewhat later.
func (k *minder) report(c actor.Context) {
	if k.seen.over {
		return
	}
	select {
	case k.tokens <- struct{}{}:
		c.Send(c.Parent(), childProgress{core.ChildProgress{Attempt: k.attempt, ID: k.id, Activity: k.seen.activity(), Usage: k.seen.usage}, k.tokens})
	default:
		if k.timers.progress == nil {
			k.timers.progress = kernel.After(c, progressEvery, c.Self(), progressDue{})
		}
	}
}

// settled asks what it has cost altogether, with what its own children did.
func (k *minder) settled(c actor.Context) { k.asked.stats = k.command(c, protocol.GetSessionStats{}) }

// finish keeps what the child hands over, and then tells the parent that it is done.
func (k *minder) finish(c actor.Context) {
	k.timers.stop()
	k.seen.over = true
	in := core.ChildSettled{
		Attempt: k.attempt, ID: k.id, Outcome: k.seen.end.outcome, Error: k.seen.end.err, AbortReason: k.seen.end.abortReason, Submission: k.seen.end.submission,
		Text: k.seen.text, Usage: k.seen.usage, Activity: k.seen.activity(), DurationMs: time.Since(k.seen.began).Milliseconds(),
	}
	k.seen.end.submission = nil
	path, fs := k.output, k.shared.fs()
	if path == "" {
		c.Send(c.Parent(), in)
		return
	}
	kernel.Background(c, func() any {
		if err := writeOutput(fs, path, handedOver(in)); err == nil {
			in.OutputPath = path
		}
		return childSettled{in}
	})
}
