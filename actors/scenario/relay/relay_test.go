package relay

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
)

var everyCut = flag.Bool("relay.cuts", false, "cut the wire between nodes at every byte, and not at some")

// eventLines returns the events of a session that its owner has sent, without those of relays.
func eventLines(c *nodetest.Node, session string) (lines []string) {
	for _, e := range c.Events(session) {
		if kind := e.Get("type").Str; kind != "session_moved" && kind != "resync" {
			lines = append(lines, e.Raw)
		}
	}
	return lines
}

// TestRelayedBytes (C10) checks that a client reads the same bytes through another node as from the
// owner, except for the names of the nodes.
func TestRelayedBytes(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		script := func(n *nodetest.Node) []string {
			c := nodetest.NewClient(n, "client-one", `,"features":["seq","deltaUpdates","stateEvents"]`)
			s := c.OpenOn("b", "client-one")
			for _, line := range []string{
				`{"type":"get_state"%s}`, `{"type":"set_session_name","name":"a name"%s}`,
				`{"type":"prompt","message":"~x~ pace=50 parts=8 tool=look rounds=2"%s}`,
				`{"type":"get_messages"%s}`, `{"type":"get_entries"%s}`, `{"type":"no_such_thing","x":[1,2]%s}`, `{"type":"set_model"%s}`, `{"type":"prompt","message":7%s}`,
				`{"type":"attach"%s,"snapshot":{}}`, `{"type":"detach"%s}`, `{"type":"get_state"%s}`, `{"type":"attach"%s}`, `{"type":"bash","command":"echo hi"%s}`,
				`{"type":"close_session"%s}`, `{"type":"get_state"%s}`,
			} {
				c.Call(t, fmt.Sprintf(line, harness.At(s)))
				c.Advance(10 * time.Second)
			}
			lines := c.Lines()[1:] // the answer to hello names the node
			for i := range lines {
				lines[i] = nodetest.NodeMembers.ReplaceAllString(lines[i], "")
			}
			require.NoError(t, c.Leave())
			return lines
		}
		world := func(gateway int) (lines []string) {
			_, _, nodes := nodetest.Cluster(t, "a", "b")
			lines = script(nodes[gateway])
			for _, n := range nodes {
				n.End()
			}
			return lines
		}
		begun := time.Now()
		direct := world(1)
		time.Sleep(time.Hour - time.Since(begun)) // timestamps differ by an hour
		relayed := world(0)
		times := regexp.MustCompile(`"(timestamp|[a-zA-Z]*[sS]ince|modified|created|t)":("[^"]*"|\d+)|"id":"[0-9a-f]{8}"|"parentId":"[0-9a-f]{8}"|"leafId":"[0-9a-f]{8}"|"entryId":"[0-9a-f]{8}"`)
		for i := range max(len(direct), len(relayed)) {
			require.Less(t, i, len(direct), relayed)
			require.Less(t, i, len(relayed), direct[i:])
			require.Equal(t, times.ReplaceAllString(direct[i], ""), times.ReplaceAllString(relayed[i], ""))
		}
		assert.Greater(t, len(direct), 40)
	})
}

