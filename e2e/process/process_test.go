//go:build linux

package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/sys/unix"

	"troupe/e2e/harness"
	"troupe/e2e/need"
)

// TestProcessSIGPIPE checks that child processes die of SIGPIPE on a broken pipe, as they would in
// a shell.
func TestProcessSIGPIPE(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start()
	assert.Equal(t, "141\n", d.OK(`{"type":"bash","command":"yes | head -1 >/dev/null; echo ${PIPESTATUS[0]}"}`).Get("output").Str)

	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"yes | head -1 >/dev/null; echo ${PIPESTATUS[0]} > status"}`), harness.Text("done"))
	_, errs, code := p.RunOnce("", p.ModelArgs("-p", "go")...)
	require.Zero(t, code, errs)
	status, err := os.ReadFile(filepath.Join(p.Work, "status"))
	require.NoError(t, err)
	assert.Equal(t, "141\n", string(status))
}

// onto runs the binary until it exits, with the given stdout.
func onto(p *harness.Place, stdout *os.File, stdin string, args ...string) (stderr string, code int) {
	p.T.Helper()
	cmd := exec.Command(harness.Binary, args...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = stdout, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); !exited {
		require.NoError(p.T, err)
	}
	return errs.String(), cmd.ProcessState.ExitCode()
}

// TestProcessLostOutput checks that the exit code reports output that could not be written.
func TestProcessLostOutput(t *testing.T) {
	for _, args := range []string{
		"schema", "schema --ts", "schema --md", "--help", "--version", "--list-models", "--export old.jsonl page.html",
		"--provider mock --model mock-1 -p x", "--provider mock --model mock-1 --mode json x", "--mode rpc",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			p.WriteFile("old.jsonl", harness.LongSession(p.Work, 2))
			p.Model.Enqueue(harness.Text("an answer"))
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			require.NoError(t, err)
			defer full.Close()
			stdin := ""
			if args == "--mode rpc" {
				stdin = `{"type":"get_state"}` + "\n"
			}
			errs, code := onto(p, full, stdin, strings.Fields(args)...)
			assert.Equal(t, 1, code)
			assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
			assert.Contains(t, errs, "no space left")
		})
	}
}

// TestProcessReaderGone checks that a run ends silently with exit code 141 when the reader of its
// output is gone.
func TestProcessReaderGone(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("begun").Then(harness.Gate("closed")).Then(harness.Text("more")).Then(harness.Gate("never")).Then(harness.Text("end")))
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary, p.ModelArgs("--mode", "json", "x")...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "session", gjson.Get(line, "type").Str)
	p.Model.Request(0)
	out.Close()
	p.Model.OpenGate("closed")
	var failed *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &failed)
	assert.Equal(t, 141, failed.ExitCode())
	assert.Empty(t, errs.String())

	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	said, code := onto(p, w, "", "--help")
	assert.Equal(t, 141, code)
	assert.Empty(t, said)
}

// TestProcessUnreadStderr checks that a full stderr pipe does not block the daemon.
func TestProcessUnreadStderr(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/settings.json", "{nonsense") // is named on stderr by whoever opens a session
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	filler := fill(t, w)
	cmd := exec.Command("sh", "-c", `exec "$0" --verbose --mode rpc --provider mock --model mock-1 2>&3`, harness.Binary)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = p.Work, p.Environ(), []*os.File{w}
	d := p.StartCmd(cmd)
	w.Close()
	d.OK(`{"type":"get_state"}`)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, d.WaitExit())
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Len(t, rest, filler, "the pipe stayed full to the end")

	_, errs, code := p.RunOnce(`{"type":"get_state"}`+"\n", p.ModelArgs("--mode", "rpc", "--verbose")...)
	require.Zero(t, code)
	assert.Contains(t, errs, "settings.json", "one that is read has it all")
}

// fill writes to a pipe until it is full and returns the number of bytes.
func fill(t *testing.T, w *os.File) (n int) {
	t.Helper()
	raw, err := w.SyscallConn()
	require.NoError(t, err)
	block := bytes.Repeat([]byte("."), 4096)
	require.NoError(t, raw.Write(func(fd uintptr) bool {
		for {
			wrote, err := unix.Write(int(fd), block)
			if errors.Is(err, unix.EAGAIN) {
				return true
			}
			require.NoError(t, err)
			n += wrote
		}
	}))
	return n
}

// container runs the daemon as process 1 of a PID namespace. init is its process id outside of the
// namespace.
func container(t *testing.T, p *harness.Place, args ...string) (d *harness.Daemon, init int) {
	t.Helper()
	unshare, enter := need.Program(t, "unshare"), []string{"-fp", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare, append(enter, "true")...).CombinedOutput(); err != nil {
		need.Missing(t, "namespaces", strings.TrimSpace(string(out)))
	}
	cmd := exec.Command(unshare, append(append(enter, harness.Binary, "--mode", "rpc"), p.ModelArgs(args...)...)...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	d = p.StartCmd(cmd)
	d.OK(`{"type":"get_state"}`)
	pid := strconv.Itoa(cmd.Process.Pid)
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	require.NoError(t, err)
	init, err = strconv.Atoi(strings.TrimSpace(string(children)))
	require.NoError(t, err)
	return d, init
}

// TestProcessInit checks that as process 1 of a container the daemon reaps orphans and exits
// normally on signals.
func TestProcessInit(t *testing.T) {
	t.Run("orphans", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		d, _ := container(t, p)
		d.OK(`{"type":"bash","command":"(true & echo $! > orphan)"}`)
		harness.Eventually(t, "the orphan's end", func() bool {
			return d.OK(`{"type":"bash","command":"test -d /proc/$(cat orphan) || echo gone"}`).Get("output").Str == "gone\n"
		})
		assert.Zero(t, d.Close())
	})
	t.Run("signals", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo $$ > pid; exec sleep 600"}`))
		d, init := container(t, p)
		d.OK(`{"type":"prompt","message":"go"}`)
		harness.WaitPID(t, filepath.Join(p.Work, "pid"))
		require.NoError(t, syscall.Kill(init, syscall.SIGTERM))
		assert.Equal(t, 143, d.WaitExit())
		lines := d.Lines()
		assert.Contains(t, lines[len(lines)-1], `"agent_settled"`)
	})
	t.Run("a wrong command line", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		container(t, p) // skips without namespaces
		cmd := exec.Command("unshare", "-fp", "--mount-proc", "--kill-child", harness.Binary, "--no-such-flag")
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Equal(t, 2, cmd.ProcessState.ExitCode())
		assert.Contains(t, string(out), "--no-such-flag")
	})
}

