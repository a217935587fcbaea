package tools

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func execIn(t testing.TB, env *Env, command string) ExecResult {
	t.Helper()
	res, err := Exec(t.Context(), ExecSpec{Env: env, Command: command})
	require.NoError(t, err)
	return res
}

// cancelOnOutput returns a context and a spec that cancels it with the first
// output of the command.
func cancelOnOutput(t testing.TB, env *Env, command string) (context.Context, ExecSpec) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, ExecSpec{Env: env, Command: command, Progress: func(ExecProgress) { cancel() }}
}

func TestExecEnds(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for command, want := range map[string]ExecResult{
		"true":                          {},
		"echo hi; echo err >&2; exit 3": {Output: wholeOf("hi\nerr\n", MaxLines, MaxBytes), ExitCode: 3},
		"kill -9 $$":                    {ExitCode: 137, Signal: "killed"},
		"kill -SEGV $$":                 {ExitCode: 139, Signal: "segmentation fault"},
		"sh -c 'kill -9 $$'":            {ExitCode: 137},
		"printf x":                      {Output: wholeOf("x", MaxLines, MaxBytes)},
		"kill 0":                        {ExitCode: 143, Signal: "terminated"},
		"kill -- -$$":                   {ExitCode: 143, Signal: "terminated"},
		"echo a; exec 1>&- 2>&-; exit":  {Output: wholeOf("a\n", MaxLines, MaxBytes)},
	} {
		if want.Output.MaxLines == 0 {
			want.Output = wholeOf("", MaxLines, MaxBytes)
		}
		got := execIn(t, env, command)
		if command == "sh -c 'kill -9 $$'" { // the shell may say something or exec
			got.Output, got.Signal = want.Output, want.Signal
		}
		assert.Equal(t, want, got, command)
	}
}

func TestExecKeepsTheOrderOfStdoutAndStderr(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintf(&want, "out%d\nerr%d\n", i, i)
	}
	res := execIn(t, newEnv(t), "for ((i=0;i<200;i++)); do echo out$i; echo err$i >&2; done")
	assert.Equal(t, want.String(), res.Output.Content)
}

func TestExecStdinIsEmpty(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	assert.Equal(t, wholeOf("end\n", MaxLines, MaxBytes), execIn(t, env, "cat; echo end").Output)
	assert.Equal(t, wholeOf("no terminal\n", MaxLines, MaxBytes), execIn(t, env, "{ : >/dev/tty; } 2>/dev/null || echo no terminal").Output)
}

func TestExecEnvironment(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Environ = []string{"PATH=" + os.Getenv("PATH"), "A=1", "A=2"}
	env.ShellPrefix = "B=prefix"
	out := execIn(t, env, "env | grep -v -e ^_= -e ^PWD= -e ^SHLVL= -e ^OLDPWD= -e ^PATH= | sed 's/^"+markKey+"=.*/mark/' | sort; echo $B; pwd").Output.Content
	assert.Equal(t, "A=2\nmark\nprefix\n"+env.Cwd+"\n", out)
}

func TestExecThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Env)
		text   string
	}{
		"cwd gone":      {func(e *Env) { e.Cwd = filepath.Join(e.Cwd, "gone") }, "working directory does not exist: "},
		"cwd a file":    {func(e *Env) { e.Cwd = put(t, e, "f", "") }, "working directory is not a directory: "},
		"cwd in a file": {func(e *Env) { e.Cwd = put(t, e, "f", "") + "/x" }, "working directory cannot be used: ENOTDIR: "},
		"no shell":      {func(e *Env) { e.Shell = "/does/not/exist" }, "shell not found: ENOENT: no such file or directory, stat '/does/not/exist'"},
		"not a shell":   {func(e *Env) { e.Shell = put(t, e, "sh", "") }, "start the shell: "},
		"closing":       {func(e *Env) { e.Procs.KillAll(0) }, "the session is closing"},
	} {
		env := newEnv(t)
		c.change(env)
		_, err := Exec(t.Context(), ExecSpec{Env: env, Command: "true"})
		assert.ErrorContains(t, err, c.text, name)
	}
	env := newEnv(t)
	_, err := Exec(t.Context(), ExecSpec{Env: env, Command: "echo \x00"})
	assert.ErrorContains(t, err, "NUL")
	_, err = Exec(t.Context(), ExecSpec{Env: env, Command: "# " + strings.Repeat("x", 4<<20)})
	assert.ErrorContains(t, err, "too long")
}

