package failover

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestDiskOfAnOwner (D1, D2) checks that errors of the disk with the owner's copies do not affect
// clients. The cluster has all lines, and the copy is complete when the session is opened again.
func TestDiskOfAnOwner(t *testing.T) {
	for _, plan := range []string{
		"write *.jsonl #1+ ENOSPC", "write *.jsonl #2 short=20", "write *.jsonl #2+ EIO", "create *.jsonl always ENOSPC", "fstat *.jsonl #3+ EIO",
		"rename * always EIO", "write *.mark* always ENOSPC",
	} {
		t.Run(plan, func(t *testing.T) {
			nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
				id := a.Open()
				a.Disk.Fail(plan)
				a.Run(id, "~a~ one")
				a.Run(id, "~b~ two")
				lines := a.Log(id)
				assert.Contains(t, lines, "~a~ one")
				assert.Contains(t, lines, "~b~ two")
				settled := a.Events(id, "agent_settled")
				require.Len(t, settled, 2)
				assert.Equal(t, "completed", settled[1].Get("outcome").Str)
				a.Disk.Fail("")
				a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
				a.Take(id)
				a.CheckCopy(id)
				assert.EqualValues(t, 4, a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.messageCount").Int())
			})
		})
	}
}

const fullDisk = "write * always ENOSPC"

// TestMoveToAFullDisk checks that a session is not moved to a node that has reported a full disk. A
// node that has not reported it yet gives the session back. It receives sessions again once it can
// write.
func TestMoveToAFullDisk(t *testing.T) {
	for _, said := range []bool{true, false} {
		t.Run(fmt.Sprintf("said=%t", said), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				_, _, nodes := nodetest.Cluster(t, "a", "b")
				a, b := nodes[0], nodes[1]
				c := nodetest.NewClient(a, "client-one", "")
				s := c.OpenOn("a", "client-one")
				c.Run(s, "~x~ one")
				move := `{"type":"move_session","node":"b"` + harness.At(s) + `}`
				b.Disk.Fail(fullDisk)
				if said {
					b.Config.Sessions.TryDisk()
					c.Advance(time.Second)
				} else {
					require.True(t, c.Call(t, move).Get("success").Bool())
					c.Advance(5 * time.Second)
					require.True(t, a.Member.Has(cluster.SessionID(s)), "it has come back")
				}
				v := c.Call(t, move)
				assert.Equal(t, "nowhere", harness.Code(v), v.Raw)
				assert.Contains(t, v.Get("error").Str, "b cannot write to its disk")
				c.Run(s, "~y~ two")
				assert.Len(t, c.Events(s, "agent_settled"), 2)
				assert.True(t, a.Member.Has(cluster.SessionID(s)))
				b.Disk.Fail("")
				b.Config.Sessions.TryDisk()
				c.Advance(time.Second)
				v = c.Call(t, move)
				require.True(t, v.Get("success").Bool(), v.Raw)
				c.Run(s, "~z~ three")
				assert.True(t, b.Member.Has(cluster.SessionID(s)))
				require.NoError(t, c.Leave())
				a.End()
				b.End()
			})
		})
	}
}

// TestFailOverBesideAFullDisk checks that a node with a full disk receives none of the sessions of
// a lost node and no new ones, whether it has reported the disk yet or not.
func TestFailOverBesideAFullDisk(t *testing.T) {
	for _, said := range []bool{true, false} {
		t.Run(fmt.Sprintf("said=%t", said), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				w, _, nodes := nodetest.Cluster(t, "a", "b", "d", "e")
				a, b, d := nodes[0], nodes[1], nodes[2]
				c := nodetest.NewClient(nodes[3], "client-one", "")
				var all []string
				seen := c.Member.Seen()
				without := slices.DeleteFunc(slices.Clone(seen), func(n cluster.Seen) bool { return n.Name == "a" })
				for i := 0; len(all) < 4; i++ { // those that are placed on b next
					command := fmt.Sprint("open-", i)
					id, wants := cluster.NewSessionID("client-one", command), cluster.Wants{Root: "w"}
					first, err := cluster.Place(id, wants, seen)
					require.NoError(t, err)
					next, err := cluster.Place(id, wants, without)
					require.NoError(t, err)
					if first.Name == "a" && next.Name == "b" {
						c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:","retain":true}`, command))
						require.True(t, c.AwaitResponse(command).Get("success").Bool())
						c.Run(string(id), fmt.Sprintf("~x%d~ one", i))
						all = append(all, string(id))
					}
				}
				b.Disk.Fail(fullDisk)
				if said {
					b.Config.Sessions.TryDisk()
					c.Advance(time.Second)
				}
				w.Lose("a")
				for i, s := range all {
					began := time.Now()
					v := c.Call(t, `{"type":"set_session_name","name":"after"`+harness.At(s)+`}`)
					require.True(t, v.Get("success").Bool(), v.Raw)
					assert.Less(t, time.Since(began), 5*time.Second, i)
					assert.False(t, b.Member.Has(cluster.SessionID(s)))
				}
				if !said {
					c.Advance(time.Second)
				}
				at, err := d.Member.Place("any", cluster.Wants{Labels: map[string]string{"is": "b"}})
				assert.ErrorIs(t, err, cluster.ErrNowhere, at)
				assert.ErrorContains(t, err, "b cannot write to its disk")
				require.NoError(t, c.Leave())
				for _, n := range nodes {
					if n != a {
						n.End()
					}
				}
			})
		})
	}
}
