package wire

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// priced is a model with prices that are easy to recognise, and a second tier.
func priced() *protocol.Model {
	return &protocol.Model{
		ID: "m", Input: []string{"text"}, Cost: protocol.ModelCost{Input: 4, Output: 20, CacheRead: 0.4, CacheWrite: 5},
		ProviderConfig: &protocol.ProviderConfig{Tiers: []protocol.CostTier{{InputAbove: 200_000, ModelCost: protocol.ModelCost{Input: 8, Output: 30, CacheRead: 0.8, CacheWrite: 10}}}},
	}
}

// reported is the last usage among the parts.
func reported(t *testing.T, p *Parts) (u protocol.Usage) {
	t.Helper()
	found := false
	for _, part := range p.out {
		if part, ok := part.(protocol.PartUsage); ok {
			u, found = part.Usage, true
		}
	}
	require.True(t, found, "no usage")
	return u
}

func TestUsage_prices(t *testing.T) {
	for _, c := range []struct {
		name   string
		report func(p *Parts)
		want   protocol.Cost
	}{
		{"each class has its price", func(p *Parts) {
			p.Usage(protocol.Usage{Input: 1000, Output: 1000, CacheRead: 1000, CacheWrite: 1000, TotalTokens: 7})
		}, protocol.Cost{Input: 0.004, Output: 0.02, CacheRead: 0.0004, CacheWrite: 0.005, Total: 0.0294}},
		{"a long request has other prices", func(p *Parts) {
			p.Usage(protocol.Usage{Input: 100_000, Output: 1000, CacheRead: 100_001})
		}, protocol.Cost{Input: 0.8, Output: 0.03, CacheRead: 0.0800008, Total: 0.9100008}},
		{"exactly at the threshold", func(p *Parts) { p.Usage(protocol.Usage{Input: 200_000}) }, protocol.Cost{Input: 0.8, Total: 0.8}},
		{"a cheap tier of service", func(p *Parts) { p.UsageTimes(protocol.Usage{Input: 1000, CacheRead: 1000}, 0.5) }, protocol.Cost{Input: 0.002, CacheRead: 0.0002, Total: 0.0022}},
		{"written for an hour", func(p *Parts) { p.UsageHour(protocol.Usage{Input: 10, CacheWrite: 1000}, 1000) }, protocol.Cost{Input: 0.00004, CacheWrite: 0.008, Total: 0.00804}},
		{"written for an hour in part", func(p *Parts) { p.UsageHour(protocol.Usage{CacheWrite: 1000}, 400) }, protocol.Cost{CacheWrite: 0.0062, Total: 0.0062}},
		{"more for an hour than at all", func(p *Parts) { p.UsageHour(protocol.Usage{CacheWrite: 1000}, 9999) }, protocol.Cost{CacheWrite: 0.008, Total: 0.008}},
		{"a long request written for an hour", func(p *Parts) { p.UsageHour(protocol.Usage{CacheWrite: 300_000}, 300_000) }, protocol.Cost{CacheWrite: 4.8, Total: 4.8}},
	} {
		p := newParts(priced())
		c.report(p)
		u := reported(t, p)
		for _, pair := range [][2]float64{
			{c.want.Input, u.Cost.Input}, {c.want.Output, u.Cost.Output}, {c.want.CacheRead, u.Cost.CacheRead}, {c.want.CacheWrite, u.Cost.CacheWrite}, {c.want.Total, u.Cost.Total},
		} {
			assert.InDelta(t, pair[0], pair[1], 1e-9, "%s: %+v", c.name, u.Cost)
		}
		assert.Equal(t, u.Input+u.Output+u.CacheRead+u.CacheWrite, u.TotalTokens, c.name)
	}
	free := newParts(&protocol.Model{})
	free.UsageHour(protocol.Usage{CacheWrite: 1000}, 1000)
	assert.Zero(t, reported(t, free).Cost.Total, "where nothing costs, an hour costs nothing")
}

// TestUsage_estimate: an answer without a report gets an estimate, within a
// third, of what is missing and only of that.
func TestUsage_estimate(t *testing.T) {
	prompt := strings.Repeat("Please read the configuration file and tell me which model is used. ", 100)
	answer := strings.Repeat("The model that is used by default is named in the settings. ", 50)
	const promptTokens, answerTokens = 13 * 100, 12 * 50 // a word each, and the full stop
	for _, c := range []struct {
		name          string
		reports       []protocol.Usage
		input, output int64 // exact, or -1 for an estimate
	}{
		{"nothing", nil, -1, -1},
		{"zero", []protocol.Usage{{}}, -1, -1},
		{"only the answer", []protocol.Usage{{Output: 9}}, -1, 9},
		{"only the prompt", []protocol.Usage{{Input: 9}}, 9, -1},
		{"a prompt from the cache", []protocol.Usage{{CacheRead: 9}}, 0, -1},
		{"everything", []protocol.Usage{{Input: 7, Output: 9}}, 7, 9},
	} {
		p := newParts(priced())
		p.req = &providers.Request{Model: priced(), Messages: []protocol.Message{&protocol.UserMessage{Content: protocol.TextContent(prompt)}}}
		for _, u := range c.reports {
			p.Usage(u)
		}
		i := p.Open(protocol.BlockText, "", "")
		for _, piece := range strings.SplitAfter(answer, "e") { // pieces must not count for more than the whole
			p.Delta(i, piece)
		}
		p.Done(protocol.StopStop, "stop")
		u := reported(t, p)
		near := func(what string, got, exact int64, estimate float64) {
			if exact >= 0 {
				assert.Equal(t, exact, got, "%s: %s", c.name, what)
			} else {
				assert.Less(t, math.Abs(float64(got)/estimate-1), 0.34, "%s: %s is %d", c.name, what, got)
			}
		}
		near("input", u.Input, c.input, promptTokens)
		near("output", u.Output, c.output, answerTokens)
		assert.Positive(t, u.Cost.Total, c.name)
	}
	silent := newParts(priced())
	silent.Done(protocol.StopStop, "stop")
	for _, part := range silent.out {
		_, isUsage := part.(protocol.PartUsage)
		assert.False(t, isUsage, "nobody knows what was asked")
	}
}

// TestUsageIsBounded: what a provider says beyond all bounds is a large number, in sums as
// well, and never a negative one that no limit is reached by.
func TestUsageIsBounded(t *testing.T) {
	for _, n := range []int64{math.MaxInt64, 5e18, math.MinInt64, -1} {
		p := newParts(priced())
		p.Usage(protocol.Usage{Input: n, Output: n, CacheRead: n})
		u := reported(t, p)
		sum := u
		for range 1000 {
			sum = sum.Add(u)
		}
		for _, got := range []protocol.Usage{u, sum} {
			assert.GreaterOrEqual(t, got.Input, int64(0), n)
			assert.GreaterOrEqual(t, got.TotalTokens, got.Output, n)
			assert.False(t, math.IsInf(got.Cost.Total, 0), n)
		}
		if n > 0 {
			assert.Greater(t, u.TotalTokens, int64(1e12))
		}
	}
	dear := priced()
	dear.Cost.Input = 1e308
	p := newParts(dear)
	p.UsageTimes(protocol.Usage{Input: 5_000_000}, 1e10)
	assert.Positive(t, reported(t, p).Cost.Total)
	assert.Less(t, reported(t, p).Cost.Total, 1e16)
	assert.Zero(t, protocol.Usage{Cost: protocol.Cost{Total: math.NaN()}}.Bounded().Cost.Total)
}
