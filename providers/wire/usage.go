package wire

import "troupe/protocol"

// Usage reports tokens so far and fills in what they cost.
func (p *Parts) Usage(u protocol.Usage) {
	u = u.Bounded()
	p.report(u, p.model.Price(u).Cost)
}

// UsageTimes is Usage for tokens that cost a multiple of the price list.
func (p *Parts) UsageTimes(u protocol.Usage, factor float64) {
	u = u.Bounded()
	c := p.model.Price(u).Cost
	p.report(u, protocol.Cost{
		Input: c.Input * factor, Output: c.Output * factor,
		CacheRead: c.CacheRead * factor, CacheWrite: c.CacheWrite * factor, Total: c.Total * factor,
	})
}

// hourFactor is what writing to the cache for an hour costs in terms of plain
// input. Price lists have the usual few minutes, which cost 1.25 of it. Source:
// Anthropic's price list.
const hourFactor = 2

// UsageHour is Usage where hour of the tokens written to the cache stay there
// for an hour. A price list without a price for writing has none for that either.
func (p *Parts) UsageHour(u protocol.Usage, hour int64) {
	u = u.Bounded()
	c := p.model.Price(u).Cost
	if hour = min(hour, u.CacheWrite); hour > 0 && c.CacheWrite > 0 {
		plain := u // the same size, and so the same tier of prices
		plain.Input, plain.CacheWrite = u.Input+u.CacheWrite, 0
		perInput := p.model.Price(plain).Cost.Input / float64(plain.Input)
		perWrite := c.CacheWrite / float64(u.CacheWrite)
		more := float64(hour) * (hourFactor*perInput - perWrite)
		c.CacheWrite += more
		c.Total += more
	}
	p.report(u, c)
}

func (p *Parts) report(u protocol.Usage, cost protocol.Cost) {
	p.Start("", "")
	u.TotalTokens = u.Input + u.Output + u.CacheRead + u.CacheWrite // for every wire alike
	u.Cost = cost
	u = u.Bounded()
	p.usage = u
	p.put(protocol.PartUsage{Usage: u})
}

// estimate fills in what the provider did not report by the end of the answer:
// compaction and budgets go by it, and nothing would be far from the truth. A
// session cannot tell an estimate from a report.
func (p *Parts) estimate() {
	if p.req == nil {
		return
	}
	u := p.usage
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input = p.req.EstimateInput(Convert(p.req, Shape{}))
	}
	if u.Output == 0 {
		u.Output = protocol.TokensOf(p.said)
	}
	if u != p.usage {
		p.Usage(u)
	}
}
