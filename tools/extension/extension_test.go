package extension

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"troupe/actors/kernel"
	"troupe/e2e/need"
	words "troupe/protocol/extension"
	"troupe/tools"
	"troupe/tools/testenv"
)

// TestMain is the process of extensions when it is started as that.
func TestMain(m *testing.M) {
	if text := os.Getenv("TROUPE_TEST_EXT_HOST"); text != "" {
		conn, err := FromChild()
		o := testOptions()
		o.Turns = kernel.New() // as in production
		if err == nil {
			err = json.Unmarshal([]byte(text), &o.Limits)
		}
		if err == nil {
			err = Serve(conn, o)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Isolate()
	dir, err := os.MkdirTemp("", "troupe-ext-")
	if err == nil {
		err = os.Setenv("TROUPE_TEST_EXT_CACHE", dir) // for the processes of extensions, too
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // it is temporary
		os.Exit(code)
	}))
}

// newHost is the host of the tests that follow.
var newHost = inlineHost

func inlineHost(_ *testing.T, o Options) words.Host { return NewInline(o) }

// pipedHost is behind frames, in this process.
func pipedHost(t *testing.T, o Options) words.Host {
	ours, theirs := net.Pipe()
	over := make(chan error, 1)
	go func() { over <- Serve(theirs, o) }()
	t.Cleanup(func() { require.NoError(t, <-over) })
	return NewClient(ours, nil)
}

// childHost is in a process of its own.
func childHost(t *testing.T, o Options) words.Host {
	limits, err := json.Marshal(o.Limits)
	require.NoError(t, err)
	turns := kernel.New()
	t.Cleanup(turns.Close) // after the process has ended; its idle goroutines are never collected
	procs := tools.NewProcs(nil)
	t.Cleanup(func() { procs.KillAll(time.Second) })
	return NewChild(ChildOptions{Procs: procs, Env: append(os.Environ(), "TROUPE_TEST_EXT_HOST="+string(limits)), Log: func(line string) { t.Log(line) }, Turns: turns})
}

// nodeHost runs extensions in Node.
func nodeHost(t *testing.T, o Options) words.Host {
	need.Program(t, "node")
	o.Engine = EngineNode
	return NewInline(o)
}

// TestHosts: what holds for a host in this process holds for one behind frames.
func TestHosts(t *testing.T) {
	defer func() { newHost = inlineHost }()
	for name, h := range map[string]func(*testing.T, Options) words.Host{"pipe": pipedHost, "child": childHost, "node": nodeHost} {
		newHost = h
		for test, f := range map[string]func(*testing.T){
			"Gate": TestGate, "Commands": TestCommandsAndDialogs, "Tools": TestTools, "Actions": TestActions, "Exec": TestExec,
			"Loops": TestLoops, "Close": TestClose, "Rebind": TestRebind, "Reload": TestBehindReload,
		} {
			if name == "node" && test == "Loops" {
				continue // TestNodeThatBreaks
			}
			t.Run(name+"/"+test, f)
		}
	}
}

// TestChildDies: every VM says so, and the next one gets another process.
func TestChildDies(t *testing.T) {
	newHost = childHost
	defer func() { newHost = inlineHost }()
	w := load(t, "gate.ts", "exec.ts")
	child := w.host.(*Child)
	w.vm.Call(1, json.RawMessage(`{"type":"tool_call","toolName":"bash","toolCallId":"c","input":{"command":"sudo"}}`))
	wait[words.Op](w)
	child.mu.Lock()
	client, proc := child.client, child.proc
	child.mu.Unlock()
	require.NoError(t, proc.Signal(syscall.SIGKILL))
	require.Equal(t, "the extension host died", wait[words.Gone](w).Why)
	w.vm.Call(2, json.RawMessage(`{"type":"tool_call"}`)) // nobody hears it
	<-client.Over()
	require.Eventually(t, func() bool {
		child.mu.Lock()
		defer child.mu.Unlock()
		return child.client == nil
	}, patience, time.Millisecond)

	child.mu.Lock()
	child.deaths, child.since = 3, time.Now()
	child.mu.Unlock()
	gone := make(chan words.Said, 1)
	child.Open(words.Spec{Again: true}, func(s words.Said) { gone <- s })
	require.Contains(t, (<-gone).(words.Gone).Why, "a moment ago")
	again := make(chan words.Said, 8)
	child.Open(words.Spec{Cwd: w.dir}, func(s words.Said) { again <- s }) // a person wants it now
	require.IsType(t, words.Ready{}, <-again)
}

// world is a VM and what it said.
type world struct {
	t    *testing.T
	host words.Host
	vm   told
	dir  string

	mu     sync.Mutex
	said   []words.Said
	more   chan struct{}
	opened chan struct{} // closed when vm is set
	at     int           // what was waited for so far
	last   uint64

	ready words.Ready
}

// testOptions are with a cache, as in production: to compile the prelude for each VM takes most
// of the time of these tests, with the race detector above all.
func testOptions() Options {
	return Options{Engine: EngineQuick, Limits: DefaultLimits(), CacheDir: os.Getenv("TROUPE_TEST_EXT_CACHE"), Files: &tools.Files{}, Version: "1", PiVersion: "0.87.1", clock: workClock}
}

// workClock returns a clock that measures the work of a VM, independent of the load of the machine. It
// advances by 2 ms each time it is read; the engine reads it after about ten thousand steps.
func workClock() func() time.Duration {
	var now time.Duration
	return func() time.Duration {
		now += 2 * time.Millisecond
		return now
	}
}

// impatient returns options with short limits. Hook and Load are checked after a turn, so that a handler
// or module that needs one turn never reaches them.
func impatient() Options {
	o := testOptions()
	o.Limits.Turn, o.Limits.Hook, o.Limits.Load = 500*time.Millisecond, time.Second, 2*time.Second
	return o
}

// load opens a VM with extensions of testdata and waits until it is ready.
func load(t *testing.T, names ...string) *world {
	return loadSpec(t, words.Spec{}, testOptions(), names...)
}

func loadSpec(t *testing.T, spec words.Spec, o Options, names ...string) *world {
	h := newHost(t, o)
	w := &world{t: t, host: h, dir: t.TempDir(), more: make(chan struct{}, 1), opened: make(chan struct{})}
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	for _, n := range names {
		path, err := filepath.Abs(filepath.Join("testdata", n))
		require.NoError(t, err)
		if filepath.IsAbs(n) {
			path = n
		}
		spec.Entries = append(spec.Entries, words.Entry{Path: path})
	}
	if spec.Cwd == "" {
		spec.Cwd = w.dir
	}
	if spec.Reason == "" {
		spec.Reason = "startup"
	}
	w.vm = told{h.Open(spec, w.sink)}
	close(w.opened)
	w.ready = wait[words.Ready](w)
	return w
}

