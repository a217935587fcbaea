// Package google speaks the google-generative-ai wire: Gemini, and the other
// models that Google and gateways serve through generateContent.
package google

import (
	"context"
	"iter"

	"troupe/protocol"
	"troupe/providers"
)

// The wire's names in model descriptions. Vertex AI speaks it as well: its base
// URL ends in /publishers/google, and its key is an API key or, in a header of
// models.json, an access token.
const (
	API       = "google-generative-ai"
	VertexAPI = "google-vertex"
)

// Provider asks models over the google-generative-ai wire.
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
	return &decoder{out: out}
}

// Explain implements [providers.Wire].
func (wire) Explain(_ *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	err.Message = providers.ObjectText(err.Status, body)
	return err
}
