package history

import (
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

const queueRun = `
	life
	> {"id":"1","type":"prompt","message":"~a~ one"}
	> {"id":"2","type":"follow_up","message":"~a~ two"}
	> {"id":"3","type":"steer","message":"~a~ three"}
	> {"id":"4","type":"steer","message":"~a~ four"}
	> {"id":"5","type":"get_state"}
	< {"id":"1","type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}
	< {"type":"message_start","message":{"role":"user","content":"~a~ one"}}
	< {"id":"2","type":"response","command":"follow_up","success":true,"data":{"disposition":"queued"}}
	< {"id":"3","type":"response","command":"steer","success":true,"data":{"disposition":"queued"}}
	< {"id":"4","type":"response","command":"steer","success":true,"data":{"disposition":"queued"}}
	< {"id":"5","type":"response","command":"get_state","success":true,"data":{"pendingMessageCount":3}}
	< {"type":"message_start","message":{"role":"user","content":"~a~ three"}}
	> {"id":"6","type":"clear_queue"}
	< {"id":"6","type":"response","command":"clear_queue","success":true,"data":{"steering":["~a~ four"],"followUp":["~a~ two"]}}
	> {"id":"7","type":"get_state"}
	< {"id":"7","type":"response","command":"get_state","success":true,"data":{"pendingMessageCount":0}}
`

// TestQueueModel: the good history passes, each damaged one does not.
func TestQueueModel(t *testing.T) {
	judge := func(wire string) []string { return linear(lives(tell(wire).Records())[0], true, Options{}) }
	assert.Empty(t, judge(queueRun))
	for name, c := range map[string][2]string{
		"a later steer first":        {`"user","content":"~a~ three"`, `"user","content":"~a~ four"`},
		"a follow-up before a steer": {`"user","content":"~a~ three"`, `"user","content":"~a~ two"`},
		"not in the queue any more":  {`"steering":["~a~ four"]`, `"steering":[]`},
		"returned and delivered":     {`"steering":["~a~ four"]`, `"steering":["~a~ three","~a~ four"]`},
		"counted wrong":              {`"pendingMessageCount":3`, `"pendingMessageCount":4`},
		"cleared and there":          {`"pendingMessageCount":0`, `"pendingMessageCount":1`},
		"refused and there":          {`"id":"3","type":"response","command":"steer","success":true`, `"id":"3","type":"response","command":"steer","success":false`},
		"counted before it was sent": {`"pendingMessageCount":3`, `"pendingMessageCount":1`},
	} {
		assert.Contains(t, queueRun, c[0])
		assert.NotEmpty(t, judge(strings.Replace(queueRun, c[0], c[1], 1)), name)
	}
	for name, c := range map[string][2]string{ // nothing is known of an answer that leaves it open
		"crashed, and it is there":     {`"id":"4","type":"response","command":"steer","success":true`, `"id":"4","type":"response","command":"steer","success":false,"code":"internal"`},
		"crashed, and it is not there": {`"id":"1","type":"response","command":"prompt","success":true`, `"id":"1","type":"response","command":"prompt","success":false,"code":"internal"`},
	} {
		assert.Contains(t, queueRun, c[0])
		assert.Empty(t, judge(strings.Replace(queueRun, c[0], c[1], 1)), name)
	}
}

func TestDialogModel(t *testing.T) {
	ask := `life` + "\n" + `< {"type":"extension_ui_request","method":"confirm","id":"d","toolCallId":"c"}` + "\n"
	yes := `> {"type":"extension_ui_response","id":"d","confirmed":true}` + "\n"
	no := `> {"type":"extension_ui_response","id":"d","confirmed":false}` + "\n"
	end := `< {"type":"tool_execution_end","toolCallId":"c"}` + "\n"
	ran := "ran c\n"
	for wire, good := range map[string]bool{
		ask + yes + ran + end: true,
		ask + no + end:        true,
		ask + yes + end:       true,
		ask + no + yes + end:  true,
		ask + end + yes:       true,
		ask + ran + end:       false,
		ask + no + ran + end:  false,
		ask + yes + ran + ran: false,
		ask + end + yes + ran: true, // the end belongs to the call, which is not followed further
	} {
		assert.Equal(t, good, len(linear(lives(tell(wire).Records())[0], true, Options{})) == 0, wire)
	}
}

func TestLeaseModel(t *testing.T) {
	op := func(who, do string, call, end int64, out any) porcupine.Operation {
		return porcupine.Operation{Input: LeaseOp{Path: "p", Who: who, Do: do}, Call: call, Return: end, Output: out}
	}
	assert.True(t, Leases([]porcupine.Operation{op("a", "open", 1, 4, true), op("b", "open", 2, 3, false), op("a", "close", 5, 8, true), op("b", "open", 6, 7, true)}))
	assert.True(t, Leases([]porcupine.Operation{op("a", "open", 1, 2, true), op("a", "crash", 3, 4, nil), op("b", "open", 5, 6, true)}))
	assert.False(t, Leases([]porcupine.Operation{op("a", "open", 1, 2, true), op("b", "open", 3, 4, true)}), "two owners")
	assert.False(t, Leases([]porcupine.Operation{op("a", "open", 1, 2, true), op("a", "close", 3, 4, true), op("b", "open", 5, 6, false)}), "refused for nobody")
	assert.False(t, Leases([]porcupine.Operation{op("a", "open", 1, 2, true), op("a", "crash", 3, 4, nil), op("b", "open", 5, 6, false)}), "held by the dead")
}
