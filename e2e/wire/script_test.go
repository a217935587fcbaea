package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/e2e/history"
	"troupe/protocol"
	"troupe/protocol/schema"
	"troupe/protocol/schema/exampletest"
)

// TestScripts runs testdata/scripts, one file per command. Each line is a step:
//
//	== NAME: --ARGS     a new case with its own home and a daemon with these arguments
//	# …                 a comment
//	file PATH "TEXT"    writes a file; ~ is the home, other paths are in the working directory
//	llm ANSWER          the next answer of the model: text "a" "b", thinking "…", tool ID NAME {…},
//	                    gate NAME, stall, used TOKENS, stop WORD, joined by +; or fail STATUS BODY
//	llm@WORD ANSWER     the same, for a conversation whose first message contains WORD
//	summary "TEXT"      answers every request for a summary
//	> {…}               sends a command; an id is added if it has none
//	>> TEXT             sends a line unchanged
//	< ok {…}            the last command succeeded with this data; < ID ok … names another command
//	< refused "…" CODE  it failed with this error
//	< {…}, < TYPE {…}   the next record that matches, after the last match
//	exact, loose        whether every record after the last command must match the next <
//	example [TITLE]     the last command, or the record matched after it, is in the protocol reference
//	no TYPE {…}         no record since the last mark, or the start, matches
//	mark                sets the mark for no
//	open GATE           opens a gate that an answer of the model waits for
//	asked "…" not "…"   the next request to the model contains these words and not those
//	see PATH "…"        a file contains this text
//	sh COMMAND          the shell command succeeds in the working directory
//	eof, kill           ends the daemon
//	todo < …            a known failure: should hold, but does not yet
//	restart ARGS        starts it again on the same session, after an eof if there was none
//
// In a pattern, an object names the members that must be present. "…" matches any value or, in a
// string or at the end of an array, any rest. "∅" means that the member is absent. "$name" stores a
// value for later lines. $WORK, $HOME and $FILE (the session file) are predefined.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "scripts", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var ran atomic.Int64
	t.Cleanup(func() {
		if int(ran.Load()) == len(files) {
			exampletest.Complete(t, "e2e/wire ")
		}
	})
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			var run *script
			for i, line := range strings.Split(string(raw), "\n") {
				if head, isHead := strings.CutPrefix(line, "=="); isHead {
					run.finish()
					name, args, _ := strings.Cut(head, ": --")
					if args != "" {
						args = "--" + args
					}
					run = newScript(t, filepath.Base(file)+":"+strings.TrimSuffix(name, ":"), strings.Fields(args))
					continue
				}
				if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
					continue
				}
				require.NotNil(t, run, "%s does not begin with ==", file)
				run.line = i + 1
				run.step(line)
			}
			run.finish()
			ran.Add(1)
		})
	}
}

// TestScriptsWhole checks that every command has a script, and that the script sends every
// parameter with a wrong type and omits every required one.
func TestScriptsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, c := range protocol.Commands {
		names[c.Name] = true
		raw, err := os.ReadFile(filepath.Join("testdata", "scripts", c.Name+".txt"))
		if !assert.NoError(t, err, "no script for %s", c.Name) {
			continue
		}
		for _, p := range c.Parameters() {
			name := p.Name
			if p.Required {
				assert.Regexp(t, `(refused |"error":)"Missing `+name, string(raw), "%s without %s", c.Name, name)
			}
			if c.Params.Field(p.Index).Type == reflect.TypeFor[json.RawMessage]() {
				continue // anything goes
			}
			wrong := `(refused |"error":)"(` + name + ` must be|Invalid ` + name + `)`
			assert.Regexp(t, wrong, string(raw), "%s with a wrong %s", c.Name, name)
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "scripts", "*.txt"))
	require.NoError(t, err)
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		assert.True(t, names[name] || slices.Contains(themes, name), "a script for no command: %s", f)
	}
}

