package extension

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// Client is a host at the other end of a connection that Serve reads.
type Client struct {
	rw   io.ReadWriteCloser
	raw  syscall.RawConn // of rw; nil if it has none
	over chan struct{}   // closed when nothing more is said

	mu    sync.Mutex
	last  uint32
	vms   map[uint32]func(Said) // sinks
	out   []byte                // frames that wait for the writer
	spare []byte                // room for a frame
	busy  bool                  // the writer writes
	more  chan struct{}         // holds a token while out is not empty, or it is over
	why   string                // why it is over, "" before
}

// NewClient speaks to the host behind a connection.
func NewClient(rw io.ReadWriteCloser) *Client {
	c := &Client{rw: rw, over: make(chan struct{}), vms: map[uint32]func(Said){}, more: make(chan struct{}, 1)}
	if conn, ok := rw.(syscall.Conn); ok {
		if raw, err := conn.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	go c.write()
	go c.read()
	return c
}

// Over is closed when the host is gone.
func (c *Client) Over() <-chan struct{} { return c.over }

// Open begins a VM.
func (c *Client) Open(spec Spec, sink func(Said)) VM {
	c.mu.Lock()
	if c.why != "" {
		why := c.why
		c.mu.Unlock()
		go sink(Gone{Why: why})
		return remote{c: c}
	}
	c.last++
	id := c.last
	c.vms[id] = sink
	c.mu.Unlock()
	r := remote{c: c, session: id}
	r.say(sayOpen, 0, encoded(spec))
	return r
}

// Close ends the connection, and with it the host. Every VM says Gone.
func (c *Client) Close() error {
	c.end("the host is closed")
	<-c.over
	return nil
}

// end closes the connection: the reader says so to everybody.
func (c *Client) end(why string) {
	c.mu.Lock()
	if c.why == "" {
		c.why = why
	}
	c.mu.Unlock()
	c.wake()
	c.rw.Close()
}

func (c *Client) wake() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// send says a frame: at once, if the socket takes it, which saves the way over the writer.
// Who says something never waits for the host. c.mu is held.
func (c *Client) send(f frame) {
	c.spare = f.append(c.spare[:0])
	rest := c.spare
	if cap(c.spare) > 64<<10 {
		c.spare = nil
	}
	if c.raw != nil && !c.busy && len(c.out) == 0 {
		_ = c.raw.Write(func(fd uintptr) bool { // one that is closed is the reader's to find
			n, _ := syscall.Write(int(fd), rest)
			rest = rest[max(n, 0):]
			return true
		})
	}
	if len(rest) > 0 {
		c.out = append(c.out, rest...)
		c.wake()
	}
}

// write sends what is waiting.
func (c *Client) write() {
	for range c.more {
		c.mu.Lock()
		out, over := c.out, c.why != ""
		c.out, c.busy = nil, true
		c.mu.Unlock()
		if over {
			return
		}
		if _, err := c.rw.Write(out); err != nil {
			c.end("the extension host died: " + err.Error())
			return
		}
		c.mu.Lock()
		c.busy = false
		c.mu.Unlock()
	}
}

func (c *Client) read() {
	defer close(c.over)
	r := bufio.NewReaderSize(c.rw, 64<<10)
	why := ""
	for {
		f, err := readFrame(r)
		if err != nil {
			why = "the extension host died"
			break
		}
		s, err := saidOf(f)
		if err != nil {
			why = "the extension host does not make sense: " + err.Error()
			break
		}
		c.mu.Lock()
		sink := c.vms[f.session]
		if _, gone := s.(Gone); gone {
			delete(c.vms, f.session)
		}
		c.mu.Unlock()
		if sink != nil {
			sink(s)
		}
	}
	c.end(why)
	c.mu.Lock()
	why, sinks := c.why, c.vms
	c.vms = map[uint32]func(Said){}
	c.mu.Unlock()
	for _, sink := range sinks {
		sink(Gone{Why: why})
	}
}

// remote is a VM at the other end.
type remote struct {
	c       *Client
	session uint32
}

func (r remote) say(k kind, id uint64, payload []byte) {
	if len(payload) > mostFrame {
		r.c.end(fmt.Sprintf("a word of %d bytes is too long", len(payload)))
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.vms[r.session] != nil && r.c.why == "" {
		r.c.send(frame{k, r.session, id, payload})
	}
}

func (r remote) Part(op uint64, event json.RawMessage) { r.say(sayPart, op, event) }
func (r remote) Tell(n uint64, event json.RawMessage)  { r.say(sayTell, n, event) }
func (r remote) Call(id uint64, event json.RawMessage) { r.say(sayCall, id, event) }
func (r remote) CancelCall(id uint64)                  { r.say(sayCancelCall, id, nil) }
func (r remote) Prepare(id uint64, call ToolCall)      { r.say(sayPrepare, id, encoded(call)) }
func (r remote) Tool(id uint64, call ToolCall)         { r.say(sayTool, id, encoded(call)) }
func (r remote) CancelTool(id uint64)                  { r.say(sayCancelTool, id, nil) }
func (r remote) Update(snapshot json.RawMessage)       { r.say(sayUpdate, 0, snapshot) }
func (r remote) Entry(entry json.RawMessage)           { r.say(sayEntry, 0, entry) }
func (r remote) AbortRun()                             { r.say(sayAbortRun, 0, nil) }
func (r remote) Rebind(spec Spec)                      { r.say(sayRebind, 0, encoded(spec)) }
func (r remote) Close(reason string)                   { r.say(sayClose, 0, []byte(reason)) }
func (r remote) Command(id uint64, name, args string) {
	r.say(sayCommand, id, encoded(commandWords{name, args}))
}

func (r remote) Invoke(id uint64, key, member string, args []json.RawMessage) {
	r.say(sayInvoke, id, encoded(invokeWords{key, member, args}))
}

func (r remote) Answer(op uint64, result json.RawMessage, err string) {
	if err != "" {
		r.say(sayAnswerError, op, []byte(err))
		return
	}
	r.say(sayAnswer, op, result)
}
