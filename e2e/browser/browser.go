// Package browser drives a headless Chromium in tests, since the behaviour of a page's scripts can
// only be tested in a browser.
package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/e2e/need"
)

// Browser is a headless Chromium, controlled over its debugging pipe. No driver program is needed.
type Browser struct {
	cmd   *exec.Cmd
	in    *os.File
	ended chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	events  []event
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// event is an event of a tab.
type event struct {
	Method    string
	SessionID string
	Params    json.RawMessage
}

// patience bounds how long the test waits for a page.
const patience = time.Minute

// Start starts a browser with additional options. It is closed when the test ends.
func Start(t testing.TB, options ...string) *Browser {
	b, err := start(chromium(t), t.TempDir(), options...)
	require.NoError(t, err)
	t.Cleanup(b.quit)
	return b
}

var shared struct {
	once sync.Once
	dir  string
	*Browser
	err error
}

// Shared returns a browser shared by many tests, because starting one takes longer than most tests.
// It stores data by origin, and each test has its own server. [Quit] closes it.
func Shared(t testing.TB) *Browser {
	path := chromium(t)
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "troupe-browser-"); shared.err == nil {
			shared.Browser, shared.err = start(path, shared.dir)
		}
	})
	require.NoError(t, shared.err)
	return shared.Browser
}

// Quit closes the shared browser if it was started.
func Quit() {
	if shared.Browser != nil {
		shared.quit()
	}
	_ = os.RemoveAll(shared.dir)
}

func start(path, dir string, options ...string) (*Browser, error) {
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--remote-debugging-pipe", "--user-data-dir=" + dir,
	}, append(options, "about:blank")...)
	commands, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, answers, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &Browser{cmd: exec.Command(path, args...), in: in, waiting: map[int]chan reply{}, ended: make(chan struct{})}
	b.cmd.Env = append(os.Environ(), "HOME="+dir)    // for its crash reports and caches
	b.cmd.ExtraFiles = []*os.File{commands, answers} // descriptors 3 and 4 of the debugging pipe
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	commands.Close()
	answers.Close()
	go func() { defer close(b.ended); b.read(out) }()
	return b, nil
}

// quit closes the browser, which exits when its debugging pipe is closed.
func (b *Browser) quit() {
	b.in.Close()
	<-b.ended
	_ = b.cmd.Wait()
}

// chromium returns the path of the browser or skips the test.
func chromium(t testing.TB) string {
	if testing.Short() {
		t.Skip("browser checks are left out of short runs")
	}
	return need.Program(t, "chromium", "chromium-browser", "google-chrome", "chrome")
}