// TestDirectoriesOfASession checks that list_directories lists the files of the session's owner if
// the command names a session, and those of the client's node otherwise.
func TestDirectoriesOfASession(t *testing.T) {
	dirs := map[string]string{"a": t.TempDir(), "b": t.TempDir()}
	for name, dir := range dirs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "of-"+name), nil, 0o600))
	}
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) { c.Conn.Default.Cwd = dirs[strings.TrimPrefix(c.Epoch, "e")] }, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		files := func(of string) string {
			return c.Call(t, `{"type":"list_directories","files":true`+of+`}`).Get("data.files").Raw
		}
		assert.Equal(t, `["of-a"]`, files(""))
		assert.Equal(t, `["of-a"]`, files(harness.At(c.OpenOn("a", "client-one"))))
		assert.Equal(t, `["of-b"]`, files(harness.At(c.OpenOn("b", "client-one"))))
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestInMemoryInARoot checks that a session in memory is opened by the client's node in the root
// that it names, and that options that need a log are refused.
func TestInMemoryInARoot(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.ClusterWith(t, func(*actors.Config) {}, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		for said, want := range map[string]string{
			`"cwd":"w:"`: "", `"cwd":"none:x"`: "nowhere", `"cwd":"g:"`: "invalid_params", `"cwd":"w:","wants":{"labels":{"gpu":"yes"}}`: "invalid_params",
		} {
			v := c.Call(t, `{"type":"open_session","noSession":true,`+said+`}`)
			assert.Equal(t, want, harness.Code(v), v.Raw)
		}
		v := c.Call(t, `{"type":"open_session","noSession":true,"cwd":"w:"}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		is := c.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="` + v.Get("data.sessionId").Str + `")`)
		assert.Equal(t, harness.EmptyDir, is.Get("cwd").Str, is.Raw)
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestRelayCut (N8) cuts the connection between two nodes after any number of bytes, in either
// direction. It checks that each command is answered once and executed once and in order, and that
// the client reads the same events as a client of the owner (C10), by attaching again after resync.
func TestRelayCut(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		a, b := nodes[0], nodes[1]
		var unseen, told int
		cut := func(way, after int) (passed int) {
			client := fmt.Sprintf("client-%d-%05d", way, after)
			w.CutNext(way, after)
			c := nodetest.NewClient(a, client, `,"features":["deltaUpdates","seq"]`)
			s := c.OpenOn("b", client)
			direct := nodetest.NewClient(b, "client-direct", `,"features":["deltaUpdates","seq"]`)
			direct.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
			c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ one"` + harness.At(s) + `}`)
			c.Line(`{"id":"x-p2","type":"follow_up","message":"~x~ two"` + harness.At(s) + `}`)
			c.Line(`{"id":"x-g1","type":"get_state"` + harness.At(s) + `}`)
			c.Advance(10 * time.Second)
			for _, id := range []string{"x-p1", "x-p2", "x-g1"} {
				v := c.AwaitResponse(id)
				require.True(t, v.Get("success").Bool(), "cut %d %d: %s", way, after, v.Raw)
			}
			text := b.Log(s)
			require.Equal(t, 1, nodetest.CountUserSaid(text, "~x~ one"), "cut %d %d: %s", way, after, text)
			require.Equal(t, 1, nodetest.CountUserSaid(text, "~x~ two"), "cut %d %d: %s", way, after, text)
			require.Less(t, strings.Index(text, nodetest.UserSaid+"~x~ one"), strings.Index(text, nodetest.UserSaid+"~x~ two"))
			if before := eventLines(c, s); slices.Contains(c.Kinds(s), "resync") {
				told++
				last := int64(0)
				if n := len(before); n > 0 {
					last = gjson.Get(before[n-1], "seq").Int()
				}
				v := c.Call(t, fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"eb","seq":%d}}`, harness.At(s), last))
				require.Equal(t, "exact", v.Get("data.replay").Str, v.Raw)
				c.Advance(time.Second)
			} else {
				unseen++
			}
			require.Equal(t, eventLines(direct, s), eventLines(c, s), "cut %d %d", way, after)
			require.NoError(t, direct.Leave())
			first := w.TakeLink()
			c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
			require.NoError(t, c.Leave())
			return first.Passed(way)
		}
		step := 37
		if *everyCut {
			step = 1
		}
		for way := range 2 {
			all := cut(way, -1)
			require.Greater(t, all, 300)
			for k := 0; k < all; k += step {
				cut(way, k)
			}
		}
		assert.NotZero(t, unseen, "nothing was open, or nothing was said behind it")
		assert.NotZero(t, told)
		a.End()
		b.End()
	})
}

// TestRelayFailsOver checks that a session whose owner is lost continues for a client of another
// node. A client with the feature seq attaches again and reads a snapshot of the new epoch. A
// command without an answer is answered once.
func TestRelayFailsOver(t *testing.T) {
	for _, features := range []string{`["seq","deltaUpdates"]`, `["deltaUpdates"]`} {
		t.Run(features, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				w, _, nodes := nodetest.Cluster(t, "a", "b", "c")
				c := nodetest.NewClient(nodes[0], "client-one", `,"features":`+features)
				s := c.OpenOn("b", "client-one")
				c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ pace=500 parts=8"` + harness.At(s) + `}`)
				c.Advance(2 * time.Second)
				require.Len(t, nodes[1].Models.Asked(), 1)
				w.Lose("b")
				lost := time.Now()
				c.Line(`{"id":"x-p2","type":"follow_up","message":"~x~ two"` + harness.At(s) + `}`)
				v := c.AwaitResponse("x-p2")
				require.True(t, v.Get("success").Bool(), v.Raw)
				assert.Less(t, time.Since(lost), 2*time.Second)
				moved := c.Events(s, "session_moved")
				require.Len(t, moved, 1)
				assert.Contains(t, []string{"a", "c"}, moved[0].Get("to").Str)
				assert.Equal(t, "failover", moved[0].Get("why").Str)
				if strings.Contains(features, "seq") {
					require.Len(t, c.Events(s, "resync"), 1)
					before := len(c.Events(s))
					c.Advance(time.Second)
					assert.Len(t, c.Events(s), before, "it hears nothing before it attaches again")
					back := c.Call(t, `{"type":"attach"`+harness.At(s)+`,"since":{"epoch":"eb","seq":3}}`)
					assert.Equal(t, "snapshot epoch", back.Get("data.replay").Str+" "+back.Get("data.why").Str, back.Raw)
					assert.Equal(t, "e"+moved[0].Get("to").Str, back.Get("data.epoch").Str)
				}
				c.Advance(30 * time.Second)
				kinds := c.Kinds(s)
				assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
				all := c.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`)
				assert.Equal(t, 1, nodetest.CountUserSaid(all.Raw, "~x~ two"))
				assert.Contains(t, c.Call(t, `{"type":"list_open_sessions"}`).Raw, `"node":"`+moved[0].Get("to").Str)
				require.NoError(t, c.Leave())
				nodes[0].End()
				nodes[2].End()
			})
		})
	}
}

