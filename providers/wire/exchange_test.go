package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"troupe/protocol"
	"troupe/providers"
)

// plainWire is the smallest wire: {"say": TEXT} grows a text, {"end": true}
// ends the answer, {"fail": TEXT} fails it, {"finish": true} completes it before
// its end.
type plainWire struct{ encode error }

func (w plainWire) Encode(req *providers.Request) (*Call, error) {
	h := http.Header{}
	Authorize(h, &req.Credentials, "")
	return &Call{URL: req.Model.BaseURL, Header: h, Body: []byte(req.System)}, w.encode
}

func (plainWire) Explain(_ *providers.Request, err *protocol.StreamError, _ []byte) *protocol.StreamError {
	explained := *err
	explained.Message += " (explained)"
	return &explained
}

func (plainWire) Decoder(_ *providers.Request, out *Parts) Decoder {
	return &plainDecoder{out: out, block: -1}
}

type plainDecoder struct {
	out      *Parts
	block    int
	finished bool
}

func (d *plainDecoder) Event(_ string, data gjson.Result) error {
	switch {
	case data.Get("say").Exists():
		if d.block < 0 {
			d.block = d.out.Open(protocol.BlockText, "", "")
		}
		d.out.Delta(d.block, String(data.Get("say")))
	case data.Get("fail").Exists():
		return errors.New(data.Get("fail").Str)
	case data.Get("finish").Exists():
		d.finished = true
		d.out.Closing()
	case data.Get("end").Exists():
		d.out.Done(protocol.StopStop, "end")
	}
	return nil
}

func (d *plainDecoder) End(bool) error {
	if d.finished {
		d.out.Done(protocol.StopStop, "finish")
	}
	return nil
}

// collect reads an answer.
func collect(seq func(func(protocol.Part, error) bool)) (text string, failed *protocol.StreamError) {
	for part, err := range seq {
		if d, ok := part.(protocol.PartDelta); ok {
			text += d.Delta
		}
		errors.As(err, &failed)
	}
	return text, failed
}

// replay reads an answer from a server that sends body, and breaks the
// connection behind it if broken.
func replay(t *testing.T, body string, broken bool) (string, *protocol.StreamError) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
		if broken {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	client := NewClient(ClientConfig{})
	defer server.Close()
	defer client.Close()
	return collect(client.Stream(t.Context(), providers.Request{Model: &protocol.Model{BaseURL: server.URL}, Credentials: providers.Credentials{Key: "hush-hush"}}, plainWire{}))
}

func TestExchange_events(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         string
		kind         protocol.ErrorKind
	}{
		{"whole", "data: {\"say\":\"a\"}\n\ndata: {\"end\":1}\n\n", "a", ""},
		{"nothing after the end", "data: {\"end\":1}\n\ndata: {\"say\":\"late\"}\n\n", "", ""},
		{"no end", "data: {\"say\":\"a\"}\n\n", "a", protocol.ErrorCutStream},
		{"[DONE] is no end for a decoder that wants another", "data: {\"say\":\"a\"}\n\ndata: [DONE]\n\n", "a", protocol.ErrorCutStream},
		{"a whole event without its blank line", "data: {\"say\":\"a\"}\n\ndata: {\"end\":1}", "a", ""},
		{"half an event at the end", "data: {\"say\":\"a\"}\n\ndata: {\"end\"", "a", protocol.ErrorCutStream},
		{"half an event in the middle", "data: {\"say\"\n\ndata: {\"end\":1}\n\n", "", protocol.ErrorServer},
		{"finished, then silence", "data: {\"say\":\"a\"}\n\ndata: {\"finish\":1}\n\n", "a", ""},
		{"an error of the decoder", "data: {\"say\":\"a\"}\n\ndata: {\"fail\":\"hush-hush\"}\n\n", "a", protocol.ErrorNetwork},
		{"a list as the first thing", "[{\"error\":{\"message\":\"Overloaded\",\"code\":503}}]", "", protocol.ErrorOverloaded},
	} {
		text, failed := replay(t, c.stream, false)
		assert.Equal(t, c.want, text, c.name)
		if c.kind == "" {
			assert.Nil(t, failed, c.name)
			continue
		}
		require.NotNil(t, failed, c.name)
		assert.Equal(t, c.kind, failed.Kind, c.name)
		assert.NotContains(t, failed.Message, "hush-hush")
	}
}

// TestExchange_brokenAfterTheAnswer: a connection that breaks once the answer is
// complete takes nothing away from it.
func TestExchange_brokenAfterTheAnswer(t *testing.T) {
	text, failed := replay(t, "data: {\"say\":\"a\"}\n\ndata: {\"finish\":1}\n\n", true)
	assert.Equal(t, "a", text)
	assert.Nil(t, failed)
	_, failed = replay(t, "data: {\"say\":\"a\"}\n\n", true)
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorCutStream, failed.Kind)
}

