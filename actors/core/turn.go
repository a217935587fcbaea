package core

import (
	"slices"
	"strconv"

	"troupe/protocol"
)

// run is one agent_start … agent_end.
type run struct {
	id       protocol.RunID
	messages []protocol.Message
	turns    int                   // begun
	joinable bool                  // started by an idle steer or follow_up: a plain prompt may still join
	offered  []string              // the tools that the latest request named: only these run
	deferred []protocol.StreamRule // that match and have not stopped the answer
	system   *string               // the system prompt, where an extension has made another

	submitted bool // a child has handed over what it was asked for: no other turn follows
	turn           // the current one
}

// turn is an answer and its calls.
type turn struct {
	answer     *protocol.AssistantMessage
	answerID   string // of its entry
	overflowed bool   // the answer says that its request was too large
	calls      []*call
	parallel   bool                          // the calls run beside each other
	results    []*protocol.ToolResultMessage // in call order
	allowance  *Grant                        // how many of the calls may run; nil where nobody was asked
	verdict    *bool                         // of extensions, whether the model is asked again; nil for none
	inner      []*call                       // that calls have made and that are not over
}

// cause is why a run starts. The zero value asks again for an answer that
// failed.
type cause struct {
	said     *protocol.QueuedInput        // a message of the user, which has to be accepted
	by       Command                      // that brought it
	queued   bool                         // what waits in the queues: steering, else follow-ups
	note     *protocol.CustomMessageEntry // a message of troupe's own, or of an extension
	quiet    bool                         // clients were told of what the note is about
	joinable bool
}

// startRun opens a run: with what has caused it, then what steering waits.
func (m *Machine) startRun(c cause) {
	m.answerOpenCalls()
	if c.said != nil || c.queued {
		m.work.recovered, m.work.reminders = false, 0
		m.submission = submission{}
	}
	var said *protocol.UserMessage
	if c.said != nil { // it is in the log before it is acknowledged
		said = m.accept(*c.said)
		m.reply(c.by, protocol.Started)
	}
	r := m.openRun()
	r.joinable = c.joinable
	if said != nil {
		m.show(r, said)
		m.injectAll(r, &m.forNextTurn)
	}
	switch {
	case c.note == nil:
	case c.quiet && m.set.Rules.QuietNotes:
		m.appendCustom(*c.note)
	default:
		m.inject(r, *c.note)
	}
	if p := c.by.prepared; p != nil {
		r.system = p.SystemPrompt
		for _, e := range p.Messages {
			m.inject(r, e)
		}
	}
	m.deliver(r, m.due(c.queued))
	m.ask(r)
}

// openRun announces a run and its first turn.
func (m *Machine) openRun() *run {
	m.runs++
	r := &run{id: protocol.RunID(strconv.Itoa(m.runs))}
	m.beginClock()
	m.work.unsettled, m.work.lastRun, m.work.outcome = true, r.id, completed
	m.emit(protocol.AgentStart{RunID: r.id})
	m.turnStart(r)
	return r
}

// show announces a message that is in the log, as part of a run if there is one.
func (m *Machine) show(r *run, msg protocol.Message) {
	var id protocol.RunID
	if r != nil {
		r.messages = append(r.messages, msg)
		id = r.id
	}
	m.emit(protocol.MessageStart{Message: msg, RunID: id})
	m.emit(protocol.MessageEnd{Message: msg, RunID: id})
}

// ask requests the next assistant message.
func (m *Machine) ask(r *run) {
	r.offered = m.tools
	m.turns++
	s := &streaming{step{run: r, attempt: m.newAttempt()}, m.newStream()}
	m.enter(s)
	why := m.request(s.attempt, StartStream{
		Attempt: s.attempt, Model: m.model, Level: m.Level(), Tools: m.tools, SystemPrompt: r.system, Must: m.mustCall(),
		Again: m.work.retries.pending() > 0, Repeats: m.repeatsLeft(&m.work.retries),
	})
	if why != "" {
		m.breakOff(r, s.stream, protocol.StopError, why.Error(), ending{outcome: failed})
	}
}

func (m *Machine) turnStart(r *run) {
	r.turns++
	r.turn = turn{}
	m.emitPlaced(protocol.TurnStart{TurnIndex: r.turns - 1, RunID: r.id})
}

// emitPlaced emits an event with what only the session knows of it: when a turn begins, and
// whose run has ended.
func (m *Machine) emitPlaced(ev protocol.Event) {
	switch of := ev.(type) {
	case protocol.TurnStart:
		of.Timestamp = m.now
		ev = of
	case protocol.AgentEnd:
		of.SessionID, of.SessionFile = m.identity.SessionID, m.identity.File
		ev = of
	default:
	}
	m.emit(ev)
}