// TestRelayWatched checks the metrics of a relay: the lines that it forwards, the time that this
// takes, and the time of a failover.
func TestRelayWatched(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		m := new(cluster.Metrics)
		w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) {
			if c.Epoch == "ea" {
				c.Relay.Metrics = m
			}
		}, "a", "b", "c")
		value := func(name string) float64 {
			t.Helper()
			var text strings.Builder
			require.NoError(t, m.Write(&text, nil))
			for line := range strings.Lines(text.String()) {
				if is, found := strings.CutPrefix(line, "troupe_cluster_"+name+" "); found {
					v, err := strconv.ParseFloat(strings.TrimSpace(is), 64)
					require.NoError(t, err)
					return v
				}
			}
			return 0
		}
		c := nodetest.NewClient(nodes[0], "client-one", `,"features":["seq"]`)
		s := c.OpenOn("b", "client-one")
		lines, answers := value("relay_lines_total"), value("relay_seconds_count")
		for range 5 {
			c.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
		}
		assert.Equal(t, []float64{5, 5, 0}, []float64{value("relay_lines_total") - lines, value("relay_seconds_count") - answers, value("failover_seconds_count")})
		w.Lose("b")
		c.Line(`{"id":"x-p2","type":"follow_up","message":"~x~ two"` + harness.At(s) + `}`)
		require.True(t, c.AwaitResponse("x-p2").Get("success").Bool())
		assert.EqualValues(t, 1, value("failover_seconds_count"))
		assert.InDelta(t, 1.2, value("failover_seconds_sum"), 0.6)
		c.Advance(10 * time.Second)
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[2].End()
	})
}

// TestRelayFailsOverUnasked checks that a client that sends no commands receives the events of its
// resumed run, even if the new owner is its own node, and whether the relay or the node claims the
// session first.
func TestRelayFailsOverUnasked(t *testing.T) {
	for _, names := range []string{"ab", "abc"} {
		for early := range 6 {
			t.Run(fmt.Sprint(names, early), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.Cluster(t, strings.Split(names, "")...)
					c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
					s := c.OpenOn("b", "client-one")
					c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ pace=500 parts=8"` + harness.At(s) + `}`)
					c.Advance(2*time.Second + time.Duration(early)*73*time.Millisecond)
					w.Lose("b")
					c.Advance(30 * time.Second)
					kinds := c.Kinds(s)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
					require.NoError(t, c.Leave())
					nodes[0].End()
					for _, n := range nodes[2:] {
						n.End()
					}
				})
			})
		}
	}
}

