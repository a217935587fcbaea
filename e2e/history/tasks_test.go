package history

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told is a history of tasks in all its parts: what a client said and read, in two lives, what models were asked,
// the session files, and what the user has.
type told struct {
	wire          string
	parent, child string // files
	before, after map[string]string
	there         map[string]bool
}

func goodTold() told {
	return told{
		wire: `
	life
	> {"id":"1","type":"get_state"}
	< {"id":"1","type":"response","command":"get_state","success":true,"data":{"sessionFile":"/p"}}
	> {"id":"2","type":"prompt","message":"go"}
	< {"id":"2","type":"response","command":"prompt","success":true}
	< {"type":"agent_start","runId":"1"}
	< {"type":"turn_start","runId":"1"}
	asked {"n":1,"max":40,"of":"go"}
	answered {"n":1,"output":10}
	< {"type":"tool_execution_start","runId":"1","toolCallId":"c","toolName":"task","args":{"tasks":[{"id":"A"},{"id":"B"},{"id":"C"}]}}
	< {"type":"subagent_start","id":"A","toolCallId":"c"}
	< {"type":"subagent_start","id":"B","toolCallId":"c"}
	asked {"n":2,"max":40,"of":"A"}
	asked {"n":3,"max":40,"of":"B"}
	answered {"n":2,"output":10}
	< {"type":"budget_warning","scope":"session","snapshot":{"reason":"cost","outputTokens":10}}
	< {"type":"subagent_verification_start","id":"A","attempt":1}
	< {"type":"subagent_verification_command_start","id":"A","attempt":1,"commandName":"test"}
	< {"type":"subagent_verification_command_end","id":"A","attempt":1,"commandName":"test"}
	< {"type":"subagent_verification_end","id":"A","attempt":1}
	< {"type":"subagent_end","id":"A","exitCode":0,"verification":{"status":"passed"}}
	< {"type":"subagent_start","id":"C","toolCallId":"c"}
	answered {"n":3,"output":10}
	< {"type":"subagent_end","id":"B","exitCode":1,"verification":{"status":"skipped"}}
	< {"type":"subagent_end","id":"C","exitCode":0}
	< {"type":"budget_exceeded","scope":"session","snapshot":{"reason":"cost","outputTokens":30}}
	< {"type":"tool_execution_end","runId":"1","toolCallId":"c","result":{"details":{"results":[{"id":"A","exitCode":0,"merged":true},{"id":"B","exitCode":1},{"id":"C","exitCode":0}]}}}
	< {"type":"turn_end","runId":"1"}
	< {"type":"agent_end","runId":"1"}
	< {"type":"agent_settled","runId":"1"}
	> {"id":"3","type":"get_budget"}
	< {"id":"3","type":"response","command":"get_budget","success":true,"data":{"limits":{"maxOutputTokens":100},"snapshot":{"outputTokens":30}}}
	killed
	life
	> {"id":"1","type":"get_state"}
	< {"id":"1","type":"response","command":"get_state","success":true,"data":{"sessionFile":"/p"}}
	> {"id":"3","type":"get_budget"}
	< {"id":"3","type":"response","command":"get_budget","success":true,"data":{"limits":{"maxOutputTokens":100},"snapshot":{"outputTokens":30}}}
	asked {"n":4,"max":40,"of":"go","results":[{"call":"c","text":"all is well"}]}
	answered {"n":4,"output":10}
	asked {"n":5,"max":40,"of":"go","results":[{"call":"c","text":"all is well"}]}
	answered {"n":5,"output":10}
	> {"id":"4","type":"get_session_stats"}
	< {"id":"4","type":"response","command":"get_session_stats","success":true,"data":{"sessionFile":"/p","session":{"tokens":{"total":30}}}}
	end
`,
		parent: `{"type":"session","id":"p"}
{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"go"}}
{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"toolCall","id":"c"}],"stopReason":"toolUse","usage":{"totalTokens":20}}}
{"type":"custom","id":"3","parentId":"2","customType":"troupe.task","data":{"op":"start","call":"c","id":"A","index":0,"file":"/p/A.jsonl","workspace":"/w/A"}}
{"type":"custom","id":"4","parentId":"3","customType":"troupe.task","data":{"op":"start","call":"c","id":"C","index":2,"workspace":"/w/C"}}
{"type":"custom","id":"5","parentId":"4","customType":"troupe.budget","data":{"op":"warned","reason":"cost"}}
{"type":"custom","id":"6","parentId":"5","customType":"troupe.task","data":{"op":"end","call":"c","id":"A","file":"/p/A.jsonl","at":946684805000,"result":{"exitCode":0,"usage":{"totalTokens":10}}}}
{"type":"custom","id":"7","parentId":"6","customType":"troupe.task","data":{"op":"merge","call":"c","id":"A","paths":["a.txt"]}}
{"type":"custom","id":"8","parentId":"7","customType":"troupe.task","data":{"op":"merged","call":"c","id":"A"}}
{"type":"custom","id":"9","parentId":"8","customType":"troupe.task","data":{"op":"end","call":"c","id":"C","at":946684805000,"result":{"exitCode":0}}}
{"type":"custom","id":"10","parentId":"9","customType":"troupe.task","data":{"op":"merge","call":"c","id":"C","paths":["c.txt"]}}
{"type":"custom","id":"11","parentId":"10","customType":"troupe.budget","data":{"op":"exceeded","reason":"cost"}}
{"type":"message","id":"12","parentId":"11","message":{"role":"toolResult","toolCallId":"c","toolName":"task","content":[],"details":{"results":[{"id":"A","exitCode":0,"merged":true},{"id":"C","exitCode":0,"merged":false}]}}}
`,
		child: `{"type":"session","id":"a"}
{"type":"message","id":"1","parentId":null,"timestamp":"2000-01-01T00:00:01Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"w"}],"stopReason":"toolUse","usage":{"totalTokens":10}}}
{"type":"message","id":"2","parentId":"1","timestamp":"2000-01-01T00:00:02Z","message":{"role":"toolResult","toolCallId":"w","toolName":"bash","content":[]}}
`,
		before: map[string]string{"a.txt": "one", "c.txt": "one", "mine": "one"},
		after:  map[string]string{"a.txt": "two", "c.txt": "one", "mine": "one"},
		there:  map[string]bool{"/w/A": true},
	}
}

