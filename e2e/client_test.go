package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/history"
)

// patience is how long a test waits for something that must come. It is a bound
// on a hang, not an expectation.
const patience = 30 * time.Second

// place is a home of its own for a daemon: agent directory, working directory,
// model server.
type place struct {
	t    *testing.T
	root string
	home string // HOME; the agent directory is .pi/agent below it
	work string // the working directory
	llm  *llm   // nil without one
	env  []string
	h    *history.History // of all its daemons, nil for none; see watched
}

// newPlace makes an empty home with a models.json that points at a fake server.
func newPlace(t *testing.T) *place {
	root := t.TempDir()
	p := &place{t: t, root: root, home: filepath.Join(root, "home"), work: filepath.Join(root, "work")}
	require.NoError(t, os.MkdirAll(p.agent(), 0o700))
	require.NoError(t, os.MkdirAll(p.work, 0o700))
	p.llm = newLLM(t)
	p.write(filepath.Join(p.agent(), "models.json"), p.llm.modelsJSON())
	return p
}

func (p *place) agent() string { return filepath.Join(p.home, ".pi", "agent") }

func (p *place) write(path, content string) {
	p.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.work, path)
	}
	require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(p.t, os.WriteFile(path, []byte(content), 0o600))
}

func (p *place) environ() []string {
	env := []string{
		"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + p.root, "TROUPE_E2E=1",
		"GORACE=atexit_sleep_ms=0", // a race-built daemon would sleep a second at its end
		"GOCOVERDIR=" + coverDir,
	}
	return append(env, p.env...)
}

// daemon is a running troupe and what it has written.
type daemon struct {
	t       *testing.T
	p       *place
	cmd     *exec.Cmd
	foreign bool   // another program: what it writes is not held against our schema
	session string // that commands and answers to dialogs name; "" is the default one
	stdin   io.WriteCloser

	mu     sync.Mutex
	more   *sync.Cond
	lines  []string
	eof    bool
	stderr bytes.Buffer
	seen   int // lines that tests have looked at
	ids    int
	exited chan struct{}
}

// start runs the daemon on the fake model unless args choose another.
func (p *place) start(args ...string) *daemon {
	p.t.Helper()
	all := append([]string{"--mode", "rpc"}, args...)
	if !strings.Contains(strings.Join(args, " "), "--model") && p.llm != nil {
		all = append(all, "--provider", "mock", "--model", "mock-1")
	}
	return p.startRaw(all...)
}

// startRaw runs the binary with just these arguments.
func (p *place) startRaw(args ...string) *daemon {
	p.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = p.work, p.environ()
	return p.run(cmd)
}

func (p *place) run(cmd *exec.Cmd) *daemon {
	p.t.Helper()
	d := &daemon{t: p.t, p: p, cmd: cmd, exited: make(chan struct{})}
	d.more = sync.NewCond(&d.mu)
	var err error
	d.stdin, err = cmd.StdinPipe()
	require.NoError(p.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	cmd.Stderr = &lockedWriter{&d.mu, &d.stderr}
	d.p.tell(history.Life, "")
	require.NoError(p.t, cmd.Start())
	go d.read(out)
	p.t.Cleanup(d.cleanup)
	return d
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (d *daemon) read(out io.Reader) {
	var rest []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		rest = append(rest, buf[:n]...)
		d.mu.Lock()
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			d.lines = append(d.lines, string(rest[:i]))
			d.p.tell(history.Output, string(rest[:i]))
			rest = rest[i+1:]
		}
		if err != nil {
			if len(rest) > 0 {
				d.lines = append(d.lines, string(rest)+" (without LF)")
			}
			d.eof = true
		}
		d.more.Broadcast()
		d.mu.Unlock()
		if err != nil {
			break
		}
	}
	end := history.End
	if d.cmd.Wait() != nil {
		end = history.Killed
	}
	d.p.tell(end, "")
	close(d.exited)
}

