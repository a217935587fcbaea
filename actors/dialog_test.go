package actors

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/session"
	"troupe/protocol"
)

// TestConsent: a tool that needs consent runs after a yes and not otherwise.
func TestConsent(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		runs         bool
	}{
		{"yes", `"confirmed":true`, true},
		{"no", `"confirmed":false`, false},
		{"cancelled", `"cancelled":true`, false},
		{"cancelled beats yes", `"confirmed":true,"cancelled":true`, false},
		{"not an answer to this", `"value":"x"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, confirm)
				s := b.open()
				b.Say(s, "prompt", "~a~ rounds=1 tool=danger")
				b.pass(time.Minute)
				assert.Equal(t, "dialog", b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.phase").Str)
				for range 3 { // the first answer counts; more of them change nothing
					b.Line(`{"type":"extension_ui_response","id":"confirm_1",` + c.answer + at(s) + `}`)
				}
				b.Line(`{"type":"extension_ui_response","id":"confirm_99","confirmed":true` + at(s) + `}`)
				actortest.Settle()
				if c.name == "not an answer to this" {
					require.Empty(t, b.Events(s, "agent_settled"), "a better answer may come")
					b.Send(`{"type":"abort"` + at(s) + `}`)
					actortest.Settle()
				}
				ends := b.Events(s, "tool_execution_end")
				require.Len(t, ends, 1)
				assert.Equal(t, !c.runs, ends[0].Get("isError").Bool())
				require.Len(t, b.Events(s, "agent_settled"), 1)
				b.check()
			})
		})
	}
}

// TestAbortClosesTheDialog: a yes that comes after the abort runs nothing.
func TestAbortClosesTheDialog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, confirm)
		s := b.open()
		b.Say(s, "prompt", "~a~ rounds=1 tool=danger")
		actortest.Settle()
		b.Send(`{"type":"abort"` + at(s) + `}`)
		b.Line(`{"type":"extension_ui_response","id":"confirm_1","confirmed":true` + at(s) + `}`)
		b.pass(time.Minute)
		assert.True(t, b.Events(s, "tool_execution_end")[0].Get("isError").Bool())
		b.check()
	})
}

// TestBroker: the broker by itself, between a probe and the clock.
func TestBroker(t *testing.T) {
	yes, no, red := true, false, "red"
	answer := func(a protocol.ExtensionUIResponse) answerUI { a.ID = "d"; return answerUI{a} }
	for _, c := range []struct {
		name    string
		request protocol.ExtensionUIRequest
		tell    []any
		wait    time.Duration
		want    *session.UIAnswered
	}{
		{"confirm", protocol.ExtensionUIRequest{Method: "confirm"}, []any{answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 0,
			&session.UIAnswered{ID: "d", Confirmed: true}},
		{"refuse", protocol.ExtensionUIRequest{Method: "confirm"}, []any{answer(protocol.ExtensionUIResponse{Confirmed: &no})}, 0, &session.UIAnswered{ID: "d"}},
		{"first counts", protocol.ExtensionUIRequest{Method: "confirm"},
			[]any{answer(protocol.ExtensionUIResponse{Confirmed: &no}), answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 0, &session.UIAnswered{ID: "d"}},
		{"timeout is no", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, nil, 2 * time.Second, &session.UIAnswered{ID: "d", Cancelled: true}},
		{"too late", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, []any{uiTimeout{"d"}, answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 0,
			&session.UIAnswered{ID: "d", Cancelled: true}},
		{"in time", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, []any{answer(protocol.ExtensionUIResponse{Confirmed: &yes}), uiTimeout{"d"}}, 2 * time.Second,
			&session.UIAnswered{ID: "d", Confirmed: true}},
		{"cancelled", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, []any{cancelUI{"d"}, answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 2 * time.Second, nil},
		{"choice", protocol.ExtensionUIRequest{Method: "select", Options: []string{"red"}}, []any{answer(protocol.ExtensionUIResponse{Value: &red})}, 0,
			&session.UIAnswered{ID: "d", Value: &red}},
		{"no such choice", protocol.ExtensionUIRequest{Method: "select", Options: []string{"blue"}}, []any{answer(protocol.ExtensionUIResponse{Value: &red})}, 0, nil},
		{"silence", protocol.ExtensionUIRequest{Method: "input"}, nil, time.Hour, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sys := actor.NewActorSystem(quiet())
				probe := actortest.NewProbe(sys)
				broker := probe.Spawn(sys, actor.PropsFromProducer(func() actor.Actor { return &uiBroker{} }))
				c.request.ID = "d"
				sys.Root.Send(broker, askUI{c.request})
				for _, m := range c.tell {
					sys.Root.Send(broker, m)
				}
				time.Sleep(c.wait)
				actortest.Settle()
				if c.want == nil {
					assert.Empty(t, probe.Take())
				} else {
					assert.Equal(t, *c.want, actortest.Expect[session.UIAnswered](t, probe))
				}
				require.NoError(t, sys.Root.PoisonFuture(probe.PID).Wait())
			})
		})
	}
}