func TestExecInADirectoryThatIsRemoved(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Cwd = filepath.Join(env.Cwd, "sub")
	require.NoError(t, os.Mkdir(env.Cwd, 0o777))
	assert.Equal(t, 0, execIn(t, env, "rmdir ../sub").ExitCode)
	_, err := Exec(t.Context(), ExecSpec{Env: env, Command: "true"})
	assert.ErrorContains(t, err, "working directory does not exist")
}

func TestExecFindsAShell(t *testing.T) {
	dir := t.TempDir()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(sh, filepath.Join(dir, "bash")))
	env := newEnv(t)
	env.Shell = filepath.Join(dir, "bash")
	assert.Equal(t, env.Shell+"\n", execIn(t, env, "echo $0").Output.Content)
	env.Shell = ""
	path, err := env.findShell()
	require.NoError(t, err)
	if _, err := os.Stat("/bin/bash"); err == nil {
		assert.Equal(t, "/bin/bash", path)
	}
}

// A command that is in the background when its shell ends does not hold the
// result back and lives on, until the session ends.
func TestExecLeavesTheBackgroundAlone(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"holds the pipe":     "sleep 300 & echo $!",
		"holds nothing":      "sleep 300 >/dev/null 2>&1 & echo $!",
		"nohup":              "nohup sleep 300 >/dev/null 2>&1 & echo $!",
		"own session":        "setsid sleep 300 & echo $!",
		"double fork":        "(sleep 300 & echo $!)",
		"daemon":             "setsid sh -c 'setsid sleep 300 >/dev/null 2>&1 & echo $!'",
		"without enviroment": "env -i sleep 300 & echo $!",
		"ignores TERM":       "sh -c 'trap \"\" TERM; exec sleep 300' & echo $!",
		"job control":        "set -m; sleep 300 & echo $!",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t)
			res := execIn(t, env, command)
			require.Equal(t, 0, res.ExitCode)
			p := watchProcess(t, res.Output.Content)
			assert.True(t, p.alive())
			env.Procs.KillAll(50 * time.Millisecond)
			p.waitEnd()
		})
	}
}

// One that goes on writing neither blocks nor dies of SIGPIPE.
func TestExecReadsOnForTheBackground(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	fifo := filepath.Join(env.Cwd, "fifo")
	execIn(t, env, "mkfifo fifo; { head -c 1000000 /dev/zero; echo done >fifo; sleep 300; } & echo $! >pid")
	p := watchProcess(t, get(t, env, "pid"))
	content, err := os.ReadFile(fifo) // blocks until a megabyte went through the pipe
	require.NoError(t, err)
	assert.Equal(t, "done\n", string(content))
	assert.True(t, p.alive())
	env.Procs.KillAll(0)
	p.waitEnd()
}

func TestExecKillGroup(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	res, err := Exec(t.Context(), ExecSpec{Env: env, Command: "setsid sleep 300 & echo $!; sleep 300 & echo $!; exit 4", KillGroup: true})
	require.NoError(t, err)
	assert.Equal(t, 4, res.ExitCode)
	assert.False(t, res.Cancelled)
	for pid := range strings.Lines(res.Output.Content) {
		watchProcess(t, pid).waitEnd()
	}
	assert.Empty(t, env.Procs.live)
}

