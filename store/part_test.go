package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
)

// TestReadPart: whole lines from an offset on, as many as may be; what is no entry is
// passed over, and what is not whole is left for the next time.
func TestReadPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	first := `{"type":"session"}` + "\n"
	second := `{"type":"message","message":{"role":"user"}}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(first+second+"broken\n"+`{"type":"mess`), 0o600))
	read := func(from, max int64) (entries, messages string, next int64, reset, more bool) {
		p, err := store.ReadPart(store.OS{}, path, from, max)
		require.NoError(t, err)
		assert.Equal(t, path, p.File)
		join := func(list []string) string { return strings.Join(list, " ") }
		var e, m []string
		for _, raw := range p.Entries {
			e = append(e, string(raw))
		}
		for _, raw := range p.Messages {
			m = append(m, string(raw))
		}
		return join(e), join(m), p.Next, p.Reset, p.HasMore
	}
	whole := int64(len(first + second + "broken\n"))
	for _, c := range []struct {
		from, max         int64
		entries, messages string
		next              int64
		reset, more       bool
	}{
		{0, 1 << 20, strings.TrimSpace(first) + " " + strings.TrimSpace(second), `{"role":"user"}`, whole, false, false},
		{0, 1, strings.TrimSpace(first), "", int64(len(first)), false, true},
		{int64(len(first)), 1, strings.TrimSpace(second), `{"role":"user"}`, int64(len(first + second)), false, true},
		{3, 1 << 20, strings.TrimSpace(second), `{"role":"user"}`, whole, false, false},
		{whole, 1 << 20, "", "", whole, false, false},
		{1000, 1 << 20, strings.TrimSpace(first) + " " + strings.TrimSpace(second), `{"role":"user"}`, whole, true, false},
	} {
		entries, messages, next, reset, more := read(c.from, c.max)
		assert.Equal(t, c.entries, entries, "%+v", c)
		assert.Equal(t, c.messages, messages, "%+v", c)
		assert.Equal(t, c.next, next, "%+v", c)
		assert.Equal(t, []bool{c.reset, c.more}, []bool{reset, more}, "%+v", c)
	}
	p, err := store.ReadPart(store.OS{}, path+".none", 7, 1<<20)
	require.NoError(t, err, "it is not there yet")
	assert.Equal(t, []int64{7, 7}, []int64{p.From, p.Next})
	assert.False(t, p.Reset)
}
