package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"troupe/tools/testenv"
)

const superviseScript = "TROUPE_TEST_SUPERVISE"

// TestMain is a process that orphans come to, if asked for one.
func TestMain(m *testing.M) {
	script := os.Getenv(superviseScript)
	if script == "" {
		testenv.Isolate()
		os.Exit(m.Run())
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(100)
	}
	code, err := supervise("/bin/sh", []string{"sh", "-c", script})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(100)
	}
	os.Exit(code)
}

func supervised(t *testing.T, script string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), superviseScript+"="+script)
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	return cmd
}

// TestSupervise: an init reaps what others leave, passes signals on and ends as
// its program does.
func TestSupervise(t *testing.T) {
	for _, x := range []struct {
		name, script string
		code         int
	}{
		{"reaps orphans", `(true & echo $! > pid); while [ -d /proc/$(cat pid) ]; do sleep 0.01; done; exit 7`, 7},
		{"killed", `kill -9 $$`, 128 + 9},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			cmd := supervised(t, x.script)
			_ = cmd.Run()
			assert.Equal(t, x.code, cmd.ProcessState.ExitCode())
		})
	}
	t.Run("signals", func(t *testing.T) {
		t.Parallel()
		cmd := supervised(t, `trap 'kill $!; exit 3' USR1; sleep 600 & echo ready; wait`)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		require.NoError(t, cmd.Process.Signal(unix.SIGUSR1))
		_ = cmd.Wait()
		assert.Equal(t, 3, cmd.ProcessState.ExitCode())
	})
}
