package actortest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"troupe/e2e/history"
)

// Client is the other end of a connection. In and Out are the daemon's ends.
// Writing never blocks the client; what it writes waits for the daemon.
type Client struct {
	History  *history.History
	Conn     int       // its number among several connections of a daemon
	Schedule *Schedule // of the daemon's actors; nil leaves them to the runtime

	mu      sync.Mutex
	moved   *sync.Cond
	input   []byte // not read by the daemon yet
	closed  bool   // no more input
	partial []byte // of the line that is coming
	lines   []string
	taken   int // bytes the client has read
	stopped bool
	broken  bool
	cutAt   int // the connection breaks when so many bytes are read, -1 never
	perRead time.Duration
	ids     int
	sent    map[string]string // id → command
}

// NewClient is a client that reads whatever comes.
func NewClient(h *history.History) *Client {
	c := &Client{History: h, cutAt: -1, sent: map[string]string{}}
	c.moved = sync.NewCond(&c.mu)
	return c
}

// In is what the daemon reads.
func (c *Client) In() io.Reader { return clientInput{c} }

// Out is where the daemon writes.
func (c *Client) Out() io.Writer { return clientOutput{c} }

type clientInput struct{ c *Client }

func (r clientInput) Read(p []byte) (int, error) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.input) == 0 {
		if c.closed {
			return 0, io.EOF
		}
		c.moved.Wait()
	}
	n := copy(p, c.input)
	c.input = c.input[n:]
	return n, nil
}

type clientOutput struct{ c *Client }

// crawlChunk is how much a crawling client reads at once.
const crawlChunk = 512

func (w clientOutput) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		took, pause, err := w.c.take(p[n:])
		if n += took; err != nil {
			return n, err
		}
		if pause > 0 {
			time.Sleep(pause)
		}
	}
	return len(p), nil
}

// TryWrite has the client take what it can at once.
func (w clientOutput) TryWrite(p []byte) (int, error) {
	w.c.mu.Lock()
	stopped := w.c.stopped
	w.c.mu.Unlock()
	if stopped { // only the test itself changes that, before it goes on
		return 0, nil
	}
	n, _, err := w.c.take(p)
	return n, err
}

// take reads some bytes, all if the client is quick.
func (c *Client) take(p []byte) (n int, pause time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.stopped && !c.broken {
		c.moved.Wait()
	}
	if c.broken {
		return 0, 0, syscall.EPIPE
	}
	if c.perRead > 0 {
		p = p[:min(len(p), crawlChunk)]
	}
	if c.cutAt >= 0 && c.taken+len(p) > c.cutAt {
		p = p[:c.cutAt-c.taken]
		c.broken = true
		err = syscall.EPIPE
	}
	c.taken += len(p)
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			c.partial = append(c.partial, rest...)
			break
		}
		line := string(append(c.partial, rest[:end]...))
		c.partial, rest = c.partial[:0], rest[end+1:]
		c.lines = append(c.lines, line)
		c.History.AddTo(c.Conn, history.Output, line)
	}
	c.moved.Broadcast()
	return len(p), c.perRead, err
}

// Stop makes the client read nothing until Go.
func (c *Client) Stop() { c.change(func() { c.stopped = true }) }

// Go makes it read again as fast as it can.
func (c *Client) Go() { c.change(func() { c.stopped, c.perRead = false, 0 }) }

// Resume makes it read again at the pace it had.
func (c *Client) Resume() { c.change(func() { c.stopped = false }) }

// Crawl makes it read half a kibibyte, pause, and so on.
func (c *Client) Crawl(pause time.Duration) { c.change(func() { c.perRead = pause }) }

// Break closes the client's reading end: the daemon's writes fail.
func (c *Client) Break() { c.change(func() { c.broken = true }) }

// BreakAfter closes it after n more bytes, which may be inside a line.
func (c *Client) BreakAfter(n int) { c.change(func() { c.cutAt = c.taken + n }) }

// Close ends the daemon's input.
func (c *Client) Close() { c.change(func() { c.closed = true }) }

func (c *Client) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.moved.Broadcast()
}

// Line writes a line as it is.
func (c *Client) Line(line string) {
	c.History.AddTo(c.Conn, history.Command, line)
	c.change(func() { c.input = append(append(c.input, line...), '\n') })
}

// Send writes a command, given as JSON without an id, and returns the id that
// was put in.
func (c *Client) Send(command string) (id string) {
	c.mu.Lock()
	c.ids++
	id = fmt.Sprintf("%c%d", 'c'+c.Conn, c.ids)
	c.sent[id] = command
	c.mu.Unlock()
	c.Line(`{"id":"` + id + `",` + strings.TrimPrefix(command, "{"))
	return id
}

// Command is what was sent under an id.
func (c *Client) Command(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[id]
}

// Last is the latest answer to a kind of command, nothing if there is none.
func (c *Client) Last(command string) (v gjson.Result) {
	for _, l := range c.Lines() {
		if r := gjson.Parse(l); r.Get("type").Str == "response" && r.Get("command").Str == command {
			v = r
		}
	}
	return v
}

// Say writes a command with a message, to a session or, with "", the default
// one. more are further members, like `"streamingBehavior":"steer"`.
func (c *Client) Say(session, command, message string, more ...string) (id string) {
	raw, _ := json.Marshal(message)
	members := append([]string{`"type":"` + command + `"`, `"message":` + string(raw)}, more...)
	if session != "" {
		members = append(members, `"sessionId":"`+session+`"`)
	}
	return c.Send("{" + strings.Join(members, ",") + "}")
}

// Lines is everything the client has read.
func (c *Client) Lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

// Unanswered are the ids of commands that have no answer yet.
func (c *Client) Unanswered() (ids []string) {
	answered := map[string]bool{}
	for _, l := range c.Lines() {
		if v := gjson.Parse(l); v.Get("type").Str == "response" {
			answered[v.Get("id").Str] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.sent {
		if !answered[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// Answer is the answer to a command, once there is exactly one.
func (c *Client) Answer(t testing.TB, id string) gjson.Result {
	t.Helper()
	var found []gjson.Result
	for _, l := range c.Lines() {
		if v := gjson.Parse(l); v.Get("type").Str == "response" && v.Get("id").Str == id {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d answers to %s\n%s", len(found), c.sent[id], c.History.Tail(60))
	}
	return found[0]
}

// Settle waits until nothing moves without the passing of time.
func (c *Client) Settle() {
	if c.Schedule != nil {
		c.Schedule.Settle()
		return
	}
	Settle()
}

// Call sends a command, lets everything settle, and returns the answer.
func (c *Client) Call(t testing.TB, command string) gjson.Result {
	t.Helper()
	id := c.Send(command)
	c.Settle()
	return c.Answer(t, id)
}

// Events are the events of a session so far, all kinds if none is named.
func (c *Client) Events(session string, kinds ...string) (list []gjson.Result) {
	for _, l := range c.Lines() {
		v := gjson.Parse(l)
		kind := v.Get("type").Str
		if kind == "response" || v.Get("sessionId").Str != session {
			continue
		}
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			list = append(list, v)
		}
	}
	return list
}

// Kinds are the types of the events of a session, in order, without updates.
func (c *Client) Kinds(session string) (list []string) {
	for _, e := range c.Events(session) {
		if kind := e.Get("type").Str; kind != "message_update" {
			list = append(list, kind)
		}
	}
	return list
}
