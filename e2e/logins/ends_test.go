package logins

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestLoginRevoked checks a hundred sessions whose login is revoked during their runs. There is one
// token refresh. Each session reports one clear error and sends no more requests, and after a new
// login all of them work.
func TestLoginRevoked(t *testing.T) {
	t.Parallel()
	const n = 100
	p := harness.NewPlace(t)
	v := newVendors(p)
	v.turns = 3
	var all sync.WaitGroup
	all.Add(n)
	var revoked sync.Once
	v.reached = func(turn int) {
		if turn == 2 { // all are in their third turn
			all.Done()
			all.Wait()
			revoked.Do(v.revoke)
		}
	}
	p.WriteFile(p.AgentDir()+"/auth.json", `{"openai":`+v.entry(time.Hour)+`}`)
	d := p.StartRaw("--mode", "rpc", "--multi-session", "--max-sessions", "200", "--model", "openai/gpt-5.5", "--features", "auth,openUrl")
	sessions := make([]string, n)
	for i := range sessions {
		sessions[i] = d.OpenSession(`,"noSession":true`)
	}
	from := d.Count()
	for _, s := range sessions {
		d.Send(`{"type":"prompt","message":"hi","sessionId":"` + s + `"}`)
	}
	for _, s := range sessions {
		end, _ := d.WaitTagged(from, s, "agent_end")
		last := end.Get("messages.@reverse.0")
		assert.Equal(t, "error", last.Get("stopReason").Str)
		assert.Equal(t, "OAuth refresh failed for openai: (HTTP 400): invalid_grant: revoked: ***\n\nSign in again with `troupe login openai`.", last.Get("errorMessage").Str)
		d.WaitTagged(from, s, "agent_settled")
	}
	v.mu.Lock()
	v.reached, v.turns = nil, 0
	v.mu.Unlock()
	assert.Equal(t, 1, v.count(openAITokens), "one renewal for all")
	events := map[string]int{}
	for _, line := range d.Lines()[from:] {
		events[gjson.Get(line, "type").Str+" "+gjson.Get(line, "state").Str]++
	}
	assert.Equal(t, 1, events["auth_changed invalid"])
	assert.Equal(t, 1, events["auth_refresh_start "])
	assert.Equal(t, 1, events["auth_refresh_end invalid"])
	assert.EqualValues(t, n, d.OK(`{"type":"get_auth","provider":"openai"}`).Get("providers.0.usedBy").Int())
	asked := v.count("api.openai.com/v1/responses")
	assert.Equal(t, 3*n, asked)
	from = d.Count()
	for _, s := range sessions {
		d.Send(`{"type":"prompt","message":"once more","sessionId":"` + s + `"}`)
	}
	for _, s := range sessions {
		d.WaitTagged(from, s, "agent_settled")
	}
	assert.Equal(t, asked, v.count("api.openai.com/v1/responses"), "nobody asks with a login that is over")
	assert.Equal(t, 1, v.count(openAITokens))

	done := loginOpenAI(d, v)
	require.True(t, done.Get("success").Bool(), done.Raw)
	from = d.Count()
	for _, s := range sessions {
		d.Send(`{"type":"prompt","message":"again","sessionId":"` + s + `"}`)
	}
	for _, s := range sessions {
		end, _ := d.WaitTagged(from, s, "agent_end")
		assert.Equal(t, "stop", end.Get("messages.@reverse.0.stopReason").Str)
	}
	assert.Zero(t, v.reuses)
	assert.Equal(t, 0, d.Close())
	noCanary(t, p, strings.Join(d.Lines(), "\n"), d.Stderr())
}