// keyPlace returns a place with a model whose key is the output of a command.
func keyPlace(t *testing.T, command string) *harness.Place {
	t.Helper()
	p := harness.NewPlace(t)
	models := strings.Replace(p.Model.ModelsJSON(), `"apiKey":"sk-mock"`, `"apiKey":`+strconv.Quote("!"+command), 1)
	p.WriteFile(p.AgentDir()+"/models.json", models)
	return p
}

// TestProcessKeyCommand checks API keys that are the output of a command.
func TestProcessKeyCommand(t *testing.T) {
	t.Run("with something in the background", func(t *testing.T) {
		t.Parallel()
		p := keyPlace(t, "sleep 600 & echo $! > child; setsid sh -c 'echo $$ > daemon; exec sleep 600' & "+
			"until test -s daemon; do :; done; echo nonsense >&2; echo sk-printed")
		p.Model.Enqueue(harness.Text("hi"))
		d := p.Start()
		events := d.Prompt("go")
		assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
		assert.Equal(t, "sk-printed", p.Model.Request(0).Header.Get("X-Api-Key"))
		child := harness.WaitPID(t, filepath.Join(p.Work, "child"))
		harness.Eventually(t, "the end of what outlives the shell", func() bool { return !harness.Alive(child) })
		daemon := harness.WaitPID(t, filepath.Join(p.Work, "daemon"))
		assert.True(t, harness.Alive(daemon), "an agent is to stay")
		require.NoError(t, syscall.Kill(daemon, syscall.SIGKILL))
	})
	t.Run("without an end", func(t *testing.T) {
		t.Parallel()
		p := keyPlace(t, "echo $$ > child; exec yes")
		d := p.Start()
		d.Prompt("go")
		assert.Contains(t, strings.Join(d.Lines(), "\n"), "it printed too much")
		child := harness.WaitPID(t, filepath.Join(p.Work, "child"))
		harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
		assert.Less(t, harness.PeakMemory(t, d.Cmd.Process.Pid), 300<<20)
		left, _ := filepath.Glob(filepath.Join(p.Root, "*.log"))
		assert.Empty(t, left, "keys are not for the disk")
	})
	t.Run("failing", func(t *testing.T) {
		t.Parallel()
		p := keyPlace(t, "echo sk-wrong; exit 3")
		d := p.Start()
		d.Prompt("go")
		assert.Contains(t, strings.Join(d.Lines(), "\n"), "exit status 3")
		assert.Zero(t, p.Model.RequestCount())
	})
	for name, end := range map[string]func(d *harness.Daemon){
		"abort": func(d *harness.Daemon) { d.OK(`{"type":"abort"}`) },
		"EOF":   func(d *harness.Daemon) { d.Stdin.Close() },
		"TERM":  func(d *harness.Daemon) { _ = d.Cmd.Process.Signal(syscall.SIGTERM) },
		"KILL":  func(d *harness.Daemon) { _ = d.Cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := keyPlace(t, "sleep 600 & echo $! > child; wait")
			d := p.Start("--eof", "abort")
			d.Send(`{"type":"prompt","message":"go"}`) // is answered once the key is known
			child := harness.WaitPID(t, filepath.Join(p.Work, "child"))
			end(d)
			harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
		})
	}
}

