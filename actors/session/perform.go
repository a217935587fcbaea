package session

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	words "troupe/protocol/extension"
)

// performSome does the first of some effects, and as many more as one write can
// make durable: entries are written together, then what shows them is done, in
// order. It returns how many are done; the error is about the one behind them.
func (s *Session) performSome(c actor.Context, effects []core.Effect) (done int, err error) {
	s.sign(effects)
	n, first := writtenTogether(effects), s.inputs.step.at
	if n < 2 {
		if err := s.perform(c, effects[0]); err != nil {
			return 0, err
		}
		return 1, nil
	}
	s.inputs.step.batching = true
	entries, bytes := 0, 0
	for _, e := range effects[:n] {
		if e, is := e.(core.Append); is {
			entries, bytes = entries+1, bytes+entryRoom+protocol.SizeOf(e.Entry)
		}
	}
	s.file.Begin(entries, bytes)
	for i, e := range effects[:n] {
		if _, ok := e.(core.Append); !ok {
			continue
		}
		if err = s.perform(c, e); err != nil {
			n = i
			break
		}
	}
	s.inputs.step.batching = false
	s.inputs.step.noteEffect()
	if err := s.file.Commit(); err != nil {
		s.context = nil
		return 0, err
	}
	s.inputs.step.logged = first + n
	for i, e := range effects[:n] {
		if _, ok := e.(core.Append); !ok {
			s.inputs.step.at = first + i
			_ = s.perform(c, e) // only appends can fail
		}
	}
	return n, err
}

// entryRoom is about how many bytes of an entry's line are not the entry's own.
const entryRoom = 128

// writtenTogether counts the effects, from an append to another, between which
// nothing is done that depends on the log.
func writtenTogether(effects []core.Effect) (n int) {
	for i, e := range effects {
		switch e.(type) {
		case core.Append:
			n = i + 1
		case core.Reply, core.Emit:
		default:
			return n
		}
		if n == 0 {
			return 0
		}
	}
	return n
}

// perform performs one effect. Only what is appended can fail, and in a cluster what puts another session in the place of this one.
func (s *Session) perform(c actor.Context, e core.Effect) error {
	if s.kernel.Faults != nil {
		defer s.kernel.Faults.Around(s.handle, e)()
	}
	if s.fenced(e) {
		return nil
	}
	if err := s.noteBegun(e); err != nil {
		return err
	}
	s.inputs.step.noteEffect()
	switch e := e.(type) {
	case core.Append:
		err := s.add(e)
		s.inputs.step.noteAppend(err)
		return err
	case core.StartBash:
		s.startBash(c, e)
	case core.Reply:
		switch {
		case e.Seq == s.ext.load.asker && e.Seq != 0: // it is answered when they are loaded
		case e.Reads:
			s.replyInTurn(c, e.Seq, e.Data, e.Err)
		default:
			s.reply(e.Seq, e.Data, e.Err)
		}
	case core.Query:
		s.answer(c, e)
	case core.SlowQuery:
		s.slowQuery(c, e)
	case core.LookUp:
		s.lookUpAgain(c, e.Command)
	case core.NoReply:
		s.clients.replies.answer(e.Seq, nil, nil)
	case core.Emit:
		s.emit(e.Event)
	case core.AskUI:
		s.ask(c, e)
	case core.ResolveUI:
		s.tellUI(c, worker.AnswerUI{Answer: e.Answer})
		s.reply(e.Seq, nil, nil)
	case core.CancelUI:
		e.How.Outcome = cmp.Or(e.How.Outcome, string(protocol.DialogAborted))
		s.dialogOver(e.ID, e.How)
		s.tellUI(c, worker.CancelUI{ID: e.ID})
	case core.LoadSession:
		s.loadSession(c, e)
	case core.ActivateSession:
		return s.activate(c, e.Seq)
	case core.DropLoaded:
		s.dropLoaded(e.Seq)
	case core.Reconfigure:
		s.reconfigure(c, e.Seq)
	case core.CallHook:
		s.callHook(c, e)
	case core.Judge:
		s.judge(c, e)
	case core.CancelHook:
		s.cancelHook(e)
	case core.RunCommand:
		if err := s.note(e.Seq, ""); err != nil {
			return err
		}
		s.inputs.step.external = true
		s.runExtensionCommand(e)
	case core.SetTimer:
		s.jobs.setTimer(c, e)
	case core.CancelTimer:
		s.jobs.cancelTimer(e.Name)
	case core.Closed:
		s.onClosed(c)
	case core.StartStream, core.StartTool, core.Summarise, core.ScheduleRetry, core.Cancel, core.CancelCall, core.CancelBash,
		core.InnerProgress, core.InnerDone, core.StartChild, core.TellChild, core.CloseChild, core.AskGrant, core.ReportSpent,
		core.AnswerGrant, core.LimitChild, core.PrepareWorkspace, core.CaptureWork, core.RunCheck, core.PlanMerge, core.ApplyMerge,
		core.LeaveWorkspace, core.EndIsolated, core.CancelIsolated:
		s.performWork(c, e)
	}
	return nil
}

