package core

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"troupe/protocol"
)

// askConsent opens a confirm dialog before a tool call. Nothing of the call
// happens until the client says yes; anything else, silence included, is no.
func (m *Machine) askConsent(c *call) {
	c.dialog = m.dialogID("confirm_", c)
	m.logTools(protocol.ToolOp{Op: "ask", IDs: []string{c.ID}, Dialog: c.dialog})
	m.do(AskUI{Request: protocol.ExtensionUIRequest{
		ID: c.dialog, Method: "confirm", ToolCallID: c.ID,
		Title:   new("Run " + c.Name + "?"),
		Message: new(preview(c.Arguments, m.ownChecks(c)...)),
	}})
}

// dialogID is the id of a dialog about a call: a new one, or that under which an earlier
// life has asked the same.
func (m *Machine) dialogID(kind string, c *call) string {
	old := c.again
	if c.again = ""; strings.HasPrefix(old, kind) {
		return old
	}
	return m.newID(kind)
}

// newID is a new id of something that clients are to answer. It begins with its kind.
func (m *Machine) newID(kind string) string {
	m.dialogs++
	return kind + m.life + strconv.Itoa(m.dialogs)
}

const previewLimit = 2000

// preview is what a person is shown of a call: the commands that it runs, or its arguments.
func preview(args json.RawMessage, checks ...string) string {
	text := string(args)
	if len(checks) > 0 {
		text = "verified by: " + strings.Join(checks, "\n") + "\n" + text
	}
	var cmd struct{ Command string }
	if json.Unmarshal(args, &cmd) == nil && cmd.Command != "" {
		text = cmd.Command
	}
	if runes := []rune(text); len(runes) > previewLimit {
		text = string(runes[:previewLimit]) + " …"
	}
	return text
}

func (in UIAnswered) apply(m *Machine) {
	r, c := m.findCall(func(c *call) bool { return in.ID != "" && c.dialog == in.ID })
	if c == nil {
		m.childAnswered(in)
		return
	}
	if c.approval != nil {
		m.approvalAnswered(r, c, in)
		return
	}
	c.dialog = ""
	if in.Confirmed {
		m.runAllowed(r, c)
		return
	}
	m.settleCall(r, c, errorResult("The user did not allow this tool call."), true)
}

// dialogsLost ends every open dialog without consent: the broker that kept them is gone.
func (m *Machine) dialogsLost() {
	m.childrenCannotAsk()
	for _, c := range m.callsOut() {
		if c.dialog != "" {
			UIAnswered{ID: c.dialog, Cancelled: true}.apply(m)
		}
	}
}

// deaf says that the client can answer nothing any more.
func (m *Machine) deaf() bool { return m.closing != nil && m.closing.Deaf }

// askedLater says of a call that another process may ask about it, for this one ends.
func (m *Machine) askedLater(c *call) bool {
	return m.closing != nil && m.closing.GoesOn && m.set.Retained && m.set.Child == nil && c.inner == nil
}

// onlyAsks says whether nothing of the run goes on but questions about calls, none of which has
// begun, and another process asks them again: see [onlyAsked].
func (m *Machine) onlyAsks() bool {
	a, ok := m.activity.(*runningTools)
	if !ok || len(a.run.inner) > 0 {
		return false
	}
	asks := false
	for _, c := range a.run.calls {
		switch {
		case c.dialog != "" && m.askedLater(c):
			asks = true
		case c.state == callRunning, a.run.parallel: // it runs, or is neither in the log nor to be run again
			return false
		}
	}
	return asks
}

// leaveAsked ends the life of a machine that is to close where nothing but questions is left and
// nobody can answer in time. Nothing is written or told: nobody has said no.
func (m *Machine) leaveAsked() {
	if m.closing != nil && (m.closing.Abort || m.closing.Deaf) && m.onlyAsks() {
		m.release()
		m.enter(idle{})
	}
}

// nobodyAnswers ends what waits for the client: dialogs without consent, calls
// of its tools without a result.
func (m *Machine) nobodyAnswers() {
	m.childrenCannotAsk()
	for _, c := range m.callsOut() {
		switch {
		case m.askedLater(c) && c.host == "":
		case c.dialog != "":
			m.do(CancelUI{ID: c.dialog})
			UIAnswered{ID: c.dialog, Cancelled: true}.apply(m)
		case c.host != "":
			m.hostGone(m.activity.inRun(), c)
		}
	}
}

// callsOut are the calls that wait for the client: for its consent, or for the
// result of its tool. Ending one may begin another.
func (m *Machine) callsOut() (list []*call) {
	if a, ok := m.activity.(*runningTools); ok {
		for _, c := range slices.Concat(a.run.calls, a.run.inner) {
			if c.dialog != "" || c.host != "" {
				list = append(list, c)
			}
		}
	}
	return list
}
