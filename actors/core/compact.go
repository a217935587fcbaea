package core

import (
	"slices"

	"troupe/protocol"
)

// Reasons of a compaction, as on the wire.
const (
	reasonManual    = "manual"
	reasonThreshold = "threshold"
	reasonOverflow  = "overflow"
)

// tooFull says whether the context has come so near to the window that it
// should be compacted. Right after a compaction, until there is an answer, it
// never is: what could not be made smaller once will not be the second time.
func (m *Machine) tooFull() bool {
	if !m.AutoCompaction || m.overBudget() != "" || m.model == nil || m.model.ContextWindow <= 0 || !m.size.Answered || m.work.futile || m.stopping() {
		return false
	}
	reserve, own := m.set.ReserveFor[m.model.Provider+"/"+m.model.ID]
	if !own {
		reserve = m.set.ReserveTokens
	}
	return m.size.Tokens > fullAt(m.model.ContextWindow, reserve)
}

// fullAt is how many tokens a window takes before its context is to be compacted.
func fullAt(window, reserve int64) int64 {
	if window <= reserve {
		return window / 2
	}
	return window - reserve
}

// KeepRecent is how many tokens of a context stay as they are when it is compacted: those
// that the settings say, or in a window that is full before, half of what it takes. Else
// nothing of such a context could ever be summarised.
func KeepRecent(window, reserve, keep int64) int64 {
	if full := fullAt(window, reserve); window > 0 && keep >= full {
		return full / 2
	}
	return keep
}

// compact compacts on a client's command. A run is stopped first.
func (m *Machine) compact(c Command, cmd protocol.Compact) {
	var err *protocol.Error
	switch {
	case m.refusedByBudget(c):
		return
	case m.compaction() != nil:
		err = protocol.CodeSessionBusy.Errorf("Compaction already in progress")
	case m.model == nil:
		err = protocol.CodeNoModel.Errorf("No model selected")
	default:
		err = m.reachable(c, "No API key for %s")
	}
	if err != nil {
		m.fail(c, err)
		return
	}
	m.stop(aborted)
	m.answerOpenCalls()
	m.beginCompaction(&compacting{reason: reasonManual, cmd: &c, ask: Summarise{Instructions: cmd.CustomInstructions}})
}

// compaction is the one that goes on, or waits for a retry; nil for none.
func (m *Machine) compaction() *compacting {
	if a, ok := m.activity.(*retrying); ok {
		return a.summary
	}
	a, _ := m.activity.(*compacting)
	return a
}

func (m *Machine) beginCompaction(c *compacting) {
	m.enter(c)
	if c.reason == reasonManual { // who asked for it hears of it, whatever comes of it
		m.announce(c)
	}
	m.summarise(c)
}

// announce tells the clients, once, that a compaction has begun. One that begins by
// itself is announced when it is known that there is something to compact.
func (m *Machine) announce(c *compacting) {
	if !c.announced {
		c.announced = true
		m.emit(protocol.AutoCompactionStart{Reason: c.reason})
	}
}

func (in SummaryBegun) apply(m *Machine) {
	if c, ok := current[*compacting](m, in.Attempt); ok {
		m.announce(c)
	}
}

func (m *Machine) summarise(c *compacting) {
	c.attempt, c.before = m.newAttempt(), m.size
	m.enter(c)
	c.ask.Attempt, c.ask.Model, c.ask.Level = c.attempt, m.model, m.Level()
	c.ask.Reason, c.ask.Retries, c.ask.Repeats = c.reason, c.again, m.repeatsLeft(&c.retries)
	if why := m.request(c.attempt, c.ask); why != "" {
		m.compactionOver(c, protocol.AutoCompactionEnd{}, refusedByBudget(why))
	}
}

func (in Summarised) apply(m *Machine) {
	if _, ok := current[*leavingBranch](m, in.Attempt); ok {
		m.branchSummarised(in)
	}
	if c, ok := current[*compacting](m, in.Attempt); ok {
		m.historySummarised(c, in)
	}
}

func (m *Machine) historySummarised(c *compacting, in Summarised) {
	switch {
	case in.Refused != nil:
		m.compactionOver(c, protocol.AutoCompactionEnd{}, in.Refused)
	case m.mayRetry(&c.retries, in.Err):
		m.scheduleRetry(&c.retries, &retrying{step: step{run: c.run}, failure: in.Err, summary: c})
	case in.Err != nil:
		m.summaryFailed(c, in.Err.Message)
	default:
		m.compacted(c, in)
	}
}

func (m *Machine) summaryFailed(c *compacting, why string) {
	m.announce(c)
	m.compactionOver(c, protocol.AutoCompactionEnd{}, protocol.CodeProvider.Errorf("Summarization failed: %s", why))
}

