package providers

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// vendor is what is known about a provider besides its models.
type vendor struct {
	id     string
	model  string   // the one to begin with
	env    []string // variables with the key, the first that is set counts
	header string   // where the key goes if not where the wire puts it
	bearer bool     // the key goes into Authorization whatever the wire's habit
}

// vendors are the known providers in the order in which one is chosen when
// nobody says which.
var vendors = []vendor{
	{id: "ant-ling", model: "Ring-2.6-1T", env: []string{"ANT_LING_API_KEY"}},
	{id: "anthropic", model: "claude-opus-4-8", env: []string{"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}},
	{id: "openai", model: "gpt-5.5", env: []string{"OPENAI_API_KEY"}},
	{id: "azure-openai-responses", model: "gpt-5.4", env: []string{"AZURE_OPENAI_API_KEY"}, header: "Api-Key"},
	{id: "azure", model: "gpt-5.4", env: []string{"AZURE_OPENAI_API_KEY"}, header: "Api-Key"},
	{id: "nvidia", model: "nvidia/nemotron-3-super-120b-a12b", env: []string{"NVIDIA_API_KEY"}},
	{id: "deepseek", model: "deepseek-v4-pro", env: []string{"DEEPSEEK_API_KEY"}},
	{id: "google", model: "gemini-3.1-pro-preview", env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	{id: "google-vertex", model: "gemini-3.1-pro-preview", env: []string{"GOOGLE_CLOUD_API_KEY"}},
	{id: "github-copilot", model: "gpt-5.4", env: []string{"COPILOT_GITHUB_TOKEN"}, bearer: true},
	{id: "openrouter", model: "moonshotai/kimi-k2.6", env: []string{"OPENROUTER_API_KEY"}},
	{id: "vercel-ai-gateway", model: "zai/glm-5.1", env: []string{"AI_GATEWAY_API_KEY"}},
	{id: "xai", model: "grok-4.7", env: []string{"XAI_API_KEY"}},
	{id: "groq", model: "openai/gpt-oss-120b", env: []string{"GROQ_API_KEY"}},
	{id: "cerebras", model: "gpt-oss-120b", env: []string{"CEREBRAS_API_KEY"}},
	{id: "zai", model: "glm-5.3", env: []string{"ZAI_API_KEY"}},
	{id: "mistral", model: "devstral-medium-latest", env: []string{"MISTRAL_API_KEY"}},
	{id: "minimax", model: "MiniMax-M2.7", env: []string{"MINIMAX_API_KEY"}},
	{id: "minimax-cn", model: "MiniMax-M2.7", env: []string{"MINIMAX_CN_API_KEY"}},
	{id: "moonshotai", model: "kimi-k2.6", env: []string{"MOONSHOT_API_KEY"}},
	{id: "moonshotai-cn", model: "kimi-k2.6", env: []string{"MOONSHOT_API_KEY"}},
	{id: "huggingface", model: "moonshotai/Kimi-K2.6", env: []string{"HF_TOKEN"}},
	{id: "fireworks", model: "accounts/fireworks/models/kimi-k2p6", env: []string{"FIREWORKS_API_KEY"}},
	{id: "together", model: "moonshotai/Kimi-K2.6", env: []string{"TOGETHER_API_KEY"}},
	{id: "baseten", model: "zai-org/GLM-5.2", env: []string{"BASETEN_API_KEY"}},
	{id: "opencode", model: "kimi-k2.6", env: []string{"OPENCODE_API_KEY"}},
	{id: "opencode-go", model: "kimi-k2.6", env: []string{"OPENCODE_API_KEY"}},
	{id: "kimi-coding", model: "kimi-for-coding", env: []string{"KIMI_API_KEY"}},
	{id: "meta", model: "muse-spark-1.3", env: []string{"META_API_KEY"}},
	{id: "cloudflare-workers-ai", model: "@cf/moonshotai/kimi-k2.6", env: []string{"CLOUDFLARE_API_KEY"}},
	{id: "qwen-token-plan", model: "qwen3.7-max", env: []string{"QWEN_TOKEN_PLAN_API_KEY"}},
	{id: "xiaomi", model: "mimo-v2.5-pro", env: []string{"XIAOMI_API_KEY"}},
	{id: "scripted", model: "demo", env: []string{"TROUPE_SCRIPT"}}, // what stands there is not secret, but switches it on
}

// bearerVariables hold tokens of providers whose keys go elsewhere.
var bearerVariables = []string{"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"}

// vendorOf is what is known about a provider, nothing but its name for others.
func vendorOf(provider string) vendor {
	if i := slices.IndexFunc(vendors, func(v vendor) bool { return v.id == provider }); i >= 0 {
		return vendors[i]
	}
	return vendor{id: provider}
}

// apiScripted is the wire of models that need no server and no key.
const apiScripted = "scripted"

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[A-Z][A-Z0-9_]*\}`) })

// fillURL puts variables into a base URL. missing is the first that is not set.
func fillURL(baseURL string, env func(string) string) (filled, missing string) {
	if !strings.Contains(baseURL, "{") {
		return baseURL, ""
	}
	filled = placeholder().ReplaceAllStringFunc(baseURL, func(match string) string {
		name := strings.Trim(match, "{}")
		value := env(name)
		if value == "" && name == "AZURE_OPENAI_BASE_URL" {
			if resource := env("AZURE_OPENAI_RESOURCE_NAME"); resource != "" {
				value = "https://" + resource + ".openai.azure.com"
			}
		}
		if value == "" && missing == "" {
			missing = name
		}
		return value
	})
	return filled, missing
}
