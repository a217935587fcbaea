package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os/exec"
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

// Daemon is a process that speaks the protocol on its standard input and output, and the lines it
// has written.
type Daemon struct {
	T       *testing.T
	Place   *Place
	Cmd     *exec.Cmd
	Stdin   io.WriteCloser
	Exited  chan struct{} // closed when the process has ended
	Foreign bool          // it is another program: its output is not checked against the schema
	Session string        // the handle that commands name; "" for the default session

	ids  int // of commands
	seen int // lines before the one that Next looks at

	mu     sync.Mutex
	more   *sync.Cond // signals lines and eof
	lines  []string
	eof    bool
	stderr bytes.Buffer
}

// Start starts a daemon on stdio, with the fake model unless args choose another.
func (p *Place) Start(args ...string) *Daemon {
	p.T.Helper()
	all := append([]string{"--mode", "rpc"}, args...)
	if !strings.Contains(strings.Join(args, " "), "--model") && p.Model != nil {
		all = append(all, "--provider", "mock", "--model", "mock-1")
	}
	return p.StartRaw(all...)
}

// StartRaw starts the binary with these arguments only.
func (p *Place) StartRaw(args ...string) *Daemon {
	p.T.Helper()
	cmd := exec.Command(Binary, args...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	return p.StartCmd(cmd)
}

// StartCmd starts a command whose Dir and Env are set, and reads its output. When
// the test ends the process is ended, and its output checked.
func (p *Place) StartCmd(cmd *exec.Cmd) *Daemon {
	p.T.Helper()
	d := &Daemon{T: p.T, Place: p, Cmd: cmd, Exited: make(chan struct{})}
	d.more = sync.NewCond(&d.mu)
	var err error
	d.Stdin, err = cmd.StdinPipe()
	require.NoError(p.T, err)
	out, err := cmd.StdoutPipe()
	require.NoError(p.T, err)
	cmd.Stderr = &lockedWriter{&d.mu, &d.stderr}
	d.Place.record(history.Life, "")
	require.NoError(p.T, cmd.Start())
	go d.read(out)
	p.T.Cleanup(d.cleanup)
	return d
}

// lockedWriter is a writer that a mutex guards.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// read collects the lines of the output until it ends, and waits for the process.
func (d *Daemon) read(out io.Reader) {
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
			d.Place.record(history.Output, string(rest[:i]))
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
	if d.Cmd.Wait() != nil {
		end = history.Killed
	}
	d.Place.record(end, "")
	close(d.Exited)
}

// cleanup ends a daemon that still runs at the end of its test, checks its output,
// and logs it if the test failed.
func (d *Daemon) cleanup() {
	d.Stdin.Close()
	select {
	case <-d.Exited:
	case <-time.After(Patience):
		d.Cmd.Process.Kill()
		<-d.Exited
		d.T.Errorf("the daemon did not end with its input")
	}
	if !d.Foreign {
		d.checkSchema()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.T.Failed() {
		d.T.Logf("stderr:\n%s", d.stderr.String())
		for _, l := range d.lines {
			d.T.Logf("< %s", Clip(l, 400))
		}
	}
	if s := d.stderr.String(); strings.Contains(s, "DATA RACE") {
		d.T.Errorf("data race:\n%s", s)
	}
}

// Send writes a line.
func (d *Daemon) Send(line string) {
	d.T.Helper()
	d.Place.record(history.Command, line)
	_, err := io.WriteString(d.Stdin, line+"\n")
	require.NoError(d.T, err)
}

// Wait waits for the first record that ok accepts, starting at line from (counted from 0). It
// returns the record and the number of the line after it. what names the record in the error
// message of a timeout.
func (d *Daemon) Wait(from int, what string, ok func(gjson.Result) bool) (gjson.Result, int) {
	d.T.Helper()
	v, at, found := d.WaitOrEOF(from, what, ok)
	if !found {
		d.T.Fatalf("%s did not come (%d lines, end of output)\nstderr: %s", what, at, d.Stderr())
	}
	return v, at
}

// WaitOrEOF is Wait for a daemon that may exit first: found is false if its output ends without
// such a record.
func (d *Daemon) WaitOrEOF(from int, what string, ok func(gjson.Result) bool) (v gjson.Result, next int, found bool) {
	d.T.Helper()
	timer := time.AfterFunc(Patience, func() { d.mu.Lock(); d.more.Broadcast(); d.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(Patience)
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
			d.T.Fatalf("%s did not come (%d lines)\nstderr: %s", what, len(d.lines), d.stderr.String())
		}
		d.more.Wait()
	}
}

// Call sends a command, a JSON object to which it adds an id and the session, and
// waits for its response.
func (d *Daemon) Call(command string) gjson.Result {
	d.T.Helper()
	d.ids++
	id := fmt.Sprintf("call-%d", d.ids)
	d.Send(`{"id":"` + id + `",` + d.sessionMember() + strings.TrimPrefix(command, "{"))
	v, _ := d.Wait(0, "the answer to "+Clip(command, 100), func(v gjson.Result) bool {
		return v.Get("type").Str == "response" && v.Get("id").Str == id
	})
	return v
}

// sessionMember is the member of a command that names the session.
func (d *Daemon) sessionMember() string {
	if d.Session == "" {
		return ""
	}
	return `"sessionId":"` + d.Session + `",`
}

// OK is Call for a command that must succeed. It returns the data of the response.
func (d *Daemon) OK(command string) gjson.Result {
	d.T.Helper()
	v := d.Call(command)
	require.True(d.T, v.Get("success").Bool(), "%s: %s", Clip(command, 200), Clip(v.Raw, 500))
	return v.Get("data")
}

// Next waits for the next record that ok accepts, after the one that Next, Event,
// Response, UIRequest or Prompt returned last.
func (d *Daemon) Next(what string, ok func(gjson.Result) bool) gjson.Result {
	d.T.Helper()
	v, at := d.Wait(d.seen, what, ok)
	d.seen = at
	return v
}

// Rewind makes Next start at the first record again.
func (d *Daemon) Rewind() { d.seen = 0 }

// Event waits for the next record of a type.
func (d *Daemon) Event(kind string) gjson.Result {
	d.T.Helper()
	return d.Next(kind, func(v gjson.Result) bool { return v.Get("type").Str == kind })
}

// Response waits for the next response with this id.
func (d *Daemon) Response(id string) gjson.Result {
	d.T.Helper()
	return d.Next("the answer to "+id, func(v gjson.Result) bool {
		return v.Get("type").Str == "response" && v.Get("id").Str == id
	})
}

// Prompt sends a prompt, waits for its agent_settled and returns the events between.
func (d *Daemon) Prompt(text string) []gjson.Result {
	d.T.Helper()
	from := d.Count()
	raw, _ := json.Marshal(text)
	d.OK(`{"type":"prompt","message":` + string(raw) + `}`)
	_, to := d.Wait(from, "agent_settled", func(v gjson.Result) bool { return v.Get("type").Str == "agent_settled" })
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

// Records yields every record, as it comes, until the output ends.
func (d *Daemon) Records() iter.Seq[gjson.Result] {
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

// Has reports whether a record of a type has come.
func (d *Daemon) Has(kind string) bool {
	return slices.ContainsFunc(d.Lines(), func(line string) bool { return gjson.Get(line, "type").Str == kind })
}

// Count returns the number of lines written so far.
func (d *Daemon) Count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lines)
}

// Lines returns the lines written so far.
func (d *Daemon) Lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

// Stderr returns the text that the process has written to stderr so far.
func (d *Daemon) Stderr() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stderr.String()
}

// Close closes stdin, waits for the process and returns its exit code.
func (d *Daemon) Close() int {
	d.T.Helper()
	d.Stdin.Close()
	return d.WaitExit()
}

// WaitExit waits for the process and returns its exit code, or the negated number of the signal
// that killed it.
func (d *Daemon) WaitExit() int {
	d.T.Helper()
	select {
	case <-d.Exited:
	case <-time.After(Patience):
		d.T.Fatalf("the daemon does not end\nstderr: %s", d.Stderr())
	}
	st := d.Cmd.ProcessState
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal())
	}
	return st.ExitCode()
}