// TestRelayIsLate checks that a client that sends no commands receives agent_settled once, with the
// outcome, even if its run was resumed and ended before the relay attached to the new owner, on its
// own node or another one.
func TestRelayIsLate(t *testing.T) {
	for _, how := range []string{"a completed", "c completed", "a aborted", "c aborted"} {
		next, outcome, _ := strings.Cut(how, " ")
		prompt := map[string]string{
			"completed": "tool=danger rounds=1 calls=1 work=90000", "aborted": "tool=danger rounds=1 calls=1 work=90000 pace=1000 parts=100",
		}[outcome]
		for _, features := range []string{`["deltaUpdates"]`, `["deltaUpdates","seq"]`} {
			t.Run(how+features, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					w, _, nodes := nodetest.Cluster(t, "a", "b", "c")
					a, c := nodes[0], nodes[2]
					one := nodetest.NewClient(a, "client-one", `,"features":`+features)
					s := one.OpenWithHeir("b", next, "client-one")
					two := nodetest.NewClient(map[string]*nodetest.Node{"a": a, "c": c}[next], "client-two", "")
					two.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
					one.Line(`{"id":"x-p1","type":"prompt","message":"~x~ ` + prompt + `"` + harness.At(s) + `}`)
					one.Advance(time.Second)
					a.Engine.Cut(clustertest.Gone)
					c.Engine.Cut(clustertest.Gone)
					w.Lose("b")
					one.Advance(13 * time.Second) // by now both look for it rarely
					a.Engine.Cut(clustertest.Whole)
					c.Engine.Cut(clustertest.Whole)
					for {
						if outcome == "aborted" {
							two.Call(t, `{"type":"abort"`+harness.At(s)+`}`)
						}
						v := two.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)
						if v.Get("success").Bool() && !v.Get("data.isStreaming").Bool() {
							break
						}
					}
					assert.NotContains(t, one.Kinds(s), "session_moved", "it is led there later")
					one.Advance(10 * time.Second)
					kinds := one.Kinds(s)
					if strings.Contains(features, "seq") {
						assert.Equal(t, []string{"session_moved", "resync"}, kinds[len(kinds)-2:], kinds)
					} else {
						assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
						assert.Equal(t, 1, strings.Count(strings.Join(kinds, " "), "agent_settled"), kinds)
						assert.Equal(t, outcome, one.Events(s, "agent_settled")[0].Get("outcome").Str)
						open, _ := one.Spans(s)
						assert.Empty(t, open, kinds)
					}
					require.NoError(t, one.Leave())
					require.NoError(t, two.Leave())
					a.End()
					c.End()
				})
			})
		}
	}
}

// TestRelayEndsWhatHasBegun checks that all spans end, with a single agent_settled at the end, for
// a client of another node without the feature seq. The owner is lost, with or without resumed
// runs, or only the connection to it is cut.
func TestRelayEndsWhatHasBegun(t *testing.T) {
	prompts := []string{
		"pace=500 parts=8", "tool=danger rounds=1 calls=2 work=4000", "tool=note rounds=3 calls=1 pace=100",
		"tool=danger rounds=8 calls=2 work=350 parts=3 pace=90",
	}
	for _, names := range []string{"ab", "abc"} {
		for _, happens := range []string{"lost", "lost, and stops", "cut", "cut for 300ms", "cut for 700ms", "cut for 2s", "cut until it is over"} {
			for i, prompt := range prompts {
				t.Run(fmt.Sprint(names, happens, i), func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) {
						stops := strings.Contains(happens, "stops")
						w, _, nodes := nodetest.ClusterWith(t, func(c *actors.Config) { c.Sessions.Cluster.Stop, c.Relay.Stops = stops, stops }, strings.Split(names, "")...)
						c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates","compactionEvents"]`)
						s := c.OpenOn("b", "client-one")
						c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ ` + prompt + `"` + harness.At(s) + `}`)
						c.Advance(1300 * time.Millisecond)
						open, _ := c.Spans(s)
						require.NotEmpty(t, open, c.Lines()[len(c.Lines())-2:])
						switch happens {
						case "cut":
							w.CutAll()
						case "cut until it is over":
							w.SetNode("b", nil)
							w.CutAll()
							c.Advance(20 * time.Second)
							w.SetNode("b", nodes[1])
						case "cut for 300ms", "cut for 700ms", "cut for 2s":
							short, err := time.ParseDuration(strings.TrimPrefix(happens, "cut for "))
							require.NoError(t, err)
							w.SetNode("b", nil)
							w.CutAll()
							c.Advance(short)
							w.SetNode("b", nodes[1])
						default:
							w.Lose("b")
						}
						c.Advance(time.Minute)
						kinds := c.Kinds(s)
						open, wrong := c.Spans(s)
						assert.Empty(t, append(open, wrong...), kinds)
						assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
						assert.Equal(t, 1, strings.Count(strings.Join(kinds, " "), "agent_settled"), kinds)
						require.NoError(t, c.Leave())
						for _, n := range nodes {
							if n.Name != "b" || !strings.HasPrefix(happens, "lost") {
								n.End()
							}
						}
					})
				})
			}
		}
	}
}

