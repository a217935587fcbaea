package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// inAnswer is a machine in the middle of an answer, and the attempt.
func inAnswer(tb testing.TB) (m *Machine, attempt Attempt) {
	m = New()
	m.Step(1, &ids{}, Restored{Session: Loaded{Identity: Identity{SessionID: "s", Durability: "process"}}, Settings: defaults()})
	effects := m.Step(2, &ids{}, Command{Seq: 1, Name: "prompt", Cmd: protocol.Prompt{Message: "go"}, LookedUp: LookedUp{Catalog: catalog}})
	for _, e := range effects {
		if e, ok := e.(StartStream); ok {
			attempt = e.Attempt
		}
	}
	require.NotZero(tb, attempt)
	m.Step(3, &ids{}, StreamParts{Attempt: attempt, Parts: []protocol.Part{protocol.PartStart{}, protocol.PartBlockStart{Kind: protocol.BlockText}}})
	return m, attempt
}

func BenchmarkStepDelta(b *testing.B) {
	log := &ids{}
	m, attempt := inAnswer(b)
	in := StreamParts{Attempt: attempt, Parts: []protocol.Part{protocol.PartDelta{Delta: "word "}}}
	b.ReportAllocs()
	for b.Loop() {
		m.Step(4, log, in)
	}
}

func BenchmarkStepCommand(b *testing.B) {
	log := &ids{}
	m, _ := inAnswer(b)
	in := Command{Seq: 2, Name: "get_state", Cmd: protocol.GetState{}}
	b.ReportAllocs()
	for b.Loop() {
		m.Step(4, log, in)
	}
}

// TestStepAllocations holds the hot steps to their price.
func TestStepAllocations(t *testing.T) {
	log := &ids{}
	m, attempt := inAnswer(t)
	parts := make([]protocol.Part, 64)
	for i := range parts {
		parts[i] = protocol.PartDelta{Delta: "word "}
	}
	batch := StreamParts{Attempt: attempt, Parts: parts}
	perDelta := testing.AllocsPerRun(100, func() { m.Step(4, log, batch) }) / float64(len(parts))
	t.Logf("a delta: %.2f allocations", perDelta)
	require.LessOrEqual(t, perDelta, 2.1)
	perCommand := testing.AllocsPerRun(1000, func() { m.Step(4, log, Command{Seq: 2, Name: "get_state", Cmd: protocol.GetState{}}) })
	t.Logf("get_state: %v allocations", perCommand)
	require.LessOrEqual(t, perCommand, 5.0) // one is the command as an input
}

// BenchmarkStepAbortTasks is the step that ends a call with a hundred children.
func BenchmarkStepAbortTasks(b *testing.B) {
	log := &ids{}
	set := taskSettings(defaults())
	set.Tasks.MaxConcurrency = 100
	var items []string
	for i := range 100 {
		items = append(items, fmt.Sprintf(`{"id":"T%d","description":"one","assignment":"go"}`, i))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m := New()
		m.Step(1, log, Restored{Session: Loaded{Identity: Identity{SessionID: "s", Durability: "process"}}, Settings: set})
		m.Step(2, log, Command{Seq: 1, Name: "prompt", Cmd: protocol.Prompt{Message: "go"}, LookedUp: LookedUp{Catalog: catalog}})
		m.Step(3, log, StreamParts{m.attempts, []protocol.Part{
			protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "t", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
		}})
		m.Step(4, log, StreamEnd{Attempt: m.attempts, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
		attempt := m.activity.begun()
		m.Step(5, log, TaskReady{attempt, "t", json.RawMessage(`{"agent":"task","tasks":[` + strings.Join(items, ",") + `]}`)})
		for i := range 100 {
			m.Step(6, log, ChildOpened{Attempt: attempt, ID: fmt.Sprintf("T%d", i), SessionID: "s9", File: "/home/u/.pi/agent/sessions/--work--/2026-11-21T01-04-26-000Z_0000ffff/T.jsonl"})
		}
		b.StartTimer()
		m.Step(7, log, Command{Seq: 2, Name: "abort", Cmd: protocol.Abort{}})
	}
}
