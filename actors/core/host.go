package core

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// setHostTools replaces the tools that the client runs itself. They are active
// at once; those it no longer has are gone.
func (m *Machine) setHostTools(c Command, s protocol.SetHostTools) {
	names := []string{}
	for _, t := range s.Tools {
		var why string
		switch {
		case t.Name == "":
			why = "A host tool needs a name"
		case slices.Contains(names, t.Name):
			why = "Duplicate host tool: " + t.Name
		case m.builtIn(t.Name) != nil:
			why = "Host tool " + t.Name + " has the name of a built-in tool"
		case len(t.Parameters) > 0 && !gjson.ParseBytes(t.Parameters).IsObject():
			why = "The parameters of host tool " + t.Name + " must be a JSON Schema object"
		}
		if why != "" {
			m.fail(c, protocol.CodeInvalidParams.Errorf("%s", why))
			return
		}
		names = append(names, t.Name)
	}
	m.dropHostTools()
	m.host = s.Tools
	m.tools = append(m.tools, names...)
	m.done(c, protocol.ToolNames{ToolNames: names})
}

func (m *Machine) dropHostTools() {
	m.tools = slices.DeleteFunc(slices.Clone(m.tools), m.isHosts)
	m.host = nil
}

func (m *Machine) isHosts(name string) bool {
	return slices.ContainsFunc(m.host, func(t protocol.HostTool) bool { return t.Name == name })
}

// HostTools are the tools that the client runs itself.
func (m *Machine) HostTools() []protocol.HostTool { return m.host }

// builtIn describes a tool that is not the client's; nil for one that does not
// exist.
func (m *Machine) builtIn(name string) *protocol.ToolInfo {
	for i := range m.set.KnownTools {
		if t := &m.set.KnownTools[i]; t.Name == name {
			return t
		}
	}
	return nil
}

// apply hands a checked call to the host.
func (in HostReady) apply(m *Machine) {
	r, c := m.callOf(in.Attempt, in.CallID)
	if c == nil {
		return
	}
	if m.deaf() || !m.isHosts(c.Name) {
		m.hostGone(r, c)
		return
	}
	c.host = m.newID("host_")
	m.emit(protocol.HostToolCall{ID: c.host, ToolCallID: c.ID, ToolName: c.Name, Arguments: in.Args})
}

// hostCall is the call that the host has under an id, and its run; nil for none.
func (m *Machine) hostCall(id string) (*run, *call) {
	return m.findCall(func(c *call) bool { return id != "" && c.host == id && c.state == callRunning })
}

// hostUpdate and hostResult come from the host. Those for a call that is over
// are ignored, like late answers to a dialog.
func (m *Machine) hostUpdate(c Command, u protocol.HostToolUpdate) {
	m.do(NoReply{c.Seq})
	if r, call := m.hostCall(u.ID); call != nil {
		m.progressed(r, call, hostContent(u.PartialResult))
	}
}

func (m *Machine) hostResult(c Command, result protocol.HostToolResult) {
	m.do(NoReply{c.Seq})
	if r, call := m.hostCall(result.ID); call != nil {
		m.returned(r, call, hostContent(result.Result), result.IsError)
	}
}

// hostContent reads what a host gives back: {content, details?}, with content a
// text or blocks, or a text alone. Anything else is shown as JSON.
func hostContent(raw json.RawMessage) protocol.ToolResult {
	v := gjson.ParseBytes(raw)
	if v.Type == gjson.String {
		return protocol.ToolResult{Content: protocol.TextContent(v.Str)}
	}
	var r struct {
		Content protocol.Content `json:"content"`
		Details json.RawMessage  `json:"details"`
	}
	if content := v.Get("content"); content.Type == gjson.String {
		r.Content = protocol.TextContent(content.Str)
		if d := v.Get("details"); d.Exists() {
			r.Details = json.RawMessage(d.Raw)
		}
	} else if !content.IsArray() || json.Unmarshal(raw, &r) != nil {
		return protocol.ToolResult{Content: protocol.TextContent(string(raw))}
	}
	return protocol.ToolResult{Content: r.Content, Details: r.Details}
}

// apply ends the calls of a host that is gone, and takes its tools away.
func (HostGone) apply(m *Machine) {
	m.dropHostTools()
	for _, c := range m.callsOut() {
		if c.host != "" {
			m.hostGone(m.activity.inRun(), c)
		}
	}
}

// hostGone ends a call whose result cannot come any more.
func (m *Machine) hostGone(r *run, c *call) {
	text := "The client that runs this tool is gone; it was not called."
	if c.host != "" {
		text = "The client that runs this tool is gone. The call may have had effects; its result is lost."
	}
	m.cancelHost(c)
	m.returned(r, c, errorResult(text), true)
}

// cancelHost tells the host that nobody waits for a call any more.
func (m *Machine) cancelHost(c *call) {
	if c.host == "" {
		return
	}
	m.emit(protocol.HostToolCancel{ID: m.newID("cancel_"), TargetID: c.host})
	c.host = ""
}
