package providers

import (
	be "encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// cloudPlace returns a place with AWS credentials and no other cloud settings.
func cloudPlace(t *testing.T) *harness.Place {
	p := harness.NewPlace(t)
	p.Env = append(p.Env, "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=canary-of-the-secret", "AWS_REGION=eu-west-1", "AWS_EC2_METADATA_DISABLED=true")
	return p
}

// TestSignedMessages checks the Messages API with AWS credentials instead of a key.
func TestSignedMessages(t *testing.T) {
	t.Parallel()
	p := cloudPlace(t)
	p.WriteModels(`{"providers":{"mine":{"auth":"aws","api":"anthropic-messages","baseUrl":"` + p.Model.Server.URL + `/anthropic","models":[{"id":"us.anthropic.claude-x"}]}}}`)
	d := p.Start("--model", "mine/us.anthropic.claude-x")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"env"}`), harness.Text("signed"))
	d.OK(`{"type":"prompt","message":"go"}`)
	shown := d.Event("tool_execution_end").Get("result.content.0.text").Str
	d.Event("agent_settled")
	assert.Equal(t, "signed", d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	for i := range 2 {
		r := p.Model.Request(i)
		assert.Contains(t, r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
		assert.Contains(t, r.Header.Get("Authorization"), "/eu-west-1/bedrock/aws4_request")
		assert.NotEmpty(t, r.Header.Get("X-Amz-Content-Sha256"))
		assert.Empty(t, r.Header.Get("X-Api-Key"))
	}
	assert.NotContains(t, shown, "canary-of-the-secret", "tools do not see what the model needs")
	path, _ := d.SessionFile()
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NotContains(t, string(kept)+strings.Join(d.Lines(), "\n")+d.Stderr(), "canary-of-the-secret")
}

// TestCredentialProcess checks that a program that has credentials reads no commands of the client.
func TestCredentialProcess(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	file := filepath.Join(p.Root, "aws-config")
	p.WriteFile(file, "[default]\nregion = eu-west-1\n"+
		`credential_process = echo "{\"Version\":1,\"AccessKeyId\":\"AKID$(cat)\",\"SecretAccessKey\":\"s\"}"`+"\n")
	p.Env = append(p.Env, "AWS_CONFIG_FILE="+file, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true")
	p.WriteModels(`{"providers":{"mine":{"auth":"aws","api":"anthropic-messages","baseUrl":"` + p.Model.Server.URL + `/anthropic","models":[{"id":"us.anthropic.claude-x"}]}}}`)
	d := p.Start("--model", "mine/us.anthropic.claude-x")
	p.Model.Enqueue(harness.Text("signed"))
	d.Prompt("go")
	assert.Equal(t, "signed", d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	assert.Contains(t, p.Model.Request(0).Header.Get("Authorization"), "Credential=AKID/")
}

// TestFederation checks Anthropic's workload identity federation. The machine's identity token is
// exchanged for an access token for the requests, also through a gateway.
func TestFederation(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	file := filepath.Join(p.Root, "identity")
	p.WriteFile(file, "identity-canary")
	exchanged := make(chan string, 10)
	messages := p.Model.Server.Config.Handler
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/oauth/token" {
			messages.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		exchanged <- string(body)
		_, _ = io.WriteString(w, `{"access_token":"sk-ant-oat01-canary","token_type":"Bearer","expires_in":600}`)
	}))
	defer gateway.Close()
	p.Env = append(p.Env, "ANTHROPIC_FEDERATION_RULE_ID=fdrl_1", "ANTHROPIC_ORGANIZATION_ID=org-1", "ANTHROPIC_IDENTITY_TOKEN_FILE="+file)
	p.WriteModels(`{"providers":{"anthropic":{"baseUrl":"` + gateway.URL + `"}}}`)
	d := p.StartRaw("--mode", "rpc", "--model", "anthropic/claude-haiku-4-5")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"true"}`), harness.Text("signed"))
	d.Prompt("go")
	assert.Equal(t, "signed", d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	for i := range 2 {
		r := p.Model.Request(i)
		assert.Equal(t, "Bearer sk-ant-oat01-canary", r.Header.Get("Authorization"))
		assert.Contains(t, strings.Split(r.Header.Get("Anthropic-Beta"), ","), "oauth-2025-04-20")
		assert.Empty(t, r.Header.Get("X-Api-Key"))
	}
	assert.Contains(t, <-exchanged, `"assertion":"identity-canary"`)
	assert.Empty(t, exchanged, "once")
	auth := d.OK(`{"type":"get_auth","provider":"anthropic"}`).Get("providers.0")
	assert.Equal(t, "ready ambient", auth.Get("state").Str+" "+auth.Get("source").Str)
	assert.NotContains(t, strings.Join(d.Lines(), "\n")+d.Stderr(), "canary")
}

// frame encodes one event of AWS's event stream encoding.
func frame(kind, payload string) []byte {
	var headers []byte
	for _, h := range [][2]string{{":message-type", "event"}, {":event-type", kind}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = append(be.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1]))), h[1]...)
	}
	b := be.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = be.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = be.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return be.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// TestConverse checks a catalogue model on Bedrock with an AWS profile.
func TestConverse(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		paths <- r.URL.EscapedPath() + " " + r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		for _, f := range [][]byte{
			frame("messageStart", `{"role":"assistant"}`), frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hello from Bedrock"}}`),
			frame("contentBlockStop", `{"contentBlockIndex":0}`), frame("messageStop", `{"stopReason":"end_turn"}`),
			frame("metadata", `{"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}`),
		} {
			_, _ = w.Write(f)
		}
	}))
	defer server.Close()
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.Home, ".aws", "credentials"), "[work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = canary\n")
	p.Env = append(p.Env, "AWS_PROFILE=work")
	p.WriteModels(`{"providers":{"amazon-bedrock":{"baseUrl":"` + server.URL + `"}}}`)
	d := p.Start("--model", "amazon-bedrock/us.amazon.nova-lite-v1:0")
	d.Prompt("hi")
	assert.Equal(t, "Hello from Bedrock", d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	asked := <-paths
	assert.Contains(t, asked, "/model/us.amazon.nova-lite-v1%3A0/converse-stream ")
	assert.Contains(t, asked, "Credential=AKIDWORK/")
}

// TestCloudHosts checks that cloud credentials are not sent to other hosts.
func TestCloudHosts(t *testing.T) {
	t.Parallel()
	p := cloudPlace(t)
	p.WriteModels(`{"providers":{"mine":{"auth":"aws","api":"anthropic-messages","baseUrl":"https://models.invalid","models":[{"id":"m"}]}}}`)
	d := p.Start("--model", "mine/m")
	d.OK(`{"type":"prompt","message":"go"}`)
	end := d.Event("agent_end")
	assert.Contains(t, end.Raw, "auth_host_refused")
}
