package examples

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/need"
)

// patience bounds how long a block may take, including builds.
const patience = 5 * time.Minute

// pages are the documents whose examples are run, by their paths in the repository. The value says
// whether a page runs in the repository instead of a directory of its own.
var pages = map[string]bool{
	"README.md": true, "docs/getting-started.md": true, "docs/troubleshooting.md": false, "docs/cli.md": false, "docs/configuration.md": false,
	"docs/clients.md": false, "docs/extensions.md": false, "docs/tasks.md": false, "docs/serve.md": false, "docs/api.md": false,
	"docs/pi-compatibility.md": false, "docs/protocol/messages.md": false, "docs/protocol/errors.md": false, "docs/protocol/dialects.md": false,
}

// TestExamples runs the examples of every page and compares their output.
func TestExamples(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "troupe"), "troupe/cmd/troupe").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, inCheckout := range pages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need.Program(t, "bash")
			r := newReader(t, root, bin, inCheckout)
			for _, b := range blocks(t, filepath.Join(root, name)) {
				if !b.runs() {
					continue
				}
				t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
					r.t = t
					for _, program := range b.programs() {
						need.Program(t, program)
					}
					r.follow(fmt.Sprintf("%s:%d", name, b.line), b)
				})
			}
		})
	}
}

// reader is a simulated reader of a page: a shell and the programs started in it.
type reader struct {
	t        *testing.T // of the block
	page     *testing.T
	home     string
	model    string            // the address of the local server
	replace  *strings.Replacer // replaces addresses of the page
	restore  *strings.Replacer // replaces paths and addresses of the test
	stdin    io.Writer
	lines    chan string // of the shell
	written  int         // number of files written for the shell
	deadline *time.Timer
}

// newReader starts a shell with an empty home.
func newReader(t *testing.T, root, bin string, inCheckout bool) *reader {
	home, model := t.TempDir(), vendor(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	require.NoError(t, free.Close())
	host := strings.TrimPrefix(model, "http://")
	r := &reader{
		t: t, page: t, home: home, model: model, lines: make(chan string),
		replace: strings.NewReplacer(":7717", ":"+port, "127.0.0.1:11434", host),
		restore: strings.NewReplacer(root, "/home/me/troupe", home, "/home/me", encoded(home), "home-me", ":"+port, ":7717", host, "127.0.0.1:11434"),
	}
	stdout, stdoutEnd, err := os.Pipe()
	require.NoError(t, err)
	shell := exec.Command("bash", "--noprofile", "--norc")
	shell.Dir, shell.Env = root, environ(home, bin)
	if !inCheckout {
		shell.Dir = filepath.Join(home, "project")
		require.NoError(t, os.Mkdir(shell.Dir, 0o700))
	}
	shell.Stdout, shell.Stderr = stdoutEnd, stdoutEnd
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := shell.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, shell.Start())
	_ = stdoutEnd.Close()
	go scan(stdout, r.lines)
	kill := func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	r.stdin, r.deadline = stdin, time.AfterFunc(patience, kill)
	t.Cleanup(func() {
		r.deadline.Stop()
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGTERM)
		kill()
		_ = shell.Wait()
		for range r.lines {
		}
	})
	return r
}

// encoded returns the name of a directory below the sessions directory.
func encoded(dir string) string { return strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-") }

// environ returns the environment of a reader: that of the test without credentials and settings.
func environ(home, bin string) (list []string) {
	private := regexp.MustCompile(`KEY|TOKEN|SECRET|^(AWS|AZURE|GOOGLE|PI|TROUPE|XDG|HOME|PATH|LC|LANG)(_|=)`)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !private.MatchString(name + "=") {
			list = append(list, v)
		}
	}
	cache, _ := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPROXY").Output()
	dirs := strings.Fields(string(cache))
	return append(list, "HOME="+home, "LC_ALL=C", "TROUPE_LOG_FORMAT=text" /* as on a terminal */, "PATH="+bin+":"+os.Getenv("PATH"), "GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1], "GOPROXY="+dirs[2])
}

// scan sends the lines of a pipe to a channel.
func scan(from io.Reader, to chan<- string) {
	defer close(to)
	s := bufio.NewScanner(from)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		to <- s.Text()
	}
}

