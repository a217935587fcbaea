package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// served is a daemon that clients reach from outside.
type served struct {
	t      *testing.T
	p      *place
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	mu     sync.Mutex
	socket string
	base   string // of the page
	code   string // for one browser
	ended  chan error
}

// serve starts one on a socket of the place and, with --listen, on a free port.
func (p *place) serve(args ...string) *served {
	p.t.Helper()
	s := &served{t: p.t, p: p, stderr: &bytes.Buffer{}, socket: filepath.Join(p.root, "run", "s.sock"), ended: make(chan error, 1)}
	s.cmd = exec.Command(binary, append([]string{"serve", "--socket", s.socket, "--model", "mock/mock-1"}, args...)...)
	s.cmd.Env, s.cmd.Dir = p.environ(), p.work
	out, err := s.cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, s.cmd.Start())
	ready := make(chan bool)
	go func() {
		lines, told := bufio.NewReader(out), false
		for {
			line, err := lines.ReadString('\n')
			s.mu.Lock()
			s.stderr.WriteString(line)
			s.mu.Unlock()
			if at := regexp.MustCompile(`(http\S+)/#c=(\S+)`).FindStringSubmatch(line); at != nil {
				s.base, s.code = at[1], at[2]
			}
			isReady := strings.Contains(line, "clients connect with") && !strings.Contains(strings.Join(args, " "), "--listen") || s.code != ""
			if !told && (isReady || err != nil) {
				told = true
				close(ready)
			}
			if err != nil {
				s.ended <- s.cmd.Wait()
				return
			}
		}
	}()
	<-ready
	p.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

func (s *served) errors() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// stop ends it with a signal and returns its exit code.
func (s *served) stop() int {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("the daemon did not end\n" + s.errors())
	}
	return s.cmd.ProcessState.ExitCode()
}

// connect is a client on stdio that a daemon serves.
func (s *served) connect(args ...string) *daemon {
	return s.p.startRaw(append([]string{"connect", "--to", s.socket}, args...)...)
}

// ask sends a request, with a header for each pair.
func (s *served) ask(method, path, body string, header ...string) (status int, answer string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	require.NoError(s.t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res.StatusCode, string(b)
}

func (s *served) login(code string) (token, scope string) {
	s.t.Helper()
	status, answer := s.ask("POST", "/v1/login", `{"code":"`+code+`","name":"test"}`)
	require.Equal(s.t, 200, status, answer)
	return gjson.Get(answer, "token").Str, gjson.Get(answer, "scope").Str
}

// token is that of the file, for programs.
func (s *served) token() string {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.p.agent(), "troupe", "serve.token"))
	require.NoError(s.t, err)
	return strings.TrimSpace(string(raw))
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// TestConnect: a client of stdio over a running daemon notices nothing, and two of
// them share one process.
func TestConnect(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	a, b := s.connect("--permission-mode", "auto"), s.connect("--no-session")
	p.llm.plays(tool("c1", "bash", `{"command":"pwd"}`), text("one"))
	assert.Contains(t, texts(a.prompt("where"), "tool_execution_end"), p.work)
	p.llm.plays(text("two"))
	b.prompt("hello")
	assert.NotEmpty(t, a.ok(`{"type":"get_state"}`).Get("sessionFile").Str)
	assert.False(t, b.ok(`{"type":"get_state"}`).Get("sessionFile").Exists())
	require.Zero(t, a.end())
	require.Zero(t, b.end())

	again := s.connect("--continue")
	assert.Equal(t, "one", again.ok(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	require.Zero(t, again.end())

	assert.Equal(t, 143, s.stop())
	assert.NotContains(t, s.errors(), "panic")
}

// TestConnectCut: a daemon that ends before its client is an error of the client's.
func TestConnectCut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	asked, killed := s.connect(), s.connect()
	asked.ok(`{"type":"get_state"}`)
	killed.ok(`{"type":"get_state"}`)
	require.NoError(t, killed.cmd.Process.Kill())
	assert.Equal(t, -9, killed.exit())
	assert.Equal(t, 143, s.stop())
	assert.Equal(t, 1, asked.exit())
	assert.NotEmpty(t, asked.errors())
}

// TestConnectMode: sessions of a daemon that is served begin by asking.
func TestConnectMode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	d := s.connect()
	p.llm.plays(tool("c1", "bash", `{"command":"touch made"}`), text("done"))
	d.ok(`{"type":"prompt","message":"go"}`)
	d.dialog(d.event("extension_ui_request"), `"value":"Deny"`)
	d.event("agent_settled")
	assert.NoFileExists(t, filepath.Join(p.work, "made"))
	require.Zero(t, d.end())
	assert.Equal(t, 143, s.stop())
}

