package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestAbortEndsTheChild checks that abort and close_session end the child processes while the
// daemon keeps running.
func TestAbortEndsTheChild(t *testing.T) {
	for _, how := range []string{`{"type":"abort"}`, `{"type":"close_session","sessionId":"s1"}`} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			_, d, child := busy(t)
			d.OK(how)
			harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
		})
	}
}

// busy starts a tool call with a child process and returns the child's pid.
func busy(t *testing.T) (*harness.Place, *harness.Daemon, int) {
	t.Helper()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo $$ > pid; sleep 600 & echo $! > child; wait"}`))
	d := p.Start()
	d.OK(`{"type":"prompt","message":"go"}`)
	d.Event("tool_execution_start")
	return p, d, harness.WaitPID(t, filepath.Join(p.Work, "child"))
}

func TestSignals(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			p, d, child := busy(t)
			require.NoError(t, d.Cmd.Process.Signal(sig))
			assert.Equal(t, code, d.WaitExit())
			harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
			lines := d.Lines()
			assert.Contains(t, lines[len(lines)-1], `"agent_settled"`, "what was open is closed on the wire")
			files, _ := filepath.Glob(filepath.Join(p.AgentDir(), "sessions", "*", "*.jsonl"))
			require.Len(t, files, 1)
			entries := harness.ReadEntries(t, files[0])
			results := 0
			for _, e := range entries {
				if e.Get("message.toolCallId").Str == "c1" {
					results++
				}
			}
			assert.Equal(t, 1, results, "every tool call has one result")
		})
	}
}

// TestSignalWithEOF checks that a signal together with the end of stdin causes one shutdown.
func TestSignalWithEOF(t *testing.T) {
	t.Parallel()
	_, d, child := busy(t)
	d.Stdin.Close()
	require.NoError(t, d.Cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, d.WaitExit())
	harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
	n := 0
	for _, l := range d.Lines() {
		if gjson.Get(l, "type").Str == "agent_settled" {
			n++
		}
	}
	assert.Equal(t, 1, n)
}

// TestSecondSignal checks that a second signal kills a child that ignores the first.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 600; done"}`))
	d := p.Start()
	d.OK(`{"type":"prompt","message":"go"}`)
	child := harness.WaitPID(t, filepath.Join(p.Work, "pid"))
	require.NoError(t, d.Cmd.Process.Signal(syscall.SIGTERM))
	harness.Eventually(t, "an exit on the second signal", func() bool {
		_ = d.Cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-d.Exited:
			return true
		default:
			return false
		}
	})
	assert.Equal(t, 143, d.WaitExit())
	harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
}

func TestEOF(t *testing.T) {
	t.Run("drains the run", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.Gate("go").Then(harness.Text("finished")))
		d := p.Start()
		d.Send(`{"id":"1","type":"prompt","message":"go"}`)
		p.Model.Request(0)
		d.Stdin.Close()
		p.Model.OpenGate("go")
		assert.Equal(t, 0, d.WaitExit())
		assert.Contains(t, strings.Join(d.Lines(), "\n"), `"outcome":"completed"`)
	})
	t.Run("aborts it if asked", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.Gate("never").Then(harness.Text("finished")))
		d := p.Start("--eof", "abort")
		d.Send(`{"id":"1","type":"prompt","message":"go"}`)
		p.Model.Request(0)
		assert.Equal(t, 0, d.Close())
		assert.Contains(t, strings.Join(d.Lines(), "\n"), `"outcome":"aborted"`)
	})
	t.Run("asks nobody any more", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.ToolCall("c1", "look", `{}`), harness.ToolCall("c2", "bash", `{"command":"echo no > done"}`), harness.Text("finished"))
		d := p.Start("--confirm", "look,bash")
		d.OK(`{"type":"set_host_tools","tools":[{"name":"look"}]}`)
		d.OK(`{"type":"prompt","message":"go"}`)
		request := d.Event("extension_ui_request")
		d.Send(`{"type":"extension_ui_response","id":"` + request.Get("id").Str + `","confirmed":true}`)
		d.Event("host_tool_call")
		assert.Equal(t, 0, d.Close())
		assert.Contains(t, strings.Join(d.Lines(), "\n"), `"outcome":"completed"`)
		assert.NoFileExists(t, filepath.Join(p.Work, "done"), "silence is no consent")
	})
	t.Run("within a bound", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.Gate("never").Then(harness.Text("finished")))
		d := p.Start("--eof", "drain", "--eof-limit", "50ms")
		d.Send(`{"id":"1","type":"prompt","message":"go"}`)
		p.Model.Request(0)
		assert.Equal(t, 0, d.Close())
		assert.Contains(t, strings.Join(d.Lines(), "\n"), `"outcome":"aborted"`)
	})
}

