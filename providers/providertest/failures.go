package providertest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// refusals: every status has its class, and the text names the status and what
// the server said.
func (s *suite) refusals(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   protocol.ErrorKind
	}{
		{400, protocol.ErrorInvalid}, {401, protocol.ErrorAuth}, {402, protocol.ErrorQuota}, {403, protocol.ErrorAuth},
		{404, protocol.ErrorInvalid}, {408, protocol.ErrorServer}, {413, protocol.ErrorOverflow}, {422, protocol.ErrorInvalid},
		{429, protocol.ErrorRateLimit}, {500, protocol.ErrorServer}, {502, protocol.ErrorServer},
		{503, protocol.ErrorOverloaded}, {504, protocol.ErrorServer}, {529, protocol.ErrorOverloaded},
	} {
		body := s.Refusal(c.status, "something is the matter")
		failed := s.newRig(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write(body)
		}).fails(t, c.kind)
		assert.Equal(t, c.status, failed.Status)
		assert.Contains(t, failed.Message, strconv.Itoa(c.status))
		assert.Contains(t, failed.Body, "something is the matter")
		assert.Contains(t, failed.Message, "something is the matter")
		if c.kind.Retryable() {
			assert.Equal(t, 7*time.Second, failed.RetryAfter, "status %d", c.status)
		}
	}
	t.Run("no body", func(t *testing.T) {
		failed := s.newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }).fails(t, protocol.ErrorServer)
		assert.Equal(t, "500 status code (no body)", failed.Message)
	})
	t.Run("redirect", func(t *testing.T) {
		asked := 0
		s.newRig(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}).fails(t, protocol.ErrorInvalid)
		assert.Equal(t, 1, asked, "a key goes nowhere but to the base URL")
	})
}

// secrets: a key that a server repeats does not get into any text.
func (s *suite) secrets(t *testing.T) {
	const key, header = "canary-key-0123456789", "canary-header/+=\"99"
	echo := `key ` + key + ` and ` + header + ` and sk-proj-AbCdEfGhIjKlMnOp and Bearer abcdefghijklmnop`
	for name, handler := range map[string]http.HandlerFunc{
		"refusal": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(401)
			_, _ = w.Write(s.Refusal(401, echo))
		},
		"text": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, echo)
		},
		"stream": func(w http.ResponseWriter, r *http.Request) {
			play([]byte("data: "+echo+"\n\n"), 0)(w, r)
		},
		"page": func(w http.ResponseWriter, r *http.Request) { play([]byte("<html>"+echo), 0)(w, r) },
	} {
		t.Run(name, func(t *testing.T) {
			r := s.newRig(t, handler)
			req := question(r.model)
			req.Credentials = providers.Credentials{Key: key, Headers: map[string]string{"X-Extra": header}}
			_, failed := r.put(t.Context(), t, req)
			require.NotNil(t, failed)
			for _, secret := range []string{key, "canary-header", "AbCdEfGh", "abcdefghijklmnop"} {
				assert.NotContains(t, failed.Message, secret)
				assert.NotContains(t, failed.Body, secret)
			}
		})
	}
}

// transport: what goes wrong before there is a response.
func (s *suite) transport(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		s.fails(t, s.Model("http://"+l.Addr().String()), protocol.ErrorNetwork)
	})
	t.Run("closed", func(t *testing.T) {
		r := s.newRig(t, func(w http.ResponseWriter, _ *http.Request) { hangUp(w) })
		s.fails(t, r.model, protocol.ErrorNetwork)
	})
	t.Run("no URL", func(t *testing.T) { s.fails(t, s.Model("not a url"), protocol.ErrorInvalid) })
	t.Run("no TLS", func(t *testing.T) {
		r := s.newRig(t, play(nil, 0))
		s.fails(t, s.Model("https"+strings.TrimPrefix(r.model.BaseURL, "http")), protocol.ErrorNetwork)
	})
	t.Run("no message", func(t *testing.T) {
		r := s.newRig(t, play(nil, 0))
		req := question(r.model)
		req.Messages = nil
		_, failed := r.put(t.Context(), t, req)
		assertKind(t, failed, protocol.ErrorInvalid)
	})
}

