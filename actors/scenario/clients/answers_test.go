package clients

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/protocol"
	"troupe/store"
)

// TestEveryCommandIsAnsweredOnce checks that every row of the command table is answered exactly
// once: with valid and with invalid parameters, while the session is idle and while a run is
// active.
func TestEveryCommandIsAnsweredOnce(t *testing.T) {
	params := map[string]string{
		"prompt": `"message":"~a~ x"`, "steer": `"message":"~a~ y"`, "follow_up": `"message":"~a~ z"`, "queue_message": `"message":"~a~ q"`,
		"abort_and_prompt": `"message":"~a~ p"`, "set_model": `"provider":"acme","modelId":"thinker"`, "set_thinking_level": `"level":"high"`,
		"set_steering_mode": `"mode":"all"`, "set_follow_up_mode": `"mode":"all"`, "set_queue_mode": `"mode":"all"`, "set_interrupt_mode": `"mode":"wait"`,
		"set_auto_compaction": `"enabled":true`, "set_auto_retry": `"enabled":true`, "bash": `"command":"true"`, "switch_session": `"sessionPath":"/none"`,
		"set_session_name": `"name":"n"`, "close_session": `"sessionId":"s9"`, "fork": `"entryId":"e"`,
	}
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy %t", busy), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t)
				if busy {
					b.Say("", "prompt", "~a~ stall")
				}
				for _, spec := range protocol.Commands {
					if spec.Silent || spec.Name == "hello" {
						continue // they have tests of their own
					}
					b.Send(`{"type":"` + spec.Name + `"` + comma(params[spec.Name]) + `}`)
					b.Send(`{"type":"` + spec.Name + `","message":7,"mode":7,"enabled":"x","path":[],"name":{}}`)
					actortest.Settle()
				}
				b.Advance(time.Hour)
				b.Send(`{"type":"abort"}`)
				b.Advance(time.Hour)
				assert.Empty(t, b.Unanswered())
				for _, line := range b.Lines() { // errors of a missing case in a switch
					for _, forgotten := range []string{"is not supported by this version", "no slow query for", "no such question about files"} {
						assert.NotContains(t, line, forgotten)
					}
				}
				b.End()
				b.Judge(actortest.Options{})
			})
		})
	}
}

func comma(members string) string {
	if members == "" {
		return ""
	}
	return "," + members
}

// TestOrder checks that commands sent at once are answered in the order in which they were sent.
func TestOrder(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		var want []string
		for i := range 300 {
			want = append(want, b.Send(fmt.Sprintf(`{"type":"set_session_name","name":"n%d"}`, i)))
		}
		want = append(want, b.Send(`{"type":"get_state"}`))
		actortest.Settle()
		var got []string
		for _, l := range b.Lines() {
			if v := gjson.Parse(l); v.Get("type").Str == "response" {
				got = append(got, v.Get("id").Str)
			}
		}
		assert.Equal(t, want, got)
		assert.Equal(t, "n299", b.Answer(t, want[300]).Get("data.sessionName").Str)
		b.Check()
	})
}

// TestGarbage checks that a line that is not a command is answered with one error and has no other
// effect.
func TestGarbage(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, func(c *actors.Config) { c.Conn.MaxLine = 1000 })
		for _, line := range []string{`{`, `null`, `[1]`, `"x"`, `{"type":7}`, `{}`, "\xff\xfe", `{"type":"no_such"}`, strings.Repeat("x", 2000)} {
			b.Line(line)
		}
		b.Line(``)
		b.Line(`   `)
		v := b.Call(t, `{"type":"get_state"}`)
		assert.True(t, v.Get("success").Bool())
		assert.Len(t, b.Lines(), 10)
		b.Check()
	})
}

// TestCloseRace checks that commands sent while a session closes are answered, whether the session
// has ended by the time they reach it or not.
func TestCloseRace(t *testing.T) {
	for _, behind := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(behind), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				// The delay holds a line in the router while the session ends.
				b := harness.Start(t, harness.Faults(fmt.Sprintf(`Delay 1s */router line %d`, 1+behind)))
				s := b.Open()
				b.Send(`{"type":"close_session","sessionId":"` + s + `"}`)
				for range 4 {
					b.Send(`{"type":"get_state"` + harness.At(s) + `}`)
				}
				b.Advance(time.Minute)
				assert.Empty(t, b.Unanswered())
				b.Check()
			})
		})
	}
}

// TestEndWithWorkUnderWay checks that a command that is executed outside of a run is answered
// before its session ends.
func TestEndWithWorkUnderWay(t *testing.T) {
	for _, command := range []string{`{"type":"reload_resources"}`, `{"type":"new_session"}`, `{"type":"switch_session","sessionPath":"/none"}`} {
		for _, end := range []string{"eof", "close", "abort"} {
			t.Run(command+end, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					b := harness.Start(t)
					s := b.Open()
					b.Send(strings.Replace(command, "}", harness.At(s)+"}", 1))
					switch end {
					case "close":
						b.Send(`{"type":"close_session","sessionId":"` + s + `","mode":"drain"}`)
					case "abort":
						b.Send(`{"type":"close_session","sessionId":"` + s + `","mode":"abort"}`)
					}
					b.End()
					assert.Empty(t, b.Unanswered())
					b.Check()
				})
			})
		}
	}
}

