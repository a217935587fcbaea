package logins

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

const openAITokens = "auth.openai.com/api/accounts/oauth/token"

// loginOpenAI signs in to OpenAI as a client that pastes the final address of its browser.
func loginOpenAI(d *harness.Daemon, v *vendors) gjson.Result {
	d.Send(`{"type":"login","id":"login","provider":"openai","method":"paste"}`)
	for {
		dialog := d.Next("a dialog or the end", func(r gjson.Result) bool {
			return r.Get("method").Str == "select" || r.Get("method").Str == "open_url" || r.Get("id").Str == "login"
		})
		switch dialog.Get("method").Str {
		case "select":
			d.RespondUI(dialog, `"value":"`+dialog.Get("options.0").Str+`"`)
		case "open_url":
			d.RespondUI(dialog, `"value":"`+v.consent(dialog.Get("url").Str)+`"`)
		default:
			return dialog
		}
	}
}

// noCanary checks that no secret is in the texts or in any written file except auth.json.
func noCanary(t *testing.T, p *harness.Place, texts ...string) {
	clean := func(text, where string) {
		if at := strings.Index(text, "canary"); at >= 0 {
			t.Errorf("a secret in %s: ...%q", where, text[max(at-120, 0):min(at+40, len(text))])
		}
	}
	for _, text := range texts {
		clean(text, "what was said")
	}
	require.NoError(t, filepath.WalkDir(p.Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Base(path) == "auth.json" {
			return err
		}
		text, err := os.ReadFile(path)
		clean(string(text), path)
		return err
	}))
}