func (t told) check() []string {
	return Check(tell(t.wire), Options{
		Files: map[string][]byte{"/p": []byte(t.parent), "/p/A.jsonl": []byte(t.child)}, Free: true, Concurrency: 2, Output: 100,
		Work: &Work{Before: t.before, After: t.after, There: func(path string) bool { return t.there[path] }},
	})
}

// TestEachLawOfTasksCanFail damages a good history of tasks one way at a time: each of the laws T1 to T16 is noticed
// where it is broken, in what a client has read, what models were asked, the files, or what the user has.
func TestEachLawOfTasksCanFail(t *testing.T) {
	require.Empty(t, goodTold().check())
	wire := func(old, new string) func(*told) { return func(h *told) { replace(t, &h.wire, old, new) } }
	file := func(old, new string) func(*told) { return func(h *told) { replace(t, &h.parent, old, new) } }
	line := func(n int) string { return strings.Split(goodTold().parent, "\n")[n] + "\n" }
	endB := `< {"type":"subagent_end","id":"B","exitCode":1,"verification":{"status":"skipped"}}`
	endOfTurn := `< {"type":"turn_end","runId":"1"}`
	seen := map[string]bool{}
	for _, c := range []struct {
		law, name string
		damage    func(*told)
	}{
		{"T1", "no end", wire(endB, "")},
		{"T1", "two ends", wire(endB, endB+"\n"+endB)},
		{"T1", "begun twice", wire(endB, `< {"type":"subagent_start","id":"B","toolCallId":"c"}`)},
		{"T1", "begun outside of its call", wire(`< {"type":"turn_start","runId":"1"}`, `< {"type":"turn_start","runId":"1"}`+"\n"+`< {"type":"subagent_start","id":"D","toolCallId":"c"}`)},
		{"T1", "end after its call", wire(endOfTurn, endB+"\n"+endOfTurn)},
		{"T2", "attempts", wire(`{"type":"subagent_verification_start","id":"A","attempt":1}`, `{"type":"subagent_verification_start","id":"A","attempt":2}`)},
		{"T2", "command without an end", wire(`< {"type":"subagent_verification_command_end","id":"A","attempt":1,"commandName":"test"}`, "")},
		{"T2", "verification without an end", wire(`< {"type":"subagent_verification_end","id":"A","attempt":1}`, "")},
		{"T2", "skipped, and begun", wire(endB, `< {"type":"subagent_verification_start","id":"B","attempt":1}`+"\n"+`< {"type":"subagent_verification_end","id":"B","attempt":1}`+"\n"+endB)},
		{"T3", "success that was not verified", wire(`"status":"passed"`, `"status":"failed"`)},
		{"T3", "and in the result", wire(`{"id":"C","exitCode":0}]`, `{"id":"C","exitCode":0,"verification":{"status":"failed"}}]`)},
		{"T3", "and in the file", file(`{"id":"C","exitCode":0,"merged":false}`, `{"id":"C","exitCode":0,"merged":false,"verification":{"status":"skipped"}}`)},
		{"T4", "merged all the same", wire(`{"id":"B","exitCode":1}`, `{"id":"B","exitCode":1,"merged":true}`)},
		{"T4", "merged before its end", file(`{"op":"end","call":"c","id":"C"`, `{"op":"noise","call":"c","id":"C"`)},
		{"T4", "merged though it failed", file(`"at":946684805000,"result":{"exitCode":0}`, `"at":946684805000,"result":{"exitCode":1}`)},
		{"T4", "merged out of order", file(`"id":"A","index":0`, `"id":"A","index":3`)},
		{"T4", "two merges at once", func(h *told) { // C is announced before A is merged
			replace(t, &h.parent, line(8)+line(9)+line(10), strings.NewReplacer(`"parentId":"8"`, `"parentId":"7"`, `"parentId":"7"`, `"parentId":"10"`).Replace(line(9)+line(10)+line(8)))
			replace(t, &h.parent, `"id":"11","parentId":"10"`, `"id":"11","parentId":"8"`)
		}},
		{"T5", "an abort that is answered too early", wire(endB, "> {\"id\":\"8\",\"type\":\"abort\"}\n< {\"id\":\"8\",\"type\":\"response\",\"command\":\"abort\",\"success\":true}\n"+endB)},
		{"T5", "a step of a call that is over", func(h *told) {
			h.parent += `{"type":"custom","id":"13","parentId":"12","customType":"troupe.task","data":{"op":"merged","call":"c","id":"C"}}` + "\n"
			h.after["c.txt"] = "two"
		}},
		{"T6", "too many at once", wire(`< {"type":"subagent_end","id":"A","exitCode":0,"verification":{"status":"passed"}}`+"\n\t"+`< {"type":"subagent_start","id":"C","toolCallId":"c"}`,
			`< {"type":"subagent_start","id":"C","toolCallId":"c"}`+"\n\t"+`< {"type":"subagent_end","id":"A","exitCode":0,"verification":{"status":"passed"}}`)},
		{"T6", "out of order", wire(`[{"id":"A"},{"id":"B"},{"id":"C"}]`, `[{"id":"B"},{"id":"A"},{"id":"C"}]`)},
		{"T6", "an item without a result", wire(`,{"id":"B","exitCode":1}`, "")},
		{"T6", "a result of another", wire(`,{"id":"B","exitCode":1}`, `,{"id":"D","exitCode":1}`)},
		{"T7", "a child that is not counted", file(`{"exitCode":0,"usage":{"totalTokens":10}}`, `{"exitCode":0}`)},
		{"T7", "counted twice in the end", wire(`"total":30`, `"total":40`)},
		{"T8", "side by side beyond the limit", wire(`"n":3,"max":40`, `"n":3,"max":51`)},
		{"T9", "reserved for nobody", wire(`"snapshot":{"outputTokens":30}}}`+"\n\tkilled", `"snapshot":{"outputTokens":30},"reserved":{"outputTokens":40}}}`+"\n\tkilled")},
		{"T10", "warned twice", wire(endB, `< {"type":"budget_warning","scope":"session","snapshot":{"reason":"cost"}}`+"\n"+endB)},
		{"T10", "warned too late", wire(endOfTurn, `< {"type":"budget_warning","scope":"session","snapshot":{"reason":"wall_time"}}`+"\n"+endOfTurn)},
		{"T10", "exceeded twice", wire(endOfTurn, `< {"type":"budget_exceeded","scope":"session","snapshot":{"reason":"cost"}}`+"\n"+endOfTurn)},
		{"T10", "warned again, in another life", file(`{"op":"exceeded","reason":"cost"}`, `{"op":"warned","reason":"cost"}`)},
		{"T11", "an answer behind the limit", func(h *told) {
			h.parent += `{"type":"message","id":"13","parentId":"12","message":{"role":"assistant","content":[],"stopReason":"stop","usage":{"totalTokens":5}}}` + "\n"
		}},
		{"T11", "a second answer behind the limit", func(h *told) {
			for _, id := range []string{"13", "14"} {
				h.parent += `{"type":"message","id":"` + id + `","parentId":"12","message":{"role":"assistant","content":[],"timestamp":1,"stopReason":"stop","usage":{"totalTokens":5}}}` + "\n"
			}
		}},
		{"T11", "a child behind the limit", func(h *told) {
			replace(t, &h.parent, line(5), strings.Replace(line(5), "warned", "exceeded", 1)+task("start", 5))
		}},
		{"T12", "less than before", wire(`"outputTokens":30}}`+"\n\t"+`< {"type":"tool_execution_end"`, `"outputTokens":5}}`+"\n\t"+`< {"type":"tool_execution_end"`)},
		{"T12", "less in the next life", func(h *told) {
			i := strings.LastIndex(h.wire, `{"outputTokens":30}`)
			h.wire = h.wire[:i] + `{"outputTokens":20}` + h.wire[i+len(`{"outputTokens":30}`):]
		}},
		{"T13", "a file that no merge has announced", func(h *told) { h.after["mine"] = "two" }},
		{"T13", "a new one", func(h *told) { h.after["more"] = "" }},
		{"T14", "merged by halves", func(h *told) { h.after["a.txt"] = "one" }},
		{"T14", "not merged, and there", func(h *told) { h.after["c.txt"] = "two" }},
		{"T15", "thrown away", func(h *told) {
			h.there = nil
			replace(t, &h.parent, `{"op":"merged","call":"c","id":"A"}`, `{"op":"noise"}`)
			replace(t, &h.parent, `{"id":"A","exitCode":0,"merged":true}`, `{"id":"A","exitCode":0}`)
			h.after["a.txt"] = "one"
		}},
		{"T16", "too long for a model", file(`"content":[],"details"`, `"content":[{"type":"text","text":"`+strings.Repeat("x", maxTaskText+1)+`"}],"details"`)},
		{"T16", "two results", wire(`{"n":5,"max":40,"of":"go","results":[`, `{"n":5,"max":40,"of":"go","results":[{"call":"c","text":"all is well"},`)},
		{"T16", "another text", wire(`{"n":5,"max":40,"of":"go","results":[{"call":"c","text":"all is well"}]`, `{"n":5,"max":40,"of":"go","results":[{"call":"c","text":"all was well"}]`)},
	} {
		seen[c.law] = true
		h := goodTold()
		c.damage(&h)
		assert.Contains(t, strings.Join(h.check(), "\n"), c.law+":", "%s: %s", c.law, c.name)
	}
	for n := range 16 {
		assert.True(t, seen[fmt.Sprintf("T%d", n+1)], "no row for T%d", n+1)
	}
}

// task is an entry about child B.
func task(op string, parent int) string {
	return fmt.Sprintf(`{"type":"custom","id":"late","parentId":"%d","customType":"troupe.task","data":{"op":%q,"call":"c","id":"B","index":1}}`+"\n", parent, op)
}

func replace(t *testing.T, s *string, old, new string) {
	t.Helper()
	require.Contains(t, *s, old)
	*s = strings.Replace(*s, old, new, 1)
}