// What leaves its process group and drops its environment is not found. It
// must not hold up the end of the session.
func TestKillAllGivesUpOnWhatHides(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	p := watchProcess(t, execIn(t, env, "setsid env -i sleep 300 & echo $!").Output.Content)
	assert.Len(t, env.Procs.held, 1)
	env.Procs.KillAll(50 * time.Millisecond)
	assert.Empty(t, env.Procs.held)
	assert.True(t, p.alive())
	p.kill()
}

// A shell that hangs in the kernel is given up after SIGKILL.
func TestStatusOfAShellThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	res := ExecResult{TimedOut: true}
	require.NoError(t, (&group{}).status(&res))
	assert.Equal(t, ExecResult{TimedOut: true, ExitCode: 137, Signal: "killed"}, res)
	lost := &group{exited: make(chan struct{}), err: os.ErrInvalid}
	close(lost.exited)
	assert.ErrorIs(t, lost.status(&res), os.ErrInvalid)
}

func TestExecWithoutProcsForgetsTheBackground(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Procs = nil
	p := watchProcess(t, execIn(t, env, "sleep 300 & echo $!").Output.Content)
	assert.True(t, p.alive())
	p.kill()
}

// A process substitution that is a little slower than the shell is not lost.
func TestExecWaitsForTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.after = func(d time.Duration) <-chan time.Time {
		assert.Equal(t, drainTime, d)
		return nil // as long as a busy machine takes
	}
	res := execIn(t, env, "echo hi > >(read x; sleep 0.02; echo got $x)")
	assert.Equal(t, "got hi\n", res.Output.Content)
}

func TestExecCancel(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"plain":        "echo $BASHPID; sleep 300",
		"list":         "echo $BASHPID; sleep 300; touch X",
		"pipe":         "echo $BASHPID; sleep 300 | cat; touch X",
		"subshell":     "(echo $BASHPID; sleep 300; touch X); touch X",
		"substitution": "echo $BASHPID; x=$(sleep 300); touch X",
		"background":   "sleep 300 & echo $!; sleep 300; touch X",
		"session":      "setsid sleep 300 & echo $!; sleep 300; touch X",
		"in front":     "setsid -w sh -c 'echo $$; sleep 300; touch X'; touch X",
		"ignores TERM": "trap '' TERM; echo $BASHPID; sleep 300; touch X",
		"child does":   "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 300; done'; touch X",
		"stopped":      "echo $BASHPID; kill -STOP $BASHPID; touch X",
		"busy":         "echo $BASHPID; while :; do :; done",
		"job control":  "set -m; sleep 300 & echo $!; sleep 300; touch X",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t)
			env.Grace = 100 * time.Millisecond
			ctx, spec := cancelOnOutput(t, env, command)
			res, err := Exec(ctx, spec)
			require.NoError(t, err)
			assert.True(t, res.Cancelled)
			assert.False(t, res.TimedOut)
			watchProcess(t, res.Output.Content).waitEnd() // on its way out, if not gone
			assert.NoFileExists(t, filepath.Join(env.Cwd, "X"))
			assert.Empty(t, env.Procs.live, "nothing is left to remember")
		})
	}
}

func TestExecTrapRunsBeforeTheEnd(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Grace = time.Minute
	ctx, spec := cancelOnOutput(t, env, "trap 'echo cleaned; exit 0' TERM; echo go; while :; do sleep 0.01; done")
	res, err := Exec(ctx, spec)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(res.Output.Content, "cleaned\n"), res.Output.Content)
	assert.True(t, res.Cancelled, "an abort is one even if the command says 0")
	assert.Nil(t, res.BashResult().ExitCode)
}

var aborts = flag.Int("tools.aborts", 40, "how many commands TestExecCancelNeverRunsTheRest aborts")

