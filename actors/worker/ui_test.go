package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/actortest"
	"troupe/actors/core"
	"troupe/protocol"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBroker: the broker by itself, between a probe and the clock.
func TestBroker(t *testing.T) {
	yes, no, red := true, false, "red"
	answer := func(a protocol.ExtensionUIResponse) AnswerUI { a.ID = "d"; return AnswerUI{a} }
	for _, c := range []struct {
		name    string
		request protocol.ExtensionUIRequest
		tell    []any
		wait    time.Duration
		want    *core.UIAnswered
	}{
		{"confirm", protocol.ExtensionUIRequest{Method: "confirm"}, []any{answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 0,
			&core.UIAnswered{ID: "d", Confirmed: true}},
		{"refuse", protocol.ExtensionUIRequest{Method: "confirm"}, []any{answer(protocol.ExtensionUIResponse{Confirmed: &no})}, 0, &core.UIAnswered{ID: "d"}},
		{"first counts", protocol.ExtensionUIRequest{Method: "confirm"},
			[]any{answer(protocol.ExtensionUIResponse{Confirmed: &no}), answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 0, &core.UIAnswered{ID: "d"}},
		{"timeout is no", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, nil, 2 * time.Second, &core.UIAnswered{ID: "d", Cancelled: true, Late: true}},
		{"too late", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, []any{uiTimeout{"d"}, answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 0,
			&core.UIAnswered{ID: "d", Cancelled: true, Late: true}},
		{"in time", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, []any{answer(protocol.ExtensionUIResponse{Confirmed: &yes}), uiTimeout{"d"}}, 2 * time.Second,
			&core.UIAnswered{ID: "d", Confirmed: true}},
		{"cancelled", protocol.ExtensionUIRequest{Method: "confirm", Timeout: 1000}, []any{CancelUI{"d"}, answer(protocol.ExtensionUIResponse{Confirmed: &yes})}, 2 * time.Second, nil},
		{"choice", protocol.ExtensionUIRequest{Method: "select", Options: []string{"red"}}, []any{answer(protocol.ExtensionUIResponse{Value: &red})}, 0,
			&core.UIAnswered{ID: "d", Value: &red}},
		{"no such choice", protocol.ExtensionUIRequest{Method: "select", Options: []string{"blue"}}, []any{answer(protocol.ExtensionUIResponse{Value: &red})}, 0, nil},
		{"silence", protocol.ExtensionUIRequest{Method: "input"}, nil, time.Hour, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actor.NewActorSystem(actortest.Quiet())
				probe := actortest.NewProbe(sys)
				broker := probe.Spawn(sys, actor.PropsFromProducer(func() actor.Actor { return &UIBroker{} }))
				c.request.ID = "d"
				sys.Root.Send(broker, AskUI{c.request})
				for _, m := range c.tell {
					sys.Root.Send(broker, m)
				}
				time.Sleep(c.wait)
				actortest.Settle()
				if c.want == nil {
					assert.Empty(t, probe.Take())
				} else {
					assert.Equal(t, *c.want, actortest.Expect[core.UIAnswered](t, probe))
				}
				require.NoError(t, sys.Root.PoisonFuture(probe.PID).Wait())
			})
		})
	}
}
