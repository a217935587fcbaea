package compat

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/protocol"
)

type m = map[string]any

// puppet is a model server under control of the replay, which writes each piece of an answer when
// the trace reaches it.
type puppet struct {
	t         *testing.T
	srv       *httptest.Server
	asks      chan *ask
	summaries chan string // of chat completions, in order
	slow      atomic.Bool // summaries never end, so that the trace can abort them
}

// ask is a request that waits for its answer.
type ask struct {
	body   string
	gone   <-chan struct{}
	writes chan func(http.ResponseWriter) bool // true ends the answer
}

func newPuppet(t *testing.T) *puppet {
	s := &puppet{t: t, asks: make(chan *ask, 100), summaries: make(chan string, 10)}
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `conversation>\n`) { // a request for a summary
			if strings.HasSuffix(r.URL.Path, "/chat/completions") {
				summariseChat(w, <-s.summaries)
			} else if s.slow.Load() {
				<-r.Context().Done()
			} else {
				summarise(w)
			}
			return
		}
		a := &ask{string(body), r.Context().Done(), make(chan func(http.ResponseWriter) bool)}
		s.asks <- a
		for {
			select {
			case write := <-a.writes:
				if write(w) {
					return
				}
			case <-a.gone:
				return
			}
		}
	}))
	t.Cleanup(func() {
		s.srv.CloseClientConnections()
		s.srv.Close()
	})
	return s
}

// summarise answers a request for a summary as the recorder's model server did.
func summarise(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		`{"type":"message_start","message":{"id":"msg_s","usage":{"input_tokens":10,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"## Goal\nmock summary"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":10}}`,
		`{"type":"message_stop"}`,
	} {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", gjson.Get(e, "type").Str, e)
	}
}

// next returns the next request whose client is still connected.
func (s *puppet) next() *ask {
	s.t.Helper()
	timeout := time.After(harness.Patience)
	for {
		select {
		case a := <-s.asks:
			select {
			case <-a.gone:
			default:
				return a
			}
		case <-timeout:
			s.t.Fatal("the model was not asked")
		}
	}
}

func (a *ask) write(t *testing.T, f func(http.ResponseWriter) bool) {
	t.Helper()
	select {
	case a.writes <- f:
	case <-a.gone:
		t.Fatal("the client has hung up before the end of the answer")
	case <-time.After(harness.Patience):
		t.Fatal("the answer could not be written")
	}
}

func (a *ask) fail(t *testing.T, status int, body string) {
	a.write(t, func(w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
		return true
	})
}

// event writes one server-sent event.
func (a *ask) event(t *testing.T, data m, last bool) {
	t.Helper()
	raw, err := json.Marshal(data)
	require.NoError(t, err)
	a.write(t, func(w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", data["type"], raw)
		w.(http.Flusher).Flush()
		return last
	})
}

// replay plays one trace against the binary.
type replay struct {
	t     *testing.T
	p     *harness.Place
	d     *harness.Daemon
	model *puppet
	trace []entry
	name  string

	at      int          // the entry being played
	answer  *ask         // the model's answer in progress
	final   gjson.Result // the message it ends with
	events  int          // lines of output in which events have been matched
	matched map[int]bool // responses that have been matched, by line
	last    int          // line of the last record matched
	exit    int
	ended   bool // stdin is closed
	updates bool // bash_execution_update is on
	modern  bool // a recording of pi 1.x, in its dialect
	chat    bool // the model speaks chat completions
	ahead   bool // the first text of a block was written with its start
}

