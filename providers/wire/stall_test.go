package wire

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// beat is a piece of a body, and how long it takes to come.
type beat struct {
	after time.Duration
	text  string
}

// paced is a body that comes in beats. After the last it hangs, as long as ctx
// lives.
type paced struct {
	ctx   context.Context
	beats []beat
}

func (p *paced) Read(b []byte) (int, error) {
	if len(p.beats) == 0 {
		<-p.ctx.Done()
		return 0, io.ErrClosedPipe
	}
	next := p.beats[0]
	p.beats = p.beats[1:]
	select {
	case <-time.After(next.after):
		return copy(b, next.text), nil
	case <-p.ctx.Done():
		return 0, io.ErrClosedPipe
	}
}

// listen reads a paced body as an exchange does once the headers are there.
func listen(t *testing.T, model *protocol.Model, client protocol.StallLimits, beats ...beat) (text string, failed *protocol.StreamError, took time.Duration) {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	x := &exchange{req: &providers.Request{Model: model}, format: plainWire{}, parent: t.Context(), ctx: ctx, idle: newIdleTimer(providers.LimitsFor(model, client), cancel)}
	defer x.idle.timer.Stop()
	x.idle.headers()
	text, failed = collect(func(yield func(protocol.Part, error) bool) {
		x.yield = yield
		if err := x.read(&timedReader{idle: x.idle, body: &paced{ctx, beats}}, ""); err != nil {
			yield(nil, err)
		}
	})
	return text, failed, time.Since(begun)
}

const (
	sayWord   = "data: {\"say\":\"a\"}\n\n"
	endWord   = "data: {\"end\":1}\n\n"
	keepalive = ": keepalive\n\ndata:\n\nevent: ping\n\n"
)

// TestStall_live: a stream that is alive is never cut off, however long it takes
// as a whole and however slow it is.
func TestStall_live(t *testing.T) {
	far := &protocol.Model{BaseURL: "https://models.example.com"}
	for name, gap := range map[string]time.Duration{"a word every 20 seconds": 20 * time.Second, "just within the limit": 299 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var beats []beat
			for total := time.Duration(0); total < 30*time.Minute; total += gap {
				beats = append(beats, beat{gap, sayWord})
			}
			text, failed, took := listen(t, far, protocol.StallLimits{}, append(beats, beat{gap, endWord})...)
			require.Nil(t, failed, name)
			assert.Len(t, text, len(beats), name)
			assert.GreaterOrEqual(t, took, 30*time.Minute, name)
		})
	}
}

// TestStall_silence: each phase has its limit, and what keeps a connection alive
// is no content.
func TestStall_silence(t *testing.T) {
	var alive []beat
	for range 400 {
		alive = append(alive, beat{10 * time.Second, keepalive})
	}
	said := append([]beat{{time.Second, sayWord}}, alive...)
	far := &protocol.Model{BaseURL: "https://models.example.com"}
	own := &protocol.Model{BaseURL: "https://models.example.com", ProviderConfig: &protocol.ProviderConfig{Stall: protocol.StallLimits{FirstMs: 1500, ContentMs: 2500}}}
	never := &protocol.Model{BaseURL: "https://models.example.com", ProviderConfig: &protocol.ProviderConfig{Stall: protocol.StallLimits{FirstMs: -1, ContentMs: -1}}}
	near := &protocol.Model{BaseURL: "http://192.168.1.2:8000"}
	for _, c := range []struct {
		name   string
		model  *protocol.Model
		client protocol.StallLimits
		beats  []beat
		took   time.Duration
		text   string
	}{
		{"nothing", far, protocol.StallLimits{}, nil, 5 * time.Minute, "no content within 5m0s"},
		{"only comments", far, protocol.StallLimits{}, alive, 5 * time.Minute, "no content within 5m0s"},
		{"comments after a word", far, protocol.StallLimits{}, said, 5*time.Minute + time.Second, "no further content within 5m0s"},
		{"the model's own limit of the first word", own, protocol.StallLimits{}, alive, 1500 * time.Millisecond, "no content within 1.5s"},
		{"the model's own limit of the next", own, protocol.StallLimits{FirstMs: 9}, said, 3500 * time.Millisecond, "no further content within 2.5s"},
		{"the client's limit", far, protocol.StallLimits{ContentMs: 7000}, said, 8 * time.Second, "no further content within 7s"},
		{"a server nearby loads its model first", near, protocol.StallLimits{}, alive, 30 * time.Minute, "no content within 30m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, failed, took := listen(t, c.model, c.client, c.beats...)
			require.NotNil(t, failed, c.name)
			assert.Equal(t, protocol.ErrorStalled, failed.Kind, c.name)
			assert.True(t, failed.Kind.Retryable(), "a stall is worth another attempt")
			assert.Contains(t, failed.Message, c.text, c.name)
			assert.Equal(t, c.took, took, c.name)
		})
	}
	t.Run("switched off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			text, failed, took := listen(t, never, protocol.StallLimits{}, beat{9 * time.Hour, sayWord}, beat{9 * time.Hour, sayWord + endWord})
			require.Nil(t, failed)
			assert.Equal(t, "aa", text)
			assert.Equal(t, 18*time.Hour, took)
		})
	})
}

// lines is a body without an end that sends as fast as it is read.
type lines struct{ text string }

func (l lines) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = l.text[i%len(l.text)]
	}
	return len(b), nil
}

// TestStall_flood: a server that sends and sends and says nothing has stalled, though nobody
// waits for it. What says something is no flood, however much it is.
func TestStall_flood(t *testing.T) {
	for _, text := range []string{"\n", ":\n", "data:\n\n", "event: x\n\n"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		x := &exchange{req: &providers.Request{Model: &protocol.Model{}}, format: plainWire{}, parent: t.Context(), ctx: ctx, idle: newIdleTimer(providers.LimitsFor(&protocol.Model{}, protocol.StallLimits{}), cancel)}
		x.idle.headers()
		x.idle.read = protocol.MaxNoise - 1<<20
		x.yield = func(protocol.Part, error) bool { return true }
		err := x.read(&timedReader{idle: x.idle, body: lines{text}}, "")
		require.NotNil(t, err, "%q", text)
		assert.Equal(t, protocol.ErrorStalled, err.Kind, "%q: %s", text, err.Message)
		x.idle.timer.Stop()
		cancel(nil)
	}
	idle := newIdleTimer(providers.LimitsFor(&protocol.Model{}, protocol.StallLimits{}), func(error) {})
	defer idle.timer.Stop()
	body := &timedReader{idle: idle, body: lines{"x"}}
	for range 4 {
		idle.read = protocol.MaxNoise - 1<<10
		_, err := io.ReadFull(body, make([]byte, 1<<10))
		require.NoError(t, err)
		idle.content()
		require.Zero(t, idle.read)
	}
}
