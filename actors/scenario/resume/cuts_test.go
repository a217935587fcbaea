package resume

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
)

var cutHistories = flag.Int("cuts", 60, "how many histories TestCuts plays")

// fold is the state of a session that a client computes from events and, after a reconnect, from
// the answer to attach.
type fold struct {
	Messages []string          // role and content of the complete messages
	Text     string            // text of the message that is being streamed
	Tools    map[string]string // names of the open calls, by id
	Steering string
	FollowUp string
	Dialogs  map[string]bool

	last         int64
	exact, shots int
}

func newFold() *fold { return &fold{Tools: map[string]string{}, Dialogs: map[string]bool{}} }

func messageOf(v gjson.Result) string { return v.Get("role").Str + " " + v.Get("content").Raw }

// take applies events, and checks that none is missing or repeated.
func (f *fold) take(t *testing.T, events []gjson.Result) {
	for _, v := range events {
		from := v.Get("seqFrom")
		if !from.Exists() {
			from = v.Get("seq")
		}
		require.Equal(t, f.last+1, from.Int(), "behind %d: %s", f.last, v.Raw)
		f.last = v.Get("seq").Int()
		switch v.Get("type").Str {
		case "message_start":
			f.Text = ""
		case "message_update":
			if step := v.Get("assistantMessageEvent"); step.Get("type").Str == "text_delta" {
				f.Text += step.Get("delta").Str
			}
		case "message_end":
			f.Messages, f.Text = append(f.Messages, messageOf(v.Get("message"))), ""
		case "tool_execution_start":
			f.Tools[v.Get("toolCallId").Str] = v.Get("toolName").Str
		case "tool_execution_end":
			delete(f.Tools, v.Get("toolCallId").Str)
		case "queue_update":
			f.Steering, f.FollowUp = v.Get("steering").Raw, v.Get("followUp").Raw
		case "extension_ui_request":
			f.Dialogs[v.Get("id").Str] = true
		case "dialog_resolved":
			delete(f.Dialogs, v.Get("id").Str)
		}
	}
}

// attached applies the answer to attach.
func (f *fold) attached(t *testing.T, v gjson.Result) {
	require.True(t, v.Get("success").Bool(), v.Raw)
	if v.Get("data.replay").Str == "exact" {
		require.Equal(t, f.last, v.Get("at").Int())
		f.exact++
		return
	}
	require.Equal(t, "snapshot", v.Get("data.replay").Str, v.Raw)
	f.shots++
	shot := v.Get("data.snapshot")
	*f = fold{
		Text: shot.Get("partial.message.content.0.text").Str, Tools: map[string]string{}, Dialogs: map[string]bool{},
		Steering: shot.Get("steering").Raw, FollowUp: shot.Get("followUp").Raw, last: v.Get("data.seq").Int(), exact: f.exact, shots: f.shots,
	}
	require.False(t, shot.Get("hasMore").Bool())
	for _, e := range shot.Get("entries").Array() {
		if e.Get("type").Str == "message" {
			f.Messages = append(f.Messages, messageOf(e.Get("message")))
		}
	}
	for _, c := range shot.Get("tools").Array() {
		f.Tools[c.Get("toolCallId").Str] = c.Get("toolName").Str
	}
	for _, d := range shot.Get("dialogs").Array() {
		f.Dialogs[d.Get("id").Str] = true
	}
}

// known returns the state as text, with unknown queues shown as empty.
func (f *fold) known(t *testing.T) string {
	same := *f
	for _, queue := range []*string{&same.Steering, &same.FollowUp} {
		if *queue == "" { // no queue_update has arrived
			*queue = "[]"
		}
	}
	text, err := json.Marshal(same)
	require.NoError(t, err)
	return string(text)
}

// TestCuts disconnects a client at random points and connects it again, with the number of its last
// event or for a snapshot. It checks that the client has the same state as one that was never
// disconnected, and that at least half of the reconnects need no snapshot.
func TestCuts(t *testing.T) {
	var exact, shots atomic.Int64
	t.Run("histories", func(t *testing.T) {
		for seed := range uint64(*cutHistories) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) { playCuts(t, seed, &exact, &shots) })
			})
		}
	})
	assert.GreaterOrEqual(t, exact.Load(), shots.Load())
	t.Logf("%d cuts: %d exact, %d snapshots", exact.Load()+shots.Load(), exact.Load(), shots.Load())
}

