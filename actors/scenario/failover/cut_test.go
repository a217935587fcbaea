package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// cutFor breaks the wire to a node for a time.
func cutFor(w *nodetest.Network, to, by *nodetest.Node, d time.Duration) {
	w.SetNode(to.Name, nil)
	w.CutAll()
	by.Advance(d)
	w.SetNode(to.Name, to)
	by.Advance(10 * time.Second)
}

// TestAnsweredWhileAWireIsCut checks that a client without the feature seq, whose wire to the node of its session breaks
// for a moment, reads the end of a dialog or approval that another client has answered meanwhile, once. One that is
// still open stays open for it, and it can answer that.
func TestAnsweredWhileAWireIsCut(t *testing.T) {
	gate := gated(t)
	for _, by := range []struct {
		feature, asks, ends string
		answer              string // with the id
		change              func(*actors.Config)
	}{
		{"approvals", "approval_request", "approval_resolved", `{"id":"%[2]s","type":"approval_response","approvalId":%[1]q,"optionId":"once"`, harness.AskMode},
		{"dialogEvents", "extension_ui_request", "dialog_resolved", `{"type":"extension_ui_response","id":%[1]q,"confirmed":true`, gate},
	} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprint(by.feature, answered), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.ClusterWith(t, by.change, "a", "b")
					a, b := nodes[0], nodes[1]
					c := nodetest.NewClient(a, "client-one", `,"features":["deltaUpdates","`+by.feature+`"]`)
					other := nodetest.NewClient(b, "client-two", `,"features":["deltaUpdates","`+by.feature+`"]`)
					s := c.OpenOn("b", "client-one")
					require.True(t, other.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
					c.Say(s, "prompt", "~x~ rounds=1 calls=1 tool=danger")
					c.Advance(time.Second)
					asked := questions(c, s, by.asks)
					require.Len(t, asked, 1, c.Kinds(s))
					answer := func(n *nodetest.Node) {
						n.Line(fmt.Sprintf(by.answer, asked[0], "x-answer") + harness.At(s) + `}`)
						n.Advance(time.Second)
					}
					if answered {
						w.SetNode("b", nil)
						w.CutAll()
						answer(other)
					}
					cutFor(w, b, c, 500*time.Millisecond)
					if !answered {
						require.Empty(t, c.Events(s, by.ends), "it is open")
						require.Equal(t, asked, questions(c, s, by.asks))
						answer(c)
						c.Advance(10 * time.Second)
					}
					over := c.Events(s, by.ends)
					require.Len(t, over, 1, c.Kinds(s))
					assert.Equal(t, asked[0], over[0].Get("id").Str)
					kinds := c.Kinds(s)
					assert.Equal(t, 1, strings.Count(strings.Join(kinds, " "), "agent_settled"), kinds)
					open, wrong := c.Spans(s)
					assert.Empty(t, append(open, wrong...), kinds)
					require.NoError(t, c.Leave())
					require.NoError(t, other.Leave())
					a.End()
					b.End()
				})
			})
		}
	}
}

// TestChildrenEndWhileAWireIsCut checks that a client without the feature seq reads one end of each child whose
// beginning it has read, however long the wire to the node was broken.
func TestChildrenEndWhileAWireIsCut(t *testing.T) {
	for _, each := range []string{"rounds=1,work=1500", "rounds=3,work=900", "parts=20,pace=50"} {
		for _, d := range []time.Duration{300 * time.Millisecond, 900 * time.Millisecond, 20 * time.Second} {
			t.Run(fmt.Sprint(each, d), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.ClusterWith(t, harness.WithTasks, "a", "b")
					a, b := nodes[0], nodes[1]
					c := nodetest.NewClient(a, "client-one", `,"features":["deltaUpdates"]`)
					s := c.OpenOn("b", "client-one")
					c.Call(t, `{"type":"set_subagent_subscription","level":"progress"`+harness.At(s)+`}`)
					c.Say(s, "prompt", "~p~ tool=task rounds=2 children=2 each="+each)
					c.Advance(700 * time.Millisecond)
					require.NotEmpty(t, c.Events(s, "subagent_start"), c.Kinds(s))
					cutFor(w, b, c, d)
					c.Advance(time.Minute)
					begun, ended := map[string]int{}, map[string]int{}
					for _, e := range c.Events(s, "subagent_start") {
						begun[e.Get("id").Str]++
					}
					for _, e := range c.Events(s, "subagent_end") {
						ended[e.Get("id").Str]++
					}
					assert.Equal(t, begun, ended, c.Kinds(s))
					kinds := c.Kinds(s)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
					require.NoError(t, c.Leave())
					a.End()
					b.End()
				})
			})
		}
	}
}
