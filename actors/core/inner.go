package core

import (
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
	made  int    // by it so far
	inner *inner // nil for a call of the model
}

// parentID is "" for a call of the model.
func (in *inner) parentID() string {
	if in == nil {
		return ""
	}
	return in.parent
}

// callInner begins a call of a call that runs.
func (m *Machine) callInner(in InnerCall) {
	r, parent := m.findCall(func(c *call) bool { return c.ID == in.Parent && c.state == callRunning && c.end == nil })
	if parent == nil {
		m.do(InnerDone{Op: in.Op, Err: "ctx.executeTool: the call that it belongs to is over"})
		return
	}
	parent.made++
	c := &call{
		ToolCall: protocol.ToolCall{ID: in.Parent + "/" + strconv.Itoa(parent.made), Name: in.Name, Arguments: in.Args},
		nesting:  nesting{inner: &inner{parent: in.Parent, op: in.Op, began: m.now}},
	}
	r.inner = append(r.inner, c)
	m.startCall(r, c)
}

// innerCancelled ends an inner call that nobody waits for any more.
func (m *Machine) innerCancelled(in InnerCancelled) {
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
	m.do(InnerDone{Op: c.inner.op, Call: c.ToolCall, Result: result, IsError: isError, TookMs: m.now - c.inner.began})
}

// endInner ends the calls that a call has made and not waited for.
func (m *Machine) endInner(r *run, of *call) {
	for _, c := range r.inner {
		if c.inner.parent == of.ID {
			m.abortInner(r, c)
		}
	}
}