// modelsOf collects the models that a trace mentions, so that models.json can define them.
func modelsOf(trace []entry) (models []gjson.Result, first string) {
	seen := map[string]bool{}
	add := func(v gjson.Result) {
		if id := v.Get("id").Str; id != "" && !seen[id] {
			seen[id] = true
			models = append(models, v)
		}
	}
	for _, e := range trace {
		e.v.Get("data.models").ForEach(func(_, v gjson.Result) bool { add(v); return true })
	}
	for _, e := range trace {
		if m := e.v.Get("data.model"); m.IsObject() {
			add(m)
			if first == "" {
				first = m.Get("id").Str
			}
		}
		if m := e.v.Get("message"); m.Get("role").Str == "assistant" && first == "" {
			first = m.Get("model").Str
		}
	}
	if first == "" {
		first = "mock-1"
	}
	slices.SortFunc(models, func(a, b gjson.Result) int { return strings.Compare(a.Get("id").Str, b.Get("id").Str) })
	return models, first
}

// modelsJSON is a models.json with the models of a trace.
func modelsJSON(url string, models []gjson.Result, first string) string {
	list := []m{}
	has := false
	for _, v := range models {
		one := m{}
		for _, key := range []string{"id", "name", "reasoning", "input", "cost", "contextWindow", "maxTokens"} {
			if x := v.Get(key); x.Exists() {
				one[key] = x.Value()
			}
		}
		list = append(list, one)
		has = has || v.Get("id").Str == first
	}
	api := "anthropic-messages"
	if len(models) > 0 && models[0].Get("api").Str == chatAPI {
		api, url = chatAPI, url+"/v1"
	}
	if !has {
		list = append(list, m{"id": first, "name": first, "reasoning": first == "mock-2", "input": []string{"text", "image"},
			"contextWindow": 200000, "maxTokens": 4096, "cost": m{"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}})
	}
	raw, _ := json.Marshal(m{"providers": m{"mock": m{"baseUrl": url, "api": api, "apiKey": "sk-mock", "models": list}}})
	return string(raw)
}

// settingsOf returns a settings.json with the retry delay of a trace. The delay is shortened if
// nothing happens during it.
func settingsOf(name string, trace []entry) string {
	delay := int64(2000)
	for _, e := range trace {
		if e.v.Get("type").Str == "auto_retry_start" {
			delay = e.v.Get("delayMs").Int()
			break
		}
	}
	if strings.Contains(name, "steer-during-retry") {
		delay = 300
	}
	if strings.Contains(name, "retry-once") || strings.Contains(name, "exhausted") {
		delay = 1
	}
	retry := true
	for _, x := range unretried {
		retry = retry && x.trace != name
	}
	return fmt.Sprintf(`{"retry":{"enabled":%t,"baseDelayMs":%d,"provider":{"maxRetries":0}},"compaction":{"keepRecentTokens":20,"reserveTokens":1000}}`, retry, delay)
}

func newReplay(t *testing.T, name string, args []string) *replay {
	r := &replay{t: t, name: name, trace: readTrace(t, name), matched: map[int]bool{}, last: -1}
	r.modern, r.chat = strings.HasPrefix(name, "pi152-"), strings.HasPrefix(name, "omp1337-")
	r.model = newPuppet(t)
	r.model.slow.Store(strings.HasSuffix(name, "abort-during-compaction"))
	root := t.TempDir()
	r.p = &harness.Place{T: t, Root: root, Home: root, Work: filepath.Join(root, "work")}
	models, first := modelsOf(r.trace)
	if r.chat {
		models, first = chatModel, "m"
		for _, text := range []string{"the summary", "ok"} {
			r.model.summaries <- text
		}
		r.p.WriteFile("f.txt", "one\ntwo\n")
	}
	if first != "claude-sonnet-4-5" { // else: the trace without a key
		list := modelsJSON(r.model.srv.URL, models, first)
		if strings.HasSuffix(name, "compaction-threshold") {
			list = strings.Replace(list, "200000", "20000", 1)
		}
		r.p.WriteFile(filepath.Join(r.p.AgentDir(), "models.json"), list)
	}
	r.p.WriteFile(filepath.Join(r.p.AgentDir(), "settings.json"), settingsOf(name, r.trace))
	r.p.WriteFile("here", "")
	if !slices.Contains(args, "--models") {
		args = append([]string{"--provider", "mock", "--model", first}, args...)
	}
	r.d = r.p.StartRaw(append([]string{"--mode", "rpc"}, args...)...)
	return r
}

// hello negotiates features before the trace starts.
func (r *replay) hello(params string) {
	if params == "" {
		return
	}
	r.updates = strings.Contains(params, "bashUpdates")
	r.d.Send(`{"type":"hello",` + params[1:])
	line, _ := r.await("hello", 0, func(_ int, v gjson.Result) bool { return v.Get("command").Str == "hello" })
	r.matched[line] = true
}

// run plays the trace to its end.
func (r *replay) run() {
	for r.at = 0; r.at < len(r.trace); r.at++ {
		e := r.trace[r.at]
		switch {
		case e.dir == "in":
			r.in(e)
		case e.dir == "note":
			r.note(e)
		case e.dir == "exit":
			r.exited(e)
		case r.excused(e):
		case e.v.Get("type").Str == "response":
			r.response(e)
		default:
			r.event(e)
		}
	}
	r.leftovers()
}

func (r *replay) in(e entry) {
	for _, x := range sends {
		if strings.Contains(r.name, x.trace) {
			e.raw = strings.ReplaceAll(e.raw, x.old, x.new)
		}
	}
	if e.v.Get("type").Str == "abort_bash" && r.updates {
		r.await("output", 0, func(_ int, v gjson.Result) bool { return v.Get("type").Str == "bash_execution_update" })
	}
	raw := strings.NewReplacer("/HOME/", r.p.Root+"/", "/TMP/", r.p.Root+"/", `"/w/`, `"`+r.p.Work+"/").Replace(e.raw)
	if !e.lit {
		raw += "\n"
	}
	_, err := io.WriteString(r.d.Stdin, raw)
	require.NoError(r.t, err)
}

func (r *replay) note(e entry) {
	switch text := e.v.Str; {
	case text == "stdin EOF":
		r.d.Stdin.Close()
		r.ended = true
	case strings.HasPrefix(text, "SIG"):
		sig := map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP}[text]
		require.NoError(r.t, r.d.Cmd.Process.Signal(sig))
		r.exit, r.ended = 128+int(sig), true
	}
}

func (r *replay) exited(e entry) {
	if !r.ended {
		r.d.Stdin.Close()
	}
	require.Equal(r.t, r.exit, r.d.WaitExit())
}

// excused reports whether troupe intentionally responds differently to a record of the trace. It
// checks troupe's response and marks it as matched.
func (r *replay) excused(e entry) bool {
	if r.modern && (e.v.Get("message.role").Str == "system" || e.v.Get("type").Str == "bash_execution_update" || e.v.Get("type").Str == "entry_appended") {
		return true // the system prompt is not shown as a message; output comes in other pieces
	}
	for _, x := range differs {
		if !strings.Contains(r.name, x.trace) || !strings.Contains(e.raw, x.has) {
			continue
		}
		if x.want == "" {
			return true
		}
		if e.v.Get("type").Str != "response" {
			r.match(x.want, &r.events, func(_ int, v gjson.Result) bool { return r.isEvent(v) })
			return true
		}
		r.await(x.want, 0, func(line int, v gjson.Result) bool {
			if v.Get("type").Str != "response" || r.matched[line] || !strings.Contains(v.Raw, x.want) {
				return false
			}
			if id := e.v.Get("id"); id.Exists() && id.Raw != v.Get("id").Raw {
				return false
			}
			r.matched[line] = true
			return true
		})
		return true
	}
	return r.known(e) || r.handlerFailed(e)
}

// handlerFailed handles errors in a command. pi 0.45 reports every such error as a parse error
// without id. Troupe reports it as an error of that command, with its id.
func (r *replay) handlerFailed(e entry) bool {
	why, failed := strings.CutPrefix(e.v.Get("error").Str, parseError)
	if !failed || e.v.Get("command").Str != "parse" || strings.Contains(why, "JSON") {
		return false
	}
	line, _ := r.await(why, 0, func(line int, v gjson.Result) bool {
		return !r.matched[line] && v.Get("command").Str != "parse" && v.Get("error").Str == why
	})
	r.matched[line] = true
	return true
}

// known reports whether troupe knows a command that pi rejected as unknown in the trace.
func (r *replay) known(e entry) bool {
	name, unknown := strings.CutPrefix(e.v.Get("error").Str, "Unknown command: ")
	if !unknown || protocol.Lookup(name) == nil {
		return false
	}
	line, _ := r.await(name, 0, func(line int, v gjson.Result) bool { return !r.matched[line] && v.Get("command").Str == name })
	r.matched[line] = true
	return true
}

// match takes the next event and checks that it contains a text.
func (r *replay) match(want string, from *int, ok func(int, gjson.Result) bool) {
	line, v := r.await(want, *from, ok)
	*from = line + 1
	require.Contains(r.t, v.Raw, want)
}

// await waits for a matching line of output, starting at line from.
func (r *replay) await(what string, from int, ok func(line int, v gjson.Result) bool) (int, gjson.Result) {
	r.t.Helper()
	line := from - 1
	v, _ := r.d.Wait(from, harness.Clip(what, 300), func(v gjson.Result) bool {
		line++
		return ok(line, v)
	})
	return line, v
}

func (r *replay) response(e entry) {
	id, command := e.v.Get("id"), e.v.Get("command").Str
	line, v := r.await(e.raw, 0, func(line int, v gjson.Result) bool {
		if v.Get("type").Str != "response" || r.matched[line] {
			return false
		}
		if id.Exists() {
			return id.Raw == v.Get("id").Raw && command == v.Get("command").Str
		}
		return command == v.Get("command").Str
	})
	r.matched[line] = true
	r.same(e.v, v, "response")
}

// isEvent reports whether a record is compared. It excludes events that troupe emits in addition to
// pi 0.45, since clients ignore unknown types.
func (r *replay) isEvent(v gjson.Result) bool {
	if r.modern {
		switch v.Get("type").Str {
		case "response", "session_changed", "tool_execution_update", "bash_execution_update", "entry_appended":
			return false
		}
		return true
	}
	switch v.Get("type").Str {
	case "response", "queue_changed", "agent_settled", "session_changed", "tool_execution_update", "bash_execution_update",
		"compaction_start", "compaction_end", "session_info_changed", "thinking_level_changed":
		return false
	}
	for _, x := range also {
		if strings.Contains(r.name, x.trace) && strings.Contains(v.Raw, x.has) {
			return false
		}
	}
	return true
}

func (r *replay) event(e entry) {
	switch e.v.Get("type").Str {
	case "tool_execution_update":
		r.progress(e)
		return
	case "message_start":
		if e.v.Get("message.role").Str == "assistant" {
			r.begin()
		}
	case "message_update":
		r.step(e.v.Get("assistantMessageEvent"))
	case "message_end":
		if e.v.Get("message.role").Str == "assistant" {
			r.finish()
		}
	}
	line, v := r.await(e.raw, r.events, func(_ int, v gjson.Result) bool { return r.isEvent(v) })
	r.events = line + 1
	r.same(e.v, v, e.v.Get("type").Str)
}

// progress waits until a tool has shown as much as in the trace, or has ended. How often it reports
// depends on timing.
func (r *replay) progress(e entry) {
	call := e.v.Get("toolCallId").Str
	r.await(e.raw, r.events, func(_ int, v gjson.Result) bool {
		if v.Get("toolCallId").Str != call {
			return false
		}
		return v.Get("type").Str == "tool_execution_end" ||
			v.Get("type").Str == "tool_execution_update" && v.Get("partialResult.content.0.text").Str == e.v.Get("partialResult.content.0.text").Str
	})
}

var httpError = regexp.MustCompile(`^(\d{3}) (\{.*\})$`)

// begin starts an answer of the model, with the first events that the trace requires.
func (r *replay) begin() {
	steps, input := 0, false
	r.final = gjson.Result{}
	for _, e := range r.trace[r.at+1:] {
		kind := e.v.Get("type").Str
		if kind == "message_end" || kind == "agent_start" {
			r.final = e.v.Get("message")
			break
		}
		if e.dir == "in" || e.dir == "note" {
			input = true
		}
		if kind == "message_update" {
			steps++
		}
	}
	stop, text := r.final.Get("stopReason").Str, r.final.Get("errorMessage").Str
	if stop == "aborted" && steps == 0 && !input {
		r.answer = nil // pi gave up before sending the request
		return
	}
	r.answer = r.model.next()
	if r.chat {
		r.beginChat(text)
		return
	}
	if f := httpError.FindStringSubmatch(text); f != nil {
		status, _ := strconv.Atoi(f[1])
		r.answer.fail(r.t, status, f[2])
		r.answer = nil
		return
	}
	usage := r.final.Get("usage")
	output := int64(1)
	if stop == "aborted" || stop == "error" {
		output = usage.Get("output").Int()
	}
	r.answer.event(r.t, m{"type": "message_start", "message": m{"id": "msg_1", "type": "message", "role": "assistant", "content": []any{},
		"model": "mock", "usage": m{"input_tokens": usage.Get("input").Int(), "output_tokens": output,
			"cache_read_input_tokens": usage.Get("cacheRead").Int(), "cache_creation_input_tokens": usage.Get("cacheWrite").Int()}}}, false)
}

// step writes the events that cause one message_update.
func (r *replay) step(ev gjson.Result) {
	if r.chat {
		r.stepChat(ev)
		return
	}
	index := ev.Get("contentIndex").Int()
	block := ev.Get("partial.content").Array()
	delta := func(d m) m { return m{"type": "content_block_delta", "index": index, "delta": d} }
	start := func(b m) m { return m{"type": "content_block_start", "index": index, "content_block": b} }
	var frames []m
	switch kind := ev.Get("type").Str; kind {
	case "text_start":
		frames = []m{start(m{"type": "text", "text": ""})}
	case "thinking_start":
		frames = []m{start(m{"type": "thinking", "thinking": "", "signature": ""})}
	case "toolcall_start":
		call := r.final.Get(fmt.Sprintf("content.%d", index))
		if index < int64(len(block)) {
			call = block[index]
		}
		frames = []m{start(m{"type": "tool_use", "id": call.Get("id").Str, "name": call.Get("name").Str, "input": m{}})}
	case "text_delta":
		frames = []m{delta(m{"type": "text_delta", "text": ev.Get("delta").Str})}
	case "thinking_delta":
		frames = []m{delta(m{"type": "thinking_delta", "thinking": ev.Get("delta").Str})}
	case "toolcall_delta":
		frames = []m{delta(m{"type": "input_json_delta", "partial_json": ev.Get("delta").Str})}
	case "thinking_end":
		sig := r.final.Get(fmt.Sprintf("content.%d.thinkingSignature", index)).Str
		frames = []m{delta(m{"type": "signature_delta", "signature": sig}), {"type": "content_block_stop", "index": index}}
	case "text_end", "toolcall_end":
		frames = []m{{"type": "content_block_stop", "index": index}}
	default:
		r.t.Fatalf("no such step: %s", kind)
	}
	for _, f := range frames {
		r.answer.event(r.t, f, false)
	}
}

// finish ends the answer.
func (r *replay) finish() {
	a := r.answer
	r.answer = nil
	if a == nil {
		return
	}
	if r.chat {
		r.finishChat(a)
		return
	}
	switch stop := r.final.Get("stopReason").Str; stop {
	case "aborted":
	case "error":
		a.write(r.t, func(w http.ResponseWriter) bool {
			fmt.Fprintf(w, "event: error\ndata: %s\n\n", r.final.Get("errorMessage").Str)
			return true
		})
	default:
		reason := map[string]string{"stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"}[stop]
		a.event(r.t, m{"type": "message_delta", "delta": m{"stop_reason": reason},
			"usage": m{"output_tokens": r.final.Get("usage.output").Int()}}, false)
		a.event(r.t, m{"type": "message_stop"}, true)
	}
}

// leftovers checks that no record is left that the trace does not have.
func (r *replay) leftovers() {
	for line, l := range r.d.Lines() {
		v := gjson.Parse(l)
		if v.Get("type").Str == "response" {
			require.True(r.t, r.matched[line], "a response that the trace does not have: %s", harness.Clip(l, 300))
		} else if r.isEvent(v) {
			require.Less(r.t, line, r.events, "an event that the trace does not have: %s", harness.Clip(l, 300))
		}
	}
}

// extra lists the members that troupe adds to those of pi 0.45.
var extra = []string{
	"runId", "willRetry", "error", "code", "disposition", "responseId", "interruptMode", "queueMode", "autoRetryEnabled",
	"errorKind", "excludeFromContext", "permissionMode", "queuedMessageCount", "durability", "phase", "phaseSince", "waitingFor", "sessionName",
	"fullOutputPath",                // pi 0.45 keeps the whole output only of what is cut by bytes
	"steeringMode",                  // missing in one trace that has set it to undefined
	"estimatedTokensAfter", "usage", // of a compaction; pi 0.87 has them
	"session",      // of get_session_stats, where pi_agent_rust has the totals
	"contextUsage", // likewise; pi 0.74 has it
	"sourceInfo",   // of get_commands, likewise
}

// volatile lists the members whose values are not compared.
var volatile = []string{"timestamp", "sessionId", "phaseSince", "delayMs", "fullOutputPath", "baseUrl", "firstKeptEntryId", "entryId"}

// same compares a record with the record of the trace.
func (r *replay) same(want, got gjson.Result, path string) {
	r.t.Helper()
	diff := ""
	if r.modern {
		diff = r.outline(want, got)
	} else {
		diff = r.diff(want, got, path)
	}
	if diff != "" {
		r.t.Fatalf("%s\nentry %d, want: %s\n     got: %s", diff, r.at+1, harness.Clip(want.Raw, 700), harness.Clip(got.Raw, 700))
	}
}

// outline compares types, subjects and outcomes of records only. Records of pi 1.x have members
// that no seed documents.
func (r *replay) outline(want, got gjson.Result) string {
	for _, key := range []string{
		"type", "command", "success", "error", "toolCallId", "message.role", "message.toolCallId", "willRetry", "attempt", "success",
		"steering", "followUp", "isError", "aborted", "reason", "assistantMessageEvent.type", "assistantMessageEvent.delta",
	} {
		if w, g := want.Get(key), got.Get(key); w.Exists() && w.Raw != g.Raw {
			return fmt.Sprintf("%s: %s, not %s", key, g.Raw, w.Raw)
		}
	}
	if want.Get("type").Str == "message_end" && want.Get("message.stopReason").Str != got.Get("message.stopReason").Str {
		return "stopReason: " + got.Get("message.stopReason").Str
	}
	return ""
}

func (r *replay) diff(want, got gjson.Result, path string) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case slices.Contains(volatile, key), r.apart(path, want):
		return ""
	case key == "path" && strings.HasPrefix(want.Str, "pi-session-") && strings.HasPrefix(got.Str, "pi-session-"):
		return "" // named after the session
	case key == "sessionFile":
		if filepath.Dir(want.Str) != strings.ReplaceAll(filepath.Dir(got.Str), r.cwdName(), "--TMP-work--") &&
			!strings.HasPrefix(got.Str, r.p.Root) {
			return fmt.Sprintf("%s: %s", path, got.Str)
		}
		return ""
	case path == "message_update.message", path == "message_update.assistantMessageEvent.partial":
		return r.diffPartial(got, path)
	case want.IsObject() && got.IsObject():
		return r.diffObjects(want, got, path)
	case want.IsArray() && got.IsArray():
		w, g := want.Array(), got.Array()
		if len(w) != len(g) {
			return fmt.Sprintf("%s: %d elements, not %d", path, len(g), len(w))
		}
		for i := range w {
			if d := r.diff(w[i], g[i], path+"."+strconv.Itoa(i)); d != "" {
				return d
			}
		}
		return ""
	case want.Type == gjson.String && got.Type == gjson.String:
		return r.diffStrings(want.Str, got.Str, path)
	case want.Type == gjson.Number && got.Type == gjson.Number && want.Num == got.Num, want.Raw == got.Raw:
		return ""
	}
	return fmt.Sprintf("%s: %s, not %s", path, harness.Clip(got.Raw, 200), harness.Clip(want.Raw, 200))
}