// TestBrokenPipe checks that the process and its children end when its stdout is closed.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo $$ > pid; exec sleep 600"}`))
	cmd := exec.Command(harness.Binary, "--mode", "rpc", "--provider", "mock", "--model", "mock-1")
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	io.WriteString(in, `{"type":"prompt","message":"go"}`+"\n")
	child := harness.WaitPID(t, filepath.Join(p.Work, "pid"))
	r.Close()
	io.WriteString(in, `{"type":"get_state"}`+"\n")
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(harness.Patience):
		cmd.Process.Kill()
		t.Fatal("it goes on after EPIPE")
	}
	harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
}

// TestParentDeath checks that the process ends when its parent is killed, even if another process
// keeps its pipes open.
func TestParentDeath(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo $$ > pid; exec sleep 600"}`))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	parent := exec.Command("sh", "-c", `"$0" --mode rpc --provider mock --model mock-1 & echo $! > "$1"; wait`, harness.Binary, filepath.Join(p.Root, "troupe.pid"))
	parent.Dir, parent.Env = p.Work, p.Environ()
	parent.Stdin = r
	// A shell gives a background job /dev/null for stdin; fd 3 is the pipe.
	parent.ExtraFiles = []*os.File{r}
	parent.Args[2] = strings.Replace(parent.Args[2], " &", " <&3 &", 1)
	require.NoError(t, parent.Start())
	r.Close()
	pid := harness.WaitPID(t, filepath.Join(p.Root, "troupe.pid"))
	io.WriteString(w, `{"type":"prompt","message":"go"}`+"\n")
	child := harness.WaitPID(t, filepath.Join(p.Work, "pid"))
	require.True(t, harness.Alive(pid))
	parent.Process.Kill()
	_ = parent.Wait()
	harness.Eventually(t, "troupe's end", func() bool { return !harness.Alive(pid) })
	harness.Eventually(t, "the child's end", func() bool { return !harness.Alive(child) })
}

// TestSignalWhileNobodyReads checks that a single run ends with the first signal even if nothing
// reads its output.
func TestSignalWhileNobodyReads(t *testing.T) {
	t.Parallel()
	for _, mode := range [][]string{{"-p"}, {"--mode", "json"}} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
			t.Run(fmt.Sprint(mode, sig), func(t *testing.T) {
				t.Parallel()
				p := harness.NewPlace(t)
				p.Model.Enqueue(harness.Text(strings.Repeat("many words ", 100_000)))
				cmd := exec.Command(harness.Binary, append(p.ModelArgs("go on"), mode...)...)
				cmd.Dir, cmd.Env = p.Work, p.Environ()
				out, err := cmd.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				_, err = io.ReadFull(out, make([]byte, 8<<10)) // the start of the answer
				require.NoError(t, err)
				require.NoError(t, cmd.Process.Signal(sig))
				state, err := cmd.Process.Wait()
				require.NoError(t, err)
				assert.Equal(t, code, state.ExitCode())
			})
		}
	}
}