// TestConnectRefused: no daemon, flags that are the daemon's, a second daemon.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	run := func(args ...string) (string, int) {
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Dir = p.environ(), p.work
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := run("connect", "--to", filepath.Join(p.root, "none.sock"))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "no daemon answers")
	s := p.serve()
	out, code = run("serve", "--socket", s.socket)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, fmt.Sprintf("serves %s already: process %d", s.socket, s.cmd.Process.Pid))
	out, code = run("connect", "--to", s.socket, "--sandbox", "off")
	assert.Equal(t, 2, code, "a wrong command line, before anybody is asked")
	assert.Equal(t, "troupe: --sandbox is for the daemon: give it to troupe serve (try troupe --help)\n", out)
	out, code = run("serve", "--pair", "view", "--socket", filepath.Join(p.root, "other", "s.sock"))
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "need --listen")
	out, code = run("serve", "--listen", "0.0.0.0:0", "--socket", filepath.Join(p.root, "other", "s.sock"))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "--behind-proxy")
	require.NoError(t, s.cmd.Process.Kill()) // it leaves its socket behind
	<-s.ended
	assert.Equal(t, 143, p.serve().stop())
}

// TestSecondDaemon: another socket makes no second daemon of the same agent directory. One
// that was killed keeps nobody away.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	other := filepath.Join(p.root, "other", "s.sock")
	cmd := exec.Command(binary, "serve", "--socket", other)
	cmd.Env, cmd.Dir = p.environ(), p.work
	out, _ := cmd.CombinedOutput()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Equal(t, fmt.Sprintf("troupe: a daemon serves %s already: process %d\n", p.agent(), s.cmd.Process.Pid), string(out))
	assert.NoFileExists(t, other)
	require.NoError(t, s.cmd.Process.Kill())
	<-s.ended
	assert.Equal(t, 143, p.serve().stop())
}

// TestSocketOfOthers: a directory that others may enter is no place for a socket.
func TestSocketOfOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := filepath.Join(p.root, "open")
	require.NoError(t, os.Mkdir(dir, 0o755))
	cmd := exec.Command(binary, "serve", "--socket", filepath.Join(dir, "s.sock"))
	cmd.Env = p.environ()
	out, _ := cmd.CombinedOutput()
	assert.Contains(t, string(out), "can be entered by others")
}

// TestListen: who is let in over TCP, and who is not.
func TestListen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	status := func(method, path, body string, header ...string) int {
		code, _ := s.ask(method, path, body, header...)
		return code
	}
	list := `{"id":1,"type":"list_open_sessions"}`
	assert.Equal(t, 200, status("GET", "/healthz", ""))
	assert.Equal(t, 200, status("GET", "/readyz", ""))
	assert.Equal(t, 200, status("GET", "/", ""))
	assert.Equal(t, 404, status("GET", "/etc/passwd", ""))
	assert.Equal(t, 401, status("POST", "/v1/rpc", list))
	assert.Equal(t, 401, status("POST", "/v1/rpc", list, bearer("wrong")...))
	assert.Equal(t, 401, status("GET", "/v1/ws", ""))
	assert.Equal(t, 401, status("GET", "/v1/ws?token=x", ""))
	assert.Equal(t, 401, status("GET", "/v1/events?session=s1", ""))
	assert.Equal(t, 401, status("POST", "/v1/login", `{"code":"wrong"}`))

	token, scope := s.login(s.code)
	assert.Equal(t, "full", scope)
	assert.Equal(t, 401, status("POST", "/v1/login", `{"code":"`+s.code+`"}`), "a code works once")
	ours := bearer(token)
	assert.Equal(t, 200, status("POST", "/v1/rpc", list, ours...))
	assert.Equal(t, 403, status("GET", "/healthz", "", "Host", "evil.test"), "a rebound name")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", "http://evil.test")...), "another page")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", "null")...), "a page without an origin")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", s.base+".evil.test")...), "one that begins like ours")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Origin", strings.Replace(s.base, "http:", "https:", 1))...), "ours but for the scheme")
	assert.Equal(t, 403, status("POST", "/v1/rpc", list, append(ours, "Sec-Fetch-Site", "cross-site")...))
	assert.Equal(t, 200, status("POST", "/v1/rpc", list, append(ours, "Origin", s.base)...))

	files, err := filepath.Glob(filepath.Join(p.agent(), "troupe", "*"))
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
	assert.NotContains(t, s.errors(), token)
	for range 25 {
		status("POST", "/v1/rpc", list, bearer("guess")...)
	}
	assert.Equal(t, 429, status("POST", "/v1/rpc", list, bearer("guess")...))
	assert.Equal(t, 429, status("POST", "/v1/login", `{"code":"guess"}`))
	assert.Equal(t, 200, status("POST", "/v1/rpc", list, ours...), "others who guess keep nobody out who has a credential")
	assert.Equal(t, 143, s.stop())
}

