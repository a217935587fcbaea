// Package anthropic speaks the anthropic-messages wire: Claude at its maker and
// at the many services that offer the same API.
package anthropic

import (
	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// API is the wire's name in model descriptions.
const API = "anthropic-messages"

// New makes a provider on the connections of client.
func New(client *wire.Client) providers.Provider { return client.Provider(format{}) }

// format implements [wire.Format].
type format struct{}

func (format) Decoder(_ *providers.Request, out *wire.Parts) wire.Decoder {
	return &decoder{out: out, blocks: map[int64]*blockState{}}
}

// Explain implements [wire.Format].
func (format) Explain(_ *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	err.Message = wire.TopText(err.Status, body)
	return err
}
