package remote

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWithdrawnBody checks that the request of a device that is withdrawn ends while its body is on the way, and that its commands
// do not run.
func TestWithdrawnBody(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "troupe")
	tokens, err := OpenTokens(dir, TokenFile{})
	require.NoError(t, err)
	token, device, err := tokens.Login(tokens.NewCode(ScopeFull), "phone")
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(Config{Tokens: tokens, Hosts: []string{l.Addr().String()}, Log: zerolog.Nop()})
	s.ServeTCP(l)
	t.Cleanup(s.Close)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /v1/rpc HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\nAuthorization: Bearer "+token+"\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	require.NoError(t, err)
	const reading = "HTTP/1.1 100 Continue\r\n\r\n" // the server has accepted the token and reads the body
	start := make([]byte, len(reading))
	_, err = io.ReadFull(c, start)
	require.NoError(t, err)
	require.Equal(t, reading, string(start))
	_, err = io.WriteString(c, `{"type":"ping"}`+"\n")
	require.NoError(t, err)
	begun := time.Now()
	found, err := Revoke(dir, device.ID)
	require.NoError(t, err)
	require.True(t, found)
	answer, _ := io.ReadAll(c) // the connection may be cut
	assert.NotContains(t, string(answer), "200 OK")
	assert.Less(t, time.Since(begun), 10*time.Second, "not the time for a body")
	assert.False(t, tokens.Known(device.ID))
}

// TestGoodCodeAfterBadOnes checks that wrong codes from one address keep no good one out.
func TestGoodCodeAfterBadOnes(t *testing.T) {
	tokens, err := OpenTokens(filepath.Join(t.TempDir(), "troupe"), TokenFile{})
	require.NoError(t, err)
	s := New(Config{Tokens: tokens, Hosts: []string{"h"}, Log: zerolog.Nop()})
	login := func(code string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://h/v1/login", strings.NewReader(`{"code":"`+code+`","name":"x"}`)))
		return w.Code
	}
	for range failuresAMinute {
		require.Equal(t, http.StatusUnauthorized, login("guess"))
	}
	require.Equal(t, http.StatusTooManyRequests, login("guess"))
	require.Equal(t, http.StatusOK, login(tokens.NewCode(ScopeFull)))
}

// TestOptionsOfAll checks that "OPTIONS *" is judged by its host, as every other request is.
func TestOptionsOfAll(t *testing.T) {
	tokens, err := OpenTokens(filepath.Join(t.TempDir(), "troupe"), TokenFile{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(Config{Tokens: tokens, Hosts: []string{"good"}, Log: zerolog.Nop()})
	s.ServeTCP(l)
	t.Cleanup(s.Close)
	for host, status := range map[string]string{"good": "405", "evil": "403"} {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(c)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 "+status), string(answer))
	}
}

// TestSocketReplacesNothingElse checks that a daemon removes a socket that nobody listens on, and no other file.
func TestSocketReplacesNothingElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("file"), []byte("precious"), 0o600))
	require.NoError(t, os.Mkdir(path("dir"), 0o700))
	require.NoError(t, os.Symlink(path("file"), path("link")))
	require.NoError(t, os.WriteFile(path("Cargo.lock"), []byte("precious"), 0o600))
	require.NoError(t, os.Symlink(path("file"), path("linked.lock")))
	live, err := net.Listen("unix", path("live"))
	require.NoError(t, err)
	defer live.Close()
	for _, name := range []string{"file", "dir", "link", "Cargo", "linked", "live"} {
		_, _, err := Listen(path(name))
		assert.ErrorContains(t, err, path(name), name)
	}
	for _, name := range []string{"file", "link", "Cargo.lock", "linked.lock"} {
		content, err := os.ReadFile(path(name))
		require.NoError(t, err)
		assert.Equal(t, "precious", string(content), name)
	}
	c, err := net.Dial("unix", path("live"))
	require.NoError(t, err, "it listens as before")
	require.NoError(t, c.Close())

	dead, err := net.Listen("unix", path("dead"))
	require.NoError(t, err)
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	for range 2 { // the lock stays and has a number by then
		l, unlock, err := Listen(path("dead"))
		require.NoError(t, err)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
		unlock()
	}
}
