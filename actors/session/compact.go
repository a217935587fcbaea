package session

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

// compaction is the work of putting a summary in the place of older history.
// Nothing of the context changes until the summary is there.
type compaction struct {
	reason  string
	cmd     *Command // manual: what is owed an answer
	then    afterwards
	ask     Summarise // to be repeated
	run     int       // epoch of the request or of the wait
	attempt int       // retries made
	waiting bool      // for a retry

	announced bool // clients have been told that it began

	count  int   // messages in the context when the summariser looked at it
	tokens int64 // likewise
}

// afterwards says what a compaction was in the way of.
type afterwards uint8

const (
	thenSettle  afterwards = iota // nothing, or what is queued
	thenTurn                      // the next turn of the run
	thenAgain                     // the request that did not fit
	thenInstead                   // the same, although it has been answered: the answer is made again
)

// again says whether a request is repeated when the summary is there.
func (a afterwards) again() bool { return a == thenAgain || a == thenInstead }

// size is how full the model's window is, in tokens: what the last answer
// reported and a guess for everything after it.
type size struct {
	tokens  int64
	settled bool // known since the last compaction: there has been an answer
}

// grow counts a message that was added to the branch.
func (z *size) grow(msg protocol.Message) {
	a, isAnswer := msg.(*protocol.AssistantMessage)
	switch {
	case !isAnswer:
		z.tokens += protocol.EstimateTokens(msg)
	case a.StopReason == protocol.StopError || a.StopReason == protocol.StopAborted:
		// never sent again
	case a.Usage.TotalTokens > 0:
		z.tokens, z.settled = a.Usage.TotalTokens, true
	default:
		z.tokens += protocol.EstimateTokens(msg)
		z.settled = true
	}
}

// tooFull says whether the context has come so near to the window that it
// should be compacted. Right after a compaction, until there is an answer, it
// never is: what could not be made smaller once will not be the second time.
func (m *Machine) tooFull() bool {
	if !m.autoCompaction || m.model == nil || m.model.ContextWindow <= 0 || !m.size.settled || m.stopping() {
		return false
	}
	limit := m.model.ContextWindow - m.set.reserve(m.model)
	if limit <= 0 { // a window smaller than the reserve
		limit = m.model.ContextWindow / 2
	}
	return m.size.tokens > limit
}

// reserve is the room to keep free in a model's window.
func (s *Settings) reserve(model *protocol.Model) int64 {
	if n, ok := s.ReserveFor[model.Provider+"/"+model.ID]; ok {
		return n
	}
	return s.ReserveTokens
}

// compact compacts on a client's command. A run is stopped first.
func (m *Machine) compact(c Command, cmd protocol.Compact) {
	switch {
	case m.compaction != nil:
		m.fail(c, protocol.CodeSessionBusy.Errorf("Compaction already in progress"))
		return
	case m.model == nil:
		m.fail(c, protocol.CodeNoModel.Errorf("No model selected"))
		return
	}
	if err := m.find(c.Catalog); err != nil {
		m.fail(c, err)
		return
	}
	if c.Catalog != nil && !c.Catalog.HasKey(m.model.Provider) {
		m.fail(c, protocol.CodeNoKey.Errorf("No API key for %s", m.model.Provider))
		return
	}
	m.stop(aborted)
	m.answerDangling()
	m.beginCompaction(&compaction{reason: reasonManual, cmd: &c, ask: Summarise{Instructions: cmd.CustomInstructions}})
}

func (m *Machine) beginCompaction(c *compaction) {
	m.compaction = c
	c.count, c.tokens = m.messageCount, m.size.tokens
	m.enter(PhaseCompacting)
	if c.reason == reasonManual { // who asked for it hears of it, whatever comes of it
		m.announce(c)
	}
	m.summarise(c)
}

// announce tells the clients, once, that a compaction has begun. One that
// begins by itself is announced when it is known that there is something to
// compact: a client that has been told of it takes it for done.
func (m *Machine) announce(c *compaction) {
	if !c.announced {
		c.announced = true
		m.emit(protocol.AutoCompactionStart{Reason: c.reason})
	}
}

