package providers

import (
	"cmp"
	"slices"
	"strings"
)

// Vendor is what is known about a provider besides its models.
type Vendor struct {
	ID     string
	Model  string   // the one to begin with
	Env    []string // variables with the key, the first that is set counts
	Header string   // where the key goes if not where the wire puts it
	Bearer bool     // the key is a bearer token: in Header, or else in Authorization whatever the wire's habit
	Cloud  string   // whose credentials open it as well as a key, "" for none
	Now    string   // the present id of the same provider, "" unless ID is an earlier one
}

// File is the name of the provider's file in the built-in catalogue.
func (v Vendor) File() string { return cmp.Or(v.Now, v.ID) + ".json" }

// Vendors are the known providers in the order in which one is chosen when
// nobody says which.
var Vendors = []Vendor{
	{ID: "ant-ling", Model: "Ring-2.6-1T", Env: []string{"ANT_LING_API_KEY"}},
	{ID: "anthropic", Model: "claude-opus-5-5", Env: []string{"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, Cloud: CloudAnthropic},
	{ID: "openai", Model: "gpt-6.2-sol", Env: []string{"OPENAI_API_KEY"}},
	{ID: "azure", Model: "gpt-6.2-sol", Env: []string{"AZURE_OPENAI_API_KEY"}, Header: "Api-Key", Cloud: CloudEntra},
	{ID: "azure-openai-responses", Now: "azure", Model: "gpt-6.2-sol", Env: []string{"AZURE_OPENAI_API_KEY"}, Header: "Api-Key", Cloud: CloudEntra},
	{ID: "nvidia", Model: "nvidia/nemotron-3.5-super-vl-120b-a12b", Env: []string{"NVIDIA_API_KEY"}},
	{ID: "deepseek", Model: "deepseek-v4-pro", Env: []string{"DEEPSEEK_API_KEY"}},
	{ID: "google", Model: "gemini-4-argon", Env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	{ID: "google-vertex", Model: "gemini-4-argon", Env: []string{"GOOGLE_CLOUD_API_KEY"}, Cloud: CloudGoogle},
	{ID: "github-copilot", Model: "gpt-6.1-sol", Env: []string{"COPILOT_GITHUB_TOKEN"}, Bearer: true},
	{ID: "openrouter", Model: "moonshotai/kimi-k2.7-code", Env: []string{"OPENROUTER_API_KEY"}},
	{ID: "vercel-ai-gateway", Model: "zai/glm-5.3", Env: []string{"AI_GATEWAY_API_KEY"}},
	{ID: "xai", Model: "grok-4.7", Env: []string{"XAI_API_KEY"}},
	{ID: "groq", Model: "openai/gpt-oss-120b", Env: []string{"GROQ_API_KEY"}},
	{ID: "cerebras", Model: "gpt-oss-120b", Env: []string{"CEREBRAS_API_KEY"}},
	{ID: "zai", Model: "glm-5.3", Env: []string{"ZAI_API_KEY"}},
	{ID: "zai-coding-cn", Model: "glm-5.3", Env: []string{"ZAI_CODING_CN_API_KEY"}},
	{ID: "mistral", Model: "devstral-medium-latest", Env: []string{"MISTRAL_API_KEY"}},
	{ID: "minimax", Model: "MiniMax-M3", Env: []string{"MINIMAX_API_KEY"}},
	{ID: "minimax-cn", Model: "MiniMax-M3", Env: []string{"MINIMAX_CN_API_KEY"}},
	{ID: "moonshotai", Model: "kimi-k2.7-code", Env: []string{"MOONSHOT_API_KEY"}},
	{ID: "moonshotai-cn", Model: "kimi-k2.7-code", Env: []string{"MOONSHOT_API_KEY"}},
	{ID: "huggingface", Model: "moonshotai/Kimi-K2.7-Code", Env: []string{"HF_TOKEN"}},
	{ID: "fireworks", Model: "accounts/fireworks/models/kimi-k3", Env: []string{"FIREWORKS_API_KEY"}},
	{ID: "together", Model: "moonshotai/Kimi-K3", Env: []string{"TOGETHER_API_KEY"}},
	{ID: "baseten", Model: "zai-org/GLM-5.3", Env: []string{"BASETEN_API_KEY"}},
	{ID: "opencode", Model: "kimi-k2.7-code", Env: []string{"OPENCODE_API_KEY"}},
	{ID: "opencode-go", Model: "kimi-k3.1-pro", Env: []string{"OPENCODE_API_KEY"}},
	{ID: "kimi-coding", Model: "kimi-for-coding", Env: []string{"KIMI_API_KEY"}},
	{ID: "meta", Model: "muse-spark-1.3", Env: []string{"META_API_KEY"}},
	{ID: "cloudflare-workers-ai", Model: "@cf/moonshotai/kimi-k2.7-code", Env: []string{"CLOUDFLARE_API_KEY"}},
	{ID: "cloudflare-ai-gateway", Model: "workers-ai/@cf/moonshotai/kimi-k2.7-code", Env: []string{"CLOUDFLARE_API_KEY"}, Header: "Cf-Aig-Authorization", Bearer: true},
	{ID: "qwen-token-plan", Model: "qwen3.8-max", Env: []string{"QWEN_TOKEN_PLAN_TEAM_API_KEY", "QWEN_TOKEN_PLAN_API_KEY"}},
	{ID: "qwen-token-plan-cn", Model: "qwen3.8-max", Env: []string{"QWEN_TOKEN_PLAN_TEAM_CN_API_KEY", "QWEN_TOKEN_PLAN_CN_API_KEY"}},
	{ID: "qwen-token-plan-individual", Model: "qwen3.8-max", Env: []string{"QWEN_TOKEN_PLAN_INDIVIDUAL_API_KEY", "QWEN_TOKEN_PLAN_API_KEY"}},
	{ID: "qwen-token-plan-individual-cn", Model: "qwen3.8-max", Env: []string{"QWEN_TOKEN_PLAN_INDIVIDUAL_CN_API_KEY", "QWEN_TOKEN_PLAN_CN_API_KEY"}},
	{ID: "xiaomi", Model: "mimo-v2.6-pro", Env: []string{"XIAOMI_API_KEY"}},
	{ID: "xiaomi-token-plan-cn", Model: "mimo-v2.6-pro", Env: []string{"XIAOMI_TOKEN_PLAN_CN_API_KEY"}},
	{ID: "xiaomi-token-plan-ams", Model: "mimo-v2.6-pro", Env: []string{"XIAOMI_TOKEN_PLAN_AMS_API_KEY"}},
	{ID: "xiaomi-token-plan-sgp", Model: "mimo-v2.6-pro", Env: []string{"XIAOMI_TOKEN_PLAN_SGP_API_KEY"}},
	{ID: "llama.cpp", Env: []string{"LLAMA_API_KEY"}},
	// Last of all: who has credentials for AWS has them for other things.
	{ID: "amazon-bedrock", Model: "us.anthropic.claude-opus-5-5", Env: []string{"AWS_BEARER_TOKEN_BEDROCK"}, Bearer: true, Cloud: CloudAWS},
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
