package flow

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
)

// longest returns an upper bound for the output of one step of a session: the end of a run repeats
// its last message twice, and two slow queries may be active.
func longest(b *harness.Client) (bytes int) {
	for _, l := range b.Lines() {
		bytes = max(bytes, len(l))
	}
	return 5 * bytes
}

func inMode(name string, limit int) func(*actors.Config) {
	return func(c *actors.Config) {
		c.Conn.MaxOutput = limit
		c.Conn.MultiSession = strings.HasPrefix(name, "multi")
	}
}

// TestUnread checks that the output queued for a client that does not read stays within its window,
// for every kind of command and in every mode. Once it reads again, everything is answered and the
// whole window is given back.
func TestUnread(t *testing.T) {
	const limit = 256 << 10
	floods := map[string]func(b *harness.Client, s string, i int){
		"small answers": func(b *harness.Client, s string, _ int) { b.Send(`{"type":"get_state"` + harness.At(s) + `}`) },
		"models": func(b *harness.Client, s string, _ int) {
			b.Send(`{"type":"get_available_models"` + harness.At(s) + `}`)
		},
		"messages":   func(b *harness.Client, s string, _ int) { b.Send(`{"type":"get_messages"` + harness.At(s) + `}`) },
		"the router": func(b *harness.Client, _ string, _ int) { b.Send(`{"type":"get_protocol_info"}`) },
		"lists":      func(b *harness.Client, _ string, _ int) { b.Send(`{"type":"list_open_sessions"}`) },
		"errors": func(b *harness.Client, s string, i int) {
			b.Send(fmt.Sprintf(`{"type":"no_such_%d"%s}`, i, harness.At(s)))
		},
		"garbage":           func(b *harness.Client, _ string, _ int) { b.Line(`{`) },
		"slow queries":      func(b *harness.Client, s string, _ int) { b.Send(`{"type":"list_sessions"` + harness.At(s) + `}`) },
		"commands of a run": func(b *harness.Client, s string, i int) { b.Say(s, "prompt", fmt.Sprintf("~a~%d parts=50", i)) },
		"large lines": func(b *harness.Client, s string, i int) {
			b.Say(s, "steer", fmt.Sprint("~a~", i, strings.Repeat(" word", 5000)))
		},
		"bash": func(b *harness.Client, s string, i int) {
			b.Send(fmt.Sprintf(`{"type":"bash","command":"~a~ b%d"%s}`, i, harness.At(s)))
		},
	}
	// Fewer of these fill several windows, too.
	fewer := map[string]int{"large lines": 40, "messages": 150, "slow queries": 150}
	for mode, session := range modes {
		for what, flood := range floods {
			t.Run(mode+", "+what, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					b := harness.Start(t, inMode(mode, limit))
					s := session(b)
					for i := range 3 {
						b.Run(s, fmt.Sprint("~a~ ", i, strings.Repeat(" word", 2000)))
					}
					b.Window.Peak()
					b.Stop()
					for i := range cmp.Or(fewer[what], 500) {
						flood(b, s, i)
					}
					b.Advance(time.Hour)
					in, out := b.Window.Balance()
					most := b.Window.Peak()
					b.Go()
					b.Advance(time.Hour)
					assert.Empty(t, b.Unanswered())
					assert.LessOrEqual(t, most, limit+longest(b), "unwritten")
					assert.LessOrEqual(t, in+out, limit+longest(b), "under way")
					in, out = b.Window.Balance()
					assert.Zero(t, in, "of lines")
					assert.Zero(t, out, "of records")
					assert.True(t, b.Call(t, `{"type":"abort"`+harness.At(s)+`}`).Get("success").Bool())
					b.End()
					b.Judge(actortest.Options{})
				})
			})
		}
	}
}