// TestCallsWaitForSessionStart checks that no handler runs before session_start was told, and that a
// Start of an earlier loading has no effect.
func TestCallsWaitForSessionStart(t *testing.T) {
	h := newHost(t, testOptions())
	defer func() { require.NoError(t, h.Close()) }()
	path := filepath.Join(t.TempDir(), "order.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default (pi) => {
		pi.on("session_start", (e, ctx) => ctx.ui.notify("start " + pi.getActiveTools()));
		pi.on("input", (e, ctx) => ctx.ui.notify("input"));
	}`), 0o600))
	said := make(chan words.Said, 100)
	vm := told{h.Open(words.Spec{Cwd: t.TempDir(), Reason: "startup", Entries: []words.Entry{{Path: path}}}, func(s words.Said) { said <- s })}
	var order []string
	for s := range said {
		switch s := s.(type) {
		case words.Ready:
			vm.Call(2, json.RawMessage(`{"type":"input","text":"x","source":"rpc"}`))
			vm.Say(words.Start{N: s.N + 1, Snapshot: json.RawMessage(`{"activeTools":["later"]}`)})
			vm.Say(words.Start{N: s.N, Snapshot: json.RawMessage(`{"activeTools":["own"]}`)})
		case words.Act:
			var notice struct{ Message string }
			require.NoError(t, json.Unmarshal(s.Args, &notice))
			order = append(order, notice.Message)
		case words.Done:
			require.Equal(t, []string{"start own", "input"}, order)
			return
		default:
		}
	}
}

func (w *world) sink(s words.Said) {
	if r, is := s.(words.Ready); is {
		go func() {
			<-w.opened
			w.vm.Say(words.Start{N: r.N})
		}()
	}
	w.mu.Lock()
	w.said = append(w.said, s)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

const patience = time.Minute

// wait gives the next thing of a kind that the VM says; what it says before is passed over.
func wait[T words.Said](w *world) T {
	w.t.Helper()
	over := time.After(patience)
	for {
		w.mu.Lock()
		for w.at < len(w.said) {
			s := w.said[w.at]
			w.at++
			if x, ok := s.(T); ok {
				w.mu.Unlock()
				return x
			}
		}
		w.mu.Unlock()
		select {
		case <-w.more:
		case <-over:
			var none T
			w.mu.Lock()
			defer w.mu.Unlock()
			require.FailNow(w.t, "waited in vain", "for %T; said: %s", none, show(w.said))
		}
	}
}

func show(list []words.Said) string {
	var b strings.Builder
	for _, s := range list {
		text, _ := json.Marshal(s)
		fmt.Fprintf(&b, "\n%T %s", s, text)
	}
	return b.String()
}

// acts are the acts of this name so far.
func (w *world) acts(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, s := range w.said {
		if a, ok := s.(words.Act); ok && a.Name == name {
			out = append(out, string(a.Args))
		}
	}
	return out
}

func (w *world) failures() []words.Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []words.Failure
	for _, s := range w.said {
		if f, ok := s.(words.Failure); ok {
			f.Path = filepath.Base(f.Path)
			out = append(out, f)
		}
	}
	return out
}

func (w *world) id() uint64 {
	w.last++
	return w.last
}

// call asks the handlers of an event and waits for what they say.
func (w *world) call(event string) words.Done {
	w.t.Helper()
	w.vm.Call(w.id(), json.RawMessage(event))
	return wait[words.Done](w)
}

// tell shows an event and waits until its handlers are through.
func (w *world) tell(event string) {
	w.t.Helper()
	w.vm.Tell(w.id(), json.RawMessage(event))
	wait[words.Told](w)
}

func (w *world) tool(name, args string) words.ToolDone {
	w.t.Helper()
	w.vm.Tool(w.id(), words.ToolCall{ID: "c1", Name: name, Args: json.RawMessage(args)})
	return wait[words.ToolDone](w)
}

// notice waits for the next notify.
func (w *world) notice() string {
	w.t.Helper()
	for {
		a := wait[words.Act](w)
		var r struct{ Method, Message string }
		require.NoError(w.t, json.Unmarshal(a.Args, &r))
		if a.Name == "ui" && r.Method == "notify" {
			return r.Message
		}
	}
}

func TestGate(t *testing.T) {
	o := testOptions()
	o.Limits.Hook = patience // it makes more than 1 MiB, which is slow with the race detector
	w := loadSpec(t, words.Spec{}, o, "gate.ts")
	require.Empty(t, w.ready.Errors)
	require.Equal(t, []string{"tool_call"}, w.ready.Registrations.Listens)
	bash := func(command string) string {
		return `{"type":"tool_call","toolName":"bash","toolCallId":"c","input":{"command":"` + command + `"}}`
	}
	require.JSONEq(t, `{"block":true,"reason":"no rm here"}`, string(w.call(bash("rm x")).Result))
	require.JSONEq(t, `{"block":true,"reason":"the gate broke"}`, string(w.call(bash("throw")).Result))
	require.Nil(t, w.call(bash("date")).Result)
	require.JSONEq(t, `{"input":{"command":"ls -l"}}`, string(w.call(bash("ls")).Result))
	require.Len(t, w.call(bash("long")).Result, 64<<10+len(`{"block":true,"reason":""}`))
	require.Contains(t, string(w.call(bash("huge")).Result), "bytes for the user is more than 1048576")
	require.Empty(t, w.failures(), "a gate that throws has said no; that is no error of the client's")

	for answer, want := range map[string]string{`{"confirmed":true}`: "", `{"cancelled":true}`: `{"block":true}`} {
		w.vm.Call(w.id(), json.RawMessage(bash("sudo x")))
		op := wait[words.Op](w)
		require.Equal(t, "ui", op.Name)
		require.JSONEq(t, `{"method":"confirm","title":"Dangerous","message":"sudo x"}`, string(op.Args))
		w.vm.Answer(op.ID, json.RawMessage(answer), "")
		require.Equal(t, want, string(wait[words.Done](w).Result))
	}
}

// How the words of several handlers become one.
func TestCombination(t *testing.T) {
	w := load(t, "input.ts")
	for _, c := range []struct{ event, want string }{
		{`{"type":"input","text":"ping","source":"rpc"}`, `{"action":"handled"}`},
		{`{"type":"input","text":"?why","source":"rpc"}`, `{"action":"transform","text":"Briefly: why!"}`},
		{`{"type":"input","text":"plain","source":"rpc"}`, ``},
		{`{"type":"before_agent_start","prompt":"p","systemPrompt":"You are."}`,
			`{"messages":[{"customType":"note","content":"first","display":true}],"systemPrompt":"You are. Be kind. Be brief."}`},
		{`{"type":"context","messages":[{"role":"user"},{"role":"custom"}]}`, `{"messages":[{"role":"user"}]}`},
		{`{"type":"tool_result","toolName":"x","content":[],"details":{"n":1},"isError":false}`, `{"details":{"n":2},"content":[{"type":"text","text":"n=2"}]}`},
		{`{"type":"message_end","message":{"role":"assistant","content":"a"}}`, `{"message":{"role":"assistant","content":"a."}}`},
		{`{"type":"before_provider_headers","headers":{"a":"b"}}`, `{"headers":{"a":"b","x-mine":"1","x-gone":null}}`},
		{`{"type":"session_before_switch","reason":"new"}`, `{"cancel":false}`},
	} {
		got := w.call(c.event)
		require.Empty(t, got.Err, c.event)
		if c.want == "" {
			require.Nil(t, got.Result, c.event)
			continue
		}
		require.JSONEq(t, c.want, string(got.Result), c.event)
	}
	require.Len(t, w.failures(), 1)
	require.Equal(t, "message_end handlers must return a message with the same role", w.failures()[0].Message)
	require.Contains(t, string(w.call(`{"type":"resources_discover","reason":"startup"}`).Result), `"skillPaths":[{"path":"/skills"`)
	require.Len(t, w.acts("ui"), 1)
}

func TestCommandsAndDialogs(t *testing.T) {
	w := load(t, "command.ts", "command.ts")
	var names []string
	for _, c := range w.ready.Registrations.Commands {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"ask:1", "fail:1", "new:1", "signal:1", "ask:2", "fail:2", "new:2", "signal:2"}, names)
	require.Equal(t, "Asks everything", w.ready.Registrations.Commands[0].Description)

	w.vm.Command(w.id(), "ask:2", "some words")
	for _, x := range [][2]string{
		{`{"method":"select","title":"Which?","options":["a","b"]}`, `{"value":"b"}`},
		{`{"method":"input","title":"Name","placeholder":"your name","timeout":1000}`, `{"cancelled":true}`},
		{`{"method":"editor","title":"Edit","prefill":""}`, `{"value":""}`},
	} {
		op := wait[words.Op](w)
		require.JSONEq(t, x[0], string(op.Args))
		w.vm.Answer(op.ID, json.RawMessage(x[1]), "")
	}
	require.Empty(t, wait[words.CommandDone](w).Err)
	require.Equal(t, []string{
		`{"method":"setStatus","statusKey":"mine","statusText":""}`, `{"method":"setStatus","statusKey":"mine"}`,
		`{"method":"setWidget","widgetKey":"w","widgetLines":["one","two"],"widgetPlacement":"belowEditor"}`,
		`{"method":"setTitle","title":"title"}`, `{"method":"set_editor_text","text":"text"}`,
		`{"method":"notify","message":"{\"args\":\"some words\",\"picked\":\"b\",\"text\":\"\",\"theme\":\"plain\"}"}`,
	}, w.acts("ui"))

	w.vm.Command(w.id(), "fail:1", "")
	require.Equal(t, "command broke", wait[words.CommandDone](w).Err)

	w.vm.Command(w.id(), "new:1", "")
	op := wait[words.Op](w)
	require.Equal(t, "newSession", op.Name)
	require.JSONEq(t, `{"setup":[{"method":"appendMessage","args":[{"role":"user","content":"hi"}]}]}`, string(op.Args))
	w.vm.Answer(op.ID, json.RawMessage(`{"cancelled":true}`), "")
	require.Equal(t, "cancelled true", w.notice())

	require.Empty(t, wait[words.CommandDone](w).Err)

	w.vm.Command(w.id(), "signal:1", "")
	op = wait[words.Op](w)
	require.Equal(t, op.ID, wait[words.OpCancel](w).ID)
	require.Equal(t, "got false", w.notice())
	w.vm.Answer(op.ID, json.RawMessage(`{"confirmed":true}`), "") // too late
	require.Empty(t, wait[words.CommandDone](w).Err)

	w.vm.Command(w.id(), "nothere", "")
	require.Equal(t, "Unknown command: /nothere", wait[words.CommandDone](w).Err)
}

func TestTools(t *testing.T) {
	w := load(t, "tools.ts")
	text := func(d words.ToolDone) string {
		var r struct{ Content []struct{ Text string } }
		require.NoError(t, json.Unmarshal(d.Result, &r))
		require.Len(t, r.Content, 1)
		return r.Content[0].Text
	}
	require.Equal(t, "hi false", text(w.tool("middle", `{"text":"hi"}`)), "the order of arguments of 0.31 to 0.50")
	require.Equal(t, "7 false", text(w.tool("middle", `{"text":7}`)), "arguments are mended as for every tool")
	require.Equal(t, "", text(w.tool("nothing", `{}`)))
	require.JSONEq(t, `{"content":[],"structuredContent":{"n":5}}`, string(w.tool("shaped", `{"text":"5"}`).Result))
	shaped := w.tool("shaped", `{"text":"6"}`)
	require.True(t, shaped.IsError)
	require.Contains(t, text(shaped), `structuredContent of the tool "shaped" does not fit its outputSchema`)
	for name, want := range map[string]string{"throws": "tool broke", "says_error": "bad", "no_such": "Tool no_such not found"} {
		d := w.tool(name, `{}`)
		require.True(t, d.IsError)
		require.Equal(t, want, text(d))
	}
	d := w.tool("middle", `{"text":{}}`)
	require.True(t, d.IsError)
	require.Contains(t, text(d), "middle")
	require.Equal(t, "done", text(w.tool("late", `{}`)), "updates after the end are nobody's")
	require.Equal(t, "old name", text(w.tool("prepared", `{"txt":"old name"}`)))

	w.vm.Prepare(90, words.ToolCall{ID: "c", Name: "prepared", Args: json.RawMessage(`{"txt":"x"}`)})
	p := wait[words.Prepared](w)
	require.JSONEq(t, `{"text":"x"}`, string(p.Args))
	w.vm.Tool(91, words.ToolCall{ID: "c", Name: "prepared", Args: p.Args, Prepared: true})
	require.Equal(t, "x", text(wait[words.ToolDone](w)))

	w.vm.Tool(92, words.ToolCall{ID: "c", Name: "waits", Args: json.RawMessage(`{}`)})
	require.Nil(t, w.call(`{"type":"agent_end"}`).Result, "a tool that runs holds nobody else")
	w.vm.CancelTool(92)
	d = wait[words.ToolDone](w)
	require.True(t, d.IsError)
	require.Equal(t, "stopped", text(d))

	w.vm.Command(w.id(), "more", "")
	c := wait[words.Changed](w)
	last := c.Registrations.Tools[len(c.Registrations.Tools)-1]
	require.Equal(t, "more", last.Name)
	require.False(t, *last.DefaultActive)
}

// TestRegistrationsBeforeToldAreKnown checks that what handlers of an event register is known when the end of the
// next event is.
func TestRegistrationsBeforeToldAreKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "late.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default (pi) => pi.on("session_start", async () => {
		await new Promise((done) => setTimeout(done, 1));
		pi.registerCommand("late", { handler() {} });
	});`), 0o600))
	w := load(t, path)
	w.vm.Tell(1, json.RawMessage(`{"type":"session_start_over"}`))
	for {
		w.mu.Lock()
		changed := slices.IndexFunc(w.said, func(s words.Said) bool { _, is := s.(words.Changed); return is })
		told := slices.Index(w.said, words.Said(words.Told{N: 1}))
		w.mu.Unlock()
		if told >= 0 {
			require.True(t, changed >= 0 && changed < told, show(w.said))
			return
		}
		<-w.more
	}
}

