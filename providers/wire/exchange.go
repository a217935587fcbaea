package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// Format is one model API over HTTP and server-sent events: what its requests
// look like and how its answers are read. Everything else, from connections to
// time limits and error classes, is the same for all and done by
// [Client.Stream]. Implementations are safe for concurrent use.
type Format interface {
	// Encode writes a request. An error that is no *protocol.StreamError counts
	// as an invalid request.
	Encode(req *providers.Request) (*Call, error)
	// Decoder begins to read one answer into out.
	Decoder(req *providers.Request, out *Parts) Decoder
	// Explain words a refusal as its service's own clients do, and may correct how
	// it was understood, where a service says things in a way of its own. body is
	// that of the response. It returns err or a changed copy.
	Explain(req *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError
}

// Call is an encoded request.
type Call struct {
	URL    string
	Header http.Header // with the credentials applied
	Body   []byte
}

// Decoder reads the events of one answer. An error ends the answer.
type Decoder interface {
	// Event reads one event. data is a valid JSON object, whose strings stay
	// valid.
	Event(name string, data gjson.Result) error
	// End is called when no event follows: done says whether the server said so
	// by the line [DONE], or else just ended the stream. It puts the end of the
	// answer, or reports what is missing.
	End(done bool) error
}

// CutStream is the error of a stream that ended before its closing event.
func CutStream(missing string) *protocol.StreamError {
	return protocol.ErrorCutStream.Errorf("Connection error: the answer ended without %s", missing)
}

// Provider asks models over the wire of a format.
func (c *Client) Provider(format Format) providers.Provider { return provider{c, format} }

type provider struct {
	client *Client
	format Format
}

// Stream implements [providers.Provider].
func (p provider) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return p.client.Stream(ctx, req, p.format)
}

// Stream asks a server over a wire; it keeps the promises of [providers.Provider].
func (c *Client) Stream(ctx context.Context, req providers.Request, wire Format) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		x := &exchange{client: c, req: &req, format: wire, parent: ctx, yield: yield}
		if err := x.run(); err != nil && !x.left {
			c.report(&req, x.signed, err, 0)
			yield(nil, err)
		}
	}
}

// exchange is one request and its answer.
type exchange struct {
	client *Client
	req    *providers.Request
	format Format
	parent context.Context
	yield  func(protocol.Part, error) bool
	left   bool              // the consumer broke out of the loop
	signed map[string]string // the secret headers of the last signature

	ctx  context.Context
	idle *idleTimer
	out  *Parts
	dec  Decoder
	seen bool // an event came
}

func asInvalid(err error) *protocol.StreamError {
	if known, is := errors.AsType[*protocol.StreamError](err); is {
		return known
	}
	return protocol.ErrorInvalid.Errorf("%v", err)
}

// headerNameSet is what the name of a header may be made of. Without a look at it a name that
// cannot be sent would be taken for a network that fails, and be tried again.
const headerNameSet = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// send makes the request and waits for the response headers.
func (x *exchange) send(call *Call) (*http.Response, *protocol.StreamError) {
	u, err := url.Parse(call.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, protocol.ErrorInvalid.Errorf("The base URL of %s is not an http or https URL", x.req.Model.Provider)
	}
	for name, values := range call.Header {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(headerNameSet, r) }) {
			return nil, protocol.ErrorInvalid.Errorf("A header for %s has an invalid name: %q", x.req.Model.Provider, name)
		}
		if strings.ContainsAny(values[0], "\r\n\x00") {
			return nil, protocol.ErrorAuth.Errorf("A key or header for %s has a line break in it", x.req.Model.Provider)
		}
	}
	r, err := http.NewRequestWithContext(x.ctx, http.MethodPost, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return nil, protocol.ErrorInvalid.Errorf("Request for %s: %v", x.req.Model.Provider, err)
	}
	r.Header = call.Header
	setDefault(r.Header, "Content-Type", "application/json")
	setDefault(r.Header, "Accept", "text/event-stream")
	setDefault(r.Header, "User-Agent", x.client.config.UserAgent)
	if failed := x.sign(r, call.Body); failed != nil {
		return nil, failed
	}

	begun := x.idle.begin()
	resp, err := x.client.transport(&x.req.Credentials, x.req.Network.Proxy).RoundTrip(r) // no redirects: a key goes only where it was meant to go
	x.idle.end(begun)
	if err != nil {
		return nil, x.failure(err, false)
	}
	return resp, nil
}

// sign authenticates a request that is complete, where its credentials are no
// headers yet. Each attempt is signed anew: signatures and tokens get old.
func (x *exchange) sign(r *http.Request, body []byte) *protocol.StreamError {
	signer := x.req.Credentials.Signer
	if signer == nil {
		return nil
	}
	begun := x.idle.begin()
	signed, err := signer.Sign(x.ctx, r.URL.String(), body)
	x.idle.end(begun)
	var known *protocol.StreamError
	switch {
	case err == nil:
	case x.parent.Err() != nil, context.Cause(x.ctx) == errStalled:
		return x.failure(err, false)
	case errors.As(err, &known):
		return known
	default:
		return protocol.ErrorAuth.Errorf("No credentials for %s: %s", x.req.Model.Provider, providers.MaskKeys(err.Error()))
	}
	x.signed = map[string]string{}
	for name, value := range signed {
		if before := r.Header.Get(name); name == betaHeader && before != "" && before != value {
			value = strings.TrimSuffix(before, ","+value) + "," + value // once, also at a repeat
		}
		r.Header.Set(name, value)
		if isSecret(name) {
			x.signed[name] = value
		}
	}
	return nil
}

