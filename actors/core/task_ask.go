package core

import (
	"cmp"
	"slices"

	"troupe/protocol"
)

// childAsks opens a dialog of a child: whoever listens here may answer it.
func (m *Machine) childAsks(c *call, it *item, dialog protocol.ExtensionUIRequest) {
	asked := dialog.ID
	dialog.ID = m.childDialogID()
	if dialog.Title != nil {
		dialog.Title = new(it.says(*dialog.Title))
	}
	dialog.ToolCallID = cmp.Or(dialog.ToolCallID, c.ID)
	switch {
	case !dialog.Asks():
		m.emit(dialog)
	case m.deaf():
		m.cancelInChild(it, asked)
	default:
		it.dialogs = append(it.dialogs, childDialog{ours: dialog.ID, asked: asked})
		m.do(AskUI{Request: dialog})
	}
}

// childAsksApproval asks here what a child asks about a call of its own. The child judges
// the answer, and says when the question is over.
func (m *Machine) childAsksApproval(it *item, ask protocol.ApprovalRequest) {
	if m.deaf() {
		m.cancelInChild(it, ask.ID)
		return
	}
	d := childDialog{ours: m.childDialogID(), asked: ask.ID, approval: &ask}
	ask.ID, ask.Title = d.ours, it.says(ask.Title)
	it.dialogs = append(it.dialogs, d)
	m.do(AskUI{ask.Select(), d.approval})
}

// says is what a child asks, with its name.
func (it *item) says(title string) string { return "[" + it.id + "] " + title }

func (m *Machine) childDialogID() string { return m.newID("child_") }

// childDialog is a dialog that a child has opened, by its id here; nil for none. It is
// valid until another change.
func (m *Machine) childDialog(id string) (of *item, d *childDialog) {
	m.findCall(func(c *call) bool {
		if c.tasks == nil {
			return false
		}
		for _, it := range c.tasks.items {
			if i := slices.IndexFunc(it.dialogs, func(d childDialog) bool { return d.ours == id }); i >= 0 {
				of, d = it, &it.dialogs[i]
				return true
			}
		}
		return false
	})
	return of, d
}

// childAnswered passes the end of a dialog on to the child whose it is.
func (m *Machine) childAnswered(in UIAnswered) {
	it, d := m.childDialog(in.ID)
	if d == nil {
		return
	}
	answer := protocol.ExtensionUIResponse{ID: d.asked, Value: in.Value, Cancelled: in.Cancelled}
	if in.Value == nil && !in.Cancelled {
		answer.Confirmed = &in.Confirmed
	}
	if d.approval == nil {
		it.dialogs = slices.DeleteFunc(it.dialogs, func(d childDialog) bool { return d.ours == in.ID })
	} else if in.Cancelled {
		end := protocol.ApprovalResolved{ID: d.asked, Outcome: approvalCancelled, By: in.By}
		if in.Late {
			end.Outcome = approvalTimeout
		}
		m.childApprovalOver(it, end)
	}
	m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: answer, By: in.By})
}

// approveForChild passes the answer to an approval of a child on, whose reply is that to
// the client; false if it is about none.
func (m *Machine) approveForChild(c Command, cmd protocol.ApprovalResponse) bool {
	it, d := m.childDialog(cmd.ApprovalID)
	if d == nil || d.approval == nil {
		return false
	}
	it.replies = append(it.replies, c.Seq)
	cmd.ApprovalID = d.asked
	m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: cmd, By: c.By, For: c.Seq})
	return true
}

// apply answers a client in the words of a child.
func (in ChildReplied) apply(m *Machine) {
	_, _, it := m.childCall(in.Attempt, in.ID)
	if it == nil || !slices.Contains(it.replies, in.Seq) {
		return // it was answered when the child ended
	}
	it.replies = slices.DeleteFunc(it.replies, func(seq uint64) bool { return seq == in.Seq })
	m.do(Reply{Seq: in.Seq, Err: in.Err, Regardless: in.Err == nil})
}

// childApprovalOver takes the question of a child about a call away.
func (m *Machine) childApprovalOver(it *item, end protocol.ApprovalResolved) {
	i := slices.IndexFunc(it.dialogs, func(d childDialog) bool { return d.approval != nil && d.asked == end.ID })
	if i < 0 {
		return
	}
	d := it.dialogs[i]
	it.dialogs = slices.Delete(it.dialogs, i, i+1)
	end.ID, end.ToolCallID = d.ours, d.approval.ToolCallID
	m.do(CancelUI{ID: d.ours})
	m.emit(end)
}

// childDialogOver takes a dialog of a child away that has ended there: one of its own clients
// has answered it.
func (m *Machine) childDialogOver(it *item, end protocol.DialogResolved) {
	i := slices.IndexFunc(it.dialogs, func(d childDialog) bool { return d.approval == nil && d.asked == end.ID })
	if i < 0 {
		return // it was answered here
	}
	ours := it.dialogs[i].ours
	it.dialogs = slices.Delete(it.dialogs, i, i+1)
	m.do(CancelUI{ID: ours, How: protocol.DialogOver{Outcome: string(end.Outcome), By: end.By}})
}

// cancelInChild ends a dialog of a child without an answer.
func (m *Machine) cancelInChild(it *item, asked string) {
	m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: protocol.ExtensionUIResponse{ID: asked, Cancelled: true}})
}

// cancelChildDialogs closes the dialogs of a child that is over.
func (m *Machine) cancelChildDialogs(it *item) {
	for len(it.dialogs) > 0 {
		d := it.dialogs[0]
		if d.approval != nil {
			m.childApprovalOver(it, protocol.ApprovalResolved{ID: d.asked, Outcome: approvalCancelled})
			continue
		}
		m.do(CancelUI{ID: d.ours})
		it.dialogs = it.dialogs[1:]
	}
	it.dialogs = nil
	for _, seq := range it.replies {
		m.do(Reply{Seq: seq, Err: protocol.CodeDialogOver.Errorf("The dialog is over: %s", approvalCancelled)})
	}
	it.replies = nil
}

// childrenCannotAsk ends the dialogs of children without an answer: nobody is left to
// give one.
func (m *Machine) childrenCannotAsk() {
	m.eachTask(func(it *item) {
		for _, d := range slices.Clone(it.dialogs) {
			m.do(CancelUI{ID: d.ours})
			m.childAnswered(UIAnswered{ID: d.ours, Cancelled: true})
		}
	})
}

// eachTask goes through the tasks of the calls that run.
func (m *Machine) eachTask(do func(*item)) {
	a, ok := m.activity.(*runningTools)
	if !ok {
		return
	}
	for _, c := range a.run.calls {
		if c.tasks == nil {
			continue
		}
		for _, it := range c.tasks.items {
			do(it)
		}
	}
}
