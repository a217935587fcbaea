// Package responses speaks the openai-responses wire: OpenAI's own models, and
// those that Azure, xAI, GitHub, Meta and gateways offer in the same form. Other
// than chat completions it gives the model its reasoning back, encrypted, so that
// a long run of tool calls does not think everything anew. Nothing is stored at
// the service: every request carries the whole conversation.
package responses

import (
	"context"
	"iter"

	"troupe/protocol"
	"troupe/providers"
)

// The wire's names in model descriptions. Azure differs in the address, the
// names of models and the header of the key, which are the registry's business.
const (
	API      = "openai-responses"
	AzureAPI = "azure-openai-responses"
)

// Provider asks models over the openai-responses wire.
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
	return &decoder{out: out, items: map[string]*item{}}
}

// Explain implements [providers.Wire].
func (wire) Explain(req *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	if !req.FullErrors || err.Status == 0 {
		err.Message = providers.SentenceText(err.Status, body, false)
		return err
	}
	service := req.Model.Provider
	switch {
	case req.Model.API == AzureAPI:
		service = "Azure OpenAI"
	case service == "openai":
		service = "OpenAI"
	}
	err.Message = providers.NamedText(service, err.Status, body)
	return err
}
