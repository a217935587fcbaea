package failover

import (
	"fmt"
	"os"
	"path/filepath"
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
	"troupe/actors/relay"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/protocol"
)

// TestDirectoryGone checks that a session whose directory was removed keeps working on its node and
// is not moved. After its node is lost it cannot be opened, and its messages can be read.
func TestDirectoryGone(t *testing.T) {
	dir := filepath.Join(harness.EmptyDir, t.Name())
	require.NoError(t, os.Mkdir(dir, 0o700))
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		var s string
		for i := 0; ; i++ {
			id := fmt.Sprintf("x-o%d", i)
			c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:%s","retain":true}`, id, t.Name()))
			s = c.AwaitResponse(id).Get("data.sessionId").Str
			if strings.Contains(c.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="`+s+`")`).Raw, `"node":"b"`) {
				break
			}
		}
		c.Run(s, "~x~ one")
		require.NoError(t, os.Remove(dir))
		v := c.Call(t, `{"type":"move_session","node":"a"`+harness.At(s)+`}`)
		assert.Equal(t, "cwd_missing", harness.Code(v), v.Raw)
		c.Run(s, "~x~ two")
		assert.Empty(t, c.Events(s, "session_moved"))
		assert.Len(t, c.Events(s, "agent_settled"), 2)
		w.Lose("b")
		c.Advance(5 * time.Second)
		v = c.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`)
		assert.Contains(t, v.Raw, "~x~ two")
		assert.Equal(t, "cwd_missing", harness.Code(c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)))
		assert.Contains(t, c.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Raw, "~x~ two")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.True(t, c.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
		c.Run(s, "~x~ three")
		require.NoError(t, c.Leave())
		nodes[0].End()
	})
}