func TestModules(t *testing.T) {
	w := loadSpec(t, words.Spec{Snapshot: json.RawMessage(`{"model":{"provider":"p","id":"m","api":"x"}}`)}, testOptions(), "modules.ts", "tool.ts")
	require.Empty(t, w.ready.Errors)
	require.JSONEq(t, `{"type":"object","required":["name"],"properties":{"name":{"type":"string","description":"who"},"times":{"type":"number"},
		"tone":{"type":"string","enum":["warm","cold"]}}}`, string(w.ready.Registrations.Tools[0].Parameters))
	d := w.tool("hello", `{"name":"Ann","times":"2"}`)
	require.False(t, d.IsError)
	require.Contains(t, string(d.Result), "Hello, Ann!! from "+w.dir)

	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Seen", r.Header.Get("Content-Type"))
		_, _ = io.Copy(rw, r.Body) // the test sees what came
	}))
	defer server.Close()
	defer httpClient().CloseIdleConnections()
	for name, want := range map[string]string{
		"files": `["text","text","b","string",1,"Text"]`, "spawn": `["typed",3]`, "fetch": `[200,"application/json",{"a":1},"TypeError"]`,
		"clone": `{"when":"1970-01-01T00:00:00.000Z","bytes":1,"url":"1","text":"ü"}`,
	} {
		w.vm.Command(w.id(), name, server.URL)
		require.JSONEq(t, want, w.notice(), name)
		require.Empty(t, wait[words.CommandDone](w).Err)
	}
	w.vm.Command(w.id(), "complete", "")
	op := wait[words.Op](w)
	require.Equal(t, "complete", op.Name)
	require.Contains(t, string(op.Args), `"messages":[{"role":"user","content":"hi","timestamp":0}]`)
	message := `{"role":"assistant","content":[{"type":"text","text":"hello"}],"stopReason":"stop","timestamp":1}`
	w.vm.Part(op.ID, json.RawMessage(`{"type":"text_delta","contentIndex":0,"delta":"hel"}`))
	w.vm.Answer(op.ID, json.RawMessage(message), "")
	require.JSONEq(t, `[{"type":"text","text":"hello"}]`, w.notice())
}

