package openai

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"troupe/providers"
)

// compat is how an endpoint departs from OpenAI's own. What models.json says
// goes before what is known about the endpoint; see dialects.
type compat struct {
	SupportsStore              bool   `json:"supportsStore"`         // takes store:false
	SupportsDeveloperRole      bool   `json:"supportsDeveloperRole"` // developer instead of system for models that think
	SupportsReasoningEffort    bool   `json:"supportsReasoningEffort"`
	SupportsUsageInStreaming   bool   `json:"supportsUsageInStreaming"` // takes stream_options
	SupportsFinishReason       bool   `json:"supportsFinishReason"`     // false: [DONE] alone ends an answer
	SupportsStrictMode         bool   `json:"supportsStrictMode"`       // tools take strict
	SupportsLongCacheRetention bool   `json:"supportsLongCacheRetention"`
	MaxTokensField             string `json:"maxTokensField"`

	RequiresToolResultName           bool `json:"requiresToolResultName"`
	RequiresAssistantAfterToolResult bool `json:"requiresAssistantAfterToolResult"`
	RequiresThinkingAsText           bool `json:"requiresThinkingAsText"`
	RequiresNonNullAssistantContent  bool `json:"requiresNonNullAssistantContent"`
	RequiresToolsWithToolHistory     bool `json:"requiresToolsWithToolHistory"`
	RequiresReasoningContent         bool `json:"requiresReasoningContentOnAssistantMessages"`

	ThinkingFormat           string                     `json:"thinkingFormat"` // see appendThinking
	ReasoningEffortMap       map[string]string          `json:"reasoningEffortMap"`
	ThinkingTokenBudgetField string                     `json:"thinkingTokenBudgetField"`
	ChatTemplateKwargs       map[string]json.RawMessage `json:"chatTemplateKwargs"`
	ChatTemplateArgs         map[string]json.RawMessage `json:"chatTemplateArgs"`
	ZaiToolStream            bool                       `json:"zaiToolStream"`

	OpenRouterRouting          json.RawMessage `json:"openRouterRouting"`
	VercelGatewayRouting       json.RawMessage `json:"vercelGatewayRouting"`
	CacheControlFormat         string          `json:"cacheControlFormat"` // "anthropic": mark what is to be cached
	SendSessionAffinityHeaders bool            `json:"sendSessionAffinityHeaders"`
	SessionAffinityFormat      string          `json:"sessionAffinityFormat"` // see providers.AffinityHeaders
	PromptCacheKeyMode         string          `json:"promptCacheKeyMode"`    // see providers.SendsCacheKey
	VLLMPriority               *int64          `json:"vllmPriority"`

	mergeUsers      bool // templates insist that user and assistant alternate
	mistralIDs      bool // ids of calls have exactly nine letters and digits
	promptCacheKey  bool // takes the session id as the key of its prompt cache
	routes          bool // is OpenRouter, which takes openRouterRouting; others may refuse it
	emptyIsOverflow bool // an error without a body means that the context is too large
}

// compatOf puts together what is known about the endpoint of a request.
func compatOf(req *providers.Request) *compat {
	c := &compat{
		SupportsStore: true, SupportsReasoningEffort: true,
		SupportsUsageInStreaming: true, SupportsFinishReason: true,
		MaxTokensField: "max_completion_tokens", ThinkingFormat: "openai",
	}
	host := ""
	if u, err := url.Parse(req.Model.BaseURL); err == nil {
		host = strings.ToLower(u.Hostname())
	}
	c.SupportsDeveloperRole = host == "api.openai.com" // others answer "Unexpected message role", as Groq does
	if providers.IsLocal(req.Model.BaseURL) {
		local(c)
	}
	for _, d := range dialects {
		if d.provider == req.Model.Provider || d.hosts(host) {
			d.apply(c)
			break
		}
	}
	if req.Model.Provider == "openrouter" && strings.HasPrefix(strings.TrimPrefix(req.Model.ID, "~"), "anthropic/") {
		c.CacheControlFormat = "anthropic"
	}
	req.Compat(c)
	return c
}

// local is what llama.cpp, Ollama, LM Studio and vLLM have in common: they hand
// the messages to the model's own template, which knows neither a developer
// nor two users in a row.
func local(c *compat) {
	plain(c)
	c.MaxTokensField, c.mergeUsers = "max_tokens", true
}

// plain is without what only OpenAI has.
func plain(c *compat) { c.SupportsStore = false }

// plainMax is plain with the older name of the answer's limit.
func plainMax(c *compat) {
	plain(c)
	c.MaxTokensField = "max_tokens"
}

// dialect is what is known about one service, by the provider's name or the
// host of the base URL.
type dialect struct {
	provider string
	domains  []string
	apply    func(*compat)
}

func (d *dialect) hosts(host string) bool {
	return slices.ContainsFunc(d.domains, func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) })
}

var dialects = []dialect{
	{"openai", []string{"api.openai.com", "openai.azure.com"}, func(c *compat) {
		c.promptCacheKey, c.SupportsLongCacheRetention = true, true
	}},
	{"cerebras", []string{"cerebras.ai"}, func(c *compat) {
		plain(c)
		c.emptyIsOverflow = true
	}},
	{"xai", []string{"x.ai"}, func(c *compat) {
		plain(c)
		c.SupportsReasoningEffort = false
	}},
	{"chutes", []string{"chutes.ai"}, plainMax},
	{"deepseek", []string{"deepseek.com"}, func(c *compat) {
		plainMax(c)
		c.ThinkingFormat, c.RequiresReasoningContent = "deepseek", true
	}},
	{"zai", []string{"z.ai", "bigmodel.cn"}, func(c *compat) {
		plainMax(c)
		c.SupportsReasoningEffort, c.ThinkingFormat = false, "zai"
	}},
	{"opencode", []string{"opencode.ai"}, plain},
	{"opencode-go", nil, plain},
	{"mistral", []string{"mistral.ai"}, func(c *compat) {
		plainMax(c)
		c.mistralIDs, c.mergeUsers, c.RequiresToolResultName = true, true, true
		c.SupportsReasoningEffort, c.ThinkingFormat = false, "mistral"
	}},
	{"moonshotai", []string{"moonshot.ai", "moonshot.cn"}, func(c *compat) {
		plainMax(c)
		c.SupportsReasoningEffort, c.ThinkingFormat = false, "deepseek"
	}},
	{"openrouter", []string{"openrouter.ai"}, func(c *compat) {
		c.ThinkingFormat, c.routes = "openrouter", true
		c.SendSessionAffinityHeaders, c.SessionAffinityFormat = true, "openrouter"
	}},
	{"together", []string{"together.ai", "together.xyz"}, func(c *compat) {
		plainMax(c)
		c.SupportsReasoningEffort = false
	}},
	{"nvidia", []string{"nvidia.com"}, func(c *compat) {
		plainMax(c)
		c.SupportsReasoningEffort = false
	}},
	{"baseten", []string{"baseten.co"}, plainMax},
	{"fireworks", []string{"fireworks.ai"}, plainMax},
	{"qwen", []string{"aliyuncs.com", "qwencloudapi.com", "qianwenaiapi.com"}, func(c *compat) {
		plainMax(c)
		c.SupportsReasoningEffort, c.ThinkingFormat = false, "qwen"
	}},
	{"minimax", []string{"minimax.io", "minimaxi.com"}, plainMax},
	{"cloudflare-workers-ai", []string{"cloudflare.com"}, plain},
	{"google", []string{"googleapis.com"}, plainMax},
	{"perplexity", []string{"perplexity.ai"}, plainMax},
}
