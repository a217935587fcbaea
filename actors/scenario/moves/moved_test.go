package moves

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestMoveWithoutADirectory checks that a session whose directory was removed keeps working and is
// not moved to a node without the directory. Once it is closed it cannot be opened, and it can be
// read on any node without attach.
func TestMoveWithoutADirectory(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		dir, cwd := nodetest.Removable(t)
		_, _, nodes := nodetest.Cluster(t, "a", "b", "c")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenIn(cwd, "b", "client-one")
		c.Run(s, "~x~ one")
		require.NoError(t, os.Remove(dir))
		for i, to := range []string{"a", "c"} {
			v := c.Call(t, `{"type":"move_session","node":"`+to+`"`+harness.At(s)+`}`)
			assert.Equal(t, "cwd_missing", harness.Code(v), v.Raw)
			c.Run(s, fmt.Sprintf("~y~ still here %d", i))
			assert.Contains(t, nodes[0].Log(s), fmt.Sprintf("part 0 for ~y~ still here %d", i))
		}
		assert.Empty(t, c.Events(s, "session_moved"))
		require.True(t, nodes[1].Member.Has(cluster.SessionID(s)))
		require.True(t, c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`).Get("success").Bool())
		for i, n := range nodes {
			other := nodetest.NewClient(n, fmt.Sprint("client-", i), "")
			other.CheckReadable(s)
			v := other.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
			assert.Equal(t, "cwd_missing", harness.Code(v), v.Raw)
			other.CheckReadable(s)
			require.NoError(t, other.Leave())
		}
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestMovedInVain checks that a session that cannot be opened on the node to which it was moved
// returns to its previous owner. Its clients follow it in both directions.
func TestMovedInVain(t *testing.T) {
	for _, features := range []string{`["deltaUpdates"]`, `["seq","deltaUpdates"]`} {
		t.Run(features, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				for _, name := range []string{"a", "b"} { // c has lost the directory
					require.NoError(t, os.MkdirAll(filepath.Join(nodetest.FilelessDir(), name), 0o700))
				}
				_, _, nodes := nodetest.Cluster(t, "a", "b", "c")
				var clients []*nodetest.Node
				for i, n := range nodes {
					clients = append(clients, nodetest.NewClient(n, fmt.Sprint("client-", i), `,"features":`+features))
				}
				s := clients[0].OpenIn("n:", "b", "client-0")
				for _, c := range clients[1:] {
					require.True(t, c.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
				}
				clients[0].Run(s, "~x~ one")
				clients[0].Call(t, `{"type":"move_session","node":"c"`+harness.At(s)+`}`)
				clients[0].Advance(5 * time.Second)
				require.True(t, nodes[1].Member.Has(cluster.SessionID(s)))
				for i, c := range clients {
					moved := c.Events(s, "session_moved")
					require.NotEmpty(t, moved)
					assert.LessOrEqual(t, len(moved), 2, c.Kinds(s))
					assert.Equal(t, "b", moved[len(moved)-1].Get("to").Str, moved)
					if strings.Contains(features, "seq") {
						if i == 0 {
							c.Example(c.Events(s, "resync")[0], "")
						}
						require.True(t, c.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
					}
					c.Run(s, fmt.Sprintf("~y~ more %d", i))
					kinds := c.Kinds(s)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
				}
				for _, c := range clients {
					require.NoError(t, c.Leave())
				}
				for _, n := range nodes {
					n.End()
				}
			})
		})
	}
}

var moves = flag.Int("moves", 60, "how often TestMoved moves a session")

// TestMoved (O5) checks that an idle session can be moved back and forth. Its client receives one
// session_moved for each move and can use the session.
func TestMoved(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b", "c")
		c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		s := c.OpenOn("b", "client-one")
		c.Run(s, "~x~ one")
		for _, node := range []string{"nobody", "B"} {
			assert.Equal(t, "nowhere", harness.Code(c.Call(t, `{"type":"move_session","node":"`+node+`"`+harness.At(s)+`}`)))
		}
		v := c.Call(t, `{"type":"move_session","node":"b"`+harness.At(s)+`}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		c.Advance(time.Second)
		assert.Empty(t, c.Events(s, "session_moved"), "it is there")
		next := func(i int) string { return []string{"c", "a", "b"}[i%3] }
		c.Example(c.Call(t, `{"type":"move_session","node":"b"`+harness.At(s)+`}`), "")
		for i := range *moves {
			to := next(i)
			v := c.Call(t, `{"type":"move_session","node":"`+to+`"`+harness.At(s)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			v = c.Call(t, fmt.Sprintf(`{"type":"set_session_name","name":"n%d"%s}`, i, harness.At(s)))
			require.True(t, v.Get("success").Bool(), v.Raw)
			moved := c.Events(s, "session_moved")
			require.Len(t, moved, i+1)
			require.Equal(t, to, moved[i].Get("to").Str)
			if i == 0 {
				c.Example(moved[0], "")
			}
			assert.Equal(t, 1, strings.Count(nodes[0].Log(s), fmt.Sprintf(`"name":"n%d"`, i)))
		}
		c.Say(s, "prompt", "~x~ pace=500 parts=8")
		c.Advance(time.Second)
		assert.Equal(t, "session_busy", harness.Code(c.Call(t, `{"type":"move_session","node":"`+next(*moves)+`"`+harness.At(s)+`}`)))
		c.Advance(time.Minute)
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestMovedWhileAsked checks that commands that arrive while a session is moved are answered once,
// by the new owner, and that no client receives session_closing. The clients are attached to the
// previous owner and to another node.
func TestMovedWhileAsked(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		one, two := nodetest.NewClient(nodes[0], "client-one", ""), nodetest.NewClient(nodes[1], "client-two", "")
		s := one.OpenOn("a", "client-one")
		one.Run(s, "~x~ one")
		two.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		asked := map[*nodetest.Node][]string{}
		for i := range 16 {
			to := []string{"b", "a"}[i%2]
			one.Line(fmt.Sprintf(`{"id":"m%d","type":"move_session","node":%q%s}`, i, to, harness.At(s)))
			for k := range 12 {
				for _, c := range []*nodetest.Node{one, two} {
					id := fmt.Sprintf("n%d-%d-%s", i, k, c.Name)
					c.Line(fmt.Sprintf(`{"id":%q,"type":"set_session_name","name":%q%s}`, id, id, harness.At(s)))
					asked[c] = append(asked[c], id)
				}
				one.Advance(time.Duration(i) * 400 * time.Microsecond)
			}
			one.AwaitResponse(fmt.Sprint("m", i))
			one.Advance(2 * time.Second)
		}
		for c, ids := range asked {
			for _, id := range ids {
				v := c.AwaitResponse(id)
				require.True(t, v.Get("success").Bool(), v.Raw)
				assert.Equal(t, 1, strings.Count(nodes[0].Log(s), `"name":"`+id+`"`), id)
			}
		}
		require.NoError(t, one.Leave())
		require.NoError(t, two.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}
