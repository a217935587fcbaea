package failover

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/actors/session"
)

// TestNotTakenIn checks that a session file whose directory is missing is refused and not changed,
// and can be opened with another directory.
func TestNotTakenIn(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		file := []byte(`{"type":"session","version":3,"id":"0198c0de-0000-7000-8000-000000000001","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/not/there"}` + "\n")
		require.NoError(t, a.Disk.Mem().MkdirAll("/sessions"))
		a.Disk.Mem().WriteFile("/sessions/x.jsonl", file)
		for range 2 {
			v := a.Call(t, `{"type":"open_session","sessionPath":"/sessions/x.jsonl"}`)
			assert.Equal(t, "cwd_missing", harness.Code(v), v.Raw)
		}
		s := a.Open()
		v := a.Call(t, `{"type":"switch_session","sessionPath":"/sessions/x.jsonl"`+harness.At(s)+`}`)
		assert.Equal(t, "cwd_missing", harness.Code(v), v.Raw)
		assert.Equal(t, string(file), string(a.Disk.Mem().ReadFile("/sessions/x.jsonl")))
		v = a.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":"/sessions/x.jsonl","cwd":%q}`, harness.EmptyDir))
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Equal(t, "0198c0de-0000-7000-8000-000000000001", v.Get("data.sessionId").Str)
	})
}

// TestTakenInOutsideRoots refuses a client over the network whose file works outside of --root, and does not
// move the session into the cluster: its owner can still open the file.
func TestTakenInOutsideRoots(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		alone := harness.Start(t)
		s := alone.Open()
		alone.Run(s, "~a~ one")
		path := alone.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionFile").Str
		alone.End()
		was := alone.Disk.Mem().ReadFile(path)

		engine, h := clustertest.New(1, 0), &actortest.History{}
		a := nodetest.Start(t, engine, h, "a", func(c *actors.Config) {
			c.Conn.Allowed = func(named string) bool { return named == path }
		})
		require.NoError(t, a.Disk.Mem().MkdirAll("/sessions"))
		a.Disk.Mem().WriteFile(path, was)
		assert.Equal(t, "forbidden", harness.Code(a.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))))
		assert.Equal(t, string(was), string(a.Disk.Mem().ReadFile(path)), "nothing says that the session has moved")
		a.End()
	})
}

// TestTakenIn checks that a file written by pi becomes a session of the cluster with all its lines,
// and that it cannot be opened outside of the cluster afterwards. An export equals the log.
func TestTakenIn(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		alone := harness.Start(t)
		s := alone.Open()
		alone.Run(s, "~a~ one")
		path := alone.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionFile").Str
		alone.End()
		was := alone.Disk.Mem().ReadFile(path)

		engine, h := clustertest.New(1, 0), &actortest.History{}
		a, b := nodetest.Start(t, engine, h, "a"), nodetest.Start(t, engine, h, "b")
		require.NoError(t, a.Disk.Mem().MkdirAll("/sessions"))
		a.Disk.Mem().WriteFile(path, was)
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path)
		v := a.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		id := v.Get("data.state.sessionId").Str
		assert.Equal(t, string(was), a.Log(id)[:len(was)])
		handle := v.Get("data.sessionId").Str
		assert.Equal(t, id, handle, "as it is called on every node")
		a.Run(handle, "~b~ two")
		a.CheckCopy(id)
		assert.Equal(t, "session_moved", harness.Code(a.Call(t, open)))
		a.Call(t, `{"type":"close_session"`+harness.At(handle)+`}`)
		b.Take(id)
		assert.EqualValues(t, 4, b.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.messageCount").Int())
		require.NoError(t, session.Export(t.Context(), b.Engine, b.Disk.FS(), id, nodetest.CopiesDir+"/export.jsonl"))
		assert.Equal(t, b.Log(id), string(b.Disk.Mem().ReadFile(nodetest.CopiesDir+"/export.jsonl")))
		a.End()
		b.End()

		again := harness.Start(t, func(c *actors.Config) { c.Sessions.FS = a.Disk.FS() })
		assert.Equal(t, "session_moved", harness.Code(again.Call(t, open)))
		again.End()
	})
}
