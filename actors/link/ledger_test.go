package link

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"

	"troupe/protocol"
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

// TestLedgersMakeRoom: a client that comes back keeps its answers and costs no other client
// its own, however many there are; a new one costs the client that has been away longest.
func TestLedgersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ledgers Ledgers
		come := func(i int) *Ledger {
			l, _ := ledgers.Of(fmt.Sprint(i), Client{}, nil)
			return l
		}
		for i := range ledgerClients {
			come(i).Leave(nil, nil)
			time.Sleep(time.Millisecond)
		}
		first := ledgers.byID["0"]
		assert.Same(t, first, come(0))
		assert.Len(t, ledgers.byID, ledgerClients)
		come(ledgerClients)
		assert.Len(t, ledgers.byID, ledgerClients)
		assert.Same(t, first, come(0), "it has a connection")
		assert.NotContains(t, ledgers.byID, "1")
	})
}

// TestLedgerForgetsEnough: as many answers are forgotten as there are too many, whatever was
// refused in between, and what was refused takes no room.
func TestLedgerForgetsEnough(t *testing.T) {
	l := &Ledger{entries: map[string]*ledgerEntry{}}
	answer := func(id string, err *protocol.Error) {
		l.Begin(id, 1)
		l.done(&protocol.Response{ID: json.RawMessage(id), Err: err}, Client{Writer: actor.NewPID("", "w")})
	}
	for i := range 2 * ledgerAnswers {
		answer(fmt.Sprint(i), nil)
		answer(fmt.Sprint(-i), protocol.CodeOverloaded.Errorf("later"))
	}
	assert.Len(t, l.entries, ledgerAnswers)
	assert.Len(t, l.order, ledgerAnswers)
	bytes := 0
	for _, id := range l.order {
		bytes += l.entries[id].bytes
	}
	assert.Equal(t, bytes, l.bytes)
	assert.GreaterOrEqual(t, bytes, ledgerAnswers*RecordSize)
	assert.Equal(t, fmt.Sprint(ledgerAnswers), l.order[0])
}