// themes lists the scripts that cover more than one command.
var themes = []string{"task", "task_cases", "task_variations", "budget", "isolation", "rules", "examples"}

// script is the case that is running.
type script struct {
	t     *testing.T
	name  string
	line  int
	p     *harness.Place
	args  []string
	d     *harness.Daemon
	vars  map[string]string // by name, as JSON
	last  string            // id of the last command
	sent  int               // records there were before it
	at    int               // after the record matched last
	mark  int
	exact bool
	asked int

	commands map[string]schema.Example // sent, by id
	shown    schema.Example            // the command and record of an example step
}

func newScript(t *testing.T, name string, args []string) *script {
	p := harness.NewPlace(t)
	p.RecordHistory()
	s := &script{t: t, name: name, p: p, args: args, vars: map[string]string{}, commands: map[string]schema.Example{}}
	s.let("WORK", p.Work)
	s.let("HOME", p.Home)
	return s
}

func (s *script) let(name, value string) {
	raw, _ := json.Marshal(value)
	s.vars[name] = string(raw)
}

func (s *script) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s, line %d: %s", s.name, s.line, fmt.Sprintf(format, args...))
}

// finish ends the case and aborts running work.
func (s *script) finish() {
	if s == nil || s.d == nil {
		return
	}
	for _, l := range s.d.Lines() {
		v := gjson.Parse(l)
		row := protocol.Lookup(v.Get("command").Str)
		if row != nil && row.Result == nil && v.Get("data").Exists() && v.Get("code").Str != string(protocol.CodeDialogOver) {
			s.fatalf("data that the table does not have: %s", harness.Clip(l, 300))
		}
	}
	s.d.Send(`{"type":"abort_bash"}`)
	s.d.Send(`{"type":"abort"}`)
	s.end()
	o := history.Options{Concurrency: 32}
	if m := outputLimit.FindStringSubmatch(strings.Join(s.args, " ")); m != nil {
		o.Output, _ = strconv.ParseInt(m[1], 10, 64)
	}
	s.p.CheckHistory(o)
}

var outputLimit = regexp.MustCompile(`--budget output=(\d+)( |$)`)

var variable = regexp.MustCompile(`\$[A-Za-z]+`)

// fill replaces variables by their values. String values lose their quotes.
func (s *script) fill(line string) string {
	return variable.ReplaceAllStringFunc(line, func(v string) string {
		raw, ok := s.vars[v[1:]]
		if !ok && v == "$FILE" {
			raw = s.daemon().OK(`{"type":"get_state"}`).Get("sessionFile").Raw
			ok = true
		}
		if !ok {
			return v
		}
		return strings.Trim(raw, `"`)
	})
}

