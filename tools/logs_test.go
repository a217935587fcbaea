package tools

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// logged is what a command wrote that printed n bytes, and the size of its file.
func logged(t *testing.T, l *logs, dir string, n int) (o *output, path string, size int64) {
	t.Helper()
	o = &output{dir: dir, logs: l}
	for chunk := range bytesChunks([]byte(strings.Repeat("0123456789\n", n/11+1)[:n]), 3000) {
		o.write(chunk)
	}
	_, path = o.finish()
	require.NoError(t, o.err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	return o, path, info.Size()
}

// A log has a limit, all logs of a session have one together, for which the
// oldest go, and they go with the session.
func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &logs{each: 200_000, all: 500_000}
	all := func() []string {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		return files
	}
	o, first, size := logged(t, l, dir, 200_000)
	assert.EqualValues(t, 200_000, size)
	assert.False(t, o.full)
	o, second, size := logged(t, l, dir, 300_000)
	assert.EqualValues(t, 200_000, size)
	assert.True(t, o.full)
	res := ExecResult{Output: o.truncation(true), FullOutputPath: second, FullOutputCut: true}
	assert.Contains(t, outputNotice(res)[1], "Its beginning, as much as is kept: "+second)
	assert.FileExists(t, first)

	running := &output{dir: dir, logs: l}
	running.write([]byte(strings.Repeat("x", 100_000)))
	_, third, _ := logged(t, l, dir, 60_000)
	assert.NoFileExists(t, first, "the oldest makes room")
	for range 20 {
		logged(t, l, dir, 90_000)
	}
	assert.NoFileExists(t, third)
	assert.FileExists(t, running.path(), "what is being written stays")
	assert.LessOrEqual(t, len(all()), 5)

	l.removeAll()
	running.write([]byte("more"))
	assert.Empty(t, all())
	late := &output{dir: dir, logs: l}
	late.write([]byte(strings.Repeat("x", 100_000)))
	late.finish()
	assert.ErrorIs(t, late.err, errClosing)
	assert.Empty(t, all())
}

// KillAll is the end of the logs, too.
func TestLogsGoWithTheSession(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	res, err := Exec(t.Context(), ExecSpec{Env: env, Command: "seq 100000"})
	require.NoError(t, err)
	assert.FileExists(t, res.FullOutputPath)
	env.Procs.KillAll(0)
	assert.NoFileExists(t, res.FullOutputPath)
}

type endless struct {
	reads *int
	left  int
}

func (e *endless) Read(p []byte) (int, error) {
	if *e.reads++; *e.reads > e.left {
		return 0, io.EOF
	}
	return len(p), nil
}

// What writes without end in the background is read at a pace that costs nothing.
func TestBackgroundOutputIsSipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, reads := time.Now(), 0
		sip(&endless{&reads, 100})
		assert.Equal(t, 101, reads, "to the end")
		assert.Equal(t, 100*sipPause, time.Since(began))
	})
}
