package core

import (
	"encoding/json"
	"slices"
	"strings"

	"troupe/protocol"
)

// Outcomes of an approval.
const (
	approvalAllowed   = "allowed"
	approvalDenied    = "denied"
	approvalCancelled = "cancelled"
	approvalTimeout   = "timeout"
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
	mode := m.PermissionMode
	if c.wasAsked() && mode != protocol.PermitReadOnly {
		mode = protocol.PermitAsk
	}
	m.do(Judge{c.hook, c.ToolCall, mode, slices.Clip(m.grants)})
}

// wasAsked says that an earlier life has asked whether a call is permitted, perhaps in a
// mode that ended with it: what lets the call run unasked now is a rule, and no mode.
func (c *call) wasAsked() bool { return strings.HasPrefix(c.again, approvalDialog) }

const approvalDialog = "approval_" // begins the ids of such dialogs

// judged goes on with a call that the permission rules have been asked about.
func (m *Machine) judged(r *run, c *call, answer HookAnswer) {
	judged, answered := answer.(Judged)
	c.unbound = judged.Ask != nil && judged.Ask.Unbound
	switch {
	case !answered:
		m.finishCall(r, c, errorResult("This tool call was not run: whether it is permitted could not be told."), true)
	case judged.Refused != "":
		m.finishCall(r, c, errorResult("This tool call is not permitted: "+judged.Refused), true)
	case c.approved != nil:
		m.runApproved(c)
	case judged.Ask == nil:
		m.permitCall(r, c)
	case m.deaf() && !m.askedLater(c):
		m.finishCall(r, c, errorResult(nobodyLeft), true)
	default:
		m.askApproval(c, *judged.Ask)
	}
}

// askApproval asks the client about a call. Nothing of it happens before the answer.
func (m *Machine) askApproval(c *call, ask protocol.ApprovalRequest) {
	c.dialog = m.dialogID(approvalDialog, c)
	ask.Options = append(slices.Clip(ask.Options),
		protocol.ApprovalOption{ID: "no", Kind: protocol.RejectOnce, Label: "Deny"},
		protocol.ApprovalOption{ID: stopOption, Kind: protocol.RejectOnce, Label: "Deny and stop"})
	ask.ID, ask.ToolCallID, ask.ToolName, ask.Args, ask.AskedAt = c.dialog, c.ID, c.Name, c.Arguments, m.now
	if m.set.ApprovalTimeout > 0 {
		ask.ExpiresAt = m.now + m.set.ApprovalTimeout
	}
	c.approval = &ask
	m.appendOwn(protocol.CustomApproval, protocol.ApprovalOp{Op: "ask", ID: c.dialog, ToolCallID: c.ID, Why: &ask.Why, Options: ask.Options})
	m.do(AskUI{c.approval.Select(), c.approval})
}

// approve takes the answer of a client that knows approvals.
func (m *Machine) approve(c Command, cmd protocol.ApprovalResponse) {
	r, about := m.findCall(func(c *call) bool { return c.approval != nil && c.dialog == cmd.ApprovalID })
	if about == nil && m.approveForChild(c, cmd) {
		return
	}
	if about == nil {
		m.fail(c, protocol.CodeNotFound.Errorf("No approval is open with this id: %s", cmd.ApprovalID))
		return
	}
	i := slices.IndexFunc(about.approval.Options, func(o protocol.ApprovalOption) bool { return o.ID == cmd.OptionID })
	if i < 0 {
		m.fail(c, protocol.CodeInvalidParams.Errorf("The approval has no option %s", cmd.OptionID))
		return
	}
	if len(cmd.Args) > 0 {
		m.approveChanged(c, about, about.approval.Options[i], cmd.Args)
		return
	}
	m.do(CancelUI{ID: about.dialog})
	m.decide(r, about, about.approval.Options[i], cmd.Feedback, c.By)
	m.done(c, nil)
}

// approveChanged allows a call with other arguments. They have to fit the tool as they
// are, for a person is shown what runs, and are judged like those of any call; only what would be asked about was asked.
func (m *Machine) approveChanged(c Command, about *call, o protocol.ApprovalOption, args json.RawMessage) {
	changed := *about
	changed.Arguments = args
	switch why := m.misfit(&changed, true); {
	case o.Kind != protocol.AllowOnce:
		m.fail(c, protocol.CodeInvalidParams.Errorf("args needs an option of the kind %s", protocol.AllowOnce))
		return
	case why != "":
		m.fail(c, protocol.CodeInvalidParams.Errorf("The arguments do not fit: %s", why))
		return
	}
	m.do(CancelUI{ID: about.dialog})
	about.Arguments, about.approved = args, args
	m.approvalOver(about, protocol.ApprovalResolved{Outcome: approvalAllowed, OptionID: o.ID, By: c.By}, "")
	m.done(c, nil)
	m.judge(about)
}

// runApproved runs a call with the arguments that were put in the place of its own.
func (m *Machine) runApproved(c *call) {
	m.logStart(c)
	m.runCall(c)
}

// withApproved says in the details of a result with which arguments the call has run, if
// they are not those that the model wrote.
func (c *call) withApproved(details json.RawMessage) json.RawMessage {
	if c.approved == nil {
		return details
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(details, &members) != nil && len(details) > 0 {
		return details // no object: it is the tool's to say what it is
	}
	members["approvedArgs"] = c.approved
	return protocol.AppendValue(nil, members)
}

// revoke takes back what was allowed in the session.
func (m *Machine) revoke(c Command, cmd protocol.RevokePermission) {
	i := slices.Index(m.grants, cmd.Rule)
	if i < 0 {
		m.fail(c, protocol.CodeNotFound.Errorf("The session has no such grant: %s", cmd.Rule))
		return
	}
	was := m.choices
	m.grants = slices.DeleteFunc(slices.Clone(m.grants), func(rule string) bool { return rule == cmd.Rule })
	m.chosen(c, was, nil)
}

// Grants are the rules that were allowed in the session.
func (m *Machine) Grants() []string { return m.grants }

// approvalAnswered takes the end of the dialog: the text of an option, or nothing.
func (m *Machine) approvalAnswered(r *run, c *call, in UIAnswered) {
	i := slices.IndexFunc(c.approval.Options, func(o protocol.ApprovalOption) bool {
		return !in.Cancelled && in.Value != nil && o.Text() == *in.Value
	})
	if i >= 0 {
		m.decide(r, c, c.approval.Options[i], "", in.By)
		return
	}
	end := protocol.ApprovalResolved{Outcome: approvalCancelled, By: in.By}
	if in.Late {
		end.Outcome = approvalTimeout
	}
	m.approvalOver(c, end, "")
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
	if was := m.choices; len(o.Rules) > 0 {
		m.grants = slices.Concat(m.grants, o.Rules)
		m.keepChoices(&was)
	}
	m.runAllowed(r, c) // --confirm would ask the same again
}

// runAllowed runs a call that somebody has allowed, unless the limit of calls was lowered
// meanwhile so far that it is one too many.
func (m *Machine) runAllowed(r *run, c *call) {
	if b := m.budget; b != nil && b.used[toolCalls] > b.pool.limits[toolCalls] {
		m.settleCall(r, c, errorResult(protocol.BudgetToolCalls.Error()), true)
		return
	}
	m.logStart(c)
	m.runCall(c)
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
			Op: "answer", ID: c.dialog, ToolCallID: c.ID, OptionID: end.OptionID, Outcome: end.Outcome, Feedback: feedback, By: end.By, Args: c.approved,
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
