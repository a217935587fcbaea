package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNodeLostInTheFirstCommand: the same where the command is the first thing in a session that another command has made: it does
// not run again by itself, and its answer says that nobody knows what came of it.
func TestNodeLostInTheFirstCommand(t *testing.T) {
	for _, by := range []string{"new_session", "fork", "clone"} {
		for _, named := range []bool{true, false} {
			for _, said := range []bool{true, false} {
				if !said && by != "new_session" {
					continue
				}
				together := named // sent at once, it waits for the session
				t.Run(fmt.Sprint(by, named, said), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						w, _, nodes := nodesWith(t, func(*Config) {}, "a", "b")
						c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
						s := c.openOn("b", "client-one")
						if said {
							c.run(s, "~x~ one")
							c.run(s, "~x~ two")
						}
						command := `"type":"` + by + `"`
						if by == "fork" {
							command += `,"entryId":"` + c.asks("x-f", "get_fork_messages", s).Get("data.messages.1.entryId").Str + `"`
						}
						id := `"id":"x-k",`
						if !named {
							id = `"id":17,`
						}
						c.Line(`{` + id + command + at(s) + `}`)
						if !together {
							c.pass(3 * time.Second)
						}
						c.Line(`{"id":"x-b","type":"bash","command":"sleep=60000"` + at(s) + `}`)
						c.pass(3 * time.Second)
						made := c.isIn(s)
						require.NotEqual(t, s, made)
						w.lose("b")
						c.pass(time.Minute)
						v := c.wait("x-b")
						assert.Contains(t, v.Get("error").Str, "may or may not have finished", v.Raw)
						assert.Equal(t, 0, strings.Count(nodes[0].lines(made), `"bashExecution"`))
						require.NoError(t, c.leave())
						nodes[0].end()
					})
				})
			}
		}
	}
}
