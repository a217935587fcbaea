package main

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/link"
	"troupe/actors/remote"
	"troupe/actors/session"
)

// A browser leaves out the port that everybody knows, in Host as in Origin: a server there is
// called without it, one elsewhere is not.
func TestPortsThatAreLeftOut(t *testing.T) {
	for _, of := range []struct {
		port         int
		host, origin string
		status       int
	}{
		{80, "localhost", "http://localhost", 200},
		{80, "LOCALHOST:80", "http://localhost", 200},
		{80, "[::1]", "http://[::1]", 200},
		{80, "127.0.0.1", "http://127.0.0.1:80", 403}, // no browser says that
		{80, "127.0.0.1", "http://localhost:7717", 403},
		{80, "evil.test", "http://evil.test", 403},
		{80, "localhost", "https://localhost", 403},
		{7717, "localhost", "", 403},
		{7717, "localhost:7717", "http://localhost:7717", 200},
		{7717, "localhost:7717", "http://localhost", 403},
	} {
		var cfg remote.Config
		cfg.Log = zerolog.Nop()
		dir := t.TempDir()
		s := &serveOptions{listen: "127.0.0.1"}
		addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: of.port}
		require.NoError(t, s.network(&cfg, addr, &session.Shared{Config: session.Config{AgentDir: dir, Home: dir, Default: link.OpenSpec{Cwd: dir}}}))
		r := httptest.NewRequest("GET", "/healthz", nil)
		r.Host = of.host
		if of.origin != "" {
			r.Header.Set("Origin", of.origin)
		}
		w := httptest.NewRecorder()
		remote.New(cfg).ServeHTTP(w, r)
		assert.Equal(t, of.status, w.Code, "%+v", of)
	}
}
