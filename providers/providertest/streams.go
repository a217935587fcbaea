package providertest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// answers: text, thinking, parallel calls in pieces, usage and what it costs.
func (s *suite) answers(t *testing.T) {
	for name, a := range map[string]Answer{"full": full, "short": short} {
		t.Run(name, func(t *testing.T) {
			r := s.newRig(t, play(join(s.Answer(a)), 0))
			got, failed := r.ask(t)
			require.Nil(t, failed)
			s.equal(t, a, got)
			assert.Equal(t, a.ID, got.ResponseID)
			assert.Equal(t, r.model.Price(a.Usage), got.Usage, "tokens, their sum, and what they cost by the price list")
			assert.Positive(t, got.Usage.Cost.Total)
			assert.NotEmpty(t, got.Raw, "the provider's own word for the reason")
		})
	}
}

// equal compares an answer with what came of it.
func (s *suite) equal(t *testing.T, a Answer, got Folded) {
	t.Helper()
	assert.Equal(t, s.Content(a), got.Content)
	assert.Equal(t, a.Stop, got.Stop)
}

func (s *suite) stopReasons(t *testing.T) {
	for _, stop := range []protocol.StopReason{protocol.StopStop, protocol.StopLength} {
		a := short
		a.Stop = stop
		got := s.answered(t, join(s.Answer(a)), 0)
		assert.Equal(t, stop, got.Stop)
	}
}

// pieces: however the bytes arrive, the parts are the same.
func (s *suite) pieces(t *testing.T) {
	stream := join(s.Answer(full))
	for _, size := range []int{1, 2, 3, 7, 31, 100, 1000} {
		got := s.answered(t, stream, size)
		s.equal(t, full, got)
	}
	crlf := bytes.ReplaceAll(stream, []byte("\n"), []byte("\r\n"))
	got := s.answered(t, crlf, 0)
	s.equal(t, full, got)

	var alive []byte
	for _, event := range s.Answer(full) {
		alive = append(append(append(alive, s.Keepalive()...), ": comment\n\n"...), event...)
	}
	got = s.answered(t, alive, 0)
	s.equal(t, full, got)
}

// cuts: an answer that ends early is an error, after whatever byte, whether the
// connection breaks or the response ends as if all were well. It may count as
// complete only if nothing of its content is missing.
func (s *suite) cuts(t *testing.T) {
	events := s.Answer(full)
	stream := join(events)
	for _, broken := range []bool{false, true} {
		var n atomic.Int64
		r := s.newRig(t, func(w http.ResponseWriter, req *http.Request) {
			play(stream[:n.Load()], 0)(w, req)
			if broken {
				hangUp(w)
			}
		})
		step := int64(1)
		if broken {
			step = 7 // the same bytes arrive; only what follows them differs
		}
		complete := 0
		for ; n.Load() < int64(len(stream)); n.Add(step) {
			got, failed := r.ask(t)
			if failed == nil {
				complete++
				s.equal(t, full, got)
				continue
			}
			want := []protocol.ErrorKind{protocol.ErrorCutStream, protocol.ErrorNetwork}
			require.Contains(t, want, failed.Kind, "after %d of %d bytes: %v", n.Load(), len(stream), failed)
			require.True(t, failed.Kind.Retryable())
		}
		// The last piece of the content begins with these bytes in every wire.
		assert.LessOrEqual(t, complete, len(stream)-bytes.LastIndex(stream, []byte("-l ")), "a cut answer counted as complete")
	}
}

// characters: a surrogate pair, or the bytes of a character, may come in two
// events.
func (s *suite) characters(t *testing.T) {
	a := short
	a.Blocks = []Block{{Kind: protocol.BlockText, Pieces: []string{"<A>", "<B>"}}}
	stream := join(s.Answer(a))
	for name, pair := range map[string][2]string{
		"escaped surrogates": {`x\ud83d`, `\ude00y`},
		"raw bytes":          {"x\xf0\x9f", "\x98\x80y"},
	} {
		t.Run(name, func(t *testing.T) {
			split := bytes.Replace(stream, []byte("<A>"), []byte(pair[0]), 1)
			split = bytes.Replace(split, []byte("<B>"), []byte(pair[1]), 1)
			got := s.answered(t, split, 0)
			assert.Equal(t, "x😀y", got.Content.Text(""))
		})
	}
	t.Run("half a pair", func(t *testing.T) {
		lone := bytes.Replace(stream, []byte("<A>"), []byte(`a\ud83d`), 1)
		lone = bytes.Replace(lone, []byte("<B>"), []byte(`b\ude00c`), 1)
		got := s.answered(t, lone, 0)
		assert.Equal(t, "a\uFFFDb\uFFFDc", got.Content.Text(""))
	})
}

