package main

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/link"
	"troupe/actors/remote"
	"troupe/actors/session"
)

// TestSignalAtTheStart: a node that waits for its engine ends when it is told to, whether what it waits for hears of that or not.
func TestSignalAtTheStart(t *testing.T) {
	for _, by := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		signals, heard, over := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
		err := untilSignal(signals, func(ctx context.Context) error {
			signals <- by
			<-ctx.Done()
			close(heard)
			<-over
			return nil
		})
		require.Equal(t, signalError(by.(syscall.Signal)), err)
		<-heard
		close(over)
	}
	failed := errors.New("it does not answer")
	require.Equal(t, failed, untilSignal(make(chan os.Signal), func(context.Context) error { return failed }))
	require.NoError(t, untilSignal(make(chan os.Signal), func(context.Context) error { return nil }))
}

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

// TestConnectIsSomewhereElse: what the flags of a client name is relative to where the client was
// started, not to where the daemon was.
func TestConnectIsSomewhereElse(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(home, "own"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "system.txt"), []byte("of the client"), 0o600))
	cfg := &actors.Config{Sessions: session.NewShared(session.Config{
		AgentDir: home, Home: home, Env: func(string) string { return "" }, Default: link.OpenSpec{Cwd: "/"},
	}, zerolog.Nop())}
	for given, cwd := range map[string]string{"sub": dir + "/sub", "./sub/.": dir + "/sub", ".": dir, "~/own": home + "/own", home: home, "": dir} {
		args := []string{"--session", "../s.jsonl", "--system-prompt", "system.txt"}
		if given != "" {
			args = append(args, "--cwd", given)
		}
		of, err := clientConfig(cfg, &remote.Preface{Cwd: dir, Args: args})
		require.NoError(t, err)
		assert.Equal(t, cwd, of.Default.Cwd, given)
		assert.Equal(t, filepath.Join(cwd, "..", "s.jsonl"), of.Default.Path, given)
		if cwd == dir+"/sub" {
			assert.Equal(t, "of the client", of.Default.SystemPrompt)
		}
	}
	_, err := clientConfig(cfg, &remote.Preface{Cwd: dir, Args: []string{"--cwd", "none"}})
	assert.ErrorContains(t, err, dir+"/none")
	for _, flag := range []string{"--system-prompt", "--append-system-prompt"} {
		_, err := clientConfig(cfg, &remote.Preface{Cwd: dir, Args: []string{flag, "/dev/null"}})
		assert.ErrorContains(t, err, flag+": /dev/null is not a regular file", "its name is not what the model is to be told")
	}
}
