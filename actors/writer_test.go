package actors

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/protocol"
)

func quiet() actor.ConfigOption {
	return actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
}

// bin is a client for a writer by itself: a probe is its parent and its source.
type bin struct {
	*actortest.Client
	sys    *actor.ActorSystem
	probe  *actortest.Probe
	writer *actor.PID
	window *window
	lead   lead // of whoever tells it
}

func newBin(limit int) *bin {
	client := actortest.NewClient(&actortest.History{})
	gates, _ := protocol.DialectUnion.Gates()
	b := newBinOn(client.Out(), limit, gates)
	b.Client = client
	return b
}

func newBinOn(out io.Writer, limit int, gates protocol.Gates) *bin {
	sys := actor.NewActorSystem(quiet())
	b := &bin{Client: actortest.NewClient(&actortest.History{}), sys: sys, probe: actortest.NewProbe(sys)}
	b.window = newWindow(limit, sys.Root)
	b.writer = b.probe.Spawn(sys, actor.PropsFromProducer(func() actor.Actor {
		return &writer{out: out, window: b.window, gates: gates, lead: &b.lead}
	}))
	return b
}

func (b *bin) tell(items ...item) {
	client{writer: b.writer, window: b.window, tag: "s1"}.send(b.sys.Root, items...)
}

func (b *bin) end(t *testing.T) {
	b.Go()
	require.NoError(t, b.sys.Root.PoisonFuture(b.probe.PID).Wait())
}

func delta(text string) item {
	return item{event: &protocol.MessageUpdate{Step: protocol.UpdateDelta, Kind: protocol.BlockText, Delta: text, RunID: "1"}}
}

func progress(call, text string) item {
	return item{event: protocol.ToolExecutionUpdate{ToolCallID: call, ToolName: "bash", Args: []byte("{}"), RunID: "1",
		PartialResult: protocol.ToolResult{Content: protocol.TextContent(text)}}}
}

func response(id string) item {
	return item{response: &protocol.Response{ID: []byte(`"` + id + `"`), Command: "get_state"}}
}

// begun is the part of a message that its updates grow.
var begun = []item{
	{event: protocol.MessageStart{Message: &protocol.AssistantMessage{Content: protocol.Content{}}, RunID: "1"}},
	{event: &protocol.MessageUpdate{Step: protocol.UpdateStart, Kind: protocol.BlockText, RunID: "1"}},
}

// TestMerging: what a slow client has not read yet is merged where nothing is
// lost by it: neighbouring deltas of one block, progress of one call.
func TestMerging(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBin(1 << 20)
		b.Stop()
		b.tell(begun...)
		actortest.Settle() // these are being written; the rest waits
		for i := range 1000 {
			b.tell(delta(fmt.Sprintf("%d,", i)))
		}
		b.tell(response("r1"))
		b.tell(delta("x"), delta("y"))
		for i := range 500 {
			b.tell(progress("c1", fmt.Sprint("p", i)))
		}
		b.tell(progress("c2", "q"), progress("c1", "again"), response("r2"))
		actortest.Settle()
		b.Go()
		actortest.Settle()
		var kinds []string
		for _, l := range b.Lines() {
			v := gjson.Parse(l)
			kinds = append(kinds, v.Get("type").Str+v.Get("id").Str+v.Get("toolCallId").Str)
		}
		assert.Equal(t, []string{"message_start", "message_update", "message_update", "responser1", "message_update",
			"tool_execution_updatec1", "tool_execution_updatec2", "tool_execution_updatec1", "responser2"}, kinds)
		whole := gjson.Get(b.Lines()[4], "message.content.0.text").Str
		assert.True(t, strings.HasPrefix(whole, "0,1,2,"))
		assert.True(t, strings.HasSuffix(whole, "998,999,xy"), "no delta is lost: …%s", whole[len(whole)-20:])
		assert.Equal(t, "p499", gjson.Get(b.Lines()[5], "partialResult.content.0.text").Str)
		b.end(t)
	})
}