func (s *suite) fails(t *testing.T, model *protocol.Model, kind protocol.ErrorKind) {
	t.Helper()
	client := wire.NewClient(wire.ClientConfig{})
	defer client.Close()
	(&rig{provider: s.New(client), model: model}).fails(t, kind)
}

// leaveOpen sends the beginning of an answer and waits until the client is
// gone, which it then tells.
func (s *suite) leaveOpen(gone chan<- struct{}) http.HandlerFunc {
	events := s.Answer(full)
	beginning := join(events[:len(events)/2])
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		startStream(w)
		_, _ = w.Write(beginning)
		flush(w)
		<-r.Context().Done()
		gone <- struct{}{}
	}
}

// cancel: the socket closes while the answer is under way, and the error is
// aborted.
func (s *suite) cancel(t *testing.T) {
	t.Run("in the answer", func(t *testing.T) {
		gone := make(chan struct{}, 1)
		r := s.newRig(t, s.leaveOpen(gone))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for part, err := range r.provider.Stream(ctx, question(r.model)) {
			if _, ok := part.(protocol.PartDelta); ok {
				cancel()
			}
			last = err
		}
		<-gone
		assertAborted(t, last)
	})
	t.Run("before the response", func(t *testing.T) {
		arrived, gone := make(chan struct{}), make(chan struct{}, 1)
		r := s.newRig(t, func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			close(arrived)
			<-req.Context().Done()
			gone <- struct{}{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, failed := r.put(ctx, t, question(r.model))
		<-gone
		assertAborted(t, failed)
	})
	t.Run("before the request", func(t *testing.T) {
		r := s.newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("a cancelled request was sent") })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, failed := r.put(ctx, t, question(r.model))
		assertAborted(t, failed)
	})
}

func assertAborted(t *testing.T, err error) {
	t.Helper()
	var failed *protocol.StreamError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, protocol.ErrorAborted, failed.Kind, failed.Message)
}

// breakOut: leaving the loop closes the socket, too.
func (s *suite) breakOut(t *testing.T) {
	gone := make(chan struct{}, 1)
	r := s.newRig(t, s.leaveOpen(gone))
	for range r.provider.Stream(t.Context(), question(r.model)) {
		break
	}
	<-gone
}

// accounts: one account reuses its connection, two never share one.
func (s *suite) accounts(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	stream := join(s.Answer(short))
	r := s.newRig(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		seen = append(seen, req.RemoteAddr)
		mu.Unlock()
		play(stream, 0)(w, req)
	})
	for _, key := range []string{"first-key", "first-key", "second-key", "first-key"} {
		req := question(r.model)
		req.Credentials = providers.Credentials{Key: key}
		_, failed := r.put(t.Context(), t, req)
		require.Nil(t, failed)
	}
	assert.Equal(t, seen[0], seen[1], "the connection is kept and used again")
	assert.Equal(t, seen[0], seen[3])
	assert.NotEqual(t, seen[0], seen[2], "two accounts on one connection")
}

// reuse: a response whose end comes a little after the answer's does not cost
// the connection.
func (s *suite) reuse(t *testing.T) {
	var seen []string
	s.faked(t, func(w http.ResponseWriter, req *http.Request) {
		seen = append(seen, req.RemoteAddr)
		play(join(s.Answer(short)), 0)(w, req)
		sleep(req.Context(), 50*time.Millisecond)
	}, func(t *testing.T, r *rig) {
		for range 3 {
			_, failed := r.ask(t)
			require.Nil(t, failed)
		}
		require.Len(t, seen, 3)
		assert.Equal(t, []string{seen[0], seen[0], seen[0]}, seen)
	})
}

