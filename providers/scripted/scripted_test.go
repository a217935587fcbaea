package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/providertest"
)

func model(path string) *protocol.Model {
	return &protocol.Model{
		ID: "demo", Provider: "scripted", API: API, BaseURL: path, Reasoning: true, Input: []string{"text"}, ContextWindow: 1000, MaxTokens: 100,
		Cost: protocol.ModelCost{Input: 1_000_000, Output: 2_000_000},
	}
}

func user(text string) protocol.Message {
	return &protocol.UserMessage{Content: protocol.TextContent(text)}
}

func called(name string) protocol.Message {
	return &protocol.AssistantMessage{Content: protocol.Content{protocol.ToolCall{ID: "call_1", Name: name, Arguments: []byte("{}")}}}
}

func result(name, text string) protocol.Message {
	return &protocol.ToolResultMessage{ToolCallID: "call_1", ToolName: name, Content: protocol.TextContent(text)}
}

// write makes a script file.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// steps plays one request and describes its parts, deltas joined.
func steps(t *testing.T, answer iter.Seq2[protocol.Part, error]) string {
	t.Helper()
	var lines []string
	_, _, problem := providertest.Fold(func(yield func(protocol.Part, error) bool) {
		for part, err := range answer {
			lines = append(lines, providertest.Describe(part, err))
			if !yield(part, err) {
				return
			}
		}
	})
	require.NoError(t, problem)
	return strings.Join(lines, "\n")
}

// says is the text of an answer, or its error.
func says(t *testing.T, p *Provider, req providers.Request) string {
	t.Helper()
	got, failed, problem := providertest.Fold(p.Stream(t.Context(), req))
	require.NoError(t, problem)
	if failed != nil {
		return fmt.Sprintf("%s: %s", failed.Kind, failed.Message)
	}
	text := got.Content.Text("")
	for _, call := range got.Content.ToolCalls() {
		text += fmt.Sprintf(" %s%s", call.Name, call.Arguments)
	}
	return text
}

func TestSteps(t *testing.T) {
	script := `{
	  // everything there is
	  "chunk": 8,
	  "answers": [{"steps": [
	    {"thinking": "They want it.", "signature": "sig"}, {"redacted": true, "signature": "r"},
	    {"text": "Let me lööök 😀."}, {"waitMs": 1}, {"text": "x"},
	    {"tool": "ls", "args": {"path": "."}}, {"tool": "now"}, {"tool": "read", "id": "mine", "rawArgs": "{\"pa"},
	  ], "usage": {"input": 1200, "output": 30, "cacheRead": 7, "cacheWrite": 0}}],
	}`
	p := New(Options{})
	got := steps(t, p.Stream(t.Context(), providers.Request{Model: model(write(t, script)), Messages: []protocol.Message{user("a"), called("x"), user("b")}}))
	assert.Equal(t, `start scripted_3
0 thinking
0 + "They wan"
0 + "t it."
0 end signature=sig
1 thinking
1 end signature=r redacted
2 text
2 + "Let me l"
2 + "ööök 😀."
2 end
3 text
3 + "x"
3 end
4 toolcall call_2 ls
4 + "{\"path\":"
4 + " \".\"}"
4 end
5 toolcall call_3 now
5 + "{}"
5 end
6 toolcall mine read
6 + "{\"pa"
6 end
usage input=1200 output=30 cacheRead=7 cacheWrite=0 total=1237 cost=1260.000000
done toolUse (toolUse)`, got)
}

