package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// BudgetLimits bound what may be used up; nil is no limit, 0 allows nothing.
type BudgetLimits struct {
	MaxWallTimeMs   *int64   `json:"maxWallTimeMs,omitempty"`
	MaxInputTokens  *int64   `json:"maxInputTokens,omitempty"`
	MaxOutputTokens *int64   `json:"maxOutputTokens,omitempty"`
	MaxTotalTokens  *int64   `json:"maxTotalTokens,omitempty"`
	MaxCostUSD      *float64 `json:"maxCostUsd,omitempty"`
	MaxToolCalls    *int64   `json:"maxToolCalls,omitempty"`
	MaxSubagents    *int64   `json:"maxSubagents,omitempty"`
}

// None says that nothing is limited.
func (l BudgetLimits) None() bool { return l == BudgetLimits{} }

// Stricter has the lower limit of each pair.
func (l BudgetLimits) Stricter(other BudgetLimits) BudgetLimits {
	return BudgetLimits{
		MaxWallTimeMs: lower(l.MaxWallTimeMs, other.MaxWallTimeMs), MaxInputTokens: lower(l.MaxInputTokens, other.MaxInputTokens),
		MaxOutputTokens: lower(l.MaxOutputTokens, other.MaxOutputTokens), MaxTotalTokens: lower(l.MaxTotalTokens, other.MaxTotalTokens),
		MaxCostUSD: lower(l.MaxCostUSD, other.MaxCostUSD), MaxToolCalls: lower(l.MaxToolCalls, other.MaxToolCalls),
		MaxSubagents: lower(l.MaxSubagents, other.MaxSubagents),
	}
}