// read dispatches messages of the browser until its output ends.
func (b *Browser) read(out io.ReadCloser) {
	defer out.Close()
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		msg, err := r.ReadBytes(0)
		if err != nil {
			break
		}
		var m struct {
			ID int
			reply
			event
		}
		if json.Unmarshal(msg[:len(msg)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.ID == 0 {
			b.events = append(b.events, m.event)
		} else if c := b.waiting[m.ID]; c != nil {
			delete(b.waiting, m.ID)
			c <- m.reply
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.waiting {
		close(c)
	}
	b.waiting = nil
}

// call sends a command to a tab or, with "", to the browser.
func (b *Browser) call(t testing.TB, session, method string, params, result any) {
	t.Helper()
	c := make(chan reply, 1)
	b.mu.Lock()
	gone := b.waiting == nil
	b.next++
	id := b.next
	if !gone {
		b.waiting[id] = c
	}
	b.mu.Unlock()
	require.False(t, gone, "the browser is gone")
	if params == nil {
		params = struct{}{}
	}
	msg, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": session})
	if session == "" {
		msg, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	require.NoError(t, err)
	_, err = b.in.Write(append(msg, 0))
	require.NoError(t, err)
	select {
	case r, ok := <-c:
		require.True(t, ok, "the browser has ended")
		require.Nil(t, r.Error, "%s", method)
		if result != nil {
			require.NoError(t, json.Unmarshal(r.Result, result))
		}
	case <-time.After(patience):
		require.Fail(t, "no answer from the browser", method)
	}
}

// Tab is one page of a browser.
type Tab struct {
	*Browser
	t       testing.TB
	session string
}

// NewTab opens an empty tab of a given size and colour scheme. It has its own window, so that other
// tabs cannot hide it.
func (b *Browser) NewTab(t testing.TB, width, height int, scheme string) *Tab {
	t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &target)
	t.Cleanup(func() { b.call(t, "", "Target.closeTarget", target, nil) })
	var attached struct{ SessionID string }
	b.call(t, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &Tab{b, t, attached.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
	}, nil)
	p.Media("prefers-color-scheme", scheme)
	return p
}

// Media emulates one media feature and resets all others.
func (p *Tab) Media(feature, value string) {
	p.t.Helper()
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": feature, "value": value}}}, nil)
}

// Moving counts elements and pseudo-elements with an animation or a transition.
func (p *Tab) Moving() any {
	p.t.Helper()
	return p.Eval(`[...document.querySelectorAll("*")].flatMap((e) => [undefined, "::before", "::after"].map((part) => getComputedStyle(e, part)))
		.filter((s) => s.transitionDuration.split(", ").some((d) => d !== "0s") || s.animationName !== "none").length`)
}

func (p *Tab) call(method string, params, result any) {
	p.t.Helper()
	p.Browser.call(p.t, p.session, method, params, result)
}

// Fresh resets the tab for another test: it loads an empty page and forgets all events.
func (p *Tab) Fresh(t testing.TB) *Tab {
	again := &Tab{p.Browser, t, p.session}
	again.call("Page.navigate", map[string]any{"url": "about:blank"}, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = slices.DeleteFunc(p.events, func(e event) bool { return e.SessionID == p.session })
	return again
}

// Open loads a page and waits until its script has rendered it.
func (p *Tab) Open(url string) {
	p.t.Helper()
	p.Load(url)
	p.Until(`document.documentElement.dataset.ready === "true"`)
}

// Load loads a page.
func (p *Tab) Load(url string) {
	p.t.Helper()
	p.call("Page.navigate", map[string]any{"url": url}, nil)
	p.Until(`location.href !== "about:blank" && document.readyState === "complete"`)
}

// Until polls a condition until it is true.
func (p *Tab) Until(condition string) {
	p.t.Helper()
	for end := time.Now().Add(patience); p.Eval(condition) != true; time.Sleep(10 * time.Millisecond) {
		require.True(p.t, time.Now().Before(end), "waited too long for %s\n%s", condition, p.Said())
	}
}

// Eval returns the value of an expression.
func (p *Tab) Eval(expression string) any {
	p.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		require.Fail(p.t, "evaluate "+expression, r.ExceptionDetails.Exception.Description)
	}
	return r.Result.Value
}

var codes = map[string]int{"Tab": 9, "Enter": 13}

// Press presses and releases a key.
func (p *Tab) Press(key string) {
	p.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	if len(key) == 1 {
		down["text"] = key
	}
	if code := codes[key]; code > 0 { // these keys have a default action and need a code
		down["windowsVirtualKeyCode"], down["code"] = code, key
		if key == "Enter" {
			down["text"] = "\r"
		}
	}
	p.call("Input.dispatchKeyEvent", down, nil)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// Heard returns the parameters of the tab's events of one kind.
func (p *Tab) Heard(method string) []json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []json.RawMessage
	for _, e := range p.events {
		if e.SessionID == p.session && e.Method == method {
			list = append(list, e.Params)
		}
	}
	return list
}

// Said returns all errors and log messages of the page.
func (p *Tab) Said() string {
	s := ""
	for _, method := range []string{"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"} {
		for _, e := range p.Heard(method) {
			s += fmt.Sprintf("%s %s\n", method, e)
		}
	}
	return s
}

// Requests returns the URLs of all network requests of the page.
func (p *Tab) Requests() []string {
	var urls []string
	for _, raw := range p.Heard("Network.requestWillBeSent") {
		var e struct{ Request struct{ URL string } }
		require.NoError(p.t, json.Unmarshal(raw, &e))
		urls = append(urls, e.Request.URL)
	}
	return urls
}

// Screenshot saves the visible part of the page if SCREENSHOTS names a directory.
func (p *Tab) Screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), p.PNG(), 0o600))
}

// PNG returns a picture of the visible part of the page.
func (p *Tab) PNG() []byte {
	p.t.Helper()
	var shot struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(p.t, err)
	return png
}
