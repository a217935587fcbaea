// Package openai speaks chat completions (openai-completions), the wire that
// OpenAI introduced and that nearly every service and local server offers, each
// in its own dialect: compat.go lists how they differ.
package openai

import (
	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// The wire's names in model descriptions. Mistral's own wire has the same shape;
// its base URL has no version in it.
const (
	CompletionsAPI = "openai-completions"
	MistralAPI     = "mistral-conversations"
)

// New makes a provider on the connections of client.
func New(client *wire.Client) providers.Provider { return client.Provider(format{}) }

// format implements [wire.Format].
type format struct{}

func (format) Decoder(req *providers.Request, out *wire.Parts) wire.Decoder {
	return &decoder{req: req, out: out, compat: compatOf(req)}
}

// Explain implements [wire.Format]. Cerebras refuses a context that is too
// large without a word.
func (format) Explain(req *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	if compatOf(req).emptyIsOverflow && err.Status == 400 && err.Body == "" {
		err.Kind = protocol.ErrorOverflow
	}
	if req.Model.API == MistralAPI && req.FullErrors && err.Status != 0 {
		err.Message = wire.BodyText("Mistral", err.Status, body)
		return err
	}
	err.Message = wire.UpstreamText(err.Status, body, req.FullErrors)
	return err
}
