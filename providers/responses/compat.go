package responses

import (
	"net/url"
	"strings"

	"troupe/providers"
)

// compat is how an endpoint departs from OpenAI's own. What models.json says
// goes before what is known about the endpoint.
type compat struct {
	SupportsStore              bool              `json:"supportsStore"`              // takes store:false
	SupportsDeveloperRole      bool              `json:"supportsDeveloperRole"`      // developer instead of system for models that think
	RequiresDeveloperRole      bool              `json:"requiresDeveloperRole"`      // developer for all models
	SupportsMaxOutputTokens    bool              `json:"supportsMaxOutputTokens"`    // takes max_output_tokens
	SupportsReasoningEffort    bool              `json:"supportsReasoningEffort"`    // reasoning has an effort
	SupportsStrictMode         bool              `json:"supportsStrictMode"`         // tools take strict
	SupportsLongCacheRetention bool              `json:"supportsLongCacheRetention"` // prompts can be kept for a day
	SendSessionAffinityHeaders bool              `json:"sendSessionAffinityHeaders"`
	SessionAffinityFormat      string            `json:"sessionAffinityFormat"` // see providers.AffinityHeaders
	PromptCacheKeyMode         string            `json:"promptCacheKeyMode"`    // see providers.SendsCacheKey
	ReasoningEffortMap         map[string]string `json:"reasoningEffortMap"`
}

// compatOf puts together what is known about the endpoint of a request.
func compatOf(req *providers.Request) *compat {
	c := &compat{
		SupportsStore: true, SupportsMaxOutputTokens: true, SupportsDeveloperRole: true, SupportsReasoningEffort: true, SendSessionAffinityHeaders: true,
	}
	host := ""
	if u, err := url.Parse(req.Model.BaseURL); err == nil {
		host = strings.ToLower(u.Hostname())
	}
	switch {
	case host == "api.openai.com":
		c.SupportsStrictMode, c.SupportsLongCacheRetention = true, true
	case providers.IsAzure(req.Model.BaseURL):
		c.SupportsStrictMode = true
	case host == "openrouter.ai" || strings.HasSuffix(host, ".openrouter.ai"):
		c.SessionAffinityFormat = "openrouter"
	case providers.IsLocal(req.Model.BaseURL):
		c.SupportsDeveloperRole = false // local servers hand it to a template that knows only system
	}
	req.Compat(c)
	return c
}
