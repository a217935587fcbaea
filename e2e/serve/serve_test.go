package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestConnect checks that troupe connect behaves like a daemon on stdio, and that two of them share
// one process.
func TestConnect(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve()
	a, b := s.Connect("--permission-mode", "auto"), s.Connect("--no-session")
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"pwd"}`), harness.Text("one"))
	assert.Contains(t, harness.ResultTexts(a.Prompt("where"), "tool_execution_end"), p.Work)
	p.Model.Enqueue(harness.Text("two"))
	b.Prompt("hello")
	assert.NotEmpty(t, a.OK(`{"type":"get_state"}`).Get("sessionFile").Str)
	assert.False(t, b.OK(`{"type":"get_state"}`).Get("sessionFile").Exists())
	require.Zero(t, a.Close())
	require.Zero(t, b.Close())

	again := s.Connect("--continue")
	assert.Equal(t, "one", again.OK(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	require.Zero(t, again.Close())

	assert.Equal(t, 143, s.Stop())
	assert.NotContains(t, s.Stderr(), "panic")
}

// TestConnectCut checks that troupe connect exits with an error if the daemon ends first.
func TestConnectCut(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve()
	asked, killed := s.Connect(), s.Connect()
	asked.OK(`{"type":"get_state"}`)
	killed.OK(`{"type":"get_state"}`)
	require.NoError(t, killed.Cmd.Process.Kill())
	assert.Equal(t, -9, killed.WaitExit())
	assert.Equal(t, 143, s.Stop())
	assert.Equal(t, 1, asked.WaitExit())
	assert.NotEmpty(t, asked.Stderr())
}

// TestConnectMode checks that a session of troupe serve starts in permission mode ask.
func TestConnectMode(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve()
	d := s.Connect()
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"touch made"}`), harness.Text("done"))
	d.OK(`{"type":"prompt","message":"go"}`)
	d.RespondUI(d.Event("extension_ui_request"), `"value":"Deny"`)
	d.Event("agent_settled")
	assert.NoFileExists(t, filepath.Join(p.Work, "made"))
	require.Zero(t, d.Close())
	assert.Equal(t, 143, s.Stop())
}

// TestConnectRefused checks the errors for a missing daemon, for flags that only the daemon
// accepts, and for a second daemon on the same socket.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	run := func(args ...string) (string, int) {
		cmd := exec.Command(harness.Binary, args...)
		cmd.Env, cmd.Dir = p.Environ(), p.Work
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := run("connect", "--to", filepath.Join(p.Root, "none.sock"))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "no daemon answers")
	s := p.Serve()
	out, code = run("serve", "--socket", s.Socket)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, fmt.Sprintf("serves %s already: process %d", s.Socket, s.Cmd.Process.Pid))
	out, code = run("connect", "--to", s.Socket, "--sandbox", "off")
	assert.Equal(t, 2, code, "a wrong command line, before anybody is asked")
	assert.Equal(t, "troupe: --sandbox is for the daemon: give it to troupe serve (try troupe help connect)\n", out)
	out, code = run("serve", "--pair", "view", "--socket", filepath.Join(p.Root, "other", "s.sock"))
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "need --listen")
	out, code = run("serve", "--listen", "0.0.0.0:0", "--socket", filepath.Join(p.Root, "other", "s.sock"))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "--behind-proxy")
	require.NoError(t, s.Cmd.Process.Kill()) // it leaves its socket behind
	<-s.Ended
	assert.Equal(t, 143, p.Serve().Stop())
}

// TestSecondDaemon checks that only one daemon can use an agent directory, even with another
// socket. A killed daemon does not block the next one.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve()
	other := filepath.Join(p.Root, "other", "s.sock")
	cmd := exec.Command(harness.Binary, "serve", "--socket", other)
	cmd.Env, cmd.Dir = p.Environ(), p.Work
	out, _ := cmd.CombinedOutput()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Equal(t, fmt.Sprintf("troupe: a daemon serves %s already: process %d\n", p.AgentDir(), s.Cmd.Process.Pid), string(out))
	assert.NoFileExists(t, other)
	require.NoError(t, s.Cmd.Process.Kill())
	<-s.Ended
	assert.Equal(t, 143, p.Serve().Stop())
}

// TestSocketOfOthers checks that a socket is not created in a directory that other users may enter.
func TestSocketOfOthers(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	dir := filepath.Join(p.Root, "open")
	require.NoError(t, os.Mkdir(dir, 0o755))
	cmd := exec.Command(harness.Binary, "serve", "--socket", filepath.Join(dir, "s.sock"))
	cmd.Env = p.Environ()
	out, _ := cmd.CombinedOutput()
	assert.Contains(t, string(out), "can be entered by others")
}

