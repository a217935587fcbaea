package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/actors/session"
)

// TestKept checks that a session's lines are in the cluster, and that its handle is its id. A
// session that is closed is released, and another node can open it at once with all its messages.
func TestKept(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		a.CheckCopy(id)
		assert.Contains(t, a.Log(id), "~a~ one")
		assert.Equal(t, id, a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.sessionId").Str)
		refused := b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, nodetest.CopiesDir+"/"+id+".jsonl"))
		assert.Equal(t, "not_here", harness.Code(refused))
		a.Call(t, fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, id))
		begun := time.Now()
		require.Equal(t, id, b.Take(id))
		assert.Less(t, time.Since(begun), 100*time.Millisecond)
		b.Run(id, "~b~ two")
		assert.EqualValues(t, 4, b.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.messageCount").Int())
		b.CheckCopy(id)
		b.Call(t, fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, id))
		a.Take(id) // resumes from the mark of its copy
		a.CheckCopy(id)
	})
}

// TestParkedIsReleased checks that a parked session has no owner. The next command claims it again,
// or is answered with not_here if another node owns it.
func TestParkedIsReleased(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Advance(2 * time.Minute)
		a.RequireParked(id)
		a.Run(id, "~b~ two")
		a.CheckCopy(id)
		a.Advance(2 * time.Minute)
		require.Equal(t, id, b.Take(id))
		b.Run(id, "~c~ three")
		assert.Equal(t, "not_here", harness.Code(a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`)))
		b.Advance(2 * time.Minute)
		assert.EqualValues(t, 6, a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.messageCount").Int())
		a.CheckCopy(id)
	}, func(c *actors.Config) { c.Sessions.ParkAfter = time.Minute })
}

// TestCopyOfAnotherHistory checks that a file that is not a copy of the session's log is set aside
// (D5), and that lines after the mark of a copy are discarded.
func TestCopyOfAnotherHistory(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		path := nodetest.CopiesDir + "/" + id + ".jsonl"
		for i, meddle := range []func(string) string{
			func(s string) string {
				return s + `{"type":"custom","id":"aaaaaaaa","parentId":null,"customType":"x"}` + "\n"
			},
			func(s string) string { return strings.Replace(s, "~a~ one", "~a~ two", 1) },
			func(s string) string { return s[:len(s)/2] },
			func(string) string { return "" },
		} {
			a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
			harness.Overwrite(t, a.Disk.Mem(), path, []byte(meddle(string(a.Disk.Mem().ReadFile(path)))))
			a.Take(id)
			a.CheckCopy(id)
			assert.Equal(t, i == 1 || i == 2, a.Disk.Mem().ReadFile(fmt.Sprintf("%s.aside-%d", path, i)) != nil, i)
		}
	})
}

// TestCopiesAreBounded checks that the copies of open sessions are kept, and of the others those
// that were used last. A session without a copy is loaded from the log.
func TestCopiesAreBounded(t *testing.T) {
	var cl *session.Cluster
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		var ids []string
		for i := range 5 {
			id := a.Open()
			a.Run(id, "~a~ one")
			if i > 0 {
				a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
			}
			ids = append(ids, id)
		}
		a.Take(ids[1])
		a.Call(t, `{"type":"close_session"`+harness.At(ids[1])+`}`)
		there := func() (list []bool) {
			for _, id := range ids {
				file := a.Disk.Mem().ReadFile(nodetest.CopiesDir + "/" + id + ".jsonl")
				assert.Equal(t, file != nil, a.Disk.Mem().ReadFile(nodetest.CopiesDir+"/"+id+".jsonl.mark") != nil)
				list = append(list, file != nil)
			}
			return list
		}
		a.Advance(2 * time.Minute)
		a.Open()
		require.Equal(t, []bool{true, true, true, true, true}, there())
		size := len(a.Disk.Mem().ReadFile(nodetest.CopiesDir+"/"+ids[1]+".jsonl")) + len(a.Disk.Mem().ReadFile(nodetest.CopiesDir+"/"+ids[1]+".jsonl.mark"))
		cl.Cache = int64(2*size + size/2)
		a.Advance(2 * time.Minute)
		a.Open()
		assert.Equal(t, []bool{true, true, false, false, false}, there())
		a.Take(ids[2])
		a.CheckCopy(ids[2])
		a.Run(ids[2], "~b~ two")
		a.CheckCopy(ids[2])
	}, func(c *actors.Config) { cl = c.Sessions.Cluster })
}

// TestReadNeedsLease (C8) checks that an owner that cannot renew its lease does not answer queries.
func TestReadNeedsLease(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Engine.Cut(clustertest.Gone)
		a.Advance(2 * time.Second)
		read := a.Send(`{"type":"get_state"` + harness.At(id) + `}`)
		a.Advance(time.Second)
		require.Contains(t, a.Unanswered(), read)
		a.Engine.Cut(clustertest.Whole)
		assert.True(t, a.AwaitAnswer(read).Get("success").Bool())
	})
}

// TestExportOnClose checks that a session is exported as a file for pi when it is closed, and again
// after it was continued. An export that another program has changed is not overwritten.
func TestExportOnClose(t *testing.T) {
	nodetest.One(t, func(t *testing.T, n *nodetest.Node) {
		handle := n.Open()
		n.Run(handle, "~a~ one")
		id := n.Call(t, `{"type":"get_state"`+harness.At(handle)+`}`).Get("data.sessionId").Str
		closeIt := func(handle string) {
			n.Call(t, `{"type":"close_session"`+harness.At(handle)+`}`)
			n.Advance(time.Second)
		}
		exports := func() (list []string) {
			dirs, _ := n.Disk.FS().ReadDir("/exports")
			for _, dir := range dirs {
				files, _ := n.Disk.FS().ReadDir("/exports/" + dir.Name())
				for _, file := range files {
					list = append(list, "/exports/"+dir.Name()+"/"+file.Name())
				}
			}
			return list
		}
		closeIt(handle)
		closeIt(n.Open()) // without messages
		require.Len(t, exports(), 1)
		parts, err := n.Disk.FS().ReadDir("/exports")
		require.NoError(t, err)
		assert.Len(t, parts, 1)
		path := exports()[0]
		assert.Equal(t, n.Log(id), string(n.Disk.Mem().ReadFile(path)))
		assert.Regexp(t, `^/exports/--.*--/[^/]*_`+id+`\.jsonl$`, path)

		handle = n.Take(id)
		n.Run(handle, "~b~ two")
		closeIt(handle)
		assert.Equal(t, n.Log(id), string(n.Disk.Mem().ReadFile(path)))

		other := append(n.Disk.Mem().ReadFile(path), "{}\n"...)
		n.Disk.Mem().WriteFile(path, other)
		handle = n.Take(id)
		n.Run(handle, "~c~ three")
		closeIt(handle)
		assert.Equal(t, string(other), string(n.Disk.Mem().ReadFile(path)), "it has gone on by itself")
		parts, err = n.Disk.FS().ReadDir("/exports")
		require.NoError(t, err)
		assert.Len(t, parts, 1)
	}, func(c *actors.Config) { c.Sessions.Cluster.Export = "/exports" })
}