// apart reports whether troupe's value intentionally differs there.
func (r *replay) apart(path string, want gjson.Result) bool {
	return slices.ContainsFunc(apart, func(x valueApart) bool {
		return strings.Contains(r.name, x.trace) && strings.HasSuffix(path, x.path) && (want.Raw == x.want || x.want == "*")
	})
}

func (r *replay) diffObjects(want, got gjson.Result, path string) (diff string) {
	want.ForEach(func(k, w gjson.Result) bool {
		g := got.Get(gjson.Escape(k.Str))
		if !g.Exists() {
			diff = fmt.Sprintf("%s.%s is missing", path, k.Str)
		} else {
			diff = r.diff(w, g, path+"."+k.Str)
		}
		return diff == ""
	})
	if diff != "" {
		return diff
	}
	got.ForEach(func(k, v gjson.Result) bool {
		if v.Type == gjson.Null {
			return true // pi omits absent members
		}
		if !want.Get(gjson.Escape(k.Str)).Exists() && !slices.Contains(extra, k.Str) && path != "response" && !(r.chat && slices.Contains(extraChat, k.Str)) {
			diff = fmt.Sprintf("%s.%s is not in the trace", path, k.Str)
		}
		return diff == ""
	})
	return diff
}

const parseError = "Failed to parse command: " // followed by the parser's message

