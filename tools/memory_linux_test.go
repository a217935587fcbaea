package tools

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

var hugeMiB = flag.Int64("tools.huge", 512, "MiB of the files in TestHugeFilesNeedLittleMemory")

// Not parallel: it looks at the memory of the process.
func TestHugeFilesNeedLittleMemory(t *testing.T) {
	env := newEnv(t)
	size := *hugeMiB << 20
	sparse(t, env, size, map[int64]string{size / 2: "\nneedle\n"})
	const limit = 8 << 20
	run(t, env, "read", object{"path": "nothing"}) // what is needed once
	var text string
	var err error
	assert.Less(t, growth(t, func() { text, _, err = run(t, env, "read", object{"path": "huge", "offset": 2, "limit": 1}) }), int64(limit))
	require.NoError(t, err)
	assert.Equal(t, "needle\n\n[1 more lines in the file. Use offset=3 to continue]", text)
	assert.Less(t, growth(t, func() { text, _, err = run(t, env, "read", object{"path": "huge"}) }), int64(limit))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("[Line 1 is %s, over the limit of 50.0KB. For its beginning use bash: sed -n '1p' huge | head -c 51200]",
		protocol.FormatSize(size/2+1)), text)
	sparse(t, env, size, map[int64]string{0: "text\n", 10_000: "\nneedle\n"})
	assert.Less(t, growth(t, func() { text, _, err = run(t, env, "grep", object{"path": "huge", "pattern": "ne+dle"}) }), int64(limit))
	require.NoError(t, err)
	assert.Equal(t, "huge:3: needle", text, "a binary file that is asked for is searched")
}

// One line of any length is searched in pieces.
func TestGrepLongLineNeedsLittleMemory(t *testing.T) {
	env := newEnv(t)
	const pieces = 100
	spaces := bytes.Repeat([]byte{' '}, 1<<20)
	f, err := os.Create(filepath.Join(env.Cwd, "huge"))
	require.NoError(t, err)
	for range pieces {
		_, err := f.Write(spaces)
		require.NoError(t, err)
	}
	_, err = f.WriteString("needle  ")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	var text string
	assert.Less(t, growth(t, func() { text, _, err = run(t, env, "grep", object{"pattern": "needle *$"}) }), int64(8<<20))
	require.NoError(t, err)
	assert.Equal(t, "huge:1: needle  ", text)
}