// TestWriterCredits: the window is full while the client does not read, who
// waits for it is told once when it has read, and in the end nothing is owed.
func TestWriterCredits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBin(10_000)
		b.Stop()
		for i := range 200 {
			b.tell(response(fmt.Sprint("a", i)), progress("c1", fmt.Sprint("p", i)), progress("c1", fmt.Sprint("q", i)))
		}
		actortest.Settle()
		require.True(t, b.window.full())
		b.window.tell(b.probe.PID)
		b.window.tell(b.probe.PID)
		actortest.Settle()
		assert.Empty(t, b.probe.Take())
		b.Crawl(time.Millisecond)
		b.Resume()
		time.Sleep(time.Minute)
		actortest.Settle()
		assert.Equal(t, []any{windowOpen{}}, b.probe.Take())
		in, out := b.window.balance()
		assert.Zero(t, in)
		assert.Zero(t, out)
		assert.Len(t, b.Lines(), 400, "responses are never dropped")
		b.end(t)
	})
}

// TestWriterFails: the parent hears of it, once, and what comes later is gone.
func TestWriterFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBin(10_000)
		b.BreakAfter(30) // in the middle of a line
		for i := range 50 {
			b.tell(response(fmt.Sprint("a", i)))
		}
		actortest.Settle()
		failed := actortest.Expect[outputFailed](t, b.probe)
		assert.Error(t, failed.err)
		b.sys.Root.RequestWithCustomSender(b.writer, flush{}, b.probe.PID)
		actortest.Settle()
		assert.Error(t, actortest.Expect[flushed](t, b.probe).err, "who waits for the end of the output is not left waiting")
		b.end(t)
	})
}

// TestSlowClient: a client that stops reading stops its sessions, costs a
// bounded amount of memory, and loses nothing when it comes back.
func TestSlowClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 64 << 10
		b := start(t, func(c *Config) { c.MaxOutput = limit })
		s := b.open()
		b.Stop()
		b.Say(s, "prompt", "~a~ parts=20000 rounds=2 calls=3")
		for range 100 {
			b.Send(`{"type":"get_messages"` + at(s) + `}`)
		}
		b.pass(time.Hour)
		assert.Empty(t, b.Events(s, "agent_settled"))
		b.Go()
		b.pass(time.Hour)
		assert.Empty(t, b.Unanswered())
		require.Len(t, b.Events(s, "agent_settled"), 1)
		ends := b.Events(s, "message_end")
		text := ends[len(ends)-1].Get("message.content.0.text").Str
		assert.Equal(t, 20000, strings.Count(text, "part "), "the message is whole")
		b.check()
	})
}

// TestUnreadAnswers: large answers are not made for a client that does not read
// those it has; in the end it gets all of them, in order. Other commands go on.
func TestUnreadAnswers(t *testing.T) {
	queries := []string{"get_entries", "get_tree", "get_messages", "get_session_tree", "get_fork_messages", "get_last_assistant_text"}
	const limit = 2 << 20
	session := func(t *testing.T, plan string) (*bench, []string) {
		b := start(t, faults(plan), func(c *Config) { c.MaxOutput = limit })
		for i := range 6 {
			b.run("", fmt.Sprint("~a~ ", i, strings.Repeat(" word", 5000)))
		}
		b.Stop()
		var ids []string
		for i := range 60 {
			ids = append(ids, b.Send(fmt.Sprintf(`{"type":%q}`, queries[i%len(queries)])))
		}
		b.Send(`{"type":"list_sessions"}`)
		b.Send(`{"type":"set_session_name","name":"not behind them"}`)
		b.pass(time.Minute)
		assert.Less(t, b.window.most, limit, "answers for who does not read")
		for _, file := range b.disk.Files() {
			assert.True(t, strings.Contains(string(file), "not behind them"), "the name is set")
		}
		return b, ids
	}
	answers := func(b *bench) (ids []string) {
		for _, l := range b.Lines() {
			if v := gjson.Parse(l); v.Get("success").Bool() && slices.Contains(queries, v.Get("command").Str) {
				ids = append(ids, v.Get("id").Str)
			}
		}
		return ids
	}
	t.Run("read late", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b, ids := session(t, "")
			b.Go()
			b.pass(time.Minute)
			assert.Equal(t, ids, answers(b))
			b.check()
		})
	})
	t.Run("read after the end of the input", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b, ids := session(t, "")
			b.Close()
			b.Go()
			b.wait()
			assert.Equal(t, ids, answers(b))
			b.check()
		})
	})
	t.Run("close_session comes behind them", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b, ids := session(t, "")
			closing := b.Send(`{"type":"close_session","sessionId":"s1"}`)
			b.Go()
			b.pass(time.Minute)
			assert.Equal(t, ids, answers(b))
			assert.True(t, b.Answer(t, closing).Get("success").Bool())
			b.check()
		})
	})
	t.Run("the session crashes", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b, ids := session(t, `(Panic (And (Actor "s1") (And (Msg "windowOpen") (OnIndex 0)))) `)
			b.Crawl(time.Millisecond)
			b.Resume()
			b.pass(time.Hour)
			b.Go()
			assert.Empty(t, b.Unanswered())
			assert.Less(t, len(answers(b)), len(ids), "what waited died with the session")
			assert.True(t, b.Call(t, `{"type":"get_entries"}`).Get("success").Bool())
			b.check()
		})
	})
}

