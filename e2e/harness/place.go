package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/e2e/history"
	"troupe/e2e/need"
)

// Place holds the directories and the fake model server of one test. All of them are removed when
// the test ends.
type Place struct {
	T     *testing.T
	Root  string       // contains everything else, and is TMPDIR
	Home  string       // HOME; the agent directory is .pi/agent below it
	Work  string       // the working directory
	Model *ModelServer // serves the models in models.json
	Env   []string     // additional environment variables of its daemons

	history *history.History // of all its daemons; nil without RecordHistory
}

// NewPlace makes an empty home directory and a models.json that points at a fake model server.
func NewPlace(t *testing.T) *Place {
	statSources()
	root := t.TempDir()
	p := &Place{T: t, Root: root, Home: filepath.Join(root, "home"), Work: filepath.Join(root, "work")}
	require.NoError(t, os.MkdirAll(p.AgentDir(), 0o700))
	require.NoError(t, os.MkdirAll(p.Work, 0o700))
	p.Model = newModelServer(t)
	p.WriteModels(p.Model.ModelsJSON())
	return p
}

// NewCompactingPlace makes a home whose settings compact a session after a few messages and retry
// immediately.
func NewCompactingPlace(t *testing.T) *Place {
	p := NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"reserveTokens":1000,"keepRecentTokens":50},"retry":{"baseDelayMs":1,"provider":{"maxRetries":0}}}`)
	return p
}

// AgentDir is the agent directory of its daemons.
func (p *Place) AgentDir() string { return filepath.Join(p.Home, ".pi", "agent") }

// WriteFile writes a file and creates its parent directories. A relative path is relative to the
// working directory.
func (p *Place) WriteFile(path, content string) {
	p.T.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Work, path)
	}
	require.NoError(p.T, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(p.T, os.WriteFile(path, []byte(content), 0o600))
}

// WriteModels replaces models.json.
func (p *Place) WriteModels(content string) {
	p.T.Helper()
	p.WriteFile(filepath.Join(p.AgentDir(), "models.json"), content)
}

// WriteExtension writes an extension in TypeScript and returns its path.
func (p *Place) WriteExtension(name, source string) string {
	p.T.Helper()
	path := filepath.Join(p.Home, name+".ts")
	p.WriteFile(path, source)
	return path
}

// Environ returns the environment of its daemons. The variables of Env come last.
func (p *Place) Environ() []string {
	env := []string{
		"HOME=" + p.Home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + p.Root, "TROUPE_E2E=1",
		"GORACE=atexit_sleep_ms=0", // a race-built daemon would sleep a second at its end
		"GOCOVERDIR=" + coverDir(),
		"GIT_CEILING_DIRECTORIES=" + p.Root, // a repository around TMPDIR is not the test's
	}
	return append(env, p.Env...)
}

// ModelArgs returns arguments that select the fake model, followed by args.
func (p *Place) ModelArgs(args ...string) []string {
	return append([]string{"--provider", "mock", "--model", "mock-1"}, args...)
}

// RunOnce runs the binary until it exits, with a text as its standard input.
func (p *Place) RunOnce(stdin string, args ...string) (stdout, stderr string, code int) {
	p.T.Helper()
	cmd := exec.Command(Binary, args...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		require.NoError(p.T, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Git runs git in the working directory and returns its output.
func (p *Place) Git(args ...string) string {
	p.T.Helper()
	cmd := exec.Command(need.Program(p.T, "git"), append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	out, err := cmd.CombinedOutput()
	require.NoError(p.T, err, "git %v: %s", args, out)
	return string(out)
}
