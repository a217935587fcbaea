package session

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/actors/link"
	"troupe/protocol"
)

// TestReopened: a node completes what is not said by what a session was opened with elsewhere; what is its own, or is said
// now, counts more; and what is about a machine is in no log.
func TestReopened(t *testing.T) {
	there := &Shared{Config: Config{Default: link.OpenSpec{SystemPrompt: "of there", Tools: []string{"read"}}}}
	here := &Shared{Config: Config{Default: link.OpenSpec{AppendSystemPrompt: "of here"}}}
	asked := link.OpenSpec{
		SystemPrompt: "X", AppendSystemPrompt: "more", Tools: []string{}, PermissionMode: "ask", Sandbox: "workspace", SandboxNetwork: "off",
		Settings: []byte(`{"httpProxy":"http://me:secret@proxy","auth":{"x":1},"retry":{"maxRetries":7}}`), Retain: true, Name: "n", Cwd: "/a",
	}
	opened := there.opened(asked)
	assert.NotContains(t, string(opened), "secret")
	choices := func(opened json.RawMessage) json.RawMessage {
		text, err := json.Marshal(protocol.ChoicesOp{Opened: opened})
		assert.NoError(t, err)
		return text
	}
	spec := here.Default
	spec.Cwd, spec.FreeTools, spec.WithoutTools = "/b", false, []string{"bash"}
	got := here.reopened(spec, choices(opened))
	assert.Equal(t, link.OpenSpec{
		SystemPrompt: "X", AppendSystemPrompt: "more", Tools: []string{}, PermissionMode: "ask", Sandbox: "workspace", SandboxNetwork: "off",
		Settings: []byte(`{"retry":{"maxRetries":7}}`), Cwd: "/b",
	}, got)
	said := link.OpenSpec{SystemPrompt: "Y", PermissionMode: "readonly", Tools: []string{"grep"}, Settings: []byte(`{}`)}
	got = here.reopened(said, choices(opened))
	assert.Equal(t, []any{"Y", "readonly", []string{"grep"}, "{}", "workspace"}, []any{got.SystemPrompt, got.PermissionMode, got.Tools, string(got.Settings), got.Sandbox})
	assert.Nil(t, there.opened(there.Default), "nothing was asked for")
	for _, nothing := range []json.RawMessage{nil, json.RawMessage(`[]`), choices(nil), choices(json.RawMessage(`7`)), choices(json.RawMessage(`{"settings":{"auth":1}}`))} {
		got := here.reopened(here.Default, nothing)
		got.Settings = nil
		assert.Equal(t, here.Default, got)
	}
}
