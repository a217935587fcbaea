package session

import (
	"cmp"
	"encoding/json"
	"slices"

	"troupe/actors/link"
	"troupe/protocol"
)

// openedWith is what a session was opened with, as far as it is not so by itself where it is opened again without that: on
// another node, whose own defaults stay its own. See [protocol.ChoicesOp].
type openedWith struct {
	Tools              []string        `json:"tools,omitzero"` // may be empty
	SystemPrompt       string          `json:"systemPrompt,omitempty"`
	AppendSystemPrompt string          `json:"appendSystemPrompt,omitempty"`
	PermissionMode     string          `json:"permissionMode,omitempty"`
	Sandbox            string          `json:"sandbox,omitempty"`
	SandboxNetwork     string          `json:"sandboxNetwork,omitempty"`
	Settings           json.RawMessage `json:"settings,omitempty"`
}

// ofNode are members of settings that are about a machine or may hold its secrets: no log of a cluster has them.
var ofNode = []string{"httpProxy", "auth", "sessionDir", "shellPath"}

// opened is what the log of a cluster is to say of how a session was opened; nil for nothing.
func (h *Shared) opened(spec link.OpenSpec) json.RawMessage {
	usual := h.Default
	o := openedWith{
		SystemPrompt: other(spec.SystemPrompt, usual.SystemPrompt), AppendSystemPrompt: other(spec.AppendSystemPrompt, usual.AppendSystemPrompt),
		PermissionMode: spec.PermissionMode, Sandbox: spec.Sandbox, SandboxNetwork: spec.SandboxNetwork, Settings: withoutNodes(spec.Settings),
	}
	if !usualTools(spec, usual) {
		o.Tools = spec.Tools
	}
	text, err := json.Marshal(o)
	if err != nil || string(text) == "{}" {
		return nil
	}
	return text
}

// reopened is how a session is opened that was opened before, with what is not said otherwise as it was then.
func (h *Shared) reopened(spec link.OpenSpec, choices json.RawMessage) link.OpenSpec {
	var op protocol.ChoicesOp
	var o openedWith
	if json.Unmarshal(choices, &op) != nil || json.Unmarshal(op.Opened, &o) != nil {
		return spec
	}
	usual := h.Default
	spec.SystemPrompt = cmp.Or(other(spec.SystemPrompt, usual.SystemPrompt), o.SystemPrompt, spec.SystemPrompt)
	spec.AppendSystemPrompt = cmp.Or(other(spec.AppendSystemPrompt, usual.AppendSystemPrompt), o.AppendSystemPrompt, spec.AppendSystemPrompt)
	spec.PermissionMode = cmp.Or(spec.PermissionMode, o.PermissionMode)
	spec.Sandbox, spec.SandboxNetwork = cmp.Or(spec.Sandbox, o.Sandbox), cmp.Or(spec.SandboxNetwork, o.SandboxNetwork)
	if spec.Settings == nil {
		spec.Settings = o.Settings
	}
	if o.Tools != nil && usualTools(spec, usual) {
		spec.Tools, spec.FreeTools, spec.WithoutTools = o.Tools, false, nil
	}
	return spec
}

// usualTools says whether nobody has said which tools a session is to have.
func usualTools(spec, usual link.OpenSpec) bool {
	return (spec.Tools == nil) == (usual.Tools == nil) && slices.Equal(spec.Tools, usual.Tools) && spec.FreeTools == usual.FreeTools
}

// other is what is not usual, "" if it is.
func other(is, usual string) string {
	if is == usual {
		return ""
	}
	return is
}

// withoutNodes leaves out of settings what is a node's own.
func withoutNodes(settings []byte) json.RawMessage {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(settings, &members) != nil {
		return nil
	}
	for _, name := range ofNode {
		delete(members, name)
	}
	if len(members) == 0 {
		return nil
	}
	text, _ := json.Marshal(members)
	return text
}