var omitted = regexp.MustCompile(`…\(\d+ characters omitted\)…`)

// diffStrings compares texts. The recorder has shortened long texts and replaced paths by
// placeholders.
func (r *replay) diffStrings(want, got, path string) string {
	got = strings.NewReplacer(r.p.Root+"/", "/HOME/", r.cwdName(), "--TMP-work--").Replace(got)
	ok := want == got || strings.HasPrefix(want, parseError) && strings.HasPrefix(got, parseError)
	if cut := omitted.FindStringIndex(want); cut != nil {
		ok = strings.HasPrefix(got, want[:cut[0]]) && strings.HasSuffix(got, want[cut[1]:])
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%s: %q, not %q", path, harness.Clip(got, 300), harness.Clip(want, 300))
}

func (r *replay) cwdName() string {
	return "--" + strings.ReplaceAll(strings.TrimPrefix(r.p.Work, "/"), "/", "-") + "--"
}

// diffPartial compares partial messages with the steps so far instead of the trace. pi's partial
// message is one shared object that may be ahead of the step.
func (r *replay) diffPartial(got gjson.Result, path string) string {
	if got.Get("role").Str != "assistant" || !got.Get("content").IsArray() {
		return path + ": not an assistant message"
	}
	for i, block := range got.Get("content").Array() {
		if !r.final.Exists() {
			continue // the answer in the trace never ended
		}
		final := r.final.Get(fmt.Sprintf("content.%d", i))
		for _, key := range []string{"text", "thinking"} {
			if !strings.HasPrefix(final.Get(key).Str, block.Get(key).Str) {
				return fmt.Sprintf("%s.content.%d: %q is no beginning of %q", path, i, block.Get(key).Str, final.Get(key).Str)
			}
		}
	}
	return ""
}
