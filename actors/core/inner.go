package core

import (
	"encoding/json"
	"slices"
	"strconv"

	"troupe/protocol"
)

// An inner call is one that a tool of an extension makes while it runs (ctx.executeTool).
// It goes the way of every call, past checks, gates, rules and people; but no model sees its
// result, which is for the call that made it, and it is in no log.
type inner struct {
	parent string // the id of the call that made it
	op     uint64 // what the extension waits for
	began  int64  // epoch milliseconds
}

// nesting is what a call has to do with calls that calls have made.
type nesting struct {
	made   int                   // by it so far
	nested *protocol.NestedCalls // of these, those that are over; nil for none
	usage  *protocol.Usage       // what they say that they have used, nil for nothing
	inner  *inner                // nil for a call of the model
}

// mostNested is how many calls that a call has made its result lists.
const mostNested = 1000

// parentID is "" for a call of the model.
func (in *inner) parentID() string {
	if in == nil {
		return ""
	}
	return in.parent
}

// apply begins a call of a call that runs.
func (in InnerCall) apply(m *Machine) {
	r, parent := m.findCall(func(c *call) bool { return c.ID == in.Parent && c.state == callRunning && c.end == nil })
	if parent == nil {
		m.do(InnerDone{Op: in.Op, Err: "ctx.executeTool: the call that it belongs to is over"})
		return
	}
	parent.made++
	c := &call{
		ToolCall: protocol.ToolCall{ID: in.Parent + "/" + strconv.Itoa(parent.made), Name: in.Name, Arguments: in.Args},
		nesting:  nesting{inner: &inner{parent: in.Parent, op: in.Op, began: m.clock()}},
	}
	r.inner = append(r.inner, c)
	m.startCall(r, c)
}

// apply ends an inner call that nobody waits for any more.
func (in InnerCancelled) apply(m *Machine) {
	if r, c := m.findCall(func(c *call) bool { return c.inner != nil && c.inner.op == in.Op }); c != nil {
		m.abortInner(r, c)
	}
}

// abortInner ends an inner call wherever it is.
func (m *Machine) abortInner(r *run, c *call) {
	m.recordApproval(c, protocol.ApprovalResolved{Outcome: approvalCancelled}, "")
	m.letGo(c)
	m.do(CancelCall{m.activity.begun(), c.ID})
	m.finishCall(r, c, m.abortedResult(c), true)
}

// innerOver gives an inner call's result to the call that made it.
func (m *Machine) innerOver(r *run, c *call, result protocol.ToolResult, isError bool) {
	r.inner = slices.DeleteFunc(slices.Clone(r.inner), func(other *call) bool { return other == c })
	if _, parent := m.findCall(func(p *call) bool { return p.ID == c.inner.parent }); parent != nil {
		parent.nests(c, result, isError, m.clock()-c.inner.began)
	}
	m.do(InnerDone{Op: c.inner.op, Call: c.ToolCall, Result: result, IsError: isError, TookMs: m.clock() - c.inner.began})
}

// endInner ends the calls that a call has made and not waited for.
func (m *Machine) endInner(r *run, of *call) {
	for _, c := range r.inner {
		if c.inner.parent == of.ID {
			m.abortInner(r, c)
		}
	}
}

// nests notes a call that it has made.
func (c *call) nests(made *call, result protocol.ToolResult, isError bool, tookMs int64) {
	now := protocol.NestedCalls{Complete: true}
	if c.nested != nil {
		now = *c.nested
	}
	if len(now.Calls) < mostNested {
		n := protocol.NestedCall{ID: made.ID, Name: made.Name, Status: "ok", Arguments: made.Arguments, DurationMs: tookMs}
		if isError {
			n.Status, n.Error = "error", result.Content.Text("\n")
		}
		now.Calls = append(now.Calls[:len(now.Calls):len(now.Calls)], n)
	} else {
		now.Complete = false
	}
	c.nested = &now
	c.usage = plus(c.usage, made.usageOf(result.Usage))
}

// plus adds what a tool says that it has used, if it says so.
func plus(sum *protocol.Usage, said json.RawMessage) *protocol.Usage {
	var u protocol.Usage
	if json.Unmarshal(said, &u) != nil || u == (protocol.Usage{}) {
		return sum
	}
	if sum != nil {
		u = sum.Add(u)
	}
	return &u
}

// usageOf is what a call has used with those that it has made, as the result says it.
func (c *call) usageOf(own json.RawMessage) json.RawMessage {
	if c.usage == nil {
		return own
	}
	return protocol.AppendValue(nil, plus(c.usage, own))
}
