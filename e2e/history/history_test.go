package history

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var mark = regexp.MustCompile(`~\w+~`)

func canary(text string) string { return mark.FindString(text) }

// tell makes a history of lines: > is a command, < an output, and the words
// life, end, killed and ran are themselves.
func tell(lines string) *History {
	h := &History{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == '>':
			h.Add(Command, line[2:])
		case line[0] == '<':
			h.Add(Output, line[2:])
		default:
			kind, rest, _ := strings.Cut(line, " ")
			h.Add(Kind(kind), rest)
		}
	}
	return h
}

const goodRun = `
	life
	> {"id":"1","type":"prompt","message":"~a~ one"}
	< {"id":"1","type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}
	< {"type":"agent_start","runId":"1"}
	< {"type":"turn_start","runId":"1"}
	< {"type":"message_start","runId":"1"}
	< {"type":"message_end","runId":"1"}
	> {"id":"2","type":"steer","message":"~a~ two"}
	< {"id":"2","type":"response","command":"steer","success":true,"data":{"disposition":"queued"}}
	< {"type":"tool_execution_start","runId":"1","toolCallId":"c"}
	< {"type":"tool_execution_end","runId":"1","toolCallId":"c"}
	< {"type":"turn_end","runId":"1"}
	< {"type":"agent_end","runId":"1"}
	< {"type":"agent_settled","runId":"1"}
	> {"id":"3","type":"abort"}
	< {"id":"3","type":"response","command":"abort","success":true}
	end
`

const goodFile = `{"type":"session","id":"s"}
{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"~a~ one"}]}}
{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"toolCall","id":"c"}],"stopReason":"toolUse"}}
{"type":"custom","id":"3","parentId":"2","customType":"troupe.queue","data":{"op":"add","id":"q1","kind":"steer","text":"~a~ two"}}
{"type":"message","id":"4","parentId":"3","message":{"role":"toolResult","toolCallId":"c"}}
{"type":"message","id":"5","parentId":"4","troupeQueueId":"q1","message":{"role":"user","content":"~a~ two"}}
`

func check(wire, file string) []string {
	return Check(tell(wire), Options{Canary: canary, Files: map[string][]byte{"f": []byte(file)}, Secrets: []string{"hunter2"}})
}

func TestGoodHistoryPasses(t *testing.T) {
	require.Empty(t, check(goodRun, goodFile))
}

