package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/browser"
)

// raw sends bytes and returns the status of the answer; 0 for none.
func (s *served) raw(request string) int {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	require.NoError(s.t, err)
	defer c.Close()
	require.NoError(s.t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, request)
	require.NoError(s.t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// TestHostileRequests: requests as no decent client makes them.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	raw, err := os.ReadFile(filepath.Join(p.agent(), "troupe", "serve.token"))
	require.NoError(t, err)
	host := strings.TrimPrefix(s.base, "http://")
	port := host[strings.LastIndex(host, ":"):]
	auth := "Authorization: Bearer " + strings.TrimSpace(string(raw)) + "\r\n"
	names := "Host: " + host + "\r\n"
	for request, want := range map[string]int{
		"GET /healthz HTTP/1.1\r\n" + names + "\r\n":                                                                                200,
		"GET /healthz HTTP/1.1\r\nHost: LOCALHOST" + port + "\r\n\r\n":                                                              200,
		"GET /healthz HTTP/1.1\r\nHost: localhost." + port + "\r\n\r\n":                                                             403,
		"GET /healthz HTTP/1.0\r\n\r\n":                                                                                             403,
		"GET http://evil.test/healthz HTTP/1.1\r\n" + names + "\r\n":                                                                403,
		"GET /healthz HTTP/1.1\r\nHost: evil.test\r\nX-Forwarded-Host: " + host + "\r\n\r\n":                                        403,
		"GET /healthz HTTP/1.1\r\n" + names + "Host: evil.test\r\n\r\n":                                                             400,
		"GET /healthz HTTP/1.1\r\n" + names + "Origin: " + s.base + "\r\nOrigin: http://evil.test\r\n\r\n":                          403,
		"GET /healthz HTTP/1.1\r\n" + names + "Origin: http://127.0.0.1:9\r\n\r\n":                                                  403,
		"POST /v1/login HTTP/1.1\r\n" + names + "Origin: http://evil.test\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n": 403,
		"GET /v1/rpc HTTP/1.1\r\n" + names + auth + "\r\n":                                                                          405,
		"POST /v1/ws HTTP/1.1\r\n" + names + auth + "Content-Length: 0\r\n\r\n":                                                     405,
		"TRACE / HTTP/1.1\r\n" + names + "\r\n":                                                                                     405,
		"GET /../../etc/passwd HTTP/1.1\r\n" + names + "\r\n":                                                                       404,
		"GET /ui/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + names + "\r\n":                                                            404,
		"GET / HTTP/1.1\r\n" + names + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\n":                                             431,
		"POST /v1/rpc HTTP/1.1\r\n" + names + auth + "Content-Length: 99999999999\r\n\r\n{":                                         413,
		"POST /v1/rpc HTTP/1.1\r\n" + names + strings.Replace(auth, "Bearer", "bearer", 1) + "Content-Length: 0\r\n\r\n":            200,
		"POST /v1/rpc HTTP/1.1\r\n" + names + strings.Replace(auth, "Bearer", "Basic", 1) + "Content-Length: 0\r\n\r\n":             401,
		"POST /v1/rpc HTTP/1.1\r\n" + names + "Authorization: Bearer x\r\n" + auth + "Content-Length: 0\r\n\r\n":                    401,
		"GET /v1/events?session=none HTTP/1.1\r\n" + names + auth + "\r\n":                                                          404,
		"GET /v1/events?session=s1%0Adata:%20x HTTP/1.1\r\n" + names + auth + "\r\n":                                                400,
		"GET /v1/ws HTTP/1.1\r\n" + names + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: troupe.v9\r\n\r\n": 400,
	} {
		assert.Equal(t, want, s.raw(request), "%.200s", request)
	}
	status, _ := s.ask("GET", "/healthz", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, 143, s.stop())
	assert.NotContains(t, s.errors(), "panic")
}

// TestHostileFrames: what no WebSocket says ends it with the code for that, and nobody else's.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	token := s.token()
	bystander, _ := s.dial(token, "troupe.v1")
	const mask = "\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		bytes string
		code  int
	}{
		"not masked":          {"\x81\x02{}", 1002},
		"compressed":          {"\xc1\x82" + mask + "{}", 1002},
		"binary":              {"\x82\x82" + mask + "{}", 1003},
		"an unknown opcode":   {"\x83\x82" + mask + "{}", 1002},
		"half a ping":         {"\x09\x81" + mask + "x", 1002},
		"a ping too long":     {"\x89\xfe\x00\xc8" + mask + strings.Repeat("x", 200), 1002},
		"a rest of nothing":   {"\x80\x82" + mask + "{}", 1002},
		"two at once":         {"\x01\x81" + mask + "{" + "\x81\x81" + mask + "}", 1002},
		"a negative length":   {"\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00" + mask, 1002},
		"a code that is none": {"\x88\x82" + mask + "\x03\xed", 1002},
	} {
		client, status := s.dial(token, "troupe.v1")
		require.Contains(t, status, "101")
		_, err := io.WriteString(client.conn, c.bytes)
		require.NoError(t, err)
		opcode, payload := client.message()
		require.Equal(t, byte(8), opcode, name)
		assert.Equal(t, c.code, int(payload[0])<<8|int(payload[1]), "%s: %s", name, payload[2:])
	}
	long := `{"id":"long","type":"ping","x":"` + strings.Repeat("x", 17<<20) + `"}` // as hello's limits allow
	for i, line := range []string{long, "garbage", "[1,2]", `{"id":` + strings.Repeat("[", 50_000), "{\"type\":\"ping\xff\"}", `{"type":1}`} {
		client, _ := s.dial(token, "troupe.v1")
		client.send(line)
		client.send(fmt.Sprintf(`{"id":"%d","type":"ping"}`, i))
		client.until(fmt.Sprint(i))
	}
	bystander.send(`{"id":"still","type":"ping"}`)
	bystander.until("still")
	assert.Equal(t, 143, s.stop())
	assert.NotContains(t, s.errors(), "panic")
}