// TestOpenRefused checks the errors of open_session for a missing file and a missing directory, and
// that no session stays open after them.
func TestOpenRefused(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		v := b.Call(t, `{"type":"open_session","sessionPath":"/none.jsonl"}`)
		assert.False(t, v.Get("success").Bool())
		v = b.Call(t, `{"type":"open_session","cwd":"/no/such/dir"}`)
		assert.Equal(t, "cwd_missing", harness.Code(v))
		list := b.Call(t, `{"type":"list_open_sessions"}`)
		assert.Equal(t, int64(0), list.Get("data.sessions.#").Int(), list.Raw)
		b.Check()
	})
}

// TestTooManySessions checks that open_session is refused at the session limit, and succeeds again
// once a session is closed.
func TestTooManySessions(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, func(c *actors.Config) { c.Sessions.MaxSessions = 3 })
		first := b.Open()
		b.Open()
		b.Open()
		v := b.Call(t, `{"type":"open_session"}`)
		require.Equal(t, "overloaded", harness.Code(v))
		require.True(t, b.Call(t, `{"type":"close_session","sessionId":"`+first+`"}`).Get("success").Bool())
		b.Open()
		b.Check()
	})
}

// TestManySessions checks that a hundred sessions work at the same time without mixing their texts.
func TestManySessions(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		const n = 100
		b := harness.Start(t)
		var handles []string
		for range n {
			handles = append(handles, b.Open())
		}
		for round := range 3 {
			for i, s := range handles {
				b.Say(s, "prompt", fmt.Sprintf("~m%d~ %d rounds=1 calls=2 pace=%d", i, round, 1+i%7))
			}
			b.Advance(time.Hour)
		}
		for _, s := range handles {
			assert.Len(t, b.Events(s, "agent_settled"), 3)
		}
		b.Check()
		assert.Len(t, b.Disk.Files(), n)
	})
}

// TestClosedIsGone checks that a client that has read the answer to close_session gets
// unknown_session afterwards, even if the internal notification of the close is slow.
func TestClosedIsGone(t *testing.T) {
	for _, slow := range []string{"sessions", "*/router"} {
		t.Run(strings.ReplaceAll(slow, "/", "-"), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.Faults(fmt.Sprintf(`Delay 1s %s Closed`, slow)))
				s := b.Open()
				id := b.Send(`{"type":"close_session","sessionId":"` + s + `"}`)
				for len(b.Unanswered()) > 0 {
					b.Advance(100 * time.Millisecond)
				}
				assert.True(t, b.Answer(t, id).Get("success").Bool())
				assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)))
				b.Check()
			})
		})
	}
}

// slowDirs is a file system whose directories cannot be read until may is closed.
type slowDirs struct {
	store.FS
	may chan struct{}
}

func (s slowDirs) ReadDir(name string) ([]fs.DirEntry, error) {
	<-s.may
	return s.FS.ReadDir(name)
}

// TestSlowLookUp checks that a slow directory listing blocks nothing else: other commands are
// answered, runs start and end, and a run can be aborted.
func TestSlowLookUp(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		may := make(chan struct{})
		b := harness.Start(t, func(c *actors.Config) { c.Sessions.FS = slowDirs{c.Sessions.FS, may} })
		s := b.Open()
		b.Run(s, "~a~ one")
		list := b.Send(`{"type":"list_sessions"` + harness.At(s) + `}`)
		b.Advance(time.Minute)
		assert.Equal(t, []string{list}, b.Unanswered())
		assert.Equal(t, int64(2), b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.messageCount").Int())
		b.Run(s, "~a~ two")
		b.Say(s, "prompt", "~a~ stall")
		b.Advance(time.Second)
		assert.True(t, b.Call(t, `{"type":"abort"`+harness.At(s)+`}`).Get("success").Bool())
		assert.Equal(t, []string{list}, b.Unanswered())
		close(may)
		b.Advance(time.Second)
		assert.Len(t, b.Answer(t, list).Get("data.sessions").Array(), 1)
		b.Check()
	})
}

func TestMainJob(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		v := b.Run("", "~a~ rounds=2 calls=2")
		assert.True(t, v.Get("success").Bool(), v.Raw)
		assert.Len(t, b.Events("", "tool_execution_end"), 4)
		assert.Equal(t, "completed", b.Events("", "agent_settled")[0].Get("outcome").Str)
		b.Check()
		assert.Len(t, b.Disk.Files(), 1)
	})
}
