package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLongSession: every command that looks at a session answers for one that is
// longer, and so deeper as a tree, than most JSON parsers nest.
func TestLongSession(t *testing.T) {
	t.Parallel()
	const n = 12_000
	p := newPlace(t)
	p.llm.plays(text("done"))
	p.llm.summarises("the summary")
	file := filepath.Join(p.root, "long.jsonl")
	p.write(file, longSession(p.work, n))
	d := p.start("--session", file)
	for _, c := range []struct {
		command string
		list    string
		count   int64
	}{
		{`{"type":"get_messages"}`, "messages", n},
		{`{"type":"get_entries"}`, "entries", n},
		{`{"type":"get_fork_messages"}`, "messages", n / 2},
		{`{"type":"get_session_stats"}`, "", 0},
		{`{"type":"get_context_usage"}`, "", 0},
		{`{"type":"get_last_assistant_text"}`, "", 0},
		{`{"type":"get_state"}`, "", 0},
		{`{"type":"list_sessions","sessionDir":"` + p.root + `"}`, "sessions", 1},
		{`{"type":"export_html","outputPath":"` + filepath.Join(p.root, "out.html") + `"}`, "", 0},
		{`{"type":"set_entry_label","targetId":"00000000","label":"first"}`, "", 0},
	} {
		data := d.ok(c.command)
		if c.list != "" {
			assert.Equal(t, c.count, data.Get(c.list+".#").Int(), c.command)
		}
	}
	d.ok(`{"type":"new_session"}`) // a file has one owner
	trees := p.start("--no-session")
	trees.foreign = true // encoding/json, with which the schema is checked, does not nest so deep
	trees.ok(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	for _, command := range []string{"get_tree", "get_session_tree"} {
		raw := trees.ok(`{"type":"` + command + `"}`).Raw
		assert.Equal(t, n+1, strings.Count(raw, `"children":[`), command)
		assert.Contains(t, raw, `"label":"first"`)
	}
	assert.Equal(t, 0, trees.end())
	d.ok(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	d.prompt("go on")
	fork := d.ok(`{"type":"get_fork_messages"}`).Get("messages.100.entryId").Str
	require.NotEmpty(t, fork)
	assert.False(t, d.ok(`{"type":"fork","entryId":"`+fork+`"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(200), d.ok(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.False(t, d.ok(`{"type":"switch_session","sessionPath":"`+file+`"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(n+2), d.ok(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.False(t, d.ok(`{"type":"navigate_tree","targetId":"`+fork+`"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(200), d.ok(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.False(t, d.ok(`{"type":"clone"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(200), d.ok(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.Equal(t, 0, d.end())
}

// longSession is the text of a session file with so many messages, each the
// child of the one before it.
func longSession(cwd string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"session","version":3,"id":"01234567-89ab-7def-8123-456789abcdef","timestamp":"2026-01-01T00:00:00.000Z","cwd":%q}`+"\n", cwd)
	parent := "null"
	for i := range n {
		message := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"question %d"}],"timestamp":%d}`, i, i)
		if i%2 == 1 {
			message = fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"answer %d"}],"api":"a","provider":"mock","model":"mock-1",`+
				`"usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},`+
				`"stopReason":"stop","timestamp":%d}`, i, i)
		}
		fmt.Fprintf(&b, `{"type":"message","id":"%08x","parentId":%s,"timestamp":"2026-01-01T00:00:00.000Z","message":%s}`+"\n", i, parent, message)
		parent = fmt.Sprintf(`"%08x"`, i)
	}
	return b.String()
}
