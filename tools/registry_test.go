package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/tools/policy"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	r := New()
	assert.Equal(t, []string{"read", "bash", "edit", "write", "grep", "find", "ls"}, r.Names())
	assert.Equal(t, []string{"read", "bash", "edit", "write"}, r.DefaultActive())
	r.DefaultActive()[0] = "changed"
	assert.Equal(t, "read", r.DefaultActive()[0])
	_, ok := r.Lookup("Read")
	assert.False(t, ok, "names are exact")
	for i, info := range r.Infos() {
		tool, ok := r.Lookup(r.Names()[i])
		require.True(t, ok)
		assert.Equal(t, info, tool.Info())
		assert.NotEmpty(t, info.Description)
		assert.NotEmpty(t, info.Snippet)
		assert.NotContains(t, info.Snippet, "\n")
		assert.NotContains(t, info.Description, "##")
		assert.NotEqual(t, '.', info.Snippet[len(info.Snippet)-1])
		for _, g := range info.Guidelines {
			assert.NotEmpty(t, g)
			assert.NotContains(t, g, "\n")
		}
		assert.True(t, json.Valid(info.Parameters))
	}
}

// fixed is a tool that answers with its arguments.
type fixed struct {
	name, schema string
}

func (f fixed) Info() protocol.ToolInfo {
	return protocol.ToolInfo{Name: f.name, Parameters: json.RawMessage(f.schema)}
}

func (f fixed) Run(_ context.Context, call Call) (protocol.ToolResult, error) {
	return protocol.ToolResult{Content: protocol.TextContent(string(call.Args))}, nil
}

func TestRegistryWithMoreTools(t *testing.T) {
	t.Parallel()
	r := New(fixed{"more", `{"type":"object","properties":{"n":{"type":"integer"}}}`}, fixed{"bash", `{}`})
	assert.Equal(t, []string{"read", "bash", "edit", "write", "grep", "find", "ls", "more"}, r.Names())
	res, err := r.Run(t.Context(), "more", Call{Args: json.RawMessage(`{"n":"7"}`)})
	require.NoError(t, err)
	assert.Equal(t, `{"n":7}`, res.Content.Text(""))
	res, err = r.Run(t.Context(), "bash", Call{Args: json.RawMessage(` {"x" : 1}`)})
	require.NoError(t, err)
	assert.Equal(t, ` {"x" : 1}`, res.Content.Text(""), "what fits is not touched")
	assert.Equal(t, fixed{"bash", `{}`}.Info(), r.Infos()[1])
}

func TestRegistryErrors(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	_, _, err := run(t, env, "nope", object{})
	assert.EqualError(t, err, "Tool nope not found")
	_, _, err = run(t, env, "edit", `{"path":1,"edits":[{"oldText":"a"},{"oldText":["x"],"newText":""}],"z":[]}`)
	assert.EqualError(t, err, `Validation failed for tool "edit":
  - edits/0/newText: is required
  - edits/1/oldText: must be string

Received arguments:
{
  "path": 1,
  "edits": [
    {
      "oldText": "a"
    },
    {
      "oldText": [
        "x"
      ],
      "newText": ""
    }
  ],
  "z": []
}`)
	_, _, err = run(t, env, "read", `[]`)
	assert.EqualError(t, err, "Validation failed for tool \"read\":\n  - root: must be object\n\nReceived arguments:\n[]")
	_, _, err = run(t, env, "read", ``)
	assert.EqualError(t, err, "Validation failed for tool \"read\":\n  - path: is required\n\nReceived arguments:\n")
	_, _, err = run(t, env, "read", `{"path":`)
	assert.ErrorContains(t, err, "  - root: arguments are not JSON: ")
	assert.ErrorContains(t, err, "Received arguments:\n{\"path\":")
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"read":  `{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer"},"limit":{"type":"integer"}},"required":["path"]}`,
		"bash":  `{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"number"}},"required":["command"]}`,
		"edit":  `{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"]}}},"required":["path","edits"]}`,
		"write": `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`,
		"grep":  `{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},"glob":{"type":"string"},"ignoreCase":{"type":"boolean"},"literal":{"type":"boolean"},"context":{"type":"integer"},"limit":{"type":"integer"}},"required":["pattern"]}`,
		"find":  `{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},"limit":{"type":"integer"}},"required":["pattern"]}`,
		"ls":    `{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}`,
	}
	for _, info := range New().Infos() {
		schema := unmarshal[map[string]any](t, info.Parameters)
		for _, p := range schema["properties"].(map[string]any) {
			assert.NotEmpty(t, p.(map[string]any)["description"], info.Name)
		}
		dropDescriptions(schema)
		got, err := json.Marshal(schema)
		require.NoError(t, err)
		assert.JSONEq(t, want[info.Name], string(got), info.Name)
		assert.Equal(t, New().Infos(), New().Infos(), "always the same bytes")
	}
	first, _, _ := strings.Cut(string(newRead().Info().Parameters), `"offset"`)
	assert.Contains(t, first, `"path"`, "in the order of the struct")
}

// TestSubjects: what a call of each tool touches is known to permission rules. A tool they
// know nothing of is always asked for, and refused in readonly.
func TestSubjects(t *testing.T) {
	t.Parallel()
	args := map[string]string{
		"bash": `{"command":"true"}`, "read": `{"path":"a"}`, "write": `{"path":"a","content":""}`,
		"edit": `{"path":"a","edits":[{"oldText":"a","newText":"b"}]}`, "grep": `{"pattern":"a"}`, "find": `{"pattern":"a"}`, "ls": `{}`,
	}
	r := New()
	for _, info := range r.Infos() {
		call := r.Subject(info.Name, json.RawMessage(args[info.Name]), &Env{Cwd: t.TempDir()})
		assert.NotEqual(t, policy.Other, call.Kind, info.Name)
		assert.True(t, call.Command != "" || len(call.Paths) > 0, info.Name)
	}
}

func dropDescriptions(schema map[string]any) {
	delete(schema, "description")
	for _, v := range schema {
		if m, ok := v.(map[string]any); ok {
			dropDescriptions(m)
		}
	}
}

func TestSchemaOfUnknownType(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() {
		describe[struct {
			C chan int `json:"c"`
		}]("x", "text", protocol.NoFile)
	})
	assert.Panics(t, func() { describe[struct{}]("x", "text\n## Nonsense\n", protocol.NoFile) })
}
