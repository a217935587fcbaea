package extension

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"

	words "troupe/protocol/extension"
)

// Client is a host at the other end of a connection that Serve reads.
type Client struct {
	rw    io.ReadWriteCloser
	turns Turns
	over  chan struct{} // closed when nothing more is said

	mu   sync.Mutex    // guards what is said
	out  []byte        // frames that are not written
	due  bool          // they are about to be
	busy bool          // the writer writes
	more chan struct{} // holds a token while out is the writer's to write, or it is over
	why  string        // why it is over, "" before

	heard sync.Mutex // guards who hears
	last  uint32
	vms   map[uint32]func(words.Said) // sinks; nil when it is over
}

// NewClient speaks to the host behind a connection. What is said there is heard in turns; nil
// has none.
func NewClient(rw io.ReadWriteCloser, turns Turns) *Client {
	if turns == nil {
		turns = goroutines{}
	}
	c := &Client{rw: rw, turns: turns, over: make(chan struct{}), vms: map[uint32]func(words.Said){}, more: make(chan struct{}, 1)}
	go c.write()
	go c.read()
	return c
}

// Over is closed when the host is gone.
func (c *Client) Over() <-chan struct{} { return c.over }

// Open begins a VM.
func (c *Client) Open(spec words.Spec, sink func(words.Said)) words.VM {
	c.heard.Lock()
	if c.vms == nil {
		c.heard.Unlock()
		go sink(words.Gone{Why: c.reason()})
		return remote{c: c}
	}
	c.last++
	r := remote{c: c, session: c.last}
	c.vms[r.session] = sink
	c.heard.Unlock()
	payload, _ := encode(spec) // its snapshot is our own JSON
	r.send(frame{kind: sayOpen, session: r.session, payload: payload})
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
	c.why = cmp.Or(c.why, why)
	c.mu.Unlock()
	wake(c.more)
	c.rw.Close()
}

// reason is why it is over.
func (c *Client) reason() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// wake gives a writer its token, unless it has one.
func wake(more chan<- struct{}) {
	select {
	case more <- struct{}{}:
	default:
	}
}

// send says a frame, together with what else is said in this turn. Who says something never
// waits for the host.
func (c *Client) send(f frame) {
	c.mu.Lock()
	c.out = f.append(c.out)
	due := c.due
	c.due = true
	c.mu.Unlock()
	if !due {
		c.turns.AtEnd(c.flush)
	}
}

// flush writes what the socket takes at once, which saves the way over the writer.
func (c *Client) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = false
	if s, ok := c.rw.(hostEnd); ok && !c.busy {
		c.out = slices.Delete(c.out, 0, s.tryWrite(c.out))
	}
	if len(c.out) > 0 {
		wake(c.more)
	} else if cap(c.out) > 64<<10 {
		c.out = nil
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
	r := newReader(c.rw, c.turns, c.hear)
	r.read()
	why := "the extension host died"
	if err, nonsense := (<-r.over).(senseless); nonsense {
		why = "the extension host does not make sense: " + err.Error()
	}
	c.end(why)
	why = c.reason()
	c.heard.Lock()
	sinks := c.vms
	c.vms = nil
	c.heard.Unlock()
	for _, sink := range sinks {
		sink(words.Gone{Why: why})
	}
}

// senseless is an error of what the host says.
type senseless struct{ error }

// hear gives what a VM says to its sink.
func (c *Client) hear(f frame) error {
	s, err := saidOf(f)
	if err != nil {
		return senseless{err}
	}
	c.heard.Lock()
	sink := c.vms[f.session]
	if _, gone := s.(words.Gone); gone {
		delete(c.vms, f.session)
	}
	c.heard.Unlock()
	if sink != nil {
		sink(s)
	}
	return nil
}

// remote is a VM at the other end.
type remote struct {
	c       *Client
	session uint32
}

func (r remote) Say(w words.Word) { r.send(wordFrame(r.session, w)) }

func (r remote) send(f frame) {
	r.c.heard.Lock()
	there := r.c.vms[r.session] != nil
	r.c.heard.Unlock()
	switch {
	case !there:
	case len(f.payload) > mostFrame:
		r.c.end(fmt.Sprintf("a word of %d bytes is too long", len(f.payload)))
	default:
		r.c.send(f)
	}
}