// The second command of a list must not run because the first was killed.
func TestExecCancelNeverRunsTheRest(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for i := range *aborts {
		ctx, spec := cancelOnOutput(t, env, "echo go; sleep 9; touch X")
		if i%2 == 0 { // somewhere in the start of the shell, which takes a few milliseconds
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i%16)*500*time.Microsecond)
			t.Cleanup(cancel)
		}
		res, err := Exec(ctx, spec)
		require.NoError(t, err)
		require.True(t, res.Cancelled)
		require.NoFileExists(t, filepath.Join(env.Cwd, "X"), "after %d", i)
	}
}

func TestExecTimeout(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	over := make(chan time.Time)
	expire := sync.OnceFunc(func() { close(over) })
	env.after = func(d time.Duration) <-chan time.Time {
		if d == time.Hour {
			return over
		}
		return time.After(d)
	}
	res, err := Exec(t.Context(), ExecSpec{
		Env: env, Command: "echo $$; sleep 300; touch X", Timeout: time.Hour,
		Progress: func(ExecProgress) { expire() },
	})
	require.NoError(t, err)
	assert.True(t, res.TimedOut, "%+v", res)
	assert.False(t, res.Cancelled)
	watchProcess(t, res.Output.Content).waitEnd()
	assert.NoFileExists(t, filepath.Join(env.Cwd, "X"))
}

// Without a clock of a test the time of a command is that of the machine.
func TestExecExpiry(t *testing.T) {
	t.Parallel()
	spec := ExecSpec{Env: newEnv(t)}
	assert.Nil(t, spec.expiry(), "no limit")
	spec.Timeout = time.Millisecond
	<-spec.expiry()
}

func TestExecCancelledBefore(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err := Exec(ctx, ExecSpec{Env: env, Command: "touch X"})
	require.NoError(t, err)
	assert.True(t, res.Cancelled)
	assert.NoFileExists(t, filepath.Join(env.Cwd, "X"))
}

// What comes after the end of the shell does not change how it ended.
func TestExecEndedFirst(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := &group{exited: make(chan struct{})}
	close(g.exited)
	expired := make(chan time.Time)
	close(expired)
	for range 100 {
		require.Equal(t, exited, g.await(ctx, expired))
	}
	assert.Equal(t, cancelled, (&group{}).await(ctx, nil))
	assert.Equal(t, timedOut, (&group{}).await(t.Context(), expired))
}

// A cancel while only the background holds the output ends the wait for that.
func TestExecCancelWhileDraining(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	p := newPump(&ExecSpec{Env: env}, r)
	go p.run()
	cancel()
	assert.True(t, p.drain(ctx, false))
	<-p.done
}

func TestExecProgress(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []ExecProgress
	over := false
	start := time.Now()
	env := newEnv(t)
	pipe := filepath.Join(env.Cwd, "seen")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	res, err := Exec(t.Context(), ExecSpec{Env: env, Command: "echo one; read x <seen; seq 1 30000",
		Progress: func(p ExecProgress) {
			mu.Lock()
			defer mu.Unlock()
			assert.False(t, over, "after the end")
			if seen = append(seen, p); len(seen) == 1 {
				assert.NoError(t, os.WriteFile(pipe, []byte("x\n"), 0))
			}
		}})
	mu.Lock()
	over = true
	mu.Unlock()
	require.NoError(t, err)
	require.NotEmpty(t, seen)
	assert.LessOrEqual(t, len(seen), int(time.Since(start)/progressEvery)+2)
	assert.Equal(t, ExecProgress{wholeOf("one\n", MaxLines, MaxBytes), ""}, seen[0], "at once")
	last := seen[len(seen)-1]
	assert.Equal(t, res.Output, last.Output)
	assert.Equal(t, res.FullOutputPath, last.FullOutputPath)
	for i := 1; i < len(seen); i++ {
		assert.Greater(t, seen[i].Output.TotalBytes, seen[i-1].Output.TotalBytes, "only if there is more")
	}
}