// UIRequest waits for the next extension_ui_request of a method.
func (d *Daemon) UIRequest(method string) gjson.Result {
	d.T.Helper()
	return d.Next("extension_ui_request "+method, func(v gjson.Result) bool {
		return v.Get("type").Str == "extension_ui_request" && v.Get("method").Str == method && (d.Session == "" || v.Get("sessionId").Str == d.Session)
	})
}

// RespondUI responds to a dialog, with members such as "confirmed":true.
func (d *Daemon) RespondUI(dialog gjson.Result, members string) {
	d.T.Helper()
	d.Send(`{"type":"extension_ui_response",` + d.sessionMember() + `"id":"` + dialog.Get("id").Str + `",` + members + `}`)
}

// SessionFile returns the path of the session file, as get_state reports it, and its entries.
func (d *Daemon) SessionFile() (path string, entries []gjson.Result) {
	d.T.Helper()
	path = d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	return path, ReadEntries(d.T, path)
}

// WaitTagged is Wait for a record of a given type that carries the handle of a session.
func (d *Daemon) WaitTagged(from int, session, kind string) (gjson.Result, int) {
	return d.Wait(from, kind+" of "+session, func(v gjson.Result) bool {
		return v.Get("sessionId").Str == session && v.Get("type").Str == kind
	})
}

// OpenSession opens a session and returns its handle. params holds further members of open_session,
// each preceded by a comma.
func (d *Daemon) OpenSession(params string) string {
	d.T.Helper()
	return d.OK(`{"type":"open_session"` + params + `}`).Get("sessionId").Str
}