func (s *script) step(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	if word, is := strings.CutPrefix(verb, "llm@"); is {
		s.p.Model.EnqueueFor(word, s.answer(rest))
		return
	}
	switch verb {
	case ">", ">>":
		s.send(verb, s.fill(rest))
	case "<":
		s.expect(s.fill(rest))
	case "example":
		e := s.shown
		if e.Name == "" {
			s.fatalf("no command and no record precedes the example")
		}
		e.Title, e.From = rest, "e2e/wire "+s.name[:strings.Index(s.name, ":")]
		sessions := strings.NewReplacer("/", "-").Replace(strings.Trim(s.p.Work, "/")) // the name of their directory
		exampletest.Check(s.t, e, s.p.Work, "/home/me/project", s.p.Home, "/home/me", sessions, "home-me-project", s.p.Root, "/home/me")
	case "no":
		s.none(s.pattern(s.fill(rest)))
	case "mark":
		s.mark = s.daemon().Count()
	case "exact":
		s.exact, s.at = true, s.sent
	case "loose":
		s.exact = false
	case "llm":
		s.p.Model.Enqueue(s.answer(rest))
	case "summary":
		s.p.Model.SetSummary(s.words(rest)[0])
	case "open":
		s.p.Model.OpenGate(rest)
	case "asked":
		s.wasAsked(s.words(s.fill(rest)))
	case "file":
		w := s.words(s.fill(rest))
		s.p.WriteFile(s.path(w[0]), w[1])
	case "sh":
		cmd := exec.Command("sh", "-c", s.fill(rest))
		cmd.Dir, cmd.Env = s.p.Work, append(slices.Clone(s.p.Env), "HOME="+s.p.Home)
		if out, err := cmd.CombinedOutput(); err != nil {
			s.fatalf("%s: %v: %s", rest, err, harness.Clip(string(out), 500))
		}
	case "see":
		w := s.words(s.fill(rest))
		raw, err := os.ReadFile(s.path(w[0]))
		if err != nil || !strings.Contains(string(raw), w[1]) {
			s.fatalf("%s: %v: %s", w[0], err, harness.Clip(string(raw), 500))
		}
	case "todo":
		s.t.Logf("%s, line %d, does not hold yet: %s", s.name, s.line, rest)
	case "eof":
		s.file()
		s.end()
	case "kill":
		s.file()
		s.d.Cmd.Process.Kill()
		s.d.WaitExit()
		s.d = nil
	case "restart":
		if s.d != nil {
			s.file()
			s.end()
		}
		s.args = append(strings.Fields(s.fill(rest)), "--session", strings.Trim(s.vars["FILE"], `"`))
		delete(s.vars, "FILE")
	default:
		s.fatalf("no such step: %s", verb)
	}
}

func (s *script) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~"); ok {
		return s.p.Home + rest
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(s.p.Work, p)
	}
	return p
}

func (s *script) daemon() *harness.Daemon {
	if s.d == nil {
		s.d = s.p.Start(s.args...)
		s.at, s.sent, s.mark, s.exact = 0, 0, 0, false
	}
	return s.d
}

// file stores the path of the session file for a restart.
func (s *script) file() {
	s.let("FILE", s.daemon().OK(`{"type":"get_state"}`).Get("sessionFile").Str)
}

func (s *script) end() {
	if code := s.d.Close(); code != 0 {
		s.fatalf("the daemon ended with %d: %s", code, s.d.Stderr())
	}
	s.d = nil
}

func (s *script) send(verb, line string) {
	d := s.daemon()
	if verb == ">" {
		s.last = gjson.Get(line, "id").String()
		if s.last == "" {
			s.last = "line " + strconv.Itoa(s.line)
			line = `{"id":"` + s.last + `",` + strings.TrimPrefix(line, "{")
		}
		if !gjson.Valid(line) {
			s.fatalf("not JSON: %s", line)
		}
	}
	s.sent = d.Count()
	s.shown = schema.Example{}
	if verb == ">" {
		s.shown = schema.Example{Name: gjson.Get(line, "type").Str, Command: json.RawMessage(line)}
		s.commands[s.last] = s.shown
	}
	d.Send(line)
}

// pattern parses TYPE {…} or {…}.
func (s *script) pattern(text string) gjson.Result {
	if text[0] != '{' {
		kind, rest, _ := strings.Cut(text, " ")
		members := strings.TrimPrefix(strings.TrimSpace(rest), "{")
		if members == "" {
			members = "}"
		} else if members != "}" {
			members = "," + members
		}
		text = `{"type":"` + kind + `"` + members
	}
	if !gjson.Valid(text) {
		s.fatalf("not JSON: %s", text)
	}
	return gjson.Parse(text)
}

var answerLine = regexp.MustCompile(`^(?:(\S+) )?(ok|refused)\b ?(.*)$`)

