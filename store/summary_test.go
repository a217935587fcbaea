package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSummaryReader checks that lines that come in pieces are described as those of a file are.
func TestSummaryReader(t *testing.T) {
	const header = `{"type":"session","version":3,"id":"s1","timestamp":"2026-11-21T01:04:26.021Z","cwd":"/w"}` + "\n"
	const said = `{"type":"message","id":"m1","parentId":null,"timestamp":"2026-11-21T01:04:27.000Z","message":{"role":"user","content":"hello","timestamp":1763687067000}}` + "\n"
	const named = `{"type":"session_info","id":"n1","parentId":"m1","timestamp":"2026-11-21T01:04:28.000Z","name":"one"}` + "\n"
	for _, pieces := range [][]string{{header + said + named}, {header, said, named}, {header + said, named}} {
		var r SummaryReader
		for _, lines := range pieces {
			r.Add([]byte(lines))
		}
		s, is := r.Summary()
		require.True(t, is)
		assert.Equal(t, []any{"s1", "/w", "one", "hello", 1, "2026-11-21T01:04:26.021Z"}, []any{s.ID, s.Cwd, s.Name, s.FirstMessage, s.MessageCount, s.Created})
	}
	var none, other SummaryReader
	none.Add([]byte(header))
	s, is := none.Summary()
	assert.True(t, is)
	assert.Empty(t, s.FirstMessage)
	other.Add([]byte(said + header))
	_, is = other.Summary()
	assert.False(t, is, "a log that does not begin with a header")
}