// TestLoginCancelled checks every way to end a login at every step of it. It leaves no listening
// port, no partial entry and no lock, and the daemon keeps running or exits.
func TestLoginCancelled(t *testing.T) {
	points := map[string]func(d *harness.Daemon, v *vendors){
		"the question": func(d *harness.Daemon, _ *vendors) {
			d.Send(`{"type":"login","id":"l","provider":"openai","method":"paste"}`)
			d.UIRequest("select")
		},
		"the page": func(d *harness.Daemon, _ *vendors) {
			d.Send(`{"type":"login","id":"l","provider":"openrouter","method":"browser"}`)
			d.UIRequest("open_url")
			assert.Equal(d.T, 1, listeners(d.T, d.Cmd.Process.Pid))
		},
		"discovery": held("/.well-known/openid-configuration", false), "the exchange": held("/oauth/token", true), "the keys": held("/jwks.json", true),
	}
	ends := map[string]func(d *harness.Daemon) (exits bool){
		"cancel_login": func(d *harness.Daemon) bool {
			assert.True(d.T, d.Call(`{"type":"cancel_login","provider":"openai"}`).Get("success").Bool() || d.Call(`{"type":"cancel_login","provider":"openrouter"}`).Get("success").Bool())
			return false
		},
		"its dialog": func(d *harness.Daemon) bool {
			for _, line := range d.Lines() {
				if r := gjson.Parse(line); r.Get("type").Str == "extension_ui_request" {
					d.RespondUI(r, `"cancelled":true`) // the last open dialog counts
				}
			}
			return false
		},
		"EOF":     func(d *harness.Daemon) bool { d.Stdin.Close(); return true },
		"SIGTERM": func(d *harness.Daemon) bool { _ = d.Cmd.Process.Signal(syscall.SIGTERM); return true },
		"a session": func(d *harness.Daemon) bool { // unrelated to the login
			s := d.OpenSession(`,"noSession":true`)
			d.OK(`{"type":"abort","sessionId":"` + s + `"}`)
			d.OK(`{"type":"close_session","sessionId":"` + s + `"}`)
			d.Send(`{"type":"get_protocol_info","id":"behind"}`)
			d.Response("behind")
			for _, line := range d.Lines() {
				assert.NotEqual(d.T, "l", gjson.Get(line, "id").Str, "it goes on")
			}
			d.Stdin.Close()
			return true
		},
	}
	for point, begin := range points {
		for name, end := range ends {
			if name == "its dialog" && point != "the question" && point != "the page" {
				continue
			}
			t.Run(point+", "+name, func(t *testing.T) {
				t.Parallel()
				p := harness.NewPlace(t)
				v := newVendors(p)
				d := p.StartRaw("--mode", "rpc", "--multi-session", "--model", "openai/gpt-5.5", "--features", "auth,openUrl")
				begin(d, v)
				exits := end(d)
				if v.hold != nil {
					defer close(v.hold) // the provider may answer after the test
				}
				if exits {
					d.WaitExit()
					assert.Contains(t, strings.Join(d.Lines(), "\n"), `"code":"login_cancelled"`)
				} else {
					assert.Equal(t, "login_cancelled", d.Response("l").Get("code").Str)
					assert.Zero(t, listeners(t, d.Cmd.Process.Pid))
					assert.Equal(t, 0, d.Close())
				}
				text, err := os.ReadFile(p.AgentDir() + "/auth.json")
				if err == nil {
					assert.JSONEq(t, `{}`, string(text))
				}
				assert.NoDirExists(t, p.AgentDir()+"/auth.json.lock")
				noCanary(t, p, strings.Join(d.Lines(), "\n"), d.Stderr())
			})
		}
	}
}

// held starts a login at OpenAI and waits until it reaches an endpoint that does not answer. pasted
// says whether the user's consent comes first.
func held(at string, pasted bool) func(d *harness.Daemon, v *vendors) {
	return func(d *harness.Daemon, v *vendors) {
		v.hold, v.holdAt = make(chan bool), at
		d.Send(`{"type":"login","id":"l","provider":"openai","method":"paste"}`)
		asked := d.UIRequest("select")
		d.RespondUI(asked, `"value":"`+asked.Get("options.0").Str+`"`)
		if pasted {
			page := d.UIRequest("open_url")
			d.RespondUI(page, `"value":"`+v.consent(page.Get("url").Str)+`"`)
		}
		require.Eventually(d.T, func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			for where, n := range v.asked {
				if n > 0 && strings.HasSuffix(where, at) {
					return true
				}
			}
			return false
		}, harness.Patience, time.Millisecond)
	}
}