// cleanup ends a daemon that the test has left, and shows what it said if the
// test failed.
func (d *daemon) cleanup() {
	d.stdin.Close()
	select {
	case <-d.exited:
	case <-time.After(patience):
		d.cmd.Process.Kill()
		<-d.exited
		d.t.Errorf("the daemon did not end with its input")
	}
	if !d.foreign {
		d.lawful()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.t.Failed() {
		d.t.Logf("stderr:\n%s", d.stderr.String())
		for _, l := range d.lines {
			d.t.Logf("< %s", clip(l, 400))
		}
	}
	if s := d.stderr.String(); strings.Contains(s, "DATA RACE") {
		d.t.Errorf("data race:\n%s", s)
	}
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// send writes a line.
func (d *daemon) send(line string) {
	d.t.Helper()
	d.p.tell(history.Command, line)
	_, err := io.WriteString(d.stdin, line+"\n")
	require.NoError(d.t, err)
}

// wait returns the first record from line number from on that ok accepts, and
// the number of the line after it. The test fails if it does not come.
func (d *daemon) wait(from int, what string, ok func(gjson.Result) bool) (gjson.Result, int) {
	d.t.Helper()
	v, at, found := d.waitOrEOF(from, what, ok)
	if !found {
		d.t.Fatalf("%s did not come (%d lines, end of output)\nstderr: %s", what, at, d.errors())
	}
	return v, at
}

// waitOrEOF is wait for a daemon that may end first: found is false if its
// output ended without such a record.
func (d *daemon) waitOrEOF(from int, what string, ok func(gjson.Result) bool) (v gjson.Result, next int, found bool) {
	d.t.Helper()
	timer := time.AfterFunc(patience, func() { d.mu.Lock(); d.more.Broadcast(); d.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := from; ; {
		for ; at < len(d.lines); at++ {
			if v := gjson.Parse(d.lines[at]); ok(v) {
				return v, at + 1, true
			}
		}
		if d.eof {
			return gjson.Result{}, at, false
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s did not come (%d lines)\nstderr: %s", what, len(d.lines), d.stderr.String())
		}
		d.more.Wait()
	}
}

// call sends a command and returns its response. The id is put in.
func (d *daemon) call(command string) gjson.Result {
	d.t.Helper()
	d.ids++
	id := fmt.Sprintf("call-%d", d.ids)
	d.send(`{"id":"` + id + `",` + d.named() + strings.TrimPrefix(command, "{"))
	v, _ := d.wait(0, "the answer to "+clip(command, 100), func(v gjson.Result) bool {
		return v.Get("type").Str == "response" && v.Get("id").Str == id
	})
	return v
}

// named is the member that names the session.
func (d *daemon) named() string {
	if d.session == "" {
		return ""
	}
	return `"sessionId":"` + d.session + `",`
}

// ok is call for a command that must succeed; it returns the data.
func (d *daemon) ok(command string) gjson.Result {
	d.t.Helper()
	v := d.call(command)
	require.True(d.t, v.Get("success").Bool(), "%s: %s", clip(command, 200), clip(v.Raw, 500))
	return v.Get("data")
}

// next waits for the next record that ok accepts, after the one that next, event
// or prompt returned last.
func (d *daemon) next(what string, ok func(gjson.Result) bool) gjson.Result {
	d.t.Helper()
	v, at := d.wait(d.seen, what, ok)
	d.seen = at
	return v
}

// rewind has next and event start at the first record again.
func (d *daemon) rewind() { d.seen = 0 }

// event waits for the next record of a type.
func (d *daemon) event(kind string) gjson.Result {
	d.t.Helper()
	return d.next(kind, func(v gjson.Result) bool { return v.Get("type").Str == kind })
}

// prompt runs a prompt to its agent_settled and returns the events of it.
func (d *daemon) prompt(text string) []gjson.Result {
	d.t.Helper()
	from := d.count()
	raw, _ := json.Marshal(text)
	d.ok(`{"type":"prompt","message":` + string(raw) + `}`)
	_, to := d.wait(from, "agent_settled", func(v gjson.Result) bool { return v.Get("type").Str == "agent_settled" })
	d.seen = to
	d.mu.Lock()
	defer d.mu.Unlock()
	var events []gjson.Result
	for _, l := range d.lines[from:to] {
		if v := gjson.Parse(l); v.Get("type").Str != "response" {
			events = append(events, v)
		}
	}
	return events
}

// records yields every record, as it comes, until the output ends.
func (d *daemon) records() iter.Seq[gjson.Result] {
	return func(yield func(gjson.Result) bool) {
		for at := 0; ; at++ {
			d.mu.Lock()
			for at >= len(d.lines) && !d.eof {
				d.more.Wait()
			}
			over := at >= len(d.lines)
			var line string
			if !over {
				line = d.lines[at]
			}
			d.mu.Unlock()
			if over || !yield(gjson.Parse(line)) {
				return
			}
		}
	}
}

// has says whether a record of a type has come.
func (d *daemon) has(kind string) bool {
	return slices.ContainsFunc(d.output(), func(line string) bool { return gjson.Get(line, "type").Str == kind })
}

func (d *daemon) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lines)
}

func (d *daemon) output() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func (d *daemon) errors() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stderr.String()
}

// end closes stdin and returns the exit code.
func (d *daemon) end() int {
	d.t.Helper()
	d.stdin.Close()
	return d.exit()
}

// exit waits for the daemon to end and returns its exit code, or minus the
// signal that killed it.
func (d *daemon) exit() int {
	d.t.Helper()
	select {
	case <-d.exited:
	case <-time.After(patience):
		d.t.Fatalf("the daemon does not end\nstderr: %s", d.errors())
	}
	st := d.cmd.ProcessState
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal())
	}
	return st.ExitCode()
}
