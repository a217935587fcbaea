// Package openai speaks chat completions (openai-completions), the wire that
// OpenAI introduced and that nearly every service and local server offers, each
// in its own dialect: compat.go lists how they differ.
package openai

import (
	"context"
	"iter"

	"troupe/protocol"
	"troupe/providers"
)

// The wire's names in model descriptions. Mistral's own wire has the same shape;
// its base URL has no version in it.
const (
	CompletionsAPI = "openai-completions"
	MistralAPI     = "mistral-conversations"
)

// Completions asks models over the openai-completions wire.
type Completions struct{ client *providers.Client }

// NewCompletions makes a provider on the connections of client.
func NewCompletions(client *providers.Client) *Completions { return &Completions{client} }

// Stream implements [providers.Provider].
func (p *Completions) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return p.client.Stream(ctx, req, completions{})
}

// completions implements [providers.Wire].
type completions struct{}

func (completions) Decoder(req *providers.Request, out *providers.Parts) providers.Decoder {
	return &decoder{req: req, out: out, compat: compatOf(req)}
}

// Explain implements [providers.Wire]. Cerebras refuses a context that is too
// large without a word.
func (completions) Explain(req *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	if compatOf(req).emptyIsOverflow && err.Status == 400 && err.Body == "" {
		err.Kind = protocol.ErrorOverflow
	}
	if req.Model.API == MistralAPI && req.FullErrors && err.Status != 0 {
		err.Message = providers.BodyText("Mistral", err.Status, body)
		return err
	}
	err.Message = providers.UpstreamText(err.Status, body, req.FullErrors)
	return err
}
