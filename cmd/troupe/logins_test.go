package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRunProgram: of a tool that is asked for a token comes the beginning of what it prints, it is
// ended with all that it has started when nobody waits for it, and it is not waited for what it
// leaves behind.
func TestRunProgram(t *testing.T) {
	t.Parallel()
	run := runProgram("/", nil)
	t.Run("prints", func(t *testing.T) {
		t.Parallel()
		out, err := run(t.Context(), "sh", "-c", "echo out; echo dropped >&2; pwd; exit 3")
		assert.Equal(t, "out\n/\n", out)
		assert.EqualError(t, err, "exit status 3")
		_, err = run(t.Context(), "sh", "-c", "kill -9 $$")
		assert.EqualError(t, err, "signal killed")
		_, err = run(t.Context(), "there-is-no-such-program")
		assert.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("prints much", func(t *testing.T) {
		t.Parallel()
		out, err := run(t.Context(), "sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2")
		require.NoError(t, err, "it could write all of it")
		assert.Len(t, out, maxToken)
	})
	t.Run("leaves somebody behind", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fifo := filepath.Join(t.TempDir(), "fifo")
		require.NoError(t, syscall.Mkfifo(fifo, 0o600))
		out, err := run(ctx, "sh", "-c", "(cat "+fifo+") & echo token")
		require.NoError(t, err)
		assert.Equal(t, "token\n", out)
		require.NoError(t, os.WriteFile(fifo, nil, 0o600)) // now it ends
	})
	t.Run("is given up", func(t *testing.T) {
		t.Parallel()
		fifo := filepath.Join(t.TempDir(), "fifo")
		require.NoError(t, syscall.Mkfifo(fifo, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := run(ctx, "sh", "-c", "(echo started; exec sleep 600) >"+fifo+"; exit 0")
			failed <- err
		}()
		pipe, err := os.Open(fifo)
		require.NoError(t, err)
		defer pipe.Close()
		begin := make([]byte, len("started\n"))
		_, err = io.ReadFull(pipe, begin)
		require.NoError(t, err)
		cancel()
		assert.ErrorIs(t, <-failed, context.Canceled)
		rest, err := io.ReadAll(pipe) // ends with the last who could write
		require.NoError(t, err)
		assert.Empty(t, rest)
	})
}
