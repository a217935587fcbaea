package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRules_Levels: max is a level of the dialects that have it.
func TestRules_Levels(t *testing.T) {
	_, union, _ := DialectUnion.Open()
	_, pi1, _ := DialectPi1.Open()
	_, asked, _ := DialectS0.Open(string(FeatureMaxLevel))
	none := ""
	both := &Model{Reasoning: true, ProviderConfig: &ProviderConfig{ThinkingLevels: []ThinkingLevel{ThinkingXHigh, ThinkingMax}}}
	noXHigh := &Model{Reasoning: true, ProviderConfig: &ProviderConfig{ThinkingLevels: []ThinkingLevel{ThinkingMax}}}
	onlyMax := &Model{Reasoning: true, ProviderConfig: &ProviderConfig{
		ThinkingLevels: []ThinkingLevel{ThinkingMax},
		ThinkingValues: map[string]*string{"off": nil, "minimal": nil, "low": nil, "medium": nil, "high": nil, "max": &none},
	}}
	for _, c := range []struct {
		rules Rules
		model *Model
		want  ThinkingLevel
	}{
		{union, both, ThinkingXHigh}, {union, noXHigh, ThinkingHigh}, {union, onlyMax, ThinkingMax}, {union, nil, ThinkingOff},
		{pi1, both, ThinkingMax}, {asked, noXHigh, ThinkingMax}, {union, &Model{}, ThinkingOff},
	} {
		require.Equal(t, c.want, c.rules.Clamp(c.model, ThinkingMax))
		levels := c.rules.Levels(c.model)
		require.Equal(t, c.want, levels[len(levels)-1])
	}
}

func TestModel(t *testing.T) {
	word := "low"
	m := &Model{Reasoning: true, Cost: ModelCost{Input: 3, Output: 15}, ProviderConfig: &ProviderConfig{
		ThinkingLevels: []ThinkingLevel{ThinkingXHigh},
		ThinkingValues: map[string]*string{"minimal": nil, "low": &word},
		Tiers:          []CostTier{{InputAbove: 100, ModelCost: ModelCost{Input: 6, Output: 30}}},
	}}
	require.Equal(t, []ThinkingLevel{"off", "low", "medium", "high", "xhigh"}, m.Levels())
	for in, want := range map[ThinkingLevel]ThinkingLevel{"off": "off", "minimal": "low", "high": "high", "xhigh": "xhigh", "max": "xhigh"} {
		require.Equal(t, want, m.Clamp(in), in)
	}
	require.Equal(t, ThinkingOff, (*Model)(nil).Clamp("high"))
	require.Equal(t, ThinkingHigh, (&Model{Reasoning: true}).Clamp("xhigh"))

	u := m.Price(Usage{Input: 100, Output: 10})
	require.EqualValues(t, 110, u.TotalTokens)
	require.Equal(t, 0.00030000000000000003, u.Cost.Input, "as JavaScript multiplies")
	require.InDelta(t, 0.0006, m.Price(Usage{Input: 100, CacheRead: 1}).Cost.Input, 1e-9, "the tier counts cached input")

	c := &Catalog{Models: []*Model{{ID: "a", Provider: "p"}, {ID: "b", Provider: "q"}}, Keys: map[string]bool{"q": true}}
	require.Equal(t, "b", c.Find("q", "b").ID)
	require.Nil(t, c.Find("q", "a"))
	require.Len(t, c.Available(), 1)
	require.False(t, (*Catalog)(nil).HasKey("p"))
}
