package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/actors/session"
)

// TestBadLogs checks that a session whose log is damaged, or was written by a newer version, cannot
// be opened, and that failed attempts leave no claim. It can be opened once the engine has the
// whole log again.
func TestBadLogs(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
		opens := func() string {
			v := a.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, nodetest.CopiesDir+"/"+id+".jsonl"))
			if harness.Code(v) == "session_damaged" {
				assert.Regexp(t, `record \d+ behind \d+`, v.Get("error").Str, "it says where")
			}
			return harness.Code(v)
		}
		a.Engine.Newer(cluster.SessionID(id), true)
		require.Equal(t, "upgrade_needed", opens())
		a.Engine.Newer(cluster.SessionID(id), false)
		for _, suffix := range []string{"", ".mark"} {
			require.NoError(t, a.Disk.FS().Remove(nodetest.CopiesDir+"/"+id+".jsonl"+suffix))
		}
		flip := func(r []cluster.Record) []cluster.Record {
			r[1].Lines = slices.Clone(r[1].Lines)
			r[1].Lines[5] ^= 1
			return r
		}
		for range 2 {
			a.Engine.Damage(cluster.SessionID(id), flip)
			require.Equal(t, "session_damaged", opens())
			require.Equal(t, "session_damaged", opens())
			a.Engine.Damage(cluster.SessionID(id), flip)
			require.Empty(t, opens())
			a.CheckCopy(id)
			a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
			for _, suffix := range []string{"", ".mark"} {
				require.NoError(t, a.Disk.FS().Remove(nodetest.CopiesDir+"/"+id+".jsonl"+suffix))
			}
		}
	})
}

// TestDamagedIsRead checks that the intact part of a damaged log can be read through any node and
// any number of times, and that other commands are refused. This leaves no files. Once the engine
// has the whole log, the session can be used again.
func TestDamagedIsRead(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, engine, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		flip := func(s, of string) {
			engine.Damage(cluster.SessionID(s), func(r []cluster.Record) []cluster.Record {
				bad := slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), of) })
				r[bad].Lines = slices.Clone(r[bad].Lines)
				r[bad].Lines[len(r[bad].Lines)-2] ^= 1
				return r
			})
		}
		for i, on := range []string{"a", "b"} {
			s, owner := c.OpenOn(on, "client-one"), nodes[i]
			c.Run(s, "~x~ one")
			c.Run(s, "~y~ two")
			c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
			c.Advance(time.Second)
			asks := func(n, command string) gjson.Result { return c.Ask(fmt.Sprint("x-", on, n, command), command, s) }
			for k, bad := range []string{"~y~ two", "~x~ one"} {
				for _, suffix := range []string{"", ".mark"} {
					require.NoError(t, owner.Disk.FS().Remove(nodetest.CopiesDir+"/"+s+".jsonl"+suffix))
				}
				flip(s, bad)
				for n := range 3 {
					n := fmt.Sprint(k, n)
					assert.Equal(t, "session_damaged", harness.Code(asks(n, "attach")))
					begun := time.Now()
					v := asks(n, "get_messages")
					assert.Less(t, time.Since(begun), 5*time.Second)
					if k == 1 {
						assert.Equal(t, "session_damaged", harness.Code(v), "nothing was said before that")
						continue
					}
					require.True(t, v.Get("success").Bool(), v.Raw)
					assert.Contains(t, v.Raw, "~x~ one")
					assert.NotContains(t, v.Raw, "~y~ two")
					v = asks(n, "get_last_assistant_text")
					assert.Contains(t, v.Get("data.text").Str, "for ~x~", v.Raw)
				}
				flip(s, bad)
				require.True(t, asks(fmt.Sprint(k), "attach").Get("success").Bool())
				assert.EqualValues(t, 4, c.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.messageCount").Int())
				owner.CheckCopy(s)
				c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
				c.Advance(time.Second)
			}
			var all []cluster.Record
			engine.Damage(cluster.SessionID(s), func(r []cluster.Record) []cluster.Record {
				all = r
				return r[:slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })]
			})
			for k := range 2 {
				n := fmt.Sprint("e", k)
				assert.Equal(t, "session_damaged", harness.Code(asks(n, "attach")), "with its copy, or what the index says")
				v := asks(n, "get_messages")
				require.True(t, v.Get("success").Bool(), v.Raw)
				assert.Equal(t, k == 0, strings.Contains(v.Raw, "~y~ two"), "the copy has it")
				for _, suffix := range []string{"", ".mark"} {
					require.NoError(t, owner.Disk.FS().Remove(nodetest.CopiesDir+"/"+s+".jsonl"+suffix))
				}
			}
			engine.Damage(cluster.SessionID(s), func([]cluster.Record) []cluster.Record { return all })
			files, err := owner.Disk.FS().ReadDir(nodetest.CopiesDir)
			require.NoError(t, err)
			for _, f := range files {
				assert.NotContains(t, f.Name(), "aside")
			}
		}
		b := nodetest.NewClient(nodes[1], "client-two", "")
		s := b.Call(t, `{"type":"open_session","cwd":"/","retain":true}`).Get("data.sessionId").Str
		b.Run(s, "~x~ one")
		b.Run(s, "~y~ two")
		w.Lose("b")
		flip(s, "~y~ two")
		for n := range 2 {
			v := c.Ask(fmt.Sprint("x-l", n), "get_messages", s)
			require.True(t, v.Get("success").Bool(), "its node is lost: %s", v.Raw)
			assert.Contains(t, v.Raw, "~x~ one")
			assert.NotContains(t, v.Raw, "~y~ two")
		}
		require.NoError(t, c.Leave())
		nodes[0].End()
	})
}