// summaryBegun is the news that there is something to summarise.
func (m *Machine) summaryBegun(in SummaryBegun) {
	if c := m.compaction; c != nil && c.run == in.Run && !c.waiting {
		m.announce(c)
	}
}

func (m *Machine) summarise(c *compaction) {
	c.run = m.nextEpoch()
	c.ask.Run, c.ask.Model, c.ask.Level = c.run, m.model, m.Level()
	m.do(c.ask)
}

// summarised is the summary, or why there is none.
func (m *Machine) summarised(in Summarised) {
	if m.replace != nil && m.replace.summary == in.Run && in.Run != 0 {
		m.branchSummarised(in)
		return
	}
	c := m.compaction
	if c == nil || c.run != in.Run || c.waiting {
		return
	}
	switch {
	case in.Refused != nil:
		m.compactionOver(c, protocol.AutoCompactionEnd{}, in.Refused)
	case in.Err != nil && in.Err.Kind.Retryable() && m.autoRetry && !m.stopping() && c.attempt < m.set.MaxRetries:
		c.attempt++
		c.waiting = true
		c.run = m.nextEpoch()
		m.do(ScheduleRetry{Run: c.run, Attempt: c.attempt, After: in.Err.RetryAfter})
		c.ask.problem = in.Err.Message
	case in.Err != nil:
		m.announce(c)
		m.compactionOver(c, protocol.AutoCompactionEnd{}, protocol.CodeProvider.Errorf("Summarization failed: %s", in.Err.Message))
	default:
		m.compacted(c, in)
	}
}

// compacted puts the summary in the log and so in the context.
func (m *Machine) compacted(c *compaction, in Summarised) {
	m.announce(c)
	if c.attempt > 0 {
		m.emit(protocol.SummarizationRetry{Step: "finished"})
	}
	count, old := m.messageCount, m.size
	m.append(*in.Compaction, func() { m.messageCount, m.size = count, old })
	m.messageCount = in.MessageCount + count - c.count
	m.size = size{tokens: in.Tokens + max(0, old.tokens-c.tokens)}
	if c.then == thenInstead {
		m.omitAnswer()
	}
	m.compactionOver(c, protocol.AutoCompactionEnd{
		Result: &protocol.CompactionResult{
			Summary: in.Compaction.Summary, FirstKeptEntryID: in.Compaction.FirstKeptEntryID,
			TokensBefore: in.Compaction.TokensBefore, Details: in.Compaction.Details,
			EstimatedTokensAfter: m.size.tokens, Usage: in.Compaction.Usage,
		},
		WillRetry: c.then.again(),
	}, nil)
}

// compactionFailed begins the error message of a compaction's end.
var compactionFailed = map[string]string{
	reasonManual:    "Compaction failed: ",
	reasonThreshold: "Auto-compaction failed: ",
	reasonOverflow:  "Context overflow recovery failed: ",
}

// compactionOver announces the end and goes on with what the compaction was in
// the way of.
func (m *Machine) compactionOver(c *compaction, end protocol.AutoCompactionEnd, why *protocol.Error) {
	m.compaction = nil
	end.Reason = c.reason
	if end.Result == nil {
		m.size.settled = false // not again before the next answer
	}
	if why != nil && !end.Aborted {
		end.ErrorMessage = compactionFailed[c.reason] + why.Message
	}
	if c.then == thenAgain { // the client waits for what comes of the failed run
		m.announce(c)
	}
	if c.announced {
		m.emit(end)
	}
	if c.cmd != nil {
		if why != nil {
			m.fail(*c.cmd, why)
		} else {
			m.reply(*c.cmd, protocol.JSON(end.Result))
		}
	}
	if end.Aborted {
		return // who aborted decides what follows
	}
	m.afterCompaction(c, end.Result != nil)
}

