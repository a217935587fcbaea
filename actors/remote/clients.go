package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"troupe/actors/kernel"
)

// Subprotocols of a WebSocket, and how a browser offers its credential.
const (
	recordProtocol = "troupe.v1"       // one record a message
	linesProtocol  = "troupe.v1.lines" // whole records, with line feeds between them
	authProtocol   = "troupe.auth."    // and the token in base64url
)

// offered is the credential among the subprotocols that a client offers.
func offered(r *http.Request) (token string, given bool) {
	for _, name := range subprotocols(r) {
		if coded, is := strings.CutPrefix(name, authProtocol); is {
			raw, err := base64.RawURLEncoding.DecodeString(coded)
			return string(raw), err == nil
		}
	}
	return "", false
}

// subprotocols are those that a client offers.
func subprotocols(r *http.Request) (list []string) {
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(header, ",") {
			list = append(list, strings.TrimSpace(name))
		}
	}
	return list
}

// unspoken says whether a client offers subprotocols and none of ours. One that offers none is
// sent one record a message, which is what most expect.
func unspoken(r *http.Request, ours []string) bool {
	others := false
	for _, name := range subprotocols(r) {
		if slices.ContainsFunc(ours, func(our string) bool { return strings.EqualFold(our, name) }) {
			return false
		}
		others = others || !strings.HasPrefix(name, authProtocol)
	}
	return others
}

// socketClient is a client on a WebSocket.
type socketClient struct {
	visitor
	ws     *websocket.Conn
	out    *outlet
	bye    func(*socketClient, error)
	single bool                       // one record a message
	packs  bool                       // messages are compressed
	wrong  atomic.Int64               // the code of what is wrong with what it sends; 0 for nothing
	gone   atomic.Bool                // goodbye is said, or was
	next   atomic.Pointer[time.Timer] // of the next beat

	rest []byte // of the message that is read
	open bool   // the message that is written has further frames
}

func (c *socketClient) crashed(reason any) { crashed(c.log, reason) }

// Close implements [conn.Transport]; the connection calls End.
func (c *socketClient) Close() error { return c.End(nil) }

// End says goodbye without waiting for the client to say it, too.
func (c *socketClient) End(why error) error {
	c.gone.Store(true)
	if next := c.next.Load(); next != nil { // it holds what is no more needed
		next.Stop()
	}
	c.bye(c, why)
	return nil
}

// Chunk gives each message as a line, and what it gives away.
func (c *socketClient) Chunk() ([]byte, error) {
	kind, message, err := c.ws.Read(context.Background())
	switch {
	case err == nil && kind != websocket.MessageText:
		c.wrong.Store(int64(websocket.StatusUnsupportedData))
	case err != nil && websocket.CloseStatus(err) < 0 && !c.gone.Load(): // or the client is gone: then nobody hears it
		c.wrong.Store(int64(websocket.StatusProtocolError))
	}
	if err != nil || kind != websocket.MessageText {
		return nil, io.EOF
	}
	return append(message, '\n'), nil
}

// Read gives the same to who has room of its own for it.
func (c *socketClient) Read(p []byte) (n int, err error) {
	for len(c.rest) == 0 && err == nil {
		c.rest, err = c.Chunk()
	}
	n = copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, err
}

// Frame implements [conn.Framer]. A line that is cut off begins a message of several frames.
func (c *socketClient) Frame(dst, lines []byte) []byte {
	for len(lines) > 0 {
		message := lines
		if end := bytes.IndexByte(lines, '\n'); c.single && end >= 0 {
			message = lines[:end+1]
		}
		lines = lines[len(message):]
		payload, whole := bytes.CutSuffix(message, []byte("\n"))
		if c.packs && whole && !c.open && len(payload) >= smallestDeflated {
			dst = appendDeflated(dst, payload)
			continue
		}
		dst = appendFrame(dst, c.open, whole, payload)
		c.open = !whole
	}
	return dst
}

// Write writes frames, and waits for the client.
func (c *socketClient) Write(frames []byte) (int, error) { return c.out.finish(frames) }

// TryWrite implements [conn.TryWriter].
func (c *socketClient) TryWrite(frames []byte) (int, error) { return c.out.try(frames) }

