package responses

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// TestPlan: refusals that are about a ChatGPT plan are not tried again, and say what to do.
func TestPlan(t *testing.T) {
	for code, want := range map[string]struct {
		status int
		kind   protocol.ErrorKind
		text   string
	}{
		"subscription_sharing_usage_limit_exceeded": {429, protocol.ErrorQuota, "https://chatgpt.com/settings/usage"},
		"subscription_sharing_user_not_eligible":    {403, protocol.ErrorInvalid, "needs Plus or Pro"},
		"subscription_sharing_route_not_supported":  {403, protocol.ErrorInvalid, "does not cover this model"},
		"invalid_api_key":                           {401, protocol.ErrorAuth, "no"},
	} {
		body := []byte(`{"error": {"code": "` + code + `", "message": "no"}}`)
		req := &providers.Request{Model: &protocol.Model{Provider: "openai", API: API}}
		for _, req.FullErrors = range []bool{false, true} {
			got := format{}.Explain(req, wire.Classify(want.status, nil, body), body)
			assert.Equal(t, want.kind, got.Kind, code)
			assert.Contains(t, got.Message, want.text)
		}
		if want.kind == protocol.ErrorAuth {
			continue
		}
		event := `{"type": "response.failed", "response": {"status": "failed", "error": {"code": "` + code + `", "message": "no"}}}`
		failed, _ := (&decoder{}).failure(gjson.Parse(event)).(*protocol.StreamError)
		assert.Equal(t, want.kind, failed.Kind, code)
		assert.Contains(t, failed.Message, want.text)
	}
}

// TestPlanRequest: a request that goes with a plan leaves out what is not allowed there.
func TestPlanRequest(t *testing.T) {
	model := &protocol.Model{ID: "gpt", Provider: "openai", API: API, BaseURL: "https://api.openai.com/v1", MaxTokens: 1000, ContextWindow: 10000,
		ProviderConfig: &protocol.ProviderConfig{Compat: json.RawMessage(`{"supportsMaxOutputTokens":false,"supportsLongCacheRetention":false,"requiresDeveloperRole":true}`)}}
	call, err := format{}.Encode(&providers.Request{Model: model, System: "be good", Messages: []protocol.Message{user("hi")}, Cache: providers.CacheLong, SessionID: "s"})
	assert.NoError(t, err)
	body := gjson.ParseBytes(call.Body)
	for _, name := range []string{"max_output_tokens", "temperature", "top_p", "truncation", "metadata", "user", "prompt_cache_retention", "previous_response_id"} {
		assert.False(t, body.Get(name).Exists(), name)
	}
	assert.Equal(t, "developer", body.Get("input.0.role").Str)
	assert.False(t, body.Get("store").Bool())
	assert.True(t, body.Get("stream").Bool())
}