func (m *Machine) afterCompaction(c *compaction, done bool) {
	if m.run != nil { // between two turns
		if m.goesOn() {
			m.nextTurn()
		} else { // the queue was cleared meanwhile
			m.endRun(completed, nil)
		}
		return
	}
	m.enter(PhaseIdle)
	switch {
	case c.then.again() && done:
		m.startRun(nil)
	case c.then == thenAgain:
		m.settled(failed)
	default:
		m.startQueued()
	}
}

// startQueued starts a run with what has been queued meanwhile, or settles.
func (m *Machine) startQueued() {
	wanted := len(m.followUp) > 0 ||
		slices.ContainsFunc(m.steering, func(q Queued) bool { return q.Kind != protocol.QueueInject })
	if !wanted || m.stopping() || m.model == nil {
		m.rest(m.settle.outcome)
		return
	}
	m.answerDangling()
	m.openRun()
	next := take(&m.steering, m.steeringMode)
	if len(next) == 0 {
		next = take(&m.followUp, m.followUpMode)
	}
	m.recovered, m.reminders = false, 0
	m.deliver(next)
	m.ask()
}

// cancelCompaction ends a compaction without a result.
func (m *Machine) cancelCompaction() {
	c := m.compaction
	if c.waiting {
		m.do(CancelRetry{c.run})
	} else {
		m.do(CancelRun{c.run})
	}
	m.nextEpoch()
	m.compactionOver(c, protocol.AutoCompactionEnd{Aborted: true}, protocol.CodeCancelled.Errorf("Compaction cancelled"))
	if m.run == nil {
		m.enter(PhaseIdle)
	}
}

// afterRun compacts if the run has left the context too full, else settles.
// Queued messages wait for the compaction.
func (m *Machine) afterRun(outcome string) {
	switch {
	case outcome == completed && m.overflowed != nil && m.autoCompaction && !m.stopping() && m.set.Gates.OverflowStands:
		m.beginCompaction(&compaction{reason: reasonOverflow})
	case outcome == completed && m.mayRecover(m.overflowed) && !m.recovered:
		m.recovered = true
		m.beginCompaction(&compaction{reason: reasonOverflow, then: thenInstead, ask: Summarise{Redo: true}})
	case outcome != aborted && m.tooFull():
		m.beginCompaction(&compaction{reason: reasonThreshold})
	default:
		m.overflowed = nil
		m.rest(outcome)
	}
	m.overflowed = nil
}

// mayRecover says whether the request of an answer that did not fit is made
// again after a compaction: once for each message of the user, and only if the
// model that answered is still selected.
func (m *Machine) mayRecover(answer *protocol.AssistantMessage) bool {
	return answer != nil && m.autoCompaction && !m.stopping() &&
		m.model != nil && answer.Provider == m.model.Provider && answer.Model == m.model.ID
}

func (m *Machine) recover() {
	if m.recovered {
		m.emit(protocol.AutoCompactionStart{Reason: reasonOverflow})
		m.emit(protocol.AutoCompactionEnd{Reason: reasonOverflow, ErrorMessage: "Context overflow recovery failed after one " +
			"compact-and-retry attempt. Try reducing context or switching to a larger-context model."})
		m.settled(failed)
		return
	}
	m.recovered = true
	m.beginCompaction(&compaction{reason: reasonOverflow, then: thenAgain})
}

// retryOfCompaction handles the retry supervisor's news about a summary.
func (m *Machine) retryOfCompaction(run int) *compaction {
	if c := m.compaction; c != nil && c.waiting && c.run == run {
		return c
	}
	return nil
}

func (m *Machine) summaryRetryScheduled(c *compaction, delay int64) {
	m.emit(protocol.SummarizationRetry{
		Step: "scheduled", Attempt: c.attempt, MaxAttempts: m.set.MaxRetries, DelayMs: delay,
		ErrorMessage: c.ask.problem, Source: "compaction", Reason: c.reason,
	})
}

func (m *Machine) summaryRetryDue(c *compaction) {
	c.waiting = false
	m.emit(protocol.SummarizationRetry{Step: "attempt_start", Attempt: c.attempt, MaxAttempts: m.set.MaxRetries})
	m.summarise(c)
}