func TestText(t *testing.T) {
	text := `# a comment
@chunk 100
when in doubt, text
@wait 1ms
@@at the beginning

and a second paragraph
---
@when hello
@think Hm.
Hi!
@tool ls {"path": "."}
@tool bash {"command": "broken
@usage input=3 output=4 cacheRead=5 cacheWrite=6
@stop length
-----
@after *
@times 2
@error 529 retry=1500ms Too much
---
@error rate_limit
---
@cut
---
@stall
`
	want := &Script{Chunk: 100, Answers: []Answer{
		{Steps: []Step{{Text: "when in doubt, text"}, {WaitMs: 1}, {Text: "@at the beginning\n\nand a second paragraph"}}},
		{When: "hello", Steps: []Step{{Thinking: "Hm."}, {Text: "Hi!"}, {Tool: "ls", Args: json.RawMessage(`{"path": "."}`)}, {Tool: "bash", RawArgs: `{"command": "broken`}},
			Usage: &protocol.Usage{Input: 3, Output: 4, CacheRead: 5, CacheWrite: 6}, Stop: "length"},
		{After: "*", Times: 2, Steps: []Step{{Error: &Failure{Status: 529, Message: "Too much", RetryAfterMs: 1500}}}},
		{Steps: []Step{{Error: &Failure{Kind: "rate_limit"}}}},
		{Steps: []Step{{Cut: true}}},
		{Steps: []Step{{Stall: true}}},
	}}
	for _, form := range []string{text, strings.ReplaceAll(text, "\n", "\r\n")} {
		got, err := Parse([]byte(form))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	encoded, err := json.Marshal(want)
	require.NoError(t, err)
	same, err := Parse(encoded)
	require.NoError(t, err)
	again, err := json.Marshal(same)
	require.NoError(t, err)
	assert.JSONEq(t, string(encoded), string(again), "both forms say the same")
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{"answers": [{"stepz": []}]}`:               "stepz",
		`{"answers": [`:                              "EOF",
		`{"answers": [{"when": "/(/"}]}`:             "answer 1: when",
		`{"answers": [{"when": "a", "after": "b"}]}`: "both when and after",
		`{"answers": [{"steps": [{"error": {}}]}]}`:  "without kind",
		"@fly away":             "line 1: there is no @fly",
		"x\n@wait soon":         "line 2",
		"@times many":           "line 1",
		"@usage input":          "usage",
		"@usage bananas=3":      "bananas",
		"@error":                "error without kind",
		"@error 500 retry=soon": "line 1",
		"@when a\n@after b\nboth\n---\nnever looked at\n---\n": "both",
	} {
		_, err := Parse([]byte(text))
		assert.ErrorContains(t, err, want, text)
		p := New(Options{Script: write(t, text)})
		assert.Contains(t, says(t, p, providers.Request{Model: model("")}), "invalid_request: Script of model demo: ")
	}
	assert.Contains(t, says(t, New(Options{}), providers.Request{Model: model("/does/not/exist")}), "invalid_request")
}

func TestWhichAnswer(t *testing.T) {
	path := write(t, `{"answers": [
	  {"when": "LIST", "steps": [{"text": "listed"}]},
	  {"when": "/^read (.+)$/", "times": 1, "steps": [{"text": "read once"}]},
	  {"after": "ls", "steps": [{"text": "after ls"}]},
	  {"after": "*", "times": 1, "steps": [{"text": "after any, once"}]},
	  {"steps": [{"text": "first"}]}, {"times": 2, "steps": [{"text": "second"}]}]}`)
	p := New(Options{Script: path, Record: true})
	ask := func(session string, messages ...protocol.Message) string {
		return says(t, p, providers.Request{Model: model(""), SessionID: session, Messages: messages})
	}
	for range 2 {
		assert.Equal(t, "listed", ask("a", user("please list files")))
		assert.Equal(t, "after ls", ask("a", user("list"), called("ls"), result("ls", "x")))
	}
	assert.Equal(t, "read once", ask("a", user("Read me\nall")))
	assert.Equal(t, "first", ask("a", user("read me again")))
	assert.Equal(t, "after any, once", ask("a", user("q"), called("bash"), result("bash", "x")))
	assert.Equal(t, "second", ask("a", user("q"), called("bash"), result("bash", "x")))
	assert.Equal(t, "second", ask("a"))
	assert.Equal(t, `internal: The script has no answer left for "over"`, ask("a", user("over")))
	assert.Equal(t, "first", ask("b", user("q")), "each session has its own place")
	assert.Len(t, p.Requests(), 11)
	assert.Equal(t, "b", p.Requests()[10].SessionID)

	require.NoError(t, os.WriteFile(path, []byte("@loop\none\n---\ntwo"), 0o600))
	var heard []string
	for range 5 {
		heard = append(heard, ask("c", user("q")))
	}
	assert.Equal(t, "one two one two one", strings.Join(heard, " "), "the file is read anew, and may go round")
}

func TestErrors(t *testing.T) {
	for step, want := range map[string]string{
		`{"status": 529}`:                                         `error overloaded: 529 {"error":{"type":"overloaded","message":"scripted failure"}}`,
		`{"status": 429, "retryAfterMs": 1500}`:                   `error rate_limit: 429 {"error":{"type":"rate_limit","message":"scripted failure"}} (retry after 1.5s)`,
		`{"kind": "quota", "message": "no money"}`:                `error quota: no money`,
		`{"kind": "aborted"}`:                                     `error aborted: {"error":{"type":"aborted","message":"scripted failure"}}`,
		`{"status": 400, "body": "prompt is too long: 9 > 8"}`:    `error overflow: 400 prompt is too long: 9 > 8`,
		`{"body": "{\"error\":{\"type\":\"overloaded_error\"}}"}`: `error overloaded: {"error":{"type":"overloaded_error"}}`,
		`{"status": 503, "body": "try again in 2s"}`:              `error overloaded: 503 try again in 2s (retry after 2s)`,
	} {
		p := New(Options{Script: write(t, `{"answers": [{"steps": [{"error": `+step+`}]}]}`)})
		assert.Equal(t, want, steps(t, p.Stream(t.Context(), providers.Request{Model: model("")})), step)
	}
	p := New(Options{Play: &Script{Answers: []Answer{{Steps: []Step{{Text: "half"}, {Cut: true}, {Text: "never"}}}}}})
	assert.Equal(t, "start scripted_0\n0 text\n0 + \"half\"\n0 end\nerror cut_stream: Connection error: the answer ended without its closing event",
		steps(t, p.Stream(t.Context(), providers.Request{Model: model("")})))
}

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Play: &Script{DelayMs: 100, Chunk: 1, Loop: true, Answers: []Answer{{Steps: []Step{{Text: "abc"}, {WaitMs: 5000}}}}}})
		begun := time.Now()
		assert.Equal(t, "abc", says(t, p, providers.Request{Model: model("")}))
		assert.Equal(t, 5300*time.Millisecond, time.Since(begun))

		stalling := New(Options{Play: &Script{Loop: true, Answers: []Answer{{Steps: []Step{{Stall: true}}}, {Steps: []Step{{Text: "x"}, {Stall: true}}}}}})
		m := model("")
		m.ProviderConfig = &protocol.ProviderConfig{Stall: protocol.StallLimits{FirstMs: 1000, ContentMs: 2000}}
		for _, limit := range []time.Duration{time.Second, 2 * time.Second} {
			begun = time.Now()
			assert.Contains(t, says(t, stalling, providers.Request{Model: m}), "stream_stalled: ")
			assert.Equal(t, limit, time.Since(begun))
		}
		m.ProviderConfig.Stall.FirstMs = -1
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun = time.Now()
		_, failed, problem := providertest.Fold(stalling.Stream(ctx, providers.Request{Model: m}))
		require.NoError(t, problem)
		assert.Equal(t, protocol.ErrorAborted, failed.Kind, "without a limit only an abort ends it")
		assert.Equal(t, time.Hour, time.Since(begun))
	})
}

func TestCancel(t *testing.T) {
	script := &Script{Loop: true, Chunk: 1, Answers: []Answer{{Steps: []Step{{Text: "abcdef"}, {WaitMs: 3_600_000}}}}}
	p := New(Options{Play: script})
	for _, after := range []int{0, 1, 3, 7, 8} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, failed, problem := providertest.Fold(func(yield func(protocol.Part, error) bool) {
			if after == 0 {
				cancel()
			}
			for part, err := range p.Stream(ctx, providers.Request{Model: model("")}) {
				if n++; n == after {
					cancel()
				}
				if !yield(part, err) {
					return
				}
			}
		})
		cancel()
		require.NoError(t, problem)
		require.NotNil(t, failed, "cancelled after %d parts", after)
		assert.Equal(t, protocol.ErrorAborted, failed.Kind)
	}
	n := 0
	for range p.Stream(t.Context(), providers.Request{Model: model("")}) {
		if n++; n == 4 {
			break
		}
	}
	assert.Equal(t, 4, n)
}

func TestPlaces_bounded(t *testing.T) {
	p := New(Options{Play: &Script{Answers: []Answer{{Steps: []Step{{Text: "x"}}}}}})
	for i := range maxPlaces + 10 {
		assert.Equal(t, "x", says(t, p, providers.Request{Model: model(""), SessionID: fmt.Sprint(i)}))
	}
	assert.Len(t, p.places, maxPlaces)
	assert.Len(t, p.order, maxPlaces)
}

var allTools = []protocol.ToolInfo{{Name: "ls"}, {Name: "read"}, {Name: "bash"}, {Name: "write"}, {Name: "task"}}

func TestDemo(t *testing.T) {
	p := New(Options{Pace: -1})
	for text, want := range map[string]string{
		"list files":              `ls{"path":"."}`,
		"List the files in src/":  `ls{"path":"src/"}`,
		"What files are there?":   `ls{"path":"."}`,
		"Which files are in lib?": `ls{"path":"lib"}`,
		"ls":                      `ls{"path":"."}`,
		"please show me the files in this folder": `ls{"path":"."}`,
		"read README.md":                  `read{"path":"README.md"}`,
		"Please read the file \"a.txt\".": `read{"path":"a.txt"}`,
		"cat main.go":                     `read{"path":"main.go"}`,
		"show me go.mod":                  `read{"path":"go.mod"}`,
		"run date":                        `bash{"command":"date"}`,
		"Have two agents run date and `run uname`": `task{"agent":"task","tasks":[{"id":"Part1","description":"run date","assignment":"run date"},` +
			`{"id":"Part2","description":"run uname","assignment":"run uname"}]}`,
		"Run the command `go test ./... | tail`": `bash{"command":"go test ./... | tail"}`,
		"$ echo hi":                              `bash{"command":"echo hi"}`,
		"!pwd":                                   `bash{"command":"pwd"}`,
		"write hello to hello.txt":               `write{"path":"hello.txt","content":"hello\n"}`,
		"put 'two words\nand more' into the file notes.md": `write{"path":"notes.md","content":"two words\nand more\n"}`,
	} {
		req := providers.Request{Model: model(""), Messages: []protocol.Message{user(text)}, Tools: allTools}
		assert.Contains(t, says(t, p, req), " tool. "+want, text)
	}
	only := providers.Request{Model: model(""), Messages: []protocol.Message{user("list files in src")}, Tools: []protocol.ToolInfo{{Name: "bash"}}}
	assert.Contains(t, says(t, p, only), `bash{"command":"ls src"}`)

	for _, text := range []string{"Why is the sky blue?", "", "ready?", "running late", "read"} {
		said := says(t, p, providers.Request{Model: model(""), Messages: []protocol.Message{user(text)}, Tools: allTools})
		assert.Contains(t, said, "offline demo model")
		assert.Contains(t, said, text)
		assert.Contains(t, said, "ANTHROPIC_API_KEY")
		assert.Contains(t, said, `"have agents run date and run uname", "list files", "read README.md", "run date", "write hello to hello.txt"`)
	}
	assert.NotContains(t, says(t, p, providers.Request{Model: model(""), Messages: []protocol.Message{user("read x")}}), "Try", "no tools, nothing to try")
	long := says(t, p, providers.Request{Model: model(""), Messages: []protocol.Message{user(strings.Repeat("é", 5000))}})
	assert.Less(t, len(long), 1500)
}

func TestDemo_results(t *testing.T) {
	p := New(Options{Pace: -1})
	ask := func(results ...protocol.Message) string {
		messages := append([]protocol.Message{user("list files"), called("ls")}, results...)
		return says(t, p, providers.Request{Model: model(""), Messages: messages, Tools: allTools})
	}
	assert.Equal(t, "The ls tool gave 2 lines:\n\n    a.txt\n    b.txt", ask(result("ls", "a.txt\nb.txt\n")))
	assert.Equal(t, "The ls tool gave one line:\n\n    only", ask(result("ls", "only")))
	assert.Equal(t, "The ls tool gave no text.", ask(result("ls", " \n")))
	failed := result("bash", "no such file").(*protocol.ToolResultMessage)
	failed.IsError = true
	assert.Equal(t, "The ls tool gave one line:\n\n    x\n\nThe bash tool failed with one line:\n\n    no such file", ask(result("ls", "x"), failed))
	many := ask(result("ls", strings.Repeat("line\n", 100)))
	assert.Contains(t, many, "100 lines")
	assert.Contains(t, many, "… and 88 more")
}

func TestDemo_streams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := providers.Request{Model: model(""), Messages: []protocol.Message{user("run date")}, Tools: allTools, Thinking: "low"}
		begun := time.Now()
		got, failed, problem := providertest.Fold(New(Options{}).Stream(t.Context(), req))
		require.NoError(t, problem)
		require.Nil(t, failed)
		assert.Greater(t, got.Deltas, 5, "in pieces")
		assert.Greater(t, time.Since(begun), 20*time.Millisecond, "and not at once")
		assert.Equal(t, protocol.StopToolUse, got.Stop)
		require.IsType(t, protocol.Thinking{}, got.Content[0])
		assert.Positive(t, got.Usage.Input)
		assert.Positive(t, got.Usage.Output)
		again, _, _ := providertest.Fold(New(Options{Pace: -1}).Stream(t.Context(), req))
		assert.Equal(t, got, again, "the same every time")
	})
}

// TestDoc: the example in the package comment works as it says.
func TestDoc(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	lines := strings.Split(string(source), "\n")
	example := func(from string) string {
		var block []string
		inside, found := false, false
		for _, line := range lines {
			inside = inside || strings.HasPrefix(line, "// "+from)
			code, isCode := strings.CutPrefix(line, "//\t")
			if inside && isCode {
				found = true
				code, _, _ = strings.Cut(code, "  default 16")
				block = append(block, strings.TrimSpace(strings.Split(code, "         characters per delta")[0]))
				continue
			}
			if found {
				break
			}
		}
		return strings.Join(block, "\n")
	}
	text, err := Parse([]byte(example("# A script as text")))
	require.NoError(t, err)
	assert.Len(t, text.Answers, 2)
	assert.Equal(t, "list", text.Answers[0].When)

	code := example("# A script as JSON")
	code = strings.NewReplacer("pause between two deltas, default none", "", "begin again when all answers are used", "").Replace(code)
	script, err := Parse([]byte(code))
	require.NoError(t, err, code)
	assert.Len(t, script.Answers, 4)
}