// TestLoginRenewalLeft checks that closing a session during a token refresh loses no token.
func TestLoginRenewalLeft(t *testing.T) {
	t.Parallel()
	for _, waits := range []string{"the vendor", "the lock"} {
		t.Run(waits, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			v := newVendors(p)
			p.WriteFile(p.AgentDir()+"/auth.json", `{"openai":`+v.entry(-time.Minute)+`}`)
			lock := p.AgentDir() + "/auth.json.lock"
			if waits == "the lock" {
				require.NoError(t, os.Mkdir(lock, 0o755))
			} else {
				v.hold = make(chan bool)
			}
			d := p.StartRaw("--mode", "rpc", "--multi-session", "--model", "openai/gpt-5.5", "--features", "auth")
			s := d.OpenSession(`,"noSession":true`)
			d.Send(`{"type":"prompt","message":"hi","sessionId":"` + s + `"}`)
			d.Event("auth_refresh_start")
			require.Eventually(t, func() bool {
				state := d.OK(`{"type":"get_state","sessionId":"` + s + `"}`)
				return state.Get("phase").Str == "auth" && state.Get("waitingFor.0").Str == "login openai" && state.Get("isStreaming").Bool()
			}, harness.Patience, time.Millisecond)
			d.OK(`{"type":"close_session","sessionId":"` + s + `"}`)
			if waits == "the lock" {
				require.NoError(t, os.Remove(lock))
			} else {
				close(v.hold)
			}
			assert.Equal(t, "ready", d.Event("auth_refresh_end").Get("state").Str)
			text, err := os.ReadFile(p.AgentDir() + "/auth.json")
			require.NoError(t, err)
			assert.Equal(t, "refresh-canary-2", gjson.GetBytes(text, "openai.refresh").Str)
			assert.Equal(t, 0, d.Close())
			assert.Equal(t, 1, v.count(openAITokens))
			assert.NoDirExists(t, lock)
		})
	}
}

