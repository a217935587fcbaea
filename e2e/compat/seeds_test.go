package compat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/protocol"
)

// seeds lists the documents in testdata/seeds, with the number of objects that are commands and
// that are responses or events. The counts reveal objects that the parser loses.
var seeds = []struct {
	name              string
	commands, records int
}{
	{"s0", 34, 52}, {"s1", 39, 21}, {"s2", 14, 11}, {"s3", 31, 50}, {"s4", 34, 24},
}

// seedText reads a document. S3 is a diff copied from a web page with line numbers.
func seedText(t *testing.T, name string) string {
	raw, err := os.ReadFile(filepath.Join("testdata", "seeds", name+".txt"))
	require.NoError(t, err)
	if name != "s3" {
		return string(raw)
	}
	var lines []string
	for _, l := range strings.Split(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(l, "+"); ok {
			lines = append(lines, strings.TrimPrefix(rest, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// split sorts the examples of a document by their type member.
func split(doc string) (commands, records []example, types map[string]literal) {
	types = map[string]literal{}
	for _, x := range examples(doc) {
		kind := x.str("type")
		switch {
		case protocol.Lookup(kind) != nil:
			commands = append(commands, x)
		case kind != "" && kind != "image":
			records = append(records, x)
		}
	}
	for _, m := range regexp.MustCompile(`(?:interface|type) (\w+) =? ?\{`).FindAllStringSubmatchIndex(doc, -1) {
		r := reader{text: doc, at: m[1] - 1}
		if l, err := r.term(); err == nil {
			types[doc[m[2]:m[3]]] = l
		}
	}
	return commands, records, types
}

// TestSeedCommands checks every command in a seed, verbatim, with an idle session and with a
// streaming one. It runs with and without the dialect of the seed. For a type, values of that type
// are sent.
func TestSeedCommands(t *testing.T) {
	for _, s := range seeds {
		commands, records, types := split(seedText(t, s.name))
		assert.Equal(t, [2]int{s.commands, s.records}, [2]int{len(commands), len(records)}, "commands and records in %s", s.name)
		said := documented(records, types)
		if s.name == "s1" {
			said["get_state"] = append(said["get_state"], s1State(t))
		}
		for _, dialect := range []string{"union", s.name} {
			t.Run(s.name+" in "+dialect, func(t *testing.T) {
				t.Parallel()
				l := &lab{t: t, said: said, types: types, dialect: dialect}
				l.open()
				for _, x := range commands {
					for _, line := range l.lines(x) {
						l.idle(line)
						l.streaming(line)
					}
				}
				l.fresh()
			})
		}
	}
}

// s1State returns the data of get_state, which S1 shows separately.
func s1State(t *testing.T) literal {
	for _, x := range examples(seedText(t, "s1")) {
		if _, ok := x.get("queuedMessageCount"); ok {
			return x.literal
		}
	}
	t.Fatal("no get_state payload in s1")
	return literal{}
}

// documented returns the response data in a seed, by command.
func documented(records []example, types map[string]literal) map[string][]literal {
	said := map[string][]literal{}
	for _, x := range records {
		data, ok := x.get("data")
		if x.str("type") != "response" || !ok {
			continue
		}
		if named, known := types[data.text]; known && data.kind == 'w' {
			data = named
		}
		said[x.str("command")] = append(said[x.str("command")], data)
	}
	return said
}

// lab is a daemon with a session file that fits the examples of the seeds.
type lab struct {
	t       *testing.T
	p       *harness.Place
	d       *harness.Daemon
	said    map[string][]literal
	types   map[string]literal
	dialect string
	files   int
}

// pixel is an image to replace "..." in the seeds.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func (l *lab) open() {
	l.p = harness.NewPlace(l.t)
	l.p.WriteFile(filepath.Join(l.p.AgentDir(), "settings.json"), `{"compaction":{"keepRecentTokens":5},"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
	l.p.WriteFile(filepath.Join(l.p.AgentDir(), "models.json"), strings.NewReplacer(
		`"mock":`, `"anthropic":`, `"id":"think"`, `"id":"claude-sonnet-4-20250514"`).Replace(l.p.Model.ModelsJSON()))
	l.p.Model.SetSummary("Summary of conversation...")
	l.d = l.p.Start("--dialect", l.dialect, "--provider", "anthropic", "--model", "claude-sonnet-4-20250514", "--thinking", "medium")
}

// fresh resets the session to a known state, with the entry ids that the seeds use.
func (l *lab) fresh() {
	l.d.OK(`{"type":"abort_bash"}`)
	l.d.OK(`{"type":"abort"}`)
	l.d.OK(`{"type":"clear_queue"}`)
	l.p.Model.OpenGates()
	l.p.Model.Clear()
	l.files++
	path := filepath.Join(l.p.Root, fmt.Sprintf("session-%d.jsonl", l.files))
	l.p.WriteFile(path, l.session())
	l.d.OK(`{"type":"switch_session","sessionPath":"` + path + `"}`)
}

func (l *lab) session() string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"session","version":3,"id":"s%d","timestamp":"2026-01-01T00:00:00.000Z","cwd":%q}`+"\n", l.files, l.p.Work)
	parent := "null"
	add := func(id, rest string) {
		fmt.Fprintf(&b, `{"id":%q,"parentId":%s,"timestamp":"2026-01-01T00:00:01.000Z",%s}`+"\n", id, parent, rest)
		parent = `"` + id + `"`
	}
	add("00000001", `"type":"session_info","name":"a name"`)
	for i, id := range []string{"abc123", "def456", "a1b2c3d4"} {
		add(id, `"type":"message","message":{"role":"user","content":[{"type":"text","text":"a prompt of several words"}],"timestamp":1}`)
		add(fmt.Sprint("answer", i), `"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"an answer"}],"api":"anthropic-messages",`+
			`"provider":"anthropic","model":"claude-sonnet-4-20250514","usage":{"input":9,"output":9,"cacheRead":0,"cacheWrite":0,"totalTokens":18,`+
			`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1}`)
	}
	return b.String()
}

// lines returns the lines to send for an example: its own text with real values for placeholders
// or, for a type, values of it.
func (l *lab) lines(x example) []string {
	real := strings.NewReplacer(
		`"data": "..."`, `"data": "`+pixel+`"`,
		"/path/to/session.jsonl", filepath.Join(l.p.Root, "there.jsonl"),
		"/tmp/session.html", filepath.Join(l.p.Root, "session.html"),
	)
	l.p.WriteFile(filepath.Join(l.p.Root, "there.jsonl"), l.session())
	if !gjson.Valid(x.raw) {
		return l.values(x)
	}
	raw := strings.Join(strings.Split(x.raw, "\n"), " ") // one line
	lines := []string{real.Replace(raw)}
	if lines[0] != raw && strings.Contains(raw, `"data"`) || strings.Contains(raw, "/path/to/session.jsonl") {
		lines = append(lines, raw)
	}
	return lines
}

// values returns commands for a type: with its required members, with all members, and with each
// word of every choice.
func (l *lab) values(x example) []string {
	var lines []string
	for _, all := range []bool{false, true} {
		lines = append(lines, l.render(x, all, "", ""))
	}
	for _, m := range x.members {
		if m.value.kind != '|' {
			continue
		}
		for _, choice := range m.value.items {
			lines = append(lines, l.render(x, true, m.name, choice.text))
		}
	}
	return lines
}

func (l *lab) render(x example, all bool, name, choice string) string {
	values := map[string]any{}
	for _, m := range x.members {
		switch {
		case m.optional && !all || m.name == "...":
		case m.name == name:
			values[name] = choice
		case m.value.kind == '"':
			values[m.name] = m.value.text
		case m.value.kind == '|':
			values[m.name] = m.value.items[0].text
		case m.value.text == "boolean" || m.value.text == "true":
			values[m.name] = true
		case m.value.list && m.value.text == "ImageContent":
			values[m.name] = []any{map[string]string{"type": "image", "data": pixel, "mimeType": "image/png"}}
		case m.value.list, m.name == "toolNames":
			values[m.name] = []string{"read"}
		default:
			values[m.name] = l.valueOf(m.name)
		}
	}
	raw, err := json.Marshal(values)
	require.NoError(l.t, err)
	return string(raw)
}

func (l *lab) valueOf(name string) string {
	known := map[string]string{
		"provider": "anthropic", "modelId": "claude-sonnet-4-20250514", "level": "high", "entryId": "abc123", "targetId": "abc123",
		"command": "true", "sessionPath": filepath.Join(l.p.Root, "there.jsonl"), "parentSession": filepath.Join(l.p.Root, "there.jsonl"),
		"outputPath": filepath.Join(l.p.Root, "session.html"), "sessionDir": l.p.Root,
	}
	if v, ok := known[name]; ok {
		return v
	}
	return "some " + name
}

// refusals lists the errors that the seeds document for valid commands, by state of the session and
// command.
var refusals = map[string]string{
	"idle prompt":                `^Invalid image at index 0: `, // "..." is not an image
	"idle switch_session":        `^Session file not found: /path/to/`,
	"streaming prompt":           `^(Agent is already processing|Agent is currently streaming; specify|Invalid image)`,
	"streaming switch_session":   `^Session file not found: /path/to/`,
	"streaming reload_resources": `^Wait for the current response`,
}

// placeholder reports whether a line contains a placeholder and cannot succeed.
func placeholder(line string) bool {
	return strings.Contains(line, `"..."`) || strings.Contains(line, "/path/to/session.jsonl") || line == `{"type":"extension_ui_response"}`
}

func (l *lab) idle(line string) {
	l.fresh()
	l.p.Model.Enqueue(harness.Text("ok"), harness.Text("ok"))
	l.check("idle", line)
}

func (l *lab) streaming(line string) {
	l.fresh()
	l.p.Model.Enqueue(harness.Text("a").Then(harness.Gate("streaming")))
	n := l.p.Model.RequestCount()
	l.d.OK(`{"type":"prompt","message":"go"}`)
	l.p.Model.Request(n)
	l.p.Model.Enqueue(harness.Text("ok"), harness.Text("ok"))
	l.check("streaming", line)
}

// check sends a line and checks its response.
func (l *lab) check(state, line string) {
	t, v := l.t, gjson.Parse(line)
	name, id := v.Get("type").Str, v.Get("id")
	from := l.d.Count()
	l.d.Send(line)
	row := protocol.Lookup(name)
	if row.Silent && l.dialect != "s4" {
		l.d.OK(`{"type":"get_state"}`)
		for _, got := range l.d.Lines()[from:] {
			assert.NotEqual(t, name, gjson.Get(got, "command").Str, "%s: %s was answered: %s", state, line, got)
		}
		return
	}
	got, _ := l.d.Wait(from, "the answer to "+line, func(v gjson.Result) bool {
		return v.Get("type").Str == "response" && v.Get("command").Str == name
	})
	assert.Equal(t, id.Raw, got.Get("id").Raw, "%s: %s", state, got.Raw)
	if !got.Get("success").Bool() {
		why := refusals[state+" "+name]
		assert.True(t, state == "streaming" || placeholder(line), "%s: %s: %s", state, line, got.Raw)
		assert.True(t, why != "" && regexp.MustCompile(why).MatchString(got.Get("error").Str), "%s: %s: %s", state, line, got.Raw)
		return
	}
	said := l.said[name]
	if len(said) == 0 {
		return
	}
	var reasons []string
	for _, data := range said {
		if why := l.fits(data, got.Get("data")); why != "" {
			reasons = append(reasons, why)
		}
	}
	assert.Less(t, len(reasons), len(said), "%s: %s: the data is not as documented: %s\n%s", state, line, reasons, harness.Clip(got.Raw, 1000))
}

// fits returns how a value differs from a documented one.
func (l *lab) fits(want literal, got gjson.Result) string {
	if want.kind == 'w' && l.types[want.text].kind != 0 {
		named := l.types[want.text]
		named.list = want.list
		want = named
	}
	switch {
	case want.list:
		want.list = false
		if !got.IsArray() {
			return "no array: " + got.Raw
		}
		for _, g := range got.Array() {
			if why := l.fits(want, g); why != "" {
				return why
			}
		}
	case want.kind == '{' && !got.IsObject(), want.kind == '[' && !got.IsArray(),
		want.kind == '"' && got.Type != gjson.String, want.kind == '0' && got.Type != gjson.Number,
		want.kind == 'w' && slices.Contains([]string{"true", "false", "boolean"}, want.text) && !got.IsBool(),
		want.kind == 'w' && want.text == "string" && got.Type != gjson.String,
		want.kind == 'w' && want.text == "number" && got.Type != gjson.Number:
		return fmt.Sprintf("%s: not a %c %s", harness.Clip(got.Raw, 100), want.kind, want.text)
	case want.kind == '|':
		if !slices.ContainsFunc(want.items, func(i literal) bool { return l.fits(i, got) == "" }) {
			return "none of the choices: " + harness.Clip(got.Raw, 100)
		}
	case want.kind == 'w' && want.text == "null" && got.Type != gjson.Null:
		return "not null"
	case want.kind == '{':
		for _, m := range want.members {
			g := got.Get(gjson.Escape(m.name))
			switch {
			case m.name == "...", !g.Exists() && m.optional:
			case !g.Exists():
				return m.name + " is missing"
			default:
				if why := l.fits(m.value, g); why != "" {
					return m.name + ": " + why
				}
			}
		}
	case want.kind == '[' && len(want.items) > 0 && want.items[0].kind == '{':
		for _, g := range got.Array() {
			if why := l.fits(want.items[0], g); why != "" {
				return why
			}
		}
	}
	return ""
}
