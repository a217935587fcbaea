package conn

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/protocol"
)

// Client is a client in this process. Its commands take the path of every other
// client's, and it has a window like every other; but commands, answers and
// events are values, and nothing is written or read as JSON. Values that it is
// given are shared with others: they must not be changed.
//
// Commands may be given by several goroutines, events are for one.
type Client struct {
	bound chan struct{} // closed when there is a connection, or will never be
	over  chan struct{} // closed when the connection has ended

	root   *actor.RootContext // set when bound
	router *actor.PID         // likewise, nil if there is no connection
	window *link.Window

	mu     sync.Mutex // guards what follows
	asked  int        // commands so far
	asking map[string]chan *protocol.Response
	events []delivered   // not taken yet
	wake   chan struct{} // has room for one: an event was delivered
	ended  bool          // nothing more will be
	bind   sync.Once
}

// delivered is an event on its way to who takes it.
type delivered struct {
	session string
	item    link.Item
}

// NewClient returns a client, whose transport is still to be connected.
func NewClient() *Client {
	return &Client{
		bound: make(chan struct{}), over: make(chan struct{}), wake: make(chan struct{}, 1),
		asking: map[string]chan *protocol.Response{},
	}
}

// Transport is the client's way to a daemon. It may be connected once.
func (cl *Client) Transport() Transport { return values{cl} }

// Do gives a command to the connection's default session, or to the connection,
// and returns its answer: data of the type that the command's row names, or why
// there is none. A command that is not answered (see [protocol.Spec.Silent])
// returns at once. When Do returns, what was said before the answer can be taken
// with [Client.Next] without waiting. The end of ctx is an error of the code
// cancelled; the command takes effect all the same.
func (cl *Client) Do(ctx context.Context, cmd protocol.Command) (protocol.Result, *protocol.Error) {
	return cl.DoIn(ctx, "", cmd)
}

// DoIn is Do for the session with a handle.
func (cl *Client) DoIn(ctx context.Context, sessionID string, cmd protocol.Command) (protocol.Result, *protocol.Error) {
	spec := protocol.SpecOf(cmd)
	if spec == nil {
		return nil, protocol.CodeUnknownCommand.Errorf("Unknown command: %T", cmd)
	}
	select {
	case <-cl.bound:
	case <-ctx.Done():
		return nil, cancelled(ctx)
	}
	req := protocol.Request{Name: spec.Name, SessionID: sessionID, Spec: spec, Cmd: cmd}
	answer, ok := cl.ask(&req)
	if !ok {
		return nil, errEnded()
	}
	cl.root.Send(cl.router, call{req, cl.window.Enter(protocol.SizeOf(cmd))})
	if spec.Silent {
		return nil, nil
	}
	select {
	case r := <-answer:
		if r == nil {
			return nil, errEnded()
		}
		return r.Data, r.Err
	case <-ctx.Done():
		cl.mu.Lock()
		delete(cl.asking, string(req.ID))
		cl.mu.Unlock()
		return nil, cancelled(ctx)
	}
}

func cancelled(ctx context.Context) *protocol.Error {
	return protocol.CodeCancelled.Errorf("%s", ctx.Err())
}

func errEnded() *protocol.Error {
	return protocol.CodeSessionClosing.Errorf("The connection has ended")
}

// ask names a command and expects its answer. false means that the connection
// has ended.
func (cl *Client) ask(req *protocol.Request) (<-chan *protocol.Response, bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.ended {
		return nil, false
	}
	cl.asked++
	req.ID = json.RawMessage(strconv.Itoa(cl.asked))
	answer := make(chan *protocol.Response, 1)
	if !req.Spec.Silent {
		cl.asking[string(req.ID)] = answer
	}
	return answer, true
}

// Next returns the next event, and the handle of its session, "" for the
// connection's default session. It waits for one until the connection has ended,
// which is io.EOF, or ctx.
func (cl *Client) Next(ctx context.Context) (sessionID string, event protocol.Event, err error) {
	for {
		cl.mu.Lock()
		if len(cl.events) > 0 {
			next := cl.events[0]
			cl.events[0] = delivered{}
			if cl.events = cl.events[1:]; len(cl.events) == 0 {
				cl.events = nil
			}
			cl.mu.Unlock()
			next.item.Receipt.Written()
			cl.window.Give(next.item.Size)
			return next.session, next.item.Event, nil
		}
		ended := cl.ended
		cl.mu.Unlock()
		if ended {
			return "", nil, io.EOF
		}
		select {
		case <-cl.wake:
		case <-cl.over:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
}

// Close says that no more commands come. The connection leaves its sessions, and
// Next returns what is still said.
func (cl *Client) Close() {
	<-cl.bound
	if cl.router != nil {
		cl.root.Send(cl.router, inputClosed{})
	}
}

// connected tells the client the way.
func (cl *Client) connected(root *actor.RootContext, router *actor.PID, w *link.Window) {
	cl.bind.Do(func() {
		cl.root, cl.router, cl.window = root, router, w
		close(cl.bound)
	})
}

// deliver takes records from the writer. It does not wait.
func (cl *Client) deliver(m link.Records) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, it := range m.Items {
		if it.Response == nil && !cl.ended && !it.Known {
			cl.events = append(cl.events, delivered{m.Tag, it})
			select {
			case cl.wake <- struct{}{}:
			default:
			}
			continue
		}
		it.Receipt.Written()
		cl.window.Give(it.Size)
		if it.Response == nil {
			continue
		}
		if answer := cl.asking[string(it.Response.ID)]; answer != nil { // nobody asks any more whose context has ended
			delete(cl.asking, string(it.Response.ID))
			answer <- it.Response
		}
	}
}

// end is the end of the connection.
func (cl *Client) end() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.ended {
		return
	}
	cl.ended = true
	for _, answer := range cl.asking {
		answer <- nil
	}
	clear(cl.asking)
	for _, d := range cl.events {
		d.item.Receipt.Written()
	}
	close(cl.over)
}

// values is a client's transport.
type values struct{ *Client }

// Close is told by the connection, which is over, or has never been.
func (v values) Close() error {
	v.end()
	v.connected(nil, nil, nil)
	return nil
}

func (v values) String() string { return "client in this process" }

// delivery is the writer of a connection whose transport passes values.
type delivery struct {
	client *Client
	window *link.Window
}

func (d *delivery) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case link.Records:
		d.client.deliver(m)
	case flush:
		c.Send(c.Sender(), flushed{})
	case *actor.Stopping:
		d.window.Close()
	}
}
