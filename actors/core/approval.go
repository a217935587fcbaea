package core

import (
	"slices"
	"strconv"

	"troupe/protocol"
)

// Outcomes of an approval.
const (
	approvalAllowed   = "allowed"
	approvalDenied    = "denied"
	approvalCancelled = "cancelled"
)

// Options of an approval, beside those that its asker names.
const stopOption = "stop"

// judges says whether calls are judged by permission rules.
func (m *Machine) judges() bool {
	return m.set.Permissions || m.PermissionMode != "" && m.PermissionMode != protocol.PermitAuto
}

// judge has a call judged before it runs.
func (m *Machine) judge(c *call) {
	m.beginAsking(c, HookPermission)
	m.hooks++
	c.hook = m.hooks
	m.do(Judge{c.hook, c.ToolCall, m.PermissionMode, slices.Clip(m.grants)})
}

// judged goes on with a call that the permission rules have been asked about.
func (m *Machine) judged(r *run, c *call, answer HookAnswer) {
	judged, answered := answer.(Judged)
	switch {
	case !answered:
		m.finishCall(r, c, errorResult("This tool call was not run: whether it is permitted could not be told."), true)
	case judged.Refused != "":
		m.finishCall(r, c, errorResult("This tool call is not permitted: "+judged.Refused), true)
	case judged.Ask == nil:
		m.permitCall(r, c)
	case m.deaf():
		m.finishCall(r, c, errorResult(nobodyLeft), true)
	default:
		m.askApproval(c, *judged.Ask)
	}
}

// askApproval asks the client about a call. Nothing of it happens before the answer.
func (m *Machine) askApproval(c *call, ask protocol.ApprovalRequest) {
	m.dialogs++
	c.dialog = "approval_" + strconv.Itoa(m.dialogs)
	ask.Options = append(slices.Clip(ask.Options),
		protocol.ApprovalOption{ID: "no", Kind: protocol.RejectOnce, Label: "Deny"},
		protocol.ApprovalOption{ID: stopOption, Kind: protocol.RejectOnce, Label: "Deny and stop"})
	ask.ID, ask.ToolCallID, ask.ToolName, ask.Args, ask.AskedAt = c.dialog, c.ID, c.Name, c.Arguments, m.now
	c.approval = &ask
	m.appendOwn(protocol.CustomApproval, protocol.ApprovalOp{Op: "ask", ID: c.dialog, ToolCallID: c.ID, Why: &ask.Why, Options: ask.Options})
	m.do(AskUI{c.approval.Select(), c.approval})
}

// approve takes the answer of a client that knows approvals.
func (m *Machine) approve(c Command, cmd protocol.ApprovalResponse) {
	r, about := m.findCall(func(c *call) bool { return c.approval != nil && c.dialog == cmd.ApprovalID })
	if about == nil {
		m.fail(c, protocol.CodeNotFound.Errorf("No approval is open with this id: %s", cmd.ApprovalID))
		return
	}
	i := slices.IndexFunc(about.approval.Options, func(o protocol.ApprovalOption) bool { return o.ID == cmd.OptionID })
	if i < 0 {
		m.fail(c, protocol.CodeInvalidParams.Errorf("The approval has no option %s", cmd.OptionID))
		return
	}
	m.do(CancelUI{about.dialog})
	m.decide(r, about, about.approval.Options[i], cmd.Feedback, c.By)
	m.done(c, nil)
}

// approvalAnswered takes the end of the dialog: the text of an option, or nothing.
func (m *Machine) approvalAnswered(r *run, c *call, in UIAnswered) {
	i := slices.IndexFunc(c.approval.Options, func(o protocol.ApprovalOption) bool {
		return !in.Cancelled && in.Value != nil && o.Text() == *in.Value
	})
	if i >= 0 {
		m.decide(r, c, c.approval.Options[i], "", in.By)
		return
	}
	m.approvalOver(c, protocol.ApprovalResolved{Outcome: approvalCancelled, By: in.By}, "")
	m.settleCall(r, c, errorResult(notAllowed), true)
}

const notAllowed = "The user did not allow this tool call."

// decide does what was answered.
func (m *Machine) decide(r *run, c *call, o protocol.ApprovalOption, feedback string, by *protocol.ClientRef) {
	if o.Kind == protocol.RejectOnce {
		m.approvalOver(c, protocol.ApprovalResolved{Outcome: approvalDenied, OptionID: o.ID, By: by}, feedback)
		text := notAllowed
		if feedback != "" {
			text += "\n" + feedback
		}
		if o.ID == stopOption {
			m.finishCall(r, c, errorResult(text), true)
			m.stop(aborted)
			return
		}
		m.settleCall(r, c, errorResult(text), true)
		return
	}
	m.approvalOver(c, protocol.ApprovalResolved{Outcome: approvalAllowed, OptionID: o.ID, By: by}, "")
	m.grants = append(m.grants, o.Rules...)
	m.logTools(protocol.ToolOp{Op: "start", IDs: []string{c.ID}})
	m.runCall(c) // --confirm would ask the same again
}

// approvalOver records how the question about a call ended, and tells clients.
func (m *Machine) approvalOver(c *call, end protocol.ApprovalResolved, feedback string) {
	m.recordApproval(c, end, feedback)
	end.ID, end.ToolCallID = c.dialog, c.ID
	c.approval, c.dialog = nil, ""
	m.emit(end)
}

func (m *Machine) recordApproval(c *call, end protocol.ApprovalResolved, feedback string) {
	if c.approval != nil {
		m.appendOwn(protocol.CustomApproval, protocol.ApprovalOp{
			Op: "answer", ID: c.dialog, ToolCallID: c.ID, OptionID: end.OptionID, Outcome: end.Outcome, Feedback: feedback, By: end.By,
		})
	}
}

// withdrawApproval tells clients that nobody waits for their answer any more. It writes
// nothing: the file may be why.
func (m *Machine) withdrawApproval(c *call) {
	if c.approval != nil {
		c.approval = nil
		m.emit(protocol.ApprovalResolved{ID: c.dialog, ToolCallID: c.ID, Outcome: approvalCancelled})
	}
}
