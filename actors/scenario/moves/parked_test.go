package moves

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/cluster"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestParkedIsOpen checks that a parked session counts as open for every command that would give
// it, or the session with which its handle began, to another handle. The handle stays with its
// session for all clients. Once the session is closed, its file can be opened.
func TestParkedIsOpen(t *testing.T) {
	for _, on := range []string{"a", "b"} { // the node of the other client
		for _, file := range []string{"first", "parked"} {
			t.Run(file+" from "+on, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					_, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) { c.Sessions.ParkAfter = time.Minute }, "a", "b")
					owner := nodes[0]
					c := nodetest.NewClient(owner, "client-one", `,"features":["deltaUpdates"]`)
					s := c.OpenOn("a", "client-one")
					c.Run(s, "~a~ one")
					require.True(t, c.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
					c.Run(s, "~b~ of the new one")
					made := c.SessionID(s)
					c.Advance(2 * time.Minute)
					owner.RequireParked(s)
					path := nodetest.CopiesDir + "/" + map[string]string{"first": s, "parked": made}[file] + ".jsonl"
					at := map[string]*nodetest.Node{"a": nodes[0], "b": nodes[1]}[on]
					of := nodetest.NewClient(at, "client-two", "")
					own := of.OpenOn(on, "client-two")
					of.Run(own, "~o~ of the other")
					take := fmt.Sprintf(`{"type":"switch_session","sessionPath":%q%s}`, path, harness.At(own))
					refuse := func() {
						t.Helper()
						assert.Equal(t, "session_in_use", harness.Code(of.Call(t, take)))
						if file == "first" {
							assert.Equal(t, "session_in_use", harness.Code(of.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))))
						}
					}
					refuse()
					late := nodetest.NewClient(nodes[1], "client-three", "")
					v := late.Call(t, fmt.Sprintf(`{"type":"attach","durableId":%q}`, made))
					require.True(t, v.Get("success").Bool(), v.Raw)
					assert.Equal(t, s, v.Get("data.sessionId").Str, v.Raw)
					assert.Equal(t, made, late.SessionID(s))
					assert.Equal(t, made, c.SessionID(s))
					c.Run(s, "~c~ two")
					assert.NotContains(t, owner.Log(s), "~c~ two")
					assert.Contains(t, owner.Log(made), "~c~ two")
					assert.Contains(t, late.Kinds(s), "agent_settled", "the same session")
					open := of.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions.#.sessionId").Raw
					assert.Equal(t, 2, len(of.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array()), open)
					c.Advance(2 * time.Minute)
					owner.RequireParked(s)
					refuse()
					require.True(t, c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`).Get("success").Bool())
					v = of.Call(t, take)
					assert.True(t, v.Get("success").Bool(), v.Raw)
					for _, n := range []*nodetest.Node{c, of, late} {
						require.NoError(t, n.Leave())
					}
					for _, n := range nodes {
						n.End()
					}
				})
			})
		}
	}
}

// TestParkedIsNotAdopted checks that a session that is parked on a node that lives cannot be given
// another directory on another node, and that it can once it is closed.
func TestParkedIsNotAdopted(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
			c.Sessions.ParkAfter = time.Minute
			cl := c.Sessions.Cluster
			cl.Wants = func(string) cluster.Wants { return cluster.Wants{Node: cl.Member.Self()} }
		}, "a", "b")
		far := nodetest.NewClient(nodes[1], "client-one", "")
		s := far.Call(t, `{"type":"open_session","cwd":"/","retain":true}`).Get("data.sessionId").Str
		far.Run(s, "~x~ one")
		far.Advance(2 * time.Minute)
		nodes[1].RequireParked(s)
		c := nodetest.NewClient(nodes[0], "client-two", "")
		adopt := func(id string) string {
			c.Line(fmt.Sprintf(`{"id":%q,"type":"adopt_session","cwd":%q%s}`, id, harness.EmptyDir, harness.At(s)))
			return harness.Code(c.AwaitResponse(id))
		}
		assert.Equal(t, "session_in_use", adopt("x-1"))
		far.Run(s, "~x~ two")
		far.Advance(2 * time.Minute)
		far.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		assert.Empty(t, adopt("x-2"))
		require.NoError(t, c.Leave())
		require.NoError(t, far.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}
