package core

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestModeOfTasksIsTakenBack: a permission mode that cannot be written counts for nobody, the tasks among them that have been told of
// it already.
func TestModeOfTasksIsTakenBack(t *testing.T) {
	set := taskSettings(defaults())
	set.FailsOver, set.PermissionMode = true, protocol.PermitAuto
	w := newWorld(set)
	w.send(protocol.Prompt{Message: "go"})
	attempt := w.m.attempts
	w.step(StreamParts{attempt, []protocol.Part{
		protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: "c1", Name: TaskTool}, protocol.PartDelta{Delta: "{}"}, protocol.PartBlockEnd{},
	}})
	w.step(StreamEnd{Attempt: attempt, Done: protocol.PartDone{StopReason: protocol.StopToolUse}})
	w.step(TaskReady{attempt, "c1", json.RawMessage(`{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"do"}]}`)})
	w.step(ChildOpened{Attempt: attempt, ID: "A", SessionID: "s-A", Model: "acme/m1"})
	was := w.m.PermissionMode
	var told []protocol.PermissionMode
	w.done = func(e Effect) {
		if to, is := e.(TellChild); is {
			told = append(told, to.Cmd.(protocol.SetPermissionMode).Mode)
		}
	}
	w.failAt = 0
	w.send(protocol.SetPermissionMode{Mode: protocol.PermitAsk})
	w.failAt = -1
	assert.Equal(t, was, w.m.PermissionMode)
	assert.Equal(t, []protocol.PermissionMode{protocol.PermitAsk, was}, told)
	require.NotNil(t, w.m.activity.inRun(), "the run goes on")
}