// TestLogWithoutItsEnd (C12) checks that a log that has lost its last records counts as damaged,
// also on a node without a copy, because the index has the number of the last record. The rest can
// be exported and opened as another session, and the session can be used again once the log is
// whole.
func TestLogWithoutItsEnd(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~x~ one")
		a.Run(id, "~y~ two")
		a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
		a.Advance(time.Second)
		var whole []cluster.Record
		cut := func(r []cluster.Record) []cluster.Record {
			whole = r
			return r[:slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })]
		}
		damaged := func(n *nodetest.Node) {
			t.Helper()
			n.Engine.Damage(cluster.SessionID(id), cut)
			tail, err := n.Engine.Tail(t.Context(), cluster.SessionID(id))
			require.NoError(t, err)
			for range 2 {
				v := n.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, nodetest.CopiesDir+"/"+id+".jsonl"))
				assert.Equal(t, "session_damaged", harness.Code(v), v.Raw)
				assert.Contains(t, v.Get("error").Str, fmt.Sprintf("its last record is %d", tail.Seq))
				again, err := n.Engine.Tail(t.Context(), cluster.SessionID(id))
				require.NoError(t, err)
				assert.Equal(t, tail.Seq, again.Seq, "nobody has claimed it")
			}
			n.Engine.Damage(cluster.SessionID(id), func([]cluster.Record) []cluster.Record { return whole })
		}
		damaged(a)
		for _, suffix := range []string{"", ".mark"} {
			require.NoError(t, a.Disk.FS().Remove(nodetest.CopiesDir+"/"+id+".jsonl"+suffix))
		}
		damaged(a)
		a.Lose()
		b.Advance(3 * time.Second)
		damaged(b)
		b.Engine.Damage(cluster.SessionID(id), cut) // the rest can become another session
		require.NoError(t, session.Export(t.Context(), b.Engine, b.Disk.FS(), id, nodetest.CopiesDir+"/export"))
		left := strings.Replace(string(b.Disk.Mem().ReadFile(nodetest.CopiesDir+"/export")), id, "another-one", 1)
		require.NoError(t, b.Disk.Mem().MkdirAll("/sessions"))
		b.Disk.Mem().WriteFile("/sessions/left.jsonl", []byte(left))
		v := b.Call(t, `{"type":"open_session","sessionPath":"/sessions/left.jsonl"}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Equal(t, "another-one 2", v.Get("data.state.sessionId").Str+" "+v.Get("data.state.messageCount").Raw)
		b.Engine.Damage(cluster.SessionID(id), func([]cluster.Record) []cluster.Record { return whole })
		b.Take(id)
		assert.EqualValues(t, 4, b.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.messageCount").Int())
		b.CheckCopy(id)
	})
}

// TestLogWithoutItsEndAfterAKill checks that a node that was killed recognizes that the log has
// lost its last records, although the mark of its copy is older. The copy is not changed, and works
// once the log is whole again.
func TestLogWithoutItsEndAfterAKill(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		engine, h, disk := clustertest.New(1, 0), &actortest.History{}, actortest.NewDisk()
		a := nodetest.StartOn(t, engine, h, "a", "a-1", disk)
		id := a.Open()
		a.Run(id, "~x~ one")
		a.Run(id, "~y~ two")
		a.Lose()
		disk = disk.Killed()
		copied := string(disk.Mem().ReadFile(nodetest.CopiesDir + "/" + id + ".jsonl"))
		require.Contains(t, copied, "~y~ two")
		a = nodetest.StartOn(t, engine, h, "a", "a-2", disk)
		var whole []cluster.Record
		a.Engine.Damage(cluster.SessionID(id), func(r []cluster.Record) []cluster.Record {
			whole = r
			return r[:slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })]
		})
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, nodetest.CopiesDir+"/"+id+".jsonl")
		for range 2 {
			v := a.Call(t, open)
			assert.Equal(t, "session_damaged", harness.Code(v), v.Raw)
			assert.Equal(t, copied, string(disk.Mem().ReadFile(nodetest.CopiesDir+"/"+id+".jsonl")))
		}
		a.Engine.Damage(cluster.SessionID(id), func([]cluster.Record) []cluster.Record { return whole })
		v := a.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.EqualValues(t, 4, a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.messageCount").Int())
		a.CheckCopy(id)
		a.End()
	})
}

// TestParkedIsDamaged checks that a parked session whose log is found damaged stays open: the
// intact part can be read, and the session can be used again once the log is whole and of a
// readable version. A command that was refused in between is executed once when it is sent again
// under its id.
func TestParkedIsDamaged(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		a.Identify("client-me")
		id := a.Open()
		a.Run(id, "~x~ one")
		a.Run(id, "~y~ two")
		a.Advance(2 * time.Minute)
		flip := func(r []cluster.Record) []cluster.Record {
			bad := slices.IndexFunc(r, func(r cluster.Record) bool { return strings.Contains(string(r.Lines), "~y~ two") })
			r[bad].Lines = slices.Clone(r[bad].Lines)
			r[bad].Lines[len(r[bad].Lines)-2] ^= 1
			return r
		}
		for _, suffix := range []string{"", ".mark"} {
			require.NoError(t, a.Disk.FS().Remove(nodetest.CopiesDir+"/"+id+".jsonl"+suffix))
		}
		a.Engine.Damage(cluster.SessionID(id), flip)
		for range 2 {
			v := a.Call(t, `{"type":"get_messages"`+harness.At(id)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			assert.Contains(t, v.Raw, "~x~ one")
			assert.NotContains(t, v.Raw, "~y~ two")
		}
		said := func() gjson.Result {
			before := len(a.Lines())
			a.Line(`{"id":"x-z","type":"prompt","message":"~z~ three"` + harness.At(id) + `}`)
			a.Advance(20 * time.Second)
			for _, line := range a.Lines()[before:] {
				if strings.HasPrefix(line, `{"id":"x-z"`) {
					return gjson.Parse(line)
				}
			}
			return gjson.Result{}
		}
		assert.Equal(t, "session_damaged", harness.Code(said()))
		a.Engine.Damage(cluster.SessionID(id), flip)
		a.Engine.Newer(cluster.SessionID(id), true)
		assert.Equal(t, "upgrade_needed", harness.Code(said()))
		a.Engine.Newer(cluster.SessionID(id), false)
		for range 2 {
			v := said()
			assert.True(t, v.Get("success").Bool(), v.Raw)
		}
		assert.EqualValues(t, 6, a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.messageCount").Int())
		a.CheckCopy(id)
	}, func(c *actors.Config) { c.Sessions.ParkAfter = time.Minute })
}

// TestNewerSession (C16, U1) checks that a session written by a newer version, or owned by a node
// with another wire version, is not claimed, and that commands are answered with upgrade_needed at
// once.
func TestNewerSession(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, engine, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s, other := c.OpenOn("b", "client-one"), c.OpenOn("a", "client-one")
		for _, id := range []string{s, other} {
			c.Run(id, "~x~ one")
			c.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
		}
		for _, id := range []string{s, other} {
			engine.Newer(cluster.SessionID(id), true)
			tail := length(nodes[0], id)
			for i, command := range []string{"attach", "get_messages"} {
				asked := time.Now()
				v := c.Ask(fmt.Sprint("x-u", i, id), command, id)
				assert.Equal(t, "upgrade_needed", harness.Code(v), v.Raw)
				assert.Less(t, time.Since(asked), time.Second)
			}
			assert.Equal(t, tail, length(nodes[0], id), "nobody has claimed it")
			engine.Newer(cluster.SessionID(id), false)
			require.True(t, c.Ask("x-b"+id, "attach", id).Get("success").Bool())
			c.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
		}
		w.CutAll()
		w.Refuse = cluster.ErrUpgrade
		asked := time.Now()
		v := c.Ask("x-v", "attach", s)
		assert.Equal(t, "upgrade_needed", harness.Code(v), v.Raw)
		assert.Less(t, time.Since(asked), time.Second)
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// length returns the number of records that the engine has for a session.
func length(n *nodetest.Node, id string) (records int) {
	n.Engine.Damage(cluster.SessionID(id), func(r []cluster.Record) []cluster.Record {
		records = len(r)
		return r
	})
	return records
}