// TestUnreadRun checks that a run blocks when its client does not read, whatever else the client
// sends, and continues once it reads.
func TestUnreadRun(t *testing.T) {
	const limit = 64 << 10
	for mode, session := range modes {
		for _, meanwhile := range []string{"", `{"type":"no_such_command"}`, `{"type":"get_protocol_info"}`, `{"type":"hello"}`, `{"type":"get_state"%s}`, `{`} {
			t.Run(mode+meanwhile, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					b := harness.Start(t, inMode(mode, limit))
					s := session(b)
					b.Stop()
					b.Say(s, "prompt", "~a~ parts=4000 rounds=1 calls=3")
					b.Advance(time.Minute)
					for range 20 {
						if strings.Contains(meanwhile, "%s") {
							b.Line(fmt.Sprintf(meanwhile, harness.At(s)))
						} else if meanwhile != "" {
							b.Line(meanwhile)
						}
					}
					b.Advance(time.Hour)
					assert.Empty(t, b.Events(s, "agent_settled"))
					b.Go()
					b.Advance(time.Hour)
					require.Len(t, b.Events(s, "agent_settled"), 1)
					b.Check()
				})
			})
		}
	}
}

// TestUnreadCalls checks that a model's answer with many tool calls is shown no faster than it is
// read: an abort and another session wait for one window of output, not for the rest of the answer.
func TestUnreadCalls(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		const limit = 256 << 10
		b := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput = limit })
		b.Stop()
		// The arguments of each call repeat it.
		b.Say("", "prompt", "~a~ rounds=1 calls=100 "+strings.Repeat("word ", 2000))
		b.Advance(time.Minute)
		largest := 0
		abort := b.Send(`{"type":"abort"}`)
		opened := b.Send(`{"type":"open_session"}`)
		b.Advance(time.Minute)
		_, out := b.Window.Balance()
		read := len(b.Lines())
		b.Go()
		b.Advance(time.Minute)
		bytes, found := 0, 0
		for _, l := range b.Lines()[read:] {
			largest, bytes = max(largest, len(l)), bytes+len(l)
			if id := gjson.Get(l, "id").Str; id == abort || id == opened {
				if found++; found == 2 {
					break
				}
			}
		}
		assert.Equal(t, 2, found)
		assert.Less(t, out, limit/2+3*largest)
		assert.Less(t, bytes, limit+6*largest, "read before the answers")
		b.Check()
	})
}

// TestUnreadAnswersAreOfTheirTime checks that a delayed query is answered with the state at the
// time of the query, and from the session that was current then.
func TestUnreadAnswersAreOfTheirTime(t *testing.T) {
	for mode, session := range modes {
		t.Run(mode, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, inMode(mode, 256<<10))
				s := session(b)
				for i := range 3 {
					b.Run(s, fmt.Sprint("~a~ ", i, strings.Repeat(" word", 4000)))
				}
				queries := []string{"get_entries", "get_tree", "get_session_tree", "get_messages", "get_fork_messages", "get_last_assistant_text"}
				before := map[string]string{}
				for _, q := range queries {
					before[q] = b.Call(t, `{"type":"`+q+`"`+harness.At(s)+`}`).Get("data").Raw
				}
				b.Stop()
				ids := map[string]string{}
				for range 4 {
					for _, q := range queries {
						ids[b.Send(`{"type":"`+q+`"`+harness.At(s)+`}`)] = q
					}
				}
				b.Send(`{"type":"set_session_name","name":"later"` + harness.At(s) + `}`)
				b.Say(s, "prompt", "~a~ later")
				b.Advance(time.Minute)
				b.Send(`{"type":"abort"` + harness.At(s) + `}`)
				b.Send(`{"type":"new_session"` + harness.At(s) + `}`)
				b.Advance(time.Minute)
				b.Go()
				b.Advance(time.Hour)
				for id, q := range ids {
					assert.Equal(t, before[q], b.Answer(t, id).Get("data").Raw, q)
				}
				b.Check()
			})
		})
	}
}