// betaHeader is a list, to which a signature adds.
const betaHeader = "Anthropic-Beta"

// isSecret says whether a header of a signature gives access. Others, as the date
// or a project, are what errors are about.
func isSecret(name string) bool { return name == "Authorization" || name == "X-Amz-Security-Token" }

func setDefault(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}

// failure says why the exchange cannot go on.
func (x *exchange) failure(err error, inBody bool) *protocol.StreamError {
	switch {
	case x.parent.Err() != nil:
		return protocol.Aborted()
	case context.Cause(x.ctx) == errStalled, errors.Is(err, errStalled):
		return x.idle.failure()
	}
	return ClassifyTransport(err, inBody)
}

// errorBodyLimit and errorBodyTime bound what is read of an error response.
const (
	errorBodyLimit = 256 << 10
	errorBodyTime  = 10 * time.Second
)

// refused reads an error response. What cannot be read of it in time does not
// change what its status says.
func (x *exchange) refused(resp *http.Response) *protocol.StreamError {
	x.idle.expect("no error text", errorBodyTime.Milliseconds())
	body, _ := io.ReadAll(io.LimitReader(&timedReader{idle: x.idle, body: resp.Body}, errorBodyLimit))
	if x.parent.Err() != nil {
		return protocol.Aborted()
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		err := protocol.ErrorInvalid.Errorf("%d redirected to %s: correct the base URL", resp.StatusCode, providers.MaskKeys(to))
		err.Status = resp.StatusCode
		return err
	}
	return x.format.Explain(x.req, Classify(resp.StatusCode, resp.Header, body), body)
}

// read yields the parts of a stream until it is over.
func (x *exchange) read(body *timedReader, contentType string) *protocol.StreamError {
	x.out = newParts(x.req.Model)
	x.out.req = x.req
	x.dec = x.format.Decoder(x.req, x.out)
	events := eventsOf(body, contentType)
	for x.parent.Err() == nil {
		ev, err := events.Next()
		var failed error
		if err != nil {
			failed = x.ended(err, body.head)
		} else {
			failed = x.event(ev)
		}
		if !x.flush() {
			return nil
		}
		if failed != nil {
			return x.failure(failed, true)
		}
		if x.out.done {
			return nil
		}
	}
	return protocol.Aborted()
}

// event reads one event. Comments, empty events and values that are no objects
// are keepalives; a torn event counts only if it is whole after all.
func (x *exchange) event(ev Event) error {
	data := bytes.TrimSpace(ev.Data)
	if ev.Comment || len(data) == 0 {
		return nil
	}
	if string(data) == "[DONE]" {
		return x.end(true)
	}
	if !protocol.ValidJSON(data) {
		if ev.Torn {
			return nil
		}
		x.seen = true
		return protocol.ErrorServer.Errorf("Broken answer: an event is not JSON: %s", describe(0, data[:min(len(data), 200)]))
	}
	if data[0] != '{' {
		return nil
	}
	x.seen = true
	if t := x.req.Taps; t != nil && t.Event != nil {
		t.Event(data)
	}
	return x.dec.Event(ev.Name, gjson.ParseBytes(data))
}

// ended handles the end of the body, in order or not.
func (x *exchange) ended(err error, head []byte) error {
	if err != io.EOF && (!x.out.closing || x.parent.Err() != nil) {
		return err
	}
	if head = bytes.TrimSpace(head); err == io.EOF && !x.seen && len(head) > 0 && (head[0] == '{' || head[0] == '[' || head[0] == '<') {
		return x.notStream(head)
	}
	return x.end(false)
}

func (x *exchange) end(done bool) error {
	if err := x.dec.End(done); err != nil || x.out.done {
		return err
	}
	return CutStream("its closing event")
}

// notStream explains a success that is no stream: an error as JSON, an answer
// that was not streamed, the page of some web server.
func (x *exchange) notStream(head []byte) *protocol.StreamError {
	if protocol.ValidJSON(head) {
		v := gjson.ParseBytes(head)
		if v.Get("error").Exists() || v.Get("0.error").Exists() || v.Get("base_resp").Exists() {
			return x.format.Explain(x.req, ClassifyEvent(head), head)
		}
	}
	return protocol.ErrorInvalid.Errorf("The server did not answer with a stream: %s", describe(0, head[:min(len(head), 500)]))
}

// flush hands out what the decoder has put, and tells the idle timer. It is false
// when the consumer wants no more.
func (x *exchange) flush() bool {
	if x.out.content {
		x.out.content = false
		x.idle.content()
	}
	if x.out.closing && x.idle.limit != closingLimit {
		x.idle.closing()
	}
	for i, part := range x.out.out {
		x.out.out[i] = nil
		if !x.yield(part, nil) {
			x.left = true
			return false
		}
	}
	x.out.out = x.out.out[:0]
	return true
}

// drainTime is how long the end of the body may lag behind the end of the
// answer before the connection is given up.
const drainTime = 100 * time.Millisecond

// drain reads the rest of the body so that the connection can be used again.
// HTTP/2 needs no such help.
func (x *exchange) drain(resp *http.Response) {
	if resp.ProtoMajor != 1 {
		return
	}
	x.idle.expect("", drainTime.Milliseconds())
	_, _ = io.Copy(io.Discard, io.LimitReader(&timedReader{idle: x.idle, body: resp.Body}, 64<<10))
}