// TestRelayAnswersFirst checks that a client that sent a command while its session had no owner
// receives the answer before the events of the new owner.
func TestRelayAnswersFirst(t *testing.T) {
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprint(asks), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				w, _, nodes := nodetest.Cluster(t, "a", "b", "c")
				c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
				s := c.OpenWithHeir("b", "a", "client-one")
				c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=500 parts=8"` + harness.At(s) + `}`)
				c.Advance(2 * time.Second)
				w.Lose("b")
				before := len(c.Lines())
				if asks {
					c.Line(`{"id":"x-q","type":"get_session_stats"` + harness.At(s) + `}`)
				}
				c.Advance(5 * time.Second)
				var kinds []string
				for _, line := range c.Lines()[before:] {
					if v := gjson.Parse(line); v.Get("sessionId").Str == s && !strings.HasPrefix(v.Get("type").Str, "session_") {
						kinds = append(kinds, v.Get("type").Str)
					}
				}
				require.Contains(t, kinds, "agent_start")
				require.Equal(t, []string{"message_end", "turn_end", "agent_end"}, kinds[:3], "what was begun has ended")
				if asks {
					assert.Equal(t, "response", kinds[3], kinds)
				}
				require.NoError(t, c.Leave())
				nodes[0].End()
				nodes[2].End()
			})
		})
	}
}