// TestProcessSignalsTogether checks that several signals at once cause one orderly shutdown.
func TestProcessSignalsTogether(t *testing.T) {
	t.Parallel()
	_, d, child := busy(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		require.NoError(t, d.Cmd.Process.Signal(sig))
	}
	assert.Contains(t, []int{143, 130, 129}, d.WaitExit())
	lines := d.Lines()
	assert.Contains(t, lines[len(lines)-1], `"agent_settled"`, "what was open is closed on the wire")
	harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
}

// TestProcessPicker checks that --resume lists session names without their control characters.
func TestProcessPicker(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"))
	_, errs, code := p.RunOnce("", p.ModelArgs("-p", "\x1b]0;owned\x07\x1b[2Jhello \u009b31m\rworld é")...)
	require.Zero(t, code, errs)
	ours, theirs := terminal(t)
	cmd := exec.Command(harness.Binary, p.ModelArgs("--resume", "-p", "x")...)
	cmd.Dir, cmd.Env, cmd.Stdin = p.Work, p.Environ(), theirs
	var shown strings.Builder
	cmd.Stderr = &shown
	_, err := io.WriteString(ours, "none\n")
	require.NoError(t, err)
	require.Error(t, cmd.Run())
	assert.Contains(t, shown.String(), "\uFFFD]0;owned\uFFFD\uFFFD[2Jhello \uFFFD31m\uFFFDworld é\n")
	assert.Contains(t, shown.String(), "no session was chosen")
}

// terminal opens a pseudo-terminal and returns both ends.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		need.Missing(t, "pseudo-terminals", err.Error())
	}
	t.Cleanup(func() { ours.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// TestProcessAnswerCut checks that a truncated answer is printed and reported on stderr.
func TestProcessAnswerCut(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	cut := harness.Text("half an ans")
	cut.Stop = "length"
	p.Model.Enqueue(cut)
	out, errs, code := p.RunOnce("", p.ModelArgs("-p", "x")...)
	assert.Zero(t, code)
	assert.Equal(t, "half an ans\n", out)
	assert.Contains(t, errs, "output limit")
	assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
}

// TestProcessAttached checks that only files of limited size can be attached.
func TestProcessAttached(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile("huge", "")
	require.NoError(t, os.Truncate(filepath.Join(p.Work, "huge"), 64<<20+1))
	for name, says := range map[string]string{
		"/dev/null": "only a file", "..": "only a file", "huge": "64 MiB",
	} {
		d := p.StartRaw(p.ModelArgs("-p", "@"+name, "x")...)
		assert.Equal(t, 1, d.Close(), name)
		assert.Empty(t, d.Lines())
		assert.Contains(t, d.Stderr(), says)
		assert.Contains(t, d.Stderr(), filepath.Base(filepath.Join(p.Work, name)))
	}
	assert.Zero(t, p.Model.RequestCount())

	p.Model.Enqueue(harness.Text("seen"))
	command := exec.Command(need.Program(t, "bash"), append([]string{"-c", `exec "$0" "$@" @<(echo from a command) x`, harness.Binary}, p.ModelArgs("-p")...)...)
	command.Dir, command.Env = p.Work, p.Environ()
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, p.Model.Request(0).Body, "from a command")
}