func (s *suite) huge(t *testing.T) {
	a := short
	a.Blocks = []Block{{Kind: protocol.BlockText, Pieces: []string{strings.Repeat("0123456789abcdé\n", 1<<17)}}}
	got := s.answered(t, join(s.Answer(a)), 0)
	assert.Equal(t, len(a.Blocks[0].Text()), len(got.Content.Text("")))
}

// mutations: whatever happens to the bytes, the parts stay in order and the
// answer ends. Fold sees to both.
func (s *suite) mutations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	stream := join(s.Answer(full))
	var current atomic.Pointer[[]byte]
	r := s.newRig(t, func(w http.ResponseWriter, req *http.Request) { play(*current.Load(), 0)(w, req) })
	events := s.Answer(full)
	for range 150 {
		mutant := bytes.Clone(stream)
		for range 1 + random.IntN(4) {
			mutant[random.IntN(len(mutant))] = byte(random.IntN(256))
		}
		current.Store(&mutant)
		r.ask(t)

		var shuffled []byte // events lost, repeated and out of order
		for range events {
			shuffled = append(shuffled, events[random.IntN(len(events))]...)
		}
		current.Store(&shuffled)
		r.ask(t)
	}
}

// garbage: a success that is no stream is an error that says what came.
func (s *suite) garbage(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		kind protocol.ErrorKind
		text string
	}{
		"nothing":      {"", protocol.ErrorCutStream, ""},
		"a page":       {"<!DOCTYPE html><html><title>Welcome to nginx</title></html>", protocol.ErrorInvalid, "Welcome to nginx"},
		"an error":     {`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, protocol.ErrorQuota, "quota"},
		"not streamed": {`{"id":"x","object":"chat.completion"}`, protocol.ErrorInvalid, "chat.completion"},
		"no events":    {"hello\nworld\n", protocol.ErrorCutStream, ""},
		"no JSON":      {"data: {hello\n\n", protocol.ErrorServer, "hello"},
		"other values": {"data: null\n\ndata: 12\n\ndata: []\n\ndata: \"x\"\n\n", protocol.ErrorCutStream, ""},
		"deep":         {"data: " + strings.Repeat("[", 1<<20) + "\n\n", protocol.ErrorServer, ""},
		"strange JSON": {"data: {\"type\":7,\"choices\":{\"a\":1},\"delta\":[],\"index\":-5,\"usage\":\"x\",\"candidates\":3}\n\n", protocol.ErrorCutStream, ""},
	} {
		t.Run(name, func(t *testing.T) {
			failed := s.newRig(t, play([]byte(c.body), 0)).fails(t, c.kind)
			assert.Contains(t, failed.Message, c.text)
		})
	}
	t.Run("random bytes", func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		body := make([]byte, 4096)
		for i := range body {
			body[i] = byte(random.IntN(256))
		}
		_, failed := s.newRig(t, play(body, 0)).ask(t)
		require.NotNil(t, failed)
	})
}

// failure: an error event ends the answer with its class; what came before it
// has been handed out.
func (s *suite) failure(t *testing.T) {
	events := s.Answer(short)
	stream := append(join(events[:len(events)-1]), s.Failure()...)
	got, failed := s.newRig(t, play(stream, 0)).ask(t)
	assertKind(t, failed, protocol.ErrorOverloaded)
	assert.Positive(t, got.Deltas)

	s.newRig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		startStream(w)
		_, _ = w.Write(s.Failure())
	}).fails(t, protocol.ErrorOverloaded)
}
