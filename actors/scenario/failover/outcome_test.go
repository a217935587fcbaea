package failover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/protocol"
	"troupe/tools"
)

// counted returns an option: ran counts the bash commands that run on any node.
func counted(ran *atomic.Int32) func(*actors.Config) {
	return func(c *actors.Config) {
		c.Sessions.Exec = func(ctx context.Context, spec tools.ExecSpec) (tools.ExecResult, error) {
			ran.Add(1)
			return actortest.Exec(ctx, spec)
		}
	}
}

// exampleOf returns a line with the command and values for all its required parameters.
func exampleOf(s protocol.Spec, id, session string) string {
	var line strings.Builder
	fmt.Fprintf(&line, `{"id":%s,"type":%q,"sessionId":%q`, id, s.Name, session)
	for _, p := range s.Parameters() {
		if !p.Required || p.Name == "sessionId" {
			continue
		}
		value := `"x"`
		switch of := s.Params.Field(p.Index).Type; {
		case len(p.Enum) > 0:
			value = strconv.Quote(p.Enum[0])
		case of.Kind() == reflect.Bool:
			value = "true"
		case of.Kind() == reflect.Slice:
			value = "[]"
		case of.Kind() == reflect.Struct || of.Kind() == reflect.Pointer || of.Kind() == reflect.Map:
			value = "{}"
		case of.Kind() == reflect.Int || of.Kind() == reflect.Int64 || of.Kind() == reflect.Float64:
			value = strconv.Itoa(max(1, p.Min))
		}
		fmt.Fprintf(&line, ",%q:%s", p.Name, value)
	}
	return line.String() + "}"
}

// TestOutcomeOfLostNodes checks the answers to commands that a node was executing when it was lost,
// cut off or stalled. Queries are repeated on the new owner. The answer to any other command says
// that it may have run, and has no time after which to send it again.
func TestOutcomeOfLostNodes(t *testing.T) {
	for _, how := range []string{"lost", "cut", "stands still"} {
		t.Run(how, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
					if c.Epoch == "eb" {
						// This delays the requests after the first prompt.
						harness.Faults("Delay 1s * Request 3+")(c)
					}
				}, "a", "b")
				a, b := nodes[0], nodes[1]
				c := a.ConnectNode()
				s := nodetest.NewClient(a, "client-one", "").OpenOn("b", "client-one")
				c.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
				c.Run(s, "~x~ one")
				specs := map[string]protocol.Spec{}
				for i, spec := range protocol.Commands {
					if spec.Scope != protocol.ScopeConnection && !spec.Silent && spec.Effect() != protocol.EffectNone {
						id := fmt.Sprint("x-", i)
						specs[id] = spec
						c.Line(exampleOf(spec, strconv.Quote(id), s))
					}
				}
				c.Line(`{"id":"x-q","type":"get_state"` + harness.At(s) + `}`)
				c.Advance(20 * time.Millisecond)
				switch how {
				case "lost":
					w.Lose("b")
				case "cut":
					w.CutAll()
				default:
					b.Lose()
				}
				for id, spec := range specs {
					v := c.AwaitResponse(id)
					require.False(t, v.Get("success").Bool(), v.Raw)
					assert.True(t, c.RequireRetryInfo(v), "%s: %s", spec.Name, v.Raw)
				}
				// The query comes after the commands that the node has started.
				for c.Advance(time.Minute); len(c.Responses("x-q")) == 0; {
					c.Advance(time.Minute)
				}
				assert.True(t, c.AwaitResponse("x-q").Get("success").Bool())
				assert.GreaterOrEqual(t, len(specs), 30)
				require.NoError(t, c.Leave())
				a.End()
				if how == "cut" {
					b.End()
				}
			})
		})
	}
}

// TestBashOfLostNodes checks that a bash command runs once, whatever happens to its node. If the
// outcome is unknown, the answer says that the command may have run. A client with an id gets the
// same answer from the log when it sends the line again.
func TestBashOfLostNodes(t *testing.T) {
	for _, how := range []string{"lost", "stands still", "cut", "drained"} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprint(how, named), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) { bashOfLostNode(t, how, named) })
			})
		}
	}
}

