package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// mostMessage is what a message of a WebSocket may have: it is handed over whole.
const mostMessage = 64 << 20

// webSocket is a connection as a stream. JavaScript writes one message, and the next when
// it has heard that this one is written.
type webSocket struct {
	output chan wsWrite
}

// wsWrite writes something. The error of one that closes has how both sides have closed.
type wsWrite func(ctx context.Context, conn *websocket.Conn) error

func (s *webSocket) send(event string, values args) {
	var write wsWrite
	switch event {
	case "text":
		write = message(websocket.MessageText, []byte(values.text(0)))
	case "binary":
		write = message(websocket.MessageBinary, values.bytes(0))
	case "close": // [code, reason], 0 for no code
		code, reason := websocket.StatusCode(values.int(0)), values.text(1)
		code = cmp.Or(code, websocket.StatusNoStatusRcvd)
		write = func(_ context.Context, conn *websocket.Conn) error {
			if err := conn.Close(code, reason); err != nil {
				return err
			}
			return websocket.CloseError{Code: code, Reason: reason}
		}
	}
	select {
	case s.output <- write:
	default: // it did not wait
	}
}

func message(kind websocket.MessageType, data []byte) wsWrite {
	return func(ctx context.Context, conn *websocket.Conn) error { return conn.Write(ctx, kind, data) }
}

// upgradeClient speaks HTTP/1.1 only, which a WebSocket begins with.
var upgradeClient = sync.OnceValue(func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
})

// webSocketStream is new WebSocket: [{url, protocols, headers}].
func webSocketStream(c *opCall, say emit) (stream, func(), error) {
	var q struct {
		URL       string      `json:"url"`
		Protocols []string    `json:"protocols"`
		Headers   [][2]string `json:"headers"`
	}
	if err := c.args.into(0, &q); err != nil {
		return nil, nil, err
	}
	options := websocket.DialOptions{HTTPClient: upgradeClient(), HTTPHeader: http.Header{}, Subprotocols: q.Protocols}
	for _, h := range q.Headers {
		options.HTTPHeader.Add(h[0], h[1])
	}
	s := &webSocket{make(chan wsWrite, 1)}
	return s, func() {
		conn, resp, err := websocket.Dial(c.ctx, q.URL, &options)
		switch {
		case err == nil && say("open", conn.Subprotocol()):
			s.serve(c.ctx, conn, say)
		case err == nil:
			_ = conn.CloseNow() // nobody is there any more
		case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
			say("error", fmt.Sprintf("the server answered %s to a WebSocket", resp.Status))
		default:
			say("error", err.Error())
		}
	}, nil
}

// serve moves messages both ways until the connection is closed or ctx has ended.
func (s *webSocket) serve(ctx context.Context, conn *websocket.Conn, say emit) {
	over, done := context.WithCancel(ctx)
	var writing sync.WaitGroup
	var failed error // of a write
	writing.Go(func() {
		for {
			select {
			case write := <-s.output:
				if failed = write(ctx, conn); failed != nil {
					_ = conn.CloseNow() // who reads says so
					return
				}
				say("wrote")
			case <-over.Done():
				return
			}
		}
	})
	code, reason, clean := read(ctx, conn, say)
	done()
	_ = conn.CloseNow()
	writing.Wait()
	if ended := (websocket.CloseError{}); !clean && errors.As(failed, &ended) { // it was who writes that has read the end
		code, reason, clean = ended.Code, ended.Reason, true
	}
	say("close", float64(code), reason, clean)
}

// read hands messages over until the other side closes. A connection that breaks, or
// whose other side breaks the rules, is 1006.
func read(ctx context.Context, conn *websocket.Conn, say emit) (code websocket.StatusCode, reason string, clean bool) {
	conn.SetReadLimit(mostMessage)
	for {
		kind, data, err := conn.Read(ctx)
		var closed websocket.CloseError
		switch {
		case errors.As(err, &closed):
			return closed.Code, closed.Reason, true
		case errors.Is(err, websocket.ErrMessageTooBig):
			return websocket.StatusMessageTooBig, fmt.Sprintf("a message of more than %d bytes", mostMessage), false
		case err != nil:
			return websocket.StatusAbnormalClosure, "", false
		case kind == websocket.MessageText && !utf8.Valid(data):
			const why = "not UTF-8"
			_ = conn.Close(websocket.StatusInvalidFramePayloadData, why)
			return websocket.StatusInvalidFramePayloadData, why, false
		case kind == websocket.MessageText && say("text", string(data)), kind == websocket.MessageBinary && say("binary", data):
		default:
			return websocket.StatusAbnormalClosure, "", false
		}
	}
}
