package session

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/actors/core"
	"troupe/protocol"
)

// TestUnfence: work that waits for extensions and is cancelled is never begun, and all
// other work stays in its order.
func TestUnfence(t *testing.T) {
	call := func(attempt core.Attempt, id string) core.Effect {
		return core.StartTool{Attempt: attempt, Call: protocol.ToolCall{ID: id}}
	}
	stream, summary, bash := core.StartStream{Attempt: 1}, core.Summarise{Attempt: 1}, core.StartBash{Job: 1}
	all := []core.Effect{stream, call(1, "a"), call(1, "b"), call(2, "a"), summary, bash, core.StartBash{Job: 2}, core.StartStream{Attempt: 2}}
	for _, c := range []struct {
		by   core.Effect
		gone []int // of all
	}{
		{core.Cancel{Attempt: 1}, []int{0, 1, 2, 4}},
		{core.Cancel{Attempt: 2}, []int{3, 7}},
		{core.Cancel{Attempt: 3}, nil},
		{core.CancelCall{Attempt: 1, CallID: "a"}, []int{1}},
		{core.CancelCall{Attempt: 3, CallID: "a"}, nil},
		{core.CancelBash{Job: 2}, []int{6}},
		{core.CancelBash{Job: 3}, nil},
	} {
		s := &Session{}
		s.ext.fence.work = slices.Clone(all)
		assert.Equal(t, c.gone != nil, s.unfence(c.by), "%#v", c.by)
		var left []core.Effect
		for i, e := range all {
			if !slices.Contains(c.gone, i) {
				left = append(left, e)
			}
		}
		assert.Equal(t, left, s.ext.fence.work, "%#v", c.by)
	}
}