func bashOfLostNode(t *testing.T, how string, named bool) {
	var ran atomic.Int32
	w, _, nodes := nodetest.ClusterWith(t, counted(&ran), "a", "b")
	a, b := nodes[0], nodes[1]
	c := a.ConnectNode()
	if named {
		c = nodetest.NewClient(a, "client-one", "")
	}
	s := nodetest.NewClient(a, "client-two", "").OpenOn("b", "client-two")
	require.True(t, c.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("success").Bool())
	c.Run(s, "~x~ one")
	line := `{"id":"x-b","type":"bash","command":"sleep=20000"` + harness.At(s) + `}`
	c.Line(line)
	c.Advance(time.Second)
	require.EqualValues(t, 1, ran.Load())
	switch how {
	case "lost":
		w.Lose("b")
	case "stands still":
		b.Lose()
	case "cut":
		w.CutAll()
	case "drained":
		b.Close()
		c.Advance(time.Second)
		c.Line(`{"id":"x-n","type":"set_session_name","name":"later"` + harness.At(s) + `}`)
	}
	v := c.AwaitResponse("x-b")
	for range 3 {
		if v.Exists() {
			break
		}
		v = c.AwaitResponse("x-b")
	}
	switch {
	case how == "drained", how == "cut" && named:
		assert.True(t, v.Get("success").Bool(), v.Raw)
	default:
		assert.True(t, c.RequireRetryInfo(v), v.Raw)
		if named {
			assert.Equal(t, "cancelled", harness.Code(v), "the session is there again: %s", v.Raw)
			again := c.Resend(line, "x-b")
			assert.True(t, c.RequireRetryInfo(again), again.Raw)
		}
	}
	c.Advance(30 * time.Second)
	assert.EqualValues(t, 1, ran.Load(), v.Raw)
	require.NoError(t, c.Leave())
	a.End()
	switch {
	case how == "drained":
		b.Wait()
	case !b.Lost:
		b.End()
	}
}

// TestAnsweredByTheLog checks that a command that was executed on a lost node is answered from the
// log when it is sent again, with the data that the log has.
func TestAnsweredByTheLog(t *testing.T) {
	for _, of := range []struct{ line, data string }{
		{`"type":"bash","command":"quick exit=3"`, `{"output":"0 of quick exit=3\n","exitCode":3,"cancelled":false,"truncated":false}`},
		{`"type":"prompt","message":"~x~ two"`, `{"disposition":"started"}`},
		{`"type":"follow_up","message":"~x~ two"`, `{"disposition":"queued"}`},
		{`"type":"set_session_name","name":"two"`, ``},
	} {
		t.Run(of.line, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				w, _, nodes := nodetest.Cluster(t, "a", "b")
				c := nodetest.NewClient(nodes[0], "client-one", "")
				s := c.OpenOn("b", "client-one")
				c.Run(s, "~x~ one")
				if strings.Contains(of.line, "follow_up") {
					c.Say(s, "prompt", "~x~ running tool=danger rounds=1 calls=1 work=60000")
					c.Advance(time.Second)
				}
				line := `{"id":"x-l",` + of.line + harness.At(s) + `}`
				c.Line(line)
				first := c.AwaitResponse("x-l")
				require.True(t, first.Get("success").Bool(), first.Raw)
				w.Lose("b")
				again := c.Resend(line, "x-l")
				require.True(t, again.Get("success").Bool() && again.Get("replayed").Bool(), again.Raw)
				if of.data == "" {
					assert.False(t, again.Get("data").Exists(), again.Raw)
				} else {
					assert.JSONEq(t, of.data, again.Get("data").Raw)
				}
				require.NoError(t, c.Leave())
				nodes[0].End()
			})
		})
	}
}

// TestOutsideOfTheLog checks that a command whose effect is not in the log is not executed again on
// the next node, because the log has its start. A command of an extension is then answered as
// handled.
func TestOutsideOfTheLog(t *testing.T) {
	gate := gated(t)
	for _, name := range []string{"prompt", "export_html"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.html")
			harness.Bubble(t, func(t *testing.T) {
				var ran atomic.Int32
				w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
					gate(c)
					c.Sessions.ExtensionHost = actortest.GateHost{Ran: &ran}
					if c.Epoch == "eb" {
						harness.Faults("Delay 5s * Reply")(c)
					}
				}, "a", "b")
				c := nodetest.NewClient(nodes[0], "client-one", `,"features":["dialogEvents"]`)
				s := c.OpenOn("b", "client-one")
				c.Say(s, "prompt", "~x~ one")
				c.Advance(20 * time.Second)
				acted := func() int { return int(ran.Swap(0)) }
				line := `{"id":"x-o","type":"prompt","message":"/xc"` + harness.At(s) + `}`
				if name == "export_html" {
					acted = func() int {
						if os.Remove(path) != nil {
							return 0
						}
						return 1
					}
					line = fmt.Sprintf(`{"id":"x-o","type":"export_html","outputPath":%q%s}`, path, harness.At(s))
				}
				c.Line(line)
				c.Advance(2 * time.Second)
				n := acted()
				w.Lose("b")
				v := c.AwaitResponse("x-o")
				if name == "prompt" {
					assert.Equal(t, "handled", v.Get("data.disposition").Str, v.Raw)
				} else {
					assert.True(t, c.RequireRetryInfo(v), v.Raw)
				}
				again := c.Resend(line, "x-o")
				assert.Equal(t, v.Get("data").Raw, again.Get("data").Raw)
				c.Advance(10 * time.Second)
				assert.Equal(t, 1, n+acted())
				require.NoError(t, c.Leave())
				nodes[0].End()
			})
		})
	}
}