func TestUserBash(t *testing.T) {
	w := load(t, "bash.ts")
	ask := func(command string) {
		w.vm.Call(w.id(), json.RawMessage(`{"type":"user_bash","command":"`+command+`","cwd":"/c","excludeFromContext":false}`))
	}
	run := func(command string) string {
		ask(command)
		d := wait[words.Done](w)
		require.Empty(t, d.Err)
		return string(d.Result)
	}
	require.JSONEq(t, `{"result":{"output":"(interactive)","exitCode":1,"cancelled":false,"truncated":false}}`, run("vim"))
	require.JSONEq(t, `{"result":{"output":"far in /c","exitCode":3,"cancelled":false,"truncated":false}}`, run("far"))
	require.JSONEq(t, `{"block":true,"reason":"user_bash handlers must return operations or a result"}`, run("bad"), "a gate that makes no sense has not said yes")
	require.Empty(t, run("ls"))
	ask("bad")
	require.Equal(t, "user_bash handlers must return operations or a result", wait[words.Failure](w).Message, "nobody but its author learns of it else")
}

func TestMessagesGrow(t *testing.T) {
	w := load(t, "bash.ts")
	w.tell(`{"type":"message_start","message":{"role":"assistant","content":[]}}`)
	for _, step := range []string{
		`{"type":"thinking_delta","contentIndex":0,"delta":"hm"}`, `{"type":"text_start","contentIndex":1}`, `{"type":"text_delta","contentIndex":1,"delta":"he"}`,
		`{"type":"text_delta","contentIndex":1,"delta":"llo"}`, `{"type":"toolcall_end","contentIndex":2,"toolCall":{"type":"toolCall","id":"c","name":"n","arguments":{}}}`,
	} {
		w.tell(`{"type":"message_update","assistantMessageEvent":` + step + `}`)
	}
	var last struct{ Message string }
	list := w.acts("ui")
	require.Len(t, list, 5)
	require.NoError(t, json.Unmarshal([]byte(list[4]), &last))
	require.JSONEq(t, `[[{"type":"thinking","thinking":"hm"},{"type":"text","text":"hello"},{"type":"toolCall","id":"c","name":"n","arguments":{}}],true]`, last.Message)
}

// An extension cannot open dialogs without end.
func TestManyDialogs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "e.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default (pi) => pi.registerCommand("many", { handler: async (_, ctx) => {
		const all = await Promise.all(Array.from({ length: 66 }, () => ctx.ui.confirm("t", "m")));
		ctx.ui.notify(all.filter((x) => x).length + " of " + all.length);
	} })`), 0o600))
	w := loadSpec(t, words.Spec{}, testOptions(), path)
	w.vm.Command(w.id(), "many", "")
	for range 64 {
		w.vm.Answer(wait[words.Op](w).ID, json.RawMessage(`{"confirmed":true}`), "")
	}
	require.Equal(t, "64 of 66", w.notice())
	require.Len(t, w.failures(), 1, "said once, not for each")
}

func TestBus(t *testing.T) {
	w := load(t, "bus.ts")
	w.tell(`{"type":"agent_start"}`)
	require.Equal(t, []string{`{"method":"notify","message":"{\"n\":1,\"seen\":true}"}`}, w.acts("ui"))
	broken := w.failures()
	require.Len(t, broken, 2, "one handler throws, the promise of another is rejected")
	for i, message := range []string{"listener broke", "promise broke"} {
		require.Equal(t, "bus.ts events:ping "+message, broken[i].Path+" "+broken[i].Event+" "+broken[i].Message)
	}
}

func TestTimers(t *testing.T) {
	w := load(t, "timers.ts")
	require.True(t, wait[words.Quiet](w).Quiet)
	w.tell(`{"type":"agent_start"}`)
	require.Equal(t, "timer broke", wait[words.Failure](w).Message)
	require.Equal(t, "three", w.notice())
	require.True(t, wait[words.Quiet](w).Quiet)
	require.Equal(t, []string{`{"method":"notify","message":"micro"}`, `{"method":"notify","message":"three"}`}, w.acts("ui"))
}

// What was written is there for the next read, and what the file has, too.
func TestMirror(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "s.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"session","id":"s1","version":3}
{"type":"message","id":"m1","parentId":null,"message":{"role":"user","content":"hi"}}
{"type":"custom","id":"c1","parentId":"m1","customType":"count","data":{"n":1}}
{"type":"comp`), 0o600))
	w := loadSpec(t, words.Spec{SessionFile: file, Snapshot: json.RawMessage(`{"sessionId":"s1"}`)}, testOptions(), "state.ts")
	w.tell(`{"type":"agent_start"}`)
	require.Equal(t, []string{`{"method":"setStatus","statusKey":"count","statusText":"1"}`, `{"method":"notify","message":"[1,2,3]"}`}, w.acts("ui"))
	require.Len(t, w.acts("appendEntry"), 2)
	w.vm.Entry(json.RawMessage(`{"type":"custom","id":"c2","parentId":"c1","customType":"count","data":{"n":2}}`))
	w.vm.Entry(json.RawMessage(`{"type":"custom","id":"c3","parentId":"c2","customType":"count","data":{"n":3}}`))
	w.tell(`{"type":"agent_end","messages":[]}`)
	require.Equal(t, `{"method":"notify","message":"{\"ids\":[\"m1\",\"c1\",\"c2\",\"c3\"],\"roles\":[\"user\"],\"id\":\"s1\",\"tree\":1}"}`, w.acts("ui")[2])
}

