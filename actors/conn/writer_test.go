package conn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/protocol/pi"
)

// bin is a client for a writer by itself: a probe is its parent and its source.
type bin struct {
	*actortest.Client
	sys    *actor.ActorSystem
	probe  *actortest.Probe
	writer *actor.PID
	window *link.Window
	runs   inlining // of whoever tells it
}

// inlining is a dispatcher of which only this is asked.
type inlining struct {
	kernel.Dispatcher
	on atomic.Bool
}

func (i *inlining) Inlining() bool { return i.on.Load() }

func newBin(limit int) *bin {
	client := actortest.NewClient(&actortest.History{})
	wire, _, _ := protocol.DialectUnion.Open()
	b := newBinOn(client.Out(), limit, wire)
	b.Client = client
	return b
}

func newBinOn(out io.Writer, limit int, wire protocol.Wire) *bin {
	return newLaggingBin(out, limit, 0, wire)
}

func newLaggingBin(out io.Writer, limit, lags int, wire protocol.Wire) *bin {
	sys := actor.NewActorSystem(actortest.Quiet())
	b := &bin{Client: actortest.NewClient(&actortest.History{}), sys: sys, probe: actortest.NewProbe(sys)}
	b.window = link.NewWindow(limit, sys.Root)
	b.writer = b.probe.Spawn(sys, actor.PropsFromProducer(func() actor.Actor {
		return newWriter(out, &b.runs, b.window, pi.Codec{}, wire, zerolog.Nop(), lag{most: lags})
	}))
	return b
}

func (b *bin) tell(items ...link.Item) {
	link.Client{Writer: b.writer, Window: b.window, Tag: "s1"}.Send(b.sys.Root, items...)
}

func (b *bin) end(t *testing.T) {
	b.Go()
	require.NoError(t, b.sys.Root.PoisonFuture(b.probe.PID).Wait())
}

func delta(text string) link.Item {
	return link.Item{Event: &protocol.MessageUpdate{Step: protocol.UpdateDelta, Kind: protocol.BlockText, Delta: text, RunID: "1"}}
}

func progress(call, text string) link.Item {
	return link.Item{Event: protocol.ToolExecutionUpdate{ToolCallID: call, ToolName: "bash", Args: []byte("{}"), RunID: "1",
		PartialResult: protocol.ToolResult{Content: protocol.TextContent(text)}}}
}

func response(id string) link.Item {
	return link.Item{Response: &protocol.Response{ID: []byte(`"` + id + `"`), Command: "get_state"}}
}

// begun is the part of a message that its updates grow.
var begun = []link.Item{
	{Event: protocol.MessageStart{Message: &protocol.AssistantMessage{Content: protocol.Content{}}, RunID: "1"}},
	{Event: &protocol.MessageUpdate{Step: protocol.UpdateStart, Kind: protocol.BlockText, RunID: "1"}},
}

// TestMerging: what a slow client has not read yet is merged where nothing is
// lost by it: neighbouring deltas of one block, progress of one call.
func TestMerging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
		b := newBin(10_000)
		b.Stop()
		for i := range 200 {
			b.tell(response(fmt.Sprint("a", i)), progress("c1", fmt.Sprint("p", i)), progress("c1", fmt.Sprint("q", i)))
		}
		actortest.Settle()
		require.True(t, b.window.Full())
		b.window.Tell(b.probe.PID)
		b.window.Tell(b.probe.PID)
		actortest.Settle()
		assert.Empty(t, b.probe.Take())
		b.Crawl(time.Millisecond)
		b.Resume()
		time.Sleep(time.Minute)
		actortest.Settle()
		assert.Equal(t, []any{link.WindowOpen{}}, b.probe.Take())
		in, out := b.window.Balance()
		assert.Zero(t, in)
		assert.Zero(t, out)
		assert.Len(t, b.Lines(), 400, "responses are never dropped")
		b.end(t)
	})
}

// TestWriterFails: the parent hears of it, once, and what comes later is gone.
func TestWriterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// TestUnreadAtTheEnd: while the daemon ends a client that reads nothing for ReadLimit is given
// up, and one that reads slowly is not.
func TestUnreadAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBin(1 << 20)
		b.Stop()
		b.tell(response("a"))
		b.sys.Root.RequestWithCustomSender(b.writer, flush{}, b.probe.PID)
		time.Sleep(time.Minute)
		require.Empty(t, b.probe.Take(), "a daemon that goes on waits for it")
		b.sys.Root.Send(b.writer, hurry{})
		time.Sleep(ReadLimit - time.Millisecond)
		actortest.Settle()
		require.Empty(t, b.probe.Take())
		time.Sleep(time.Millisecond)
		actortest.Settle()
		assert.Equal(t, []any{outputFailed{ErrUnread}, flushed{ErrUnread}}, b.probe.Take())
		in, out := b.window.Balance()
		assert.Zero(t, in+out)
		b.Go()
		actortest.Settle()
		b.end(t)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBin(1 << 20)
		b.Stop()
		b.sys.Root.Send(b.writer, hurry{})
		for i := range 10 { // each write takes nearly as long as it may
			b.tell(response(fmt.Sprint("a", i)))
			time.Sleep(ReadLimit - time.Millisecond)
			b.Go()
			actortest.Settle()
			b.Stop()
		}
		time.Sleep(time.Minute)
		assert.Empty(t, b.probe.Take())
		assert.Len(t, b.Lines(), 10)
		b.end(t)
	})
}

