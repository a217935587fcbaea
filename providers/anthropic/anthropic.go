// Package anthropic speaks the anthropic-messages wire: Claude at its maker and
// at the many services that offer the same API.
package anthropic

import (
	"context"
	"iter"

	"troupe/protocol"
	"troupe/providers"
)

// API is the wire's name in model descriptions.
const API = "anthropic-messages"

// Provider asks models over the anthropic-messages wire.
type Provider struct{ client *providers.Client }

// New makes a provider on the connections of client.
func New(client *providers.Client) *Provider { return &Provider{client} }

// Stream implements [providers.Provider].
func (p *Provider) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return p.client.Stream(ctx, req, wire{})
}

// wire implements [providers.Wire].
type wire struct{}

func (wire) Decoder(_ *providers.Request, out *providers.Parts) providers.Decoder {
	return &decoder{out: out, blocks: map[int64]*blockState{}}
}

// Explain implements [providers.Wire].
func (wire) Explain(_ *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	err.Message = providers.TopText(err.Status, body)
	return err
}
