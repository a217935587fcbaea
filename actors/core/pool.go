package core

import (
	"math"
	"slices"

	"troupe/protocol"
)

// amounts are one number for each dimension, in the order of
// protocol.BudgetReasons: of what was used, may be used, or is wanted.
type amounts [len(protocol.BudgetReasons)]float64

// Dimensions of which the numbers are used elsewhere.
const (
	wallTime  = 0
	cost      = 4
	toolCalls = 5
	subagents = 6
)

// counted says whether a dimension counts things: of those one more than allowed is
// too many. Of what is summed up, the limit itself is.
func counted(dimension int) bool { return dimension >= toolCalls }

func (a *amounts) add(b amounts, sign float64) {
	for i := range a {
		a[i] += sign * b[i]
	}
}

func amountsOf(u protocol.BudgetUsed) amounts {
	return amounts{
		float64(u.WallTimeMs), float64(u.InputTokens), float64(u.OutputTokens), float64(u.TotalTokens), u.CostUSD,
		float64(u.ToolCalls), float64(u.Subagents),
	}
}

func (a amounts) used() protocol.BudgetUsed {
	return protocol.BudgetUsed{
		WallTimeMs: int64(a[0]), InputTokens: int64(a[1]), OutputTokens: int64(a[2]), TotalTokens: int64(a[3]), CostUSD: a[4],
		ToolCalls: int64(a[5]), Subagents: int64(a[6]),
	}
}

// limitsOf are infinite where there is no limit.
func limitsOf(l protocol.BudgetLimits) amounts {
	whole := func(n *int64) float64 {
		if n == nil {
			return math.Inf(1)
		}
		return float64(*n)
	}
	dollars := math.Inf(1)
	if l.MaxCostUSD != nil {
		dollars = *l.MaxCostUSD * (1 - 1e-9) // sums of prices fall short of the decimal number that they are by a little
	}
	return amounts{
		whole(l.MaxWallTimeMs), whole(l.MaxInputTokens), whole(l.MaxOutputTokens), whole(l.MaxTotalTokens), dollars,
		whole(l.MaxToolCalls), whole(l.MaxSubagents),
	}
}

// pool is what a session and its children may use up together. Every request to a
// model reserves what it may need, and gives that back when it is known what it has
// cost. So the limits are passed by one answer at most: by one that needs more than
// there is, which gets nothing but its turn alone.
type pool struct {
	limits amounts
	used   amounts
	held   map[Ticket]amounts // by requests in flight
	queue  []asked            // oldest first
	lax    bool               // nobody waits
}

type asked struct {
	Ticket
	need amounts
}

// verdict is what a pool says to a request.
type verdict uint8

const (
	granted verdict = iota
	waiting
	denied
)

// spent is the first dimension whose limit is reached, -1 for none. Of counts the
// limit may be reached.
func (p *pool) spent() int {
	for i := range p.limits {
		if p.used[i] >= p.limits[i] && !(counted(i) && p.limits[i] > 0) {
			return i
		}
	}
	return -1
}

// reserved is what all requests in flight have been given.
func (p *pool) reserved() (sum amounts) {
	for _, need := range p.held {
		sum.add(need, 1)
	}
	return sum
}

// covered says whether there is room for a need beside all that is reserved.
func (p *pool) covered(need amounts) bool {
	held := p.reserved()
	for i := range p.limits {
		if p.used[i]+held[i]+need[i] > p.limits[i] {
			return false
		}
	}
	return true
}

// ask is a request that wants to begin. One that waits is in [pool.settle] later.
func (p *pool) ask(t Ticket, need amounts) verdict {
	switch {
	case p.spent() >= 0:
		return denied
	case len(p.queue) > 0 && !p.lax:
	case p.lax || p.covered(need) || len(p.held) == 0:
		p.hold(t, need)
		return granted
	}
	p.queue = append(p.queue, asked{t, need})
	return waiting
}

func (p *pool) hold(t Ticket, need amounts) {
	if p.held == nil {
		p.held = map[Ticket]amounts{}
	}
	p.held[t] = need
}

// answer is a verdict on a request that has waited.
type answer struct {
	Ticket
	verdict
}

// settle ends a request, in flight or waiting, with what it has cost, and says which
// of those that wait may begin now, or never will.
func (p *pool) settle(t Ticket, used amounts) []answer {
	delete(p.held, t)
	p.queue = slices.DeleteFunc(p.queue, func(a asked) bool { return a.Ticket == t })
	p.used.add(used, 1)
	return p.next()
}

// next goes through those that wait, oldest first, as far as there is room.
func (p *pool) next() (answers []answer) {
	for len(p.queue) > 0 {
		first := p.queue[0]
		v := denied
		if p.spent() < 0 {
			if !p.covered(first.need) && len(p.held) > 0 {
				break
			}
			p.hold(first.Ticket, first.need)
			v = granted
		}
		p.queue = p.queue[1:]
		answers = append(answers, answer{first.Ticket, v})
	}
	return answers
}

// deny ends all requests that wait.
func (p *pool) deny() (answers []answer) {
	for _, a := range p.queue {
		answers = append(answers, answer{a.Ticket, denied})
	}
	p.queue = nil
	return answers
}

// gone ends all requests of a child, whose session is no more, and of those below it.
func (p *pool) gone(child string) []answer {
	for t := range p.held {
		if t.of(child) {
			delete(p.held, t)
		}
	}
	p.queue = slices.DeleteFunc(p.queue, func(a asked) bool { return a.Ticket.of(child) })
	return p.next()
}
