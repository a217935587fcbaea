package moves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestAdopted checks that a session whose directory was on a lost node can be given another
// directory with adopt_session, that it stays on that node, and that its model receives a message
// about it. A session that is open, or can run on any node, cannot be adopted.
func TestAdopted(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b", "d")
		far := nodetest.NewClient(nodes[1], "client-one", "")
		s := far.Call(t, `{"type":"open_session","cwd":"/","retain":true}`).Get("data.sessionId").Str
		far.Run(s, "~x~ one")
		c := nodetest.NewClient(nodes[0], "client-two", `,"features":["deltaUpdates"]`)
		adopt := func(id, cwd string) gjson.Result {
			sent := c.Send(fmt.Sprintf(`{"type":"adopt_session","cwd":%q%s}`, cwd, harness.At(id)))
			return c.AwaitResponse(sent)
		}
		c.Line(`{"id":"x-t","type":"attach"` + harness.At(s) + `}`)
		require.True(t, c.AwaitResponse("x-t").Get("success").Bool())
		assert.Equal(t, "session_in_use", harness.Code(adopt(s, harness.EmptyDir)))
		assert.Equal(t, "invalid_params", harness.Code(adopt(s, "/none/such")))
		assert.Equal(t, "unknown_session", harness.Code(adopt("nobody", harness.EmptyDir)))
		moves := c.OpenOn("d", "client-two")
		c.Run(moves, "~x~ one")
		c.Call(t, `{"type":"close_session"`+harness.At(moves)+`}`)
		assert.Equal(t, "invalid_params", harness.Code(adopt(moves, harness.EmptyDir)))
		w.Lose("b")
		c.Advance(2 * time.Second)
		v := adopt(s, harness.EmptyDir)
		require.True(t, v.Get("success").Bool(), v.Raw)
		c.Example(v, "")
		assert.Equal(t, "b "+harness.EmptyDir, v.Get("data.from").Str+" "+v.Get("data.cwd").Str)
		other := nodetest.NewClient(nodes[2], "client-three", "")
		for _, of := range []*nodetest.Node{c, other} {
			of.Line(`{"id":"x-b","type":"attach"` + harness.At(s) + `}`)
			require.True(t, of.AwaitResponse("x-b").Get("success").Bool())
		}
		require.NoError(t, other.Leave())
		c.Run(s, "~x~ two")
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Equal(t, 1, strings.Count(nodes[0].Log(s), "The directory is now "+harness.EmptyDir))
		for _, o := range c.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
			assert.Equal(t, "a "+harness.EmptyDir, o.Get("node").Str+" "+o.Get("cwd").Str)
		}
		assert.Equal(t, "nowhere", harness.Code(c.Call(t, `{"type":"move_session","node":"d"`+harness.At(s)+`}`)), "its directory is here")
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[2].End()
	})
}