// TestEachCheckerCanFail damages the good history one way at a time. A checker
// that finds nothing here would find nothing anywhere.
func TestEachCheckerCanFail(t *testing.T) {
	for _, c := range []struct{ name, want, in, old, new string }{
		{"no answer", "S1", "wire", `< {"id":"3","type":"response","command":"abort","success":true}`, ""},
		{"two answers", "S1", "wire", "end\n", `< {"id":"3","type":"response"}` + "\nend\n"},
		{"answer to nothing", "S1", "wire", "end\n", `< {"id":"9","type":"response"}` + "\nend\n"},
		{"terminal event dropped", "L1", "wire", `< {"type":"agent_settled","runId":"1"}`, ""},
		{"run left open", "L1", "wire", `< {"type":"agent_end","runId":"1"}`, ""},
		{"event after the end", "S2", "wire", "end\n", `< {"type":"message_start","runId":"1"}` + "\nend\n"},
		{"turn end lost", "S2", "wire", `< {"type":"turn_end","runId":"1"}`, ""},
		{"settled twice", "S2", "wire", "end\n", `< {"type":"agent_settled","runId":"1"}` + "\nend\n"},
		{"run after session_failed", "S2", "wire", "end\n", `< {"type":"session_failed"}` + "\n" + `< {"type":"agent_start","runId":"2"}` + "\nend\n"},
		{"run number used again", "S2", "wire", "end\n", `< {"type":"agent_start","runId":"1"}` + "\nend\n"},
		{"gap in seq", "S3", "wire", `{"type":"agent_start","runId":"1"}`, `{"type":"agent_start","runId":"1","seq":2}`},
		{"answered in the past", "S3", "wire", "end\n", `< {"type":"queue_changed","seq":2,"seqFrom":1}` + "\n" + `> {"id":"9","type":"get_state"}` + "\n" + `< {"id":"9","type":"response","success":true,"at":1}` + "\nend\n"},
		{"tool end lost", "S2", "wire", `< {"type":"tool_execution_end","runId":"1","toolCallId":"c"}`, ""},
		{"tool begun twice", "S5", "wire", `< {"type":"turn_end","runId":"1"}`, `< {"type":"tool_execution_start","runId":"1","toolCallId":"c"}` + "\n" + `< {"type":"turn_end","runId":"1"}`},
		{"other session's words", "S8", "wire", "end\n", `< {"type":"queue_changed","sessionId":"s2","steering":["~a~ two"]}` + "\nend\n"},
		{"after the abort", "S9", "wire", `< {"type":"turn_end","runId":"1"}`,
			"> {\"id\":\"8\",\"type\":\"abort\"}\n< {\"id\":\"8\",\"type\":\"response\",\"success\":true}\n< {\"type\":\"turn_end\",\"runId\":\"1\"}"},
		{"event after detach", "S2", "wire", "end\n", "> {\"id\":\"8\",\"type\":\"detach\"}\n< {\"id\":\"8\",\"type\":\"response\",\"command\":\"detach\",\"success\":true}\n< {\"type\":\"queue_changed\"}\nend\n"},
		{"closed and there", "S1", "wire", "end\n", "> {\"id\":\"8\",\"type\":\"close_session\",\"sessionId\":\"s1\"}\n" +
			"< {\"id\":\"8\",\"type\":\"response\",\"command\":\"close_session\",\"success\":true,\"sessionId\":\"s1\"}\n" +
			"> {\"id\":\"9\",\"type\":\"get_state\",\"sessionId\":\"s1\"}\n" +
			"< {\"id\":\"9\",\"type\":\"response\",\"success\":false,\"code\":\"session_closing\"}\nend\n"},
		{"ran without consent", "S10", "wire", "end\n", "ran c\nend\n"},
		{"not JSON", "S11", "wire", "end\n", "< panic: oops\nend\n"},
		{"secret", "S11", "wire", "end\n", `< {"type":"x","k":"hunter2"}` + "\nend\n"},
		{"steer lost", "S4", "file", `troupeQueueId":"q1","message":{"role":"user","content":"~a~ two"`, `x":"","message":{"role":"custom"`},
		{"prompt lost", "S4", "file", `"text":"~a~ one"`, `"text":"~a~ something else"`},
		{"delivered twice", "S4", "file", "\n" + `{"type":"message","id":"5"`, "\n" + `{"type":"message","id":"7","parentId":"4","message":{"role":"user","content":"~a~ two"}}` + "\n" + `{"type":"message","id":"5"`},
		{"result lost", "S5", "file", `"role":"toolResult","toolCallId":"c"`, `"role":"custom"`},
		{"torn", "S6", "file", `"content":"~a~ two"}}` + "\n", `"content":"~a~ two`},
		{"id taken", "S6", "file", `"id":"4"`, `"id":"2"`},
		{"parent missing", "S6", "file", `"parentId":"4"`, `"parentId":"44"`},
		{"no header", "S6", "file", `{"type":"session","id":"s"}`, `{"type":"x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire, file := goodRun, goodFile
			part := map[string]*string{"wire": &wire, "file": &file}[c.in]
			require.Contains(t, *part, c.old)
			*part = strings.Replace(*part, c.old, c.new, 1)
			if c.name == "steer lost" { // gone from the queue, too
				file = strings.Replace(file, `"op":"add"`, `"op":"gone"`, 1)
			}
			found := check(wire, file)
			require.NotEmpty(t, found)
			assert.Contains(t, strings.Join(found, "\n"), c.want)
		})
	}
}

const goodTasks = `
	life
	< {"type":"agent_start","runId":"1"}
	< {"type":"turn_start","runId":"1"}
	< {"type":"tool_execution_start","runId":"1","toolCallId":"c"}
	< {"type":"subagent_start","id":"A","toolCallId":"c"}
	< {"type":"subagent_start","id":"B","toolCallId":"c"}
	< {"type":"budget_warning","snapshot":{"reason":"turns"}}
	< {"type":"subagent_verification_start","id":"A","attempt":1}
	< {"type":"subagent_verification_command_start","id":"A","attempt":1,"commandName":"test"}
	< {"type":"subagent_verification_command_end","id":"A","attempt":1,"commandName":"test"}
	< {"type":"subagent_verification_end","id":"A","attempt":1}
	< {"type":"subagent_end","id":"A","exitCode":0,"verification":{"status":"passed"}}
	< {"type":"subagent_end","id":"B","exitCode":1}
	< {"type":"budget_exceeded","snapshot":{"reason":"turns"}}
	< {"type":"tool_execution_end","runId":"1","toolCallId":"c","result":{"details":{"results":[{"id":"A","exitCode":0,"merged":true},{"id":"B","exitCode":1}]}}}
	< {"type":"turn_end","runId":"1"}
	< {"type":"agent_end","runId":"1"}
	< {"type":"agent_settled","runId":"1"}
	end
`

// TestFilesAlone: files can be judged without what was said.
func TestFilesAlone(t *testing.T) { require.Empty(t, Check(&History{}, Options{})) }

// TestNoChildBehindALimit: a child that begins behind the limit of its session
// is T11, but for a grandchild that the record of the limit has counted.
func TestNoChildBehindALimit(t *testing.T) {
	over := func(children, starts string) string {
		limit := `< {"type":"budget_exceeded","scope":"session","snapshot":{"reason":"tool_calls","subagents":` + children + `}}`
		ends := `< {"type":"subagent_end","id":"A.A","exitCode":1}` + "\n" + `< {"type":"subagent_end","id":"A","exitCode":1}`
		return strings.NewReplacer(
			`{"type":"subagent_end","id":"A","exitCode":0,"verification":{"status":"passed"}}`, `{"type":"noise"}`,
			`< {"type":"budget_exceeded","snapshot":{"reason":"turns"}}`, limit+"\n"+starts+"\n"+ends,
		).Replace(goodTasks)
	}
	below := `< {"type":"subagent_start","id":"A.A","parentId":"A"}`
	assert.Empty(t, Check(tell(over("3", below)), Options{}), "granted before, told by way of its parent")
	assert.Contains(t, strings.Join(Check(tell(over("2", below)), Options{}), "\n"), "T11", "not counted")
	assert.Contains(t, strings.Join(Check(tell(over("3", `< {"type":"subagent_start","id":"A.A","toolCallId":"c"}`)), Options{}), "\n"), "T11", "a child of the session itself")
}

// TestCostsOfChildren is T7: what the log of a parent says of a child, at its end and behind it, is
// what the child's file says.
func TestCostsOfChildren(t *testing.T) {
	task := func(at int, data string) string {
		return fmt.Sprintf(`{"type":"custom","timestamp":"2000-01-01T00:00:%02dZ","customType":"troupe.task","data":%s}`+"\n", at, data)
	}
	answer := func(at, tokens int) string {
		return fmt.Sprintf(`{"type":"message","timestamp":"2000-01-01T00:00:%02dZ","message":{"usage":{"totalTokens":%d}}}`+"\n", at, tokens)
	}
	start := func(file string) string { return task(1, `{"op":"start","call":"c","id":"A","file":"`+file+`"}`) }
	end := func(file string, tokens int, cut bool) string {
		return task(5, fmt.Sprintf(`{"op":"end","call":"c","id":"A","file":"%s","at":946684805000,"result":{"aborted":%v,"usage":{"totalTokens":%d}}}`, file, cut, tokens))
	}
	late := func(tokens int) string {
		return task(7, fmt.Sprintf(`{"op":"spent","call":"c","id":"A","spent":{"totalTokens":%d}}`, tokens))
	}
	for name, c := range map[string]struct {
		parent, child, below string
		fine                 bool
	}{
		"as it is":                         {start("/c") + end("/c", 15, false), answer(2, 15), "", true},
		"more than it is":                  {start("/c") + end("/c", 30, false), answer(2, 15), "", false},
		"less than it is":                  {start("/c") + end("/c", 0, false), answer(2, 15), "", false},
		"cut off before its answer":        {start("/c") + end("/c", 0, true), answer(2, 15), "", true},
		"told behind its end":              {start("/c") + end("/c", 0, true) + late(15), answer(6, 15), "", true},
		"told twice":                       {start("/c") + end("/c", 15, true) + late(15), answer(2, 15), "", false},
		"of its own child":                 {start("/c") + end("/c", 15, false), start("/b") + end("/b", 15, false), answer(2, 15), true},
		"of its own child, behind its end": {start("/c") + end("/c", 0, true) + late(15), start("/b") + end("/b", 0, true) + late(15), answer(6, 15), true},
		"of its own child, lost":           {start("/c") + end("/c", 0, false), start("/b"), answer(2, 15), false},
	} {
		found := costs(map[string][]byte{"/p": []byte(c.parent), "/c": []byte(c.child), "/b": []byte(c.below)})
		if c.fine {
			assert.Empty(t, found, name)
		} else {
			assert.Contains(t, strings.Join(found, "\n"), "T7: /p: child /c", name)
		}
	}
}

func TestGrown(t *testing.T) {
	assert.True(t, Grown([]byte("a\nb\nto"), []byte("a\nb\nc\n")), "a torn tail may go")
	assert.False(t, Grown([]byte("a\nb\n"), []byte("a\nx\n")))
}

// TestKilledLife: who was killed owes nothing, but what it acknowledged counts.
func TestKilledLife(t *testing.T) {
	h := tell(`
		life
		> {"id":"1","type":"prompt","message":"~a~ one"}
		killed
		life
		> {"id":"1","type":"prompt","message":"~a~ two"}
		< {"id":"1","type":"response","success":true}
		killed
	`)
	found := Check(h, Options{Canary: canary, Files: map[string][]byte{}})
	require.Len(t, found, 1)
	assert.Contains(t, found[0], "accepted and lost: ~a~ two")
}