// TestRelayRepeats checks that a command that is sent again through a relay is executed once and
// marked as replayed, over the same connection between the nodes, a new one, and one of another
// node.
func TestRelayRepeats(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b", "d")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenOn("b", "client-one")
		const name = `{"id":"x-n","type":"set_session_name","name":"n"`
		c.Line(name + harness.At(s) + `}`)
		require.True(t, c.AwaitResponse("x-n").Get("success").Bool())
		replayed := func(of *nodetest.Node) {
			t.Helper()
			n := strings.Count(strings.Join(of.Lines(), "\n"), `{"id":"x-n","type":"response"`)
			of.Line(name + harness.At(s) + `}`)
			of.Advance(2 * time.Second)
			var answers []gjson.Result
			for _, line := range of.Lines() {
				if v := gjson.Parse(line); v.Get("id").Str == "x-n" {
					answers = append(answers, v)
				}
			}
			require.Len(t, answers, n+1)
			assert.True(t, answers[n].Get("success").Bool() && answers[n].Get("replayed").Bool(), answers[n].Raw)
		}
		replayed(c)
		w.CutAll()
		c.Advance(time.Second)
		replayed(c)
		again := nodetest.NewClient(nodes[2], "client-one", "")
		again.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		replayed(again)
		assert.Equal(t, 1, strings.Count(nodes[0].Log(s), `"name":"n"`))
		require.NoError(t, c.Leave())
		require.NoError(t, again.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestRelayLag (L2) checks that a client of another node that does not read blocks neither the run
// nor other clients, that the output queued for it is bounded, and that it receives resync.
func TestRelayLag(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", `,"features":["seq","deltaUpdates"]`, func(of *conn.Config) { of.Lag, of.MaxOutput = 16<<10, 8<<10 })
		s := c.OpenOn("b", "client-one")
		other := nodetest.NewClient(nodes[1], "client-two", `,"features":["deltaUpdates"]`)
		other.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		c.Stop()
		other.Say(s, "prompt", "~x~ rounds=20 parts=4000 bytes=100")
		other.Advance(5 * time.Minute)
		require.Len(t, other.Events(s, "agent_settled"), 1, "nobody waits")
		_, out := c.Window.Balance()
		assert.Less(t, out, 400<<10)
		state := c.Send(`{"type":"get_state"` + harness.At(s) + `}`)
		c.Go()
		c.Advance(time.Second)
		read := c.Events(s)
		require.NotEmpty(t, read)
		assert.Equal(t, "resync lagged", read[len(read)-1].Get("type").Str+" "+read[len(read)-1].Get("reason").Str)
		assert.True(t, c.AwaitResponse(state).Get("success").Bool())
		v := c.Call(t, `{"type":"attach"`+harness.At(s)+`,"snapshot":{}}`)
		assert.Equal(t, "snapshot", v.Get("data.replay").Str)
		other.Run(s, "~x~ more")
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		require.NoError(t, c.Leave())
		require.NoError(t, other.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestLeftOnTheWay checks that a client that disconnects before its command has reached the owner
// can send it again on another connection. The command is executed then, and not treated as still
// active.
func TestLeftOnTheWay(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprint(closed), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				_, _, nodes := nodetest.Cluster(t, "a", "b")
				c := nodetest.NewClient(nodes[0], "client-one", "")
				s := c.OpenOn("b", "client-one")
				c.Run(s, "~x~ one")
				if closed {
					c.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
				}
				named := `{"id":"x-n","type":"set_session_name","name":"mine"` + harness.At(s) + `}`
				for i := range 20 {
					gone := nodetest.NewClient(nodes[0], "client-two", "")
					gone.Line(fmt.Sprintf(`{"id":"x-a%d","type":"attach"%s}`, i, harness.At(s)) + "\n" + named)
					gone.Break()
					_ = gone.Leave()
				}
				next := nodetest.NewClient(nodes[0], "client-two", "")
				require.True(t, next.Ask("x-a", "attach", s).Get("success").Bool())
				next.Line(named)
				v := next.AwaitResponse("x-n")
				assert.True(t, v.Get("success").Bool(), v.Raw)
				require.NoError(t, next.Leave())
				require.NoError(t, c.Leave())
				nodes[0].End()
				nodes[1].End()
			})
		})
	}
}

// TestClusterInfo checks that get_cluster lists all nodes, including lost ones, and their sessions,
// and is forbidden for view-only clients.
func TestClusterInfo(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b", "d")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenOn("b", "client-one")
		c.Run(s, "~x~ one")
		c.Advance(2 * time.Second)
		nodes[2].Member.Drain()
		c.Advance(time.Second)
		info := func() string {
			v := c.Call(t, `{"type":"get_cluster"}`).Get("data")
			assert.Equal(t, "a true memory one", fmt.Sprint(v.Get("node"), v.Get("lease"), v.Get("engine"), v.Get("groups.0.leader")), v.Raw)
			assert.Equal(t, "shared", v.Get("nodes.0.roots.w").Str)
			text := v.Get("sessions.#.node").Raw
			for _, n := range v.Get("nodes").Array() {
				text += fmt.Sprintf(" %s %s %d", n.Get("name").Str, n.Get("state").Str, n.Get("sessions").Int())
			}
			return text
		}
		assert.Equal(t, `["b"] a lives 0 b lives 1 d draining 0`, info())
		c.Example(c.Call(t, `{"type":"get_cluster"}`), "")
		v := c.AwaitResponse(c.Send(`{"type":"open_session","cwd":"w:","wants":{"root":"w","labels":{"is":"b"}}}`))
		require.True(t, v.Get("success").Bool(), v.Raw)
		c.Example(v, "in a cluster")
		require.True(t, c.Call(t, `{"type":"close_session"`+harness.At(v.Get("data.sessionId").Str)+`}`).Get("success").Bool())
		c.Advance(time.Second)
		w.Lose("b")
		w.Lose("d")
		c.Advance(3 * time.Second)
		assert.Equal(t, `["a"] a lives 1 b silent 1 d ended 0`, info())
		viewer := nodetest.NewClient(nodes[0], "client-two", "", func(of *conn.Config) { of.ViewOnly = true })
		assert.Equal(t, "forbidden", harness.Code(viewer.Call(t, `{"type":"get_cluster"}`)))
		require.NoError(t, c.Leave())
		require.NoError(t, viewer.Leave())
		nodes[0].End()
	})
}

