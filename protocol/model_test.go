package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGates_Levels: max is a level of the dialects that have it.
func TestGates_Levels(t *testing.T) {
	union, _ := DialectUnion.Gates()
	pi1, _ := DialectPi1.Gates()
	asked, _ := DialectS0.Gates(string(FeatureMaxLevel))
	none := ""
	both := &Model{Reasoning: true, Settings: &ModelExtra{ThinkingLevels: []ThinkingLevel{ThinkingXHigh, ThinkingMax}}}
	noXHigh := &Model{Reasoning: true, Settings: &ModelExtra{ThinkingLevels: []ThinkingLevel{ThinkingMax}}}
	onlyMax := &Model{Reasoning: true, Settings: &ModelExtra{
		ThinkingLevels: []ThinkingLevel{ThinkingMax},
		ThinkingValues: map[string]*string{"off": nil, "minimal": nil, "low": nil, "medium": nil, "high": nil, "max": &none},
	}}
	for _, c := range []struct {
		gates Gates
		model *Model
		want  ThinkingLevel
	}{
		{union, both, ThinkingXHigh}, {union, noXHigh, ThinkingHigh}, {union, onlyMax, ThinkingMax}, {union, nil, ThinkingOff},
		{pi1, both, ThinkingMax}, {asked, noXHigh, ThinkingMax}, {union, &Model{}, ThinkingOff},
	} {
		require.Equal(t, c.want, c.gates.Clamp(c.model, ThinkingMax))
		levels := c.gates.Levels(c.model)
		require.Equal(t, c.want, levels[len(levels)-1])
	}
}