// silence: a server that says nothing, or only keeps the connection alive, is
// given up after the limit for the phase it is in, and its socket closed.
func (s *suite) silence(t *testing.T) {
	events := s.Answer(full)
	keepAlive := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(s.Keepalive())
			_, _ = io.WriteString(w, ": keepalive\n\ndata:\n\n")
			flush(w)
			sleep(r.Context(), 10*time.Second)
		}
	}
	limits := providers.DefaultStall
	for _, c := range []struct {
		name    string
		limitMs int64
		serve   func(w http.ResponseWriter, r *http.Request)
	}{
		{"no response", limits.ConnectMs, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"headers only", limits.FirstMs, func(w http.ResponseWriter, r *http.Request) {
			startStream(w)
			<-r.Context().Done()
		}},
		{"keepalive only", limits.FirstMs, func(w http.ResponseWriter, r *http.Request) {
			startStream(w)
			keepAlive(w, r)
		}},
		{"keepalive after content", limits.ContentMs, func(w http.ResponseWriter, r *http.Request) {
			startStream(w)
			_, _ = w.Write(join(events[:len(events)/2]))
			keepAlive(w, r)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone := make(chan struct{})
			s.faked(t, func(w http.ResponseWriter, req *http.Request) {
				defer close(gone)
				_, _ = io.Copy(io.Discard, req.Body)
				c.serve(w, req)
			}, func(t *testing.T, r *rig) {
				begun := time.Now()
				r.fails(t, protocol.ErrorStalled)
				assert.Equal(t, time.Duration(c.limitMs)*time.Millisecond, time.Since(begun))
				<-gone
			})
		})
	}
	s.silenceElsewhere(t)
}

// silenceElsewhere: the text of an error is not waited for long, and a model may have limits of
// its own.
func (s *suite) silenceElsewhere(t *testing.T) {
	t.Run("error text", func(t *testing.T) {
		s.faked(t, func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "the beginning of")
			flush(w)
			<-req.Context().Done()
		}, func(t *testing.T, r *rig) {
			begun := time.Now()
			assert.Contains(t, r.fails(t, protocol.ErrorServer).Message, "the beginning of")
			assert.LessOrEqual(t, time.Since(begun), 10*time.Second)
		})
	})
	t.Run("limit of the model", func(t *testing.T) {
		s.faked(t, func(w http.ResponseWriter, req *http.Request) {
			startStream(w)
			<-req.Context().Done()
		}, func(t *testing.T, r *rig) {
			extra := *r.model.ProviderConfig
			extra.Stall = protocol.StallLimits{FirstMs: 1500}
			r.model.ProviderConfig = &extra
			begun := time.Now()
			r.fails(t, protocol.ErrorStalled)
			assert.Equal(t, 1500*time.Millisecond, time.Since(begun))
		})
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// slow: a stream that keeps coming is not cut off however long it takes, nor is
// one whose reader takes its time; and an answer that is complete does not wait
// for a server that never ends the response.
func (s *suite) slow(t *testing.T) {
	t.Run("server", func(t *testing.T) {
		a := short
		a.Blocks = []Block{{Kind: protocol.BlockText, Pieces: strings.Split(strings.Repeat("word ", 40), " ")[:40]}}
		s.faked(t, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			startStream(w)
			speaking := false
			for _, event := range s.Answer(a) {
				_, _ = w.Write(event)
				flush(w)
				if speaking = speaking || bytes.Contains(event, []byte("word")); speaking {
					sleep(req.Context(), 4*time.Minute)
				}
			}
		}, func(t *testing.T, r *rig) {
			begun := time.Now()
			got, failed := r.ask(t)
			require.Nil(t, failed)
			s.equal(t, a, got)
			assert.Greater(t, time.Since(begun), 2*time.Hour)
		})
	})
	t.Run("reader", func(t *testing.T) {
		s.faked(t, play(join(s.Answer(full)), 50), func(t *testing.T, r *rig) {
			got, failed, problem := Fold(func(yield func(protocol.Part, error) bool) {
				for part, err := range r.provider.Stream(t.Context(), question(r.model)) {
					time.Sleep(time.Hour)
					if !yield(part, err) {
						return
					}
				}
			})
			require.NoError(t, problem)
			require.Nil(t, failed)
			s.equal(t, full, got)
		})
	})
	t.Run("open end", func(t *testing.T) {
		got, failed, took := PlayOpen(t, s.Fixture, join(s.Answer(full)))
		require.Nil(t, failed)
		s.equal(t, full, got)
		assert.LessOrEqual(t, took, 10*time.Second)
	})
}