func TestActions(t *testing.T) {
	spec := words.Spec{Flags: map[string]string{"plan": "", "preset": "fast", "other": "x"}, Snapshot: json.RawMessage(`{"thinkingLevel":"off","activeTools":["read","bash"]}`)}
	w := loadSpec(t, spec, testOptions(), "act.ts")
	require.Len(t, w.ready.Registrations.Flags, 2)
	require.Contains(t, string(w.ready.Registrations.Providers[0]), `"functions":["refreshModels"]`)
	w.vm.Tell(w.id(), json.RawMessage(`{"type":"agent_start"}`))
	op := wait[words.Op](w)
	require.JSONEq(t, `{"provider":"p","modelId":"m"}`, string(op.Args))
	w.vm.Answer(op.ID, json.RawMessage(`true`), "")
	wait[words.Told](w)
	var names []string
	w.mu.Lock()
	for _, s := range w.said {
		if a, ok := s.(words.Act); ok {
			names = append(names, a.Name)
		}
	}
	w.mu.Unlock()
	require.Equal(t, []string{"sendMessage", "sendMessage", "sendUserMessage", "setSessionName", "setActiveTools", "setThinkingLevel", "setLabel", "abort", "ui", "ui"}, names)
	require.Equal(t, []string{`{"message":{"customType":"note","content":"hello","display":false},"options":{"triggerTurn":true}}`,
		`{"message":{"customType":"old","content":"h","display":true},"options":{"triggerTurn":true}}`}, w.acts("sendMessage"))
	var r struct{ Message string }
	require.NoError(t, json.Unmarshal([]byte(w.acts("ui")[0]), &r))
	require.JSONEq(t, `{"loading":"Extension runtime not initialized. Action methods cannot be called during extension loading.",
		"early":"none","plan":true,"preset":"fast","name":"named","tools":["read"],"level":"high","ok":true,"label":"here"}`, r.Message)
	require.Contains(t, w.acts("ui")[1], "only there in command handlers")

	w.vm.Invoke(w.id(), "provider:mine", "refreshModels", []json.RawMessage{json.RawMessage(`"m"`), json.RawMessage(`4`)})
	require.JSONEq(t, `{"model":"m","n":5}`, string(wait[words.Done](w).Result))
}

func TestExec(t *testing.T) {
	w := load(t, "exec.ts")
	for args, want := range map[string]string{
		"ok":      `{"stdout":"out","stderr":"err","code":3,"killed":false,"truncated":false}`,
		"missing": `{"stdout":"","stderr":"spawn no-such-program ENOENT","code":1,"killed":false,"truncated":false}`,
		"timeout": `{"stdout":"","stderr":"","code":143,"killed":true,"truncated":false}`,
		"abort":   `{"stdout":"","stderr":"","code":143,"killed":true,"truncated":false}`,
		"crash":   `{"stdout":"","stderr":"","code":139,"killed":false,"truncated":false}`,
		"cut":     `{"stdout":"1234","stderr":"","code":0,"killed":false,"truncated":true}`,
	} {
		w.vm.Command(w.id(), "exec", args)
		require.JSONEq(t, want, w.notice(), args)
		require.Empty(t, wait[words.CommandDone](w).Err)
	}
}

// TestOddDialogs: what is asked in another form than was agreed is asked as it is meant, or
// refused with a reason, and nothing that clients do not know reaches them.
func TestOddDialogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default function (pi) {
		const odd = {
			time: (ui) => ui.confirm("Q", "m", { timeout: "30" }),
			noTime: (ui) => ui.confirm("Q", "m", { timeout: "soon" }),
			none: (ui) => ui.select("Q"),
			text: (ui) => ui.select("Q", "abc"),
			shows: (ui) => { ui.notify("n", "loud"); ui.notify("n", {}); ui.setWidget("w", ["l"], { placement: 7 }); },
		};
		for (const name of Object.keys(odd)) pi.registerCommand(name, { handler: async (_, ctx) => { await odd[name](ctx.ui); } });
	}`), 0o600))
	w := load(t, path)
	for command, record := range map[string]string{
		"time":   `{"method":"confirm","title":"Q","message":"m","timeout":30}`,
		"noTime": `{"method":"confirm","title":"Q","message":"m"}`,
	} {
		w.vm.Command(w.id(), command, "")
		op := wait[words.Op](w)
		require.JSONEq(t, record, string(op.Args))
		w.vm.Answer(op.ID, json.RawMessage(`{"cancelled":true}`), "")
		require.Empty(t, wait[words.CommandDone](w).Err)
	}
	for _, command := range []string{"none", "text"} {
		w.vm.Command(w.id(), command, "")
		require.Equal(t, "ctx.ui.select: the options have to be an array", wait[words.CommandDone](w).Err)
	}
	w.vm.Command(w.id(), "shows", "")
	require.Empty(t, wait[words.CommandDone](w).Err)
	require.Equal(t, []string{`{"method":"notify","message":"n"}`, `{"method":"notify","message":"n"}`, `{"method":"setWidget","widgetKey":"w","widgetLines":["l"]}`}, w.acts("ui"))
}

// TestOddAnswers: a transformation without a text leaves the text as it is, and what has nothing
// to say about a session says nothing.
func TestOddAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default function (pi) {
		pi.on("input", () => ({ action: "transform", images: [] }));
		for (const answer of [7, "yes", [1], () => 1, true]) pi.on("session_before_switch", () => answer);
	}`), 0o600))
	w := load(t, path)
	require.JSONEq(t, `{"action":"transform","text":"as it is","images":[]}`, string(w.call(`{"type":"input","text":"as it is"}`).Result))
	require.Empty(t, w.call(`{"type":"session_before_switch","reason":"new"}`).Result)
}