// TestListen checks authentication over TCP: which requests are accepted and which are rejected.
func TestListen(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	status := func(method, path, body string, header ...string) int {
		code, _ := s.Do(method, path, body, header...)
		return code
	}
	list := `{"id":1,"type":"list_open_sessions"}`
	assert.Equal(t, 200, status("GET", "/healthz", ""))
	assert.Equal(t, 200, status("GET", "/readyz", ""))
	assert.Equal(t, 200, status("GET", "/", ""))
	assert.Equal(t, 404, status("GET", "/etc/passwd", ""))
	assert.Equal(t, 401, status("POST", "/v1/rpc", list))
	assert.Equal(t, 401, status("POST", "/v1/rpc", list, harness.Bearer("wrong")...))
	assert.Equal(t, 401, status("GET", "/v1/ws", ""))
	assert.Equal(t, 401, status("GET", "/v1/ws?token=x", ""))
	assert.Equal(t, 401, status("GET", "/v1/events?session=s1", ""))
	assert.Equal(t, 401, status("POST", "/v1/login", `{"code":"wrong"}`))

	token, scope := s.Login(s.Code)
	assert.Equal(t, "full", scope)
	assert.Equal(t, 401, status("POST", "/v1/login", `{"code":"`+s.Code+`"}`), "a code works once")
	ours := harness.Bearer(token)
	assert.Equal(t, 200, status("POST", "/v1/rpc", list, ours...))
	assert.Equal(t, 403, status("GET", "/healthz", "", "Host", "evil.test"), "a rebound name")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", "http://evil.test")...), "another page")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", "null")...), "a page without an origin")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", s.URL+".evil.test")...), "one that begins like ours")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", strings.Replace(s.URL, "http:", "https:", 1))...), "ours but for the scheme")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Sec-Fetch-Site", "cross-site")...))
	assert.Equal(t, 200, status("POST", "/v1/rpc", list, append(ours, "Origin", s.URL)...))

	files, err := filepath.Glob(filepath.Join(p.AgentDir(), "troupe", "*"))
	require.NoError(t, err)
	for _, f := range files {
		st, err := os.Stat(f)
		require.NoError(t, err)
		if st.IsDir() {
			continue
		}
		assert.Zero(t, st.Mode().Perm()&0o077, f)
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		assert.NotContains(t, string(b), token)
	}
	assert.NotContains(t, s.Stderr(), token)
	for range 25 {
		status("POST", "/v1/rpc", list, harness.Bearer("guess")...)
	}
	assert.Equal(t, 429, status("POST", "/v1/rpc", list, harness.Bearer("guess")...))
	assert.Equal(t, 429, status("POST", "/v1/login", `{"code":"guess"}`))
	assert.Equal(t, 200, status("POST", "/v1/rpc", list, ours...), "others who guess keep nobody out who has a credential")
	assert.Equal(t, 143, s.Stop())
}

// TestTokenFiles checks that token files that are empty, too short or readable by others are
// rejected.
func TestTokenFiles(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	for name, x := range map[string]struct {
		content string
		mode    os.FileMode
	}{"empty": {"", 0o600}, "short": {"secret", 0o600}, "open": {strings.Repeat("x", 40), 0o644}} {
		path := filepath.Join(p.Root, name)
		require.NoError(t, os.WriteFile(path, []byte(x.content), x.mode))
		cmd := exec.Command(harness.Binary, "serve", "--socket", filepath.Join(p.Root, "run", "s.sock"), "--listen", "127.0.0.1:0", "--token-file", path)
		cmd.Env = p.Environ()
		out, _ := cmd.CombinedOutput()
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), name)
		assert.Contains(t, string(out), "credential", name)
	}
}

