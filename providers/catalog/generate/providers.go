package main

import "regexp"

// endpoint is what troupe adds to the published data of a provider.
type endpoint struct {
	name     string              // as logins and lists show it
	address  func(string) string // changes the address of each model, nil for none
	headers  map[string]string   // that each request needs; those that pose as another program are dropped
	supports []string            // compat flags that are on unless the data switches them off
}

// leftOut are the providers of the data that troupe does not serve; see
// docs/decisions/0020-catalogue.md.
var leftOut = []string{"openai-codex", "radius", "typesafe"}

var endpoints = map[string]endpoint{
	"amazon-bedrock":                {name: "Amazon Bedrock", address: anyRegion},
	"ant-ling":                      {name: "Ant Ling"},
	"anthropic":                     {name: "Anthropic", supports: []string{"supportsEagerToolInputStreaming"}},
	"azure":                         {name: "Azure OpenAI", address: always("{AZURE_OPENAI_BASE_URL}")},
	"baseten":                       {name: "Baseten"},
	"cerebras":                      {name: "Cerebras"},
	"cloudflare-ai-gateway":         {name: "Cloudflare AI Gateway"},
	"cloudflare-workers-ai":         {name: "Cloudflare Workers AI"},
	"deepseek":                      {name: "DeepSeek"},
	"fireworks":                     {name: "Fireworks"},
	"github-copilot":                {name: "GitHub Copilot"},
	"google":                        {name: "Google Gemini"},
	"google-vertex":                 {name: "Google Vertex AI", address: always("https://aiplatform.googleapis.com/v1/publishers/google")},
	"groq":                          {name: "Groq"},
	"huggingface":                   {name: "Hugging Face"},
	"kimi-coding":                   {name: "Kimi Coding"},
	"meta":                          {name: "Meta"},
	"minimax":                       {name: "MiniMax"},
	"minimax-cn":                    {name: "MiniMax (China)"},
	"mistral":                       {name: "Mistral"},
	"moonshotai":                    {name: "Moonshot"},
	"moonshotai-cn":                 {name: "Moonshot (China)"},
	"nvidia":                        {name: "NVIDIA", headers: map[string]string{"NVCF-POLL-SECONDS": "3600"}},
	"openai":                        {name: "OpenAI"},
	"opencode":                      {name: "OpenCode Zen"},
	"opencode-go":                   {name: "OpenCode Go"},
	"openrouter":                    {name: "OpenRouter"},
	"qwen-token-plan":               {name: "Qwen Token Plan Team"},
	"qwen-token-plan-cn":            {name: "Qwen Token Plan Team (China)"},
	"qwen-token-plan-individual":    {name: "Qwen Token Plan Individual"},
	"qwen-token-plan-individual-cn": {name: "Qwen Token Plan Individual (China)"},
	"together":                      {name: "Together"},
	"vercel-ai-gateway":             {name: "Vercel AI Gateway"},
	"xai":                           {name: "xAI"},
	"xiaomi":                        {name: "Xiaomi MiMo"},
	"xiaomi-token-plan-ams":         {name: "Xiaomi MiMo Token Plan (Amsterdam)"},
	"xiaomi-token-plan-cn":          {name: "Xiaomi MiMo Token Plan (China)"},
	"xiaomi-token-plan-sgp":         {name: "Xiaomi MiMo Token Plan (Singapore)"},
	"zai":                           {name: "Z.ai"},
	"zai-coding-cn":                 {name: "Z.ai Coding Plan (China)"},
}

func always(address string) func(string) string { return func(string) string { return address } }

var region = regexp.MustCompile(`bedrock-runtime\.[a-z0-9-]+\.`)

// anyRegion puts the region of the environment where the data has one.
func anyRegion(address string) string {
	return region.ReplaceAllLiteralString(address, "bedrock-runtime.{AWS_REGION}.")
}
