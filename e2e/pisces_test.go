package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// The traces pisces-* are recordings of the program behind the dialect s1. Its
// models answer by what they are asked, parents and children at the same time, so
// what is replayed is the conversation: the same settings, files and commands, the
// answers that the recorded requests show, and the records in their order, one
// order for the session and one for each task.

// recording is a trace of pisces.
type recording struct {
	name    string
	setup   gjson.Result
	entries []entry
}

func readRecording(t *testing.T, name string) recording {
	list := readTrace(t, "pisces-"+name)
	return recording{name, list[0].v, list[1:]}
}

// answerOf makes an answer of an assistant message of the wire.
func answerOf(message gjson.Result) answer {
	a := answer{input: int(message.Get("usage.input").Int()), output: int(message.Get("usage.output").Int())}
	for _, block := range message.Get("content").Array() {
		switch block.Get("type").Str {
		case "text":
			a = a.and(text(block.Get("text").Str))
		case "toolCall":
			a = a.and(tool(block.Get("id").Str, block.Get("name").Str, block.Get("arguments").Raw))
		}
	}
	switch message.Get("stopReason").Str {
	case "aborted":
		a = a.and(answer{steps: []step{{kind: "stall"}}})
	case "error":
		a = fail(400, `{"type":"error","error":{"type":"invalid_request_error","message":"recorded"}}`)
	}
	return a
}

// saidBy makes an answer of an assistant message as a recorded request has it.
func saidBy(message gjson.Result) answer {
	a := answer{input: 10, output: 5}
	if said := message.Get("text").Str; said != "" {
		a = a.and(text(said))
	}
	for _, call := range message.Get("toolCalls").Array() {
		a = a.and(tool(call.Get("id").Str, call.Get("name").Str, call.Get("args").Str))
	}
	return a
}

// children are the answers to each child, by its word. A conversation whose last
// request was answered is followed by no request that would show the answer: it
// handed over what the result of the task says.
func (r recording) children() map[string][]answer {
	all := map[string][]answer{}
	open := map[string]bool{}
	submitted := r.submitted()
	end := func(who string) {
		if open[who] {
			data := `{"result":{"data":"done"}}`
			if list := submitted[who]; len(list) > 0 {
				data, submitted[who] = list[0], list[1:]
			}
			all[who] = append(all[who], tool(fmt.Sprintf("last_%d", len(all[who])), "submit_result", data))
		}
		open[who] = false
	}
	for _, e := range r.entries {
		who := e.v.Get("who").Str
		if e.dir != "model" || who == "parent" {
			continue
		}
		said := 0
		if e.v.Get("from").Int() > 0 {
			for _, m := range e.v.Get("messages").Array() {
				if m.Get("role").Str == "assistant" {
					all[who] = append(all[who], saidBy(m))
					said++
				}
			}
		}
		if said == 0 {
			end(who) // another conversation with the same word
		}
		open[who] = true
	}
	for who := range open {
		end(who)
	}
	return all
}

// submitted are the arguments of submit_result in the results of tasks, by the word
// of the assignment and in the order of the calls.
func (r recording) submitted() map[string][]string {
	all := map[string][]string{}
	for _, e := range r.entries {
		if e.v.Get("type").Str != "tool_execution_end" || e.v.Get("toolName").Str != "task" {
			continue
		}
		words := map[string]string{}
		for _, start := range r.entries {
			if start.v.Get("type").Str == "tool_execution_start" && start.v.Get("toolCallId").Str == e.v.Get("toolCallId").Str {
				for _, task := range start.v.Get("args.tasks").Array() {
					words[task.Get("id").Str] = wordOf(task.Get("assignment").Str)
				}
			}
		}
		for _, result := range e.v.Get("result.details.results").Array() {
			word := words[plainID(result.Get("id").Str)]
			output := result.Get("output").Str
			switch {
			case gjson.Get(output, "aborted").Bool():
				all[word] = append(all[word], `{"result":{"error":`+gjson.Get(output, "error").Raw+`}}`)
			case gjson.Valid(output) && output != "":
				all[word] = append(all[word], `{"result":{"data":`+output+`}}`)
			}
		}
	}
	return all
}

// wordOf is the word behind CHILD in an assignment.
func wordOf(assignment string) string {
	_, after, _ := strings.Cut(assignment, "CHILD ")
	word := strings.FieldsFunc(after, func(c rune) bool { return c < 'A' || c > 'Z' })
	if len(word) == 0 {
		return ""
	}
	return word[0]
}

// plainID is the id of a task as it was given: pisces counts the tasks of a session
// in front of it, and names a repair.
func plainID(id string) string {
	parts := strings.Split(strings.TrimSuffix(id, "-repair"), ".")
	for i, p := range parts {
		if _, after, counted := strings.Cut(p, "-"); counted {
			parts[i] = after
		}
	}
	return strings.Join(parts, ".")
}

