package flow

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// TestSlowClient checks that a client that stops reading blocks its sessions, uses a bounded amount
// of memory, and receives everything once it reads again.
func TestSlowClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		const limit = 64 << 10
		b := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput = limit })
		s := b.Open()
		b.Stop()
		b.Say(s, "prompt", "~a~ parts=20000 rounds=2 calls=3")
		for range 100 {
			b.Send(`{"type":"get_messages"` + harness.At(s) + `}`)
		}
		b.Advance(time.Hour)
		assert.Empty(t, b.Events(s, "agent_settled"))
		b.Go()
		b.Advance(time.Hour)
		assert.Empty(t, b.Unanswered())
		require.Len(t, b.Events(s, "agent_settled"), 1)
		ends := b.Events(s, "message_end")
		text := ends[len(ends)-1].Get("message.content.0.text").Str
		assert.Equal(t, 20000, strings.Count(text, "part "), "the message is whole")
		b.Check()
	})
}

// TestUnreadAnswers checks that large answers are not built while earlier ones are unread, that the
// client receives all of them in order later, and that other commands are not blocked.
func TestUnreadAnswers(t *testing.T) {
	queries := []string{"get_entries", "get_tree", "get_messages", "get_session_tree", "get_fork_messages", "get_last_assistant_text"}
	const limit = 2 << 20
	session := func(t *testing.T, plan string) (*harness.Client, []string) {
		b := harness.Start(t, harness.Faults(plan), func(c *actors.Config) { c.Conn.MaxOutput = limit })
		for i := range 6 {
			b.Run("", fmt.Sprint("~a~ ", i, strings.Repeat(" word", 5000)))
		}
		b.Stop()
		var ids []string
		for i := range 60 {
			ids = append(ids, b.Send(fmt.Sprintf(`{"type":%q}`, queries[i%len(queries)])))
		}
		b.Send(`{"type":"list_sessions"}`)
		b.Send(`{"type":"set_session_name","name":"not behind them"}`)
		b.Advance(time.Minute)
		assert.Less(t, b.Window.Peak(), limit, "answers for who does not read")
		for _, file := range b.Disk.Files() {
			assert.True(t, strings.Contains(string(file), "not behind them"), "the name is set")
		}
		return b, ids
	}
	answers := func(b *harness.Client) (ids []string) {
		for _, l := range b.Lines() {
			if v := gjson.Parse(l); v.Get("success").Bool() && slices.Contains(queries, v.Get("command").Str) {
				ids = append(ids, v.Get("id").Str)
			}
		}
		return ids
	}
	t.Run("read late", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			b, ids := session(t, "")
			b.Go()
			b.Advance(time.Minute)
			assert.Equal(t, ids, answers(b))
			b.Check()
		})
	})
	t.Run("read after the end of the input", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			b, ids := session(t, "")
			b.Close()
			b.Go()
			b.Wait()
			assert.Equal(t, ids, answers(b))
			b.Check()
		})
	})
	t.Run("close_session comes behind them", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			b, ids := session(t, "")
			closing := b.Send(`{"type":"close_session","sessionId":"s1"}`)
			b.Go()
			b.Advance(time.Minute)
			assert.Equal(t, ids, answers(b))
			assert.True(t, b.Answer(t, closing).Get("success").Bool())
			b.Check()
		})
	})
	t.Run("the session crashes", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			b, ids := session(t, `Panic s1 WindowOpen 0`)
			b.Crawl(time.Millisecond)
			b.Resume()
			b.Advance(time.Hour)
			b.Go()
			assert.Empty(t, b.Unanswered())
			assert.Less(t, len(answers(b)), len(ids), "what waited died with the session")
			assert.True(t, b.Call(t, `{"type":"get_entries"}`).Get("success").Bool())
			b.Check()
		})
	})
}

