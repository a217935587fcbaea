package store_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestWorkThatWasCut: how long a run was at work that no entry ends is known from the last
// entry behind its begin; what comes after an end does not count.
func TestWorkThatWasCut(t *testing.T) {
	l, m := newLog(t)
	put := func(at int64, e protocol.Entry) {
		_, err := l.Append(e, t0+at, true)
		require.NoError(t, err)
	}
	note := func(data string) protocol.Entry {
		return protocol.Custom{CustomType: protocol.CustomBudget, Data: json.RawMessage(data)}
	}
	spent := func() (ms int64, working bool) {
		view := open(t, m, file).View()
		used, err := view.Spent()
		require.NoError(t, err)
		s, err := view.State()
		require.NoError(t, err)
		return used.Used.WallTimeMs, s.Working
	}
	check := func(ms int64, working bool) {
		t.Helper()
		at, goesOn := spent()
		assert.Equal(t, ms, at)
		assert.Equal(t, working, goesOn)
	}
	put(0, user("go"))
	put(0, note(`{"op":"active","working":true}`))
	put(700, answer("", "c1"))
	put(1500, result("c1"))
	check(1500, true)
	put(9000, note(`{"op":"active","activeMs":1500}`)) // of the next process
	put(9000, user("more"))
	check(1500, false)
	put(10_000, note(`{"op":"active","activeMs":1500,"working":true}`))
	put(10_400, answer("done"))
	check(1900, true)
}
