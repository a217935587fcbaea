package core

import (
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