// TestHalfCharacters: a text that was cut in the middle of a character leaves JSON that every
// client can read.
func TestHalfCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "half.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default function (pi) {
		pi.registerTool({ name: "half", label: "Half", description: "h", parameters: { type: "object", properties: {} }, execute: async () => {
			pi.appendEntry("kept", { cut: "\u{1f600}".slice(0, 1), whole: "\u{1f600}" });
			return { content: [], details: { low: "\u{1f600}".slice(1) + "\\ud83d", both: "\ude00\ud83d" } };
		} });
	}`), 0o600))
	w := load(t, path)
	require.Equal(t, `{"content":[],"details":{"low":"\ufffd\\ud83d","both":"\ufffd\ufffd"}}`, string(w.tool("half", "{}").Result))
	require.Len(t, w.acts("appendEntry"), 1)
	require.Contains(t, w.acts("appendEntry")[0], `{"cut":"\ufffd","whole":"😀"}`)
	for text, want := range map[string]string{
		`"\ud83d\ude00"`: `"\ud83d\ude00"`, `"\ud83d\u0041"`: `"\ufffd\u0041"`, `"\ud83d"`: `"\ufffd"`, `"\\ud83d"`: `"\\ud83d"`,
		`"\ud83`: `"\ud83`, `"\ud7ff\ude00"`: `"\ud7ff\ufffd"`, `"\`: `"\`,
	} {
		require.Equal(t, want, string(wellFormed(text)))
	}
}

// What an extension does wrong ends nothing but itself.
func TestLoops(t *testing.T) {
	w := loadSpec(t, words.Spec{}, impatient(), "bad_loop.ts")
	w.tell(`{"type":"agent_start"}`)
	require.Equal(t, []words.Failure{{Path: "bad_loop.ts", Event: "agent_start", Message: "interrupted: it ran for 500ms without a break"}}, w.failures())
	d := w.call(`{"type":"tool_call","toolName":"bash","input":{}}`)
	require.Equal(t, "interrupted: it ran for 500ms without a break", d.Err, "a gate that did not end has not said yes")
	w.tell(`{"type":"agent_end"}`)
	require.Equal(t, []string{`{"method":"notify","message":"alive"}`}, w.acts("ui"))

	w.vm.Tell(w.id(), json.RawMessage(`{"type":"turn_start"}`))
	wait[words.Ready](w) // jobs without end: the VM begins anew
	w.tell(`{"type":"agent_end"}`)
	require.Len(t, w.acts("ui"), 2)
}

func TestFailingHandlers(t *testing.T) {
	w := loadSpec(t, words.Spec{}, impatient(), "bad_rejects.ts")
	w.tell(`{"type":"agent_start"}`)
	w.tell(`{"type":"agent_end"}`)
	require.Equal(t, []string{`{"method":"notify","message":"next"}`}, w.acts("ui"))
	w.tell(`{"type":"turn_start"}`)
	require.True(t, w.call(`{"type":"tool_call","toolName":"bash","input":{}}`).TimedOut)
	w.call(`{"type":"turn_end"}`)
	require.Contains(t, w.call(`{"type":"session_before_tree","preparation":{}}`).Err, "circular")
	var events []string
	for _, f := range w.failures() {
		events = append(events, f.Event+": "+f.Message)
	}
	require.Equal(t, []string{
		"unhandledRejection: nobody cares", "agent_end: handler broke", "turn_start: timed out after 1s", "tool_call: timed out after 1s",
	}, events[:4])
	require.Len(t, events, 6)
	require.Contains(t, events[4], "turn_end: ")
	require.Contains(t, events[5], "session_before_tree: circular")
}

func TestHeapThatStaysFull(t *testing.T) {
	o := testOptions()
	o.Limits.Turn, o.Limits.Memory = time.Minute, 8<<20
	w := loadSpec(t, words.Spec{}, o, "bad_memory.ts")
	w.vm.Tell(w.id(), json.RawMessage(`{"type":"turn_end"}`))
	wait[words.Told](w)
	wait[words.Ready](w) // it begins anew
	w.tell(`{"type":"agent_end"}`)
	require.Len(t, w.acts("ui"), 1)
	failures := w.failures() // others may tell of what there was no memory for
	require.Contains(t, failures[0].Message, "out of memory")
	require.Equal(t, "the extensions use too much memory", failures[len(failures)-1].Message)
}

func TestRealmOfAnExtensionThatChangesBuiltins(t *testing.T) {
	w := load(t, "bad_realm.ts")
	w.tell(`{"type":"agent_start"}`)
	w.tell(`{"type":"agent_end"}`)
	require.JSONEq(t, `{"block":true,"reason":"bash"}`, string(w.call(`{"type":"tool_call","toolName":"bash","input":{}}`).Result))
	require.Equal(t, []string{`{"method":"notify","message":"still here"}`}, w.acts("ui"))
	require.Empty(t, w.failures())
}

func TestRecycledTooOften(t *testing.T) {
	w := loadSpec(t, words.Spec{}, impatient(), "bad_loop.ts")
	for range 2 {
		w.vm.Tell(w.id(), json.RawMessage(`{"type":"turn_start"}`))
		wait[words.Ready](w)
	}
	w.vm.Tell(w.id(), json.RawMessage(`{"type":"turn_start"}`))
	require.Equal(t, "disabled: jobs of JavaScript did not end", wait[words.Gone](w).Why)
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules/big"), 0o700))
	write("node_modules/big/index.js", `import net, { Server } from "node:tls"; import * as all from "http2"; class Mine extends Server {}
		export let used = "no"; try { net.createServer() } catch (e) { used = e.message + " " + typeof all.constants.x + " " + typeof Mine }`)
	o := impatient()
	w := loadSpec(t, words.Spec{}, o,
		write("syntax.ts", "let a = 1;\nlet b = ;"),
		write("throws.ts", "\n\nthrow new Error('at load')"),
		write("factory.ts", "export default (pi) => { pi.on('tool_call', () => {}); pi.registerTool({name: 'x', parameters: {type: 'object'}, execute() {}}); throw new Error('in factory') }"),
		write("none.ts", "export const x = 1"),
		write("never.ts", "export default () => new Promise(() => {})"),
		write("loop.ts", "for (;;);"),
		write("node.ts", "import http from 'node:http'; export default () => http.createServer()"),
		write("stub.ts", "import { used } from 'big'; export default (pi) => pi.registerCommand(used, {handler() {}})"),
		write("package.ts", "import x from 'no-such-package'; export default () => x"),
		write("schema.ts", "export default (pi) => pi.registerTool({name: 'y', parameters: {type: 'string'}, execute() {}})"),
		write("awaits.ts", "const x = await Promise.resolve(1); export default async (pi) => { await x; pi.registerCommand('fine', {handler() {}}) }"),
		write("common.cjs", "module.exports = (pi) => pi.registerCommand(require('troupe:globals') ? 'cjs' : '', {handler() {}})"),
		filepath.Join(dir, "gone.ts"))
	got := map[string]string{}
	for _, e := range w.ready.Errors {
		got[filepath.Base(e.Path)] = strings.ReplaceAll(e.Message, dir+"/", "")
	}
	require.Equal(t, map[string]string{
		"syntax.ts":  `syntax.ts:2:9: Unexpected ";"`,
		"throws.ts":  "at load",
		"factory.ts": "in factory",
		"none.ts":    "Extension does not export a valid factory function: none.ts",
		"never.ts":   "not loaded within 2s",
		"loop.ts":    "interrupted: it ran for 500ms without a break",
		"node.ts":    "node:http.createServer needs Node.js",
		"package.ts": "Cannot find module 'no-such-package'",
		"schema.ts":  `registerTool: parameters of tool "y" must be an object schema (type: "object")`,
		"gone.ts":    "Extension path does not exist: gone.ts",
	}, got)
	require.Contains(t, w.ready.Errors[1].Stack, "throws.ts:3:")
	require.Equal(t, []string{"tool_call"}, w.ready.Errors[2].Gates)
	require.Empty(t, w.ready.Registrations.Listens)
	require.Empty(t, w.ready.Registrations.Tools)
	require.Len(t, w.ready.Registrations.Commands, 3)
	require.Equal(t, "node:tls.createServer needs Node.js function function", w.ready.Registrations.Commands[0].Name)
}

func TestOldHooksAndTools(t *testing.T) {
	w := load(t, "old_tool.ts", "old_hook.ts")
	require.Equal(t, "session start", w.notice())
	require.Equal(t, "session start", w.notice())
	require.JSONEq(t, `{"cancel":true}`, string(w.call(`{"type":"session_before_switch","reason":"new"}`).Result))
	require.Nil(t, w.call(`{"type":"session_before_switch","reason":"resume"}`).Result)
	require.Contains(t, string(w.tool("old", `{}`).Result), w.dir+" true")
}

func TestClose(t *testing.T) {
	w := load(t, "old_tool.ts", "bad_rejects.ts")
	wait[words.Act](w)
	w.vm.Call(7, json.RawMessage(`{"type":"tool_call","toolName":"x","input":{}}`))
	w.vm.Close("quit")
	require.Equal(t, "session shutdown", w.notice())
	require.Equal(t, words.Done{ID: 7, Err: "the session is closed"}, wait[words.Done](w))
	require.Equal(t, words.Gone{}, wait[words.Gone](w))
	w.vm.Call(8, json.RawMessage(`{"type":"tool_call"}`)) // nobody is there, and nothing breaks
}

// The same modules, another session: factories run again, and what the old one gave is stale.
func TestRebind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "e.ts")
	require.NoError(t, os.WriteFile(path, []byte(`
		let runs = 0;
		export default (pi) => {
			const run = ++runs;
			pi.on("session_start", (e, ctx) => ctx.ui.notify(run + " " + e.reason + " " + ctx.cwd));
			pi.registerCommand("next", { handler: async (_, ctx) => {
				await ctx.newSession({ withSession: async (fresh) => {
					let stale = "";
					try { ctx.cwd } catch (e) { stale = e.message }
					fresh.ui.notify(run + " " + fresh.cwd + " " + stale.slice(0, 10));
				} });
			} });
		}`), 0o600))
	w := loadSpec(t, words.Spec{}, testOptions(), path)
	require.Equal(t, "1 startup "+w.dir, w.notice())
	w.vm.Command(w.id(), "next", "")
	op := wait[words.Op](w)
	w.vm.Rebind(words.Spec{Cwd: "/", Reason: "new"})
	wait[words.Ready](w)
	require.Equal(t, "2 new /", w.notice())
	w.vm.Answer(op.ID, json.RawMessage(`{}`), "")
	require.Equal(t, "1 / This exten", w.notice())
}

func TestCacheOfBytecode(t *testing.T) {
	o := testOptions()
	o.CacheDir = t.TempDir()
	for range 2 {
		w := loadSpec(t, words.Spec{}, o, "gate.ts", "bus.ts")
		require.Empty(t, w.ready.Errors)
		require.JSONEq(t, `{"block":true,"reason":"no rm here"}`, string(w.call(`{"type":"tool_call","toolName":"bash","input":{"command":"rm"}}`).Result))
		require.NoError(t, w.host.Close())
	}
	list, err := os.ReadDir(o.CacheDir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(list), 3)
}

// TestNothingBeforeTheGate: while extensions begin anew, what a gate has to see, and what
// else they are asked, waits until they are loaded.
func TestNothingBeforeTheGate(t *testing.T) {
	dir := t.TempDir()
	open, path := filepath.Join(dir, "open"), filepath.Join(dir, "gate.ts")
	require.NoError(t, os.WriteFile(open, nil, 0o600))
	require.NoError(t, os.WriteFile(path, []byte(`
		import { existsSync } from "node:fs";
		export default async function (pi) {
			while (!existsSync("`+open+`")) await new Promise((r) => setTimeout(r, 5));
			pi.on("tool_call", () => ({ block: true, reason: "no" }));
			pi.registerTool({ name: "t", description: "", parameters: { type: "object" }, execute: () => "ran" });
			pi.registerCommand("loop", { handler: async () => { for (;;) await null; } });
			pi.registerCommand("ask", { handler: async (args, ctx) => ctx.ui.notify("said " + await ctx.ui.confirm("?", args)) });
			pi.registerCommand("hello", { handler: (args, ctx) => ctx.ui.notify("hello") });
		}`), 0o600))
	o := impatient()
	o.Limits.Load = patience
	w := loadSpec(t, words.Spec{}, o, path)

	w.vm.Command(w.id(), "ask", "before")
	stale := wait[words.Op](w)
	require.NoError(t, os.Remove(open))
	w.vm.Command(w.id(), "loop", "")
	require.Equal(t, stale.ID, wait[words.OpCancel](w).ID, "nobody waits for the answer any more")
	w.at = 0
	for wait[words.Failure](w).Event != "recycle" {
	}
	call, cancelled := w.id(), w.id()
	w.vm.Call(call, json.RawMessage(`{"type":"tool_call","toolCallId":"c","toolName":"bash","input":{}}`))
	w.vm.Command(w.id(), "hello", "")
	w.vm.Tool(cancelled, words.ToolCall{ID: "c", Name: "t", Args: json.RawMessage(`{}`)})
	w.vm.CancelTool(cancelled)
	w.vm.Tool(w.id(), words.ToolCall{ID: "c", Name: "t", Args: json.RawMessage(`{}`)})
	require.NoError(t, os.WriteFile(open, nil, 0o600))

	require.NotEqual(t, cancelled, wait[words.ToolDone](w).ID)
	done := wait[words.Done](w)
	require.Equal(t, call, done.ID)
	require.JSONEq(t, `{"block":true,"reason":"no"}`, string(done.Result))
	require.Contains(t, w.acts("ui"), `{"method":"notify","message":"hello"}`)

	again := w.id()
	w.vm.Command(again, "ask", "after")
	asked := wait[words.Op](w)
	w.vm.Answer(stale.ID, json.RawMessage(`{"confirmed":true}`), "")
	w.vm.Answer(asked.ID, json.RawMessage(`{"confirmed":false}`), "")
	for wait[words.CommandDone](w).ID != again {
	}
	require.Contains(t, w.acts("ui"), `{"method":"notify","message":"said false"}`)
}

// TestBehindReload: what a handler does behind ctx.reload is done, without its ctx.
func TestBehindReload(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "again.ts"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(path, []byte(`
		import { writeFileSync } from "node:fs";
		export default (pi) => pi.registerCommand("again", { handler: async (out, ctx) => {
			await ctx.reload();
			try { ctx.ui.notify("no"); } catch (e) { writeFileSync(out, e.message); }
		} });`), 0o600))
	w := load(t, path)
	w.vm.Command(w.id(), "again", out)
	require.Equal(t, "reload", wait[words.Op](w).Name)
	require.NoFileExists(t, out)
	w.vm.Close("reload")
	wait[words.Gone](w)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(text), "stale")
	require.Empty(t, w.acts("ui"))
}

// TestDialogTimeouts: the timeout of a dialog is what a timer of Node's takes.
func TestDialogTimeouts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ask.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default (pi) => pi.registerCommand("ask", { handler: (a, ctx) => ctx.ui.confirm("T", "M", { timeout: Number(a) }) });`), 0o600))
	w := load(t, path)
	for given, want := range map[string]string{"1500.5": "1500", "-5": "1", "0.5": "1", "0": "", "x": "", "1e12": "2147483647"} {
		w.vm.Command(w.id(), "ask", given)
		op := wait[words.Op](w)
		var r struct{ Timeout json.RawMessage }
		require.NoError(t, json.Unmarshal(op.Args, &r))
		require.Equal(t, want, string(r.Timeout), given)
		w.vm.Answer(op.ID, json.RawMessage(`{"cancelled":true}`), "")
		require.Empty(t, wait[words.CommandDone](w).Err)
	}
}

