package extensions

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// examplesFlag enables the test with pi's own examples, which needs packages from npm.
var examplesFlag = flag.Bool("pi.examples", false, "run the extensions that pi brings, in pi and in troupe, and compare")

// examplePis lists the versions whose examples are run, by the short names used in piExamples.
var examplePis = []struct {
	short   string
	pi      harness.Pi
	dialect string
	settled string // the record that ends a run
}{
	{"31", harness.Pi0311, "s3", "agent_end"},
	{"45", harness.Pi0457, "s0", "agent_end"},
	{"74", harness.Pi0742, "s2", "agent_end"},
	{"87", harness.Pi0871, "pi1", "agent_settled"},
	{"15", bundled(harness.Pi152), "pi1", "agent_settled"},
}

// piExample is an example extension of pi and the client's steps for it. The same steps run with pi
// and with troupe, and the client must see the same records.
type piExample struct {
	name  string
	in    string // the versions it is played in; "" is "45 74 87 15"
	path  string // below examples/extensions, if it is not the name
	setup func(p *harness.Place)
	args  []string
	model []harness.Answer
	// answers holds members for the answers to dialogs, in order. "" leaves a dialog unanswered.
	// Further dialogs are cancelled.
	answers []string
	// steps are the client's steps, in order:
	//  {…}               sends a command and waits for its response
	//  > TEXT            sends a prompt and waits for the end of its run
	//  ! TEXT            sends a prompt that starts no run: a command of an extension
	//  settled           waits until a run ends
	//  ui METHOD TEXT    waits for such a record
	//  see TEXT          waits for a record that contains the text
	//  request N         waits for request N of the model, from 0
	//  open GATE         releases an answer of the model that waits at a gate
	//  touch PATH TEXT   writes a file
	//  fork TEXT         forks at the user message that contains the text
	//  switch            opens the same session again
	//  exit              waits until the program exits
	steps []string
	// system lists texts that the system prompt must contain in addition to pi's own.
	system []string
	// differs explains why a part (ui, errors, responses, messages, entries, model) is not
	// compared. The key is the part, optionally followed by a space and versions.
	differs map[string]string
	// sees lists texts that a client of troupe must see if nothing is compared.
	sees []string
}

// bundled returns a version of pi with the directory of its bundled program, which is not the
// directory of its client class.
func bundled(v harness.Pi) harness.Pi {
	v.Dist = filepath.Join(v.Dist, "bundle")
	return v
}

// TestExamplesOfPi runs pi's examples in pi and in troupe and compares the records.
func TestExamplesOfPi(t *testing.T) {
	if !*examplesFlag {
		t.Skip("only with -pi.examples")
	}
	for _, v := range examplePis {
		t.Run(v.short, func(t *testing.T) {
			v.pi.Install(t)
			for _, ex := range piExamples {
				in := ex.in
				if in == "" {
					in = "45 74 87 15"
				}
				if !slices.Contains(strings.Fields(in), v.short) {
					continue
				}
				path, flag := exampleAt(filepath.Join(v.pi.PackageDir(t), "examples"), ex, v.short)
				require.FileExists(t, path)
				t.Run(ex.name, func(t *testing.T) {
					t.Parallel()
					theirs := ex.play(t, v.settled, v.short == "31", func(p *harness.Place) *harness.Daemon {
						node, dist := v.pi.Install(t)
						onPath(p, "pi", "exec "+node+" "+filepath.Join(dist, "cli.js")+` "$@"`)
						return p.StartPi(v.pi, append([]string{flag, path}, ex.args...)...)
					})
					ours := ex.play(t, v.settled, v.short == "31", func(p *harness.Place) *harness.Daemon {
						args := append([]string{"--dialect", v.dialect, flag, path}, ex.args...)
						if v.short == "31" { // oh-my-pi's dialect, with a tool that pi lacks
							args = append(args, "--exclude-tools", "task")
						}
						return p.Start(args...)
					})
					ex.compare(t, v.short, theirs, ours)
				})
			}
		})
	}
}

// exampleAt returns the path of an example and the flag that loads it.
func exampleAt(examples string, ex piExample, version string) (path, flag string) {
	name := ex.path
	if name == "" {
		name = ex.name
	}
	dir, flag := "extensions", "-e"
	if version == "31" {
		dir, flag = "hooks", "--hook"
		if _, err := os.Stat(filepath.Join(examples, "custom-tools", name)); err == nil {
			dir, flag = "custom-tools", "--tool"
		}
	}
	path = filepath.Join(examples, dir, name+".ts")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(examples, dir, name, "index.ts")
	}
	return path, flag
}

// parts holds the records of a run and the files it left, grouped and without ids, times and paths.
type parts map[string][]string

// rehearsal is one run of an example.
type rehearsal struct {
	*harness.Daemon
	ex      piExample
	settled string
	old     bool // a fork is called branch
	ui, run int  // lines consumed by waits
}