func lower[N int64 | float64](a, b *N) *N {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// BudgetSettings are the limits of a session and how they are kept.
type BudgetSettings struct {
	Limits        BudgetLimits
	WarnAtRatio   float64 // of a limit, from which a client is warned; 0.8
	ReserveOutput int64   // tokens that are reserved for an answer; 0 is as many as it may have
	Lax           bool    // requests are not held back for what others may use up: limits are looked at when answers are there
	RequirePrice  *bool   // models without a known price are refused; nil is where the cost is limited
}

// NeedsPrice says that a model without a price is refused.
func (b BudgetSettings) NeedsPrice() bool {
	if b.RequirePrice != nil {
		return *b.RequirePrice
	}
	return b.Limits.MaxCostUSD != nil
}

// BudgetReason is a dimension of a budget, as a reason why something was said or
// refused.
type BudgetReason string

// Dimensions of a budget.
const (
	BudgetWallTime     BudgetReason = "wall_time"
	BudgetInputTokens  BudgetReason = "input_tokens"
	BudgetOutputTokens BudgetReason = "output_tokens"
	BudgetTotalTokens  BudgetReason = "total_tokens"
	BudgetCost         BudgetReason = "cost"
	BudgetToolCalls    BudgetReason = "tool_calls"
	BudgetSubagents    BudgetReason = "subagents"
)

// BudgetReasons are the dimensions in the order in which limits are looked at.
var BudgetReasons = [...]BudgetReason{
	BudgetWallTime, BudgetInputTokens, BudgetOutputTokens, BudgetTotalTokens, BudgetCost, BudgetToolCalls, BudgetSubagents,
}

// Error is what a client is told of what a budget does not let happen.
func (r BudgetReason) Error() string { return "Budget exceeded (" + string(r) + ")" }

// BudgetUsed is what has been used up.
type BudgetUsed struct {
	WallTimeMs   int64   `json:"wallTimeMs"`
	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	TotalTokens  int64   `json:"totalTokens"`
	CostUSD      float64 `json:"costUsd"`
	ToolCalls    int64   `json:"toolCalls"`
	Subagents    int64   `json:"subagents"`
}

// Spend adds what an answer has cost.
func (b *BudgetUsed) Spend(u Usage) {
	b.InputTokens += u.Input
	b.OutputTokens += u.Output
	b.TotalTokens += u.TotalTokens
	b.CostUSD += u.Cost.Total
}

// Add adds what somebody else has used up; nil is nothing.
func (b *BudgetUsed) Add(more *BudgetUsed) {
	if more == nil {
		return
	}
	b.WallTimeMs += more.WallTimeMs
	b.InputTokens += more.InputTokens
	b.OutputTokens += more.OutputTokens
	b.TotalTokens += more.TotalTokens
	b.CostUSD += more.CostUSD
	b.ToolCalls += more.ToolCalls
	b.Subagents += more.Subagents
}

// BudgetSnapshot is what has been used up and what that means.
type BudgetSnapshot struct {
	Status       string       `json:"status" enum:"ok,warning,exceeded"`
	WallTimeMs   int64        `json:"wallTimeMs" doc:"A run is active, or will continue by itself: between agent_start and agent_settled."`
	InputTokens  int64        `json:"inputTokens" doc:"Excluding tokens from a cache."`
	OutputTokens int64        `json:"outputTokens"`
	TotalTokens  int64        `json:"totalTokens" doc:"Including tokens from a cache."`
	CostUSD      float64      `json:"costUsd"`
	ToolCalls    int64        `json:"toolCalls"`
	Subagents    int64        `json:"subagents"`
	Reason       BudgetReason `json:"reason,omitempty" enum:"wall_time,input_tokens,output_tokens,total_tokens,cost,tool_calls,subagents" doc:"The limit that was reached, or is nearly reached."`
	Unpriced     bool         `json:"unpriced,omitempty" since:"troupe" doc:"The cost is that of models with a known price."`
}

// Snapshot is what was used up, for clients.
func (b BudgetUsed) Snapshot(status string, reason BudgetReason) BudgetSnapshot {
	return BudgetSnapshot{
		Status: status, WallTimeMs: b.WallTimeMs, InputTokens: b.InputTokens, OutputTokens: b.OutputTokens, TotalTokens: b.TotalTokens,
		CostUSD: b.CostUSD, ToolCalls: b.ToolCalls, Subagents: b.Subagents, Reason: reason,
	}
}

// Statuses of a budget.
const (
	BudgetOK      = "ok"
	BudgetWarned  = "warning"
	BudgetStopped = "exceeded"
)

// BudgetReport is the answer to get_budget and set_budget.
type BudgetReport struct {
	Limits   BudgetLimits   `json:"limits" doc:"A missing member means no limit."`
	Snapshot BudgetSnapshot `json:"snapshot"`
	Warned   []BudgetReason `json:"warned" doc:"The limits for which a budget_warning was sent."`
	Exceeded BudgetReason   `json:"exceeded,omitempty" doc:"Which limit was exceeded: nothing is sent to a model until it is raised."`
	Reserved *BudgetUsed    `json:"reserved,omitempty" doc:"Reserved for answers in progress, of the session and its tasks. Absent without any."`
}

// BudgetState is the part of get_state.
type BudgetState struct {
	Limits   BudgetLimits   `json:"limits"`
	Snapshot BudgetSnapshot `json:"snapshot"`
}

// BudgetOp records what became of a budget.
type BudgetOp struct {
	Op       string        `json:"op"`                 // see below
	Reason   BudgetReason  `json:"reason,omitempty"`   // of warned and exceeded
	ActiveMs int64         `json:"activeMs,omitempty"` // of active: all work so far
	Used     *BudgetUsed   `json:"used,omitempty"`     // of used
	Limits   *BudgetLimits `json:"limits,omitempty"`   // of limits
	Working  bool          `json:"working,omitempty"`  // of active: work goes on, until an entry says otherwise
}

// Words of a [BudgetOp].
const (
	BudgetOpWarned   = "warned"
	BudgetOpExceeded = "exceeded"
	BudgetOpCleared  = "cleared" // limits were raised: warned and exceeded begin anew
	BudgetOpActive   = "active"
	BudgetOpLimits   = "limits" // a client has set them, all of them
	BudgetOpUsed     = "used"   // what no other entry says, or less than others say
)

// BudgetSpent is what a session file says of what was used up, in all its branches.
type BudgetSpent struct {
	Used     BudgetUsed
	Warned   []BudgetReason
	Exceeded BudgetReason

	before, since int64 // milliseconds of work before the one that goes on, and when that began; 0 for none
}

// At takes into account that there is an entry of a moment, in epoch milliseconds: until then
// at least there was work, if it had begun.
func (b *BudgetSpent) At(moment int64) {
	if b.since != 0 {
		b.Used.WallTimeMs = max(b.Used.WallTimeMs, b.before+moment-b.since)
	}
}

// Note takes an entry of a moment, in epoch milliseconds, into account.
func (b *BudgetSpent) Note(op BudgetOp, moment int64) {
	switch op.Op {
	case BudgetOpWarned:
		b.Warned = append(b.Warned, op.Reason)
	case BudgetOpExceeded:
		b.Exceeded = op.Reason
	case BudgetOpCleared:
		b.Warned, b.Exceeded = nil, ""
	case BudgetOpActive:
		b.Used.WallTimeMs, b.before, b.since = op.ActiveMs, op.ActiveMs, 0
		if op.Working {
			b.since = moment
		}
	case BudgetOpUsed:
		b.Used.Add(op.Used)
	}
}

// ParseBudgetLimits changes limits by an object of numbers, in which null removes
// one.
func ParseBudgetLimits(l BudgetLimits, raw []byte) (BudgetLimits, error) {
	var given map[string]*float64
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return l, errors.New("limits: want an object of numbers, or null for no limit")
	}
	whole := map[string]**int64{
		"maxWallTimeMs": &l.MaxWallTimeMs, "maxInputTokens": &l.MaxInputTokens, "maxOutputTokens": &l.MaxOutputTokens,
		"maxTotalTokens": &l.MaxTotalTokens, "maxToolCalls": &l.MaxToolCalls, "maxSubagents": &l.MaxSubagents,
	}
	for name, n := range given {
		dst, isWhole := whole[name]
		switch {
		case !isWhole && name != "maxCostUsd":
			return l, fmt.Errorf("limits: unknown limit %s", name)
		case n != nil && (*n < 0 || *n > 1<<53-1 || isWhole && *n != math.Trunc(*n)):
			return l, fmt.Errorf("limits: %s: want a number of at least 0, or null", name)
		case !isWhole:
			l.MaxCostUSD = n
		case n == nil:
			*dst = nil
		default:
			*dst = new(int64(*n))
		}
	}
	return l, nil
}
