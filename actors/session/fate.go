package session

import (
	"slices"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
)

// A command that is still to be answered when its session crashes, or goes to another node, may have
// run or not. Clients are told which: one that sends a command again that had run carries it out twice.

// step is the step of the machine that is being performed. It outlives a panic in the middle.
type step struct {
	ins      []core.Input  // what it is about
	effects  []core.Effect // what it wants
	at       int           // the first effect that was not performed to its end
	logged   int           // entries among the effects before this one are in the log
	together bool          // entries are gathered for one write
	outside  bool          // it has had an effect that is not in the log
	arrival  core.Reply    // to the command that has put another session in the place of this one; the zero value for none
	touched  bool          // an effect was begun since the message came that is being handled
}

// begin begins the next step of the message that is being handled; nil ends the last one.
func (s *step) begin(ins []core.Input) {
	*s = step{ins: ins, outside: s.outside, arrival: s.arrival, touched: s.touched}
}

// touches notes that an effect begins; entries that are gathered are written later.
func (s *step) touches() { s.touched = s.touched || !s.together }

// appended notes the end of an append.
func (s *step) appended(err error) {
	if err == nil && !s.together && len(s.effects) > 0 {
		s.logged = s.at + 1
	}
}

// lasting says whether something of the step cannot be taken back.
func (s *step) lasting() bool {
	isEntry := func(e core.Effect) bool {
		_, is := e.(core.Append)
		return is
	}
	return s.outside || slices.ContainsFunc(s.effects[:s.logged], isEntry)
}

// begins says whether the step is the first about a command.
func (s *step) begins(seq uint64) bool {
	return slices.ContainsFunc(s.ins, func(in core.Input) bool {
		c, is := in.(core.Command)
		return is && c.Seq == seq
	})
}

// answersTo says whether the step was to answer a command.
func (s *step) answersTo(seq uint64) bool {
	return slices.ContainsFunc(s.effects, func(e core.Effect) bool {
		r, is := e.(core.Reply)
		return is && r.Seq == seq
	})
}

// answers are the replies of the step that are true although it was not performed to its end: what they
// tell is in the log. Late ones come after the end of something that clients have seen begin, which the restart
// tells: an answered abort is followed by no event of its run.
func (s *step) answers() (list, late []core.Reply) {
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
			if s.lasting() || e.Err != nil {
				*to = append(*to, e)
			}
		default: // what it does the restart makes good
		}
	}
	return list, late
}

// isWaiting says whether a command that is to be answered is yet to begin.
func (s *Session) isWaiting(seq uint64) bool {
	is := func(m any) bool {
		r, ok := m.(link.Request)
		return ok && r.Seq == seq
	}
	of := func(r link.Request) bool { return r.Seq == seq }
	return slices.ContainsFunc(s.waiting, is) || slices.ContainsFunc(s.ext.load.held, is) || slices.ContainsFunc(s.inputs.early, of) ||
		slices.ContainsFunc(s.jobs.leaving.asked, of) || slices.ContainsFunc(s.inputs.group, func(in core.Input) bool {
		c, is := in.(core.Command)
		return is && c.Seq == seq
	}) || s.m != nil && s.m.Waits(seq)
}

// hasBegun says whether a command that is to be answered may have had an effect; hand is the message
// in the handling of which the session ends, nil for none.
func (s *Session) hasBegun(seq uint64, hand any) bool {
	spec := protocol.Lookup(s.clients.replies.pending[seq].name)
	if spec != nil && spec.Effect() == protocol.EffectNone || s.isWaiting(seq) {
		return false
	}
	r, is := hand.(link.Request)
	return s.inputs.step.touched || !(is && r.Seq == seq || s.inputs.step.begins(seq))
}

// cutOff makes of the reason for which a session ends what each command is answered that it owes an answer.
// after is how soon one that has not begun may be sent again.
func (s *Session) cutOff(why *protocol.Error, hand any) func(seq uint64) *protocol.Error {
	return func(seq uint64) *protocol.Error {
		if !s.hasBegun(seq, hand) {
			return why.NotRun(protocol.RetryAfter)
		}
		unknown := why.MayHaveRun()
		unknown.Undecided = s.isDecidedLater(seq)
		return unknown
	}
}

// ended makes of the reason for which a session ends what each command is answered, where none may be sent again.
func (s *Session) ended(why *protocol.Error, hand any) func(seq uint64) *protocol.Error {
	return func(seq uint64) *protocol.Error {
		if s.hasBegun(seq, hand) {
			return why.MayHaveRun()
		}
		return why
	}
}

// isDecidedLater says whether it can be told of a command that has begun, when it comes again, what became of it.
// In a cluster the log says so. Else it is known to have had no effect if none was in the log when its session ended.
func (s *Session) isDecidedLater(seq uint64) bool {
	p := s.clients.replies.pending[seq]
	if s.kept() != nil && p.key() != "" {
		return true
	}
	spec := protocol.Lookup(p.name)
	of := &s.inputs.step
	return spec != nil && spec.Effect() == protocol.EffectLog && !(of.lasting() && (of.begins(seq) || of.answersTo(seq)))
}

// giveAnswers answers the commands of which the answer is known although the session crashes, or leaves that to the
// session that takes its place.
func (s *Session) giveAnswers() {
	list, late := s.inputs.step.answers()
	for _, r := range append(list, s.inputs.step.arrival) {
		s.clients.reply(r.Seq, r.Data, r.Err)
	}
	for _, r := range late {
		s.clients.replies.known(r)
	}
}

// answerKnown answers what was known before a crash.
func (s *Session) answerKnown() {
	for _, r := range s.clients.replies.late {
		s.clients.reply(r.Seq, r.Data, r.Err)
	}
	s.clients.replies.late = nil
}
