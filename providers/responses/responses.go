// Package responses speaks the openai-responses wire: OpenAI's own models, and
// those that Azure, xAI, GitHub, Meta and gateways offer in the same form. Other
// than chat completions it gives the model its reasoning back, encrypted, so that
// a long run of tool calls does not think everything anew. Nothing is stored at
// the service: every request carries the whole conversation.
package responses

import (
	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// The wire's names in model descriptions. Azure differs in the address, the
// names of models and the header of the key, which are the registry's business.
const (
	API      = "openai-responses"
	AzureAPI = "azure-openai-responses"
)

// New makes a provider on the connections of client.
func New(client *wire.Client) providers.Provider { return client.Provider(format{}) }

// format implements [wire.Format].
type format struct{}

func (format) Decoder(_ *providers.Request, out *wire.Parts) wire.Decoder {
	return &decoder{out: out, items: map[string]*item{}}
}

// Explain implements [wire.Format].
func (format) Explain(req *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	if !req.FullErrors || err.Status == 0 {
		err.Message = wire.SentenceText(err.Status, body, false)
		return aboutPlan(err, body)
	}
	service := req.Model.Provider
	switch {
	case req.Model.API == AzureAPI:
		service = "Azure OpenAI"
	case service == "openai":
		service = "OpenAI"
	}
	err.Message = wire.NamedText(service, err.Status, body)
	return aboutPlan(err, body)
}
