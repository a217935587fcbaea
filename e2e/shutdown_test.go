package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// busy has a tool call running a child whose pid is in a file.
func busy(t *testing.T) (*place, *daemon, int) {
	t.Helper()
	p := newPlace(t)
	p.llm.plays(tool("c1", "bash", `{"command":"echo $$ > pid; sleep 600 & echo $! > child; wait"}`))
	d := p.start()
	d.ok(`{"type":"prompt","message":"go"}`)
	d.event("tool_execution_start")
	return p, d, pidIn(t, filepath.Join(p.work, "child"))
}

// pidIn waits for a file with a process id.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, "a pid in "+path, func() bool {
		raw, _ := os.ReadFile(path)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		return pid > 0
	})
	return pid
}

// eventually polls what another process does and nothing announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within %v", what, patience)
}

func alive(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestSignals(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			p, d, child := busy(t)
			require.NoError(t, d.cmd.Process.Signal(sig))
			assert.Equal(t, code, d.exit())
			eventually(t, "the child's end", func() bool { return !alive(child) })
			lines := d.output()
			assert.Contains(t, lines[len(lines)-1], `"agent_settled"`, "what was open is closed on the wire")
			files, _ := filepath.Glob(filepath.Join(p.agent(), "sessions", "*", "*.jsonl"))
			require.Len(t, files, 1)
			entries := readEntries(t, files[0])
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

// TestSignalWithEOF: shutdown runs once when both come together.
func TestSignalWithEOF(t *testing.T) {
	t.Parallel()
	_, d, child := busy(t)
	d.stdin.Close()
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, d.exit())
	eventually(t, "the child's end", func() bool { return !alive(child) })
	n := 0
	for _, l := range d.output() {
		if gjson.Get(l, "type").Str == "agent_settled" {
			n++
		}
	}
	assert.Equal(t, 1, n)
}

// TestSecondSignal ends at once what refuses to end.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(tool("c1", "bash", `{"command":"trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 600; done"}`))
	d := p.start()
	d.ok(`{"type":"prompt","message":"go"}`)
	child := pidIn(t, filepath.Join(p.work, "pid"))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "an exit on the second signal", func() bool {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-d.exited:
			return true
		default:
			return false
		}
	})
	assert.Equal(t, 143, d.exit())
	eventually(t, "the child's end", func() bool { return !alive(child) })
}

func TestEOF(t *testing.T) {
	t.Run("drains the run", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.llm.plays(gate("go").and(text("finished")))
		d := p.start()
		d.send(`{"id":"1","type":"prompt","message":"go"}`)
		p.llm.request(0)
		d.stdin.Close()
		p.llm.open("go")
		assert.Equal(t, 0, d.exit())
		assert.Contains(t, strings.Join(d.output(), "\n"), `"outcome":"completed"`)
	})
	t.Run("aborts it if asked", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.llm.plays(gate("never").and(text("finished")))
		d := p.start("--eof", "abort")
		d.send(`{"id":"1","type":"prompt","message":"go"}`)
		p.llm.request(0)
		assert.Equal(t, 0, d.end())
		assert.Contains(t, strings.Join(d.output(), "\n"), `"outcome":"aborted"`)
	})
	t.Run("asks nobody any more", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.llm.plays(tool("c1", "look", `{}`), tool("c2", "bash", `{"command":"echo no > done"}`), text("finished"))
		d := p.start("--confirm", "look,bash")
		d.ok(`{"type":"set_host_tools","tools":[{"name":"look"}]}`)
		d.ok(`{"type":"prompt","message":"go"}`)
		request := d.event("extension_ui_request")
		d.send(`{"type":"extension_ui_response","id":"` + request.Get("id").Str + `","confirmed":true}`)
		d.event("host_tool_call")
		assert.Equal(t, 0, d.end())
		assert.Contains(t, strings.Join(d.output(), "\n"), `"outcome":"completed"`)
		assert.NoFileExists(t, filepath.Join(p.work, "done"), "silence is no consent")
	})
	t.Run("within a bound", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.llm.plays(gate("never").and(text("finished")))
		d := p.start("--eof", "drain", "--eof-limit", "50ms")
		d.send(`{"id":"1","type":"prompt","message":"go"}`)
		p.llm.request(0)
		assert.Equal(t, 0, d.end())
		assert.Contains(t, strings.Join(d.output(), "\n"), `"outcome":"aborted"`)
	})
}

// TestBrokenPipe: nobody reads any more, so there is nobody to run for.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(tool("c1", "bash", `{"command":"echo $$ > pid; exec sleep 600"}`))
	cmd := exec.Command(binary, "--mode", "rpc", "--provider", "mock", "--model", "mock-1")
	cmd.Dir, cmd.Env = p.work, p.environ()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	io.WriteString(in, `{"type":"prompt","message":"go"}`+"\n")
	child := pidIn(t, filepath.Join(p.work, "pid"))
	r.Close()
	io.WriteString(in, `{"type":"get_state"}`+"\n")
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		cmd.Process.Kill()
		t.Fatal("it goes on after EPIPE")
	}
	eventually(t, "the child's end", func() bool { return !alive(child) })
}

// TestParentDeath: the embedder is killed while something else keeps our pipes
// open.
func TestParentDeath(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(tool("c1", "bash", `{"command":"echo $$ > pid; exec sleep 600"}`))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	parent := exec.Command("sh", "-c", `"$0" --mode rpc --provider mock --model mock-1 & echo $! > "$1"; wait`, binary, filepath.Join(p.root, "troupe.pid"))
	parent.Dir, parent.Env = p.work, p.environ()
	parent.Stdin = r
	// A shell gives a background job /dev/null for stdin; fd 3 is the pipe.
	parent.ExtraFiles = []*os.File{r}
	parent.Args[2] = strings.Replace(parent.Args[2], " &", " <&3 &", 1)
	require.NoError(t, parent.Start())
	r.Close()
	pid := pidIn(t, filepath.Join(p.root, "troupe.pid"))
	io.WriteString(w, `{"type":"prompt","message":"go"}`+"\n")
	child := pidIn(t, filepath.Join(p.work, "pid"))
	require.True(t, alive(pid))
	parent.Process.Kill()
	_ = parent.Wait()
	eventually(t, "troupe's end", func() bool { return !alive(pid) })
	eventually(t, "the child's end", func() bool { return !alive(child) })
}

// TestSignalWhileNobodyReads: a single run whose output nobody reads to the end
// still ends with the first signal.
func TestSignalWhileNobodyReads(t *testing.T) {
	t.Parallel()
	for _, mode := range [][]string{{"-p"}, {"--mode", "json"}} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
			t.Run(fmt.Sprint(mode, sig), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.llm.plays(text(strings.Repeat("many words ", 100_000)))
				cmd := exec.Command(binary, append(p.mock("go on"), mode...)...)
				cmd.Dir, cmd.Env = p.work, p.environ()
				out, err := cmd.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				_, err = io.ReadFull(out, make([]byte, 8<<10)) // it prints what the model says
				require.NoError(t, err)
				require.NoError(t, cmd.Process.Signal(sig))
				state, err := cmd.Process.Wait()
				require.NoError(t, err)
				assert.Equal(t, code, state.ExitCode())
			})
		}
	}
}
