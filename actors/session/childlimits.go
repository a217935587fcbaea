package session

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/protocol"
)

// childLimits bound what a child may use up, whatever the whole tree may.
type childLimits struct {
	runtime  time.Duration // the child may take, 0 for no limit
	wall     bool          // that is a limit of its agent
	warnAt   float64       // the part of a limit at which clients are warned
	requests int           // after which it is asked to end, 0 for never
	turns    int           // answers of its model, 0 for no limit
	budget   protocol.BudgetLimits
}

// exceeded says which limit a child has come to, "" for none.
func (l *childLimits) exceeded(w *watched) string {
	for _, u := range l.used(w) {
		if u.used >= u.limit && (u.reason != protocol.BudgetToolCalls || u.used > u.limit) {
			return u.reason.Error()
		}
	}
	switch {
	case l.turns > 0 && w.requests > l.turns:
		return fmt.Sprintf("Stopped after %d turns (maxTurns)", l.turns)
	case l.requests > 0 && w.requests > l.requests+l.requests/2+1:
		return fmt.Sprintf("Stopped after %d requests", w.requests)
	}
	return ""
}

// usedUp is a limit of an agent, and what its child has used of it.
type usedUp struct {
	reason      protocol.BudgetReason
	used, limit float64
}

// used are the limits of an agent that a child comes to as it answers.
func (l *childLimits) used(w *watched) (list []usedUp) {
	if n := l.budget.MaxCostUSD; n != nil {
		list = append(list, usedUp{protocol.BudgetCost, w.usage.Cost.Total, *n})
	}
	if n := l.budget.MaxTotalTokens; n != nil {
		list = append(list, usedUp{protocol.BudgetTotalTokens, float64(w.usage.Sum()), float64(*n)})
	}
	if n := l.budget.MaxToolCalls; n != nil {
		list = append(list, usedUp{protocol.BudgetToolCalls, float64(w.tools.count), float64(*n)})
	}
	return list
}

// bound stops a child that has used up what it may, and asks one to end that asks for
// very much.
func (k *minder) bound(c actor.Context) {
	n, l := k.seen.requests, k.limits
	k.warn(c)
	switch reason := l.exceeded(&k.seen); {
	case k.seen.end.abortReason != "":
	case reason != "":
		k.seen.end.abortReason = reason
		k.command(c, protocol.Abort{})
		for _, u := range l.used(&k.seen) {
			if reason == u.reason.Error() {
				k.exceeded(c, u.reason)
			}
		}
	case l.requests > 0 && n == l.requests:
		k.command(c, protocol.Steer{Message: "You have made many requests. Come to an end soon: hand over what you have with submit_result."})
	case l.requests > 0 && n == l.requests+l.requests/2:
		k.command(c, protocol.SetActiveTools{ToolNames: []string{core.SubmitTool}})
		k.command(c, protocol.Steer{Message: "This is your last turn: hand over what you have with submit_result."})
	}
}

// called looks at a limit that is reached before the answer is over: of calls of tools. The
// child refuses them itself, and ends.
func (k *minder) called(c actor.Context) {
	k.warn(c)
	most := k.limits.budget.MaxToolCalls
	if most != nil && int64(k.seen.tools.count) > *most && k.seen.end.abortReason == "" {
		k.seen.end.abortReason = protocol.BudgetToolCalls.Error()
		k.exceeded(c, protocol.BudgetToolCalls)
	}
}

// warnTime tells clients that the time of a child is nearly over that its agent gives it.
func (k *minder) warnTime(c actor.Context) {
	if k.seen.end.abortReason == "" && !k.seen.over {
		k.told(c, protocol.BudgetWarning{Scope: budgetOfChild, Snapshot: k.snapshot(protocol.BudgetWarned, protocol.BudgetWallTime)})
	}
}

// warn tells clients once of each limit of its agent that a child comes near to.
func (k *minder) warn(c actor.Context) {
	for _, u := range k.limits.used(&k.seen) {
		near := k.limits.warnAt > 0 && u.used >= k.limits.warnAt*u.limit && u.used <= u.limit && k.limits.exceeded(&k.seen) == ""
		if near && !k.seen.warned[u.reason] && k.seen.end.abortReason == "" {
			if k.seen.warned == nil {
				k.seen.warned = map[protocol.BudgetReason]bool{}
			}
			k.seen.warned[u.reason] = true
			k.told(c, protocol.BudgetWarning{Scope: budgetOfChild, Snapshot: k.snapshot(protocol.BudgetWarned, u.reason)})
		}
	}
}

// exceeded tells clients that a limit of its agent ends a child.
func (k *minder) exceeded(c actor.Context, reason protocol.BudgetReason) {
	k.told(c, protocol.BudgetExceeded{Scope: budgetOfChild, Snapshot: k.snapshot(protocol.BudgetStopped, reason)})
}

// budgetOfChild is the scope of what is said about one child.
const budgetOfChild = "subagent"

// told has the clients of the parent hear of the child.
func (k *minder) told(c actor.Context, ev protocol.Event) {
	c.Send(c.Parent(), core.ChildTold{Attempt: k.attempt, ID: k.id, Event: ev})
}

// snapshot is what the child has used up.
func (k *minder) snapshot(status string, reason protocol.BudgetReason) protocol.BudgetSnapshot {
	var used protocol.BudgetUsed
	used.Spend(k.seen.usage)
	used.WallTimeMs, used.ToolCalls = time.Since(k.seen.began).Milliseconds(), int64(k.seen.tools.count)
	if most := k.limits.budget.MaxToolCalls; most != nil {
		used.ToolCalls = min(used.ToolCalls, *most) // what is refused does not count
	}
	return used.Snapshot(status, reason)
}