// TestRootWithoutFiles checks that a session in a root of mode none has no bash and no tools that
// use files. It works in an empty directory and can fail over to any node, and so can a session
// that replaces it.
func TestRootWithoutFiles(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
			require.NoError(t, os.MkdirAll(c.Relay.Roots["n"].Path, 0o700))
			c.Sessions.Cluster.Wants = func(cwd string) cluster.Wants {
				o, _, err := c.Relay.Wants(protocol.OpenSession{Cwd: cwd}, cwd)
				require.Nil(t, err)
				return o.Wants
			}
		}, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		open := func(i int, how string) gjson.Result {
			id := fmt.Sprint("x-o", i)
			c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","retain":true,%s}`, id, how))
			return c.AwaitResponse(id)
		}
		for i, how := range []string{`"cwd":"n:sub"`, `"cwd":"/","wants":{"root":"n"}`, `"cwd":"w:","wants":{"root":"n"}`} {
			v := open(i, how)
			assert.Equal(t, "invalid_params", harness.Code(v), v.Raw)
		}
		var s string
		for i := 10; ; i++ {
			v := open(i, `"cwd":"n:","tools":["note","danger"]`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			if s = v.Get("data.sessionId").Str; v.Get("data.node").Str == "b" || nodes[1].Member.Has(cluster.SessionID(s)) {
				break
			}
			c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		}
		none := func(s, node string) {
			t.Helper()
			assert.Equal(t, `[[],["todo_write","task"]]`, c.Call(t, `{"type":"get_tools"`+harness.At(s)+`}`).Get("data.[activeToolNames,allTools.#.name]").Raw)
			c.Call(t, `{"type":"set_active_tools","toolNames":["note"]`+harness.At(s)+`}`)
			assert.Equal(t, `[]`, c.Call(t, `{"type":"get_tools"`+harness.At(s)+`}`).Get("data.activeToolNames").Raw)
			assert.Equal(t, "unsupported", harness.Code(c.Call(t, `{"type":"bash","command":"echo hi"`+harness.At(s)+`}`)))
			assert.Contains(t, c.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="`+s+`")`).Raw, `"cwd":"`+nodetest.Roots(node)["n"].Path+`"`)
		}
		none(s, "b")
		c.Run(s, "~w~ tool=danger rounds=1 calls=1")
		results := c.Events(s, "tool_execution_end")
		require.Len(t, results, 1)
		assert.Contains(t, results[0].Raw, "not found")
		c.Say(s, "prompt", "~x~ pace=500 parts=8")
		c.Advance(2 * time.Second)
		w.Lose("b")
		c.Advance(30 * time.Second)
		assert.Contains(t, nodes[0].Log(s), "part 7 for ~x~")
		assert.NotContains(t, nodes[0].Log(s), "directory")
		none(s, "a")
		require.True(t, c.Call(t, `{"type":"new_session"`+harness.At(s)+`}`).Get("success").Bool())
		none(s, "a")
		c.Run(s, "~y~ two")
		made := c.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionId").Str
		at, err := nodes[0].Member.Where(t.Context(), cluster.SessionID(made))
		require.NoError(t, err)
		assert.Equal(t, "a", at.Name)
		require.NoError(t, c.Leave())
		nodes[0].End()
	})
}

// TestNobodyHasTheRoot checks that a session can be read at once when no remaining node has its
// root.
func TestNobodyHasTheRoot(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenIn("only-b:", "b", "client-one")
		c.Run(s, "~x~ one")
		w.Lose("b")
		other := nodetest.NewClient(nodes[0], "client-two", "")
		other.Advance(2 * time.Second)
		other.CheckReadable(s)
		for _, c := range []*nodetest.Node{c, other} {
			require.NoError(t, c.Leave())
		}
		nodes[0].End()
	})
}

// TestLostWithoutADirectory checks a session whose directory was removed before its node was lost:
// its spans end for the clients, no node claims it repeatedly, and its messages can be read.
func TestLostWithoutADirectory(t *testing.T) {
	for _, next := range []string{"a", "c"} { // the node of the client, or another one
		t.Run(next, func(t *testing.T) { lostWithoutADirectory(t, next) })
	}
}

func lostWithoutADirectory(t *testing.T, heir string) {
	harness.Bubble(t, func(t *testing.T) {
		dir, cwd := nodetest.Removable(t)
		w, _, nodes := nodetest.Cluster(t, "a", "b", "c")
		c, s := nodetest.NewClient(nodes[0], "client-one", ""), ""
		for { // a session that is placed on heir when b is lost
			s = c.OpenIn(cwd, "b", "client-one")
			next, err := cluster.Place(cluster.SessionID(s), cluster.Wants{Root: "d"}, slices.DeleteFunc(c.Member.Seen(), func(n cluster.Seen) bool { return n.Name == "b" }))
			require.NoError(t, err)
			if next.Name == heir {
				break
			}
			c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		}
		c.Run(s, "~w~ one")
		c.Say(s, "prompt", "~x~ pace=500 parts=40")
		c.Advance(3 * time.Second)
		require.NoError(t, os.Remove(dir))
		w.Lose("b")
		c.Advance(time.Minute)
		settled := c.Events(s, "agent_settled")
		require.Len(t, settled, 2, c.Kinds(s))
		assert.Equal(t, "interrupted", settled[1].Get("outcome").Str)
		open, _ := c.Spans(s)
		assert.Empty(t, open, c.Kinds(s))
		tail, err := nodes[0].Engine.Tail(t.Context(), cluster.SessionID(s))
		require.NoError(t, err)
		c.Advance(time.Minute)
		still, err := nodes[0].Engine.Tail(t.Context(), cluster.SessionID(s))
		require.NoError(t, err)
		assert.Equal(t, tail.Seq, still.Seq)
		c.CheckReadable(s)
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[2].End()
	})
}

// TestKeptIsNotDeleted checks that delete_session refuses the path of a session that the cluster
// keeps, because its log is not a file of this node.
func TestKeptIsNotDeleted(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
		a.Advance(2 * time.Second)
		path := a.Call(t, `{"type":"list_sessions","scope":"all"}`).Get(`data.sessions.#(id=="` + id + `").path`).Str
		require.NotEmpty(t, path)
		v := a.Call(t, fmt.Sprintf(`{"type":"delete_session","sessionPath":%q}`, path))
		assert.Equal(t, "unsupported", harness.Code(v), v.Raw)
		a.Take(id)
		a.CheckCopy(id)
	})
}

