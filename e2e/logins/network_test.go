package logins

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// listeners counts the TCP ports that a Linux process listens on.
func listeners(t *testing.T, pid int) (n int) {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	require.NoError(t, err)
	of := map[string]bool{} // sockets that listen, by inode
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
			of["socket:["+f[9]+"]"] = true
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && of[to] {
			n++
		}
	}
	return n
}

// TestLoginOverNetwork checks that clients over the network can sign in only with --allow-login,
// and only by pasting. The daemon then opens no port for a browser redirect.
func TestLoginOverNetwork(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			v := newVendors(p)
			args := []string{"--listen", "127.0.0.1:0", "--pair", "view"}
			if allowed {
				args = append(args, "--allow-login")
			}
			s := p.Serve(args...)
			raw, err := os.ReadFile(filepath.Join(p.AgentDir(), "troupe", "serve.token"))
			require.NoError(t, err)
			token := strings.TrimSpace(string(raw))
			viewer, _ := s.Login(s.Code)
			view, _ := s.Dial(viewer, "troupe.v1")
			full, _ := s.Dial(token, "troupe.v1")
			other, _ := s.Dial(token, "troupe.v1")
			for _, c := range []*harness.WSClient{full, other} {
				c.Send(`{"id":"hello","type":"hello","features":["auth","openUrl","secretInput"]}`)
				c.WaitFor("hello")
			}
			view.Send(`{"id":"l","type":"login","provider":"openrouter","method":"paste"}`)
			assert.Equal(t, "forbidden", view.WaitFor("l").Get("code").Str, "who only watches never signs in")
			for i, login := range []string{`"method":"browser"`, `"method":"api_key"`, `"key":"canary-of-a-key"`} {
				full.Send(fmt.Sprintf(`{"id":"no%d","type":"login","provider":"openrouter",%s}`, i, login))
				assert.Equal(t, "forbidden", full.WaitFor(fmt.Sprint("no", i)).Get("code").Str, login)
			}
			full.Send(`{"id":"l","type":"login","provider":"openrouter"}`)
			if !allowed {
				refused := full.WaitFor("l")
				assert.Equal(t, "forbidden", refused.Get("code").Str)
				assert.Contains(t, refused.Get("error").Str, "--allow-login")
				full.Send(`{"id":"out","type":"logout","provider":"openrouter"}`)
				assert.Equal(t, "forbidden", full.WaitFor("out").Get("code").Str)
				here := s.Connect("--features", "auth,openUrl")
				here.Send(`{"id":"l","type":"login","provider":"openrouter","method":"paste"}`)
				asked := here.UIRequest("open_url")
				here.RespondUI(asked, `"value":"`+v.consent(asked.Get("url").Str)+`"`)
				assert.True(t, here.Response("l").Get("success").Bool(), "the socket is for the user of this machine")
				here.Close()
				assert.Equal(t, 143, s.Stop())
				return
			}
			asked := full.WaitFor("extension_ui_request")
			assert.Equal(t, "open_url", asked.Get("method").Str)
			assert.Equal(t, 1, listeners(t, s.Cmd.Process.Pid), "the one of --listen")
			full.Send(`{"type":"extension_ui_response","id":"` + asked.Get("id").Str + `","value":"` + v.consent(asked.Get("url").Str) + `"}`)
			assert.True(t, full.WaitFor("l").Get("success").Bool())
			for { // the first event that the other client receives about it
				_, payload := other.ReadMessage()
				require.NotContains(t, string(payload), "extension_ui_request")
				if strings.Contains(string(payload), "auth_changed") {
					break
				}
			}
			assert.Equal(t, 143, s.Stop())
			noCanary(t, p, s.Stderr())
		})
	}
}

// TestLoginCode checks a device code login at a custom service that is defined in models.json. The
// daemon uses and refreshes its token. A key may also be the output of a command.
func TestLoginCode(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	var mu sync.Mutex
	polls, given := 0, 0
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = r.ParseForm()
		switch {
		case r.URL.Path == "/device":
			fmt.Fprintf(w, `{"device_code":"device-canary","user_code":"WXYZ-9","verification_uri":"http://%s/go","expires_in":600,"interval":0.01}`, r.Host)
		case r.Form.Get("device_code") != "" && polls < 2:
			polls++
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"authorization_pending"}`)
		default:
			given++
			fmt.Fprintf(w, `{"access_token":"access-canary-%d","refresh_token":"refresh-canary-%d","expires_in":3600}`, given, given)
		}
	}))
	defer gateway.Close()
	p.WriteModels(`{"providers":{"acme":{"baseUrl":"` + p.Model.Server.URL + `/v1","api":"openai-completions","models":[{"id":"m"}],
		"login":{"deviceUrl":"` + gateway.URL + `/device","tokenUrl":"` + gateway.URL + `/token","clientId":"ours"}}}}`)
	d := p.StartRaw("--mode", "rpc", "--model", "acme/m", "--features", "auth,openUrl")
	d.Send(`{"type":"login","id":"l","provider":"acme"}`)
	shown := d.UIRequest("open_url")
	assert.Equal(t, "WXYZ-9", shown.Get("code").Str)
	assert.Contains(t, shown.Get("title").Str, "WXYZ-9")
	assert.Equal(t, gateway.URL+"/go", shown.Get("url").Str)
	assert.Greater(t, shown.Get("expiresAt").Int(), time.Now().UnixMilli())
	assert.True(t, d.Response("l").Get("success").Bool())
	p.Model.Enqueue(harness.Text("through the gateway"))
	d.Prompt("hi")
	assert.Equal(t, "Bearer access-canary-1", p.Model.Request(0).Header.Get("Authorization"))
	report := d.OK(`{"type":"get_auth","provider":"acme"}`).Get("providers.0")
	assert.Equal(t, "ready 1", report.Get("state").Str+" "+report.Get("usedBy").String())
	assert.Equal(t, 0, d.Close())
	noCanary(t, p, strings.Join(d.Lines(), "\n"), d.Stderr())

	_, errs, code := p.RunOnce("", "login", "acme", "--device", "--timeout", "30s")
	assert.Equal(t, 0, code, errs)
	assert.Contains(t, errs, "WXYZ-9")
	_, errs, code = p.RunOnce("", "login", "groq", "--device")
	assert.Equal(t, 2, code, errs)
	_, errs, code = p.RunOnce("", "login", "acme", "--store-command", "echo key-of-the-command")
	assert.Equal(t, 0, code, errs)
	kept, err := os.ReadFile(p.AgentDir() + "/auth.json")
	require.NoError(t, err)
	assert.Equal(t, "!echo key-of-the-command", gjson.GetBytes(kept, "acme.key").Str)
	p.Model.Enqueue(harness.Text("by the command"))
	out, errs, code := p.RunOnce("hi", "-p", "--model", "acme/m", "--no-session")
	assert.Equal(t, "0 by the command\n", fmt.Sprint(code)+" "+out, errs)
	assert.Equal(t, "Bearer key-of-the-command", p.Model.Request(1).Header.Get("Authorization"))
	_, errs, code = p.RunOnce("", "login", "--store-command", "x")
	assert.Equal(t, 2, code, errs)
}
