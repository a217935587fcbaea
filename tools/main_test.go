package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"troupe/protocol"
	"troupe/tools/testenv"
)

// helperKey makes the test binary play a part in a test instead of running
// tests.
const helperKey = "TOOLS_TEST_HELPER"

func TestMain(m *testing.M) {
	if playPart(os.Getenv(helperKey)) {
		return
	}
	testenv.Isolate()
	goleak.VerifyTestMain(m)
}

// newEnv is an environment in an empty directory, with everything a session
// has. What its commands leave behind is ended with the test.
func newEnv(t testing.TB) *Env {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	env := &Env{
		Cwd: dir, Home: dir, TempDir: t.TempDir(), Environ: []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"},
		AutoResize: true, Files: new(Files), Procs: NewProcs(nil), Grace: 500 * time.Millisecond,
	}
	t.Cleanup(func() { env.Procs.KillAll(time.Millisecond) })
	return env
}

// run calls a tool the way a session does and returns what the model reads.
func run(t testing.TB, env *Env, name string, args any) (text string, result protocol.ToolResult, err error) {
	t.Helper()
	raw, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		require.NoError(t, err)
		raw = string(b)
	}
	result, err = New().Run(t.Context(), name, Call{ID: "1", Args: json.RawMessage(raw), Env: env})
	return result.Content.Text(""), result, err
}

type object = map[string]any

// put writes a file below the working directory.
func put(t testing.TB, env *Env, name, content string) string {
	t.Helper()
	path := filepath.Join(env.Cwd, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	return path
}

// get reads a file below the working directory.
func get(t testing.TB, env *Env, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(env.Cwd, name))
	require.NoError(t, err)
	return string(content)
}

// unmarshal reads JSON that must be valid.
func unmarshal[T any](t testing.TB, raw []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, &v), "%s", raw)
	return v
}
