package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/need"
)

// Firefox is a tab of a headless Firefox, controlled with WebDriver BiDi.
type Firefox struct {
	t       testing.TB
	ws      *websocket.Conn
	context string
	next    int

	mu   sync.Mutex
	said []string
}

var listens = regexp.MustCompile(`WebDriver BiDi listening on (ws://\S+)`)

// StartFirefox starts a headless Firefox, or skips the test if it is not installed.
func StartFirefox(t testing.TB) *Firefox {
	if testing.Short() {
		t.Skip("browser checks are left out of short runs")
	}
	path := need.Program(t, "firefox-esr", "firefox")
	home := t.TempDir()
	cmd := exec.Command(path, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", home, "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "MOZ_HEADLESS=1", "MOZ_DISABLE_CONTENT_SANDBOX=1", "MOZ_CRASHREPORTER_DISABLE=1")
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if at := listens.FindStringSubmatch(lines.Text()); at != nil {
				address <- at[1]
			}
		}
	}()
	f := &Firefox{t: t}
	t.Cleanup(func() {
		if f.ws != nil {
			_ = f.ws.CloseNow()
		}
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	select {
	case at := <-address:
		f.ws, _, err = websocket.Dial(context.Background(), at+"/session", nil)
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "firefox does not listen")
	}
	f.ws.SetReadLimit(64 << 20)
	f.call("session.new", map[string]any{"capabilities": map[string]any{}})
	f.call("session.subscribe", map[string]any{"events": []string{"log.entryAdded"}})
	f.context = f.call("browsingContext.getTree", map[string]any{}).Get("contexts.0.context").Str
	return f
}

// call sends a command and returns its result.
func (f *Firefox) call(method string, params any) gjson.Result {
	f.t.Helper()
	f.next++
	message, err := json.Marshal(map[string]any{"id": f.next, "method": method, "params": params})
	require.NoError(f.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(f.t, f.ws.Write(ctx, websocket.MessageText, message))
	for {
		_, answer, err := f.ws.Read(ctx)
		require.NoError(f.t, err, method)
		v := gjson.ParseBytes(answer)
		switch {
		case v.Get("type").Str == "event":
			f.mu.Lock()
			f.said = append(f.said, v.Get("params.level").Str+": "+v.Get("params.text").Str)
			f.mu.Unlock()
		case v.Get("id").Int() == int64(f.next):
			require.Equal(f.t, "success", v.Get("type").Str, "%s: %s", method, v.Raw)
			return v.Get("result")
		}
	}
}

// Load loads a page.
func (f *Firefox) Load(url string) {
	f.t.Helper()
	f.call("browsingContext.navigate", map[string]any{"context": f.context, "url": url, "wait": "complete"})
}

// Eval returns the value of an expression: a string, a number, a bool or nil.
func (f *Firefox) Eval(expression string) any {
	f.t.Helper()
	r := f.call("script.evaluate", map[string]any{"expression": expression, "target": map[string]any{"context": f.context}, "awaitPromise": true})
	require.Equal(f.t, "success", r.Get("type").Str, "%s: %s", expression, r.Raw)
	return r.Get("result.value").Value()
}

// Until polls a condition until it is true.
func (f *Firefox) Until(condition string) {
	f.t.Helper()
	for end := time.Now().Add(patience); f.Eval(condition) != true; time.Sleep(20 * time.Millisecond) {
		require.True(f.t, time.Now().Before(end), "waited too long for %s\n%s", condition, f.Said())
	}
}

// Said returns all errors and log messages of the page.
func (f *Firefox) Said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, "\n")
}
