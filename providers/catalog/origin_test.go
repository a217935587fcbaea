package catalog_test

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/providers"
	"troupe/providers/catalog"
)

// leftOut are providers of pi whose models are not offered; see
// docs/decisions/0020-catalogue.md, which must name each.
var leftOut = []string{"radius"}

// everyKey sets all variables of all providers.
func everyKey(name string) string {
	if name == "TROUPE_SCRIPT" {
		return ""
	}
	if strings.HasSuffix(name, "_BASE_URL") {
		return "https://mine.openai.azure.com"
	}
	return "x"
}

// TestAsPi: with all keys set the models on offer are those of pi, which testdata has from pi
// itself, started with all variables of its documentation and asked for get_available_models.
func TestAsPi(t *testing.T) {
	f, err := os.Open("testdata/pi-1.6.0.txt")
	require.NoError(t, err)
	defer f.Close()
	want := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if provider, _, _ := strings.Cut(lines.Text(), "/"); !slices.Contains(leftOut, provider) {
			want[lines.Text()] = true
		}
	}
	require.Greater(t, len(want), 1600)
	have := map[string]bool{}
	for _, m := range load(t, everyKey).Available() {
		assert.False(t, have[m.Provider+"/"+m.ID], "%s/%s twice", m.Provider, m.ID)
		have[m.Provider+"/"+m.ID] = true
	}
	for name := range want {
		assert.True(t, have[name], "%s is missing", name)
	}
	for name := range have {
		assert.True(t, want[name], "%s is not offered by pi", name)
	}
}

func TestLeftOut(t *testing.T) {
	record, err := os.ReadFile("../../docs/decisions/0020-catalogue.md")
	require.NoError(t, err)
	for _, provider := range leftOut {
		assert.Contains(t, string(record), "`"+provider+"`")
	}
}

// TestOrigin: each file names where its data is from. How old it is, is logged only: a tree that
// passed its tests passes them a year later.
func TestOrigin(t *testing.T) {
	files, err := fs.Glob(catalog.FS, "*.json")
	require.NoError(t, err)
	origins := map[string]int{}
	for _, file := range files {
		if file == "scripted.json" {
			continue
		}
		text, err := fs.ReadFile(catalog.FS, file)
		require.NoError(t, err)
		var head struct {
			Source struct{ Package, Version, License, Date string }
			Models []json.RawMessage
		}
		require.NoError(t, json.Unmarshal(text, &head), file)
		assert.Equal(t, "MIT", head.Source.License, file)
		assert.NotEmpty(t, head.Source.Version, file)
		made, err := time.Parse(time.DateOnly, head.Source.Date)
		require.NoError(t, err, file)
		origins[head.Source.Package+" "+head.Source.Version]++
		if file == "openai.json" {
			t.Logf("models of %s %s, from %s: %d days old", head.Source.Package, head.Source.Version, head.Source.Date, int(time.Since(made).Hours()/24))
		}
	}
	assert.Len(t, origins, 1, "all files are made at once: %v", origins)
}

// TestDefaults: the first model of each provider is the one that pi 1.6.0 chooses.
func TestDefaults(t *testing.T) {
	for variable, want := range map[string]string{
		"ANTHROPIC_API_KEY": "anthropic/claude-opus-5-5", "ANT_LING_API_KEY": "ant-ling/Ring-2.6-1T", "OPENAI_API_KEY": "openai/gpt-6.2-sol",
		"DEEPSEEK_API_KEY": "deepseek/deepseek-v4-pro", "NVIDIA_API_KEY": "nvidia/nvidia/nemotron-3.5-super-vl-120b-a12b", "GEMINI_API_KEY": "google/gemini-4-argon",
		"COPILOT_GITHUB_TOKEN": "github-copilot/gpt-6.1-sol", "MISTRAL_API_KEY": "mistral/devstral-medium-latest", "GROQ_API_KEY": "groq/openai/gpt-oss-120b",
		"CEREBRAS_API_KEY": "cerebras/gpt-oss-120b", "XAI_API_KEY": "xai/grok-4.7", "OPENROUTER_API_KEY": "openrouter/moonshotai/kimi-k2.7-code",
		"AI_GATEWAY_API_KEY": "vercel-ai-gateway/zai/glm-5.3", "ZAI_API_KEY": "zai/glm-5.3", "ZAI_CODING_CN_API_KEY": "zai-coding-cn/glm-5.3",
		"OPENCODE_API_KEY": "opencode/kimi-k2.7-code", "HF_TOKEN": "huggingface/moonshotai/Kimi-K2.7-Code", "FIREWORKS_API_KEY": "fireworks/accounts/fireworks/models/kimi-k3",
		"TOGETHER_API_KEY": "together/moonshotai/Kimi-K3", "BASETEN_API_KEY": "baseten/zai-org/GLM-5.3", "KIMI_API_KEY": "kimi-coding/kimi-for-coding",
		"META_API_KEY": "meta/muse-spark-1.3", "MINIMAX_API_KEY": "minimax/MiniMax-M3", "MINIMAX_CN_API_KEY": "minimax-cn/MiniMax-M3", "MOONSHOT_API_KEY": "moonshotai/kimi-k2.7-code",
		"QWEN_TOKEN_PLAN_TEAM_API_KEY": "qwen-token-plan/qwen3.8-max", "QWEN_TOKEN_PLAN_TEAM_CN_API_KEY": "qwen-token-plan-cn/qwen3.8-max",
		"QWEN_TOKEN_PLAN_INDIVIDUAL_API_KEY": "qwen-token-plan-individual/qwen3.8-max", "QWEN_TOKEN_PLAN_INDIVIDUAL_CN_API_KEY": "qwen-token-plan-individual-cn/qwen3.8-max",
		"QWEN_TOKEN_PLAN_API_KEY": "qwen-token-plan/qwen3.8-max", "QWEN_TOKEN_PLAN_CN_API_KEY": "qwen-token-plan-cn/qwen3.8-max", "XIAOMI_API_KEY": "xiaomi/mimo-v2.6-pro",
		"XIAOMI_TOKEN_PLAN_CN_API_KEY": "xiaomi-token-plan-cn/mimo-v2.6-pro", "XIAOMI_TOKEN_PLAN_AMS_API_KEY": "xiaomi-token-plan-ams/mimo-v2.6-pro",
		"XIAOMI_TOKEN_PLAN_SGP_API_KEY": "xiaomi-token-plan-sgp/mimo-v2.6-pro", "AZURE_OPENAI_API_KEY": "azure/gpt-6.2-sol",
		"AWS_BEARER_TOKEN_BEDROCK": "amazon-bedrock/us.anthropic.claude-opus-5-5", "CLOUDFLARE_API_KEY": "cloudflare-workers-ai/@cf/moonshotai/kimi-k2.7-code",
		"GOOGLE_CLOUD_API_KEY": "google-vertex/gemini-4-argon",
	} {
		c := load(t, func(name string) string {
			if name == variable || strings.HasPrefix(name, "AZURE_OPENAI_BASE") || strings.HasPrefix(name, "CLOUDFLARE_") && strings.HasSuffix(name, "_ID") {
				return everyKey(name)
			}
			return ""
		})
		choice := providers.ChooseModel(c, providers.Wishes{})
		if assert.NotNil(t, choice.Model, variable) {
			assert.Equal(t, want, choice.Model.Provider+"/"+choice.Model.ID, variable)
		}
	}
}