func (s *script) expect(text string) {
	s.t.Helper()
	m := answerLine.FindStringSubmatch(text)
	if m == nil || text[0] == '{' {
		s.record(s.pattern(text))
		return
	}
	id, _ := json.Marshal(s.last)
	if m[1] != "" {
		id, _ = json.Marshal(m[1])
	}
	want := `{"type":"response","id":` + string(id) + `,"success":true,"data":"∅"}`
	switch {
	case m[2] == "ok" && m[3] != "":
		want = strings.Replace(want, `"∅"`, m[3], 1)
	case m[2] == "refused":
		said, data, _ := strings.Cut(m[3], " {")
		w := s.words(said)
		why, _ := json.Marshal(w[0])
		want = `{"type":"response","id":` + string(id) + `,"success":false,"error":` + string(why) + `}`
		if len(w) > 1 {
			want = strings.TrimSuffix(want, "}") + `,"code":"` + w[1] + `"}`
		}
		if data != "" {
			want = strings.TrimSuffix(want, "}") + `,"data":{` + data + "}"
		}
		if len(w) > 2 {
			s.fatalf("refused TEXT CODE {data}, and not %q", w[2:])
		}
	}
	answered := s.commands[gjson.ParseBytes(id).Str]
	if s.exact {
		s.record(s.pattern(want))
		s.shown = schema.Example{Name: answered.Name, Command: answered.Command, Record: s.shown.Record}
		return
	}
	isIt := func(v gjson.Result) bool { return v.Get("type").Str == "response" && v.Get("id").Raw == string(id) }
	what := fmt.Sprintf("%s, line %d: the answer to %s", s.name, s.line, id)
	v, at := s.d.Wait(0, what, isIt)
	if _, again := last(s.d.Lines()[at:], isIt); again {
		s.fatalf("answered twice: %s", id)
	}
	if why := s.match(gjson.Parse(want), v); why != "" {
		s.fatalf("%s\nwant %s\n got %s", why, want, harness.Clip(v.Raw, 2000))
	}
	s.shown = schema.Example{Name: answered.Name, Command: answered.Command, Record: json.RawMessage(v.Raw)}
}

func last(lines []string, ok func(gjson.Result) bool) (v gjson.Result, found bool) {
	for _, l := range lines {
		if x := gjson.Parse(l); ok(x) {
			v, found = x, true
		}
	}
	return v, found
}

// record waits for a matching record. In exact mode the next record must match.
func (s *script) record(want gjson.Result) {
	s.t.Helper()
	d := s.daemon()
	from, near := s.at, ""
	var v gjson.Result
	v, s.at = d.Wait(from, fmt.Sprintf("%s, line %d: %s", s.name, s.line, harness.Clip(want.Raw, 300)), func(v gjson.Result) bool {
		if s.exact {
			return true
		}
		why := s.match(want, v)
		if why != "" && v.Get("type").Str == want.Get("type").Str {
			near = why
		}
		return why == ""
	})
	s.shown = schema.Example{Name: v.Get("type").Str, Record: json.RawMessage(v.Raw)}
	if why := s.match(want, v); why != "" {
		s.fatalf("%s %s\nwant %s\n got %s", why, near, want.Raw, harness.Clip(v.Raw, 2000))
	}
}

func (s *script) none(want gjson.Result) {
	for _, l := range s.daemon().Lines()[s.mark:] {
		if s.match(want, gjson.Parse(l)) == "" {
			s.fatalf("there is one: %s", harness.Clip(l, 1000))
		}
	}
}