// compacted puts the summary in the log and so in the context.
func (m *Machine) compacted(c *compacting, in Summarised) {
	m.announce(c)
	if c.retries.made > 0 {
		m.emit(protocol.SummarizationRetryFinished{})
	}
	old := m.size
	m.size = in.Size
	m.size.Messages += old.Messages - c.before.Messages
	m.size.Tokens += max(0, old.Tokens-c.before.Tokens)
	m.append(*in.Compaction)
	m.spendSummary(in.Compaction.Usage)
	if c.answerID != "" {
		m.omit(c.answerID, 0) // the summariser has left it out
	}
	m.compactionOver(c, protocol.AutoCompactionEnd{
		Result: &protocol.CompactionResult{
			Summary: in.Compaction.Summary, FirstKeptEntryID: in.Compaction.FirstKeptEntryID,
			TokensBefore: in.Compaction.TokensBefore, Details: in.Compaction.Details,
			EstimatedTokensAfter: m.size.Tokens, Usage: in.Compaction.Usage,
		},
		WillRetry: c.again,
	}, nil)
}

// compactionFailed begins the error message of a compaction's end.
var compactionFailed = map[string]string{
	reasonManual:    "Compaction failed: ",
	reasonThreshold: "Auto-compaction failed: ",
	reasonOverflow:  "Context overflow recovery failed: ",
}

// compactionOver announces the end and goes on with what waited for it.
func (m *Machine) compactionOver(c *compacting, end protocol.AutoCompactionEnd, why *protocol.Error) {
	m.enter(idle{})
	end.Reason = c.reason
	m.work.futile = end.Result == nil
	if why != nil && !end.Aborted {
		end.ErrorMessage = compactionFailed[c.reason] + why.Message
	}
	if c.failed() { // the client waits for what comes of the failed run
		m.announce(c)
	}
	if c.announced {
		m.emit(end)
	}
	if c.cmd != nil {
		if why != nil {
			m.fail(*c.cmd, why)
		} else {
			m.reply(*c.cmd, end.Result)
		}
	}
	if end.Aborted {
		return // the caller decides what follows
	}
	switch done := end.Result != nil; {
	case c.run != nil && m.goesOn(c.run):
		m.nextTurn(c.run)
	case c.run != nil: // the queue was cleared meanwhile
		m.endRun(c.run, ending{outcome: completed})
	case c.again && done:
		m.startRun(cause{})
	case c.failed():
		m.announceSettled(failed)
	default:
		m.startQueued()
	}
}

// failed says that the run before it ended because its request did not fit.
func (c *compacting) failed() bool { return c.again && c.answerID == "" }

// startQueued starts a run with what has been queued meanwhile, or settles.
func (m *Machine) startQueued() {
	wanted := len(m.followUp) > 0 ||
		slices.ContainsFunc(m.steering, func(q protocol.QueuedInput) bool { return q.Kind != protocol.QueueInject })
	if !wanted || m.stopping() || m.model == nil || m.overBudget() != "" {
		m.settleOrRemind(m.work.outcome)
		return
	}
	m.startRun(cause{queued: true})
}

// cancelCompaction ends a compaction without a result, and the run that waits
// for it.
func (m *Machine) cancelCompaction(c *compacting, outcome string) {
	m.compactionOver(c, protocol.AutoCompactionEnd{Aborted: true}, protocol.CodeCancelled.Errorf("Compaction cancelled"))
	if c.run != nil {
		m.abortTurn(c.run, outcome)
		return
	}
	m.announceSettled(outcome)
}

// afterRun compacts if the run has left the context too full, else settles.
// Queued messages wait for the compaction. Those that came with the end begin the next run.
func (m *Machine) afterRun(r *run, e ending) {
	overflowed := e.outcome == completed && r.overflowed
	switch {
	case overflowed && m.AutoCompaction && !m.stopping() && m.overBudget() == "" && m.set.Rules.OverflowStands:
		m.beginCompaction(&compacting{reason: reasonOverflow})
	case overflowed && m.mayRecover(r.answer) && !m.work.recovered:
		m.work.recovered = true
		m.beginCompaction(&compacting{reason: reasonOverflow, again: true, answerID: r.answerID, ask: Summarise{Redo: true}})
	case e.outcome != aborted && m.tooFull():
		m.beginCompaction(&compacting{reason: reasonThreshold})
	case e.more && !m.stopping() && m.model != nil:
		m.startRun(cause{queued: true})
	default:
		m.settleOrRemind(e.outcome)
	}
}

// mayRecover says whether the request of an answer that did not fit may be made
// again after a compaction: only if the model that answered is still selected.
// That it is made again once for each message of the user, m.work.recovered says.
func (m *Machine) mayRecover(answer *protocol.AssistantMessage) bool {
	return answer != nil && m.AutoCompaction && !m.stopping() && m.overBudget() == "" &&
		m.model != nil && answer.Provider == m.model.Provider && answer.Model == m.model.ID
}

func (m *Machine) recover() {
	if m.work.recovered {
		m.emit(protocol.AutoCompactionStart{Reason: reasonOverflow})
		m.emit(protocol.AutoCompactionEnd{Reason: reasonOverflow, ErrorMessage: "Context overflow recovery failed after one " +
			"compact-and-retry attempt. Try reducing context or switching to a larger-context model."})
		m.announceSettled(failed)
		return
	}
	m.work.recovered = true
	m.beginCompaction(&compacting{reason: reasonOverflow, again: true})
}