// beat finds out about a client that is gone without having said so. Between two of them
// there is nothing but a timer. One that is written to is waited for by who writes.
func (c *socketClient) beat() {
	if c.gone.Load() {
		return
	}
	if !c.out.busy() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*heartbeatEvery)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil {
			_ = c.ws.Close(statusIdle, "no pong") // waits for a goodbye that hardly comes
			return
		}
	}
	c.beatLater()
}

func (c *socketClient) beatLater() { c.next.Store(kernel.Later(heartbeatEvery, c.beat, c.crashed)) }

// Codes with which a WebSocket is closed, beside those that are everybody's. A client that
// does not read for writePatience is cut off: it could not read a code, either.
const (
	statusIdle     websocket.StatusCode = 4001 // the client does not answer pings
	statusReplaced websocket.StatusCode = 4003 // it has connected again
)

// request is a client that says a few lines and hears until it has had enough.
type request struct {
	visitor
	in   io.Reader
	hear func(line []byte) (enough bool)

	mu      sync.Mutex
	partial []byte
	over    chan struct{} // closed when it has had enough, or is gone
	once    sync.Once
	ended   bool // the input may end: what is open is left
}

func newRequest(from visitor, in io.Reader, hear func([]byte) bool) *request {
	return &request{visitor: from, in: in, hear: hear, over: make(chan struct{})}
}

func (q *request) Close() error { q.stop(); return nil }
func (q *request) stop()        { q.once.Do(func() { close(q.over) }) }

// Read ends when the request is over: as long as it hears, its connection lasts.
func (q *request) Read(p []byte) (int, error) {
	n, err := q.in.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	<-q.over
	return 0, io.EOF
}

func (q *request) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.partial = append(q.partial, p...)
	for {
		line, rest, whole := bytes.Cut(q.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if !q.ended && q.hear(line) {
			q.ended = true
			q.stop()
		}
		q.partial = bytes.Clone(rest)
	}
}

// begin runs a request as a connection of its own; ended is closed when that is over.
func (s *Server) begin(by who, q *request) (ended chan struct{}) {
	ended = make(chan struct{})
	s.beside(func() {
		defer close(ended)
		s.run(s.network(by), q)
	})
	return ended
}