// TestLoginPlan checks a ChatGPT plan login: signing in, using the plan, losing it during many
// runs, and signing in again. No secret is written anywhere else.
func TestLoginPlan(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	v := newVendors(p)
	d := p.StartRaw("--mode", "rpc", "--model", "openai/gpt-5.5")
	d.OK(`{"type":"hello","features":["auth","openUrl"]}`)
	assert.Equal(t, "no_api_key", d.Call(`{"type":"prompt","message":"hi"}`).Get("code").Str)
	done := loginOpenAI(d, v)
	require.True(t, done.Get("success").Bool(), done.Raw)
	assert.Equal(t, "a…@mail.example", done.Get("data.account").Str)
	auth := d.OK(`{"type":"get_auth","provider":"openai"}`).Get("providers.0")
	assert.Equal(t, "ready stored_oauth a…@mail.example", auth.Get("state").Str+" "+auth.Get("source").Str+" "+auth.Get("account").Str)
	d.Prompt("hi")
	assert.Equal(t, "from the plan", d.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	require.Eventually(t, func() bool {
		return d.OK(`{"type":"get_available_models"}`).Get(`models.#(id=="gpt-of-the-plan").contextWindow`).Int() == 300000
	}, harness.Patience, 10*time.Millisecond, "what the plan lists beside the catalogue")
	d.OK(`{"type":"set_model","provider":"openai","modelId":"gpt-of-the-plan"}`)
	d.Prompt("hi")
	assert.Equal(t, 1, v.count("api.openai.com/v1/models"))
	d.OK(`{"type":"set_model","provider":"openai","modelId":"gpt-5.5"}`)

	const n = 20
	sessions := make([]string, n)
	for i := range sessions {
		sessions[i] = d.OpenSession(`,"noSession":true`)
	}
	v.revoke()
	from, refreshed := d.Count(), v.count(openAITokens)
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
	assert.Equal(t, refreshed+1, v.count(openAITokens), "one refresh for all")
	changed, _ := d.Wait(from, "auth_changed", func(r gjson.Result) bool { return r.Get("type").Str == "auth_changed" })
	assert.Equal(t, "invalid", changed.Get("state").Str)
	asked := v.count("api.openai.com/v1/responses")
	d.Prompt("hi")
	assert.Equal(t, asked, v.count("api.openai.com/v1/responses"), "nobody is asked with a login that is over")

	done = loginOpenAI(d, v)
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
	exported := filepath.Join(p.Root, "page.html")
	d.OK(`{"type":"export_html","outputPath":"` + exported + `"}`)
	out := d.OK(`{"type":"logout","provider":"openai"}`)
	assert.True(t, out.Get("removed").Bool() && out.Get("revoked").Bool(), out.Raw)
	assert.Equal(t, 0, d.Close())
	noCanary(t, p, strings.Join(d.Lines(), "\n"), d.Stderr())
}

// TestLoginBrowser checks a login with a redirect to the daemon. The key can be used immediately,
// and a login ends when its client disconnects.
func TestLoginBrowser(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	v := newVendors(p)
	d := p.Start()
	d.Send(`{"type":"login","id":"l1","provider":"openrouter"}`)
	told := d.UIRequest("notify").Get("message").Str // a client of pi without openUrl
	address := told[strings.Index(told, "https://"):]
	back := v.consent(address)
	resp, err := http.Get(back)
	require.NoError(t, err)
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	assert.NotContains(t, string(page), "canary")
	assert.True(t, d.Response("l1").Get("success").Bool())
	assert.Equal(t, "stored_oauth", d.OK(`{"type":"get_auth","provider":"openrouter"}`).Get("providers.0.source").Str)
	assert.Contains(t, d.OK(`{"type":"get_available_models"}`).Raw, `"openrouter"`)

	d.OK(`{"type":"logout","provider":"openrouter"}`)
	d.Send(`{"type":"login","id":"l2","provider":"openrouter"}`)
	told = d.UIRequest("notify").Get("message").Str
	assert.Equal(t, 0, d.Close())
	last := gjson.Parse(d.Lines()[len(d.Lines())-1])
	assert.Equal(t, "l2 login_cancelled", last.Get("id").Str+" "+last.Get("code").Str)
	_, err = http.Get(v.consent(told[strings.Index(told, "https://"):]))
	require.Error(t, err, "nobody listens any more")
}

// TestLoginTerminal checks troupe login without a local browser, over pipes.
func TestLoginTerminal(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	v := newVendors(p)
	cmd := exec.Command(harness.Binary, "login", "openai", "--no-browser", "--timeout", "30s")
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, _ = io.WriteString(in, "1\n")
	var all strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "https://") {
			_, _ = io.WriteString(in, v.consent(address)+"\n")
		}
	}
	require.NoError(t, cmd.Wait(), all.String())
	assert.Contains(t, all.String(), "signed in to openai as a…@mail.example")
	noCanary(t, p, all.String())
	text, err := os.ReadFile(p.AgentDir() + "/auth.json")
	require.NoError(t, err)
	assert.Equal(t, "oaiapp_7", gjson.GetBytes(text, "openai.clientId").Str)

	out, _, code := p.RunOnce("", "auth", "check", "openai", "--json")
	assert.Equal(t, 0, code)
	assert.Equal(t, "ready openai", gjson.Get(out, "status").Str+" "+gjson.Get(out, "provider").Str)
	out, errs, code := p.RunOnce("hi", "-p", "--model", "openai/gpt-5.5", "--no-session")
	assert.Equal(t, "from the plan\n", out, errs)
	assert.Equal(t, 0, code)

	p.WriteFile(p.AgentDir()+"/auth.json", `{"openai":`+v.entry(-time.Minute)+`}`)
	v.revoke()
	out, _, code = p.RunOnce("", "auth", "check", "openai", "--json")
	assert.Equal(t, 2, code)
	assert.Equal(t, "invalid invalid_state", gjson.Get(out, "status").Str+" "+gjson.Get(out, "reason").Str)
	out, _, code = p.RunOnce("", "auth", "check", "groq")
	assert.Equal(t, "1 groq: none\n", fmt.Sprint(code)+" "+out)
	// The same texts as pi 0.87.
	for args, want := range map[string]string{
		"--provider mock": "0 ready\n", "--provider deepseek": "1 not_ready\n", "--provider nosuch": "1 not_ready\n", "--model mock/mock-1": "0 ready\n",
	} {
		out, _, code = p.RunOnce("", append([]string{"auth", "check"}, strings.Fields(args)...)...)
		assert.Equal(t, want, fmt.Sprint(code)+" "+out, args)
	}
	for args, want := range map[string]string{
		"--provider mock": "ready mock api_key ", "--provider deepseek": "not_ready deepseek  credentials_not_configured", "--provider nosuch": "not_ready nosuch  provider_not_found", "--provider openai": "invalid openai  invalid_state",
	} {
		out, _, _ = p.RunOnce("", append([]string{"auth", "check", "--json"}, strings.Fields(args)...)...)
		v := gjson.Parse(out)
		assert.Equal(t, want, v.Get("status").Str+" "+v.Get("provider").Str+" "+v.Get("authType").Str+" "+v.Get("reason").Str)
	}

	_, errs, code = p.RunOnce("", "logout", "openai")
	assert.Equal(t, 0, code)
	assert.Contains(t, errs, "signed out of openai, which has taken the login back")
	_, errs, code = p.RunOnce("canary-key\n", "login", "groq")
	assert.Equal(t, 0, code, errs)
	_, _, code = p.RunOnce("", "login", "openrouter", "--timeout", "50ms")
	assert.Equal(t, 3, code)
	for _, args := range [][]string{{"login", "anthropic-plan"}, {"login", "google-gemini-cli"}, {"login", "groq", "--key=k"}, {"logout"}, {"auth"}, {"auth", "check", "--what"}, {"login", "a", "b"}} {
		_, errs, code = p.RunOnce("", args...)
		assert.Equal(t, 2, code, "%v: %s", args, errs)
	}
}

