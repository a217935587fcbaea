package registry

import (
	"context"
	"slices"
	"time"

	"troupe/protocol"
	"troupe/providers/auth"
)

// planFor is how long the list of a plan counts; after planTime nobody waits for it.
const (
	planFor  = time.Hour
	planTime = 30 * time.Second
)

// plan is what the plan of a login lists beside the catalogue.
type plan struct {
	models []auth.PlanModel
	asked  time.Time
	busy   bool
}

// askPlan has the plan asked what it lists, once a login is in use: in the background, for a
// later catalogue. The lock is held.
func (r *Registry) askPlan() {
	const provider = "openai"
	p := &r.plan
	switch {
	case r.loginOf(provider) == nil:
		if len(p.models) > 0 {
			r.catalog = nil
		}
		*p = plan{busy: p.busy}
		return
	case p.busy, !p.asked.IsZero() && time.Since(p.asked) < planFor, !r.config.Logins.InUse(provider):
		return
	}
	p.busy = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), planTime)
		defer cancel()
		list, err := r.config.Logins.Plan(ctx, provider)
		r.mu.Lock()
		defer r.mu.Unlock()
		p.busy, p.asked = false, time.Now()
		if err == nil && !slices.Equal(list, p.models) { // else what it said before counts
			p.models, r.catalog = list, nil
		}
	}()
}

// withPlan adds what a plan lists and the catalogue does not know. What the catalogue has and
// the plan does not list stays: the list is no promise either way. The lock is held.
func (r *Registry) withPlan(provider string, base *providerEntry, list []*protocol.Model) []*protocol.Model {
	if provider != "openai" {
		return list
	}
	for _, m := range r.plan.models {
		if slices.ContainsFunc(list, func(known *protocol.Model) bool { return known.ID == m.ID }) {
			continue
		}
		e := modelEntry{ID: m.ID, Name: m.Name, ContextWindow: m.Context, Reasoning: &m.Thinks, Input: []string{"text"}}
		if m.Sees {
			e.Input = append(e.Input, "image")
		}
		list = append(slices.Clip(list), base.build(provider, &e))
	}
	return list
}