// TestTokenFiles: a credential that protects nothing is no credential.
func TestTokenFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, x := range map[string]struct {
		content string
		mode    os.FileMode
	}{"empty": {"", 0o600}, "short": {"secret", 0o600}, "open": {strings.Repeat("x", 40), 0o644}} {
		path := filepath.Join(p.root, name)
		require.NoError(t, os.WriteFile(path, []byte(x.content), x.mode))
		cmd := exec.Command(binary, "serve", "--socket", filepath.Join(p.root, "run", "s.sock"), "--listen", "127.0.0.1:0", "--token-file", path)
		cmd.Env = p.environ()
		out, _ := cmd.CombinedOutput()
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), name)
		assert.Contains(t, string(out), "credential", name)
	}
}

// TestPassedToken: systemd passes the token by $CREDENTIALS_DIRECTORY, where an access list
// stands in the place of the group's rights. Nothing that is started here is told of it.
func TestPassedToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := filepath.Join(p.root, "credentials")
	require.NoError(t, os.Mkdir(dir, 0o700))
	token := strings.Repeat("passed", 8)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o440))
	p.env = append(p.env, "CREDENTIALS_DIRECTORY="+dir, "NOTIFY_SOCKET=/run/none")
	s := p.serve("--listen", "127.0.0.1:0")
	code, _ := s.ask("POST", "/v1/rpc", `{"id":1,"type":"list_open_sessions"}`, bearer(token)...)
	assert.Equal(t, 200, code)
	assert.NoFileExists(t, filepath.Join(p.agent(), "troupe", "serve.token"))
	_, out := s.ask("POST", "/v1/rpc", `{"id":1,"type":"open_session","noSession":true}`, bearer(token)...)
	_, out = s.ask("POST", "/v1/rpc", `{"id":2,"type":"bash","sessionId":"`+gjson.Get(out, "data.sessionId").Str+`","command":"env"}`, bearer(token)...)
	assert.Contains(t, out, "HOME=")
	assert.Equal(t, 1, strings.Count(out, "\n"), "one answer for a command")
	assert.NotContains(t, out, "CREDENTIALS_DIRECTORY")
	assert.NotContains(t, out, "NOTIFY_SOCKET")
	assert.Equal(t, 143, s.stop())
}

// TestHealth: "troupe health" asks a daemon by its socket.
func TestHealth(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	run := func(args ...string) (string, int) {
		cmd := exec.Command(binary, append([]string{"health"}, args...)...)
		cmd.Env, cmd.Dir = p.environ(), p.work
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	s := p.serve()
	out, code := run("--to", s.socket)
	assert.Equal(t, 0, code)
	assert.Equal(t, "ok\n", out)
	_, code = run("--to", s.socket, "more")
	assert.Equal(t, 2, code)
	_, code = run("--to")
	assert.Equal(t, 2, code)
	assert.Equal(t, 143, s.stop())
	out, code = run("--to", s.socket)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "no daemon answers at "+s.socket)
}

// wsClient is a WebSocket by hand: what is tested is what any client may send.
type wsClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	rest [][]byte // lines of the message that is being read
}

func (s *served) dial(token, protocol string) (*wsClient, string) {
	s.t.Helper()
	return s.dialTo("/v1/ws", token, protocol)
}

