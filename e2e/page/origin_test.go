package page

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/e2e/browser"
	"troupe/e2e/harness"
)

// TestPageOfOthers checks that a page of another origin has no access, even with a stolen token,
// with DNS rebinding, or by framing the page of the server.
func TestPageOfOthers(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, "--host-resolver-rules=MAP evil.test 127.0.0.1")
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	token := s.Token()
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
	tab.Eval(fmt.Sprintf(attack, s.URL, token, s.Code))
	tab.Until(`window.got !== undefined`)
	assert.Equal(t, "", tab.Eval(`window.got`))

	rebound := strings.Replace(s.URL, "127.0.0.1", "evil.test", 1)
	tab.Load(rebound + "/")
	assert.Contains(t, tab.Eval(`document.body.innerText`), "not a name of this server")
	tab.Eval(fmt.Sprintf(attack, rebound, token, s.Code))
	tab.Until(`window.got !== undefined`)
	got := fmt.Sprint(tab.Eval(`window.got`))
	assert.NotContains(t, got, "sessionId")
	assert.NotContains(t, got, "WebSocket")
	assert.NotContains(t, got, "token")

	_, answer := s.Do("POST", "/v1/rpc", `{"id":1,"type":"list_open_sessions"}`, harness.Bearer(token)...)
	assert.Contains(t, answer, `"sessions":[]`, "nothing was opened")
	ours := b.NewTab(t, 800, 600, "light")
	s.Visit(ours, s.Code) // the code was not used up
	ours.Eval(fmt.Sprintf(attack, s.URL, token, s.Code))
	ours.Until(`window.got !== undefined`)
	got = fmt.Sprint(ours.Eval(`window.got`))
	assert.Contains(t, got, "sessionId", "the same from our own page works")
	assert.Contains(t, got, "WebSocket: open")
	assert.NotContains(t, got, "frame")
	assert.Equal(t, 143, s.Stop())
}
