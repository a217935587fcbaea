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
