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
	"troupe/actors/relay"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

// TestEngineAway checks that a session waits while the engine is unreachable for a short time, and
// nothing is interrupted. After a longer time a command is refused. The session works again once
// the engine is back.
func TestEngineAway(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Engine.Cut(clustertest.Gone)
		waits := a.Say(id, "prompt", "~b~ two")
		read := a.Send(`{"type":"get_state"` + harness.At(id) + `}`)
		a.Advance(3 * time.Second)
		require.Contains(t, a.Unanswered(), waits)
		require.Contains(t, a.Unanswered(), read)
		assert.Len(t, a.Events(id, "session_waiting"), 1)
		a.Example(a.Events(id, "session_waiting")[0], "")
		a.Engine.Cut(clustertest.Whole)
		assert.True(t, a.AwaitAnswer(waits).Get("success").Bool())
		assert.True(t, a.AwaitAnswer(read).Get("success").Bool())
		a.Advance(10 * time.Second)
		a.CheckCopy(id)

		a.Engine.Cut(clustertest.Gone)
		refused := a.AwaitAnswer(a.Say(id, "prompt", "~c~ three"))
		assert.Contains(t, []string{"not_durable", "session_unavailable"}, harness.Code(refused), refused.Raw)
		a.Engine.Cut(clustertest.Whole)
		a.Advance(10 * time.Second)
		a.Run(id, "~d~ four")
		assert.Contains(t, a.Log(id), "~d~ four")
		assert.NotContains(t, a.Log(id), "~c~ three")
		a.CheckCopy(id)
	})
}

// TestEngineSaysNothing checks a write that may have reached the log: its answer says that the
// outcome is unknown, and the command is executed once if it is sent again under its id.
func TestEngineSaysNothing(t *testing.T) {
	for _, said := range []string{`{"id":"x","type":"prompt","message":"~b~ two"`, `{"id":"x","type":"bash","command":"echo two"`, `{"id":"x","type":"set_session_name","name":"two"`} {
		t.Run(gjson.Get(said+"}", "type").Str, func(t *testing.T) {
			nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
				a.Identify("client-me")
				id := a.Open()
				a.Run(id, "~a~ one")
				a.Engine.Cut(clustertest.Deaf)
				a.Line(said + harness.At(id) + `}`)
				for range 2000 {
					if a.Advance(20 * time.Millisecond); strings.Contains(strings.Join(a.Lines(), "\n"), `{"id":"x","type":"response"`) {
						break
					}
				}
				refused := a.Answer(t, "x")
				require.Equal(t, "session_unavailable", harness.Code(refused), refused.Raw)
				// Bash is not started before the log has the command.
				isBash := strings.Contains(said, "bash")
				assert.Equal(t, isBash, !a.RequireRetryInfo(refused), refused.Raw)
				assert.Contains(t, refused.Get("error").Str, "not known")
				a.Engine.Cut(clustertest.Whole)
				a.Advance(5 * time.Second)
				for range 2 {
					before := len(a.Lines())
					a.Line(said + harness.At(id) + `}`)
					a.Advance(15 * time.Second)
					assert.Contains(t, strings.Join(a.Lines()[before:], "\n"), `{"id":"x","type":"response"`)
				}
				text := a.Log(id)
				assert.Equal(t, strings.Count(said, "~b~ two"), strings.Count(text, `"text":"~b~ two"`), text)
				assert.Equal(t, strings.Count(said, `"name":"two"`), strings.Count(text, `"name":"two"`), text)
				a.CheckCopy(id)
			})
		})
	}
}

// TestReadWhileTheEngineIsAway checks that queries are answered from the node's copy while the
// engine is unreachable, with everything that was acknowledged, and from the log once it is back.
func TestReadWhileTheEngineIsAway(t *testing.T) {
	nodetest.Two(t, func(t *testing.T, a, b *nodetest.Node) {
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Run(id, "~b~ two")
		a.Engine.Cut(clustertest.Gone)
		refused := a.AwaitAnswer(a.Say(id, "prompt", "~c~ three"))
		require.Equal(t, "session_unavailable", harness.Code(refused), refused.Raw)
		for range 2 {
			for _, asked := range []string{"get_messages", "get_entries", "get_tree", "get_session_stats"} {
				began := time.Now()
				read := a.Call(t, fmt.Sprintf(`{"type":%q%s}`, asked, harness.At(id)))
				require.True(t, read.Get("success").Bool(), "%s: %s", asked, read.Raw)
				assert.Less(t, time.Since(began), 20*time.Second, asked)
				if asked != "get_session_stats" {
					assert.Contains(t, read.Raw, "~a~ one", asked)
					assert.Contains(t, read.Raw, "~b~ two", asked)
					assert.NotContains(t, read.Raw, "~c~ three", asked)
				}
			}
		}
		a.Engine.Cut(clustertest.Whole)
		a.Advance(10 * time.Second)
		a.Run(id, "~d~ four")
		a.CheckCopy(id)
		assert.Contains(t, a.Call(t, `{"type":"get_messages"`+harness.At(id)+`}`).Raw, "~d~ four")
	})
}