func (ex piExample) play(t *testing.T, settled string, old bool, start func(p *harness.Place) *harness.Daemon) parts {
	p := harness.NewPlace(t)
	p.Git("init", "-q", "-b", "main")
	if ex.setup != nil {
		ex.setup(p)
	}
	p.Model.Enqueue(ex.model...)
	r := &rehearsal{Daemon: start(p), ex: ex, settled: settled, old: old}
	go r.answerDialogs()
	gone := false
	r.Call(`{"type":"get_state"}`) // troupe sends records of extensions after the first response
	for _, step := range ex.steps {
		gone = r.step(step) || gone
	}
	if !gone {
		r.Call(`{"type":"get_state"}`)
		r.Stdin.Close()
	}
	select {
	case <-r.Exited:
	case <-time.After(harness.Patience):
		r.Cmd.Process.Kill() // some versions of pi do not exit while an extension holds a resource
		<-r.Exited
	}
	return r.parts()
}

// step executes one step. It reports whether the program has exited.
func (r *rehearsal) step(step string) (gone bool) {
	r.T.Helper()
	word, rest, _ := strings.Cut(step, " ")
	switch {
	case strings.HasPrefix(step, "{"):
		r.Call(step)
	case word == ">" || word == "!":
		raw, _ := json.Marshal(rest)
		if v := r.Call(`{"type":"prompt","message":` + string(raw) + `}`); word == ">" && v.Get("success").Bool() {
			r.settle()
		}
	case word == "settled":
		r.settle()
	case word == "ui":
		method, text, _ := strings.Cut(rest, " ")
		_, r.ui = r.Wait(r.ui, step, func(v gjson.Result) bool {
			return strings.HasSuffix(v.Get("type").Str, "_ui_request") && v.Get("method").Str == method && strings.Contains(v.Raw, text)
		})
	case word == "see":
		_, r.ui = r.Wait(r.ui, step, func(v gjson.Result) bool { return strings.Contains(v.Raw, rest) })
	case word == "request":
		var n int
		fmt.Sscan(rest, &n)
		r.Place.Model.Request(n)
	case word == "open":
		r.Place.Model.OpenGate(rest)
	case word == "touch":
		path, text, _ := strings.Cut(rest, " ")
		r.Place.WriteFile(path, text)
	case word == "fork":
		r.fork(rest)
	case word == "switch":
		path := r.Call(`{"type":"get_state"}`).Get("data.sessionFile").Str
		r.Call(`{"type":"switch_session","sessionPath":"` + path + `"}`)
	case word == "exit":
		r.WaitExit()
		return true
	default:
		r.T.Fatalf("no such step: %s", step)
	}
	return false
}

func (r *rehearsal) fork(text string) {
	ask, do := "get_fork_messages", "fork"
	if r.old {
		ask, do = "get_branch_messages", "branch"
	}
	for _, m := range r.Call(`{"type":"` + ask + `"}`).Get("data.messages").Array() {
		if strings.Contains(m.Get("text").Str, text) {
			r.Call(`{"type":"` + do + `","entryId":"` + m.Get("entryId").Str + `"}`)
			return
		}
	}
	r.T.Errorf("no message to fork at: %s", text)
}

func (r *rehearsal) settle() {
	r.T.Helper()
	_, r.run = r.Wait(r.run, "the end of a run", func(v gjson.Result) bool { return v.Get("type").Str == r.settled })
	for {
		if v := r.Call(`{"type":"get_state"}`); !v.Get("data.isStreaming").Bool() {
			return
		}
	}
}

// answerDialogs answers dialogs until the output ends.
func (r *rehearsal) answerDialogs() {
	answers := r.ex.answers
	for v := range r.Records() {
		kind := v.Get("type").Str
		if !strings.HasSuffix(kind, "_ui_request") || !slices.Contains([]string{"select", "confirm", "input", "editor"}, v.Get("method").Str) {
			continue
		}
		answer := `"cancelled":true`
		if len(answers) > 0 {
			answer, answers = answers[0], answers[1:]
		}
		if answer != "" {
			fmt.Fprintf(r.Stdin, `{"type":"%s_response","id":"%s",%s}`+"\n", strings.TrimSuffix(kind, "_request"), v.Get("id").Str, answer)
		}
	}
}