// TestRelayFollows checks that a client whose own node loses its session to another node is
// connected to the new owner as soon as its node notices.
func TestRelayFollows(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		a, b := nodes[0], nodes[1]
		c := nodetest.NewClient(a, "client-one", `,"features":["deltaUpdates"]`)
		s := c.OpenOn("a", "client-one")
		c.Run(s, "~x~ one")
		a.Engine.Cut(clustertest.Gone)
		w.SetNode("a", nil)
		other := nodetest.NewClient(b, "client-two", `,"features":["deltaUpdates"]`)
		v := other.Call(t, `{"type":"attach"`+harness.At(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		a.Engine.Cut(clustertest.Whole)
		c.Advance(2 * time.Second)
		c.Line(`{"id":"x-p2","type":"prompt","message":"~x~ two"` + harness.At(s) + `}`)
		v = c.AwaitResponse("x-p2")
		require.True(t, v.Get("success").Bool(), v.Raw)
		c.Advance(10 * time.Second)
		assert.Len(t, c.Events(s, "session_moved"), 1)
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Contains(t, b.Log(s), "~x~ two")
		var ends []gjson.Result
		for _, e := range other.Events(s) {
			if e.Get("type").Str == "agent_settled" {
				ends = append(ends, e)
			}
		}
		assert.Len(t, ends, 1, "the other hears the same")
		require.NoError(t, c.Leave())
		require.NoError(t, other.Leave())
		a.End()
		b.End()
	})
}

// TestOwnerStandsStill checks that a relay leaves an owner that is cut off from the engine as soon
// as another node may claim its sessions, although the connection to it works. Pending commands are
// answered by the new owner.
func TestOwnerStandsStill(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		a, b := nodes[0], nodes[1]
		c := nodetest.NewClient(a, "client-one", `,"features":["deltaUpdates"]`)
		s := c.OpenOn("b", "client-one")
		c.Run(s, "~x~ one")
		b.Engine.Cut(clustertest.Gone)
		cut := time.Now()
		c.Line(`{"id":"x-p2","type":"prompt","message":"~x~ two"` + harness.At(s) + `}`)
		v := c.AwaitResponse("x-p2")
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Less(t, time.Since(cut), 2*time.Second)
		c.Advance(10 * time.Second)
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Equal(t, 1, nodetest.CountUserSaid(a.Log(s), "~x~ two"))
		b.Engine.Cut(clustertest.Whole)
		c.Advance(10 * time.Second)
		require.NoError(t, c.Leave())
		a.End()
		b.End()
	})
}

// TestAttachFarByOtherNames checks that a client of another node can attach by the session's id and
// by the path in lists, with the same answers as on the owner.
func TestAttachFarByOtherNames(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, _, nodes := nodetest.Cluster(t, "a", "b")
		script := func(n *nodetest.Node, s string) (answers []string) {
			c := nodetest.NewClient(n, "client-two", "")
			for i, names := range []string{`"sessionId":"` + s + `"`, `"durableId":"` + s + `"`, `"sessionPath":"` + nodetest.CopiesDir + `/` + s + `.jsonl"`} {
				for _, role := range []string{"", `,"role":"viewer"`} {
					c.Line(fmt.Sprintf(`{"id":"x-%d%d","type":"attach",%s%s}`, i, len(role), names, role))
					c.Advance(time.Second)
					answers = append(answers, nodetest.NodeMembers.ReplaceAllString(c.Answer(t, fmt.Sprintf("x-%d%d", i, len(role))).Raw, ""))
				}
			}
			require.False(t, c.Call(t, `{"type":"prompt","message":"~x~"`+harness.At(s)+`}`).Get("success").Bool(), "it is a viewer")
			require.NoError(t, c.Leave())
			return answers
		}
		c := nodetest.NewClient(nodes[1], "client-one", "")
		s := c.OpenOn("b", "client-one")
		c.Run(s, "~x~ one")
		assert.Equal(t, script(nodes[1], s), script(nodes[0], s))
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[1].End()
	})
}