// TestNamespaces: what import * gives of a module of the host is one object for all extensions,
// with all of its members, and each has what it had before.
func TestNamespaces(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "one.ts")
	require.NoError(t, os.WriteFile(one, []byte(`
		import * as path from "node:path";
		import events, { EventEmitter } from "node:events";
		globalThis.seen = path;
		export default (pi) => pi.registerCommand("one", { handler: async (_a, ctx) => ctx.ui.notify(JSON.stringify(
			[Object.keys(path).includes("join"), path.default.join === path.join, new EventEmitter() instanceof events])) });
	`), 0o600))
	two := filepath.Join(dir, "two.ts")
	require.NoError(t, os.WriteFile(two, []byte(`
		import * as path from "node:path";
		export default (pi) => pi.registerCommand("two", { handler: async (_a, ctx) => ctx.ui.notify(JSON.stringify([globalThis.seen === path])) });
	`), 0o600))
	w := load(t, one, two)
	require.Empty(t, w.ready.Errors)
	for name, want := range map[string]string{"one": `[true,true,true]`, "two": `[true]`} {
		w.vm.Command(w.id(), name, "")
		require.JSONEq(t, want, w.notice(), name)
		require.Empty(t, wait[words.CommandDone](w).Err)
	}
}

// TestWarm: the process that was begun beforehand is the one in which the first VM begins.
func TestWarm(t *testing.T) {
	procs := tools.NewProcs(nil)
	defer procs.KillAll(time.Second)
	limits, err := json.Marshal(DefaultLimits())
	require.NoError(t, err)
	all := NewChildren(ChildOptions{Procs: procs, Env: append(os.Environ(), "TROUPE_TEST_EXT_HOST="+string(limits)), Log: func(string) {}})
	all.Warm()
	child := all.list[tools.Sandbox{}]
	proc := child.proc
	require.NotNil(t, proc)
	said := make(chan words.Said, 8)
	all.Open(words.Spec{Cwd: t.TempDir()}, func(s words.Said) { said <- s })
	require.IsType(t, words.Ready{}, <-said)
	child.mu.Lock()
	require.Same(t, proc, child.proc)
	child.mu.Unlock()
	require.NoError(t, all.Close())
}

