package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/tools"
)

// performSome does the first of some effects, and as many more as one write can
// make durable: entries are written together, then what shows them is done, in
// order. It returns how many are done; the error is about the one behind them.
func (s *Session) performSome(c actor.Context, effects []session.Effect) (done int, err error) {
	n := writtenTogether(effects)
	if n < 2 {
		if err := s.perform(c, effects[0]); err != nil {
			return 0, err
		}
		return 1, nil
	}
	s.file.Begin()
	for i, e := range effects[:n] {
		if _, ok := e.(session.Append); !ok {
			continue
		}
		if err = s.perform(c, e); err != nil {
			n = i
			break
		}
	}
	if err := s.file.Commit(); err != nil {
		s.dropContext()
		return 0, err
	}
	for _, e := range effects[:n] {
		if _, ok := e.(session.Append); !ok {
			_ = s.perform(c, e) // only appends can fail
		}
	}
	return n, err
}

// writtenTogether counts the effects, from an append to another, between which
// nothing is done that depends on the log.
func writtenTogether(effects []session.Effect) (n int) {
	for i, e := range effects {
		switch e := e.(type) {
		case session.Append:
			if announced(e.Entry) { // its event names its place among the others
				return n
			}
			n = i + 1
		case session.Reply:
		case session.Emit:
			if _, changed := e.Event.(protocol.SessionChanged); changed { // names the leaf
				return n
			}
		default:
			return n
		}
		if n == 0 {
			return 0
		}
	}
	return n
}

// perform does one effect. Only an append can fail.
func (s *Session) perform(c actor.Context, e session.Effect) error {
	if s.cfg.Faults != nil {
		defer s.cfg.Faults.Around(s.handle, e)()
	}
	switch e := e.(type) {
	case session.Append:
		return s.add(e.Entry, e.Durable)
	case session.Reply:
		if e.Reads {
			s.replyInTurn(c, e.Seq, e.Data, e.Err)
		} else {
			s.reply(e.Seq, e.Data, e.Err)
		}
	case session.Answer:
		s.answer(c, e)
	case session.LookUp:
		s.lookUp(c, e)
	case session.Quiet:
		s.ledger.answer(e.Seq, nil, nil)
	case session.Emit:
		s.emit(e.Event)
	case session.StartStream:
		s.startStream(c, e)
	case session.StartTool:
		s.startTool(c, e)
	case session.Summarise:
		s.startSummary(c, e)
	case session.CancelRun:
		s.cancelRun(c, e.Run)
	case session.StartBash:
		s.startBash(c, e)
	case session.CancelBash:
		s.cancelBash(c, e.Job)
	case session.ScheduleRetry:
		s.scheduleRetry(c, e)
	case session.CancelRetry:
		if s.retry != nil {
			c.Send(s.retry, cancelRetry{e.Run})
		}
	case session.AskUI:
		s.emit(e.Request)
		c.Send(s.broker(c), askUI{e.Request})
	case session.ResolveUI:
		s.resolveUI(c, e)
	case session.CancelUI:
		c.Send(s.broker(c), cancelUI{e.ID})
	case session.Prepare:
		s.prepare(c, e)
	case session.Swap:
		s.swap(c, e.Seq)
	case session.Discard:
		s.discard(e.Seq)
	case session.Reconfigure:
		s.reconfigure(c, e.Seq)
	case session.Closed:
		s.onClosed(c)
	default:
		panic(fmt.Sprintf("actors: unknown effect %T", e))
	}
	return nil
}

// add writes an entry to the log, before anything shows it.
//
// A label without a target is for the entry before it, an edit without one for
// the newest answer.
func (s *Session) add(entry protocol.Entry, durable bool) error {
	switch e := entry.(type) {
	case protocol.Label:
		if e.TargetID == "" {
			e.TargetID = s.file.Leaf()
		}
		entry = e
	case protocol.ContextEdit:
		if e.TargetID == "" {
			e.TargetID = s.file.View().LastAnswer()
		}
		entry = e
	default: // stands for itself
	}
	meta, err := s.file.Append(entry, s.now, durable)
	if err != nil {
		return err
	}
	record := protocol.Record{EntryMeta: meta, Entry: entry}
	if announced(entry) {
		s.emit(protocol.EntryAppended{Entry: record})
	}
	if s.context != nil && !s.context.Extend(record) {
		s.dropContext()
	}
	return nil
}

// announced says whether clients that follow entries are told of an entry:
// those that no other event shows.
func announced(e protocol.Entry) bool {
	switch e.(type) {
	case protocol.Label, protocol.ContextEdit, protocol.BranchSummary:
		return true
	default:
		return false
	}
}

func (s *Session) emit(ev protocol.Event) {
	// Only the log knows the ids of what was added on the way. A session without
	// messages has no leaf for a client, whatever settings wait in it.
	if changed, ok := ev.(protocol.SessionChanged); ok && (changed.LeafID != "" || changed.MessageCount > 0) {
		changed.LeafID = s.file.View().ShownLeaf()
		ev = changed
	}
	s.brackets.Note(ev)
	it := item{event: ev, receipt: s.receipt(ev)}
	it.size = s.output.sizeOf(it, s.gates.Has(protocol.FeatureDeltaUpdates))
	if n := len(s.unsent); n > 0 && !s.unsent[n-1].to.known() && s.unsent[n-1].item.merge(it) {
		return
	}
	s.unsent = append(s.unsent, outgoing{item: it})
}

