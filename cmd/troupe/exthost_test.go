package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/protocol/extension"
	"troupe/tools"
	engine "troupe/tools/extension"
)

const asExtHost = "TROUPE_TEST_EXT_HOST"

// TestExtHostProcess is the process that TestExtHost starts.
func TestExtHostProcess(t *testing.T) {
	if os.Getenv(asExtHost) == "" {
		t.Skip("it is started by TestExtHost")
	}
	exit(run([]string{extHostErrand})) // as main does
}

func TestExtHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hello.ts")
	require.NoError(t, os.WriteFile(path, []byte(`export default (pi: any) => pi.registerCommand("hello", { handler: async () => {} })`), 0o600))
	procs := tools.NewProcs(nil)
	defer procs.KillAll(time.Second)
	host := engine.NewChild(engine.ChildOptions{
		Command: os.Args[0], Args: []string{"-test.run=^TestExtHostProcess$"}, Procs: procs,
		Env: append(os.Environ(), asExtHost+"=1", "XDG_CACHE_HOME="+t.TempDir()),
	})
	said := make(chan extension.Said, 64)
	host.Open(extension.Spec{Entries: []extension.Entry{{Path: path}}, Cwd: t.TempDir()}, func(s extension.Said) { said <- s })
	for s := range said {
		if r, ok := s.(extension.Ready); ok {
			require.Empty(t, r.Errors)
			require.Equal(t, "hello", r.Registrations.Commands[0].Name)
			break
		}
		if g, ok := s.(extension.Gone); ok {
			require.FailNow(t, g.Why)
		}
	}
	require.NoError(t, host.Close())
	for s := range said {
		if g, ok := s.(extension.Gone); ok {
			require.Equal(t, "the host is closed", g.Why)
			return
		}
	}
}

// Who types the word by hand is told what it is.
func TestExtHostByHand(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestExtHostProcess$")
	cmd.Env = append(os.Environ(), asExtHost+"=1")
	out, err := cmd.CombinedOutput()
	var end *exec.ExitError
	require.ErrorAs(t, err, &end)
	require.Equal(t, exitUsage, end.ExitCode())
	require.Contains(t, string(out), "ext-host is a part of troupe that it starts itself")
}
