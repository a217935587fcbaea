package moves

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
	"troupe/actors/cluster/clustertest"
	"troupe/actors/relay"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestDrainedInARun checks that a run that has not ended when its daemon ends is resumed on the
// next node.
func TestDrainedInARun(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		drain := func(c *actors.Config) { c.DrainLimit = time.Second }
		a, b := nodetest.Start(t, engine, h, "a", drain), nodetest.Start(t, engine, h, "b")
		id := a.Open()
		a.Say(id, "prompt", "~x~ pace=500 parts=20")
		a.Advance(2 * time.Second)
		a.Member.Drain()
		a.End()
		begun := time.Now()
		b.Take(id)
		assert.Less(t, time.Since(begun), 300*time.Millisecond)
		b.Advance(30 * time.Second)
		assert.Contains(t, b.Log(id), "part 19 for ~x~")
		assert.NotContains(t, b.Log(id), "aborted")
		b.End()
	})
}

// TestDrainUnderLoad (O5) checks that a node that drains releases its sessions, that clients of
// other nodes see them continue there, and that every command is answered.
func TestDrainUnderLoad(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		a, b := nodes[0], nodes[1]
		c := nodetest.NewClient(a, "client-one", `,"features":["deltaUpdates"]`)
		var all []string
		for i := range 8 {
			client := fmt.Sprintf("client-%d", i)
			c.Call(t, fmt.Sprintf(`{"type":"hello","clientId":%q,"features":["deltaUpdates"]}`, client))
			all = append(all, c.OpenOn("b", client))
		}
		for i, s := range all {
			c.Line(fmt.Sprintf(`{"id":"x-p%d","type":"prompt","message":"~x~ pace=%d parts=8"%s}`, i, 100*i, harness.At(s)))
		}
		c.Advance(time.Second)
		follow := func(i int) {
			c.Line(fmt.Sprintf(`{"id":"x-f%d","type":"follow_up","message":"~x~ two"%s}`, i, harness.At(all[i])))
		}
		const late = 4 // later commands are sent when the node accepts no more
		for i := range late {
			follow(i)
			c.AwaitResponse(fmt.Sprintf("x-f%d", i))
		}
		b.Member.Drain()
		b.Daemon.Stop(actors.Stop{})
		c.Advance(100 * time.Millisecond)
		for i := late; i < len(all); i++ {
			assert.Empty(t, c.Events(all[i], "session_moved"), "it still answers there")
			follow(i)
		}
		c.Advance(time.Minute)
		for i, s := range all {
			v := c.AwaitResponse(fmt.Sprintf("x-f%d", i))
			require.True(t, v.Get("success").Bool(), v.Raw)
			assert.Equal(t, 1, nodetest.CountUserSaid(a.Log(s), "~x~ two"), a.Log(s))
			kinds := c.Kinds(s)
			require.Len(t, c.Events(s, "session_moved"), 1, kinds)
			assert.Empty(t, c.Events(s, "session_waiting"), "it is on one node or the other")
			moved := slices.Index(kinds, "session_moved")
			assert.Equal(t, "agent_settled", kinds[moved-1], kinds)
			if i < late {
				assert.Len(t, kinds, moved+1)
				continue
			}
			assert.Equal(t, []string{"agent_start", "agent_settled"}, []string{kinds[moved+1], kinds[len(kinds)-1]}, kinds)
		}
		require.NoError(t, c.Leave())
		a.End()
	})
}

// TestDrainLong checks that commands to a session of a draining node wait until the session is
// released, even if that takes longer than the wait for a session without an owner.
func TestDrainLong(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		s := c.OpenOn("b", "client-one")
		c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=1500 parts=8"` + harness.At(s) + `}`)
		c.Advance(time.Second)
		nodes[1].Member.Drain()
		nodes[1].Daemon.Stop(actors.Stop{})
		c.Advance(100 * time.Millisecond)
		asked := time.Now()
		c.Line(`{"id":"x-f","type":"follow_up","message":"~x~ two"` + harness.At(s) + `}`)
		late := nodetest.NewClient(nodes[0], "client-two", `,"features":["deltaUpdates"]`)
		late.Line(`{"id":"x-n","type":"attach"` + harness.At(s) + `}`)
		for _, v := range []gjson.Result{c.AwaitResponse("x-f"), late.AwaitResponse("x-n")} {
			require.True(t, v.Get("success").Bool(), v.Raw)
		}
		assert.Greater(t, time.Since(asked), relay.DefaultWait, "else it tells nothing")
		require.NoError(t, c.Leave())
		require.NoError(t, late.Leave())
		nodes[0].End()
	})
}

// TestDrainIdle (O5) checks that idle sessions of a draining node are on another node within 300
// ms, and that commands sent meanwhile do not wait longer.
func TestDrainIdle(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b", "c")
		b := nodes[1]
		c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		long := c.OpenOn("b", "client-one")
		var all []string
		for i := range 8 {
			client := fmt.Sprintf("client-%d", i)
			c.Call(t, fmt.Sprintf(`{"type":"hello","clientId":%q,"features":["deltaUpdates"]}`, client))
			all = append(all, c.OpenOn("b", client))
			c.Run(all[i], "~x~ one")
		}
		c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=1000 parts=8"` + harness.At(long) + `}`)
		c.Advance(time.Second)
		begun := time.Now()
		b.Member.Drain()
		b.Daemon.Stop(actors.Stop{})
		c.Advance(time.Millisecond)
		for i, s := range all {
			c.Line(fmt.Sprintf(`{"id":"x-n%d","type":"set_session_name","name":"n"%s}`, i, harness.At(s)))
		}
		for i := range all {
			for !strings.Contains(strings.Join(c.Lines(), "\n"), fmt.Sprintf(`{"id":"x-n%d","type":"response"`, i)) {
				c.Advance(5 * time.Millisecond)
				require.Less(t, time.Since(begun), 300*time.Millisecond, i)
			}
		}
		c.Advance(12 * time.Second)
		for _, s := range append(all, long) {
			moved := c.Events(s, "session_moved")
			require.Len(t, moved, 1, c.Kinds(s))
			assert.Contains(t, []string{"a", "c"}, moved[0].Get("to").Str)
			assert.Equal(t, "released", moved[0].Get("why").Str)
		}
		assert.NotContains(t, strings.Join(c.Lines(), "\n"), `{"type":"draining"`, "the client's own node goes on")
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[2].End()
	})
}
