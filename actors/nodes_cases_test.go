package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/cluster/clustertest"
)

// TestDiskOfAnOwner (D1, D2): the disk on which an owner has its copies is full, or fails, at any of its operations: nobody
// is told of it, the cluster has everything, and the copy is whole when the session is had again.
func TestDiskOfAnOwner(t *testing.T) {
	for _, plan := range []string{
		"write *.jsonl #1+ ENOSPC", "write *.jsonl #2 short=20", "write *.jsonl #2+ EIO", "create *.jsonl always ENOSPC", "fstat *.jsonl #3+ EIO",
		"rename * always EIO", "write *.mark* always ENOSPC",
	} {
		t.Run(plan, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				engine, h := clustertest.New(1, 0), &actortest.History{}
				a := startNode(t, engine, h, "a")
				id := a.open()
				a.disk.Fail(plan)
				a.run(id, "~a~ one")
				a.run(id, "~b~ two")
				lines := a.lines(id)
				assert.Contains(t, lines, "~a~ one")
				assert.Contains(t, lines, "~b~ two")
				settled := a.Events(id, "agent_settled")
				require.Len(t, settled, 2)
				assert.Equal(t, "completed", settled[1].Get("outcome").Str)
				a.disk.Fail("")
				a.Call(t, `{"type":"close_session"`+at(id)+`}`)
				a.take(id)
				a.same(id)
				assert.EqualValues(t, 4, a.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
				a.end()
			})
		})
	}
}

// TestNodeLostInAChild (T4): tasks that ran when the node of their session was lost are not run again: the call has a
// result that says so, and the run goes on.
func TestNodeLostInAChild(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a, b := startNode(t, engine, h, "a", withTasks), startNode(t, engine, h, "b", withTasks)
		id := a.open()
		a.Say(id, "prompt", "~p~ tool=task rounds=1 children=2 each=stall")
		a.pass(2 * time.Second)
		require.NotEmpty(t, a.childEvents(id))
		a.lose()
		b.take(id)
		b.pass(30 * time.Second)
		settled := b.Events(id, "agent_settled")
		require.NotEmpty(t, settled)
		assert.Equal(t, "completed", settled[len(settled)-1].Get("outcome").Str)
		lines := b.lines(id)
		assert.Equal(t, 1, strings.Count(lines, `"role":"toolResult"`), lines)
		assert.Contains(t, lines, "interrupted")
		assert.Empty(t, b.childEvents(id), "no child begins again")
		b.same(id)
		b.end()
	})
}

// TestNodeLostInACompaction (T6): a compaction that was under way has left nothing, and begins again when it is asked for again;
// once it is in the log it is not done twice.
func TestNodeLostInACompaction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a, b := startNode(t, engine, h, "a"), startNode(t, engine, h, "b")
		for _, n := range []*node{a, b} {
			n.Call(t, fmt.Sprintf(helloAs, "client-me"))
		}
		id := a.open()
		for i := range 4 {
			a.run(id, fmt.Sprintf("~c%d~ pace=500 parts=4 %s", i, strings.Repeat("word ", 30_000)))
		}
		compact := `{"id":"x-c","type":"compact"` + at(id) + `}`
		a.Line(compact)
		a.pass(100 * time.Millisecond)
		require.NotContains(t, strings.Join(a.Lines(), "\n"), `{"id":"x-c"`, "it is under way")
		require.NotContains(t, a.lines(id), `"type":"compaction"`)
		a.lose()
		b.take(id)
		b.Line(compact)
		b.pass(time.Minute)
		v := b.Answer(t, "x-c")
		require.True(t, v.Get("success").Bool(), v.Raw)
		b.Call(t, `{"type":"close_session"`+at(id)+`}`)
		b.take(id)
		b.Line(compact)
		b.pass(time.Minute)
		assert.Equal(t, 1, strings.Count(b.lines(id), `"type":"compaction"`))
		b.end()
	})
}