func TestExchange_request(t *testing.T) {
	client := NewClient(ClientConfig{})
	ask := func(url string, wire Format, cred providers.Credentials) *protocol.StreamError {
		_, failed := collect(client.Stream(t.Context(), providers.Request{Model: &protocol.Model{Provider: "p", BaseURL: url}, Credentials: cred}, wire))
		require.NotNil(t, failed)
		return failed
	}
	assert.Equal(t, protocol.ErrorInvalid, ask("http://x.example", plainWire{errors.New("no")}, providers.Credentials{}).Kind)
	assert.Equal(t, protocol.ErrorQuota, ask("http://x.example", plainWire{protocol.ErrorQuota.Errorf("no")}, providers.Credentials{}).Kind)
	for _, url := range []string{"", "x.example", "ftp://x.example", "http://", "http://a b", "http://[::1"} {
		assert.Equal(t, protocol.ErrorInvalid, ask(url, plainWire{}, providers.Credentials{}).Kind, url)
	}
	failed := ask("http://x.example", plainWire{}, providers.Credentials{Key: "two\nlines"})
	assert.Equal(t, protocol.ErrorAuth, failed.Kind)
	assert.NotContains(t, failed.Message, "lines\n")
	_, failed = collect(client.Stream(t.Context(), providers.Request{
		Model: &protocol.Model{BaseURL: "http://x.example"}, Network: providers.Network{Proxy: "http://[::1"},
	}, plainWire{}))
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorNetwork, failed.Kind)
}

// TestExchange_proxy: the proxy of a session gets every request of it, and none
// of another's.
func TestExchange_proxy(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		_, _ = io.WriteString(w, "data: {\"say\":\"by proxy\"}\n\ndata: {\"end\":1}\n\n")
	}))
	direct := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: {\"say\":\"directly\"}\n\ndata: {\"end\":1}\n\n")
	}))
	client := NewClient(ClientConfig{})
	ask := func(url, through string) string {
		text, failed := collect(client.Stream(t.Context(), providers.Request{Model: &protocol.Model{BaseURL: url}, Network: providers.Network{Proxy: through}}, plainWire{}))
		require.Nil(t, failed)
		return text
	}
	assert.Equal(t, "by proxy", ask("http://models.example/v1", proxy.URL))
	assert.Equal(t, "http://models.example/v1", asked)
	assert.Equal(t, "directly", ask(direct.URL, ""), "with the same credentials")
	assert.Equal(t, "by proxy", ask(direct.URL, proxy.URL))
	direct.Close()
	client.Close()
	proxy.Close()
	goleak.VerifyNone(t, before)
}

// TestExchange_http2: streams, refusals and cancellation over HTTP/2, where a
// stream ends without its connection.
func TestExchange_http2(t *testing.T) {
	before := goleak.IgnoreCurrent()
	gone := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		body, _ := io.ReadAll(r.Body)
		switch string(body) {
		case "refuse":
			w.WriteHeader(http.StatusTooManyRequests)
		case "hang":
			_, _ = io.WriteString(w, "data: {\"say\":\"a\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			gone <- struct{}{}
		case "break":
			_, _ = io.WriteString(w, "data: {\"say\":\"a\"}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, "data: {\"say\":\"hello\"}\n\ndata: {\"end\":1}\n\n")
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	client := NewClient(ClientConfig{})
	req := providers.Request{Model: &protocol.Model{BaseURL: server.URL}, Credentials: providers.Credentials{Key: "k"}}

	_, failed := collect(client.Stream(t.Context(), req, plainWire{}))
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorNetwork, failed.Kind)
	assert.Contains(t, failed.Message, "TLS certificate not trusted")

	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client = NewClient(ClientConfig{})
	client.transport(&req.Credentials, "").TLSClientConfig = &tls.Config{RootCAs: roots}
	for range 2 {
		text, failed := collect(client.Stream(t.Context(), req, plainWire{}))
		require.Nil(t, failed)
		assert.Equal(t, "hello", text)
	}
	req.System = "refuse"
	_, failed = collect(client.Stream(t.Context(), req, plainWire{}))
	require.NotNil(t, failed)
	assert.Equal(t, "429 status code (no body) (explained)", failed.Message)

	req.System = "break"
	text, failed := collect(client.Stream(t.Context(), req, plainWire{}))
	require.NotNil(t, failed)
	assert.Equal(t, "a", text)
	assert.True(t, failed.Kind.Retryable(), failed.Message)

	req.System = "hang"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, failed = collect(func(yield func(protocol.Part, error) bool) {
		for part, err := range client.Stream(ctx, req, plainWire{}) {
			if _, ok := part.(protocol.PartDelta); ok {
				cancel()
			}
			if !yield(part, err) {
				return
			}
		}
	})
	<-gone
	require.NotNil(t, failed)
	assert.Equal(t, protocol.ErrorAborted, failed.Kind)
	client.Close()
	server.Close()
	goleak.VerifyNone(t, before)
}
