package providertest

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// repeats: what passes is asked again by itself, as often as the request allows
// and no faster than the service wants; nothing that began is, and nothing that
// no repeat cures.
func (s *suite) repeats(t *testing.T) {
	const ms = time.Millisecond
	twice := providers.Repeats{Max: 2, MaxWait: time.Minute}
	quiet := twice
	quiet.MaxQuiet = 2 * time.Second
	refuse := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(s.Refusal(status, "something is the matter"))
		}
	}
	hang := func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }
	full := join(s.Answer(short))
	answer, half := play(full, 0), play(join(s.Answer(short)[:1]), 0)
	nothing := func(w http.ResponseWriter, _ *http.Request) { startStream(w) }
	empty := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`)
	}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, c := range []repeated{
		{"an answer", []http.HandlerFunc{answer}, twice, protocol.StallLimits{}, nil, ""},
		{"one 500", []http.HandlerFunc{refuse(500), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms}, ""},
		{"two 529", []http.HandlerFunc{refuse(529), refuse(529), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms, 1500 * ms}, ""},
		{"three 529", []http.HandlerFunc{refuse(529), refuse(529), refuse(529), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms, 1500 * ms}, "529"},
		{"not allowed", []http.HandlerFunc{refuse(500), answer}, providers.Repeats{}, protocol.StallLimits{}, nil, "500"},
		{"as often as it says", []http.HandlerFunc{refuse(503)}, providers.Repeats{Max: 6}, protocol.StallLimits{},
			[]time.Duration{500 * ms, 1500 * ms, 3500 * ms, 7500 * ms, 15500 * ms, 23500 * ms}, "503"},
		{"408", []http.HandlerFunc{refuse(408), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms}, ""},
		{"409", []http.HandlerFunc{refuse(409), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms}, ""},
		{"429", []http.HandlerFunc{refuse(429), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms}, ""},
		{"400", []http.HandlerFunc{refuse(400), answer}, twice, protocol.StallLimits{}, nil, "400"},
		{"401", []http.HandlerFunc{refuse(401), answer}, twice, protocol.StallLimits{}, nil, "401"},
		{"an empty account", []http.HandlerFunc{empty, answer}, twice, protocol.StallLimits{}, nil, "quota"},
		{"the service says no", []http.HandlerFunc{refuse(500, "X-Should-Retry", "false"), answer}, twice, protocol.StallLimits{}, nil, "500"},
		{"the service says yes", []http.HandlerFunc{refuse(400, "X-Should-Retry", "true"), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms}, ""},
		{"a wait in seconds", []http.HandlerFunc{refuse(429, "Retry-After", "7"), answer}, twice, protocol.StallLimits{}, []time.Duration{7000 * ms}, ""},
		{"a wait in milliseconds", []http.HandlerFunc{refuse(429, "Retry-After-Ms", "800"), answer}, twice, protocol.StallLimits{}, []time.Duration{800 * ms}, ""},
		{"a wait of nothing", []http.HandlerFunc{refuse(429, "Retry-After", "0"), answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms}, ""},
		{"too long a wait", []http.HandlerFunc{refuse(429, "Retry-After", "61"), answer}, twice, protocol.StallLimits{}, nil, "Server requested 61s retry delay (max: 60s). "},
		{"no wait too long", []http.HandlerFunc{refuse(429, "Retry-After", "61"), answer}, providers.Repeats{Max: 1}, protocol.StallLimits{}, []time.Duration{61 * time.Second}, ""},
		{"a wait that the caller announces", []http.HandlerFunc{refuse(500), refuse(429, "Retry-After", "25"), answer}, quiet, protocol.StallLimits{}, []time.Duration{500 * ms}, "429"},
		{"a broken connection", []http.HandlerFunc{hang, hang, answer}, twice, protocol.StallLimits{}, []time.Duration{500 * ms, 1500 * ms}, ""},
		{"headers and nothing else", []http.HandlerFunc{nothing, answer}, twice, protocol.StallLimits{}, nil, "ended without"},
		{"a part of an answer", []http.HandlerFunc{half, answer}, twice, protocol.StallLimits{}, nil, "ended without"},
		{"silence", []http.HandlerFunc{silent, answer}, twice, protocol.StallLimits{}, nil, "stalled"},
		{"silence, with a limit asked for", []http.HandlerFunc{silent, answer}, twice, protocol.StallLimits{ConnectMs: 2000}, []time.Duration{2500 * ms}, ""},
	} {
		t.Run(c.name, func(t *testing.T) { s.repeat(t, c) })
	}
	t.Run("abort", func(t *testing.T) { s.repeatAborted(t, refuse(429, "Retry-After", "30"), twice) })
	t.Run("report", func(t *testing.T) { s.repeatReported(t, refuse(500, "Retry-After", "3"), twice) })
}

// repeated is what a service answers, and how often and when it is asked.
type repeated struct {
	name    string
	answers []http.HandlerFunc // the last one again and again
	repeats providers.Repeats
	stall   protocol.StallLimits
	asked   []time.Duration // after the first request
	text    string          // of the error, "" for none
}

func (s *suite) repeat(t *testing.T, c repeated) {
	var mu sync.Mutex
	var asked []time.Duration
	var begun time.Time
	var bodies []string
	s.faked(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		bodies = append(bodies, string(body))
		n := min(len(asked), len(c.answers)-1)
		if asked = append(asked, 0); n == 0 && len(asked) == 1 {
			begun = time.Now()
		}
		asked[len(asked)-1] = time.Since(begun)
		mu.Unlock()
		c.answers[n](w, req)
	}, func(t *testing.T, r *rig) {
		req := question(r.model)
		req.Repeats, req.Network.Stall = c.repeats, c.stall
		got, failed := r.put(t.Context(), t, req)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, append([]time.Duration{0}, c.asked...), asked)
		for _, body := range bodies {
			require.Equal(t, bodies[0], body)
		}
		if c.text != "" {
			require.NotNil(t, failed)
			require.Contains(t, failed.Message, c.text)
			require.Equal(t, len(asked)-1, failed.Repeats)
			return
		}
		require.Nil(t, failed)
		require.Equal(t, "Hello, wörld", got.Content.Text(""), "nothing comes twice")
	})
}

// repeatAborted: a wait ends with the abort.
func (s *suite) repeatAborted(t *testing.T, refuse http.HandlerFunc, twice providers.Repeats) {
	s.faked(t, refuse, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := question(r.model)
		req.Repeats = twice
		begun := time.Now()
		_, failed := r.put(ctx, t, req)
		assertKind(t, failed, protocol.ErrorAborted)
		assert.Equal(t, time.Second, time.Since(begun), "a wait ends with the abort")
	})
}

// repeatReported: whoever wants to know hears of every answer, and when it is asked again.
func (s *suite) repeatReported(t *testing.T, refuse http.HandlerFunc, twice providers.Repeats) {
	var said []string // by the client, in this goroutine
	config := wire.ClientConfig{Failed: func(m *protocol.Model, err protocol.StreamError, again time.Duration) {
		said = append(said, again.String())
		assert.NotEmpty(t, m.ID)
		assert.Contains(t, err.Body, "something is the matter")
	}}
	s.fakedWith(t, config, refuse, func(t *testing.T, r *rig) {
		req := question(r.model)
		req.Repeats = twice
		_, failed := r.put(t.Context(), t, req)
		require.NotNil(t, failed)
		assert.Equal(t, []string{"3s", "3s", "0s"}, said)
	})
}