// TestLongResponse: a response that is written in pieces is the same line, with
// others before and behind it, and the writer never holds it whole.
func TestLongResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		message := protocol.Seal(&protocol.UserMessage{Content: protocol.TextContent(strings.Repeat("word ", 100))})
		list := protocol.NewList(`{"messages":[`, `]}`, 3000, 0, func(dst []byte, _ int) []byte { return message.AppendJSON(dst) })
		for _, features := range [][]string{nil, {"seq"}} {
			wire, _, _ := protocol.DialectUnion.Open(features...)
			want := pi.NewEncoder(wire, "s1").AppendResponse(nil, protocol.Response{ID: []byte(`"x"`), Command: "get_messages", Data: whole{list}})
			out := &written{}
			b := newBinOn(out, 1<<20, wire)
			b.tell(link.Item{Response: &protocol.Response{ID: []byte(`"x"`), Command: "get_messages", Data: list}}, response("y"))
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
	synctest.Test(t, func(t *testing.T) {
		broken := protocol.Seal(&protocol.UnknownMessage{Raw: []byte("{\n")})
		for _, features := range [][]string{nil, {"seq"}} {
			wire, _, _ := protocol.DialectUnion.Open(features...)
			out := &written{}
			b := newBinOn(out, 1<<20, wire)
			b.tell(response("a"),
				link.Item{Response: &protocol.Response{ID: []byte(`"b"`), Command: "get_tree", Data: protocol.Raw("[\n")}},
				link.Item{Event: protocol.MessageEnd{Message: broken}},
				link.Item{Event: protocol.AgentStart{RunID: "1"}},
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

// written keeps what is written and how long the longest write was.
type written struct {
	text strings.Builder
	most int
}

func (s *written) Write(p []byte) (int, error) {
	s.most = max(s.most, len(p))
	return s.text.Write(p)
}

// whole hides that a list can be written in pieces.
type whole struct{ list protocol.Pieces }

func (w whole) AppendJSON(dst []byte) []byte { return w.list.AppendJSON(dst) }

// TestWriterForgets: what the writer knows of a session that is gone is let go
// behind its last record, though the client has not read that yet.
func TestWriterForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire, _, _ := protocol.DialectUnion.Open("seq")
		client := actortest.NewClient(&actortest.History{})
		b := newBinOn(client.Out(), 1<<20, wire)
		b.Client = client
		b.Stop()
		event := func(seq uint64) link.Item { return link.Item{Event: protocol.TurnStart{}, Seq: seq} }
		b.tell(event(1))
		actortest.Settle() // is being written
		b.tell(event(2))
		b.sys.Root.Send(b.writer, link.Forget{Tag: "s1"})
		b.tell(event(3))
		b.Go()
		actortest.Settle()
		assert.Equal(t, []string{
			`{"type":"turn_start","sessionId":"s1","seq":1}`, `{"type":"turn_start","sessionId":"s1","seq":2}`,
			`{"type":"turn_start","sessionId":"s1","seq":3,"seqFrom":1}`,
		}, b.Lines())
		b.end(t)
	})
}

// narrow takes some bytes of what is tried, and all of what is written.
type narrow struct {
	bytes.Buffer
	room  int // for each try
	err   error
	tries int
}

func (n *narrow) TryWrite(p []byte) (int, error) {
	n.tries++
	if n.err != nil {
		return 0, n.err
	}
	return n.Write(p[:min(n.room, len(p))])
}

// TestTryWrite: an answer is written at once if the client takes it; what it
// does not take is written by who may wait, and nothing overtakes it.
func TestTryWrite(t *testing.T) {
	for _, room := range []int{1 << 20, 300, 5, 0} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wire, _, _ := protocol.DialectUnion.Open()
				out := &narrow{room: room}
				b := newBinOn(out, 1<<20, wire)
				b.runs.on.Store(true)
				var want []string
				for i := range 100 {
					items := []link.Item{response(fmt.Sprint(i))}
					if i%3 == 0 {
						items = append(items, response(fmt.Sprint(i, "b")))
					}
					for _, it := range items {
						want = append(want, strings.Trim(string(it.Response.ID), `"`))
					}
					b.tell(items...)
					if i%10 == 0 {
						actortest.Settle()
					}
				}
				actortest.Settle()
				var got []string
				for line := range strings.Lines(out.String()) {
					got = append(got, gjson.Get(line, "id").Str)
				}
				assert.Equal(t, want, got)
				assert.NotZero(t, out.tries)
				b.end(t)
			})
		})
	}
}