// outlineOf is what of a record is compared; "" for none of it. subject is whose
// order it belongs to.
func outlineOf(v gjson.Result) (subject, outline string) {
	kind := v.Get("type").Str
	var keys []string
	switch kind {
	case "response":
		return "answer " + v.Get("id").Raw, fmt.Sprint(v.Get("command").Str, " ", v.Get("success").Bool(), " ", v.Get("error").Str)
	case "agent_start", "agent_end", "turn_start", "turn_end", "ttsr_triggered", "todo_reminder":
	case "message_start", "message_end":
		if role := v.Get("message.role").Str; role == "custom" || role == "developer" {
			return "", ""
		}
		keys = []string{"message.role", "message.toolName"}
		if kind == "message_end" {
			keys = append(keys, "message.stopReason")
		}
	case "tool_execution_start":
		keys = []string{"toolName"}
	case "tool_execution_end":
		keys = []string{"toolName"}
		if v.Get("toolName").Str != "task" {
			keys = append(keys, "isError")
		}
	case "budget_warning", "budget_exceeded":
		keys = []string{"scope", "snapshot.status", "snapshot.reason"}
	case "subagent_start", "subagent_end", "subagent_verification_start", "subagent_verification_command_start",
		"subagent_verification_command_end", "subagent_verification_end":
		subject = plainID(v.Get("id").Str)
		keys = []string{"agent", "isolated", "exitCode", "attempt", "profile", "commandName", "status"}
		if kind == "subagent_end" {
			keys = append(keys, "verification.status", "verification.mode", "verification.profile")
		}
	default:
		return "", ""
	}
	for _, key := range keys {
		kind += " " + v.Get(key).String()
	}
	return "s" + subject, kind
}

// piscesDiffers says what troupe does otherwise than a recording, and why: lines of
// a subject's outline, taken for each other. An empty one is not there.
var piscesDiffers = []struct{ trace, subject, theirs, ours, why string }{}

func (r recording) theirs() map[string][]string { return outlines(r.entries) }

func outlines(entries []entry) map[string][]string {
	all := map[string][]string{}
	for _, e := range entries {
		if e.dir != "out" {
			continue
		}
		if subject, line := outlineOf(e.v); line != "" {
			all[subject] = append(all[subject], line)
		}
	}
	return all
}

func (r recording) prepare(t *testing.T) *place {
	p := newPlace(t)
	models := strings.NewReplacer(`"mock-1"`, `"m1"`, `"think2"`, `"m2"`, `"input":3`, `"input":1`, `"output":15`, `"output":2`).Replace(p.llm.modelsJSON())
	p.write(filepath.Join(p.agent(), "models.json"), models)
	if set := r.setup.Get("settings").Raw; set != "{}" {
		p.write(filepath.Join(p.agent(), "settings.json"), set)
	}
	r.setup.Get("files").ForEach(func(path, content gjson.Result) bool { p.write(path.Str, content.Str); return true })
	if r.setup.Get("git").Bool() {
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=u", "-c", "user.email=u@example.org", "commit", "-q", "-m", "first"}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = p.work
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		}
	}
	r.setup.Get("uncommitted").ForEach(func(path, content gjson.Result) bool { p.write(path.Str, content.Str); return true })
	for who, list := range r.children() {
		for _, a := range list {
			p.llm.playsTo("CHILD "+who, a)
		}
	}
	for _, e := range r.entries {
		if e.dir == "out" && e.v.Get("type").Str == "message_end" && e.v.Get("message.role").Str == "assistant" {
			p.llm.plays(answerOf(e.v.Get("message")))
		}
	}
	return p
}

// play sends the commands where the recording has them: once as many records of the
// session have come.
func (r recording) play(t *testing.T) *daemon {
	d := r.prepare(t).start("--dialect", "s1", "--model", "mock/m1")
	before := map[string]int{}
	for _, e := range r.entries {
		switch e.dir {
		case "out":
			if subject, line := outlineOf(e.v); line != "" {
				before[subject]++
			}
		case "in":
			for subject, n := range before {
				d.until(subject, n)
			}
			d.send(e.raw)
		}
	}
	for subject, n := range before {
		d.until(subject, n)
	}
	return d
}

// until waits for the n-th record of a subject, but not for ever: what is missing is
// said when the recording is over.
func (d *daemon) until(subject string, n int) {
	d.t.Helper()
	seen := 0
	_, _ = d.maybe(func(v gjson.Result) bool {
		if s, line := outlineOf(v); line != "" && s == subject {
			seen++
		}
		return seen >= n
	})
}

func TestPisces(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "traces", "pisces-*.jsonl"))
	require.NoError(t, err)
	require.Len(t, names, 34)
	for _, path := range names {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "pisces-"), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := readRecording(t, name)
			d := r.play(t)
			var ours []entry
			for _, line := range d.output() {
				ours = append(ours, entry{dir: "out", v: gjson.Parse(line)})
			}
			theirs, got := r.theirs(), outlines(ours)
			subjects := slices.Sorted(func(yield func(string) bool) {
				for s := range theirs {
					if !yield(s) {
						return
					}
				}
			})
			for _, s := range subjects {
				if !slices.Equal(theirs[s], got[s]) {
					a, _ := json.MarshalIndent(theirs[s], "", " ")
					b, _ := json.MarshalIndent(got[s], "", " ")
					t.Errorf("%s\ntheirs %s\nours %s", s, a, b)
				}
			}
		})
	}
}

// maybe waits for a line, for a while.
func (d *daemon) maybe(ok func(gjson.Result) bool) (gjson.Result, bool) {
	timer := time.AfterFunc(2*time.Second, func() { d.mu.Lock(); d.more.Broadcast(); d.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(2 * time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := 0; ; {
		for ; at < len(d.lines); at++ {
			if v := gjson.Parse(d.lines[at]); ok(v) {
				return v, true
			}
		}
		if d.eof || time.Now().After(deadline) {
			return gjson.Result{}, false
		}
		d.more.Wait()
	}
}
