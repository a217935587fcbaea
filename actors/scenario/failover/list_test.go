package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// indexed returns the text that the index has of a session; nil for none.
func indexed(n *nodetest.Node, id string) []byte {
	texts, err := n.Engine.Indexed(n.T.Context(), []cluster.SessionID{cluster.SessionID(id)})
	require.NoError(n.T, err)
	return texts[cluster.SessionID(id)]
}

// inList returns a session as list_sessions has it.
func inList(n *nodetest.Node, id string) gjson.Result {
	v := n.Call(n.T, `{"type":"list_sessions"}`)
	require.True(n.T, v.Get("success").Bool(), v.Raw)
	return v.Get(fmt.Sprintf("data.sessions.#(id==%q)", id))
}

// TestListAfterAKill checks that sessions are listed as their logs have them if their node was killed before it had
// written that to the index: with or without an earlier text there, after new_session, and also if a new life of the
// node runs. A log is read once for that.
func TestListAfterAKill(t *testing.T) {
	for _, had := range []string{"nothing", "an older text"} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(had, restarts), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					engine, h := clustertest.New(1, 0), &actortest.History{}
					a, b := nodetest.Start(t, engine, h, "a"), nodetest.Start(t, engine, h, "b")
					s := a.Open()
					a.Run(s, "~x~ first")
					left := a.SessionID(s)
					require.True(t, a.Call(t, `{"type":"set_session_name","name":"named"`+harness.At(s)+`}`).Get("success").Bool())
					require.True(t, a.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
					made := a.SessionID(s)
					a.Run(s, "~y~ second")
					a.Advance(5 * time.Second)
					older := map[string][]byte{left: nil, made: nil}
					if had != "nothing" {
						for id := range older {
							older[id] = indexed(a, id)
							require.NotEmpty(t, older[id])
						}
						require.Equal(t, "a", gjson.GetBytes(older[made], "node").Str)
						require.Empty(t, gjson.GetBytes(older[left], "node").Str)
						require.Equal(t, "named", gjson.GetBytes(older[left], "name").Str, "it was named and left within a second")
					}
					a.Run(s, "~z~ third")
					require.True(t, a.Call(t, `{"type":"set_session_name","name":"other"`+harness.At(s)+`}`).Get("success").Bool())
					require.True(t, a.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
					empty := a.SessionID(s)
					a.Lose()
					b.Advance(20 * time.Second)
					for id, text := range older { // the node has not written another one
						require.NoError(t, engine.SetIndex(t.Context(), cluster.SessionID(id), text))
					}
					if restarts {
						again := nodetest.StartOn(t, engine, h, "a", "a-2", actortest.NewDisk())
						defer again.End()
						b.Advance(5 * time.Second)
					}
					for range 2 {
						first, second := inList(b, left), inList(b, made)
						assert.Equal(t, "named ~x~ first 2", first.Get("name").Str+" "+first.Get("firstMessage").Str+" "+first.Get("messageCount").Raw, first.Raw)
						assert.Equal(t, "other ~y~ second 4", second.Get("name").Str+" "+second.Get("firstMessage").Str+" "+second.Get("messageCount").Raw, second.Raw)
						assert.Equal(t, nodetest.CopiesDir+"/"+made+".jsonl", second.Get("path").Str)
						assert.NotEmpty(t, second.Get("created").Str)
						assert.Equal(t, harness.EmptyDir, second.Get("cwd").Str)
						assert.False(t, inList(b, empty).Exists(), "nothing was said in it")
						for id := range older { // without reading it again
							engine.Damage(cluster.SessionID(id), func(all []cluster.Record) []cluster.Record { return all[len(all)-1:] })
						}
					}
					b.End()
				})
			})
		}
	}
}

// TestListOfALivingNode checks that a session whose node has not written to the index yet is listed by other nodes, and
// that a log that cannot be read leaves the other sessions listed.
func TestListOfALivingNode(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		one, two := a.Open(), a.Open()
		a.Run(one, "~x~ one")
		a.Run(two, "~y~ two")
		a.Advance(5 * time.Second)
		require.NoError(t, a.Engine.SetIndex(t.Context(), cluster.SessionID(one), nil))
		assert.Equal(t, "~x~ one", inList(b, one).Get("firstMessage").Str)
		a.Engine.Newer(cluster.SessionID(one), true)
		assert.Equal(t, "~y~ two", inList(b, two).Get("firstMessage").Str)
		a.Engine.Newer(cluster.SessionID(one), false)
	})
}
