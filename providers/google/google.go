// Package google speaks the google-generative-ai wire: Gemini, and the other
// models that Google and gateways serve through generateContent.
package google

import (
	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// The wire's names in model descriptions. Vertex AI speaks it as well: its base
// URL ends in /publishers/google, and its requests go with an API key, with the
// user's credentials for the cloud, or with an access token in a header of
// models.json.
const (
	API       = "google-generative-ai"
	VertexAPI = "google-vertex"
)

// New makes a provider on the connections of client.
func New(client *wire.Client) providers.Provider { return client.Provider(format{}) }

// format implements [wire.Format].
type format struct{}

func (format) Decoder(_ *providers.Request, out *wire.Parts) wire.Decoder {
	return &decoder{out: out}
}

// Explain implements [wire.Format].
func (format) Explain(_ *providers.Request, err *protocol.StreamError, body []byte) *protocol.StreamError {
	err.Message = wire.ObjectText(err.Status, body)
	return err
}