// echo rejects every request with an error text that repeats the request. Some services repeat the
// key this way.
func echo(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/messages") || strings.Contains(r.URL.Path, "converse") || strings.Contains(r.URL.Path, "completions") {
			body = nil // a conversation
		}
		said, _ := json.Marshal(fmt.Sprintf("Incorrect API key provided: %v %s %s", r.Header, r.URL.RawQuery, body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(401)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","code":"invalid_api_key","message":%s},"message":%[1]s}`, said)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestLoginCanaries checks that no secret of any provider appears in output, logs, sessions or
// exports, even if the service repeats it.
func TestLoginCanaries(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	at := echo(t)
	p.Env = append(p.Env, "TROUPE_LOG=debug", "HEADER_SECRET=canary-of-a-header", "VARIABLE_SECRET=canary-of-a-variable",
		"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=canary-of-aws", "AWS_SESSION_TOKEN=canary-of-a-session", "AWS_REGION=eu-west-1",
		"AZURE_TENANT_ID=tenant", "AZURE_CLIENT_ID=client", "AZURE_CLIENT_SECRET=canary-of-azure", "AZURE_AUTHORITY_HOST="+at+"/",
		"GOOGLE_APPLICATION_CREDENTIALS="+p.AgentDir()+"/google.json", "GOOGLE_CLOUD_PROJECT=p", "GOOGLE_CLOUD_LOCATION=global")
	p.WriteFile(p.AgentDir()+"/google.json", `{"type":"authorized_user","client_id":"c","client_secret":"canary-of-google","refresh_token":"canary-of-a-refresh","token_uri":"`+at+`/token"}`)
	provider := func(api, more string) string {
		return fmt.Sprintf(`{"baseUrl":"%s/v1","api":"%s","models":[{"id":"m"}]%s}`, at, api, more)
	}
	p.WriteModels(`{"providers":{
		"literal": ` + provider("openai-completions", `,"apiKey":"canary-of-a-literal"`) + `,
		"variable": ` + provider("openai-responses", `,"apiKey":"$VARIABLE_SECRET"`) + `,
		"command": ` + provider("anthropic-messages", `,"apiKey":"!echo canary-of-a-command"`) + `,
		"header": ` + provider("openai-completions", `,"apiKey":"k-canary-beside","headers":{"X-Secret":"$HEADER_SECRET","Authorization":"Token canary-of-an-authorization"}`) + `,
		"google": ` + provider("google-generative-ai", `,"apiKey":"canary-of-gemini"`) + `,
		"stored": ` + provider("openai-completions", "") + `,
		"storedenv": ` + provider("anthropic-messages", "") + `,
		"aws": ` + provider("anthropic-messages", `,"auth":"aws"`) + `,
		"converse": ` + provider("bedrock-converse-stream", `,"auth":"aws"`) + `,
		"bearer": ` + provider("bedrock-converse-stream", `,"apiKey":"canary-of-bedrock"`) + `,
		"vertex": ` + provider("google-vertex", `,"auth":"google"`) + `,
		"entra": ` + provider("openai-responses", `,"auth":"entra"`) + `}}`)
	p.WriteFile(p.AgentDir()+"/auth.json", `{"stored":{"type":"api_key","key":"canary-of-the-store"},"storedenv":{"type":"api_key","key":"$OWN","env":{"OWN":"canary-of-own-env"}},
		"groq":{"type":"api_key","key":"canary-unused"},"xai":{"type":"oauth","access":"access-canary","refresh":"refresh-canary","expires":5}}`)
	d := p.StartRaw("--mode", "rpc", "--model", "literal/m", "--verbose", "--api-key", "canary-of-the-command-line", "--features", "auth,openUrl,secretInput")
	names := []string{"literal", "variable", "command", "header", "google", "stored", "storedenv", "aws", "converse", "bearer", "vertex", "entra", "xai"}
	for _, name := range names {
		model := "m"
		if name == "xai" {
			model = d.OK(`{"type":"get_available_models"}`).Get(`models.#(provider=="xai").id`).Str
		}
		d.OK(`{"type":"set_model","provider":"` + name + `","modelId":"` + model + `"}`)
		d.Prompt("hi " + name)
	}
	d.Send(`{"type":"login","id":"key","provider":"mistral","method":"api_key"}`)
	d.RespondUI(d.UIRequest("input"), `"value":"canary-typed"`)
	assert.True(t, d.Response("key").Get("success").Bool())
	assert.False(t, d.Call(`{"type":"login","provider":"mistral","method":"api_key","key":"canary\nbroken"}`).Get("success").Bool())
	d.Send(`{"type":"login","id":"page","provider":"openrouter","method":"paste"}`)
	page := d.UIRequest("open_url")
	d.RespondUI(page, `"value":"not an address with code=canary-pasted"`)
	d.RespondUI(d.UIRequest("open_url"), `"cancelled":true`)
	d.Response("page")
	for _, line := range []string{`{"type":"get_auth"}`, `{"type":"get_login_providers"}`, `{"type":"get_state"}`, `{"type":"get_messages"}`, `{"type":"get_session_stats"}`} {
		d.OK(line)
	}
	d.OK(`{"type":"export_html","outputPath":"` + filepath.Join(p.Root, "page.html") + `"}`)
	path, _ := d.SessionFile()
	assert.Equal(t, 0, d.Close())
	out := strings.Join(d.Lines(), "\n")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, len(names), strings.Count(string(text), `"stopReason":"error"`), "every provider has failed in its way")
	assert.Greater(t, strings.Count(string(text), "Incorrect API key"), 8, "and most by what the service said")
	assert.Contains(t, string(text), "***")
	crashed := p.StartRaw("--mode", "rpc", "--model", "literal/m", "--api-key", "canary-of-the-command-line")
	crashed.Prompt("hi")
	require.NoError(t, crashed.Cmd.Process.Signal(syscall.SIGQUIT))
	assert.NotZero(t, crashed.WaitExit())
	assert.Contains(t, crashed.Stderr(), "goroutine ", "it has shown where everything was")
	for _, name := range []string{"models.json", "google.json", "auth.json"} { // files with secrets
		require.NoError(t, os.Remove(filepath.Join(p.AgentDir(), name)))
	}
	noCanary(t, p, out, d.Stderr(), strings.Join(crashed.Lines(), "\n"), crashed.Stderr())
	stdout, stderr, _ := p.RunOnce("", "auth", "check", "--json")
	noCanary(t, p, stdout, stderr)
}

// TestLogoutAtTheEnd checks that a logout completes although its client disconnects right after
// sending it.
func TestLogoutAtTheEnd(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	v := newVendors(p)
	for range 10 {
		p.WriteFile(p.AgentDir()+"/auth.json", `{"openai":`+v.entry(time.Hour)+`,"groq":{"type":"api_key","key":"k"}}`)
		d := p.StartRaw("--mode", "rpc", "--model", "openai/gpt-5.5", "--features", "auth")
		d.Send(`{"type":"logout","id":"l","provider":"openai"}`)
		d.Stdin.Close()
		d.WaitExit()
		assert.True(t, d.Response("l").Get("success").Bool())
		text, err := os.ReadFile(p.AgentDir() + "/auth.json")
		require.NoError(t, err)
		assert.JSONEq(t, `{"groq":{"type":"api_key","key":"k"}}`, string(text))
	}
}

// TestAuthCheckNames checks that troupe auth check reports the entries of auth.json that are not
// used.
func TestAuthCheckNames(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, file, says string
		code             int
	}{
		{"nobody", `{}`, "no provider has credentials: sign in with troupe login, or set a key", 1},
		{"broken", `{"openai":`, "auth.json", 1},
		{"no type", `{"groq":{"key":"canary-key"}}`, `the entry of "groq" is not used: it has no type`, 1},
		{"no key", `{"groq":{"type":"api_key"}}`, `the entry of "groq" is not used: it has no key`, 1},
		{"of another type", `{"groq":{"type":"token","key":"canary-key"}}`, `the entry of "groq" is not used: its type is neither api_key nor oauth`, 1},
		{"no object", `{"groq":"canary-key"}`, `the entry of "groq" is not used: it is not an object`, 1},
		{"one of two", `{"openai":"canary-key","groq":{"type":"api_key","key":"canary-key"}}`, `the entry of "openai" is not used: it is not an object`, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteFile(p.AgentDir()+"/models.json", `{}`)
			p.WriteFile(p.AgentDir()+"/auth.json", x.file)
			out, errs, code := p.RunOnce("", "auth", "check")
			assert.Equal(t, x.code, code, out+errs)
			assert.Contains(t, errs, x.says)
			noCanary(t, p, out, errs)
		})
	}
}

