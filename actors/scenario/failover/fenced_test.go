package failover

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/tools"
)

// TestFencedKills (C7) checks that the processes of a session are killed within 200 ms after it has
// found out that another node owns it, even if they ignore signals, and that no new ones are
// started.
func TestFencedKills(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		var procs *tools.Procs
		a := nodetest.Start(t, engine, h, "a", func(c *actors.Config) {
			c.Sessions.Guard.Close() // its script would keep fake time from passing
			run := c.Sessions.Exec
			c.Sessions.Exec = func(ctx context.Context, spec tools.ExecSpec) (tools.ExecResult, error) {
				procs = spec.Env.Procs
				return run(ctx, spec)
			}
		})
		b := nodetest.Start(t, engine, h, "b")
		id := a.Open()
		a.Send(`{"type":"bash","command":"sleep=60000"` + harness.At(id) + `}`)
		a.Advance(time.Second)
		starts := func(command string) (string, error) {
			env := &tools.Env{Cwd: "/", Environ: []string{"PATH=/bin:/usr/bin"}, Procs: procs}
			r, err := tools.Exec(t.Context(), tools.ExecSpec{Env: env, Command: command})
			return strings.TrimSpace(r.Output.Content), err
		}
		pid, err := starts("trap '' TERM; sleep 300 </dev/null >/dev/null 2>&1 & echo $!")
		require.NoError(t, err)
		runs := func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err == nil && !strings.Contains(string(stat), ") Z ")
		}
		require.True(t, runs())
		a.Engine.Cut(clustertest.Gone)
		b.Take(id)
		require.True(t, runs())
		a.Engine.Cut(clustertest.Whole)
		read := a.Send(`{"type":"get_state"` + harness.At(id) + `}`)
		for range 100 {
			if a.Advance(10 * time.Millisecond); !slices.Contains(a.Unanswered(), read) {
				break
			}
		}
		require.NotContains(t, a.Unanswered(), read, "it knows")
		a.Advance(200 * time.Millisecond)
		assert.False(t, runs())
		_, err = starts("true")
		require.ErrorContains(t, err, "closing")
		a.End()
		b.End()
	})
}

// TestFenced (C7) checks that an owner that was cut off, and returns after another node has claimed
// its session, has no more effects: no event, no successful answer, no write.
func TestFenced(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Say(id, "prompt", "~x~ pace=500 parts=40")
		a.Advance(2 * time.Second)
		a.Engine.Cut(clustertest.Gone)
		require.Equal(t, id, b.Take(id))
		a.Engine.Cut(clustertest.Whole)
		a.Advance(time.Second)
		before := len(a.Events(id))
		cmd := a.Send(`{"type":"prompt","message":"too late","streamingBehavior":"followUp"` + harness.At(id) + `}`)
		v := a.AwaitAnswer(cmd)
		assert.False(t, v.Get("success").Bool(), v.Raw)
		a.Advance(time.Minute)
		assert.Len(t, a.Events(id), before)
		assert.NotContains(t, b.Log(id), "too late")
		assert.NotContains(t, a.Call(t, `{"type":"list_open_sessions"}`).Raw, id)
		b.Advance(time.Minute)
		kinds := b.Kinds(id)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		b.CheckCopy(id)
	})
}

// TestFencedEndsWhatHasBegun checks that spans end for a client whose own node was the owner and
// was fenced. The session itself sends nothing more (C7). The relay ends the spans after
// session_moved, whether the run continues on the new owner or has ended there.
func TestFencedEndsWhatHasBegun(t *testing.T) {
	for _, stops := range []bool{false, true} {
		for _, c := range []struct {
			prompt   string
			features string
			away     time.Duration
		}{
			{"pace=500 parts=8", `["deltaUpdates"]`, 0},
			{"tool=danger rounds=1 calls=2 work=9000", `["deltaUpdates"]`, 3 * time.Second},
			{"tool=danger rounds=1 calls=2 work=9000", `["deltaUpdates","seq"]`, 3 * time.Second},
		} {
			t.Run(fmt.Sprint(stops, c), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) { fencedEnds(t, stops, c.prompt, c.features, c.away) })
			})
		}
	}
}

func fencedEnds(t *testing.T, stops bool, prompt, features string, away time.Duration) {
	w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) { c.Sessions.Cluster.Stop, c.Relay.Stops = stops, stops }, "a", "b")
	a, b := nodes[0], nodes[1]
	c := nodetest.NewClient(a, "client-one", `,"features":`+features)
	s := c.OpenOn("a", "client-one")
	c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ ` + prompt + `"` + harness.At(s) + `}`)
	c.Advance(1300 * time.Millisecond)
	begun := c.Kinds(s)
	require.NotContains(t, begun, "agent_settled")
	a.Engine.Cut(clustertest.Gone)
	w.SetNode("a", nil)
	other := nodetest.NewClient(b, "client-two", `,"features":["deltaUpdates"]`)
	v := other.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
	require.True(t, v.Get("success").Bool(), v.Raw)
	other.Advance(away)
	a.Engine.Cut(clustertest.Whole)
	c.Advance(time.Minute)
	kinds := c.Kinds(s)
	// It receives resync, and attaches again to read the state.
	if strings.Contains(features, "seq") {
		assert.Equal(t, []string{"session_moved", "resync"}, kinds[len(begun):])
	} else {
		open, _ := c.Spans(s)
		assert.Empty(t, open, kinds)
		assert.Equal(t, 1, strings.Count(strings.Join(kinds, " "), "agent_settled"), kinds)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Equal(t, "session_moved", kinds[len(begun)], kinds)
	}
	require.NoError(t, c.Leave())
	require.NoError(t, other.Leave())
	a.End()
	b.End()
}