// TestDialogsEndWithWhoAsks: when nobody waits any more for a handler or a tool, the person
// whom it asks is not asked any more, and it asks nobody else until it is through.
func TestDialogsEndWithWhoAsks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(path, []byte(`
		export default (pi) => {
			const ask = async (ui, what) => ui.notify(what + " " + await ui.confirm(what) + " " + await ui.confirm("again"));
			pi.on("before_agent_start", (e, ctx) => ask(ctx.ui, "hook"));
			pi.on("agent_start", (e, ctx) => ask(ctx.ui, "told"));
			pi.registerTool({ name: "t", description: "", parameters: { type: "object" }, execute: (id, p, s, u, ctx) => ask(ctx.ui, "tool") });
			pi.registerCommand("c", { handler: (a, ctx) => ask(ctx.ui, "command") });
		}`), 0o600))
	w := load(t, path)
	id := w.id()
	hook := func() { w.vm.Call(id, json.RawMessage(`{"type":"before_agent_start","prompt":"p"}`)) }
	for _, tc := range []struct {
		name       string
		begin, end func()
	}{
		{"hook", hook, func() { w.vm.CancelCall(id) }},
		{"told", func() { w.vm.Tell(1, json.RawMessage(`{"type":"agent_start"}`)) }, w.vm.AbortRun},
		{"tool", func() { w.vm.Tool(id, words.ToolCall{ID: "c", Name: "t", Args: json.RawMessage(`{}`)}) }, func() { w.vm.CancelTool(id) }},
		{"hook", hook, func() { w.vm.CancelCall(id) }},
		{"command", func() { w.vm.Command(id, "c", "") }, func() { w.vm.Rebind(words.Spec{Cwd: w.t.TempDir(), Entries: []words.Entry{{Path: path}}}) }},
	} {
		tc.begin()
		asked := wait[words.Op](w)
		tc.end()
		require.Equal(t, asked.ID, wait[words.OpCancel](w).ID, tc.name)
		require.Equal(t, tc.name+" false false", w.notice())
		id = w.id()
	}
}

// TestAbsentMembers: what an extension leaves out is not in the record, neither as a text
// that says so nor as an empty one.
func TestAbsentMembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(path, []byte(`
		export default (pi) => pi.registerCommand("c", { handler: async (a, { ui }) => {
			ui.notify(); ui.setTitle(undefined); ui.setStatus("k"); ui.setWidget("w"); ui.setEditorText();
			ui.notify(""); ui.setTitle("");
			await Promise.all([ui.select(undefined, []), ui.confirm("t"), ui.confirm(), ui.input(), ui.editor(), ui.confirm("", "")]);
		} });`), 0o600))
	w := load(t, path)
	w.vm.Command(w.id(), "c", "")
	var asked []string
	for range 6 {
		op := wait[words.Op](w)
		asked = append(asked, string(op.Args))
		w.vm.Answer(op.ID, json.RawMessage(`{"cancelled":true}`), "")
	}
	require.Empty(t, wait[words.CommandDone](w).Err)
	require.Equal(t, []string{
		`{"method":"notify"}`, `{"method":"setTitle"}`, `{"method":"setStatus","statusKey":"k"}`, `{"method":"setWidget","widgetKey":"w"}`, `{"method":"set_editor_text"}`,
		`{"method":"notify","message":""}`, `{"method":"setTitle","title":""}`,
	}, w.acts("ui"))
	require.Equal(t, []string{
		`{"method":"select","options":[]}`, `{"method":"confirm","title":"t"}`, `{"method":"confirm"}`, `{"method":"input"}`, `{"method":"editor"}`,
		`{"method":"confirm","title":"","message":""}`,
	}, asked)
}

// TestNothingIsKeptOfEvents: what was made for an event goes with it.
func TestNothingIsKeptOfEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default (pi) => pi.on("turn_start", (event) => event.turnIndex)`), 0o600))
	w := load(t, path)
	tell := func(from, n uint64) int64 {
		for i := from; i < from+n; i++ {
			w.vm.Tell(i, json.RawMessage(`{"type":"turn_start","turnIndex":1}`))
		}
		for told := uint64(0); told < from+n-1; {
			told = wait[words.Told](w).N
		}
		memory := make(chan int64)
		w.vm.VM.(*vm).do(func() {
			js := w.vm.VM.(*vm).realm.engine.(*quickEngine).js
			js.Collect()
			memory <- js.Memory()
		})
		return <-memory
	}
	before := tell(1, 500)
	require.Less(t, tell(501, 2000)-before, int64(64<<10))
}

// told is a VM that is told words by their names.
type told struct{ words.VM }

func (v told) Tell(n uint64, event json.RawMessage)   { v.Say(words.Tell{N: n, Event: event}) }
func (v told) Call(id uint64, event json.RawMessage)  { v.Say(words.Call{ID: id, Event: event}) }
func (v told) CancelCall(id uint64)                   { v.Say(words.CancelCall{ID: id}) }
func (v told) Prepare(id uint64, call words.ToolCall) { v.Say(words.Prepare{ID: id, Call: call}) }
func (v told) Tool(id uint64, call words.ToolCall)    { v.Say(words.RunTool{ID: id, Call: call}) }
func (v told) CancelTool(id uint64)                   { v.Say(words.CancelTool{ID: id}) }
func (v told) Command(id uint64, name, args string) {
	v.Say(words.RunCommand{ID: id, Name: name, Args: args})
}
func (v told) Invoke(id uint64, key, member string, args []json.RawMessage) {
	v.Say(words.Invoke{ID: id, Key: key, Member: member, Args: args})
}
func (v told) Answer(op uint64, result json.RawMessage, err string) {
	v.Say(words.Answer{Op: op, Result: result, Err: err})
}
func (v told) Part(op uint64, event json.RawMessage) { v.Say(words.Part{Op: op, Event: event}) }
func (v told) Entry(entry json.RawMessage)           { v.Say(words.Appended{Entry: entry}) }
func (v told) AbortRun()                             { v.Say(words.AbortRun{}) }
func (v told) Rebind(spec words.Spec)                { v.Say(words.Rebind{Spec: spec}) }
func (v told) Close(reason string)                   { v.Say(words.Close{Reason: reason}) }
