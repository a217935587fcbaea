package providers

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/e2e/harness"
)

// TestCredentialChoice checks which model a session begins with. A key goes before the identity of a cloud, and the
// name of a resource, a region or a project alone is no credential.
func TestCredentialChoice(t *testing.T) {
	const (
		gemini   = "GEMINI_API_KEY=k"
		resource = "AZURE_OPENAI_RESOURCE_NAME=mine"
	)
	azureApp := []string{"AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=c", "AZURE_CLIENT_SECRET=canary"}
	aws := []string{"AWS_ACCESS_KEY_ID=A", "AWS_SECRET_ACCESS_KEY=canary"}
	federation := []string{"ANTHROPIC_FEDERATION_RULE_ID=fdrl_1", "ANTHROPIC_ORGANIZATION_ID=o", "ANTHROPIC_IDENTITY_TOKEN_FILE=/t"}
	for _, c := range []struct {
		name  string
		env   []string
		args  []string
		login bool
		want  string // the provider; scripted stands for none
	}{
		{name: "a resource", env: []string{resource}, want: "scripted"},
		{name: "the address of a resource", env: []string{"AZURE_OPENAI_BASE_URL=https://mine.openai.azure.com"}, want: "scripted"},
		{name: "a region", env: []string{"AWS_REGION=eu-west-1"}, want: "scripted"},
		{name: "a project", env: []string{"GOOGLE_CLOUD_PROJECT=p", "GOOGLE_CLOUD_LOCATION=global"}, want: "scripted"},
		{name: "a resource and a key", env: []string{resource, gemini}, want: "google"},
		{name: "a region and a key", env: []string{"AWS_REGION=eu-west-1", gemini}, want: "google"},
		{name: "an application", env: append(azureApp, resource), want: "azure"},
		{name: "an application and a key", env: append(azureApp, resource, gemini), want: "google"},
		{name: "az login", env: []string{resource}, login: true, want: "azure"},
		{name: "az login and a key", env: []string{resource, gemini}, login: true, want: "google"},
		{name: "az login and a key of azure", env: []string{resource, gemini, "AZURE_OPENAI_API_KEY=k"}, login: true, want: "azure"},
		{name: "a federation and a key", env: append(federation, gemini), want: "google"},
		{name: "AWS and a key", env: append(aws, gemini), want: "google"},
		{name: "AWS and a key, by part of an id", env: append(aws, gemini, "OPENROUTER_API_KEY=k"), args: []string{"--model", "opus-5"}, want: "openrouter"},
		{name: "an application and a key, by id", env: append(azureApp, resource, "COPILOT_GITHUB_TOKEN=k"), args: []string{"--model", "gpt-5.6-sol"}, want: "github-copilot"},
		{name: "an application, by id", env: append(azureApp, resource), args: []string{"--model", "gpt-5.5"}, want: "azure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteModels(`{}`)
			p.Env = append(p.Env, c.env...)
			p.Env = append(p.Env, "AWS_EC2_METADATA_DISABLED=true")
			if c.login {
				p.WriteFile(filepath.Join(p.Home, ".azure", "azureProfile.json"), `{"subscriptions":[{"id":"s"}]}`)
			}
			d := p.StartRaw(append([]string{"--mode", "rpc", "--no-session"}, c.args...)...)
			state := d.OK(`{"type":"get_state"}`)
			assert.Equal(t, c.want, state.Get("model.provider").Str, state.Raw)
		})
	}
}
