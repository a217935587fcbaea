package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestKeysOverNodes checks that a prompt, a bash command and a new_session with a known idempotency
// key are not executed again on the next node, although nodes keep their files in different places.
// The usage of the session's budget is kept, too.
func TestKeysOverNodes(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a := nodetest.Start(t, engine, h, "a")
		b := nodetest.Start(t, engine, h, "b", func(c *actors.Config) { c.Sessions.Cluster.Dir = "/elsewhere" })
		id := a.Open()
		require.True(t, a.Call(t, `{"type":"set_budget","limits":{"maxOutputTokens":1000000}`+harness.At(id)+`}`).Get("success").Bool())
		named := `"idempotencyKey":"k-%d"`
		require.True(t, a.AwaitAnswer(a.Say(id, "prompt", "~a~ one", fmt.Sprintf(named, 1))).Get("success").Bool())
		a.Advance(10 * time.Second)
		used := a.Call(t, `{"type":"get_budget"`+harness.At(id)+`}`).Get("data.snapshot.outputTokens").Int()
		require.Positive(t, used)
		require.True(t, a.Call(t, fmt.Sprintf(`{"type":"set_budget","limits":{"maxOutputTokens":%d}`, used+1)+harness.At(id)+`}`).Get("success").Bool())
		bash := `{"type":"bash","command":"quick",` + fmt.Sprintf(named, 2) + harness.At(id) + `}`
		require.True(t, a.Call(t, bash).Get("success").Bool())
		next := `{"type":"new_session",` + fmt.Sprintf(named, 3) + harness.At(id) + `}`
		require.True(t, a.Call(t, next).Get("success").Bool())
		a.Advance(time.Second)
		made := a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.sessionId").Str
		require.NotEqual(t, id, made)
		a.Run(id, "~m~ of the new one")
		a.Lose()

		var v gjson.Result
		for begun := time.Now(); time.Since(begun) < 3*time.Second && !v.Get("success").Bool(); {
			v = b.Call(t, `{"type":"open_session","sessionPath":"/elsewhere/`+id+`.jsonl"}`)
		}
		require.True(t, v.Get("success").Bool(), v.Raw)
		again := b.AwaitAnswer(b.Say(id, "prompt", "~a~ one", fmt.Sprintf(named, 1)))
		assert.Equal(t, "started", again.Get("data.disposition").Str, again.Raw)
		require.True(t, b.Call(t, bash).Get("success").Bool())
		b.Advance(10 * time.Second)
		assert.Empty(t, b.Models.Asked())
		lines := b.Log(id)
		assert.Equal(t, 1, strings.Count(lines, `"bashExecution"`))
		budget := b.Call(t, `{"type":"get_budget"`+harness.At(id)+`}`)
		assert.Equal(t, used, budget.Get("data.snapshot.outputTokens").Int(), budget.Raw)
		assert.Equal(t, used+1, budget.Get("data.limits.maxOutputTokens").Int(), budget.Raw)
		b.Say(id, "prompt", "~b~ two")
		b.Advance(10 * time.Second)
		over := b.AwaitAnswer(b.Say(id, "prompt", "~c~ three"))
		assert.Equal(t, "budget_exceeded", harness.Code(over), over.Raw)
		require.True(t, b.Call(t, next).Get("success").Bool())
		assert.Equal(t, made, b.Call(t, `{"type":"get_state"`+harness.At(id)+`}`).Get("data.sessionId").Str)
		assert.Contains(t, b.Call(t, `{"type":"get_messages"`+harness.At(id)+`}`).Raw, "of the new one")
		b.End()
	})
}