// TestGraceOfSharedDirectories checks that, after a node is lost, nothing runs in a directory that
// it shares until its own processes must have ended. Other commands are executed at once. A session
// that was moved does not wait.
func TestGraceOfSharedDirectories(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b", "c")
		for _, n := range nodes {
			n.Config.Sessions.Cluster.Grace = 15 * time.Second
		}
		c := nodetest.NewClient(nodes[0], "client-one", "")
		took := func(s, command string) time.Duration {
			begun := time.Now()
			id := fmt.Sprint("x-g", len(c.Lines()))
			c.Line(fmt.Sprintf(`{"id":%q,%s%s}`, id, command, harness.At(s)))
			v := c.AwaitResponse(id)
			for i := 0; i < 2 && !v.Exists(); i++ {
				v = c.AwaitResponse(id)
			}
			require.True(t, v.Get("success").Bool(), v.Raw)
			return time.Since(begun)
		}
		moves, lost := c.OpenWithHeir("b", "a", "client-one"), c.OpenWithHeir("b", "c", "client-one")
		for _, s := range []string{moves, lost} {
			c.Run(s, "~x~ one")
			assert.Less(t, took(s, `"type":"bash","command":"quick"`), time.Second)
		}
		took(moves, `"type":"move_session","node":"a"`)
		assert.Less(t, took(moves, `"type":"bash","command":"quick"`), time.Second)
		w.Lose("b")
		assert.Less(t, took(lost, `"type":"set_session_name","name":"one"`), 2*time.Second)
		c.Line(`{"id":"x-p","type":"prompt","message":"~y~ tool=danger rounds=1"` + harness.At(lost) + `}`)
		require.True(t, c.AwaitResponse("x-p").Get("success").Bool())
		c.Advance(10 * time.Second)
		assert.Empty(t, c.Events(lost, "tool_execution_end"))
		waited := 10*time.Second + took(lost, `"type":"bash","command":"quick"`)
		assert.Greater(t, waited, 13*time.Second)
		assert.LessOrEqual(t, waited, 15*time.Second)
		c.Advance(time.Second)
		assert.Len(t, c.Events(lost, "tool_execution_end"), 1)
		assert.Less(t, took(lost, `"type":"bash","command":"quick"`), time.Second)
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[2].End()
	})
}

// TestNodeOfDirectoryLost (O7) checks that a session whose directory is only on a lost node is
// answered with node_lost and the name of that node, after the wait for a new owner. It can be used
// again when the node is back.
func TestNodeOfDirectoryLost(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, engine, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[1], "client-one", "")
		v := c.Call(t, `{"type":"open_session","cwd":"/","retain":true}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		s := v.Get("data.sessionId").Str
		c.Run(s, "~x~ one")
		lost := time.Now()
		w.Lose("b")
		other := nodetest.NewClient(nodes[0], "client-two", "")
		other.Line(`{"id":"x-a","type":"attach"` + harness.At(s) + `}`)
		v = other.AwaitResponse("x-a")
		assert.Equal(t, "node_lost b", harness.Code(v)+" "+v.Get("data.node").Str, v.Raw)
		assert.InDelta(t, lost.UnixMilli(), v.Get("data.since").Int(), 500)
		assert.InDelta(t, relay.DefaultWait.Seconds(), time.Since(lost).Seconds(), 1)
		other.CheckReadable(s)
		again := nodetest.StartOn(t, engine, &actortest.History{}, "b", "b-2", nodes[1].Disk.Killed(), func(of *actors.Config) {
			w.Use(of, "b")
		})
		w.SetNode("b", again)
		other.Line(`{"id":"x-b","type":"attach"` + harness.At(s) + `}`)
		v = other.AwaitResponse("x-b")
		require.True(t, v.Get("success").Bool(), v.Raw)
		other.Run(s, "~x~ two")
		kinds := other.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		again.End()
		require.NoError(t, other.Leave())
		nodes[0].End()
	})
}
