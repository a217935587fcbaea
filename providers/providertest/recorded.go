package providertest

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the .parts files anew, to review the difference")

// Recorded plays every testdata/NAME.sse to a provider and compares what it
// makes of it with testdata/NAME.parts, one part per line.
func Recorded(t *testing.T, fixture Fixture) {
	streams, err := filepath.Glob("testdata/*.sse")
	require.NoError(t, err)
	require.NotEmpty(t, streams)
	for _, path := range streams {
		name := strings.TrimSuffix(filepath.Base(path), ".sse")
		t.Run(name, func(t *testing.T) {
			stream, err := os.ReadFile(path)
			require.NoError(t, err)
			s := &suite{fixture}
			r := s.newRig(t, play(stream, 0))
			var b strings.Builder
			_, _, problem := Fold(func(yield func(protocol.Part, error) bool) {
				for part, err := range r.provider.Stream(t.Context(), question(r.model)) {
					b.WriteString(Describe(part, err) + "\n")
					if !yield(part, err) {
						return
					}
				}
			})
			require.NoError(t, problem)
			golden := strings.TrimSuffix(path, ".sse") + ".parts"
			if *rewrite {
				require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), b.String())
		})
	}
}

// Describe writes one step of an answer as a line.
func Describe(part protocol.Part, err error) string {
	if failed, is := errors.AsType[*protocol.StreamError](err); is {
		line := fmt.Sprintf("error %s: %s", failed.Kind, failed.Message)
		if failed.RetryAfter > 0 {
			line += fmt.Sprintf(" (retry after %v)", failed.RetryAfter)
		}
		return line
	}
	switch p := part.(type) {
	case protocol.PartStart:
		return "start " + p.ResponseID
	case protocol.PartBlockStart:
		return strings.TrimRight(fmt.Sprintf("%d %s %s %s", p.Index, p.Kind, p.ID, p.Name), " ")
	case protocol.PartDelta:
		return fmt.Sprintf("%d + %q", p.Index, p.Delta)
	case protocol.PartBlockEnd:
		line := fmt.Sprintf("%d end", p.Index)
		for _, field := range [][2]string{{"id", p.ID}, {"name", p.Name}, {"signature", p.Signature}} {
			if field[1] != "" {
				line += " " + field[0] + "=" + field[1]
			}
		}
		if p.Redacted {
			line += " redacted"
		}
		return line
	case protocol.PartUsage:
		u := p.Usage
		return fmt.Sprintf("usage input=%d output=%d cacheRead=%d cacheWrite=%d total=%d cost=%.6f", u.Input, u.Output, u.CacheRead, u.CacheWrite, u.TotalTokens, u.Cost.Total)
	case protocol.PartDone:
		return fmt.Sprintf("done %s (%s)", p.StopReason, p.Raw)
	}
	return fmt.Sprintf("%T", part)
}

// Play answers one ordinary question with the bytes of stream.
func Play(t *testing.T, fixture Fixture, stream []byte) (Folded, *protocol.StreamError) {
	t.Helper()
	s := &suite{fixture}
	return s.newRig(t, play(stream, 0)).ask(t)
}

// PlayOpen is Play with a server that does not end the response after stream,
// in fake time; took is how long that took.
func PlayOpen(t *testing.T, fixture Fixture, stream []byte) (got Folded, failed *protocol.StreamError, took time.Duration) {
	t.Helper()
	(&suite{fixture}).faked(t, func(w http.ResponseWriter, req *http.Request) {
		play(stream, 0)(w, req)
		<-req.Context().Done()
	}, func(t *testing.T, r *rig) {
		begun := time.Now()
		got, failed = r.ask(t)
		took = time.Since(begun)
	})
	return got, failed, took
}

// Fuzz throws bytes at a decoder: whatever they are, the parts must be in order
// and the answer must end. It begins with the recorded streams.
func Fuzz(f *testing.F, fixture Fixture) {
	streams, err := filepath.Glob("testdata/*.sse")
	require.NoError(f, err)
	for _, path := range streams {
		stream, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(stream)
	}
	f.Add(join(fixture.Answer(full)))
	var stream []byte // of the answer to the question that is asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { play(stream, 0)(w, r) }))
	client := wire.NewClient(wire.ClientConfig{})
	f.Cleanup(func() {
		client.Close()
		server.Close()
	})
	provider, req := fixture.New(client), question(fixture.Model(server.URL))
	f.Fuzz(func(t *testing.T, answer []byte) {
		stream = answer
		_, _, problem := Fold(provider.Stream(t.Context(), req))
		require.NoError(t, problem)
	})
}