func (s *served) dialTo(path, token, protocol string) (*wsClient, string) {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET "+path+" HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s, troupe.auth.%s\r\n\r\n",
		strings.TrimPrefix(s.base, "http://"), protocol, base64.RawURLEncoding.EncodeToString([]byte(token)))
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	require.NoError(s.t, err)
	assert.NotContains(s.t, res.Header.Get("Sec-WebSocket-Protocol"), "auth")
	return &wsClient{t: s.t, conn: c, in: in}, res.Status
}

func (w *wsClient) send(line string) {
	n := len(line)
	head := []byte{0x81, 0x80 | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0} // masked with zeros
	_, err := w.conn.Write(append(head, line...))
	require.NoError(w.t, err)
}

// message is the next one; opcode 8 is the end.
func (w *wsClient) message() (opcode byte, payload []byte) {
	w.t.Helper()
	require.NoError(w.t, w.conn.SetReadDeadline(time.Now().Add(patience)))
	head := make([]byte, 2)
	_, err := io.ReadFull(w.in, head)
	require.NoError(w.t, err)
	n := int(head[1] & 0x7f)
	if more := map[int]int{126: 2, 127: 8}[n]; more > 0 {
		long := make([]byte, more)
		_, err = io.ReadFull(w.in, long)
		require.NoError(w.t, err)
		n = 0
		for _, b := range long {
			n = n<<8 | int(b)
		}
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(w.in, payload)
	require.NoError(w.t, err)
	return head[0] & 0x0f, payload
}

// until reads records up to one of a type.
func (w *wsClient) until(kind string) gjson.Result {
	w.t.Helper()
	for {
		for len(w.rest) > 0 {
			v := gjson.ParseBytes(w.rest[0])
			w.rest = w.rest[1:]
			if v.Get("type").Str == kind || v.Get("id").Str == kind {
				return v
			}
		}
		opcode, payload := w.message()
		require.NotEqual(w.t, byte(8), opcode, "%s did not come", kind)
		if opcode == 9 { // a ping
			_, err := w.conn.Write(append([]byte{0x8a, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...))
			require.NoError(w.t, err)
			continue
		}
		w.rest = bytes.Split(payload, []byte("\n"))
	}
}

// untilClosed reads to the end, which has to be one with this code.
func (w *wsClient) untilClosed(code int) string {
	w.t.Helper()
	var all strings.Builder
	for {
		opcode, payload := w.message()
		if opcode == 8 {
			require.Equal(w.t, code, int(payload[0])<<8|int(payload[1]))
			return all.String()
		}
		all.Write(payload)
	}
}

// revoke withdraws the first device.
func (s *served) revoke() {
	s.t.Helper()
	run := func(args ...string) string {
		cmd := exec.Command(binary, append([]string{"serve"}, args...)...)
		cmd.Env = s.p.environ()
		out, err := cmd.Output()
		require.NoError(s.t, err)
		return string(out)
	}
	run("revoke", strings.Fields(strings.Split(run("devices"), "\n")[1])[0])
}

// TestWebSocket: a conversation of two clients on one session, one of which may only
// watch; its access ends in the middle.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0", "--pair", "view")
	viewToken, scope := s.login(s.code)
	assert.Equal(t, "view", scope)
	raw, err := os.ReadFile(filepath.Join(p.agent(), "troupe", "serve.token"))
	require.NoError(t, err)
	full, status := s.dial(strings.TrimSpace(string(raw)), "troupe.v1")
	require.Contains(t, status, "101")
	view, status := s.dial(viewToken, "troupe.v1.lines")
	require.Contains(t, status, "101")
	_, status = s.dial("wrong", "troupe.v1")
	require.Contains(t, status, "401")

	full.send(`{"id":"open","type":"open_session","retain":true,"permissionMode":"auto"}`)
	handle := full.until("open").Get("data.sessionId").Str
	view.send(`{"id":"hello","type":"hello","features":["seq"]}`)
	assert.Equal(t, "view", view.until("hello").Get("data.scope").Str)
	view.send(`{"id":"attach","type":"attach","sessionId":"` + handle + `"}`)
	assert.True(t, view.until("attach").Get("success").Bool())
	for i, command := range []string{
		`"type":"prompt","message":"x"`, `"type":"abort"`, `"type":"bash","command":"touch made"`, `"type":"set_permission_mode","mode":"auto"`,
		`"type":"close_session"`, `"type":"approval_response","approvalId":"x","optionId":"y"`, `"type":"set_session_name","name":"x"`, `"type":"clear_queue"`,
		`"type":"login","provider":"openai"`, `"type":"logout","provider":"openai"`, `"type":"compact"`, `"type":"new_session"`,
	} {
		id := fmt.Sprint("v", i)
		view.send(`{"id":"` + id + `","sessionId":"` + handle + `",` + command + `}`)
		assert.Equal(t, "forbidden", view.until(id).Get("code").Str, command)
		_, answer := s.ask("POST", "/v1/rpc", `{"id":1,"sessionId":"`+handle+`",`+command+`}`, bearer(viewToken)...)
		assert.Equal(t, "forbidden", gjson.Get(answer, "code").Str, "POST: "+command)
	}
	view.send(`{"id":"new","type":"open_session"}`)
	assert.Equal(t, "forbidden", view.until("new").Get("code").Str)
	assert.NoFileExists(t, filepath.Join(p.work, "made"))

	p.llm.plays(text("all of it"))
	full.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	assert.Equal(t, "all of it", view.until("agent_end").Get("messages.1.content.0.text").Str)
	full.until("agent_end")

	s.revoke()
	view.untilClosed(1008)
	_, status = s.dial(viewToken, "troupe.v1")
	assert.Contains(t, status, "401")
	full.send(`{"id":"still","type":"list_open_sessions"}`)
	assert.Len(t, full.until("still").Get("data.sessions").Array(), 1)
	assert.Equal(t, 143, s.stop())
	full.untilClosed(1001)
}

// TestWithdrawnInMidRun: a device that has begun a run and is withdrawn in the middle of it hears
// nothing more, on no way, and says nothing more: what the run asks then, others answer.
func TestWithdrawnInMidRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	lost, scope := s.login(s.code)
	require.Equal(t, "full", scope)
	p.llm.plays(text("before").and(gate("withdrawn")).and(tool("c1", "bash", `{"command":"touch made"}`)), text("secret"))

	device, _ := s.dial(lost, "troupe.v1")
	device.send(`{"id":"open","type":"open_session","permissionMode":"ask"}`)
	handle := device.until("open").Get("data.sessionId").Str
	of := `"sessionId":"` + handle + `"`
	owner, _ := s.dial(s.token(), "troupe.v1")
	owner.send(`{"id":"attach","type":"attach",` + of + `}`)
	owner.until("attach")
	owner.send(`{"id":"hello","type":"hello","features":["approvals"]}`)
	owner.until("hello")
	stream, err := http.NewRequestWithContext(t.Context(), "GET", s.base+"/v1/events?session="+handle, nil)
	require.NoError(t, err)
	stream.Header.Set("Authorization", "Bearer "+lost)
	heard, err := http.DefaultClient.Do(stream)
	require.NoError(t, err)
	defer heard.Body.Close()
	device.send(`{"id":"p","type":"prompt","message":"go",` + of + `}`)
	for device.until("message_update").Get("assistantMessageEvent.delta").Str != "before" {
	}

	s.revoke()
	rest := device.untilClosed(1008)
	events, err := io.ReadAll(heard.Body) // it ends
	require.NoError(t, err)
	p.llm.open("withdrawn")
	asked := owner.until("approval_request")
	for _, c := range []string{`"type":"approval_response",` + of + `,"approvalId":"` + asked.Get("id").Str + `","optionId":"once"`, `"type":"abort",` + of} {
		status, _ := s.ask("POST", "/v1/rpc", `{"id":1,`+c+`}`, bearer(lost)...)
		assert.Equal(t, 401, status)
	}
	_, status := s.dial(lost, "troupe.v1")
	assert.Contains(t, status, "401")
	assert.NoFileExists(t, filepath.Join(p.work, "made"))

	owner.send(`{"id":"yes","type":"approval_response",` + of + `,"approvalId":"` + asked.Get("id").Str + `","optionId":"once"}`)
	assert.True(t, owner.until("yes").Get("success").Bool())
	assert.Contains(t, owner.until("agent_end").Raw, "secret", "the run has gone on")
	assert.FileExists(t, filepath.Join(p.work, "made"))
	for _, unheard := range []string{"approval_request", "secret"} {
		assert.NotContains(t, rest+string(events), unheard)
	}
	assert.Contains(t, string(events), "before", "the stream had the run")
	assert.Equal(t, 143, s.stop())
}

