package conn

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/link"
	"troupe/protocol"
)

// end is the update that ends the text of [begun].
func end(text string) link.Item {
	return link.Item{Event: &protocol.MessageUpdate{Step: protocol.UpdateEnd, Kind: protocol.BlockText, Block: protocol.Text{Text: text}, RunID: "1"}}
}

// TestFrames: a client that reads whole messages receives the first delta at once, the
// later ones every 8 ms at most, the last at once with the record that follows it.
func TestFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBin(1 << 20)
		b.tell(begun...)
		actortest.Settle()
		started := time.Now()
		for i := range 100 { // a delta every millisecond
			b.tell(delta("x"))
			actortest.Settle()
			if i == 0 {
				require.Len(t, b.Lines(), 3, "the first is not delayed")
			}
			time.Sleep(time.Millisecond)
		}
		b.tell(end(strings.Repeat("x", 100)))
		actortest.Settle()
		seconds := time.Since(started).Seconds()
		updates, text, lines := 0, "", b.Lines()
		for _, l := range lines {
			if e := gjson.Get(l, "assistantMessageEvent"); e.Get("type").Str == "text_delta" {
				updates++
				text += e.Get("delta").Str
				assert.Equal(t, text, gjson.Get(l, "message.content.0.text").Str)
			}
		}
		assert.Equal(t, strings.Repeat("x", 100), text, "no delta is lost")
		assert.LessOrEqual(t, updates, 2+int(seconds*125))
		assert.GreaterOrEqual(t, updates, int(seconds*125), "and none waits longer than it must")
		assert.Equal(t, "text_end", gjson.Get(lines[len(lines)-1], "assistantMessageEvent.type").Str)
		b.end(t)
	})
}

// TestFrames_pause: a delta that nothing follows is shown within 8 ms.
func TestFrames_pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBin(1 << 20)
		b.tell(begun...)
		b.tell(delta("a"))
		actortest.Settle()
		before := len(b.Lines())
		b.tell(delta("b"))
		time.Sleep(frameTime - time.Nanosecond)
		actortest.Settle()
		assert.Len(t, b.Lines(), before)
		time.Sleep(time.Nanosecond)
		actortest.Settle()
		assert.Len(t, b.Lines(), before+1)
		time.Sleep(time.Second)
		b.tell(delta("c"))
		actortest.Settle()
		assert.Len(t, b.Lines(), before+2, "after a pause a delta is not delayed")
		b.end(t)
	})
}

// TestFrames_releasedByOthers: no other record waits for a frame, and none overtakes
// the deltas of its session. The end of the daemon waits for none either.
func TestFrames_releasedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, release := range map[string]func(*bin){
			"response": func(b *bin) { b.tell(response("r1")) },
			"progress": func(b *bin) { b.tell(progress("c1", "p")) },
			"other session": func(b *bin) {
				link.Client{Writer: b.writer, Window: b.window, Tag: "s2"}.Send(b.sys.Root, response("r1"))
			},
			"flush": func(b *bin) { b.sys.Root.RequestWithCustomSender(b.writer, flush{}, b.probe.PID) },
			"hurry": func(b *bin) { b.sys.Root.Send(b.writer, hurry{}) },
			"dropped session": func(b *bin) {
				b.sys.Root.Send(b.writer, link.Forget{Tag: "s1"})
			},
		} {
			b := newBin(1 << 20)
			b.tell(begun...)
			b.tell(delta("a"))
			actortest.Settle()
			b.tell(delta("b"))
			b.tell(delta("c"))
			actortest.Settle()
			before := len(b.Lines())
			release(b)
			actortest.Settle()
			lines := b.Lines()[before:]
			if assert.NotEmpty(t, lines, name) {
				assert.Equal(t, "bc", gjson.Get(lines[0], "assistantMessageEvent.delta").Str, name)
			}
			b.end(t)
		}
	})
}

// TestFrames_deltaUpdates: a client that reads deltas alone receives each at once.
func TestFrames_deltaUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := actortest.NewClient(&actortest.History{})
		wire, _, _ := protocol.DialectUnion.Open(string(protocol.FeatureDeltaUpdates))
		b := newBinOn(client.Out(), 1<<20, wire)
		b.Client = client
		b.tell(begun...)
		for range 10 {
			b.tell(delta("x"))
			actortest.Settle()
		}
		assert.Len(t, b.Lines(), 12)
		b.end(t)
	})
}

// TestFrames_sessions: deltas of sessions that stream at once merge with their own
// session's, and each session has its own frames.
func TestFrames_sessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBin(1 << 20)
		tags := []string{"s1", "s2", "s3"}
		send := func(tag string, items ...link.Item) {
			link.Client{Writer: b.writer, Window: b.window, Tag: tag}.Send(b.sys.Root, items...)
		}
		for _, tag := range tags {
			send(tag, begun...)
			send(tag, delta("a"))
		}
		actortest.Settle()
		before := len(b.Lines())
		for range 100 {
			for _, tag := range tags {
				send(tag, delta("b"))
			}
		}
		actortest.Settle()
		assert.Len(t, b.Lines(), before)
		time.Sleep(frameTime)
		actortest.Settle()
		shown := b.Lines()[before:]
		require.Len(t, shown, len(tags))
		for i, l := range shown {
			assert.Equal(t, tags[i], gjson.Get(l, "sessionId").Str)
			assert.Equal(t, "a"+strings.Repeat("b", 100), gjson.Get(l, "message.content.0.text").Str)
		}
		in, out := b.window.Balance()
		assert.Equal(t, in, out)
		b.end(t)
	})
}
