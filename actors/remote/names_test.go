package remote

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDeviceNames checks that a device's name, which its browser chooses, is kept without characters that a terminal obeys
// or that show nothing, and that it makes one line of the log.
func TestDeviceNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "troupe")
	tokens, err := OpenTokens(dir, TokenFile{})
	require.NoError(t, err)
	var log bytes.Buffer
	s := New(Config{Tokens: tokens, Hosts: []string{"example.com"}, Log: zerolog.New(zerolog.SyncWriter(&log))})
	t.Cleanup(s.Close)
	names := []string{
		"\x1b]0;title\a", "a\x1b[2J", "a\r\nd-1 full", "tab\tin", "\u009b31m", "\u202egnp", "a\u2028b\u2029c", "\u200b\u2066\ufeff", "\x00", "\u00a0\u3000",
		strings.Repeat("ä", 1000), "<img src=x onerror=alert(1)>", `{"level":"error"}`,
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var name strings.Builder
		for range random.IntN(60) {
			name.WriteRune(rune(random.IntN(0x3100)))
		}
		names = append(names, name.String())
	}
	for _, name := range names {
		body, err := json.Marshal(map[string]string{"code": tokens.NewCode(ScopeView), "name": name})
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/v1/login", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	}
	list, err := ReadDevices(dir)
	require.NoError(t, err)
	require.Len(t, list, len(names))
	for i, d := range list {
		assert.LessOrEqual(t, len(d.Name), 100)
		assert.True(t, utf8.ValidString(d.Name))
		assert.Equal(t, -1, strings.IndexFunc(d.Name, func(r rune) bool { return !unicode.IsPrint(r) }), "%q became %q", names[i], d.Name)
	}
	assert.Equal(t, "a[2J", list[1].Name)
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	require.Len(t, lines, len(names), "one line for each")
	for i, line := range lines {
		var said struct{ Level, Message, Name string }
		require.NoError(t, json.Unmarshal([]byte(line), &said))
		require.Equal(t, "info signed in", said.Level+" "+said.Message)
		require.Equal(t, list[i].Name, said.Name)
		require.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }))
	}
}
