package pi

import (
	"io"

	"troupe/protocol"
)

// Codec is pi's protocol as connections are given it.
type Codec struct{}

// Frames implements [protocol.Codec].
func (Codec) Frames(in io.Reader, max int) protocol.Frames { return NewLineReader(in, max) }

// Decode implements [protocol.Codec]: as [Decode], but the answer to what is no
// command carries the id only where the client's dialect has it.
func (Codec) Decode(line []byte, wire *protocol.Wire) (protocol.Request, *protocol.Error) {
	req, err := Decode(line)
	if err != nil && (err.Code == protocol.CodeUnknownCommand && wire.OmitIDOnUnknown ||
		err.Code == protocol.CodeMissingType && !wire.IDOnMissingType) {
		req.ID = nil
	}
	return req, err
}

// Encoder implements [protocol.Codec].
func (Codec) Encoder(wire protocol.Wire, tag string) protocol.Encoder { return NewEncoder(wire, tag) }
