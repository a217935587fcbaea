package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// chosen returns everything that clients have chosen for a session, when they opened it or later.
func chosen(n *nodetest.Node, id string) string {
	n.T.Helper()
	state := n.Call(n.T, `{"type":"get_state"`+harness.At(id)+`}`).Get("data")
	names := n.Call(n.T, `{"type":"get_tools"`+harness.At(id)+`}`).Get("data.activeToolNames").Raw
	said := []string{names}
	for _, of := range []string{"permissionMode", "steeringMode", "followUpMode", "interruptMode", "autoCompactionEnabled", "autoRetryEnabled"} {
		said = append(said, of+" "+state.Get(of).String())
	}
	grants := n.Call(n.T, `{"type":"get_permissions"`+harness.At(id)+`}`).Get("data.grants").Raw
	return strings.Join(append(said, "grants "+grants), "\n")
}

// choose opens a session with non-default options, and changes every setting that can be changed.
func choose(n *nodetest.Node) (id string) {
	n.T.Helper()
	v := n.Call(n.T, `{"type":"open_session","permissionMode":"ask","sandbox":"workspace","sandboxNetwork":"off","tools":["note","danger"],"systemPrompt":"You are X.","settings":{"todo":{"reminders":false},"httpProxy":"http://me:secret@proxy"}}`)
	require.True(n.T, v.Get("success").Bool(), v.Raw)
	id = v.Get("data.sessionId").Str
	for _, command := range []string{
		`{"type":"set_steering_mode","mode":"all"`, `{"type":"set_follow_up_mode","mode":"all"`, `{"type":"set_interrupt_mode","mode":"wait"`,
		`{"type":"set_auto_compaction","enabled":false`, `{"type":"set_auto_retry","enabled":false`, `{"type":"set_active_tools","toolNames":["note"]`,
	} {
		v := n.Call(n.T, command+harness.At(id)+`}`)
		require.True(n.T, v.Get("success").Bool(), v.Raw)
	}
	return id
}

// TestChoicesOverNodes checks that the options and settings that clients have chosen for a session
// are kept when it is lost, moved or parked and opened on another node. Values that belong to a
// node or are secret are not written to its log.
func TestChoicesOverNodes(t *testing.T) {
	for how, leave := range map[string]func(t *testing.T, a *nodetest.Node, id string){
		"lost": func(_ *testing.T, a *nodetest.Node, _ string) { a.Lose() },
		"moved": func(t *testing.T, a *nodetest.Node, id string) {
			v := a.Call(t, `{"type":"move_session","node":"b"`+harness.At(id)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
		},
		"parked": func(_ *testing.T, a *nodetest.Node, id string) {
			a.Advance(2 * time.Minute)
			a.RequireParked(id)
		},
	} {
		t.Run(how, func(t *testing.T) {
			nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
				id := choose(a)
				a.Hello("allows-things", "Ann", "approvals")
				a.Say(id, "prompt", "~g~ rounds=1")
				a.Advance(time.Second)
				asked := a.Events(id, "approval_request")
				require.Len(t, asked, 1)
				v := a.Call(t, `{"type":"approval_response","optionId":"session","approvalId":"`+asked[0].Get("id").Str+`"`+harness.At(id)+`}`)
				require.True(t, v.Get("success").Bool(), v.Raw)
				a.Advance(30 * time.Second)
				was := chosen(a, id)
				require.Contains(t, was, "permissionMode ask")
				require.Contains(t, was, `"scope":"session"`)
				require.Contains(t, was, `["note"]`)
				require.NotContains(t, a.Log(id), "secret")
				leave(t, a, id)
				require.Equal(t, id, b.Take(id))
				assert.Equal(t, was, chosen(b, id))
				b.Run(id, "~b~ two")
				v = b.Call(t, `{"type":"new_session"`+harness.At(id)+`}`)
				require.True(t, v.Get("success").Bool(), v.Raw)
				was, _, _ = strings.Cut(was, "grants")
				is, grants, _ := strings.Cut(chosen(b, id), "grants")
				assert.Equal(t, was, is, "another session in its place")
				assert.Equal(t, " []", grants)
			}, func(c *actors.Config) { c.Sessions.ParkAfter = time.Minute })
		})
	}
}

// TestChoicesEnd checks that a session that was closed, live or parked, has the default settings
// when it is opened again.
func TestChoicesEnd(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		usual := a.Open()
		a.Run(usual, "~u~ x")
		require.NotContains(t, a.Log(usual), "troupe.choices", "nobody has chosen anything")
		for _, idle := range []time.Duration{0, 2 * time.Minute} {
			id := choose(a)
			a.Run(id, "~a~ one")
			a.Advance(idle)
			v := a.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			require.Equal(t, id, b.Take(id))
			assert.Equal(t, chosen(a, usual), chosen(b, id))
		}
	}, func(c *actors.Config) { c.Sessions.ParkAfter = time.Minute })
}

// TestChoiceIsKept checks that a setting that cannot be written to the log is refused and not
// changed.
func TestChoiceIsKept(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := choose(a)
		a.Run(id, "~a~ one")
		was := chosen(a, id)
		a.Engine.Cut(clustertest.Gone)
		for _, command := range []string{`{"type":"set_permission_mode","mode":"auto"`, `{"type":"set_steering_mode","mode":"one-at-a-time"`, `{"type":"set_active_tools","toolNames":["danger"]`} {
			v := a.Call(t, command+harness.At(id)+`}`)
			assert.Contains(t, []string{"not_durable", "session_unavailable"}, harness.Code(v), v.Raw)
		}
		a.Engine.Cut(clustertest.Whole)
		a.Advance(10 * time.Second)
		assert.Equal(t, was, chosen(a, id))
		a.Run(id, "~b~ two")
		a.Lose()
		b.Take(id)
		assert.Equal(t, was, chosen(b, id))
	})
}

// TestLimitsOverNodes checks that limits that a client has set, higher than the daemon's or none,
// are kept on the next node until the session is closed.
func TestLimitsOverNodes(t *testing.T) {
	for name, limits := range map[string]string{"higher": `{"maxTotalTokens":5000000,"maxToolCalls":50}`, "none": `{"maxTotalTokens":null,"maxToolCalls":null}`} {
		t.Run(name, func(t *testing.T) {
			nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
				id := a.Open()
				a.Run(id, "~a~ one")
				budget := func(n *nodetest.Node) string {
					return n.Call(t, `{"type":"get_budget"`+harness.At(id)+`}`).Get("data.limits").Raw
				}
				require.Contains(t, budget(a), `"maxTotalTokens":1000`)
				v := a.Call(t, `{"type":"set_budget","limits":`+limits+harness.At(id)+`}`)
				require.True(t, v.Get("success").Bool(), v.Raw)
				was := budget(a)
				require.NotContains(t, was, `"maxTotalTokens":1000`)
				a.Lose()
				b.Take(id)
				assert.Equal(t, was, budget(b))
				b.Call(t, `{"type":"close_session"`+harness.At(id)+`}`)
				b.Take(id)
				assert.NotEqual(t, was, budget(b), "it was closed")
			}, func(c *actors.Config) {
				c.Sessions.Budget = []byte(`{"task":{"budget":{"maxTotalTokens":1000,"maxToolCalls":3}}}`)
			})
		})
	}
}
