package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func check(t *testing.T, command string) CheckResult { return checkIn(t, newEnv(t), command) }

func checkIn(t *testing.T, env *Env, command string) CheckResult {
	t.Helper()
	return RunCheck(t.Context(), CheckSpec{
		Env: env, Dir: env.Cwd, Vars: []string{"TROUPE_TASK_ID=A"}, Command: command, Log: filepath.Join(env.TempDir, "A.verify.log"),
	})
}

func TestRunCheck(t *testing.T) {
	t.Parallel()
	r := check(t, `echo "$TROUPE_TASK_ID" out; printf '\033[31mred\033[0m\n' >&2; exit 3`)
	require.NoError(t, r.LogErr)
	require.Equal(t, 3, r.ExitCode)
	require.Equal(t, "A out\nred", r.Preview)
	log, err := os.ReadFile(r.Log)
	require.NoError(t, err)
	require.Equal(t, "A out\n\033[31mred\033[0m\n", string(log))

	r = check(t, "true")
	require.Zero(t, r.ExitCode)
	require.Empty(t, r.Log, "no output, no file")

	require.Equal(t, 127, check(t, "there-is-no-such-program").ExitCode)
}

// A check that takes too long is ended with all that it started.
func TestRunCheckTimesOut(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	pipe := filepath.Join(env.Cwd, "begun")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	env.after = func(d time.Duration) <-chan time.Time {
		if d != checkTime {
			return time.After(d)
		}
		over := make(chan time.Time, 1)
		go func() {
			os.ReadFile(pipe) // until the command has begun
			over <- time.Time{}
		}()
		return over
	}
	r := checkIn(t, env, "echo begins; sleep 100 & echo > begun; sleep 100")
	require.True(t, r.TimedOut)
	require.Equal(t, 124, r.ExitCode)
	require.Equal(t, "begins", r.Preview)
}

func TestRunCheckIsCancelled(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	pipe := filepath.Join(env.Cwd, "begun")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	go func() {
		os.ReadFile(pipe) // until the command has begun
		cancel()
	}()
	r := RunCheck(ctx, CheckSpec{Env: env, Dir: env.Cwd, Command: "echo > begun; sleep 100"})
	require.True(t, r.Cancelled)
	require.Equal(t, 130, r.ExitCode)
}

// A check whose directory is gone could not be started.
func TestRunCheckCannotStart(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	r := RunCheck(t.Context(), CheckSpec{Env: env, Dir: filepath.Join(env.Cwd, "gone"), Command: "true", Log: filepath.Join(env.TempDir, "log")})
	require.Equal(t, 127, r.ExitCode)
	require.Contains(t, r.Preview, "working directory does not exist")
	require.FileExists(t, r.Log)
}

// The preview is the last lines, and not too long.
func TestCheckPreview(t *testing.T) {
	t.Parallel()
	r := check(t, "seq 1 100")
	require.True(t, strings.HasPrefix(r.Preview, "81\n"), r.Preview)
	require.True(t, strings.HasSuffix(r.Preview, "\n100"), r.Preview)
	r = check(t, "for i in $(seq 1 30); do printf 'ä%.0s' $(seq 1 300); echo; done")
	require.LessOrEqual(t, len(r.Preview), previewBytes)
	require.True(t, strings.HasPrefix(r.Preview, "ä"))
}

// Of a long output the beginning and the end are kept, in order.
func TestCheckLogLeavesOutTheMiddle(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{0, 1, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 100, 104} {
		l := checkLog{name: filepath.Join(t.TempDir(), "log"), part: 50}
		var all strings.Builder
		for i := range lines {
			line := fmt.Sprintf("line %04d\n", i) // 10 bytes
			all.WriteString(line)
			l.Write([]byte(line[:i%10]))
			l.Write([]byte(line[i%10:]))
		}
		name, err := l.finish()
		require.NoError(t, err)
		if lines == 0 {
			require.Empty(t, name)
			continue
		}
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		want := all.String()
		if len(want) > 100 {
			want = want[:50] + fmt.Sprintf("\n[%d bytes are left out]\n", len(want)-100) + want[len(want)-50:]
		}
		require.Equal(t, want, string(got), lines)
		left, err := os.ReadDir(filepath.Dir(name))
		require.NoError(t, err)
		require.Len(t, left, 1)
	}
}

// A log that cannot be written is named; the check counts.
func TestCheckLogCannotBeWritten(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	r := RunCheck(t.Context(), CheckSpec{Env: env, Dir: env.Cwd, Command: "echo x", Log: filepath.Join(env.Cwd, "none/log")})
	require.Zero(t, r.ExitCode)
	require.Empty(t, r.Log)
	require.Error(t, r.LogErr)
	require.Equal(t, "x", r.Preview)
}