// TestPassedToken checks that the token is read from $CREDENTIALS_DIRECTORY, as systemd passes it.
// Its file may be readable by the group, because systemd uses an access list there. Child processes
// do not see the variable.
func TestPassedToken(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	dir := filepath.Join(p.Root, "credentials")
	require.NoError(t, os.Mkdir(dir, 0o700))
	token := strings.Repeat("passed", 8)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o440))
	p.Env = append(p.Env, "CREDENTIALS_DIRECTORY="+dir, "NOTIFY_SOCKET=/run/none")
	s := p.Serve("--listen", "127.0.0.1:0")
	code, _ := s.Do("POST", "/v1/rpc", `{"id":1,"type":"list_open_sessions"}`, harness.Bearer(token)...)
	assert.Equal(t, 200, code)
	assert.NoFileExists(t, filepath.Join(p.AgentDir(), "troupe", "serve.token"))
	_, out := s.Do("POST", "/v1/rpc", `{"id":1,"type":"open_session","noSession":true}`, harness.Bearer(token)...)
	_, out = s.Do("POST", "/v1/rpc", `{"id":2,"type":"bash","sessionId":"`+gjson.Get(out, "data.sessionId").Str+`","command":"env"}`, harness.Bearer(token)...)
	assert.Contains(t, out, "HOME=")
	assert.Equal(t, 1, strings.Count(out, "\n"), "one answer for a command")
	assert.NotContains(t, out, "CREDENTIALS_DIRECTORY")
	assert.NotContains(t, out, "NOTIFY_SOCKET")
	assert.Equal(t, 143, s.Stop())
}

// TestHealth checks that troupe health reports whether a daemon answers on its socket.
func TestHealth(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	run := func(args ...string) (string, int) {
		cmd := exec.Command(harness.Binary, append([]string{"health"}, args...)...)
		cmd.Env, cmd.Dir = p.Environ(), p.Work
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	s := p.Serve()
	out, code := run("--to", s.Socket)
	assert.Equal(t, 0, code)
	assert.Equal(t, "ok\n", out)
	_, code = run("--to", s.Socket, "more")
	assert.Equal(t, 2, code)
	_, code = run("--to")
	assert.Equal(t, 2, code)
	assert.Equal(t, 143, s.Stop())
	out, code = run("--to", s.Socket)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "no daemon answers at "+s.Socket)
}

// untilClosed reads until the connection is closed, which must be with this code.
func untilClosed(w *harness.WSClient, code int) string {
	w.T.Helper()
	var all strings.Builder
	for {
		opcode, payload := w.ReadMessage()
		if opcode == 8 {
			require.Equal(w.T, code, int(payload[0])<<8|int(payload[1]))
			return all.String()
		}
		all.Write(payload)
	}
}

// revoke revokes the access of the first device.
func revoke(s *harness.Server) {
	s.T.Helper()
	run := func(args ...string) string {
		cmd := exec.Command(harness.Binary, append([]string{"serve"}, args...)...)
		cmd.Env = s.Place.Environ()
		out, err := cmd.Output()
		require.NoError(s.T, err)
		return string(out)
	}
	run("revoke", strings.Fields(strings.Split(run("devices"), "\n")[1])[0])
}

// TestWebSocket checks a conversation with two clients on one session. One of them has view scope,
// and its access is revoked during the conversation.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0", "--pair", "view")
	viewToken, scope := s.Login(s.Code)
	assert.Equal(t, "view", scope)
	raw, err := os.ReadFile(filepath.Join(p.AgentDir(), "troupe", "serve.token"))
	require.NoError(t, err)
	full, status := s.Dial(strings.TrimSpace(string(raw)), "troupe.v1")
	require.Contains(t, status, "101")
	view, status := s.Dial(viewToken, "troupe.v1.lines")
	require.Contains(t, status, "101")
	_, status = s.Dial("wrong", "troupe.v1")
	require.Contains(t, status, "401")

	full.Send(`{"id":"open","type":"open_session","retain":true,"permissionMode":"auto"}`)
	handle := full.WaitFor("open").Get("data.sessionId").Str
	view.Send(`{"id":"hello","type":"hello","features":["seq"]}`)
	assert.Equal(t, "view", view.WaitFor("hello").Get("data.scope").Str)
	view.Send(`{"id":"attach","type":"attach","sessionId":"` + handle + `"}`)
	assert.True(t, view.WaitFor("attach").Get("success").Bool())
	for i, command := range []string{
		`"type":"prompt","message":"x"`, `"type":"abort"`, `"type":"bash","command":"touch made"`, `"type":"set_permission_mode","mode":"auto"`,
		`"type":"close_session"`, `"type":"approval_response","approvalId":"x","optionId":"y"`, `"type":"set_session_name","name":"x"`, `"type":"clear_queue"`,
		`"type":"login","provider":"openai"`, `"type":"logout","provider":"openai"`, `"type":"compact"`, `"type":"new_session"`,
	} {
		id := fmt.Sprint("v", i)
		view.Send(`{"id":"` + id + `","sessionId":"` + handle + `",` + command + `}`)
		assert.Equal(t, "forbidden", view.WaitFor(id).Get("code").Str, command)
		_, answer := s.Do("POST", "/v1/rpc", `{"id":1,"sessionId":"`+handle+`",`+command+`}`, harness.Bearer(viewToken)...)
		assert.Equal(t, "forbidden", gjson.Get(answer, "code").Str, "POST: "+command)
	}
	view.Send(`{"id":"new","type":"open_session"}`)
	assert.Equal(t, "forbidden", view.WaitFor("new").Get("code").Str)
	assert.NoFileExists(t, filepath.Join(p.Work, "made"))

	p.Model.Enqueue(harness.Text("all of it"))
	full.Send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	assert.Equal(t, "all of it", view.WaitFor("agent_end").Get("messages.1.content.0.text").Str)
	full.WaitFor("agent_end")

	revoke(s)
	untilClosed(view, 1008)
	_, status = s.Dial(viewToken, "troupe.v1")
	assert.Contains(t, status, "401")
	full.Send(`{"id":"still","type":"list_open_sessions"}`)
	assert.Len(t, full.WaitFor("still").Get("data.sessions").Array(), 1)
	assert.Equal(t, 143, s.Stop())
	untilClosed(full, 1001)
}

