package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

func kinds(events []gjson.Result) []string {
	var list []string
	for _, e := range events {
		list = append(list, e.Get("type").Str)
	}
	return list
}

// sessionFile reads the session file that get_state names.
func (d *daemon) sessionFile() (path string, entries []gjson.Result) {
	d.t.Helper()
	path = d.ok(`{"type":"get_state"}`).Get("sessionFile").Str
	return path, readEntries(d.t, path)
}

func readEntries(t *testing.T, path string) (entries []gjson.Result) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(raw), "\n"), "the file ends in the middle of a line")
	for _, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		require.True(t, gjson.Valid(line), line)
		entries = append(entries, gjson.Parse(line))
	}
	return entries
}

// TestMainJob: a model thinks, calls the tools on real files and processes, and
// answers; all of it is in the file. Over both wires.
func TestMainJob(t *testing.T) {
	for _, model := range []string{"mock/mock-1", "compat/chat-1", "resp/resp-1", "gem/gem-1"} {
		t.Run(strings.ReplaceAll(model, "/", "-"), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write("notes.txt", "alpha\nbeta\n")
			p.llm.plays(
				text("I will ", "look.").and(tool("c1", "read", `{"path":"notes.txt"}`)),
				tool("c2", "edit", `{"path":"notes.txt","oldText":"beta","newText":"gamma"}`).and(tool("c3", "write", `{"path":"sub/new.txt","content":"made"}`)),
				tool("c4", "bash", `{"command":"cat notes.txt; echo to-stderr >&2; exit 3"}`).and(tool("c5", "grep", `{"pattern":"gamma","path":"."}`)),
				tool("c6", "find", `{"pattern":"*.txt","path":"."}`).and(tool("c7", "ls", `{"path":"."}`)),
				text("All done."),
			)
			d := p.startRaw("--mode", "rpc", "--model", model, "--tools", "read,bash,edit,write,grep,find,ls")
			events := d.prompt("do it")
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
			made, err := os.ReadFile(filepath.Join(p.work, "sub", "new.txt"))
			require.NoError(t, err)
			assert.Equal(t, "made", string(made))
			assert.Equal(t, "agent_settled", events[len(events)-1].Get("type").Str)
			assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
			assert.Equal(t, 5, p.llm.count())
			assert.Contains(t, p.llm.request(1).body, `alpha\nbeta`)

			_, entries := d.sessionFile()
			var roles []string
			for _, e := range entries {
				if r := e.Get("message.role"); r.Exists() {
					roles = append(roles, r.Str)
				}
			}
			assert.Equal(t, strings.Fields("user assistant toolResult assistant toolResult toolResult assistant toolResult toolResult assistant toolResult toolResult assistant"), roles)
			assert.Equal(t, "All done.", d.ok(`{"type":"get_last_assistant_text"}`).Get("text").Str)
			assert.Equal(t, 0, d.end())
		})
	}
}

// TestPersistThenAnnounce: whatever an event reveals is already in the file.
func TestPersistThenAnnounce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(tool("c1", "bash", `{"command":"echo hi"}`), gate("later").and(text("end")))
	d := p.start()
	d.ok(`{"type":"prompt","message":"go"}`)
	end := d.event("tool_execution_end")
	require.Equal(t, "c1", end.Get("toolCallId").Str)
	p.llm.request(1)
	path, entries := d.sessionFile()
	last := entries[len(entries)-1]
	assert.Equal(t, "toolResult", last.Get("message.role").Str, "the next request is out, so the result is in the file")
	d.cmd.Process.Kill()
	d.exit()
	assert.Equal(t, len(entries), len(readEntries(t, path)))

	again := p.start("--session", path)
	messages := again.ok(`{"type":"get_messages"}`).Get("messages").Array()
	assert.Equal(t, "go", messages[0].Get("content.0.text").Str)
	p.llm.plays(text("back"))
	again.prompt("still there?")
	body := p.llm.request(2).body
	assert.Contains(t, body, "hi")
	assert.Contains(t, body, "still there?")
}