// TestTryWrite_much: of more than is written at once the client takes at once what it can, too.
func TestTryWrite_much(t *testing.T) {
	for _, room := range []int{1 << 20, 1000} {
		synctest.Test(t, func(t *testing.T) {
			wire, _, _ := protocol.DialectUnion.Open()
			out := &narrow{room: room}
			b := newBinOn(out, 8<<20, wire)
			b.runs.on.Store(true)
			items := []link.Item{delta(strings.Repeat("x", writeChunk)), response("1")}
			b.tell(items...)
			actortest.Settle()
			assert.Equal(t, 2, strings.Count(out.String(), "\n"))
			assert.Equal(t, 2, out.tries, "room for %d", room)
			b.end(t)
		})
	}
}

// TestTryWrite_gone: a client that is gone is noticed there, too.
func TestTryWrite_gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire, _, _ := protocol.DialectUnion.Open()
		b := newBinOn(&narrow{err: syscall.EPIPE}, 1<<20, wire)
		b.runs.on.Store(true)
		b.tell(response("1"))
		actortest.Settle()
		assert.Equal(t, syscall.EPIPE, actortest.Expect[outputFailed](t, b.probe).err)
		b.end(t)
	})
}

// TestReceiptOfAClientThatIsGone: what cannot be written is not waited for.
func TestReceiptOfAClientThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBin(1 << 20)
		waiting, late := link.NewReceipt(), link.NewReceipt()
		began, waited := time.Now(), make(chan bool, 1)
		go func() { waited <- waiting.Wait(t.Context()) }()
		b.Stop()
		b.tell(delta("x"))
		b.tell(link.Item{Event: protocol.AgentStart{RunID: "1"}, Receipt: waiting})
		actortest.Settle()
		time.Sleep(time.Second)
		assert.Empty(t, waited, "it is not written yet")
		b.Break()
		assert.True(t, <-waited)
		b.tell(link.Item{Event: protocol.AgentStart{RunID: "2"}, Receipt: late})
		assert.True(t, late.Wait(t.Context()))
		assert.Less(t, time.Since(began), 2*time.Second)
		b.end(t)
	})
}

// TestOneRecordMayWait: a record that is larger than all that may wait for a client that
// no session waits for is not dropped; two are, and so are deltas that have become large.
func TestOneRecordMayWait(t *testing.T) {
	wire, _, _ := protocol.DialectUnion.Open()
	large := func() link.Item {
		end := protocol.MessageEnd{Message: &protocol.AssistantMessage{Content: protocol.TextContent(strings.Repeat("x", 5000))}, RunID: "1"}
		return link.Item{Event: end, Seq: 1, Size: 5200}
	}
	numbered := func(it link.Item) link.Item { it.Seq = 1; return it }
	for name, c := range map[string]struct {
		items []link.Item
		kept  bool
	}{
		"one": {[]link.Item{large()}, true}, "two": {[]link.Item{large(), large()}, false},
		"deltas": {[]link.Item{numbered(delta(strings.Repeat("y", 3000))), numbered(delta(strings.Repeat("z", 3000)))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := actortest.NewClient(&actortest.History{})
				b := newLaggingBin(client.Out(), 1<<20, 1000, wire)
				b.Client = client
				b.Stop()
				b.tell(begun...)
				actortest.Settle() // these are being written
				b.tell(c.items...)
				b.tell(response("r"))
				actortest.Settle()
				b.Go()
				actortest.Settle()
				told := strings.Contains(fmt.Sprint(b.Lines()), `"resync"`)
				assert.Equal(t, c.kept, !told, "%.600s", fmt.Sprint(b.Lines()))
				b.end(t)
			})
		})
	}
}

// TestEscapeSeparators checks that no line holds U+2028 or U+2029, and that every other character stays.
func TestEscapeSeparators(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"plain \u2019quoted\u2019 \u2030":   "plain \u2019quoted\u2019 \u2030",
		"\u2028":                            `\u2028`,
		"a\u2028b\u2029\u2029c\u2027\u202a": `a\u2028b\u2029\u2029c` + "\u2027\u202a",
		"ends in the middle \xe2\x80":       "ends in the middle \xe2\x80",
		"\xe2\xe2\x80\xa8":                  "\xe2" + `\u2028`,
	} {
		_, got := escapeSeparators(nil, []byte(text))
		assert.Equal(t, want, string(got))
	}
}
