package core

import (
	"slices"
	"strconv"

	"troupe/protocol"
)

// activity is what a session does: one thing at a time. What was begun outside
// the machine for an activity carries its attempt, so that whatever still comes
// of an earlier one moves nothing.
//
//sumtype:decl
type activity interface {
	phase() Phase
	waitingFor() []string // as get_state names it
	inRun() *run          // the run that it is a step of, nil between runs
	begun() Attempt       // what it has begun outside the machine, 0 for nothing
}

// step is what every activity has.
type step struct {
	run     *run
	attempt Attempt
	login   string // the provider whose login is renewed before the request goes on, "" for none
}

func (s step) inRun() *run        { return s.run }
func (s step) begun() Attempt     { return s.attempt }
func (step) waitingFor() []string { return nil }

// waitsForLogin notes whose login the request waits for.
func (s *step) waitsForLogin(provider string) { s.login = provider }

// phaseOr is how a request shows that is made in a phase.
func (s *step) phaseOr(p Phase) Phase {
	if s.login != "" {
		return PhaseAuth
	}
	return p
}

// waitsOr is what a request waits for: a login, or else something of its own.
func (s *step) waitsOr(what ...string) []string {
	if s.login != "" {
		return []string{"login " + s.login}
	}
	return what
}

// idle: nothing goes on by itself.
type idle struct{ step }

// streaming: a model was asked, and its answer comes in.
type streaming struct {
	step
	*stream
}

// runningTools: the calls of the answer with this attempt are carried out.
type runningTools struct{ step }

// retrying: a request failed in a way that may pass, and is made again after a
// wait.
type retrying struct {
	step
	number    int // of the retry, from 1
	failure   *protocol.StreamError
	summary   *compacting                  // what asked for a summary; nil if it was an answer that failed
	announced bool                         // clients have been told how long it takes
	note      *protocol.CustomMessageEntry // what the model is told with the next attempt; nil for nothing
}

// compacting: a model summarises older history, to put the summary in its
// place. Nothing of the context changes until the summary is there. The run is
// the one whose next turn waits for it.
type compacting struct {
	step
	reason    string
	cmd       *Command  // manual: what is owed an answer
	again     bool      // the request that did not fit is made again when the summary is there
	answerID  string    // of the answer that it has had all the same, "" for none
	ask       Summarise // to be repeated
	retries   retries
	announced bool                 // clients have been told that it began
	before    protocol.ContextSize // of the context when the summariser looked at it
}

// leavingBranch: navigate_tree waits for a summary of the branch that it
// leaves.
type leavingBranch struct{ step }

// activating: the session that was loaded is about to take this one's place.
type activating struct{ step }

func (idle) phase() Phase             { return PhaseIdle }
func (a *compacting) phase() Phase    { return a.phaseOr(PhaseCompacting) }
func (a *leavingBranch) phase() Phase { return a.phaseOr(PhaseCompacting) }
func (*activating) phase() Phase      { return PhaseSwitching }
func (a *streaming) phase() Phase     { return a.phaseOr(PhaseStreaming) }
func (a *runningTools) phase() Phase {
	if slices.ContainsFunc(a.run.calls, func(c *call) bool { return c.dialog != "" }) {
		return PhaseDialog
	}
	return PhaseTools
}
func (a *retrying) phase() Phase {
	if a.summary != nil {
		return PhaseCompacting
	}
	return PhaseRetrying
}

func (a *streaming) waitingFor() []string {
	if a.hook != 0 {
		return []string{"extension message_end"}
	}
	return a.waitsOr("model " + a.model.Provider + "/" + a.model.ID)
}
func (a *compacting) waitingFor() []string    { return a.waitsOr("compaction " + a.reason) }
func (a *leavingBranch) waitingFor() []string { return a.waitsOr() }
func (a *runningTools) waitingFor() (list []string) {
	for _, c := range slices.Concat(a.run.calls, a.run.inner) {
		switch {
		case c.dialog != "":
			list = append(list, "dialog "+c.dialog)
		case c.host != "":
			list = append(list, "host "+c.Name+" "+c.ID)
		case c.hook != 0 && c.asks == HookPermission:
			list = append(list, "permission "+c.Name+" "+c.ID)
		case c.hook != 0:
			list = append(list, "extension "+c.Name+" "+c.ID)
		case c.state == callRunning:
			list = append(list, "tool "+c.Name+" "+c.ID)
		}
	}
	return list
}
func (a *retrying) waitingFor() []string {
	if a.summary != nil {
		return a.summary.waitingFor()
	}
	return []string{"retry " + strconv.Itoa(a.number)}
}

// enter makes an activity the current one.
func (m *Machine) enter(a activity) {
	m.requestOver(a.begun())
	m.activity = a
	m.notePhase()
}

// notePhase remembers when the phase began.
func (m *Machine) notePhase() {
	if p := m.Phase(); p != m.shown {
		m.shown, m.since = p, m.now
	}
}

// Phase is what the session is doing.
func (m *Machine) Phase() Phase {
	if m.swap != nil && m.isIdle() {
		return PhaseSwitching
	}
	return m.activity.phase()
}

func (m *Machine) isIdle() bool { return m.activity == idle{} }

// newAttempt numbers what is begun outside the machine.
func (m *Machine) newAttempt() Attempt {
	m.attempts++
	return m.attempts
}

// current is the activity that has begun an attempt; not ok if another one goes on.
func current[A activity](m *Machine, attempt Attempt) (a A, ok bool) {
	a, ok = m.activity.(A)
	return a, ok && a.begun() == attempt
}

// release stops what the activity has begun outside the machine. Nothing that
// still comes of it counts.
func (m *Machine) release() {
	if a := m.activity.begun(); a != 0 {
		m.do(Cancel{a})
	}
}
