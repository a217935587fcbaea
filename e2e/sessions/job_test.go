package sessions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestMainJob checks a complete run with each API: the model calls tools on real files and
// processes and then answers. The whole run is written to the session file.
func TestMainJob(t *testing.T) {
	for _, model := range []string{"mock/mock-1", "compat/chat-1", "resp/resp-1", "gem/gem-1"} {
		t.Run(strings.ReplaceAll(model, "/", "-"), func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteFile("notes.txt", "alpha\nbeta\n")
			p.Model.Enqueue(
				harness.Text("I will ", "look.").Then(harness.ToolCall("c1", "read", `{"path":"notes.txt"}`)),
				harness.ToolCall("c2", "edit", `{"path":"notes.txt","oldText":"beta","newText":"gamma"}`).Then(harness.ToolCall("c3", "write", `{"path":"sub/new.txt","content":"made"}`)),
				harness.ToolCall("c4", "bash", `{"command":"cat notes.txt; echo to-stderr >&2; exit 3"}`).Then(harness.ToolCall("c5", "grep", `{"pattern":"gamma","path":"."}`)),
				harness.ToolCall("c6", "find", `{"pattern":"*.txt","path":"."}`).Then(harness.ToolCall("c7", "ls", `{"path":"."}`)),
				harness.Text("All done."),
			)
			d := p.StartRaw("--mode", "rpc", "--model", model, "--tools", "read,bash,edit,write,grep,find,ls")
			events := d.Prompt("do it")
			results := map[string]gjson.Result{}
			for _, e := range events {
				if e.Get("type").Str == "tool_execution_end" {
					results[fmt.Sprintf("c%d", len(results)+1)] = e // google has no ids of its own
				}
			}
			text := func(id string) string { return results[id].Get("result.content.0.text").Str }
			require.Len(t, results, 7)
			assert.Contains(t, text("c1"), "alpha\nbeta")
			assert.False(t, results["c2"].Get("isError").Bool(), results["c2"].Raw)
			assert.Contains(t, text("c4"), "alpha\ngamma")
			assert.Contains(t, text("c4"), "to-stderr")
			assert.True(t, results["c4"].Get("isError").Bool())
			assert.Contains(t, text("c5"), "notes.txt")
			assert.Contains(t, text("c6"), "sub/new.txt")
			assert.Contains(t, text("c7"), "sub/")
			made, err := os.ReadFile(filepath.Join(p.Work, "sub", "new.txt"))
			require.NoError(t, err)
			assert.Equal(t, "made", string(made))
			assert.Equal(t, "agent_settled", events[len(events)-1].Get("type").Str)
			assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
			assert.Equal(t, 5, p.Model.RequestCount())
			assert.Contains(t, p.Model.Request(1).Body, `alpha\nbeta`)

			_, entries := d.SessionFile()
			var roles []string
			for _, e := range entries {
				if r := e.Get("message.role"); r.Exists() {
					roles = append(roles, r.Str)
				}
			}
			assert.Equal(t, strings.Fields("user assistant toolResult assistant toolResult toolResult assistant toolResult toolResult assistant toolResult toolResult assistant"), roles)
			assert.Equal(t, "All done.", d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
			assert.Equal(t, 0, d.Close())
		})
	}
}

// TestPersistThenAnnounce checks that an entry is in the session file before an event reveals it.
func TestPersistThenAnnounce(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo hi"}`), harness.Gate("later").Then(harness.Text("end")))
	d := p.Start()
	d.OK(`{"type":"prompt","message":"go"}`)
	end := d.Event("tool_execution_end")
	require.Equal(t, "c1", end.Get("toolCallId").Str)
	p.Model.Request(1)
	path, entries := d.SessionFile()
	last := entries[len(entries)-1]
	assert.Equal(t, "toolResult", last.Get("message.role").Str, "the next request is out, so the result is in the file")
	d.Cmd.Process.Kill()
	d.WaitExit()
	assert.Equal(t, len(entries), len(harness.ReadEntries(t, path)))

	again := p.Start("--session", path)
	messages := again.OK(`{"type":"get_messages"}`).Get("messages").Array()
	assert.Equal(t, "go", messages[0].Get("content.0.text").Str)
	p.Model.Enqueue(harness.Text("back"))
	again.Prompt("still there?")
	body := p.Model.Request(2).Body
	assert.Contains(t, body, "hi")
	assert.Contains(t, body, "still there?")
}

// TestPiSamples checks that session files written by pi can be opened and continued.
func TestPiSamples(t *testing.T) {
	for _, name := range []string{"session-basic", "session-compaction", "session-fork", "session-tree", "session-retry-and-overflow", "session-v1-input", "session-v1-after-load"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			raw, err := os.ReadFile(filepath.Join("testdata", "samples", name+".jsonl"))
			require.NoError(t, err)
			first, rest, _ := strings.Cut(string(raw), "\n")
			cwd := gjson.Get(first, "cwd").Raw
			if cwd != "" {
				first = strings.Replace(first, cwd, `"`+p.Work+`"`, 1)
			}
			path := filepath.Join(p.Root, name+".jsonl")
			p.WriteFile(path, first+"\n"+rest)
			before := strings.Count(rest, "\n")
			d := p.Start("--session", path)
			st := d.OK(`{"type":"get_state"}`)
			assert.Equal(t, path, st.Get("sessionFile").Str)
			assert.NotZero(t, d.OK(`{"type":"get_messages"}`).Get("messages.#").Int())
			p.Model.Enqueue(harness.Text("continued"))
			events := d.Prompt("go on")
			assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str, "%v", harness.Kinds(events))
			entries := harness.ReadEntries(t, path)
			assert.GreaterOrEqual(t, len(entries)-1, before+2)
			last := entries[len(entries)-1]
			assert.Equal(t, "continued", last.Get("message.content.0.text").Str)
			ids := map[string]bool{}
			for _, e := range entries[1:] {
				if parent := e.Get("parentId"); parent.Exists() && parent.Str != "" {
					assert.True(t, ids[parent.Str], "parent %s of %s", parent.Str, e.Get("id").Str)
				}
				ids[e.Get("id").Str] = true
			}
		})
	}
}