// TestEngineAwayAtTheFirstPrompt checks that a session without messages refuses its first prompt
// while the engine is unreachable, and works once it is back.
func TestEngineAwayAtTheFirstPrompt(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		id := a.Open()
		refuse := a.Say(id, "prompt", "~a~ one")
		a.Engine.Cut(clustertest.Gone)
		refused := a.AwaitAnswer(refuse)
		require.Contains(t, []string{"not_durable", "session_unavailable"}, harness.Code(refused), refused.Raw)
		a.Engine.Cut(clustertest.Whole)
		a.Advance(10 * time.Second)
		a.Call(t, `{"type":"get_state"`+harness.At(id)+`}`)
		a.Run(id, "~b~ two")
		assert.Contains(t, a.Log(id), "~b~ two")
		a.CheckCopy(id)
	})
}

// TestUnavailableIsNoAnswer checks that a command that was answered with session_unavailable is
// executed once when it is sent again under its id.
func TestUnavailableIsNoAnswer(t *testing.T) {
	nodetest.One(t, func(t *testing.T, a *nodetest.Node) {
		a.Identify("client-me")
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Engine.Cut(clustertest.Gone)
		a.Advance(2 * time.Second)
		said := `{"id":"x-n","type":"set_session_name","name":"mine"` + harness.At(id) + `}`
		a.Line(said)
		for range 2000 {
			if a.Advance(20 * time.Millisecond); strings.Contains(strings.Join(a.Lines(), "\n"), `{"id":"x-n","type":"response"`) {
				break
			}
		}
		require.Equal(t, "session_unavailable", harness.Code(a.Answer(t, "x-n")))
		a.Engine.Cut(clustertest.Whole)
		a.Advance(5 * time.Second)
		for range 2 {
			before := len(a.Lines())
			a.Line(said)
			a.Advance(5 * time.Second)
			answer := strings.Join(a.Lines()[before:], "\n")
			assert.Contains(t, answer, `{"id":"x-n","type":"response"`)
			assert.Contains(t, answer, `"success":true`)
		}
		assert.Equal(t, 1, strings.Count(a.Log(id), `"name":"mine"`))
	})
}

// TestStopWhileTheEngineIsAway checks that a session that waits for the engine does not delay the
// end of a daemon beyond its abort limit.
func TestStopWhileTheEngineIsAway(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a := nodetest.Start(t, engine, h, "a", func(c *actors.Config) { c.AbortLimit = time.Second })
		id := a.Open()
		a.Run(id, "~a~ one")
		a.Engine.Cut(clustertest.Gone)
		a.Say(id, "prompt", "~b~ two")
		a.Send(`{"type":"get_state"` + harness.At(id) + `}`)
		a.Advance(100 * time.Millisecond)
		began := time.Now()
		a.StopRequests <- actors.Stop{Abort: true}
		a.Client.Wait()
		assert.Less(t, time.Since(began), 3*time.Second)
	})
}

// TestReadThroughANodeWithoutTheEngine checks that a node that cannot look up a session's owner
// answers queries from its copy, and refuses other commands after a wait.
func TestReadThroughANodeWithoutTheEngine(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenOn("a", "client-one")
		c.Run(s, "~x~ one")
		require.True(t, c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`).Get("success").Bool())
		c.Advance(2 * time.Second)
		nodes[0].Engine.Cut(clustertest.Gone)
		began := time.Now()
		c.Line(`{"id":"x-a","type":"get_messages"` + harness.At(s) + `}`)
		v := c.AwaitResponse("x-a")
		assert.Contains(t, v.Raw, "~x~ one")
		assert.Less(t, time.Since(began), relay.DefaultWait)
		c.Line(`{"id":"x-b","type":"attach"` + harness.At(s) + `}`)
		v = c.AwaitResponse("x-b")
		assert.Equal(t, "session_unavailable", harness.Code(v), v.Raw)
		nodes[0].Engine.Cut(clustertest.Whole)
		c.Advance(5 * time.Second)
		require.NoError(t, c.Leave())
		nodes[0].End()
	})
}