// performWork performs an effect that begins, ends or concerns work of a run.
func (s *Session) performWork(c actor.Context, e core.Effect) {
	switch e := e.(type) {
	case core.StartStream:
		s.startStream(c, e)
	case core.StartTool:
		s.startTool(c, e)
	case core.Summarise:
		s.startSummary(c, e)
	case core.ScheduleRetry:
		s.scheduleRetry(c, e)
	case core.Cancel:
		s.unfence(e)
		s.abortSignal()
		s.jobs.cancel(c, e)
	case core.CancelCall:
		s.unfence(e)
		s.jobs.cancelOne(c, core.WorkerTool, e.Attempt, e.CallID)
	case core.CancelBash:
		if s.unfence(e) {
			s.inputs.cause(core.BashDone{Job: e.Job, Result: protocol.BashResult{Cancelled: true}})
		}
		s.jobs.cancelBash(c, e.Job)
	case core.InnerProgress:
		s.ext.send(words.Part{Op: e.Op, Event: protocol.AppendValue(nil, e.Partial)})
	case core.InnerDone:
		s.innerDone(e)
	case core.StartChild:
		s.startChild(c, e)
	case core.TellChild:
		s.tellChild(c, e.Attempt, e.ID, e)
	case core.CloseChild:
		s.closeChild(c, e)
	case core.AskGrant, core.ReportSpent:
		s.tellMinder(c, e)
	case core.AnswerGrant:
		s.tellChild(c, e.Attempt, e.ID, core.Granted{Grant: e.Grant})
	case core.LimitChild:
		s.tellChild(c, e.Attempt, e.ID, core.Pooled{Draws: e.Draws})
	case core.PrepareWorkspace, core.CaptureWork, core.RunCheck, core.PlanMerge, core.ApplyMerge, core.LeaveWorkspace, core.EndIsolated:
		s.isolate(c, e)
	case core.CancelIsolated:
		s.jobs.cancelOne(c, core.WorkerIsolated, e.Attempt, e.ID)
	default: // perform names every effect
	}
}

// add writes an entry to the log, before anything shows it.
func (s *Session) add(e core.Append) error {
	k := keptBy(s.file.Log)
	begins := k != nil && k.how.begins && !s.file.Materialised()
	meta, err := s.file.AppendAs(e.ID, e.Entry, s.inputs.now, e.Durable || begins)
	if err != nil {
		return err
	}
	record := protocol.Record{EntryMeta: meta, Entry: e.Entry}
	s.reported.said.note(e.Entry)
	s.showEntry(record)
	if s.context != nil && !s.context.Extend(record) {
		s.context = nil
	}
	return nil
}

func (s *Session) emit(ev protocol.Event) {
	switch ev := ev.(type) {
	case protocol.ApprovalResolved:
		s.clients.stands.closed(ev.ID)
		s.clients.stands.remember(ev.ID, protocol.DialogOver{Outcome: ev.Outcome, By: ev.By})
	case protocol.AgentSettled:
		s.reported.outcome = ev.Outcome
	case protocol.SessionChanged:
		s.file.told = ev.SessionID
	}
	s.clients.emit(ev, s.receipt(ev))
	s.tellStage(ev)
	s.tellExtensions(ev)
}

// replyInTurn answers a command, a large answer when it is its turn.
func (s *Session) replyInTurn(c actor.Context, seq uint64, data protocol.Result, err *protocol.Error) {
	if err != nil || protocol.SizeOf(data) <= link.AnswerRoom {
		s.reply(seq, data, err)
		return
	}
	s.inTurn(c, s.clients.replies.asker(seq), func(actor.Context) { s.reply(seq, data, nil) })
}

// reply answers a command, unless it has been answered.
func (s *Session) reply(seq uint64, data protocol.Result, err *protocol.Error) {
	if s.replied(seq, data, err) {
		return
	}
	to, ok := s.clients.reply(seq, data, err)
	if !ok {
		s.log.Warn().Uint64("seq", seq).Msg("second answer to a command dropped")
	}
	if _, declared := data.(protocol.ToolNames); declared {
		s.hostIs(to.Router)
	}
}

// receipt is for the record that announces a call, if clients are to have a look
// before it runs. It is kept until the call ends: a dialog may be in between. Another one is
// for the end of a run whose children wait for that.
func (s *Session) receipt(ev protocol.Event) *link.Receipt {
	switch ev := ev.(type) {
	case protocol.ToolExecutionStart:
		if s.box().Files(ev.ToolName) == protocol.WritesFile && s.shared.Mode != printMode && s.clients.attached() > 0 {
			r := link.NewReceipt()
			s.jobs.receipts[ev.ToolCallID] = r
			return r
		}
	case protocol.ToolExecutionEnd:
		delete(s.jobs.receipts, ev.ToolCallID)
	case protocol.AgentEnd:
		if len(s.jobs.leaving.minders) > 0 && s.clients.attached() > 0 {
			s.jobs.leaving.told = link.NewReceipt()
			return s.jobs.leaving.told
		}
	default: // announces no call
	}
	return nil
}