// rpc answers commands: the answers as lines, in the order in which they come. Of
// events it says nothing.
func (s *Server) rpc(w http.ResponseWriter, r *http.Request, by who) {
	within(w, rpcPatience, rpcPatience+writePatience)
	if r.ContentLength > maxBody {
		s.refuse(w, r, http.StatusRequestEntityTooLarge, "the commands are too long")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if r.Context().Err() != nil || !s.Tokens.Known(by.device) { // it was withdrawn while the body was on its way
		s.refuse(w, r, http.StatusUnauthorized, "unauthorized")
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.refuse(w, r, http.StatusRequestTimeout, "the commands did not come")
		return
	}
	if err != nil {
		s.refuse(w, r, http.StatusRequestEntityTooLarge, "the commands are too long")
		return
	}
	waiting := 0
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) > 0 {
			waiting++
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if waiting == 0 {
		return
	}
	if len(body) > 0 && body[len(body)-1] != '\n' {
		body = append(body, '\n')
	}
	var answers bytes.Buffer
	s.ask(r, by, append(attachFirst(body), body...), func(line []byte) bool {
		of := gjson.ParseBytes(line)
		if of.Get("type").Str != "response" || strings.HasPrefix(of.Get("id").Str, attachID) {
			return false
		}
		answers.Write(line)
		answers.WriteByte('\n')
		waiting--
		return waiting == 0
	})
	_, _ = w.Write(answers.Bytes()) // what has come in time
}

// attachID begins the ids of commands that no client gives.
const attachID = "troupe.attach."

// attachFirst is what makes the sessions known that commands name: a request is a connection
// of its own, and can hardly wait for the answer to an attach. Where that is refused, the
// command is.
func attachFirst(commands []byte) (lines []byte) {
	known := map[string]bool{"": true}
	for line := range bytes.Lines(commands) {
		of := gjson.ParseBytes(line)
		handle := of.Get("sessionId").Str
		if !known[handle] && of.Get("type").Str != "attach" {
			attach, _ := json.Marshal(map[string]string{"id": attachID + handle, "type": "attach", "sessionId": handle}) // of strings
			lines = append(append(lines, attach...), '\n')
		}
		known[handle] = true
	}
	return lines
}

// attachTo is the command that hears a session: from where a stream has ended, or from
// the beginning if last is no such place.
func attachTo(handle, last string) map[string]any {
	attach := map[string]any{"id": "attach", "type": "attach", "sessionId": handle}
	parts := strings.Split(last, ":")
	if len(parts) == 3 && parts[1] == handle {
		if seq, err := strconv.ParseUint(parts[2], 10, 63); err == nil {
			attach["since"] = map[string]any{"epoch": parts[0], "seq": seq}
			return attach
		}
	}
	attach["snapshot"] = map[string]any{}
	return attach
}

// events tells what a session says, to who only wants to hear. The id of each is
// where it stands: who comes back with it goes on there.
func (s *Server) events(w http.ResponseWriter, r *http.Request, by who) {
	handle := r.URL.Query().Get("session")
	if handle == "" || strings.ContainsAny(handle, ":\r\n") { // it is part of the ids
		s.refuse(w, r, http.StatusBadRequest, "session is missing, or no handle")
		return
	}
	attach, _ := json.Marshal(attachTo(handle, r.Header.Get("Last-Event-ID"))) // of texts and a number
	in := strings.NewReader(`{"type":"hello","id":"hello","features":["seq","deltaUpdates","queueUpdate","settingEvents","approvals","dialogEvents","stateEvents"]}` + "\n" + string(attach) + "\n")
	within(w, 0, writePatience)
	flush := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	var mu sync.Mutex // of w
	said := stream{handle: handle}
	say := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		_ = flush.SetWriteDeadline(time.Now().Add(writePatience))
		_, err := io.WriteString(w, text)
		return err != nil || flush.Flush() != nil
	}
	by.scope = ScopeView
	q := newRequest(s.visitor("events for "+r.RemoteAddr, by), in, func(line []byte) bool {
		if v := gjson.ParseBytes(line); v.Get("type").Str == "response" && !v.Get("success").Bool() { // nothing is said yet
			mu.Lock()
			defer mu.Unlock()
			s.refuse(w, r, http.StatusNotFound, v.Get("error").Str)
			return true
		}
		text, over := said.event(line)
		return text != "" && say(text) || over
	})
	ended := s.begin(by, q)
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if say(": hb\n\n") {
				q.stop()
			}
		case <-r.Context().Done():
			q.stop()
		case <-ended:
			if !mu.TryLock() { // a write is under way, to a client that may not read
				_ = flush.SetWriteDeadline(time.Unix(1, 0))
				mu.Lock()
			}
			defer mu.Unlock()
			_ = flush.SetWriteDeadline(time.Now().Add(withdrawTime)) // for the end of the answer
			return
		}
	}
}

// stream is what a session says, as server-sent events.
type stream struct {
	handle string
	epoch  string // of the process that has the session, which may be another node's
}

// event is a line as an event, "" for none, and whether the stream is over with it: who was told to attach again would hear nothing
// more, and a browser comes back by itself when a stream ends.
func (s *stream) event(line []byte) (text string, over bool) {
	v := gjson.ParseBytes(line)
	seq, kind := v.Get("seq"), v.Get("type").Str
	switch {
	case v.Get("id").Str == "hello":
		return "", false
	case kind == "response":
		seq, s.epoch = v.Get("data.seq"), v.Get("data.epoch").Str
	case kind == "resync":
		over = true
	}
	switch {
	case seq.Exists() || kind == "response": // which leaves out that it is 0
		text = fmt.Sprintf("id: %s:%s:%d\n", s.epoch, s.handle, seq.Int())
	case over && v.Get("reason").Str == "moved": // what has a number there has it from another count: it begins with a snapshot
		text = "id:\n"
	}
	return fmt.Sprintf("%sdata: %s\n\n", text, line), over
}
