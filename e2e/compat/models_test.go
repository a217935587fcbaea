package compat

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// leftOut are the providers of pi that troupe does not have, by decision 0020.
var leftOut = []string{"radius"}

// TestModelsOfPi checks that with a key for every provider, troupe and pi 1.6.0 offer the same models.
func TestModelsOfPi(t *testing.T) {
	t.Parallel()
	node, dist := harness.Pi160.Install(t)
	env := []string{
		"AZURE_OPENAI_BASE_URL=https://mine.openai.azure.com", "CLOUDFLARE_ACCOUNT_ID=a", "CLOUDFLARE_GATEWAY_ID=g",
		"GOOGLE_CLOUD_PROJECT=p", "GOOGLE_CLOUD_LOCATION=global", "AWS_EC2_METADATA_DISABLED=true", "PI_OFFLINE=1", "RADIUS_API_KEY=k",
	}
	keys, err := exec.Command(harness.Binary, "help", "keys").Output()
	require.NoError(t, err)
	named := regexp.MustCompile(`\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b`).FindAllString(string(keys), -1)
	require.Greater(t, len(named), 30)
	for _, name := range named {
		if !strings.HasPrefix(name, "TROUPE_") {
			env = append(env, name+"=k")
		}
	}
	offered := func(command ...string) (models []string) {
		p := harness.NewPlace(t)
		p.WriteModels(`{}`)
		cmd := exec.Command(command[0], append(command[1:], "--mode", "rpc", "--no-session")...)
		cmd.Dir, cmd.Env, cmd.Stdin = p.Work, append(p.Environ(), env...), strings.NewReader(`{"type":"get_available_models"}`+"\n")
		out, err := cmd.Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			if v := gjson.Parse(line); v.Get("command").Str == "get_available_models" {
				for _, m := range v.Get("data.models").Array() {
					if provider := m.Get("provider").Str; !slices.Contains(leftOut, provider) {
						models = append(models, provider+"/"+m.Get("id").Str)
					}
				}
			}
		}
		slices.Sort(models)
		return models
	}
	theirs := offered(node, filepath.Join(harness.Pi160.Program(dist), "cli.js"))
	assert.Greater(t, len(theirs), 1000)
	assert.Equal(t, theirs, offered(harness.Binary))
}
