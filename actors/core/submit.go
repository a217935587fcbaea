package core

import (
	"fmt"
	"slices"

	"troupe/protocol"
)

// SubmitTool names the tool with which a child hands over what it was asked for.
const SubmitTool = "submit_result"

const (
	maxMisfits         = 3 // submissions that do not fit the schema: the last one ends the child
	maxSubmitReminders = 3
)

// submission is what has become of what a child is to hand over.
type submission struct {
	is        *protocol.Submission // nil while there is none
	misfits   int
	reminders int
}

// submitted takes what a child hands over. What does not fit is refused, a few times;
// anything else ends the run after this turn.
func (m *Machine) submitted(r *run, s *protocol.Submission) (refused *protocol.ToolResult) {
	if s.Unfit != "" {
		m.submission.misfits++
		if m.submission.misfits < maxMisfits {
			return new(errorResult(s.Unfit))
		}
	}
	if m.submission.is == nil {
		m.submission.is = s
	}
	r.submitted = true
	return nil
}

// mustCall is the tool that the next answer has to call, "" for none: at last a child is not
// only reminded.
func (m *Machine) mustCall() string {
	if m.submission.reminders < maxSubmitReminders || m.submission.is != nil || !slices.Contains(m.tools, SubmitTool) {
		return ""
	}
	return SubmitTool
}

// remindToSubmit starts another run of a child that has ended without a word about
// what it was to hand over.
func (m *Machine) remindToSubmit(outcome string) bool {
	child := m.set.Child
	if child == nil || child.Schema == nil || !slices.Contains(m.tools, SubmitTool) || m.submission.is != nil || outcome != completed || !m.work.unsettled ||
		m.submission.reminders >= maxSubmitReminders || m.stopping() || m.model == nil {
		return false
	}
	m.submission.reminders++
	text := fmt.Sprintf("<submit-reminder attempt=\"%d/%d\">\nYou have ended without handing over a result. Call %s now, with the data that the assignment asks for, "+
		"or with an error if there is none.\n</submit-reminder>", m.submission.reminders, maxSubmitReminders, SubmitTool)
	m.startRun(cause{note: noteToModel("submit-reminder", text)})
	return true
}
