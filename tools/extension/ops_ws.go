package extension

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"
)

// Kinds of frames of a WebSocket (RFC 6455).
const (
	frameMore   = 0x0
	frameText   = 0x1
	frameBinary = 0x2
	frameClose  = 0x8
	framePing   = 0x9
	framePong   = 0xA
)

// mostMessage is what a message of a WebSocket may have: it is handed over whole.
const mostMessage = 64 << 20

// webSocket is a connection as a stream. JavaScript writes one message, and the next when
// it has heard that this one is written.
type webSocket struct {
	output chan wsMessage
}

type wsMessage struct {
	kind byte
	data []byte
}

func (s *webSocket) send(event string, values args) {
	m := wsMessage{}
	switch event {
	case "text":
		m = wsMessage{frameText, []byte(values.text(0))}
	case "binary":
		m = wsMessage{frameBinary, values.bytes(0)}
	case "close": // [code, reason], 0 for no code
		m.kind = frameClose
		if code := values.int(0); code != 0 {
			m.data = append(binary.BigEndian.AppendUint16(nil, uint16(code)), values.text(1)...)
		}
	}
	select {
	case s.output <- m:
	default: // it did not wait
	}
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
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, strings.Replace(q.URL, "ws", "http", 1), nil)
	if err != nil {
		return nil, nil, &failure{Message: "invalid URL: " + q.URL}
	}
	for _, h := range q.Headers {
		req.Header.Add(h[0], h[1])
	}
	var nonce [16]byte
	rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key} {
		req.Header.Set(name, value)
	}
	if len(q.Protocols) > 0 {
		req.Header.Set("Sec-WebSocket-Protocol", strings.Join(q.Protocols, ", "))
	}
	s := &webSocket{make(chan wsMessage, 1)}
	return s, func() {
		conn, protocol, err := upgrade(req, key)
		if err != nil {
			say("error", err.Error())
			return
		}
		if !say("open", protocol) {
			conn.Close()
			return
		}
		s.serve(c.ctx, conn, say)
	}, nil
}

// upgrade makes a WebSocket of a request.
func upgrade(req *http.Request, key string) (conn io.ReadWriteCloser, protocol string, err error) {
	resp, err := upgradeClient().Do(req)
	if err != nil {
		return nil, "", err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		resp.Body.Close()
		return nil, "", fmt.Errorf("the server answered %s to a WebSocket", resp.Status)
	}
	if resp.Header.Get("Sec-WebSocket-Accept") != acceptOf(key) {
		conn.Close()
		return nil, "", errors.New("the server does not speak WebSocket: Sec-WebSocket-Accept is wrong")
	}
	return conn, resp.Header.Get("Sec-WebSocket-Protocol"), nil
}

// acceptOf is what a server makes of the key of a client.
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// serve moves messages both ways until the connection is closed or ctx has ended.
func (s *webSocket) serve(ctx context.Context, conn io.ReadWriteCloser, say emit) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var mu sync.Mutex // guards writing
	write := func(m wsMessage) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := conn.Write(clientFrame(m))
		return err
	}
	over, done := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() {
		for {
			select {
			case m := <-s.output:
				if write(m) != nil {
					conn.Close() // who reads says so
					return
				}
				say("wrote")
			case <-over.Done():
				return
			}
		}
	})
	code, reason, clean := s.read(bufio.NewReader(conn), write, say)
	done()
	writing.Wait()
	say("close", float64(code), reason, clean)
}

// wsError is why a connection is closed from our side.
type wsError struct {
	code uint16
	text string
}

func (e wsError) Error() string { return e.text }

// read hands messages over until the other side closes. A connection that breaks is 1006.
func (s *webSocket) read(r *bufio.Reader, write func(wsMessage) error, say emit) (code int, reason string, clean bool) {
	var parts []byte
	kind := byte(frameMore) // of the message that has begun
	for {
		final, m, err := readServerFrame(r, mostMessage-len(parts))
		var wrong wsError
		switch {
		case errors.As(err, &wrong):
			_ = write(closeFrame(wrong)) // it is closed in any case
			return int(wrong.code), wrong.text, false
		case err != nil:
			return 1006, "", false
		}
		switch m.kind {
		case framePing:
			if write(wsMessage{framePong, m.data}) != nil {
				return 1006, "", false
			}
			continue
		case framePong:
			continue
		case frameClose:
			_ = write(wsMessage{frameClose, m.data}) // who has closed may be gone
			if len(m.data) < 2 {
				return 1005, "", true
			}
			return int(binary.BigEndian.Uint16(m.data)), string(m.data[2:]), true
		case frameMore:
		default:
			kind = m.kind
		}
		if parts = append(parts, m.data...); !final {
			continue
		}
		told := true
		switch {
		case kind == frameText && !utf8.Valid(parts):
			_ = write(closeFrame(wsError{1007, "not UTF-8"}))
			return 1007, "not UTF-8", false
		case kind == frameText:
			told = say("text", string(parts))
		case kind == frameBinary:
			told = say("binary", parts)
		}
		if !told {
			return 1006, "", false
		}
		parts, kind = nil, frameMore
	}
}

func closeFrame(e wsError) wsMessage {
	return wsMessage{frameClose, append(binary.BigEndian.AppendUint16(nil, e.code), e.text...)}
}

// clientFrame is a message as one frame of a client, which is masked.
func clientFrame(m wsMessage) []byte {
	b := []byte{0x80 | m.kind}
	switch n := len(m.data); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	var mask [4]byte
	rand.Read(mask[:])
	b = append(b, mask[:]...)
	from := len(b)
	b = append(b, m.data...)
	for i := range m.data {
		b[from+i] ^= mask[i%4]
	}
	return b
}

// readServerFrame reads a frame of a server with at most so many bytes.
func readServerFrame(r *bufio.Reader, most int) (final bool, m wsMessage, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return false, m, err
	}
	final, m.kind = head[0]&0x80 != 0, head[0]&0x0f
	n, masked := uint64(head[1]&0x7f), head[1]&0x80 != 0
	switch {
	case head[0]&0x70 != 0 || masked:
		return false, m, wsError{1002, "a frame that was not agreed on"}
	case n == 126:
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return false, m, err
		}
		n = uint64(binary.BigEndian.Uint16(head[:]))
	case n == 127:
		if _, err := io.ReadFull(r, head[:8]); err != nil {
			return false, m, err
		}
		n = binary.BigEndian.Uint64(head[:])
	}
	if n > uint64(most) {
		return false, m, wsError{1009, fmt.Sprintf("a message of more than %d bytes", mostMessage)}
	}
	m.data = make([]byte, n)
	_, err = io.ReadFull(r, m.data)
	return final, m, err
}
