package link

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
)

// TestLedgerLeave: the connections of a client leave in any order, the newest first, too.
func TestLedgerLeave(t *testing.T) {
	var ledgers Ledgers
	older, newer := actor.NewPID("", "older"), actor.NewPID("", "newer")
	l, _ := ledgers.Of("client-1", Client{Router: older}, nil)
	again, _ := ledgers.Of("client-1", Client{Router: newer}, nil)
	assert.Same(t, l, again)
	l.Leave(newer, nil)
	l.Leave(older, nil)
	assert.Zero(t, l.conns)
}