// TestModelGone checks a session whose model is no longer configured. It keeps the model and fails
// with model_not_found, and no other model is used. It works again once the model is back or
// another one is selected.
func TestModelGone(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"))
	d := p.StartRaw("--mode", "rpc", "--provider", "mock", "--model", "mock-1")
	d.Prompt("one")
	path, _ := d.SessionFile()
	require.Zero(t, d.Close())
	p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), strings.ReplaceAll(p.Model.ModelsJSON(), "mock-1", "mock-2"))
	d = p.StartRaw("--mode", "rpc", "--session", path)
	assert.Equal(t, "mock-1", d.OK(`{"type":"get_state"}`).Get("model.id").Str)
	for _, command := range []string{`{"type":"prompt","message":"x"}`, `{"type":"steer","message":"x"}`, `{"type":"compact"}`, `{"type":"set_model","provider":"mock","modelId":"mock-1"}`} {
		r := d.Call(command)
		assert.Equal(t, "model_not_found", r.Get("code").Str, command)
	}
	asked := p.Model.RequestCount()
	p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), p.Model.ModelsJSON())
	p.Model.Enqueue(harness.Text("two"))
	d.Prompt("two")
	assert.Equal(t, asked+1, p.Model.RequestCount())
	assert.NotEmpty(t, d.OK(`{"type":"get_state"}`).Get("model.api").Str)
	require.Zero(t, d.Close())
	assert.Contains(t, d.Stderr(), `"model":"mock/mock-1"`)

	p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), strings.ReplaceAll(p.Model.ModelsJSON(), "mock-1", "mock-2"))
	d = p.StartRaw("--mode", "rpc", "--session", path, "--model", "mock/mock-2")
	assert.Equal(t, "mock-2", d.OK(`{"type":"get_state"}`).Get("model.id").Str, "whoever asks for another gets it")
	require.Zero(t, d.Close())
	d = p.StartRaw("--mode", "rpc", "--session", path)
	assert.Equal(t, "mock/mock-2", d.OK(`{"type":"set_model","provider":"mock","modelId":"mock-2"}`).Get("provider").Str+"/"+d.OK(`{"type":"get_state"}`).Get("model.id").Str)
}

// TestModelFallback checks that in pi1, as in pi 1.6, a session continues with the default model
// when its own is gone, and that stderr names both. With a broken models.json it waits.
func TestModelFallback(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"))
	d := p.StartRaw("--mode", "rpc", "--provider", "mock", "--model", "mock-1")
	d.Prompt("one")
	path, _ := d.SessionFile()
	require.Zero(t, d.Close())
	file := filepath.Join(p.AgentDir(), "models.json")
	for text, want := range map[string]string{strings.ReplaceAll(p.Model.ModelsJSON(), "mock-1", "mock-2"): "mock-2", `{"providers": {`: "mock-1"} {
		p.WriteFile(file, text)
		d = p.StartRaw("--mode", "rpc", "--dialect", "pi1", "--session", path)
		assert.Equal(t, want, d.OK(`{"type":"get_state"}`).Get("model.id").Str)
		require.Zero(t, d.Close())
		assert.Contains(t, d.Stderr(), `"model":"mock/mock-1"`)
		assert.Equal(t, want == "mock-2", strings.Contains(d.Stderr(), `"using":"mock/mock-2"`), d.Stderr())
	}
}

// TestModelsBroken checks that a truncated, empty or missing models.json does not switch a session
// to another provider.
func TestModelsBroken(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(string){
		"half":  func(path string) { require.NoError(t, os.Truncate(path, 40)) },
		"empty": func(path string) { require.NoError(t, os.Truncate(path, 0)) },
		"gone":  func(path string) { require.NoError(t, os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.Env = append(p.Env, "OPENAI_API_KEY=sk-somebody-else")
			p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"defaultProvider":"mock","defaultModel":"mock-1"}`)
			models := filepath.Join(p.AgentDir(), "models.json")
			p.Model.Enqueue(harness.Text("one"), harness.Text("two"), harness.Text("three"))
			d := p.StartRaw("--mode", "rpc")
			d.Prompt("one")
			path, _ := d.SessionFile()
			damage(models)
			d.Prompt("two")
			h := d.OpenSession("")
			assert.Equal(t, "mock-1", d.OK(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h)).Get("model.id").Str)
			require.Zero(t, d.Close())

			d = p.StartRaw("--mode", "rpc", "--session", path) // where nothing good was read before
			assert.Equal(t, "mock", d.OK(`{"type":"get_state"}`).Get("model.provider").Str)
			assert.Equal(t, "model_not_found", d.Call(`{"type":"prompt","message":"x"}`).Get("code").Str)
			if name != "gone" { // without any file nothing is known to be broken
				h = d.OpenSession("")
				assert.Equal(t, "mock", d.OK(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h)).Get("model.provider").Str)
			}
			p.WriteFile(models, p.Model.ModelsJSON())
			d.Prompt("three")
			require.Zero(t, d.Close())
			assert.Equal(t, 3, p.Model.RequestCount())
		})
	}
}