func playCuts(t *testing.T, seed uint64, exact, shots *atomic.Int64) {
	rng := rand.New(rand.NewPCG(seed, 190))
	features := []string{"seq", "deltaUpdates", "queueUpdate", "dialogEvents"}
	a := harness.Start(t, harness.ConfirmDanger, func(c *actors.Config) { c.Sessions.RingBytes = []int{0, 4 << 10}[seed%2] })
	s := a.Open()
	whole := a.Connect(harness.Features(features...))
	uncut, cut := newFold(), newFold()
	uncut.attached(t, whole.Call(t, `{"type":"attach"`+harness.At(s)+`,"snapshot":{}}`))
	read := len(whole.Events(s))
	for step, met := 0, false; step < 12 || !met; step++ {
		switch rng.IntN(6) {
		case 0, 1:
			tool := []string{"", " tool=danger"}[rng.IntN(2)]
			a.Say(s, "prompt", fmt.Sprintf("~%s~ rounds=%d%s parts=20 pace=50", s, 1+rng.IntN(2), tool), `"streamingBehavior":"followUp"`)
		case 2:
			a.Say(s, "steer", "~"+s+"~ look here")
		case 3:
			for id := range uncut.Dialogs {
				a.Line(fmt.Sprintf(`{"type":"extension_ui_response","id":%q,"confirmed":%t%s}`, id, rng.IntN(2) == 0, harness.At(s)))
			}
		}
		b := a.Connect(harness.Features(features...))
		ask := fmt.Sprintf(`,"since":{"epoch":"e","seq":%d}`, cut.last)
		if cut.last == 0 || rng.IntN(8) == 0 {
			ask = `,"snapshot":{}`
		}
		cut.attached(t, b.Call(t, `{"type":"attach"`+harness.At(s)+ask+`}`))
		a.Advance(time.Duration(rng.IntN(1500)) * time.Millisecond)
		events, all := b.Events(s), whole.Events(s)
		uncut.take(t, all[read:])
		read = len(all)
		if met = rng.IntN(3) == 0; !met { // the rest is lost in transit
			events = events[:rng.IntN(len(events)+1)]
		}
		cut.take(t, events)
		if met {
			require.Equal(t, uncut.last, cut.last)
			require.Equal(t, uncut.known(t), cut.known(t))
		}
		b.Close()
		require.NoError(t, b.WaitClosed())
	}
	for len(uncut.Dialogs) > 0 {
		for id := range uncut.Dialogs {
			a.Line(fmt.Sprintf(`{"type":"extension_ui_response","id":%q,"confirmed":true%s}`, id, harness.At(s)))
		}
		actortest.Settle()
		all := whole.Events(s)
		uncut.take(t, all[read:])
		read = len(all)
	}
	exact.Add(int64(cut.exact))
	shots.Add(int64(cut.shots))
	require.NoError(t, whole.Leave())
	a.End()
}

// TestRingsOfAllSessions checks that the memory of all ring buffers is bounded for the process. The
// session that was idle longest loses its events first, and its client receives a snapshot.
func TestRingsOfAllSessions(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, func(c *actors.Config) { c.Sessions.RingsBytes = 20 << 10 })
		b := a.Connect(harness.Features("seq"))
		idle, busy := a.Open(), a.Open()
		why := func(s string, since int64) string {
			return b.Call(t, fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"e","seq":%d}}`, harness.At(s), since)).Get("data.why").Str
		}
		for _, s := range []string{idle, busy} {
			b.Attach(s)
		}
		a.Run(idle, "~"+idle+"~ one")
		assert.Empty(t, why(idle, 1))
		for range 8 {
			a.Run(busy, "~"+busy+"~ rounds=2")
		}
		actortest.Settle()
		assert.Equal(t, "gone", why(idle, 1))
		a.Run(idle, "~"+idle+"~ two")
		last := b.Call(t, `{"type":"attach"`+harness.At(idle)+`}`).Get("data.seq").Int()
		assert.Empty(t, why(idle, last-1), "it remembers anew")
		require.NoError(t, b.Leave())
		a.End()
	})
}