// save writes a file of the page. Its path is relative to the directory of the shell.
func (r *reader) save(where, path, content string) {
	r.run(where, &block{}, fmt.Sprintf("mkdir -p -m 700 %s && cp %s %s", filepath.Dir(path), r.source(content), path))
}

// follow executes a block.
func (r *reader) follow(where string, b *block) {
	r.deadline.Reset(patience)
	if strings.Contains(b.code, "export ANTHROPIC_API_KEY=") {
		r.save(where, "~/.pi/agent/models.json", fmt.Sprintf(`{"providers":{"anthropic":{"baseUrl":%q}}}`, r.model))
	}
	switch {
	case b.save != "":
		r.save(where, b.save, b.code)
	case b.lang == "python":
		r.run(where, b, "python3 "+r.source(b.code))
	case b.lang == "bash":
		r.run(where, b, "bash "+r.source(b.code))
	case b.stay:
		r.serve(where, b)
	default:
		r.run(where, b, "source "+r.source(b.code))
	}
}

// source writes a script for the shell and returns its path.
func (r *reader) source(code string) string {
	r.written++
	path := filepath.Join(r.home, fmt.Sprintf(".block-%d", r.written))
	require.NoError(r.t, os.WriteFile(path, []byte(r.replace.Replace(code)), 0o600))
	return path
}

const mark = "== end of the block =="

// run runs a command in the shell and compares its output.
func (r *reader) run(where string, b *block, command string) {
	errs := filepath.Join(r.home, ".stderr")
	_, err := fmt.Fprintf(r.stdin, "%s </dev/null 2>%s\nprintf '\\n%%s\\n' '%s'\n", command, errs, mark)
	require.NoError(r.t, err)
	var printed strings.Builder
	for line := range r.lines {
		if line == mark {
			warnings, err := os.ReadFile(errs)
			require.NoError(r.t, err)
			r.compare(where, b, string(warnings)+printed.String())
			return
		}
		printed.WriteString(line + "\n")
	}
	require.Fail(r.t, "the shell has ended", "%s\n%s", where, printed.String())
}

// serve starts a program that keeps running and waits until it has printed the output shown on the
// page.
func (r *reader) serve(where string, b *block) {
	require.NotNil(r.t, b.want, "%s: what does it print?", where)
	pipe := r.source(b.code) + ".out"
	require.NoError(r.t, syscall.Mkfifo(pipe, 0o600))
	out, err := os.OpenFile(pipe, os.O_RDWR, 0) // a reader of its own would wait for a writer
	require.NoError(r.t, err)
	r.page.Cleanup(func() { _ = out.Close() })
	_, err = fmt.Fprintf(r.stdin, "source %s </dev/null >%s 2>&1 &\n", strings.TrimSuffix(pipe, ".out"), pipe)
	require.NoError(r.t, err)
	lines, printed := make(chan string), strings.Builder{}
	go scan(out, lines)
	for range strings.Count(b.want.code, "\n") {
		select {
		case line := <-lines:
			printed.WriteString(line + "\n")
		case line, more := <-r.lines:
			require.True(r.t, more, "%s: the shell has ended\n%s", where, printed.String())
			printed.WriteString(line + "\n")
		}
	}
	r.compare(where, b, printed.String())
	go func() { // the rest of its log is discarded
		for range lines {
		}
	}()
}

// compare compares the output with the output shown on the page.
func (r *reader) compare(where string, b *block, printed string) {
	printed = r.restore.Replace(printed)
	if b.want == nil {
		assert.Empty(r.t, strings.TrimSpace(printed), "%s is to be silent", where)
		return
	}
	if !shows(b.want.code, printed) {
		assert.Fail(r.t, "the page shows something else", "%s\nprinted:\n%s\nshown:\n%s", where, printed, b.want.code)
	}
}
