package core

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"troupe/protocol"
)

// TestTogether: inputs of one Step have the effects that they have one by one.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, many := New(), New()
		for _, m := range []*Machine{one, many} {
			m.Step(1, &ids{}, Restored{Session: Loaded{Identity: Identity{SessionID: "s", Durability: "sync"}}, Settings: defaults()})
		}
		var inputs []Input
		for i := range rapid.IntRange(1, 12).Draw(t, "inputs") {
			inputs = append(inputs, message(t, i))
		}
		var singly string
		for _, in := range inputs {
			singly += describe(one.Step(2, &ids{}, in))
		}
		var together string
		for rest := inputs; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			together += describe(many.Step(2, &ids{}, rest[:n]...))
			rest = rest[n:]
		}
		if singly != together {
			t.Fatalf("one by one:\n%s\ntogether:\n%s", singly, together)
		}
	})
}

func message(t *rapid.T, i int) Input {
	text, key := fmt.Sprintf("m%d", i), rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key")
	cmd := rapid.SampledFrom([]protocol.Command{
		protocol.Prompt{Message: text, IdempotencyKey: key}, protocol.Prompt{Message: text, StreamingBehavior: "steer"},
		protocol.Steer{Message: text, IdempotencyKey: key}, protocol.FollowUp{Message: text}, protocol.QueueMessage{Message: text},
		protocol.ClearQueue{}, protocol.Abort{}, protocol.GetState{},
	}).Draw(t, "command")
	return Command{Seq: uint64(i + 1), Name: fmt.Sprintf("%T", cmd), Cmd: cmd, LookedUp: LookedUp{Catalog: catalog}}
}