// Output that came while the last was shown is shown later, without new output
// to set it off.
func TestExecProgressCatchesUp(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := Exec(ctx, ExecSpec{Env: env, Command: "echo one; sleep 0.02; echo two; sleep 300", Progress: func(p ExecProgress) {
		if strings.Contains(p.Output.Content, "two") {
			cancel()
		}
	}})
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", res.Output.Content)
}

func TestExecDelta(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"printf '\\033[1mone\\033[0m\\r\\n'; sleep 0.15; printf 'two\\342'; sleep 0.01; printf '\\202\\254\\n\\342\\202'",
		"seq 1 100000",
		"true",
	} {
		var all strings.Builder
		res, err := Exec(t.Context(), ExecSpec{Env: newEnv(t), Command: command, Sanitize: true,
			Delta: func(s string) {
				assert.NotEmpty(t, s)
				all.WriteString(s)
			}})
		require.NoError(t, err)
		assert.Equal(t, res.Output.TotalBytes, int64(all.Len()))
		assert.Equal(t, truncateTail(all.String()), res.Output)
	}
}

func TestExecSanitizes(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	const command = `printf '\033[31mred\033[0m\r\nline2\n\001\002ok\377\n'`
	res, err := Exec(t.Context(), ExecSpec{Env: env, Command: command, Sanitize: true})
	require.NoError(t, err)
	assert.Equal(t, "red\nline2\nok\uFFFD\n", res.Output.Content)
	assert.Equal(t, "\x1b[31mred\x1b[0m\r\nline2\n\x01\x02ok\uFFFD\n", execIn(t, env, command).Output.Content)
}

func TestExecTruncation(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, c := range map[string]struct{ command, by, first, last string }{
		"lines":    {"seq 1 2500", byLines, "501\n", "\n2500"},
		"bytes":    {"for i in $(seq 1 1500); do printf '%0100d\\n' $i; done", byBytes, fmt.Sprintf("%0100d\n", 995), fmt.Sprintf("\n%0100d", 1500)},
		"one line": {"head -c 120000 /dev/zero | tr '\\0' z", byBytes, strings.Repeat("z", 51200), "z"},
	} {
		for _, sanitize := range []bool{false, true} {
			res, err := Exec(t.Context(), ExecSpec{Env: env, Command: c.command, Sanitize: sanitize})
			require.NoError(t, err)
			assert.True(t, res.Output.Truncated)
			assert.Equal(t, c.by, res.Output.TruncatedBy, name)
			assert.True(t, strings.HasPrefix(res.Output.Content, c.first), name)
			assert.True(t, strings.HasSuffix(res.Output.Content, c.last), name)
			assert.Equal(t, name == "one line", res.Output.LastLinePartial)
			content, err := os.ReadFile(res.FullOutputPath)
			require.NoError(t, err)
			assert.Equal(t, env.TempDir, filepath.Dir(res.FullOutputPath))
			assert.Equal(t, truncateTail(string(content)), res.Output, name)
			bash := res.BashResult()
			assert.Equal(t, res.FullOutputPath, bash.FullOutputPath)
			assert.True(t, bash.Truncated)
			require.NotNil(t, bash.ExitCode)
			assert.Zero(t, *bash.ExitCode)
		}
	}
}

// Output that waits in the pipe while the client is slow is not lost when the
// pump has to stop because somebody else holds the pipe.
func TestPumpStopsWithWhatIsThere(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	shown, goOn := make(chan bool, 1), make(chan bool)
	p := newPump(&ExecSpec{Env: newEnv(t), Progress: func(p ExecProgress) {
		if p.Output.Content == "first\n" {
			shown <- true
			<-goOn
		}
	}}, r)
	go p.run()
	_, err = w.WriteString("first\n")
	require.NoError(t, err)
	<-shown
	_, err = w.WriteString("second\n")
	require.NoError(t, err)
	p.stopped.Store(true)
	r.SetReadDeadline(past)
	close(goOn)
	<-p.done
	assert.Equal(t, "first\nsecond\n", p.out.truncation(true).Content)
}

