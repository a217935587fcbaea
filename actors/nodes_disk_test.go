package actors

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

const fullDisk = "write * always ENOSPC"

// TestMoveToAFullDisk: a session is not given to a node that has said that it cannot write, and works on where it is; who is given one
// by a node that has not heard of that gives it back, and says so. A node that can write again is given sessions again.
func TestMoveToAFullDisk(t *testing.T) {
	for _, said := range []bool{true, false} {
		t.Run(fmt.Sprintf("said=%t", said), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, _, nodes := nodesOf(t, "a", "b")
				a, b := nodes[0], nodes[1]
				c := through(a, "client-one", "")
				s := c.openOn("a", "client-one")
				c.run(s, "~x~ one")
				move := `{"type":"move_session","node":"b"` + at(s) + `}`
				b.disk.Fail(fullDisk)
				if said {
					b.cfg.Sessions.TryDisk()
					c.pass(time.Second)
				} else {
					require.True(t, c.Call(t, move).Get("success").Bool())
					c.pass(5 * time.Second)
					require.True(t, a.member.Has(cluster.SessionID(s)), "it has come back")
				}
				v := c.Call(t, move)
				assert.Equal(t, "nowhere", code(v), v.Raw)
				assert.Contains(t, v.Get("error").Str, "b cannot write to its disk")
				c.run(s, "~y~ two")
				assert.Len(t, c.Events(s, "agent_settled"), 2)
				assert.True(t, a.member.Has(cluster.SessionID(s)))
				b.disk.Fail("")
				b.cfg.Sessions.TryDisk()
				c.pass(time.Second)
				v = c.Call(t, move)
				require.True(t, v.Get("success").Bool(), v.Raw)
				c.run(s, "~z~ three")
				assert.True(t, b.member.Has(cluster.SessionID(s)))
				require.NoError(t, c.leave())
				a.end()
				b.end()
			})
		})
	}
}

// TestFailOverBesideAFullDisk: of the nodes that are left the one that cannot write is given none of the sessions of a lost one, also not
// when what it was given before cannot be opened there. New sessions are made elsewhere, too.
func TestFailOverBesideAFullDisk(t *testing.T) {
	for _, said := range []bool{true, false} {
		t.Run(fmt.Sprintf("said=%t", said), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, _, nodes := nodesOf(t, "a", "b", "d", "e")
				a, b, d := nodes[0], nodes[1], nodes[2]
				c := through(nodes[3], "client-one", "")
				var all []string
				seen := c.member.Seen()
				without := slices.DeleteFunc(slices.Clone(seen), func(n cluster.Seen) bool { return n.Name == "a" })
				for i := 0; len(all) < 4; i++ { // those that b would have next
					command := fmt.Sprint("open-", i)
					id, wants := cluster.NewSessionID("client-one", command), cluster.Wants{Root: "w"}
					first, err := cluster.Place(id, wants, seen)
					require.NoError(t, err)
					next, err := cluster.Place(id, wants, without)
					require.NoError(t, err)
					if first.Name == "a" && next.Name == "b" {
						c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:","retain":true}`, command))
						require.True(t, c.wait(command).Get("success").Bool())
						c.run(string(id), fmt.Sprintf("~x%d~ one", i))
						all = append(all, string(id))
					}
				}
				b.disk.Fail(fullDisk)
				if said {
					b.cfg.Sessions.TryDisk()
					c.pass(time.Second)
				}
				w.lose("a")
				for i, s := range all {
					began := time.Now()
					v := c.Call(t, `{"type":"set_session_name","name":"after"`+at(s)+`}`)
					require.True(t, v.Get("success").Bool(), v.Raw)
					assert.Less(t, time.Since(began), 5*time.Second, i)
					assert.False(t, b.member.Has(cluster.SessionID(s)))
				}
				if !said {
					c.pass(time.Second)
				}
				at, err := d.member.Place("any", cluster.Wants{Labels: map[string]string{"is": "b"}})
				assert.ErrorIs(t, err, cluster.ErrNowhere, at)
				assert.ErrorContains(t, err, "b cannot write to its disk")
				require.NoError(t, c.leave())
				for _, n := range nodes {
					if n != a {
						n.end()
					}
				}
			})
		})
	}
}
