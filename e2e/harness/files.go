package harness

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// ReadEntries reads a session file. It fails the test if a line is incomplete or is not JSON.
func ReadEntries(t *testing.T, path string) (entries []gjson.Result) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(raw), "\n"), "the file ends in the middle of a line")
	for _, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		require.True(t, gjson.Valid(line), line)
		entries = append(entries, gjson.Parse(line))
	}
	return entries
}

// ReadFile reads a file that must exist.
func ReadFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// LongSession returns the content of a session file with n messages, each the child of the one
// before it.
func LongSession(cwd string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"session","version":3,"id":"01234567-89ab-7def-8123-456789abcdef","timestamp":"2026-01-01T00:00:00.000Z","cwd":%q}`+"\n", cwd)
	parent := "null"
	for i := range n {
		message := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"question %d"}],"timestamp":%d}`, i, i)
		if i%2 == 1 {
			message = fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"answer %d"}],"api":"a","provider":"mock","model":"mock-1",`+
				`"usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},`+
				`"stopReason":"stop","timestamp":%d}`, i, i)
		}
		fmt.Fprintf(&b, `{"type":"message","id":"%08x","parentId":%s,"timestamp":"2026-01-01T00:00:00.000Z","message":%s}`+"\n", i, parent, message)
		parent = fmt.Sprintf(`"%08x"`, i)
	}
	return b.String()
}