// TestOneHop checks that a node does not forward a client that another node has forwarded to it.
func TestOneHop(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, _, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := c.OpenOn("a", "client-one")
		c.Run(s, "~x~ one")
		wire, err := w.Dial(t.Context(), cluster.Node{Name: "b"}, cluster.Identity{})
		require.NoError(t, err)
		require.NoError(t, wire.Write([]byte(`{"id":"1","type":"attach"`+harness.At(s)+`}`+"\n")))
		line, err := wire.Read()
		require.NoError(t, err)
		assert.Equal(t, "not_here", gjson.GetBytes(line, "code").Str, string(line))
		require.NoError(t, wire.Close())
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// TestWatchNodes checks that watch_sessions reports the sessions of all nodes, including nodes that
// join later, and sessions that move or are lost with their node.
func TestWatchNodes(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, engine, nodes := nodetest.Cluster(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		first := c.OpenOn("b", "client-one")
		c.Run(first, "~x~ one")
		watcher := nodetest.NewClient(nodes[0], "client-two", `,"features":["sessionEvents","deltaUpdates"]`)
		list := watcher.Call(t, `{"type":"watch_sessions"}`).Get("data.sessions").Array()
		require.Len(t, list, 1)
		assert.Equal(t, first+" b idle", list[0].Get("sessionId").Str+" "+list[0].Get("node").Str+" "+list[0].Get("status").Str)
		told := func() string {
			var all []string
			for _, line := range watcher.Lines() {
				if e := gjson.Parse(line); e.Get("type").Str == "session_status" {
					all = append(all, fmt.Sprintf("%s %s", e.Get("node").Str, e.Get("status").Str))
				}
			}
			return strings.Join(slices.Compact(all), ", ")
		}
		require.Empty(t, told())
		c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=500 parts=4"` + harness.At(first) + `}`)
		c.Advance(10 * time.Second)
		assert.Equal(t, "b running, b idle", told())
		c.Call(t, `{"type":"move_session","node":"a"`+harness.At(first)+`}`)
		c.Run(first, "~x~ two")
		assert.True(t, strings.HasPrefix(told(), "b running, b idle, b closing, b closed, a opening, a idle, a running, a idle"), told())
		c.Call(t, `{"type":"move_session","node":"b"`+harness.At(first)+`}`)
		c.Run(first, "~x~ three")
		assert.True(t, strings.HasSuffix(told(), "b running, b idle"), told())
		w.Lose("b")
		c.Advance(5 * time.Second)
		assert.Contains(t, told(), "b idle, b closed", "nobody has it")

		joined := nodetest.Start(t, engine, &actortest.History{}, "d", func(of *actors.Config) {
			of.Epoch = "ed"
			w.Use(of, "d")
		})
		w.SetNode("d", joined)
		direct := nodetest.NewClient(joined, "client-three", `,"features":["deltaUpdates"]`)
		direct.OpenOn("d", "client-three")
		direct.Advance(2 * time.Second)
		assert.True(t, strings.HasSuffix(told(), "d idle"), told())
		watcher.Call(t, `{"type":"unwatch_sessions"}`)
		direct.Call(t, `{"type":"hello","clientId":"client-four"}`)
		direct.OpenOn("d", "client-four")
		direct.Advance(time.Second)
		was := told()
		direct.Call(t, `{"type":"hello","clientId":"client-five"}`)
		direct.OpenOn("d", "client-five")
		direct.Advance(time.Second)
		assert.Equal(t, was, told())
		for _, of := range []*nodetest.Node{c, watcher, direct} {
			require.NoError(t, of.Leave())
		}
		nodes[0].End()
		joined.End()
	})
}