// match returns how a value differs from a pattern, or "" if it matches.
func (s *script) match(want, got gjson.Result) string {
	switch {
	case want.Type == gjson.String && want.Str == "∅":
		if got.Exists() {
			return "should be absent: " + harness.Clip(got.Raw, 100)
		}
		return ""
	case !got.Exists():
		return "absent"
	case want.Type == gjson.String && variable.FindString(want.Str) == want.Str && want.Str != "":
		s.vars[want.Str[1:]] = got.Raw // unknown so far, else it would have been filled in
		return ""
	case want.Type == gjson.String && strings.Contains(want.Str, "…"):
		if want.Str == "…" || got.Type == gjson.String && glob(want.Str, got.Str) {
			return ""
		}
	case want.IsObject() && got.IsObject():
		why := ""
		want.ForEach(func(k, w gjson.Result) bool {
			if why = s.match(w, got.Get(gjson.Escape(k.Str))); why != "" {
				why = k.Str + ": " + why
			}
			return why == ""
		})
		return why
	case want.IsArray() && got.IsArray():
		w, g := want.Array(), got.Array()
		if n := len(w); n > 0 && w[n-1].Str == "…" && len(g) >= n-1 {
			w, g = w[:n-1], g[:n-1]
		}
		if len(w) != len(g) {
			return fmt.Sprintf("%d elements, not %d", len(g), len(w))
		}
		for i := range w {
			if why := s.match(w[i], g[i]); why != "" {
				return fmt.Sprintf("%d: %s", i, why)
			}
		}
		return ""
	case want.Type == gjson.Number && got.Type == gjson.Number && want.Num == got.Num,
		want.Type == gjson.String && got.Type == gjson.String && want.Str == got.Str,
		want.Raw == got.Raw:
		return ""
	}
	return harness.Clip(got.Raw, 300) + ", not " + harness.Clip(want.Raw, 300)
}

// glob matches a text against a pattern in which … stands for any text.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "…")
	end := parts[len(parts)-1]
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok || !strings.HasSuffix(text, end) {
		return false
	}
	text = strings.TrimSuffix(text, end)
	for _, p := range parts[1 : len(parts)-1] {
		if _, text, ok = strings.Cut(text, p); !ok {
			return false
		}
	}
	return true
}

// words splits a line at spaces. JSON values stay whole, and strings are unquoted.
func (s *script) words(text string) (words []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := strings.IndexByte(text+" ", ' ')
		word := text[:n]
		if strings.ContainsAny(text[:1], `"{[`) {
			var raw json.RawMessage
			dec := json.NewDecoder(strings.NewReader(text))
			if err := dec.Decode(&raw); err != nil {
				s.fatalf("%s: %v", text, err)
			}
			n, word = int(dec.InputOffset()), string(raw)
			if raw[0] == '"' {
				word = gjson.ParseBytes(raw).Str
			}
		}
		words = append(words, word)
		text = text[n:]
	}
	return words
}

// answer parses the argument of an llm step.
func (s *script) answer(text string) harness.Answer {
	a := harness.Answer{}
	words := s.words(text)
	for len(words) > 0 {
		end := slices.Index(words, "+")
		if end < 0 {
			end = len(words)
		}
		s.part(&a, words[:end])
		words = words[min(end+1, len(words)):]
	}
	return a
}

func (s *script) part(a *harness.Answer, w []string) {
	number := func() int {
		n, err := strconv.Atoi(w[1])
		if err != nil {
			s.fatalf("not a number: %s", w[1])
		}
		return n
	}
	switch w[0] {
	case "text":
		*a = a.Then(harness.Text(w[1:]...))
	case "thinking":
		a.Steps = append(a.Steps, harness.Step{Kind: "thinking", Part: w[1], Signature: "signed"})
	case "tool":
		*a = a.Then(harness.ToolCall(w[1], w[2], w[3]))
	case "gate":
		*a = a.Then(harness.Gate(w[1]))
	case "stall":
		a.Steps = append(a.Steps, harness.Step{Kind: "stall"})
	case "used":
		a.Input = number()
	case "stop":
		a.Stop = w[1]
	case "fail":
		*a = harness.Fail(number(), w[2])
	default:
		s.fatalf("no such answer: %s", w[0])
	}
}

// wasAsked waits for the next request that the script has not checked.
func (s *script) wasAsked(words []string) {
	s.daemon()
	body := s.p.Model.Request(s.asked).Body
	s.asked++
	for i, w := range words {
		isNot := i > 0 && words[i-1] == "not"
		if w != "not" && strings.Contains(body, w) == isNot {
			s.fatalf("request %d: %q: want it %t\n%s", s.asked-1, w, !isNot, harness.Clip(body, 4000))
		}
	}
}