func TestExecManyAtOnce(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			res, err := Exec(t.Context(), ExecSpec{Env: env, Command: fmt.Sprintf("echo %d; exit %d", i, i)})
			assert.NoError(t, err)
			assert.Equal(t, i, res.ExitCode)
			assert.Equal(t, fmt.Sprintf("%d\n", i), res.Output.Content)
		})
	}
	all.Wait()
	assert.Empty(t, env.Procs.live)
}

func TestKillAllEndsRunningCommands(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	started := make(chan bool, 1)
	ended := make(chan ExecResult, 1)
	go func() {
		res, err := Exec(context.WithoutCancel(t.Context()), ExecSpec{Env: env, Command: "echo go; sleep 300; touch X",
			Progress: func(ExecProgress) {
				select {
				case started <- true:
				default:
				}
			}})
		assert.NoError(t, err)
		ended <- res
	}()
	<-started
	env.Procs.KillAll(0)
	assert.Equal(t, 143, (<-ended).ExitCode)
	assert.NoFileExists(t, filepath.Join(env.Cwd, "X"))
	env.Procs.KillAll(0) // once more does no harm
}

// Sessions are separate: ending one leaves the other's processes alone.
func TestKillAllIsAboutOneSession(t *testing.T) {
	t.Parallel()
	a, b := newEnv(t), newEnv(t)
	pa := watchProcess(t, execIn(t, a, "setsid sleep 300 >/dev/null 2>&1 & echo $!").Output.Content)
	pb := watchProcess(t, execIn(t, b, "setsid sleep 300 >/dev/null 2>&1 & echo $!").Output.Content)
	a.Procs.KillAll(0)
	pa.waitEnd()
	assert.True(t, pb.alive())
}

func TestExecFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full on this system")
	}
	t.Parallel()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	// A name that is not /dev/full's: the output removes the file it fails on.
	fd, err := syscall.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	o := output{file: &logFile{File: os.NewFile(uintptr(fd), filepath.Join(t.TempDir(), "x"))}}
	text := strings.Repeat("line\n", 3000)
	for chunk := range bytesChunks([]byte(text), 100) {
		o.write(chunk)
	}
	got, path := o.finish()
	assert.Empty(t, path)
	assert.Error(t, o.err)
	assert.Equal(t, truncateTail(text), got)
	res := ExecResult{Output: got, FullOutputErr: errors.New("disk full")}
	assert.Equal(t, []string{"Showing lines 1001-3000 of 3000", "The full output could not be saved: disk full"}, outputNotice(res))
}

func BenchmarkExec(b *testing.B) {
	env := newEnv(b)
	b.Run("true", func(b *testing.B) {
		for b.Loop() {
			execIn(b, env, "true")
		}
	})
	for _, sanitize := range []bool{false, true} {
		b.Run(fmt.Sprintf("100MB/sanitize=%v", sanitize), func(b *testing.B) {
			b.SetBytes(100_000_000)
			for b.Loop() {
				res, err := Exec(b.Context(), ExecSpec{Env: env, Command: "yes 'a line of output' | head -c 100000000", Sanitize: sanitize})
				if err != nil || res.Output.TotalBytes != 100_000_000 {
					b.Fatal(res.Output.TotalBytes, err)
				}
				os.Remove(res.FullOutputPath)
			}
		})
	}
	b.Run("100MB/copy", func(b *testing.B) { // what it is compared with
		b.SetBytes(100_000_000)
		for b.Loop() {
			var out bytes.Buffer
			cmd := exec.Command("bash", "-c", "yes 'a line of output' | head -c 100000000 | cat >"+filepath.Join(env.Cwd, "copy"))
			cmd.Stdout = &out
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