// TestLoginRenewed checks that two daemons with many sessions refresh an expiring token of a shared
// file with one request. No token is used twice.
func TestLoginRenewed(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	v := newVendors(p)
	p.WriteFile(p.AgentDir()+"/auth.json", `{"openai":`+v.entry(time.Minute)+`}`)
	var daemons []*harness.Daemon
	sessions := map[*harness.Daemon][]string{}
	for range 2 {
		d := p.StartRaw("--mode", "rpc", "--multi-session", "--model", "openai/gpt-5.5")
		daemons = append(daemons, d)
		for range 10 {
			sessions[d] = append(sessions[d], d.OpenSession(`,"noSession":true`))
		}
	}
	for _, d := range daemons {
		for _, s := range sessions[d] {
			d.Send(`{"type":"prompt","message":"hi","sessionId":"` + s + `"}`)
		}
	}
	for _, d := range daemons {
		for _, s := range sessions[d] {
			end, _ := d.WaitTagged(0, s, "agent_end")
			assert.Equal(t, "stop", end.Get("messages.@reverse.0.stopReason").Str, end.Raw)
		}
	}
	assert.Equal(t, 1, v.count(openAITokens))
	assert.Zero(t, v.reuses)
	assert.NoDirExists(t, p.AgentDir()+"/auth.json.lock")
}

// TestLoginEnds checks that a daemon that exits during a token refresh waits for the new token and
// saves it, since the old token is no longer valid.
func TestLoginEnds(t *testing.T) {
	for name, end := range map[string]func(d *harness.Daemon){
		"the input ends": func(d *harness.Daemon) { d.Stdin.Close() },
		"a signal":       func(d *harness.Daemon) { _ = d.Cmd.Process.Signal(syscall.SIGTERM) },
		"abort": func(d *harness.Daemon) {
			d.OK(`{"type":"abort"}`)
			d.Stdin.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			v := newVendors(p)
			v.hold = make(chan bool)
			p.WriteFile(p.AgentDir()+"/auth.json", `{"openai":`+v.entry(-time.Minute)+`}`)
			d := p.StartRaw("--mode", "rpc", "--model", "openai/gpt-5.5", "--eof", "abort")
			d.OK(`{"type":"prompt","message":"hi"}`)
			require.Eventually(t, func() bool { return v.count(openAITokens) == 1 }, harness.Patience, time.Millisecond)
			end(d)
			d.Event("agent_settled")
			close(v.hold)
			d.WaitExit()
			text, err := os.ReadFile(p.AgentDir() + "/auth.json")
			require.NoError(t, err)
			assert.Equal(t, "refresh-canary-2", gjson.GetBytes(text, "openai.refresh").Str)
			assert.NoDirExists(t, p.AgentDir()+"/auth.json.lock")
		})
	}
}

// TestLoginNotUsed checks a login that its provider does not allow in other programs. It is
// reported once, is not used, and does not prevent the use of a key.
func TestLoginNotUsed(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/auth.json", `{"anthropic":{"type":"oauth","access":"access-canary","refresh":"refresh-canary","expires":4102444800000}}`)
	const why = "Anthropic does not allow plan logins in other programs; use a key, Bedrock, Vertex or Foundry"
	d := p.StartRaw("--mode", "rpc", "--model", "anthropic/claude-haiku-4-5")
	for range 2 {
		refused := d.Call(`{"type":"prompt","message":"hi"}`)
		assert.Equal(t, "no_api_key", refused.Get("code").Str)
		assert.Equal(t, "No API key found for anthropic. The login in auth.json is not used: "+why+".", refused.Get("error").Str)
	}
	assert.Equal(t, 0, d.Close())
	assert.Equal(t, 1, strings.Count(d.Stderr(), why), d.Stderr())
	noCanary(t, p, strings.Join(d.Lines(), "\n"), d.Stderr())
}