// TestUnreadAnswersAndACrash checks that a log that was kept open for delayed answers is closed
// when the session crashes, so that its file can be opened again.
func TestUnreadAnswersAndACrash(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 StartBash`), func(c *actors.Config) { c.Conn.MaxOutput = 64 << 10 })
		s := b.Open()
		for i := range 3 {
			b.Run(s, fmt.Sprint("~a~ ", i, strings.Repeat(" word", 4000)))
		}
		var path string
		for path = range b.Disk.Files() {
		}
		b.Stop()
		for range 10 {
			b.Send(`{"type":"get_messages"` + harness.At(s) + `}`)
		}
		b.Send(`{"type":"new_session"` + harness.At(s) + `}`)
		b.Advance(time.Minute)
		b.Send(`{"type":"bash","command":"x"` + harness.At(s) + `}`)
		b.Advance(time.Minute)
		b.Go()
		b.Advance(time.Minute)
		require.NotZero(t, b.Crashes(s))
		v := b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
		assert.True(t, v.Get("success").Bool(), v.Raw)
		b.End()
	})
}

// TestUnreadAtRandom checks the same bound with random commands and reading speeds.
func TestUnreadAtRandom(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				names := []string{"default", "multi-session", "multi-session, hello"}
				mode := names[rng.IntN(len(names))]
				limit := 16 << 10 << rng.IntN(6)
				b := harness.Start(t, inMode(mode, limit))
				sessions := []string{modes[mode](b)}
				for range rng.IntN(3) {
					sessions = append(sessions, b.Open())
				}
				for range 60 {
					s := sessions[rng.IntN(len(sessions))]
					switch rng.IntN(9) {
					case 0, 1:
						b.Say(s, "prompt", fmt.Sprintf("~%s~ parts=%d rounds=%d calls=%d", s, rng.IntN(300), rng.IntN(2), 1+rng.IntN(3)))
					case 2:
						b.Say(s, "steer", "~"+s+"~"+strings.Repeat(" word", rng.IntN(3000)))
					case 3:
						b.Stop()
					case 4:
						b.Go()
					case 5:
						b.Crawl(time.Millisecond)
					case 6:
						b.Send(`{"type":"` + []string{"get_messages", "get_entries", "get_state", "abort", "get_tree"}[rng.IntN(5)] + `"` + harness.At(s) + `}`)
					case 7:
						b.Send(`{"type":"list_open_sessions"}`)
					case 8:
						b.Advance(time.Duration(rng.IntN(5000)) * time.Millisecond)
					}
				}
				b.Go()
				b.Advance(time.Hour)
				assert.Empty(t, b.Unanswered())
				in, out := b.Window.Balance()
				assert.Zero(t, in)
				assert.Zero(t, out)
				assert.LessOrEqual(t, b.Window.Peak(), limit+longest(b)*len(sessions))
				b.End()
				b.Judge(actortest.Options{})
			})
		})
	}
}

// TestClosedLeavesNothing checks that no reference to the state of a closed session remains.
func TestClosedLeavesNothing(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		var mu sync.Mutex
		var sessions []func() bool
		b.Config.Sessions.Spawned = func(inMemory func() bool) {
			mu.Lock()
			defer mu.Unlock()
			sessions = append(sessions, inMemory)
		}
		const n = 20
		for i := range n {
			s := b.Open()
			b.Run(s, fmt.Sprintf("~%s~ hello", s))
			b.Send(fmt.Sprintf(`{"type":"get_messages"%s}`, harness.At(s)))
			b.Send(fmt.Sprintf(`{"type":"close_session","sessionId":%q,"mode":%q}`, s, []string{"abort", "drain"}[i%2]))
			b.Advance(time.Minute)
		}
		runtime.GC()
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, sessions, n)
		left := slices.DeleteFunc(sessions, func(inMemory func() bool) bool { return !inMemory() })
		assert.LessOrEqual(t, len(left), 2, "actors may hold the last message that they have handled")
		b.Check()
	})
}

// modes are the ways in which a client can use its sessions.
var modes = map[string]func(*harness.Client) string{
	"default":       func(*harness.Client) string { return "" },
	"opened":        (*harness.Client).Open,
	"multi-session": (*harness.Client).Open,
	"multi-session, hello": func(b *harness.Client) string {
		b.Call(b.T, `{"type":"hello","features":["deltaUpdates"]}`)
		return b.Open()
	},
}