// TestPiReadsSamples: files that pi wrote are opened, answered from and continued.
func TestPiSamples(t *testing.T) {
	for _, name := range []string{"session-basic", "session-compaction", "session-fork", "session-tree", "session-retry-and-overflow", "session-v1-input", "session-v1-after-load"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			raw, err := os.ReadFile(filepath.Join("testdata", "samples", name+".jsonl"))
			require.NoError(t, err)
			first, rest, _ := strings.Cut(string(raw), "\n")
			cwd := gjson.Get(first, "cwd").Raw
			if cwd != "" {
				first = strings.Replace(first, cwd, `"`+p.work+`"`, 1)
			}
			path := filepath.Join(p.root, name+".jsonl")
			p.write(path, first+"\n"+rest)
			before := strings.Count(rest, "\n")
			d := p.start("--session", path)
			st := d.ok(`{"type":"get_state"}`)
			assert.Equal(t, path, st.Get("sessionFile").Str)
			assert.NotZero(t, d.ok(`{"type":"get_messages"}`).Get("messages.#").Int())
			p.llm.plays(text("continued"))
			events := d.prompt("go on")
			assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str, "%v", kinds(events))
			entries := readEntries(t, path)
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

// TestModelGone: a session whose model is not configured any more keeps it, says
// so, and asks nobody else, until it is there again or another one is chosen.
func TestModelGone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one"))
	d := p.startRaw("--mode", "rpc", "--provider", "mock", "--model", "mock-1")
	d.prompt("one")
	path, _ := d.sessionFile()
	require.Zero(t, d.end())
	p.write(filepath.Join(p.agent(), "models.json"), strings.ReplaceAll(p.llm.modelsJSON(), "mock-1", "mock-2"))
	d = p.startRaw("--mode", "rpc", "--session", path)
	assert.Equal(t, "mock-1", d.ok(`{"type":"get_state"}`).Get("model.id").Str)
	for _, command := range []string{`{"type":"prompt","message":"x"}`, `{"type":"steer","message":"x"}`, `{"type":"compact"}`, `{"type":"set_model","provider":"mock","modelId":"mock-1"}`} {
		r := d.call(command)
		assert.Equal(t, "model_not_found", r.Get("code").Str, command)
	}
	asked := p.llm.count()
	p.write(filepath.Join(p.agent(), "models.json"), p.llm.modelsJSON())
	p.llm.plays(text("two"))
	d.prompt("two")
	assert.Equal(t, asked+1, p.llm.count())
	assert.NotEmpty(t, d.ok(`{"type":"get_state"}`).Get("model.api").Str)
	require.Zero(t, d.end())
	assert.Contains(t, d.errors(), `"model":"mock/mock-1"`)

	p.write(filepath.Join(p.agent(), "models.json"), strings.ReplaceAll(p.llm.modelsJSON(), "mock-1", "mock-2"))
	d = p.startRaw("--mode", "rpc", "--session", path, "--model", "mock/mock-2")
	assert.Equal(t, "mock-2", d.ok(`{"type":"get_state"}`).Get("model.id").Str, "whoever asks for another gets it")
	require.Zero(t, d.end())
	d = p.startRaw("--mode", "rpc", "--session", path)
	assert.Equal(t, "mock/mock-2", d.ok(`{"type":"set_model","provider":"mock","modelId":"mock-2"}`).Get("provider").Str+"/"+d.ok(`{"type":"get_state"}`).Get("model.id").Str)
}

// TestModelsBroken: models.json is half written, empty or missing for a moment,
// and no conversation moves to another provider because of it.
func TestModelsBroken(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(string){
		"half":  func(path string) { require.NoError(t, os.Truncate(path, 40)) },
		"empty": func(path string) { require.NoError(t, os.Truncate(path, 0)) },
		"gone":  func(path string) { require.NoError(t, os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.env = append(p.env, "OPENAI_API_KEY=sk-somebody-else")
			p.write(filepath.Join(p.agent(), "settings.json"), `{"defaultProvider":"mock","defaultModel":"mock-1"}`)
			models := filepath.Join(p.agent(), "models.json")
			p.llm.plays(text("one"), text("two"), text("three"))
			d := p.startRaw("--mode", "rpc")
			d.prompt("one")
			path, _ := d.sessionFile()
			damage(models)
			d.prompt("two")
			h := d.open("")
			assert.Equal(t, "mock-1", d.ok(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h)).Get("model.id").Str)
			require.Zero(t, d.end())

			d = p.startRaw("--mode", "rpc", "--session", path) // where nothing good was read before
			assert.Equal(t, "mock", d.ok(`{"type":"get_state"}`).Get("model.provider").Str)
			assert.Equal(t, "model_not_found", d.call(`{"type":"prompt","message":"x"}`).Get("code").Str)
			if name != "gone" { // without any file nothing is known to be broken
				h = d.open("")
				assert.Equal(t, "mock", d.ok(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h)).Get("model.provider").Str)
			}
			p.write(models, p.llm.modelsJSON())
			d.prompt("three")
			require.Zero(t, d.end())
			assert.Equal(t, 3, p.llm.count())
		})
	}
}
