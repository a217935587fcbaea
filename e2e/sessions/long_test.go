package sessions

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestLongSession checks that all commands that read a session work for a session whose tree is
// deeper than most JSON parsers can nest.
func TestLongSession(t *testing.T) {
	t.Parallel()
	const n = 12_000
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("done"))
	p.Model.SetSummary("the summary")
	file := filepath.Join(p.Root, "long.jsonl")
	p.WriteFile(file, harness.LongSession(p.Work, n))
	d := p.Start("--session", file)
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
		{`{"type":"list_sessions","sessionDir":"` + p.Root + `"}`, "sessions", 1},
		{`{"type":"export_html","outputPath":"` + filepath.Join(p.Root, "out.html") + `"}`, "", 0},
		{`{"type":"set_entry_label","targetId":"00000000","label":"first"}`, "", 0},
	} {
		data := d.OK(c.command)
		if c.list != "" {
			assert.Equal(t, c.count, data.Get(c.list+".#").Int(), c.command)
		}
	}
	d.OK(`{"type":"new_session"}`) // a file has one owner
	trees := p.Start("--no-session")
	trees.Foreign = true // encoding/json, with which the schema is checked, does not nest so deep
	trees.OK(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	for _, command := range []string{"get_tree", "get_session_tree"} {
		raw := trees.OK(`{"type":"` + command + `"}`).Raw
		assert.Equal(t, n+1, strings.Count(raw, `"children":[`), command)
		assert.Contains(t, raw, `"label":"first"`)
	}
	assert.Equal(t, 0, trees.Close())
	d.OK(`{"type":"switch_session","sessionPath":"` + file + `"}`)
	d.Prompt("go on")
	fork := d.OK(`{"type":"get_fork_messages"}`).Get("messages.100.entryId").Str
	require.NotEmpty(t, fork)
	assert.False(t, d.OK(`{"type":"fork","entryId":"`+fork+`"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(200), d.OK(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.False(t, d.OK(`{"type":"switch_session","sessionPath":"`+file+`"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(n+2), d.OK(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.False(t, d.OK(`{"type":"navigate_tree","targetId":"`+fork+`"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(200), d.OK(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.False(t, d.OK(`{"type":"clone"}`).Get("cancelled").Bool())
	assert.Equal(t, int64(200), d.OK(`{"type":"get_messages"}`).Get("messages.#").Int())
	assert.Equal(t, 0, d.Close())
}