// parts groups the records of a run. The order between groups is not guaranteed, for example
// between records of an extension and records of the run it watches.
func (r *rehearsal) parts() parts {
	all := parts{}
	add := func(part, format string, args ...any) {
		all[part] = append(all[part], r.blank(fmt.Sprintf(format, args...)))
	}
	for _, line := range r.Lines() {
		v := gjson.Parse(line)
		switch kind := v.Get("type").Str; {
		case !gjson.Valid(line):
			add("errors", "no JSON on stdout: %s", line)
		case strings.HasSuffix(kind, "_ui_request"):
			add("ui", "%s", without(v, "id", "type"))
		case kind == "extension_error" || kind == "hook_error":
			add("errors", "%s: %s", v.Get("event").Str, v.Get("error").Str)
		case kind == "response" && v.Get("command").Str != "get_state":
			add("responses", "%s %t %s%s%s", v.Get("command").Str, v.Get("success").Bool(), v.Get("error").Str,
				v.Get("data.cancelled").Raw, v.Get("data.output").Raw)
		case kind == "message_end":
			if m := v.Get("message"); m.Get("role").Str != "system" {
				add("messages", "%s %s%s: %s", m.Get("role").Str, m.Get("customType").Str, m.Get("isError").Raw, said(m.Get("content")))
			}
		}
	}
	files, _ := filepath.Glob(filepath.Join(r.Place.AgentDir(), "sessions", "*", "*.jsonl"))
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			v := gjson.Parse(line)
			switch v.Get("type").Str {
			case "custom", "custom_message", "label", "session_info":
				if !strings.HasPrefix(v.Get("customType").Str, "troupe.") {
					add("entries", "%s", without(v, "id", "parentId", "timestamp", "targetId"))
				}
			}
		}
	}
	for n := range r.Place.Model.RequestCount() {
		req := r.Place.Model.Request(n)
		var list []string
		before := ""
		for _, m := range gjson.Get(req.Body, "messages").Array() {
			role := m.Get("role").Str
			if role == before { // adjacent messages of one role are merged
				list[len(list)-1] += " + " + said(m.Get("content"))
				continue
			}
			list, before = append(list, role+": "+said(m.Get("content"))), role
		}
		add("model", "%s", strings.Join(list, " | "))
		all["system"] = append(all["system"], req.Body)
		var names []string
		for _, tool := range gjson.Get(req.Body, "tools").Array() {
			names = append(names, tool.Get("name").Str)
		}
		slices.Sort(names)
		add("tools", "%s", strings.Join(names, " "))
	}
	return all
}

// without returns an object without some members, with its keys in a fixed order.
func without(v gjson.Result, members ...string) string {
	var object map[string]any
	_ = json.Unmarshal([]byte(v.Raw), &object)
	for _, m := range members {
		delete(object, m)
	}
	if text, ok := object["content"].(string); ok { // troupe stores a list of one text
		object["content"] = []any{map[string]string{"type": "text", "text": text}}
	}
	var sb strings.Builder
	enc := json.NewEncoder(&sb)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(object)
	return strings.TrimSpace(sb.String())
}

// said returns the texts of a message and the names of its tool calls.
func said(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	var list []string
	for _, part := range v.Array() {
		switch part.Get("type").Str {
		case "text":
			list = append(list, part.Get("text").Str)
		case "tool_use", "toolCall":
			list = append(list, "call "+part.Get("name").Str+part.Get("arguments").Raw)
		case "tool_result":
			list = append(list, "result "+said(part.Get("content")))
		default:
			list = append(list, part.Get("type").Str)
		}
	}
	return strings.Join(list, " + ")
}

var (
	blankUUID  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	blankID    = regexp.MustCompile(`\b[0-9a-f]{8}\b`)
	blankTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	blankMS    = regexp.MustCompile(`\b1[789]\d{11}\b`)
	blankANSI  = regexp.MustCompile(`(\x1b|\\u001b)\[[0-9;]*m`)
	blankTemp  = regexp.MustCompile(`(/pi-[a-z-]+-)[A-Za-z0-9]+/`)
	blankSize  = regexp.MustCompile(`System: \d+ chars`)
	blankClock = regexp.MustCompile(`\d{1,2}/\d{1,2}/\d{4}, \d{1,2}:\d\d:\d\d\s?[AP]M`)
)

// blank removes everything that differs between two runs of the same program.
func (r *rehearsal) blank(s string) string {
	s = strings.ReplaceAll(s, r.Place.Root, "ROOT")
	s = strings.ReplaceAll(s, r.Place.Model.Server.URL, "URL")
	for _, re := range []*regexp.Regexp{blankUUID, blankID, blankTime, blankMS, blankClock, blankSize} {
		s = re.ReplaceAllString(s, "#")
	}
	s = blankTemp.ReplaceAllString(s, "$1#/")
	return blankANSI.ReplaceAllString(s, "")
}

// compare compares troupe's parts with pi's.
func (ex piExample) compare(t *testing.T, version string, theirs, ours parts) {
	for _, part := range []string{"ui", "errors", "responses", "messages", "entries", "model", "tools"} {
		if ex.reason(part, version) != "" {
			continue
		}
		assert.Equal(t, strings.Join(theirs[part], "\n"), strings.Join(ours[part], "\n"), "%s: pi's is the expected", part)
	}
	for _, text := range ex.system {
		for who, of := range map[string]parts{"pi": theirs, "troupe": ours} {
			raw, _ := json.Marshal(text)
			assert.Contains(t, strings.Join(of["system"], "\n"), strings.Trim(string(raw), `"`), "the system prompt of %s", who)
		}
	}
	seen := fmt.Sprint(ours)
	for _, text := range ex.sees {
		assert.Contains(t, seen, text)
	}
}

func (ex piExample) reason(part, version string) string {
	for key, why := range ex.differs {
		name, versions, some := strings.Cut(key, " ")
		if name == part && (!some || slices.Contains(strings.Fields(versions), version)) {
			return why
		}
	}
	return ""
}
