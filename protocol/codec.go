package protocol

import "io"

// Codec is a language that clients speak: how the bytes that they write become
// commands, and records become bytes. It is safe for concurrent use.
type Codec interface {
	// Frames cuts an input into frames of at most max bytes.
	Frames(in io.Reader, max int) Frames
	// Decode reads a frame, whose bytes it takes over. On failure the request
	// carries what the answer needs, as the client's wire has it.
	Decode(frame []byte, wire *Wire) (Request, *Error)
	// Encoder writes the records of one session for one client. They carry the
	// tag, unless it is empty.
	Encoder(wire Wire, tag string) Encoder
}

// Frames is an input in pieces, one for each command.
type Frames interface {
	// Next returns the next frame; the receiver owns its bytes. A frame that
	// cannot be taken is a [FrameError]: the next one may still come. Any other
	// error is the end, io.EOF one in order.
	Next() ([]byte, error)
	// Buffered says that Next will not wait.
	Buffered() bool
}

// FrameError is a frame that is no command and is answered all the same.
type FrameError interface {
	error
	// Refusal is the answer: a request that carries what the answer needs, and why.
	Refusal() (Request, *Error)
}

// Encoder writes records, in the order in which they are to be read. It must see
// every event of its session.
type Encoder interface {
	// AppendEvent appends an event; nothing if the client is not told of it. seq is
	// its number among the session's, 0 for what has none.
	AppendEvent(dst []byte, ev Event, seq uint64) []byte
	// Fold takes in an event that the client has read before.
	Fold(ev Event)
	// AppendResponse appends an answer.
	AppendResponse(dst []byte, r Response) []byte
	// AppendLong appends the piece at a position of an answer with long data, and
	// returns the position of the next one, 0 after the last. The first is at 0.
	// No other record may come between the pieces.
	AppendLong(dst []byte, r Response, data Long, at int) (out []byte, next int)
}
