package actors

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
)

// questions are the ids by which a client is asked something in a session, each once.
func (n *node) questions(session, event string) (ids []string) {
	for _, e := range n.Events(session, event) {
		if id := e.Get("id").Str; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// gated gives a session an extension that asks about every call.
func gated(t *testing.T) func(*Config) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	return func(c *Config) {
		c.Sessions.ExtensionHost, c.Sessions.Extensions.Sources = actortest.GateHost{}, []string{found}
	}
}

// TestQuestionsOverNodes: what is asked where a session goes on never has the id of what was asked before: an answer that comes too
// late must not be one to another question.
func TestQuestionsOverNodes(t *testing.T) {
	const hostTool = "host_tool_call"
	gate := gated(t)
	for _, by := range []struct {
		name, tool, event string
		open, again       bool // when the node is lost; and what was open is asked again, under its id
		change            func(*Config)
	}{
		{"extension", "danger", "extension_ui_request", true, false, gate},
		{"consent", "danger", "extension_ui_request", true, true, confirm},
		{"consent, answered", "danger", "extension_ui_request", false, false, confirm},
		{"host tool", "hosted", hostTool, true, false, func(*Config) {}},
	} {
		t.Run(by.name, func(t *testing.T) {
			twoNodes(t, func(t *testing.T, a, b *node) {
				asks := func(n *node, id, name string) string {
					t.Helper()
					if by.event == hostTool {
						require.True(t, n.Call(t, declare(id, by.tool)).Get("success").Bool())
					}
					n.Say(id, "prompt", "~"+name+"~ rounds=1 calls=1 tool="+by.tool)
					n.pass(time.Second)
					ids := n.questions(id, by.event)
					require.NotEmpty(t, ids)
					return ids[len(ids)-1]
				}
				answer := func(n *node, id, to string) {
					line := `{"type":"extension_ui_response","confirmed":true`
					if by.event == hostTool {
						line = `{"type":"host_tool_result","result":"the answer to it"`
					}
					n.Line(line + `,"id":"` + to + `"` + at(id) + `}`)
					n.pass(5 * time.Second)
				}
				s := a.open()
				results := func() int { return strings.Count(b.lines(s), `"role":"toolResult"`) }
				first := asks(a, s, "x")
				answer(a, s, first)
				old := asks(a, s, "y")
				require.NotEqual(t, first, old)
				if !by.open {
					answer(a, s, old)
				}
				a.lose()
				b.take(s)
				b.pass(10 * time.Second)
				if by.again {
					require.Equal(t, []string{old}, b.questions(s, by.event))
					answer(b, s, old)
				}
				before := results()
				now := asks(b, s, "z")
				assert.NotContains(t, []string{first, old}, now)
				answer(b, s, old)
				answer(b, s, first)
				assert.Equal(t, before, results(), "nobody has answered it")
				answer(b, s, now)
				assert.Equal(t, before+1, results())
			}, by.change)
		})
	}
}
