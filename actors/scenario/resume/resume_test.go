package resume

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// reader collects the events of a client that disconnects and reconnects, over all its connections.
type reader struct {
	lines []gjson.Result // events with a number
	last  int64
	exact int
	shots int
	text  string // text of the streamed message, from deltas
}

// take appends events, and checks their numbers and the text of updates.
func (r *reader) take(t *testing.T, lines []gjson.Result, deltas bool) {
	for _, v := range lines {
		seq, from := v.Get("seq").Int(), v.Get("seq").Int()
		if v.Get("seqFrom").Exists() {
			from = v.Get("seqFrom").Int()
		}
		require.Equal(t, r.last+1, from, "behind %d: %s", r.last, v.Raw)
		r.last = seq
		r.lines = append(r.lines, v)
		switch v.Get("type").Str {
		case "message_start":
			r.text = ""
		case "message_update":
			step := v.Get("assistantMessageEvent")
			if step.Get("type").Str == "text_delta" {
				r.text += step.Get("delta").Str
			}
			if !deltas {
				require.Equal(t, r.text, v.Get("message.content.0.text").Str, v.Raw)
			}
		case "message_end":
			if v.Get("message.role").Str == "assistant" {
				require.Equal(t, v.Get("message.content.0.text").Str, r.text)
			}
		}
	}
}

// TestResume disconnects a client at random points. It checks that the client receives every event
// after the number that it sends to attach, and none twice, or a snapshot.
func TestResume(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 19))
				deltas := seed%2 == 0
				features := []string{"seq"}
				if deltas {
					features = append(features, "deltaUpdates")
				}
				a := harness.Start(t)
				s := a.Open()
				r := &reader{}
				since, epoch := int64(-1), "e"
				a.Say(s, "prompt", "~"+s+"~ rounds=2 parts=60 pace=100")
				for settled := false; !settled; {
					b := a.Connect(func(of *conn.Config) {
						of.Features = features
						of.Drain = true
					})
					ask := ""
					if since >= 0 {
						ask = fmt.Sprintf(`,"since":{"epoch":%q,"seq":%d}`, epoch, since)
					}
					answer := b.Call(t, `{"type":"attach"`+harness.At(s)+ask+`}`)
					require.True(t, answer.Get("success").Bool(), answer.Raw)
					require.Equal(t, "e", answer.Get("data.epoch").Str)
					switch answer.Get("data.replay").Str {
					case "exact":
						r.exact++
						require.Equal(t, since, answer.Get("at").Int())
					case "snapshot":
						r.shots++
						require.Equal(t, "gone", answer.Get("data.why").Str)
						fallthrough
					default:
						r.last = answer.Get("data.seq").Int()
						r.text = answer.Get("data.snapshot.partial.message.content.0.text").Str
					}
					// The client may be in the middle of a message, whose text it does not know.
					if since < 0 {
						r.text = ""
					}
					a.Advance(time.Duration(rng.IntN(4000)) * time.Millisecond)
					events := b.Events(s)
					settled = len(a.Events(s, "agent_settled")) > 0
					if !settled && len(events) > 0 { // the rest is lost in transit
						events = events[:rng.IntN(len(events)+1)]
					}
					if r.last == 0 || since >= 0 {
						r.take(t, events, deltas)
						since = r.last
					} else {
						since = r.last
					}
					b.Close()
					require.NoError(t, b.WaitClosed())
				}
				assert.NotEmpty(t, r.lines)
				assert.GreaterOrEqual(t, r.exact, r.shots)
				assert.Equal(t, "agent_settled", r.lines[len(r.lines)-1].Get("type").Str)
				a.End()
			})
		})
	}
}

// TestResumeRefused checks that attach with an unknown position is refused with resync_required, or
// answered with a snapshot.
func TestResumeRefused(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		a.Run(s, "~"+s+"~ one")
		b := a.Connect(func(of *conn.Config) { of.Features = []string{"seq"} })
		attach := func(more string) gjson.Result { return b.Call(t, `{"type":"attach"`+harness.At(s)+more+`}`) }
		v := attach("")
		assert.False(t, v.Get("data.replay").Exists(), v.Raw)
		last := v.Get("data.seq").Int()
		require.Positive(t, last)
		assert.Equal(t, "resync_required", harness.Code(attach(fmt.Sprintf(`,"since":{"epoch":"e","seq":%d}`, last+1))))
		assert.Equal(t, "resync_required", harness.Code(a.Call(t, `{"type":"attach"`+harness.At(s)+`,"since":{"epoch":"e","seq":0}}`)), "without the feature")
		v = attach(`,"since":{"epoch":"of another life","seq":7}`)
		assert.Equal(t, "snapshot epoch", v.Get("data.replay").Str+" "+v.Get("data.why").Str)
		v = attach(`,"since":{"epoch":"e","seq":0}`)
		assert.Equal(t, "snapshot gone", v.Get("data.replay").Str+" "+v.Get("data.why").Str, "nobody could tell numbers then")
		entries := v.Get("data.snapshot.entries").Array()
		assert.Equal(t, v.Get("data.snapshot.leafId").Str, entries[len(entries)-1].Get("id").Str)
		v = attach(`,"snapshot":{"limit":1}`)
		assert.Equal(t, "snapshot asked", v.Get("data.replay").Str+" "+v.Get("data.why").Str)
		assert.Len(t, v.Get("data.snapshot.entries").Array(), 1)
		assert.True(t, v.Get("data.snapshot.hasMore").Bool())
		v = attach(fmt.Sprintf(`,"since":{"epoch":"e","seq":%d}`, last))
		assert.Equal(t, "exact 0", v.Get("data.replay").Str+" "+v.Get("data.replayed").Raw)
		a.End()
	})
}

