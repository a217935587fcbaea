// Package bedrock speaks the bedrock-converse-stream wire: ConverseStream, by
// which Amazon Bedrock serves the models of every maker in one form, over the
// event stream encoding of AWS.
package bedrock

import (
	"strings"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// API is the wire's name in model descriptions.
const API = "bedrock-converse-stream"

// New makes a provider on the connections of client.
func New(client *wire.Client) providers.Provider { return client.Provider(format{}) }

// format implements [wire.Format].
type format struct{}

func (format) Decoder(_ *providers.Request, out *wire.Parts) wire.Decoder {
	return &decoder{out: out, blocks: map[int64]*blockState{}}
}

// Explain implements [wire.Format]: it says what to do about the refusals that
// every new user meets.
func (format) Explain(req *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	err.Message = wire.TopText(err.Status, body)
	switch text := strings.ToLower(err.Message); {
	case strings.Contains(text, "on-demand throughput isn"):
		err.Message += " This model is only served through an inference profile: put a region's prefix before its id, as in us." + req.WireModel() + " or global." + req.WireModel() + "."
	case err.Kind == protocol.ErrorAuth && strings.Contains(text, "expired"):
		err.Message += " Renew AWS_BEARER_TOKEN_BEDROCK, or the credentials of the profile (aws sso login)."
	}
	return err
}