// TestPageOfOthers: in a browser a page of another origin gets nothing, not even with a token
// that it has stolen, nor one whose name was bound to this machine, nor one that frames ours.
func TestPageOfOthers(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, "--host-resolver-rules=MAP evil.test 127.0.0.1")
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	token := s.token()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>evil</title><p>evil")
	}))
	t.Cleanup(evil.Close)
	const attack = `(async () => {
		const base = %q, token = %q, got = [];
		const note = (name) => (what) => got.push(name + ": " + what);
		const auth = { method: "POST", headers: { Authorization: "Bearer " + token }, body: '{"id":1,"type":"open_session","retain":true}' };
		await fetch(base + "/v1/rpc", auth).then((r) => r.text()).then(note("fetch"), () => {});
		await fetch(base + "/v1/login", { method: "POST", mode: "no-cors", body: '{"code":%q}' }).then((r) => r.text()).then((text) => text && note("login")(text), () => {});
		await new Promise((done) => {
			const ws = new WebSocket(base.replace("http", "ws") + "/v1/ws", ["troupe.v1", "troupe.auth." + btoa(token).replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_")]);
			ws.onopen = () => { note("WebSocket")("open"); done(); };
			ws.onerror = done;
		});
		const frame = document.createElement("iframe");
		frame.src = base + "/";
		await new Promise((done) => { frame.onload = done; document.body.append(frame); });
		try { if (frame.contentDocument.body.querySelector("#composer")) note("frame")("shown"); } catch { /* it is another origin's */ }
		window.got = got.join("\n");
	})(), 0`
	tab := b.NewTab(t, 800, 600, "light")
	tab.Load(evil.URL + "/")
	tab.Eval(fmt.Sprintf(attack, s.base, token, s.code))
	tab.Until(`window.got !== undefined`)
	assert.Equal(t, "", tab.Eval(`window.got`))

	rebound := strings.Replace(s.base, "127.0.0.1", "evil.test", 1)
	tab.Load(rebound + "/")
	assert.Contains(t, tab.Eval(`document.body.innerText`), "not a name of this server")
	tab.Eval(fmt.Sprintf(attack, rebound, token, s.code))
	tab.Until(`window.got !== undefined`)
	got := fmt.Sprint(tab.Eval(`window.got`))
	assert.NotContains(t, got, "sessionId")
	assert.NotContains(t, got, "WebSocket")
	assert.NotContains(t, got, "token")

	_, answer := s.ask("POST", "/v1/rpc", `{"id":1,"type":"list_open_sessions"}`, bearer(token)...)
	assert.Contains(t, answer, `"sessions":[]`, "nothing was opened")
	ours := b.NewTab(t, 800, 600, "light")
	s.visit(ours, s.code) // the code is not used up
	ours.Eval(fmt.Sprintf(attack, s.base, token, s.code))
	ours.Until(`window.got !== undefined`)
	got = fmt.Sprint(ours.Eval(`window.got`))
	assert.Contains(t, got, "sessionId", "the same from our own page works")
	assert.Contains(t, got, "WebSocket: open")
	assert.NotContains(t, got, "frame")
	assert.Equal(t, 143, s.stop())
}
