package session

import (
	"encoding/json"
	"slices"
	"strconv"

	"troupe/protocol"
)

// askConsent opens a confirm dialog before a tool call. Nothing of the call
// happens until the client says yes; anything else, silence included, is no.
func (m *Machine) askConsent(c *call) {
	m.dialogs++
	c.dialog = "confirm_" + strconv.Itoa(m.dialogs)
	m.logTools(protocol.ToolOp{Op: "ask", IDs: []string{c.ID}})
	m.enter(PhaseDialog)
	m.do(AskUI{c.dialog, protocol.ExtensionUIRequest{
		ID: c.dialog, Method: "confirm", ToolCallID: c.ID,
		Title:   "Run " + c.Name + "?",
		Message: preview(c.Arguments),
	}})
}

const previewLimit = 2000

func preview(args json.RawMessage) string {
	text := string(args)
	var cmd struct{ Command string }
	if json.Unmarshal(args, &cmd) == nil && cmd.Command != "" {
		text = cmd.Command
	}
	if runes := []rune(text); len(runes) > previewLimit {
		text = string(runes[:previewLimit]) + " …"
	}
	return text
}

func (m *Machine) uiAnswered(in UIAnswered) {
	if m.run == nil {
		return
	}
	for _, c := range m.run.calls {
		if c.dialog != in.ID || c.dialog == "" || c.state != callRunning {
			continue
		}
		c.dialog = ""
		if !m.dialogOpen() {
			m.enter(PhaseTools)
		}
		if in.Confirmed {
			m.logTools(protocol.ToolOp{Op: "start", IDs: []string{c.ID}})
			m.do(StartTool{m.epoch, c.ToolCall})
			return
		}
		m.finishCall(c, errorResult("The user did not allow this tool call."), true)
		m.afterCall()
		return
	}
}

// dialogsLost ends every open dialog without consent: who kept them is gone.
func (m *Machine) dialogsLost() {
	if m.run == nil {
		return
	}
	var lost []string
	for _, c := range m.run.calls {
		if c.dialog != "" {
			lost = append(lost, c.dialog)
		}
	}
	for _, id := range lost {
		m.uiAnswered(UIAnswered{ID: id, Cancelled: true})
	}
}

// deaf says that the client can answer nothing any more.
func (m *Machine) deaf() bool { return m.closing != nil && m.closing.Deaf }

// nobodyAnswers ends what waits for the client: dialogs without consent, calls
// of its tools without a result.
func (m *Machine) nobodyAnswers() {
	if m.run == nil {
		return
	}
	for _, c := range slices.Clone(m.run.calls) {
		switch {
		case c.dialog != "":
			m.do(CancelUI{c.dialog})
			m.uiAnswered(UIAnswered{ID: c.dialog, Cancelled: true})
		case c.host != "":
			m.hostGone(c)
		}
	}
}

func (m *Machine) dialogOpen() bool {
	for _, c := range m.run.calls {
		if c.dialog != "" {
			return true
		}
	}
	return false
}
