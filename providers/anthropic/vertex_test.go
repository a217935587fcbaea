package anthropic

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// TestVertex: Vertex AI has the model in the path and the version in the body.
func TestVertex(t *testing.T) {
	model := fixture{}.Model("https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic")
	model.ID = "claude-haiku-4-5@20251001"
	model.ProviderConfig.Compat = []byte(`{"vertexRequests":true}`)
	call, err := format{}.Encode(&providers.Request{Model: model, Messages: []protocol.Message{&protocol.UserMessage{Content: protocol.TextContent("hi")}}})
	require.NoError(t, err)
	assert.Equal(t, model.BaseURL+"/models/claude-haiku-4-5@20251001:streamRawPredict", call.URL)
	body := gjson.ParseBytes(call.Body)
	assert.True(t, gjson.ValidBytes(call.Body))
	assert.Equal(t, "vertex-2023-10-16", body.Get("anthropic_version").Str)
	assert.False(t, body.Get("model").Exists())
	assert.True(t, body.Get("stream").Bool())
	assert.Empty(t, call.Header.Get("Anthropic-Version"))
}