// TestUnreadAnswersKeepAwake checks that a session with unwritten answers is not parked, because a
// parked session would not notice when they are written.
func TestUnreadAnswersKeepAwake(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput, c.Sessions.ParkAfter = 1000, time.Minute })
		b.Run("", "~a~ "+strings.Repeat("word ", 5000))
		b.Stop()
		for range 3 { // one is being written, one is queued, one is not built yet
			b.Send(`{"type":"get_entries"}`)
		}
		b.Advance(time.Hour)
		b.Go()
		b.Advance(time.Second)
		assert.Empty(t, b.Unanswered())
		assert.True(t, b.Call(t, `{"type":"get_entries"}`).Get("success").Bool())
		b.Stop()
		for range 2 {
			b.Send(`{"type":"get_entries"}`)
		}
		b.Advance(time.Hour)
		b.Go()
		b.Advance(time.Second)
		assert.True(t, b.Call(t, `{"type":"get_entries"}`).Get("success").Bool())
		b.Check()
	})
}

// TestCrawlingClientGetsAll checks that a slow client receives all output after its input has
// ended.
func TestCrawlingClientGetsAll(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		b.Crawl(10 * time.Millisecond)
		b.Say("", "prompt", "~a~ parts=100 rounds=2")
		for range 50 {
			b.Send(`{"type":"get_messages"}`)
		}
		b.Check()
	})
}

// TestStoppedClientCanStillEnd checks that a daemon that is stopped with abort ends within its
// limit although its client does not read.
func TestStoppedClientCanStillEnd(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		b.Run("", "~a~ one")
		b.Stop()
		b.Say("", "prompt", "~a~ parts=100 stall")
		b.Send(`{"type":"get_messages"}`)
		actortest.Settle()
		began := time.Now()
		b.StopRequests <- actors.Stop{Abort: true}
		time.Sleep(time.Minute)
		actortest.Settle()
		select {
		case err := <-b.Done:
			b.Done <- err
			assert.Error(t, err, "it says that the output was cut")
		default:
			t.Error("it waits for ever")
		}
		b.Break()
		b.Wait()
		assert.LessOrEqual(t, time.Since(began), 2*time.Minute)
	})
}

// TestReaderFraming checks that lines arrive whole, however the input is split.
func TestReaderFraming(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		r, w := io.Pipe()
		b := harness.StartWrapped(t, func(s conn.Stdio) conn.Stdio { return conn.Stdio{In: r, Out: s.Out} })
		for _, piece := range []string{`{"id":"1","ty`, `pe":"get_state"}`, "\r\n\n", `{"id":"2","type":"get_st`, "ate\"}\n{\"id\":\"3\"", `,"type":"get_state"}`} {
			_, err := io.WriteString(w, piece)
			require.NoError(t, err)
			actortest.Settle()
		}
		w.Close() // the last line has no ending
		b.Wait()
		var ids []string
		for _, l := range b.Lines() {
			ids = append(ids, gjson.Get(l, "id").Str)
		}
		assert.Equal(t, []string{"1", "2", "3"}, ids)
	})
}

// largest is an output that records the size of the largest write.
type largest struct{ bytes int }

func (l *largest) Write(p []byte) (int, error) {
	l.bytes = max(l.bytes, len(p))
	return len(p), nil
}

// TestLongAnswers checks that answers that grow with the session are written in chunks.
func TestLongAnswers(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		out := new(largest)
		const chunk = 256 << 10
		b := harness.StartWrapped(t, func(s conn.Stdio) conn.Stdio { return conn.Stdio{In: s.In, Out: io.MultiWriter(s.Out, out)} })
		for i := range 12 {
			b.Run("", fmt.Sprint("~a~ ", i, strings.Repeat(" word", 20_000)))
		}
		for _, command := range []string{"get_messages", "get_entries"} {
			out.bytes = 0
			v := b.Call(t, `{"type":"`+command+`"}`)
			assert.True(t, v.Get("success").Bool(), v.Raw)
			assert.Greater(t, len(v.Raw), 4*chunk)
			assert.Less(t, out.bytes, 2*chunk, command)
		}
		b.Check()
	})
}