func (m *Machine) turnEnd(r *run) {
	m.emit(protocol.TurnEnd{TurnIndex: r.turns - 1, Message: r.answer, ToolResults: emptyNotNil(r.results), RunID: r.id})
	m.injectAll(r, &m.forTurnEnd)
}

// endTurn closes the turn, about which extensions may have a word.
func (m *Machine) endTurn(r *run) {
	if m.listens(HookTurnEnd) {
		m.askAt(&asking{step: step{run: r}, outcome: completed}, r.turnEndHook())
		return
	}
	m.turnEnd(r)
	m.turnOver(r)
}

// turnOver goes on with what is queued: steering first, then, if the model wants
// nothing more, follow-ups, else the end.
func (m *Machine) turnOver(r *run) {
	switch {
	case !m.goesOn(r):
		m.endRun(r, ending{outcome: completed})
	case m.overBudget() != "": // what follows needs the model
		m.turnStart(r)
		m.breakOff(r, m.newStream(), protocol.StopError, m.overBudget().Error(), ending{outcome: failed})
	case m.tooFull():
		m.beginCompaction(&compacting{step: step{run: r}, reason: reasonThreshold})
	default:
		m.nextTurn(r)
	}
}

// goesOn says whether the run has another turn: the model wants to see the
// results of its calls, or something is queued.
func (m *Machine) goesOn(r *run) bool {
	return !r.submitted && (r.wantsMore() || len(m.steering) > 0 || len(m.followUp) > 0)
}

// wantsMore says whether the model is to see the results of its calls: not if all of
// them say that they are the end. What extensions have said at the end of the turn
// counts instead.
func (r *run) wantsMore() bool {
	if r.verdict != nil {
		return *r.verdict
	}
	return slices.ContainsFunc(r.calls, func(c *call) bool { return !c.final })
}

func (m *Machine) nextTurn(r *run) {
	next := m.due(!r.wantsMore())
	m.turnStart(r)
	if note := m.deferredNote(r); note != nil {
		m.inject(r, *note)
	}
	m.deliver(r, next)
	m.ask(r)
}

// ending is how a run ends.
type ending struct {
	outcome string
	err     *protocol.StreamError // why the request for its last answer failed
	rules   []protocol.StreamRule // that have stopped its last answer: it is made again
	more    bool                  // messages have come while extensions looked at the end
}

// closeRun says that the run is over. What was held back for it goes to the log; then it is
// decided what follows by itself: another attempt, a compaction, or rest.
func (m *Machine) closeRun(r *run, e ending) {
	m.injectAll(r, &m.forTurnEnd)
	m.enter(idle{})
	m.work.outcome = e.outcome
	ruled := len(e.rules) > 0
	if ruled {
		m.retryWon()
		m.noteFired(e.rules)
	}
	retries := e.outcome == failed && m.mayRetry(&m.work.retries, e.err)
	recovers := e.outcome == failed && e.err != nil && e.err.Kind == protocol.ErrorOverflow && m.mayRecover(r.answer)
	later := e.outcome == completed && len(r.deferred) > 0 && !m.stopping() && m.overBudget() == ""
	end := protocol.AgentEnd{Messages: emptyNotNil(r.messages), WillRetry: retries || ruled || later, RunID: r.id}
	switch why := m.cutBy(); {
	case why != "":
		end.Error = why.Error()
	case e.outcome != completed && r.answer != nil:
		end.Error = r.answer.ErrorMessage
	}
	m.emitPlaced(end)
	if retries || recovers && !m.work.recovered || ruled && !m.set.StreamRules.Keep {
		m.omit(r.answerID, protocol.EstimateTokens(r.answer))
	}
	m.flushHeld()
	m.retryOver()
	switch {
	case retries:
		m.scheduleRetry(&m.work.retries, &retrying{failure: e.err})
		return
	case ruled:
		m.startRun(cause{note: m.ruleNote(e.rules, stoppedByRule), quiet: true})
		return
	case later:
		m.startRun(cause{note: m.deferredNote(r)})
		return
	}
	why := end.Error
	if e.outcome == aborted {
		why = m.retryCancelled()
	}
	m.failRetries(m.work.retries.announced, why)
	if recovers {
		m.recover()
		return
	}
	m.afterRun(r, e)
}

// omit takes an answer, which counts for so many tokens, out of the context: its
// request is made again. The file keeps it.
func (m *Machine) omit(id string, tokens int64) {
	m.size.Messages--
	m.size.Tokens -= tokens
	m.append(protocol.ContextEdit{TargetID: id})
	m.omitted = true
}

// announceSettled says that nothing more follows by itself.
func (m *Machine) announceSettled(outcome string) {
	m.stopClock() // also that of a run that nobody has seen begin
	if !m.work.unsettled {
		return
	}
	m.endOmitted()
	m.emit(protocol.AgentSettled{Aborted: outcome == aborted, Outcome: outcome, RunID: m.work.lastRun, Submission: m.submission.is})
	m.work.unsettled = false
}
