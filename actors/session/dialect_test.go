package session

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"troupe/actors/link"
	"troupe/protocol"
)

// TestSetDialect: what one client chooses changes how it is written to, and the
// rules of a session only where nobody else hears of it.
func TestSetDialect(t *testing.T) {
	pi1, rules, _ := protocol.DialectPi1.Open()
	union, _, _ := protocol.DialectUnion.Open()
	one := link.Client{Writer: actor.NewPID("", "one"), Wire: &union}
	other := link.Client{Writer: actor.NewPID("", "other"), Wire: &union}
	chosen := one
	chosen.Wire = &pi1

	alone := newSession(&durable{clients: clients{list: []*client{{Client: one}}}, work: &workspace{}})
	require.False(t, alone.clients.list[0].Wire.Has(protocol.FeatureDeltaUpdates))
	require.True(t, alone.setDialect(link.SetDialect{Client: chosen, Rules: rules}))
	require.Equal(t, rules, alone.rules)
	require.Equal(t, rules, alone.work.settings.Rules)
	require.True(t, alone.clients.list[0].Wire.Has(protocol.FeatureDeltaUpdates))

	shared := newSession(&durable{clients: clients{list: []*client{{Client: one}, {Client: other}}}, work: &workspace{}})
	require.False(t, shared.setDialect(link.SetDialect{Client: chosen, Rules: rules}))
	require.Zero(t, shared.rules)
	require.Zero(t, shared.work.settings.Rules)
	require.Equal(t, protocol.DialectPi1, shared.clients.list[0].Wire.Dialect)
	require.Equal(t, protocol.DialectUnion, shared.clients.list[1].Wire.Dialect)
	require.False(t, shared.clients.list[1].Wire.Has(protocol.FeatureDeltaUpdates), "the other one is shown whole messages")
	require.True(t, shared.clients.told(protocol.FeatureBashUpdates))
}