// TestUnreadAnswersKeepAwake: a session is not parked over answers that are not
// written: it would never hear that they are.
func TestUnreadAnswersKeepAwake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, func(c *Config) { c.MaxOutput, c.ParkAfter = 1000, time.Minute })
		b.run("", "~a~ "+strings.Repeat("word ", 5000))
		b.Stop()
		for range 3 { // one is being written, one waits, one is not made
			b.Send(`{"type":"get_entries"}`)
		}
		b.pass(time.Hour)
		b.Go()
		b.pass(time.Second)
		assert.Empty(t, b.Unanswered())
		assert.True(t, b.Call(t, `{"type":"get_entries"}`).Get("success").Bool())
		b.Stop()
		for range 2 {
			b.Send(`{"type":"get_entries"}`)
		}
		b.pass(time.Hour)
		b.Go()
		b.pass(time.Second)
		assert.True(t, b.Call(t, `{"type":"get_entries"}`).Get("success").Bool())
		b.check()
	})
}

// TestCrawlingClientGetsAll: the end of the input does not cut off a client
// that is still reading.
func TestCrawlingClientGetsAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t)
		b.Crawl(10 * time.Millisecond)
		b.Say("", "prompt", "~a~ parts=100 rounds=2")
		for range 50 {
			b.Send(`{"type":"get_messages"}`)
		}
		b.check()
	})
}

// TestStoppedClientCanStillEnd: an abort limit bounds the end although nobody
// reads.
func TestStoppedClientCanStillEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t)
		b.run("", "~a~ one")
		b.Stop()
		b.Say("", "prompt", "~a~ parts=100 stall")
		b.Send(`{"type":"get_messages"}`)
		actortest.Settle()
		began := time.Now()
		b.stop <- Stop{Abort: true}
		time.Sleep(time.Minute)
		actortest.Settle()
		select {
		case err := <-b.done:
			b.done <- err
			assert.Error(t, err, "it says that the output was cut")
		default:
			t.Error("it waits for ever")
		}
		b.Break()
		b.wait()
		assert.LessOrEqual(t, time.Since(began), 2*time.Minute)
	})
}

// TestReaderFraming: lines of any cut arrive whole.
func TestReaderFraming(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, w := io.Pipe()
		b := start(t, func(c *Config) { c.In = r })
		for _, piece := range []string{`{"id":"1","ty`, `pe":"get_state"}`, "\r\n\n", `{"id":"2","type":"get_st`, "ate\"}\n{\"id\":\"3\"", `,"type":"get_state"}`} {
			_, err := io.WriteString(w, piece)
			require.NoError(t, err)
			actortest.Settle()
		}
		w.Close() // the last line has no ending
		b.wait()
		var ids []string
		for _, l := range b.Lines() {
			ids = append(ids, gjson.Get(l, "id").Str)
		}
		assert.Equal(t, []string{"1", "2", "3"}, ids)
	})
}

