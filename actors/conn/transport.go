package conn

import (
	"io"
	"strings"

	"troupe/protocol"
)

// Transport is a connection's way to its client and back: a [Stream], or that of
// a [Client] in this process.
type Transport interface {
	// Close is called once, when the connection is over. It does not wait, and
	// wakes who reads and writes if it can.
	io.Closer
	// String says who the client is, for logs.
	String() string
}

// Told is a transport that can tell its client why the connection ends.
type Told interface {
	// End is called in the place of Close; why is nil after an orderly end.
	End(why error) error
}

// Stream is a transport of bytes. Read is called by one goroutine and Write by
// another, at the same time; both may wait. One that can also be written to
// without waiting is a [TryWriter].
type Stream interface {
	Transport
	// Read returns io.EOF when the client says no more. The client may still
	// read.
	io.Reader
	// Write fails when the client reads no more. The connection then ends.
	io.Writer
}

// TryWriter is an output that can be written to without waiting for its reader.
type TryWriter interface {
	// TryWrite writes what can be written at once, which may be nothing.
	TryWrite(p []byte) (n int, err error)
}

// Framer is a stream of messages rather than of lines: it is written what it makes of them.
type Framer interface {
	// Frame appends what carries lines. The last of them may be cut off: what follows is
	// the next call's. lines are not kept.
	Frame(dst, lines []byte) []byte
}

// Witness is a transport that is told what its client has asked for, and how that was
// answered, for a log. It is told by one goroutine at a time, and must not wait.
type Witness interface{ Answered(Answer) }

// Answer is how a command was answered. It has no word of what was said.
type Answer struct {
	Session  string // the handle; "" for none, and for the default session
	Command  string // by its name; "unknown" for one that there is not, "" for what is no command
	Code     string // of the error, "" for none
	ClientID string // as the client has just named itself
	Asks     bool   // it was answered, and has changed nothing
}

func answerOf(tag string, r *protocol.Response) Answer {
	a := Answer{Session: tag, Command: r.Command}
	if a.Command != "" && protocol.Lookup(a.Command) == nil {
		a.Command = "unknown"
	}
	if r.Err != nil {
		a.Code = string(r.Err.Code)
	}
	if info, is := r.Data.(protocol.ProtocolInfo); is {
		a.ClientID = info.ClientID
	}
	a.Asks = r.Err == nil && (strings.HasPrefix(a.Command, "get_") || strings.HasPrefix(a.Command, "list_") || a.Command == "ping")
	return a
}

// Stdio is the transport of the process that has started this one. Nothing can
// wake who reads from a standard input: that goroutine lasts as long as the
// process.
type Stdio struct {
	In  io.Reader
	Out io.Writer
}

func (s Stdio) Read(p []byte) (int, error)  { return s.In.Read(p) }
func (s Stdio) Write(p []byte) (int, error) { return s.Out.Write(p) }
func (s Stdio) Close() error                { return nil }
func (s Stdio) String() string              { return "stdio" }

// TryWrite writes nothing if the output has no such way.
func (s Stdio) TryWrite(p []byte) (int, error) {
	if try, ok := s.Out.(TryWriter); ok {
		return try.TryWrite(p)
	}
	return 0, nil
}