// TestEventStream: who only wants to hear comes back to where it was.
func TestEventStream(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	token, _ := s.login(s.code)
	_, answer := s.ask("POST", "/v1/rpc", `{"id":1,"type":"open_session","retain":true,"permissionMode":"auto"}`, bearer(token)...)
	handle := gjson.Get(answer, "data.sessionId").Str
	listen := func(last string, until string) (lastID string, types []string) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", s.base+"/v1/events?session="+handle, nil)
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
	p.llm.plays(text("hello"))
	_, answer = s.ask("POST", "/v1/rpc", `{"id":1,"type":"attach","sessionId":"`+handle+`"}`+"\n"+`{"id":2,"type":"prompt","message":"go","sessionId":"`+handle+`"}`, bearer(token)...)
	require.Equal(t, 2, strings.Count(answer, `"success":true`), answer)
	_, types := listen(at, "agent_settled")
	assert.Equal(t, "response", types[0])
	assert.Contains(t, types, "agent_start")
	assert.Equal(t, 143, s.stop())
}

// TestWebSocketOfOneSession: a client that names no session has one of its own, if its address
// says which.
func TestWebSocketOfOneSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0", "--pair", "view", "--permission-mode", "auto")
	token := s.token()
	client, status := s.dialTo("/v1/ws?session=new", token, "troupe.v1")
	require.Contains(t, status, "101")
	p.llm.plays(text("one"))
	client.send(`{"id":"p","type":"prompt","message":"go"}`)
	assert.False(t, client.until("agent_end").Get("sessionId").Exists())
	client.send(`{"id":"s","type":"get_state"}`)
	id := client.until("s").Get("data.sessionId").Str
	require.NoError(t, client.conn.Close())

	for _, which := range []string{"continue", id} {
		var last gjson.Result
		require.Eventually(t, func() bool { // the first connection still holds the file
			client, status = s.dialTo("/v1/ws?session="+which, token, "troupe.v1")
			require.Contains(t, status, "101")
			client.send(`{"id":"t","type":"get_last_assistant_text"}`)
			last = client.until("t")
			require.NoError(t, client.conn.Close())
			return last.Get("success").Bool()
		}, patience, 10*time.Millisecond)
		assert.Equal(t, "one", last.Get("data.text").Str, which)
	}
	viewer, _ := s.login(s.code)
	for query, of := range map[string]string{"session=new": viewer, "session=../x": token, "session=": token, "session=nosuchsession": token, "token=x": token, "session=new&x=1": token} {
		_, status := s.dialTo("/v1/ws?"+query, of, "troupe.v1")
		assert.Contains(t, status, "400", query)
	}
	assert.Equal(t, 143, s.stop())
}

