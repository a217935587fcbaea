package protocol

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
