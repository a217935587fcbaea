package tools

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpawn(t *testing.T) {
	procs := NewProcs(nil)
	defer procs.KillAll(time.Second)
	s, err := Spawn(SpawnSpec{Procs: procs, Command: "sh", Args: []string{"-c", "cat; echo err >&2; exit 3"}, Dir: t.TempDir(), Env: os.Environ()})
	require.NoError(t, err)
	_, err = io.WriteString(s.Stdin, "in")
	require.NoError(t, err)
	require.NoError(t, s.Stdin.Close())
	out, err := io.ReadAll(s.Stdout)
	require.NoError(t, err)
	errs, err := io.ReadAll(s.Stderr)
	require.NoError(t, err)
	<-s.Exited()
	code, sig, err := s.End()
	require.NoError(t, err)
	require.Equal(t, "in", string(out))
	require.Equal(t, "err\n", string(errs))
	require.Equal(t, 3, code)
	require.Zero(t, sig)
	require.ErrorIs(t, s.Signal(syscall.SIGTERM), os.ErrProcessDone)

	_, err = Spawn(SpawnSpec{Procs: procs, Command: "no-such-program"})
	require.True(t, errors.Is(err, exec.ErrNotFound), err)
}

// A program that is killed takes what it started with it.
func TestSpawnKill(t *testing.T) {
	procs := NewProcs(nil)
	defer procs.KillAll(time.Second)
	s, err := Spawn(SpawnSpec{Procs: procs, Command: "sh", Args: []string{"-c", "trap '' TERM; sleep 1000 & echo up; wait; sleep 1000"}, Env: os.Environ()})
	require.NoError(t, err)
	b := make([]byte, 3)
	_, err = io.ReadFull(s.Stdout, b)
	require.NoError(t, err)
	s.Kill(50 * time.Millisecond)
	<-s.Exited()
	_, sig, err := s.End()
	require.NoError(t, err)
	require.Equal(t, syscall.SIGKILL, sig)
	_, err = io.ReadAll(s.Stdout) // ends: nobody holds it
	require.NoError(t, err)
}
