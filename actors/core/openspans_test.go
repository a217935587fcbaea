package core

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestOpenSpans: what an event opens or closes, as its row says, is noted; what
// does neither leaves no trace.
func TestOpenSpans(t *testing.T) {
	for _, row := range protocol.Events {
		if row.Event.Kind() == reflect.Pointer {
			require.Empty(t, row.Opens+row.Closes, row.Name)
			continue
		}
		ev := reflect.New(row.Event).Elem()
		for name, value := range map[string]any{"RunID": protocol.RunID("2"), "Attempt": 2, "CommandName": "x", "Reason": "manual", "Message": protocol.Message(&protocol.UserMessage{})} {
			if f := ev.FieldByName(name); f.IsValid() && reflect.TypeOf(value).AssignableTo(f.Type()) {
				f.Set(reflect.ValueOf(value))
			}
		}
		var before OpenSpans
		switch row.Opens {
		case protocol.SpanAttempt, protocol.SpanCheck:
			before = OpenSpans{Children: OpenChildren{{}}}
		}
		if row.Opens == "" { // all there is to close
			before = OpenSpans{Run: "1", OpenTurn: OpenTurn{Turn: true}, Message: &protocol.UserMessage{}, Tools: []protocol.ToolExecutionStart{{}}, Retry: 1, Compact: "manual", Settle: true,
				Children: OpenChildren{{Attempt: 2, Command: "x"}}}
		}
		after := before
		after.Observe(ev.Interface().(protocol.Event))
		require.Equal(t, row.Opens == "" && row.Closes == "", reflect.DeepEqual(before, after), row.Name)
	}
}

// TestOpenChildrenAreCopied: a copy of what is open stays what it was.
func TestOpenChildrenAreCopied(t *testing.T) {
	var open OpenChildren
	for _, id := range []string{"A", "B", "C"} {
		open.observe(protocol.SubagentStart{ID: id})
	}
	ids := func(l OpenChildren) (list []string) {
		for _, c := range l {
			list = append(list, c.ID)
		}
		return list
	}
	for _, first := range []string{"A", "B", "C"} {
		now := open
		now.observe(protocol.SubagentEnd{ID: first})
		now.observe(protocol.SubagentStart{ID: "D"})
		require.Equal(t, []string{"A", "B", "C"}, ids(open), first)
		require.Len(t, now, 3)
		for _, id := range []string{"A", "B", "C", "D"} {
			now.observe(protocol.SubagentEnd{ID: id})
		}
		require.Nil(t, now)
		require.Equal(t, []string{"A", "B", "C"}, ids(open), first)
	}
}

// TestResultsInCallOrder: of a turn that is ended for it a client is told the results in the order of the calls, whichever the log had
// first.
func TestResultsInCallOrder(t *testing.T) {
	answer := protocol.Seal(&protocol.AssistantMessage{Content: protocol.Content{protocol.ToolCall{ID: "c1", Name: "one"}, protocol.ToolCall{ID: "c2", Name: "two"}, protocol.ToolCall{ID: "c3", Name: "three"}}})
	result := func(id string) *protocol.ToolResultMessage {
		return protocol.Seal(&protocol.ToolResultMessage{ToolCallID: id, Content: protocol.Content{}})
	}
	for _, told := range []string{"", "c1", "c2", "c3"} {
		b := OpenSpans{}
		for _, ev := range []protocol.Event{
			protocol.AgentStart{RunID: "1"}, protocol.TurnStart{RunID: "1"}, protocol.MessageStart{Message: answer}, protocol.MessageEnd{Message: answer},
		} {
			b.Observe(ev)
		}
		e := lastWords{outcome: failed, why: "x", written: []*protocol.ToolResultMessage{result("c2"), result("c3")}, results: []*protocol.ToolResultMessage{result("c1")}}
		if told == "c1" {
			e.results, e.written = nil, append(e.written, result("c1"))
		}
		if told != "" {
			b.Observe(protocol.MessageEnd{Message: result(told)})
		}
		var said, ended []string
		b.end(e, func(ev protocol.Event) {
			switch ev := ev.(type) {
			case protocol.ToolExecutionEnd:
				said = append(said, ev.ToolCallID)
			case protocol.TurnEnd:
				for _, r := range ev.ToolResults {
					ended = append(ended, r.ToolCallID)
				}
			}
		})
		require.Equal(t, []string{"c1", "c2", "c3"}, ended, told)
		require.True(t, slices.IsSorted(said), said)
	}
}
