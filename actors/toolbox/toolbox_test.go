package toolbox

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/tools"
)

// echo is a tool that gives back its arguments.
type echo struct{}

func (echo) Info() protocol.ToolInfo {
	return protocol.ToolInfo{Name: "echo", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}`)}
}

func (echo) Run(_ context.Context, call tools.Call) (protocol.ToolResult, error) {
	call.Progress(protocol.ToolResult{Content: protocol.TextContent("half")})
	return protocol.ToolResult{Content: protocol.TextContent(string(call.Args))}, nil
}

func box() Box {
	return Own(tools.New(echo{})).With(Host{
		{Name: "open_file", Description: "Opens a file", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		{Name: "any"},
	})
}

func call(name, args string) protocol.ToolCall {
	return protocol.ToolCall{ID: "c", Name: name, Arguments: json.RawMessage(args)}
}

// TestBox: every runner's tools are listed, found, selected and checked alike.
func TestBox(t *testing.T) {
	b := box()
	var names []string
	for _, info := range b.Infos() {
		names = append(names, info.Name)
	}
	assert.Equal(t, []string{"read", "bash", "edit", "write", "grep", "find", "ls", "echo", core.TodoTool, "open_file", "any"}, names)
	for _, name := range names {
		info, ok := b.Lookup(name)
		assert.True(t, ok)
		assert.Equal(t, []protocol.ToolInfo{info}, b.Select([]string{"nope", name}))
		assert.True(t, json.Valid(info.Parameters), name)
	}
	_, ok := b.Lookup("nope")
	assert.False(t, ok)
	require.EqualError(t, b.Check(call("nope", `{}`)), "Tool nope not found")
	for name, args := range map[string]string{"echo": `{}`, core.TodoTool: `{}`, "open_file": `{"path":[]}`, "read": `{`} {
		require.ErrorContains(t, b.Check(call(name, args)), `Validation failed for tool "`+name+`"`)
		_, err := b.Start(call(name, args))
		require.EqualError(t, err, b.Check(call(name, args)).Error())
	}
	assert.Len(t, Own(tools.New()).With(Host{}), 3, "adding a runner leaves the others")
}

// TestBuiltin: a tool of the registry runs in a job, with arguments that fit.
func TestBuiltin(t *testing.T) {
	work, err := box().Start(call("echo", `{"n":"7"}`))
	require.NoError(t, err)
	var shown []string
	result, err := work.(Job)(t.Context(), nil, func(p protocol.ToolResult) { shown = append(shown, p.Content.Text("")) })
	require.NoError(t, err)
	assert.Equal(t, `{"n":7}`, result.Content.Text(""))
	assert.Equal(t, []string{"half"}, shown)
}

// TestHost: the client gets a call with arguments that fit, whatever they are
// where it gave no schema.
func TestHost(t *testing.T) {
	for name, args := range map[string]string{"open_file": `{"path":"x"}`, "any": `{"a":[1,{}]}`} {
		work, err := box().Start(call(name, args))
		require.NoError(t, err)
		assert.JSONEq(t, args, string(work.(ByClient).Args))
	}
}

// TestTodo: a call makes the whole list anew, or says what is wrong with it.
func TestTodo(t *testing.T) {
	for _, c := range []struct{ name, todos, text, list string }{
		{"two", `[{"content":"a","status":"in_progress"},{"id":"x","content":"b","status":"pending"}]`, "",
			`[{"name":"Todos","tasks":[{"id":"","content":"a","status":"in_progress"},{"id":"x","content":"b","status":"pending"}]}]`},
		{"done", `[{"content":"a","status":"completed"}]`, "", `[{"name":"Todos","tasks":[{"id":"","content":"a","status":"completed"}]}]`},
		{"none", `[]`, "", `[]`},
		{"blank", `[{"content":" ","status":"pending"}]`, "Todo item 1 has no content", ""},
		{"status", `[{"content":"a","status":"nonsense"}]`, "", ""},
		{"two at once", `[{"content":"a","status":"in_progress"},{"content":"b","status":"in_progress"}]`, "Only one item can be in_progress.", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			work, err := box().Start(call(core.TodoTool, `{"todos":`+c.todos+`}`))
			if c.list == "" {
				require.ErrorContains(t, err, c.text)
				return
			}
			require.NoError(t, err)
			r := work.(Result)
			list, err := json.Marshal(r.Todos)
			require.NoError(t, err)
			assert.JSONEq(t, c.list, string(list))
			assert.NotNil(t, r.Todos, "an empty list takes the place of the old one, too")
		})
	}
}

// TestActive: who asks for tools gets these; settings may add to the usual set
// and take from it, or name their own; and nobody gets what does not exist.
func TestActive(t *testing.T) {
	b, usual := box(), []string{"read", "bash"}
	assert.Equal(t, []string{"ls", core.TodoTool}, b.Active([]string{"ls", "nope", core.TodoTool, "ls"}, []string{"+find"}, usual))
	assert.Equal(t, []string{}, b.Active([]string{}, []string{"find"}, usual))
	assert.Equal(t, append(slices.Clip(usual), "grep"), b.Active([]string{"+grep"}, []string{"find"}, usual), "the caller changes the usual set")
	assert.Equal(t, []string{"read"}, b.Active([]string{"re*"}, nil, usual))
	assert.Equal(t, []string{"bash"}, b.Active(nil, []string{"-r*"}, usual))
	assert.Equal(t, []string{"read", "bash", "find", "ls"}, b.Active(nil, []string{"+[fl]*"}, usual)[:4])
	for list, refused := range map[string]bool{"nope": true, "no*,Read": true, "nope,ls": false, "re*": false, "+nope": false, "-*": false, "": false} {
		names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
		assert.Equal(t, refused, b.Empty(names) != nil, list)
	}
	assert.True(t, Wanted([]string{"+grep"}, "deploy", true), "tools of extensions are among the usual ones")
	assert.False(t, Wanted([]string{"+grep", "-dep*"}, "deploy", true))
	assert.False(t, Wanted([]string{"grep"}, "deploy", true))
	assert.True(t, Wanted([]string{"dep*"}, "deploy", false))
	assert.Equal(t, usual, b.Active(nil, nil, usual))
	assert.Equal(t, usual, b.Active(nil, nil, append(slices.Clip(usual), "not-here")), "what is usual may not be there")
	assert.Equal(t, []string{"find"}, b.Active(nil, []string{"find", "nope"}, usual))
	assert.Equal(t, []string{"bash", "find"}, b.Active(nil, []string{"+find", "-read"}, usual))
}

// TestMisfits: what a child hands over and does not fit is told from the data on, the first places of it.
func TestMisfits(t *testing.T) {
	submit := Submit{Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"list":{"type":"array","items":{"type":"integer"}}},"required":["n"]}`)}
	for data, want := range map[string]string{
		`{"n":1}`:                          "",
		`{"n":"x"}`:                        "Output does not match schema: /n: must be integer",
		`["x"]`:                            "Output does not match schema: /: must be object",
		`{"n":1,"list":["a","b","c","d"]}`: "Output does not match schema: /list/0: must be integer; /list/1: must be integer; /list/2: must be integer",
	} {
		work, err := submit.Start(call(core.SubmitTool, `{"result":{"data":`+data+`}}`))
		require.NoError(t, err)
		assert.Equal(t, want, work.(Result).Submission.Unfit, data)
	}
}