// TestAdvice checks that the error for missing credentials names the variables to set, and that
// setting them works.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for model, sets := range map[string][][]string{
		"groq/openai/gpt-oss-120b": {{"GROQ_API_KEY"}},
		"github-copilot/gpt-5.5":   {{"COPILOT_GITHUB_TOKEN"}},
		"amazon-bedrock/global.anthropic.claude-sonnet-4-5-20250929-v1:0": {{"AWS_PROFILE"}, {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, {"AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION"}},
		"google-vertex/gemini-3.1-pro-preview":                            {{"GOOGLE_CLOUD_API_KEY"}, {"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"}},
		"azure-openai-responses/gpt-5.4":                                  {{"AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY"}, {"AZURE_OPENAI_BASE_URL", "az login"}},
	} {
		provider, _, _ := strings.Cut(model, "/")
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			d := p.StartRaw("--mode", "rpc", "--no-session", "--model", model)
			refused := d.Call(`{"type":"prompt","message":"hi"}`)
			assert.Equal(t, "no_api_key", refused.Get("code").Str)
			assert.Equal(t, 0, d.Close())
			for _, set := range sets {
				q := harness.NewPlace(t)
				for _, name := range set {
					assert.Contains(t, refused.Get("error").Str, name)
					value := "canary"
					switch name {
					case "GOOGLE_APPLICATION_CREDENTIALS":
						value = q.AgentDir() + "/key.json"
						q.WriteFile(value, `{"type":"authorized_user","client_id":"c","client_secret":"canary","refresh_token":"canary"}`)
					case "AZURE_OPENAI_BASE_URL":
						value = "https://some.openai.azure.com"
					case "AWS_PROFILE":
						value = "default"
					case "az login":
						q.WriteFile(filepath.Join(q.Home, ".azure", "azureProfile.json"), `{"subscriptions":[{"id":"s"}]}`)
						continue
					}
					q.Env = append(q.Env, name+"="+value)
				}
				out, errs, code := q.RunOnce("", "auth", "check", provider, "--no-refresh")
				assert.Equal(t, 0, code, "%v: %s%s", set, out, errs)
			}
		})
	}
}
