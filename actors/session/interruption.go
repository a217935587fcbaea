package session

import (
	"slices"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
)

// A crash of a session, or its move to another node, interrupts the commands that it has not answered.
// Each client then learns whether its command may have run, because a client that repeats a command
// that has run executes it twice.

// stepProgress records how far the effects of one step of the machine have been performed. It is kept
// outside the machine, so that it is still valid after a panic in the middle of the step.
type stepProgress struct {
	ins      []core.Input  // a copy of the step's inputs, in an array that is used again
	effects  []core.Effect // effects that the step returned
	at       int           // index of the first effect that has not been performed completely
	logged   int           // entries among effects[:logged] are in the log
	batching bool          // entries are being collected for one write
	external bool          // an effect outside the log has been performed
	arrival  core.Reply    // reply to the command that replaced this session; the zero value for none
	effected bool          // an effect has begun since the current message was received
}

// reset starts the handling of another message.
func (s *stepProgress) reset() {
	clear(s.ins)
	*s = stepProgress{ins: s.ins[:0]}
}

// begin starts the next step of the current message. It is called with nil after the last one.
func (s *stepProgress) begin(ins []core.Input) {
	clear(s.ins)
	*s = stepProgress{ins: append(s.ins[:0], ins...), external: s.external, arrival: s.arrival, effected: s.effected}
}

// noteEffect records that an effect begins. Entries that are batched count when they are written.
func (s *stepProgress) noteEffect() { s.effected = s.effected || !s.batching }

// noteAppend records the result of an append.
func (s *stepProgress) noteAppend(err error) {
	if err == nil && !s.batching && len(s.effects) > 0 {
		s.logged = s.at + 1
	}
}

// isIrreversible reports whether the step has had an effect that a restart does not undo.
func (s *stepProgress) isIrreversible() bool {
	isEntry := func(e core.Effect) bool {
		_, is := e.(core.Append)
		return is
	}
	return s.external || slices.ContainsFunc(s.effects[:s.logged], isEntry)
}

// includes reports whether the command is among the inputs of the step.
func (s *stepProgress) includes(seq uint64) bool {
	return slices.ContainsFunc(s.ins, func(in core.Input) bool {
		c, is := in.(core.Command)
		return is && c.Seq == seq
	})
}

// repliesTo reports whether the step replies to the command.
func (s *stepProgress) repliesTo(seq uint64) bool {
	return slices.ContainsFunc(s.effects, func(e core.Effect) bool {
		r, is := e.(core.Reply)
		return is && r.Seq == seq
	})
}

// knownReplies returns the replies of an interrupted step that are still true, because the log holds
// their effects. Those in late have to follow events that only the restarted session sends: after the
// response to abort, for example, no event of the aborted run may follow.
func (s *stepProgress) knownReplies() (list, late []core.Reply) {
	to := &list
	for i := s.at; i < len(s.effects); i++ {
		switch e := s.effects[i].(type) {
		case core.Append:
			if i >= s.logged {
				return list, late
			}
		case core.Emit:
			if protocol.RowOf(e.Event).Closes != "" {
				to = &late
			}
		case core.Reply:
			if s.isIrreversible() || e.Err != nil {
				*to = append(*to, e)
			}
		default: // repeated by the restarted session
		}
	}
	return list, late
}

// isQueued reports whether a command has not begun, because it waits in the session or in the machine.
func (s *Session) isQueued(seq uint64) bool {
	is := func(m any) bool {
		switch m := m.(type) {
		case link.Request:
			return m.Seq == seq
		case heldCommand:
			return m.Seq == seq
		}
		return false
	}
	of := func(r link.Request) bool { return r.Seq == seq }
	return slices.ContainsFunc(s.waiting, is) || slices.ContainsFunc(s.ext.load.held, is) || slices.ContainsFunc(s.inputs.early, of) ||
		slices.ContainsFunc(s.jobs.leaving.asked, of) || slices.ContainsFunc(s.inputs.group, func(in core.Input) bool {
		c, is := in.(core.Command)
		return is && c.Seq == seq
	}) || s.m != nil && s.m.Waits(seq)
}

// mayHaveRun reports whether a command without a reply may have had an effect. current is the message
// whose handling is interrupted, nil for none.
func (s *Session) mayHaveRun(seq uint64, current any) bool {
	spec := protocol.Lookup(s.clients.replies.pending[seq].name)
	if spec != nil && spec.Effect() == protocol.EffectNone || s.isQueued(seq) {
		return false
	}
	r, is := current.(link.Request)
	return s.inputs.step.effected || !(is && r.Seq == seq || s.inputs.step.includes(seq))
}

// interruptionError derives the error of each unanswered command from the reason of the interruption: it
// may be sent again, or its outcome is unknown.
func (s *Session) interruptionError(why *protocol.Error, current any) func(seq uint64) *protocol.Error {
	return func(seq uint64) *protocol.Error {
		if !s.mayHaveRun(seq, current) {
			return why.NotRun(protocol.RetryAfter)
		}
		unknown := why.MayHaveRun()
		unknown.Undecided = s.isOutcomeLogged(seq)
		return unknown
	}
}

// closingError derives the error of each unanswered command from the reason why the session closes. None
// of them may be sent again.
func (s *Session) closingError(why *protocol.Error, current any) func(seq uint64) *protocol.Error {
	return func(seq uint64) *protocol.Error {
		if s.mayHaveRun(seq, current) {
			return why.MayHaveRun()
		}
		return why
	}
}

// isOutcomeLogged reports whether a repeated command can be decided later by the log. In a cluster the log
// holds its idempotency key. Otherwise a command without an entry in the log had no effect.
func (s *Session) isOutcomeLogged(seq uint64) bool {
	p := s.clients.replies.pending[seq]
	if s.kept() != nil && p.key() != "" {
		return true
	}
	spec := protocol.Lookup(p.name)
	progress := &s.inputs.step
	return spec != nil && spec.Effect() == protocol.EffectLog && !(progress.isIrreversible() && (progress.includes(seq) || progress.repliesTo(seq)))
}

// sendKnownReplies sends the replies that are known in spite of the crash. Late ones are left to the
// restarted session.
func (s *Session) sendKnownReplies() {
	list, late := s.inputs.step.knownReplies()
	for _, r := range append(list, s.inputs.step.arrival) {
		s.clients.reply(r.Seq, r.Data, r.Err)
	}
	for _, r := range late {
		s.clients.replies.known(r)
	}
}

// sendLateReplies sends the replies that the crashed session left.
func (s *Session) sendLateReplies() {
	for _, r := range s.clients.replies.late {
		s.clients.reply(r.Seq, r.Data, r.Err)
	}
	s.clients.replies.late = nil
}
