package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestLevelOfABranchWithoutModel: a branch may say which thinking level it has
// and not which model. The next life measures the level by the model that the
// session had, not by the one that a new session would get.
func TestLevelOfABranchWithoutModel(t *testing.T) {
	w := newWorld(defaults())
	w.send(protocol.SetModel{Provider: modelB.Provider, ModelID: modelB.ID})
	w.log = nil // as navigation to before the first entry leaves the branch
	w.send(protocol.SetThinkingLevel{Level: protocol.ThinkingHigh})
	w.crash()
	require.Equal(t, modelB.ID, w.m.State().Model.ID)
	require.Equal(t, protocol.ThinkingHigh, w.m.State().ThinkingLevel)
}

// TestHeadIsWrittenLater: what a session begins with is in front of its first message,
// also if it could not be written at first, and also after a crash on top of that.
func TestHeadIsWrittenLater(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		set := defaults()
		set.Child = &Child{SubagentEntry: protocol.SubagentEntry{ID: "A"}}
		w := &world{set: set, m: New(), answers: map[uint64]int{}, failAt: 0}
		w.dieAt = -1
		w.step(Restored{Session: w.load(), Settings: set})
		require.Empty(t, w.log, "the disk was full")
		if crashes {
			w.failAt = 0
			w.crash()
			require.Empty(t, w.log)
		}
		w.send(protocol.Prompt{Message: "go"})
		require.GreaterOrEqual(t, len(w.log), 4)
		require.IsType(t, protocol.Custom{}, w.log[0])
		require.Equal(t, protocol.CustomSubagent, w.log[0].(protocol.Custom).CustomType)
		require.IsType(t, protocol.ModelChange{}, w.log[1])
		require.IsType(t, protocol.ThinkingLevelChange{}, w.log[2])
	}
}