// TestWithdrawnInMidRun checks that a device whose access is revoked during its own run receives no
// more events on any transport and can send no commands. Other clients answer the questions of that
// run.
func TestWithdrawnInMidRun(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	lost, scope := s.Login(s.Code)
	require.Equal(t, "full", scope)
	p.Model.Enqueue(harness.Text("before").Then(harness.Gate("withdrawn")).Then(harness.ToolCall("c1", "bash", `{"command":"touch made"}`)), harness.Text("secret"))

	device, _ := s.Dial(lost, "troupe.v1")
	device.Send(`{"id":"open","type":"open_session","permissionMode":"ask"}`)
	handle := device.WaitFor("open").Get("data.sessionId").Str
	of := `"sessionId":"` + handle + `"`
	owner, _ := s.Dial(s.Token(), "troupe.v1")
	owner.Send(`{"id":"attach","type":"attach",` + of + `}`)
	owner.WaitFor("attach")
	owner.Send(`{"id":"hello","type":"hello","features":["approvals"]}`)
	owner.WaitFor("hello")
	stream, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v1/events?session="+handle, nil)
	require.NoError(t, err)
	stream.Header.Set("Authorization", "Bearer "+lost)
	heard, err := http.DefaultClient.Do(stream)
	require.NoError(t, err)
	defer heard.Body.Close()
	device.Send(`{"id":"p","type":"prompt","message":"go",` + of + `}`)
	for device.WaitFor("message_update").Get("assistantMessageEvent.delta").Str != "before" {
	}

	revoke(s)
	rest := untilClosed(device, 1008)
	events, err := io.ReadAll(heard.Body) // it ends
	require.NoError(t, err)
	p.Model.OpenGate("withdrawn")
	asked := owner.WaitFor("approval_request")
	for _, c := range []string{`"type":"approval_response",` + of + `,"approvalId":"` + asked.Get("id").Str + `","optionId":"once"`, `"type":"abort",` + of} {
		status, _ := s.Do("POST", "/v1/rpc", `{"id":1,`+c+`}`, harness.Bearer(lost)...)
		assert.Equal(t, 401, status)
	}
	_, status := s.Dial(lost, "troupe.v1")
	assert.Contains(t, status, "401")
	assert.NoFileExists(t, filepath.Join(p.Work, "made"))

	owner.Send(`{"id":"yes","type":"approval_response",` + of + `,"approvalId":"` + asked.Get("id").Str + `","optionId":"once"}`)
	assert.True(t, owner.WaitFor("yes").Get("success").Bool())
	assert.Contains(t, owner.WaitFor("agent_end").Raw, "secret", "the run has gone on")
	assert.FileExists(t, filepath.Join(p.Work, "made"))
	for _, unheard := range []string{"approval_request", "secret"} {
		assert.NotContains(t, rest+string(events), unheard)
	}
	assert.Contains(t, string(events), "before", "the stream had the run")
	assert.Equal(t, 143, s.Stop())
}