// TestServePair: further browsers are let in while the daemon runs, each by a code of its own and
// with the rights that were meant; not by a daemon that has no page.
func TestServePair(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	pair := func(args ...string) (string, int) {
		cmd := exec.Command(binary, append([]string{"serve", "pair", "--to", s.socket}, args...)...)
		cmd.Env, cmd.Dir = p.environ(), p.work
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
		assert.Equal(t, s.base, address)
		token, scope := s.login(oneTime)
		assert.Equal(t, of.scope, scope)
		tokens[token] = true
		status, _ := s.ask("POST", "/v1/login", `{"code":"`+oneTime+`"}`)
		assert.Equal(t, 401, status, "a code works once")
		assert.NotContains(t, s.errors(), oneTime)
	}
	assert.Len(t, tokens, 3)
	token, _ := s.login(s.code)
	assert.NotContains(t, tokens, token, "the first code is good all the same")
	for _, wrong := range [][]string{{"all"}, {"full", "view"}, {"--scope"}} {
		out, code := pair(wrong...)
		assert.Equal(t, 2, code, out)
	}
	c, err := net.Dial("unix", s.socket)
	require.NoError(t, err)
	_, err = io.WriteString(c, `{"troupe":"pair","scope":"metrics"}`+"\n")
	require.NoError(t, err)
	said, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Contains(t, string(said), `"success":false`)
	require.Equal(t, 143, s.stop())
	s = p.serve()
	out, code := pair()
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "without --listen")
}