// replyInTurn answers a command, a large answer when it is its turn.
func (s *Session) replyInTurn(c actor.Context, seq uint64, data protocol.Result, err *protocol.Error) {
	if err == nil && dataWeight(data) > answerRoom && s.waits() {
		s.later(c, func(actor.Context) { s.reply(seq, data, nil) })
		return
	}
	s.reply(seq, data, err)
}

// reply answers a command, unless it has been answered.
func (s *Session) reply(seq uint64, data protocol.Result, err *protocol.Error) {
	to, response, ok := s.ledger.answer(seq, data, err)
	if !ok {
		s.log.Warn().Uint64("seq", seq).Msg("second answer to a command dropped")
		return
	}
	if err == nil {
		s.brackets.NoteReply(data)
	}
	s.unsent = append(s.unsent, outgoing{to: to, item: item{response: response}})
}

func (s *Session) startTool(c actor.Context, e session.StartTool) {
	if host, ok := s.hostTool(e.Call.Name); ok {
		s.next = append(s.next, checkHostCall(host, e))
		return
	}
	root, self := c.ActorSystem().Root, c.Self()
	env := s.toolEnv()
	env.Interrupt = new(tools.Interrupt)
	shown := s.receipts[e.Call.ID]
	pid := s.spawn(c, fmt.Sprintf("tool/%d/%s", e.Run, pathName(e.Call.ID)), func() actor.Actor {
		return s.worker(toolJob(root, self, e.Run, e.Call, env, s.work.tools, shown))
	})
	s.track(pid, job{kind: session.WorkerTool, run: e.Run, id: e.Call.ID, stop: env.Interrupt})
}

// receipt is for the record that announces a call, if clients are to have a look
// before it runs. It is kept until the call ends: a dialog may be in between.
func (s *Session) receipt(ev protocol.Event) *receipt {
	switch ev := ev.(type) {
	case protocol.ToolExecutionStart:
		if lookedAt(ev.ToolName) && !s.cfg.Unwatched && s.audience() > 0 {
			r := newReceipt()
			s.receipts[ev.ToolCallID] = r
			return r
		}
	case protocol.ToolExecutionEnd:
		delete(s.receipts, ev.ToolCallID)
	default: // announces no call
	}
	return nil
}

// pathName makes a name that can stand in an actor's path: models choose the
// ids of their calls.
func pathName(id string) string {
	clean := []byte(id[:min(len(id), 64)])
	for i, b := range clean {
		if b <= ' ' || b == '/' || b == '*' || b >= 0x7f {
			clean[i] = '_'
		}
	}
	return string(clean)
}

// cancelRun stops the workers of a run. What they still send is stale.
func (s *Session) cancelRun(c actor.Context, run int) {
	for id, j := range s.jobs {
		if j.run == run && (j.kind == session.WorkerStream || j.kind == session.WorkerTool || j.kind == session.WorkerSummary) {
			delete(s.jobs, id)
			j.stop.Now() // not by a goroutine that wakes up after all of the end is written
			c.Stop(j.pid)
		}
	}
}

func (s *Session) startBash(c actor.Context, e session.StartBash) {
	root, self := c.ActorSystem().Root, c.Self()
	env := s.bashEnv()
	updates := s.gates.Has(protocol.FeatureBashUpdates)
	pid := s.spawn(c, fmt.Sprintf("bash/%d", e.Job), func() actor.Actor {
		return &bashWorker{s.worker(bashJob(s.cfg.Exec, root, self, e.Job, e.Command, env, updates))}
	})
	s.track(pid, job{kind: session.WorkerBash, run: e.Job})
}

func (s *Session) cancelBash(c actor.Context, number int) {
	for _, j := range s.jobs {
		if j.kind == session.WorkerBash && j.run == number {
			c.Send(j.pid, cancelJob{})
		}
	}
}

func (s *Session) scheduleRetry(c actor.Context, e session.ScheduleRetry) {
	if s.retry == nil || !s.alive(s.retry) {
		policy := s.work.retry
		s.retry = s.spawn(c, "retry", func() actor.Actor { return &retrySupervisor{policy: policy} })
	}
	s.track(s.retry, job{kind: session.WorkerRetry, run: e.Run})
	c.Send(s.retry, startRetry{e.Run, e.Attempt, e.After})
}

func (s *Session) broker(c actor.Context) *actor.PID {
	if s.ui == nil || !s.alive(s.ui) {
		s.ui = s.spawn(c, "ui", func() actor.Actor { return &uiBroker{} })
		s.track(s.ui, job{kind: session.WorkerUI})
	}
	return s.ui
}

// alive says whether a helper actor is still known: Terminated strikes it out.
func (s *Session) alive(pid *actor.PID) bool {
	_, ok := s.jobs[pid.Id]
	return ok
}

// resolveUI passes a dialog's answer on. The command that brought it is
// answered only where the client wants that.
func (s *Session) resolveUI(c actor.Context, e session.ResolveUI) {
	c.Send(s.broker(c), answerUI{e.Answer})
	if s.gates.Has(protocol.FeatureUIAck) {
		s.reply(e.Seq, nil, nil)
		return
	}
	s.ledger.answer(e.Seq, nil, nil)
}
