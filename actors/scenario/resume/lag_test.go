package resume

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// TestLag checks that a session does not wait for a client whose events may be dropped. The client
// receives resync where events are missing, no events until it attaches again, and the missing
// events after that.
func TestLag(t *testing.T) {
	for _, deltas := range []bool{true, false} {
		t.Run(fmt.Sprint(deltas), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				a := harness.Start(t)
				s := a.Open()
				features := []string{"seq"}
				if deltas {
					features = append(features, "deltaUpdates")
				}
				b := a.Connect(func(of *conn.Config) { of.Features, of.Lag, of.MaxOutput = features, 16<<10, 8<<10 })
				r := &reader{last: b.Call(t, `{"type":"attach"`+harness.At(s)+`}`).Get("data.seq").Int()}
				b.Stop()
				a.Say(s, "prompt", "~"+s+"~ rounds=20 parts=40")
				a.Advance(time.Minute)
				require.Len(t, a.Events(s, "agent_settled"), 1, "it has not waited")
				_, out := b.Window.Balance()
				assert.Less(t, out, 100<<10)
				b.Send(`{"type":"get_state"` + harness.At(s) + `}`)
				b.Go()
				a.Advance(time.Second)
				read := b.Events(s)
				last := read[len(read)-1]
				require.Equal(t, "resync lagged", last.Get("type").Str+" "+last.Get("reason").Str)
				r.take(t, read[:len(read)-1], deltas)
				assert.Equal(t, r.last, last.Get("seq").Int())
				assert.False(t, b.Last("get_state").Get("at").Exists(), "it has not read up to there")
				a.Run(s, "~"+s+"~ more")
				assert.Len(t, b.Events(s), len(read), "it hears nothing more")
				v := b.Call(t, fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"e","seq":%d}}`, harness.At(s), r.last))
				if v.Get("data.replay").Str == "snapshot" {
					r.last, r.text = v.Get("data.seq").Int(), ""
				}
				a.Run(s, "~"+s+"~ and more")
				r.take(t, b.Events(s)[len(read):], deltas)
				assert.Equal(t, "agent_settled", r.lines[len(r.lines)-1].Get("type").Str)
				require.NoError(t, b.Leave())
				a.CheckAll()
			})
		})
	}
}
