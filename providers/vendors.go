package providers

import (
	"slices"
	"strings"
)

// Vendor is what is known about a provider besides its models.
type Vendor struct {
	ID     string
	Model  string   // the one to begin with
	Env    []string // variables with the key, the first that is set counts
	Header string   // where the key goes if not where the wire puts it
	Bearer bool     // the key goes into Authorization whatever the wire's habit
	Cloud  string   // whose credentials open it as well as a key, "" for none
}

// Vendors are the known providers in the order in which one is chosen when
// nobody says which.
var Vendors = []Vendor{
	{ID: "ant-ling", Model: "Ring-2.6-1T", Env: []string{"ANT_LING_API_KEY"}},
	{ID: "anthropic", Model: "claude-opus-4-8", Env: []string{"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, Cloud: CloudAnthropic},
	{ID: "openai", Model: "gpt-5.5", Env: []string{"OPENAI_API_KEY"}},
	{ID: "azure-openai-responses", Model: "gpt-5.4", Env: []string{"AZURE_OPENAI_API_KEY"}, Header: "Api-Key", Cloud: CloudEntra},
	{ID: "azure", Model: "gpt-5.4", Env: []string{"AZURE_OPENAI_API_KEY"}, Header: "Api-Key", Cloud: CloudEntra},
	{ID: "nvidia", Model: "nvidia/nemotron-3-super-120b-a12b", Env: []string{"NVIDIA_API_KEY"}},
	{ID: "deepseek", Model: "deepseek-v4-pro", Env: []string{"DEEPSEEK_API_KEY"}},
	{ID: "google", Model: "gemini-3.1-pro-preview", Env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	{ID: "google-vertex", Model: "gemini-3.1-pro-preview", Env: []string{"GOOGLE_CLOUD_API_KEY"}, Cloud: CloudGoogle},
	{ID: "github-copilot", Model: "gpt-5.4", Env: []string{"COPILOT_GITHUB_TOKEN"}, Bearer: true},
	{ID: "openrouter", Model: "moonshotai/kimi-k2.6", Env: []string{"OPENROUTER_API_KEY"}},
	{ID: "vercel-ai-gateway", Model: "zai/glm-5.1", Env: []string{"AI_GATEWAY_API_KEY"}},
	{ID: "xai", Model: "grok-4.7", Env: []string{"XAI_API_KEY"}},
	{ID: "groq", Model: "openai/gpt-oss-120b", Env: []string{"GROQ_API_KEY"}},
	{ID: "cerebras", Model: "gpt-oss-120b", Env: []string{"CEREBRAS_API_KEY"}},
	{ID: "zai", Model: "glm-5.3", Env: []string{"ZAI_API_KEY"}},
	{ID: "mistral", Model: "devstral-medium-latest", Env: []string{"MISTRAL_API_KEY"}},
	{ID: "minimax", Model: "MiniMax-M2.7", Env: []string{"MINIMAX_API_KEY"}},
	{ID: "minimax-cn", Model: "MiniMax-M2.7", Env: []string{"MINIMAX_CN_API_KEY"}},
	{ID: "moonshotai", Model: "kimi-k2.6", Env: []string{"MOONSHOT_API_KEY"}},
	{ID: "moonshotai-cn", Model: "kimi-k2.6", Env: []string{"MOONSHOT_API_KEY"}},
	{ID: "huggingface", Model: "moonshotai/Kimi-K2.6", Env: []string{"HF_TOKEN"}},
	{ID: "fireworks", Model: "accounts/fireworks/models/kimi-k2p6", Env: []string{"FIREWORKS_API_KEY"}},
	{ID: "together", Model: "moonshotai/Kimi-K2.6", Env: []string{"TOGETHER_API_KEY"}},
	{ID: "baseten", Model: "zai-org/GLM-5.2", Env: []string{"BASETEN_API_KEY"}},
	{ID: "opencode", Model: "kimi-k2.6", Env: []string{"OPENCODE_API_KEY"}},
	{ID: "opencode-go", Model: "kimi-k2.6", Env: []string{"OPENCODE_API_KEY"}},
	{ID: "kimi-coding", Model: "kimi-for-coding", Env: []string{"KIMI_API_KEY"}},
	{ID: "meta", Model: "muse-spark-1.3", Env: []string{"META_API_KEY"}},
	{ID: "cloudflare-workers-ai", Model: "@cf/moonshotai/kimi-k2.6", Env: []string{"CLOUDFLARE_API_KEY"}},
	{ID: "qwen-token-plan", Model: "qwen3.7-max", Env: []string{"QWEN_TOKEN_PLAN_API_KEY"}},
	{ID: "xiaomi", Model: "mimo-v2.5-pro", Env: []string{"XIAOMI_API_KEY"}},
	{ID: "llama.cpp", Env: []string{"LLAMA_API_KEY"}},
	// Last of all: who has credentials for AWS has them for other things.
	{ID: "amazon-bedrock", Model: "global.anthropic.claude-sonnet-4-5-20250929-v1:0", Env: []string{"AWS_BEARER_TOKEN_BEDROCK"}, Bearer: true, Cloud: CloudAWS},
	{ID: "scripted", Model: "demo", Env: []string{"TROUPE_SCRIPT"}}, // what stands there is not secret, but switches it on
}

// VendorOf is what is known about a provider, nothing but its name for others.
func VendorOf(provider string) Vendor {
	if i := slices.IndexFunc(Vendors, func(v Vendor) bool { return v.ID == provider }); i >= 0 {
		return Vendors[i]
	}
	return Vendor{ID: provider}
}

// Advice says how the vendor is given credentials: a sentence.
func (v Vendor) Advice() string {
	switch v.Cloud {
	case CloudAWS:
		return "Set AWS_PROFILE (made by aws configure or aws configure sso), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK, and AWS_REGION."
	case CloudGoogle:
		return "Set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION after gcloud auth application-default login (or GOOGLE_APPLICATION_CREDENTIALS), or set GOOGLE_CLOUD_API_KEY."
	case CloudEntra:
		return "Set AZURE_OPENAI_BASE_URL to the resource and AZURE_OPENAI_API_KEY, or sign in with az login."
	}
	for _, name := range v.Env {
		if strings.Contains(name, "KEY") || strings.Contains(name, "GITHUB_TOKEN") || name == "HF_TOKEN" {
			return "Set " + name + ", or add a key to auth.json or models.json."
		}
	}
	return "Set an API key environment variable, or add a key to auth.json or models.json."
}

// ScriptedAPI is the wire of models that need no server and no key.
const ScriptedAPI = "scripted"