// TestResumeOnTheSameConnection checks that a client can attach again on the same connection, from
// any event and from the first one on, and receives the following events with the same numbers and
// content.
func TestResumeOnTheSameConnection(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, func(c *actors.Config) { c.Conn.Features = []string{"seq", "deltaUpdates"} })
		s := a.Open()
		a.Say(s, "prompt", "~"+s+"~ parts=3 pace=1000")
		a.Advance(time.Minute)
		said := a.Events(s)
		numbered := slices.IndexFunc(said, func(e gjson.Result) bool { return e.Get("seq").Int() == 1 })
		said = said[numbered:]
		require.Greater(t, len(said), 10)
		for i := -1; i < len(said); i++ {
			read := int64(0)
			if i >= 0 {
				read = said[i].Get("seq").Int()
			}
			before := len(a.Events(s))
			v := a.Call(t, fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"e","seq":%d}}`, harness.At(s), read))
			require.Equal(t, "exact", v.Get("data.replay").Str, v.Raw)
			a.Advance(time.Second)
			for _, e := range a.Events(s)[before:] {
				from := e.Get("seq").Int()
				require.Positive(t, from, e.Raw)
				if merged := e.Get("seqFrom"); merged.Exists() { // adjacent deltas are merged
					from = merged.Int()
				} else {
					assert.Equal(t, said[slices.IndexFunc(said, func(of gjson.Result) bool { return of.Get("seq").Int() == from })].Raw, e.Raw)
				}
				require.Equal(t, read+1, from, e.Raw)
				read = e.Get("seq").Int()
			}
			require.Equal(t, said[len(said)-1].Get("seq").Int(), read)
		}
		a.End()
	})
}

// TestAttachWhileAMessageGrows checks that a client that attaches during a message receives its
// whole text in each cumulative update.
func TestAttachWhileAMessageGrows(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		a.Say(s, "prompt", "~"+s+"~ parts=10 pace=1000")
		a.Advance(5500 * time.Millisecond)
		b := a.Connect()
		b.Attach(s)
		a.Advance(time.Minute)
		updates := b.Events(s, "message_update")
		require.NotEmpty(t, updates)
		whole := a.Events(s, "message_end")[1].Get("message.content.0.text").Str
		first := updates[0].Get("message.content.0.text").Str
		assert.True(t, strings.HasPrefix(whole, first) && strings.Contains(first, "part 0"), first)
		a.End()
	})
}

// TestReplayIsWhole checks that all events that the answer to attach announces are sent, even if
// they exceed the lag limit of the client.
func TestReplayIsWhole(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, func(c *actors.Config) { c.Sessions.RingBytes = 8 << 20 })
		s := a.Open()
		b := a.Connect(func(of *conn.Config) { of.Features, of.Lag = []string{"seq", "settingEvents"}, 4<<10 })
		from := b.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("data.seq").Int()
		require.NoError(t, b.Leave())
		for i := range 500 {
			a.Call(t, fmt.Sprintf(`{"type":"set_session_name","name":"%d %s"%s}`, i, strings.Repeat("x", 2000), harness.At(s)))
		}
		b = a.Connect(func(of *conn.Config) { of.Features, of.Lag = []string{"seq", "settingEvents"}, 4<<10 })
		b.Stop() // all of it is queued
		id := b.Send(fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"e","seq":%d}}`, harness.At(s), from))
		a.Settle()
		b.Go()
		a.Settle()
		v := b.Answer(t, id)
		require.Equal(t, "exact", v.Get("data.replay").Str, v.Raw)
		read := b.Events(s)
		require.Len(t, read, int(v.Get("data.replayed").Int()))
		for i, ev := range read {
			require.Equal(t, from+int64(i)+1, ev.Get("seq").Int(), ev.Raw)
		}
		require.NoError(t, b.Leave())
		a.End()
	})
}