// TestEventStream checks that a reader of the event stream can resume at its last event id.
func TestEventStream(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	token, _ := s.Login(s.Code)
	_, answer := s.Do("POST", "/v1/rpc", `{"id":1,"type":"open_session","retain":true,"permissionMode":"auto"}`, harness.Bearer(token)...)
	handle := gjson.Get(answer, "data.sessionId").Str
	listen := func(last string, until string) (lastID string, types []string) {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/v1/events?session="+handle, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
		in := bufio.NewReader(res.Body)
		for {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			if id, is := strings.CutPrefix(line, "id: "); is {
				lastID = strings.TrimSpace(id)
			}
			data, is := strings.CutPrefix(line, "data: ")
			if !is {
				continue
			}
			kind := gjson.Get(data, "type").Str
			types = append(types, kind)
			if kind == until {
				return lastID, types
			}
		}
	}
	at, _ := listen("", "response")
	p.Model.Enqueue(harness.Text("hello"))
	_, answer = s.Do("POST", "/v1/rpc", `{"id":1,"type":"attach","sessionId":"`+handle+`"}`+"\n"+`{"id":2,"type":"prompt","message":"go","sessionId":"`+handle+`"}`, harness.Bearer(token)...)
	require.Equal(t, 2, strings.Count(answer, `"success":true`), answer)
	_, types := listen(at, "agent_settled")
	assert.Equal(t, "response", types[0])
	assert.Contains(t, types, "agent_start")
	assert.Equal(t, 143, s.Stop())
}

// TestWebSocketOfOneSession checks that the address of a WebSocket can select a session, which then
// is the default session of that client.
func TestWebSocketOfOneSession(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0", "--pair", "view", "--permission-mode", "auto")
	token := s.Token()
	client, status := s.DialPath("/v1/ws?session=new", token, "troupe.v1")
	require.Contains(t, status, "101")
	p.Model.Enqueue(harness.Text("one"))
	client.Send(`{"id":"p","type":"prompt","message":"go"}`)
	assert.False(t, client.WaitFor("agent_end").Get("sessionId").Exists())
	client.Send(`{"id":"s","type":"get_state"}`)
	id := client.WaitFor("s").Get("data.sessionId").Str
	require.NoError(t, client.Conn.Close())

	for _, which := range []string{"continue", id} {
		var last gjson.Result
		require.Eventually(t, func() bool { // the first connection still holds the file
			client, status = s.DialPath("/v1/ws?session="+which, token, "troupe.v1")
			require.Contains(t, status, "101")
			client.Send(`{"id":"t","type":"get_last_assistant_text"}`)
			last = client.WaitFor("t")
			require.NoError(t, client.Conn.Close())
			return last.Get("success").Bool()
		}, harness.Patience, 10*time.Millisecond)
		assert.Equal(t, "one", last.Get("data.text").Str, which)
	}
	viewer, _ := s.Login(s.Code)
	for query, of := range map[string]string{"session=new": viewer, "session=../x": token, "session=": token, "session=nosuchsession": token, "token=x": token, "session=new&x=1": token} {
		_, status := s.DialPath("/v1/ws?"+query, of, "troupe.v1")
		assert.Contains(t, status, "400", query)
	}
	assert.Equal(t, 143, s.Stop())
}

// TestServePair checks that troupe serve pair prints a new pairing code with the requested scope.
// It fails if the daemon serves no page.
func TestServePair(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	pair := func(args ...string) (string, int) {
		cmd := exec.Command(harness.Binary, append([]string{"serve", "pair", "--to", s.Socket}, args...)...)
		cmd.Env, cmd.Dir = p.Environ(), p.Work
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	tokens := map[string]bool{}
	for _, of := range []struct {
		args  []string
		scope string
	}{{nil, "full"}, {[]string{"full"}, "full"}, {[]string{"view"}, "view"}} {
		out, code := pair(of.args...)
		require.Zero(t, code, out)
		address, oneTime, found := strings.Cut(strings.TrimSuffix(out, "\n"), "/#c=")
		require.True(t, found, out)
		assert.Equal(t, s.URL, address)
		token, scope := s.Login(oneTime)
		assert.Equal(t, of.scope, scope)
		tokens[token] = true
		status, _ := s.Do("POST", "/v1/login", `{"code":"`+oneTime+`"}`)
		assert.Equal(t, 401, status, "a code works once")
		assert.NotContains(t, s.Stderr(), oneTime)
	}
	assert.Len(t, tokens, 3)
	token, _ := s.Login(s.Code)
	assert.NotContains(t, tokens, token, "the first code is good all the same")
	for _, wrong := range [][]string{{"all"}, {"full", "view"}, {"--scope"}} {
		out, code := pair(wrong...)
		assert.Equal(t, 2, code, out)
	}
	c, err := net.Dial("unix", s.Socket)
	require.NoError(t, err)
	_, err = io.WriteString(c, `{"troupe":"pair","scope":"metrics"}`+"\n")
	require.NoError(t, err)
	said, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Contains(t, string(said), `"success":false`)
	require.Equal(t, 143, s.Stop())
	s = p.Serve()
	out, code := pair()
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "without --listen")
}
