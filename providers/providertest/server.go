package providertest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// rig is a provider and the server it talks to.
type rig struct {
	client   *wire.Client
	provider providers.Provider
	model    *protocol.Model
}

// newRig starts a server on loopback. When the test ends everything is closed,
// and no goroutine may be left.
func (s *suite) newRig(t *testing.T, handler http.HandlerFunc) *rig {
	t.Helper()
	before := goleak.IgnoreCurrent()
	server := httptest.NewServer(handler)
	client := wire.NewClient(wire.ClientConfig{})
	t.Cleanup(func() {
		client.Close()
		server.Close()
		goleak.VerifyNone(t, before)
	})
	return &rig{client: client, provider: s.New(client), model: s.Model(server.URL)}
}

// ask asks the ordinary question and folds the answer, which must be in order.
func (r *rig) ask(t *testing.T) (Folded, *protocol.StreamError) {
	t.Helper()
	return r.put(t.Context(), t, question(r.model))
}

// put asks any question.
func (r *rig) put(ctx context.Context, t *testing.T, req providers.Request) (Folded, *protocol.StreamError) {
	t.Helper()
	got, failed, problem := Fold(r.provider.Stream(ctx, req))
	require.NoError(t, problem)
	return got, failed
}

// fails asks the ordinary question, to which the answer must be an error of a kind.
func (r *rig) fails(t *testing.T, kind protocol.ErrorKind) *protocol.StreamError {
	t.Helper()
	_, failed := r.ask(t)
	return assertKind(t, failed, kind)
}

func assertKind(t *testing.T, failed *protocol.StreamError, kind protocol.ErrorKind) *protocol.StreamError {
	t.Helper()
	require.NotNil(t, failed)
	assert.Equal(t, kind, failed.Kind, failed.Message)
	return failed
}

// answered is what comes of an answer, in writes of at most size, 0 for one write: no error.
func (s *suite) answered(t *testing.T, stream []byte, size int) Folded {
	t.Helper()
	got, failed := s.newRig(t, play(stream, size)).ask(t)
	require.Nil(t, failed)
	return got
}

// startStream writes the response headers of a stream.
func startStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush(w)
}

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

// play answers with bytes, in writes of at most size, 0 for one write.
func play(stream []byte, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		startStream(w)
		if size <= 0 {
			size = len(stream)
		}
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			_, _ = w.Write(rest[:n])
			flush(w)
			rest = rest[n:]
		}
	}
}

func join(events [][]byte) (stream []byte) {
	for _, event := range events {
		stream = append(stream, event...)
	}
	return stream
}

// hangUp ends the connection without ending the response.
func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// pipes is a network inside the process, for tests in fake time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	count atomic.Int64
}

// numbered is a connection with an address of its own.
type numbered struct {
	net.Conn
	n int64
}

func (c numbered) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(c.n)}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- numbered{there, p.count.Add(1)}:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// faked runs a test in a bubble of fake time, with a server in it; the model's address is no
// private one, so that the usual limits count.
func (s *suite) faked(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, r *rig)) {
	t.Helper()
	s.fakedWith(t, wire.ClientConfig{}, handler, test)
}

// fakedWith is the same with a client that was told something.
func (s *suite) fakedWith(t *testing.T, config wire.ClientConfig, handler http.HandlerFunc, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		server := &http.Server{Handler: handler}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(network)
		}()
		config.Dial = network.dial
		client := wire.NewClient(config)
		defer func() {
			client.Close()
			_ = server.Close()
			<-served
		}()
		test(t, &rig{client: client, provider: s.New(client), model: s.Model("http://models.example.com/v1")})
	})
}