// TestLongResponse: a response that is written in pieces is the same line, with
// others before and behind it, and the writer never holds it whole.
func TestLongResponse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		message := protocol.Seal(&protocol.UserMessage{Content: protocol.TextContent(strings.Repeat("word ", 100))})
		list := protocol.NewList(`{"messages":[`, `]}`, 3000, 0, func(dst []byte, _ int) []byte { return message.AppendJSON(dst) })
		for _, features := range [][]string{nil, {"seq"}} {
			gates, _ := protocol.DialectUnion.Gates(features...)
			want := protocol.NewEncoder(gates, "s1").AppendResponse(nil, protocol.Response{ID: []byte(`"x"`), Command: "get_messages", Data: whole{list}})
			out := &sink{}
			b := newBinOn(out, 1<<20, gates)
			b.tell(item{response: &protocol.Response{ID: []byte(`"x"`), Command: "get_messages", Data: list}}, response("y"))
			actortest.Settle()
			lines := strings.SplitAfter(out.text.String(), "\n")
			require.Len(t, lines, 3)
			assert.Equal(t, string(want), lines[0])
			assert.Equal(t, "y", gjson.Get(lines[1], "id").Str)
			assert.Less(t, out.most, 2*writeChunk)
			b.end(t)
		}
	})
}

// TestUnwritable: what cannot be encoded costs its own line, not the connection.
func TestUnwritable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := protocol.Seal(&protocol.UnknownMessage{Raw: []byte("{\n")})
		for _, features := range [][]string{nil, {"seq"}} {
			gates, _ := protocol.DialectUnion.Gates(features...)
			out := &sink{}
			b := newBinOn(out, 1<<20, gates)
			b.tell(response("a"),
				item{response: &protocol.Response{ID: []byte(`"b"`), Command: "get_tree", Data: protocol.Raw("[\n")}},
				item{event: protocol.MessageEnd{Message: broken}},
				item{event: protocol.AgentStart{RunID: "1"}},
				response("c"))
			actortest.Settle()
			b.end(t)
			lines := strings.Split(strings.TrimSpace(out.text.String()), "\n")
			require.Len(t, lines, 4)
			for i, want := range []string{"a", "b", "agent_start", "c"} {
				v := gjson.Parse(lines[i])
				require.True(t, json.Valid([]byte(lines[i])), lines[i])
				assert.Contains(t, []string{v.Get("id").Str, v.Get("type").Str}, want)
			}
			assert.Equal(t, "internal", gjson.Get(lines[1], "code").Str)
		}
	})
}

// sink keeps what is written and how long the longest write was.
type sink struct {
	text strings.Builder
	most int
}

func (s *sink) Write(p []byte) (int, error) {
	s.most = max(s.most, len(p))
	return s.text.Write(p)
}

// whole hides that a list can be written in pieces.
type whole struct{ list protocol.Pieces }

func (w whole) AppendJSON(dst []byte) []byte { return w.list.AppendJSON(dst) }

// TestLongAnswers: what grows with a session is written in pieces by the daemon,
// too.
func TestLongAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := &sink{}
		b := start(t, func(c *Config) { c.Out = io.MultiWriter(c.Out, out) })
		for i := range 12 {
			b.run("", fmt.Sprint("~a~ ", i, strings.Repeat(" word", 20_000)))
		}
		for _, command := range []string{"get_messages", "get_entries"} {
			out.most = 0
			v := b.Call(t, `{"type":"`+command+`"}`)
			assert.True(t, v.Get("success").Bool(), v.Raw)
			assert.Greater(t, len(v.Raw), 4*writeChunk)
			assert.Less(t, out.most, 2*writeChunk, command)
		}
		b.check()
	})
}

// TestWriterForgets: what the writer knows of a session that is gone is let go
// behind its last record, though the client has not read that yet.
func TestWriterForgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gates, _ := protocol.DialectUnion.Gates("seq")
		client := actortest.NewClient(&actortest.History{})
		b := newBinOn(client.Out(), 1<<20, gates)
		b.Client = client
		b.Stop()
		b.tell(response("a"))
		actortest.Settle() // is being written
		b.tell(response("b"))
		b.sys.Root.Send(b.writer, forget{"s1"})
		b.tell(response("c"))
		b.Go()
		actortest.Settle()
		var seqs []int64
		for _, l := range b.Lines() {
			seqs = append(seqs, gjson.Get(l, "seq").Int())
		}
		assert.Equal(t, []int64{1, 2, 1}, seqs)
		b.end(t)
	})
}
