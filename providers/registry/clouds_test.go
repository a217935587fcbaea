package registry

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// fakeCloud has credentials where FAKE_PROFILE names some.
type fakeCloud struct {
	name    string
	forgets int
}

func (c *fakeCloud) Found(env func(string) string) bool { return env("FAKE_PROFILE") != "" }

func (c *fakeCloud) Address(base string, keyed bool, _ func(string) string) (string, error) {
	if keyed {
		return base, nil
	}
	return base + "/placed", nil
}

func (c *fakeCloud) Signer(env func(string) string) providers.Signer {
	return fakeSigner{c, env("FAKE_PROFILE")}
}

type fakeSigner struct {
	cloud   *fakeCloud
	profile string
}

func (s fakeSigner) Sign(context.Context, string, []byte) (map[string]string, error) { return nil, nil }
func (s fakeSigner) Account() string                                                 { return s.cloud.name + " " + s.profile }
func (s fakeSigner) Forget()                                                         { s.cloud.forgets++ }

// cloudHouse has three clouds.
func cloudHouse(t *testing.T, env ...string) (*house, *fakeCloud) {
	h := newHouse(t, env...)
	aws := &fakeCloud{name: "aws"}
	h.config.Clouds = map[string]providers.Cloud{"aws": aws, "google": &fakeCloud{name: "google"}, "entra": &fakeCloud{name: "entra"}}
	return h, aws
}

func TestClouds_vendor(t *testing.T) {
	h, _ := cloudHouse(t, "AZURE_OPENAI_BASE_URL", "https://x.openai.azure.com")
	assert.False(t, h.catalog().HasKey("azure-openai-responses"))
	_, failed := h.ask("azure-openai-responses", "gpt-5.4")
	require.NotNil(t, failed)
	assert.Contains(t, failed.Message, `"auth": "entra"`)

	h, _ = cloudHouse(t, "AZURE_OPENAI_BASE_URL", "https://x.openai.azure.com", "FAKE_PROFILE", "me")
	assert.True(t, h.catalog().HasKey("azure-openai-responses"))
	req, failed := h.ask("azure-openai-responses", "gpt-5.4")
	require.Nil(t, failed)
	require.NotNil(t, req.Credentials.Signer)
	assert.Equal(t, "entra me", req.Credentials.Signer.Account())
	assert.Empty(t, req.Credentials.Key)

	h, _ = cloudHouse(t, "AZURE_OPENAI_BASE_URL", "https://x.openai.azure.com", "FAKE_PROFILE", "me", "AZURE_OPENAI_API_KEY", "k")
	req, failed = h.ask("azure-openai-responses", "gpt-5.4")
	require.Nil(t, failed)
	assert.Nil(t, req.Credentials.Signer, "a key goes first")
	assert.Equal(t, map[string]string{"Api-Key": "k"}, req.Credentials.Headers)
	assert.NotContains(t, req.Model.BaseURL, "placed")
}

const bedrockModels = `{"providers": {"mine": {"baseUrl": "https://bedrock.example", "api": "anthropic-messages", "auth": "aws", "models": [{"id": "claude"}]}}}`

func TestClouds_modelsFile(t *testing.T) {
	h, aws := cloudHouse(t)
	h.write("models.json", bedrockModels)
	assert.True(t, h.catalog().HasKey("mine"), "auth says where credentials are")
	h.recorder.err = protocol.ErrorAuth.Errorf("nobody has logged in")
	_, failed := h.ask("mine", "claude")
	require.NotNil(t, failed)
	assert.Len(t, h.recorder.reqs, 1, "there is nothing to ask with")
	refused := protocol.ErrorAuth.Errorf("expired")
	refused.Status = 401
	h.recorder.err = refused
	_, failed = h.ask("mine", "claude")
	require.NotNil(t, failed)
	assert.Equal(t, 2, aws.forgets)
	assert.Len(t, h.recorder.reqs, 3, "once more with others, and no more")
	assert.Equal(t, "https://bedrock.example/placed", h.recorder.last().Model.BaseURL)

	h.recorder.err = nil
	h.write("auth.json", `{"mine": {"type": "api_key", "env": {"FAKE_PROFILE": "of-entry"}}}`)
	req, failed := h.ask("mine", "claude")
	require.Nil(t, failed)
	assert.Equal(t, "aws of-entry", req.Credentials.Signer.Account())
	secrets := h.Secrets(func(string) bool { return false })
	assert.True(t, secrets["AWS_SECRET_ACCESS_KEY"])
	assert.False(t, secrets["AWS_PROFILE"])
}

func TestClouds_mistakes(t *testing.T) {
	for entry, says := range map[string]string{
		`"auth": "ibm"`:                     `auth "ibm" is none of aws, google, entra, anthropic`,
		`"auth": "aws", "apiKey": "k"`:      "leave out apiKey",
		`"auth": "aws", "authHeader": true`: "leave out apiKey and authHeader",
	} {
		h, _ := cloudHouse(t)
		h.write("models.json", `{"providers": {"mine": {"baseUrl": "https://x.example", "api": "wire", `+entry+`, "models": [{"id": "m"}]}}}`)
		_, err := h.Catalog()
		assert.ErrorContains(t, err, says)
	}
}

// TestClouds_vertex: what Vertex AI serves of Anthropic has a form of its own.
func TestClouds_vertex(t *testing.T) {
	h, _ := cloudHouse(t)
	h.write("models.json", `{"providers": {"vertex": {"baseUrl": "https://aiplatform.googleapis.com/v1/publishers/anthropic", "api": "anthropic-messages",
		"auth": "google", "compat": {"supportsCacheControlOnTools": false}, "models": [{"id": "claude-x"}]}}}`)
	req, failed := h.ask("vertex", "claude-x")
	require.Nil(t, failed)
	assert.JSONEq(t, `{"vertexRequests":true,"supportsCacheControlOnTools":false}`, string(req.Model.ProviderConfig.Compat))
}
