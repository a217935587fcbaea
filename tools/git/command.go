package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/tools"
)

const (
	commandTime  = 2 * time.Minute
	checkoutTime = 10 * time.Minute
	outputBytes  = 64 << 20
	killGrace    = 2 * time.Second // in which git removes its lock files
	lingerTime   = time.Second     // for output that others still hold after git has ended
)

// settings hold for every command: nothing of the user's configuration may run
// something, ask something or change what we read.
var settings = []string{
	"core.fsmonitor=false", "core.untrackedCache=false", "core.splitIndex=false", "core.hooksPath=/dev/null",
	"core.quotePath=false", "core.safecrlf=false", "gc.auto=0", "maintenance.auto=false", "commit.gpgSign=false",
	"submodule.recurse=false", "checkout.workers=2", "advice.addEmbeddedRepo=false", "advice.detachedHead=false",
	"advice.updateSparsePath=false",
}

// variables likewise.
var variables = []string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}

// command runs git in one place.
type command struct {
	env   *tools.Env
	dir   string   // working directory
	vars  []string // GIT_DIR and the like
	limit time.Duration
	// writes are the directories that git may write in a session with a sandbox: a repository's own
	// configuration can name filters, merge drivers and other programs, and a command of the session may have written it.
	writes []string
}

// writing adds directories that git may write.
func (c command) writing(dirs ...string) command {
	c.writes = append(c.writes[:len(c.writes):len(c.writes)], dirs...)
	return c
}

// sandbox binds git, and all that it starts, where the commands of the session are bound.
func (c command) sandbox() tools.Sandbox {
	if !c.env.Sandbox.On() {
		return tools.Sandbox{}
	}
	return c.env.Sandbox.Only(c.writes...)
}

// with adds variables.
func (c command) with(vars ...string) command {
	c.vars = append(c.vars[:len(c.vars):len(c.vars)], vars...)
	for _, v := range vars {
		if index, is := strings.CutPrefix(v, "GIT_INDEX_FILE="); is {
			c = c.writing(filepath.Dir(index))
		}
	}
	return c
}

// failure is a git that ended with another code than 0.
type failure struct {
	what   string
	code   int
	stderr string
}

func (f *failure) Error() string {
	text := strings.TrimSpace(f.stderr)
	if text == "" {
		text = fmt.Sprintf("exit code %d", f.code)
	}
	return fmt.Sprintf("git %s: %s", f.what, text)
}

// failedWith says that git ended with a code.
func failedWith(err error, code int) bool {
	var f *failure
	return errors.As(err, &f) && f.code == code
}

// run returns what git writes to stdout.
func (c command) run(ctx context.Context, args ...string) ([]byte, error) {
	return c.feed(ctx, nil, args...)
}

// line is the one line that git writes.
func (c command) line(ctx context.Context, args ...string) (string, error) {
	out, err := c.run(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// feed gives git something to read.
func (c command) feed(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	limit := c.limit
	if limit == 0 {
		limit = commandTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("git %s took longer than %v", args[0], limit))
	defer cancel()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := tools.Spawn(tools.SpawnSpec{Procs: c.env.Procs, Command: "git", Args: withSettings(c.dir, args), Dir: c.dir, Env: c.environ(), Sandbox: c.sandbox()})
	if err != nil {
		return nil, startError(err)
	}
	return follow(ctx, p, in, args[0])
}

// withSettings has the settings of the file system of dir, too; "" is a command about no directory.
func withSettings(dir string, args []string) []string {
	list := settings
	if dir != "" {
		list = slices.Concat(list, fileSystemSettings(dir))
	}
	var all []string
	for _, s := range list {
		all = append(all, "-c", s)
	}
	return append(all, args...)
}

// environ is the environment of the session's commands without variables that
// redirect git to another repository, index or object store. Those that limit where
// git looks for a repository are kept, because the user has set them on purpose.
func (c command) environ() []string {
	var env []string
	for _, v := range c.env.Environ {
		name, _, _ := strings.Cut(v, "=")
		limits := name == "GIT_CEILING_DIRECTORIES" || name == "GIT_DISCOVERY_ACROSS_FILESYSTEM"
		if limits || !strings.HasPrefix(name, "GIT_") && name != "LC_ALL" {
			env = append(env, v)
		}
	}
	return append(append(env, variables...), c.vars...)
}

var errNotFound = errors.New("git not found in PATH")

func startError(err error) error {
	if errors.Is(err, tools.ErrNoProgram) {
		return errNotFound
	}
	return fmt.Errorf("start git: %w", err)
}

// follow sees a git to its end.
func follow(ctx context.Context, p *tools.Spawned, in io.Reader, what string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(killed); p.Kill(killGrace) })
	fed := make(chan error, 1)
	go func() { fed <- feed(p, in) }()
	stdout, stderr := collect(p.Stdout, cancel), collect(p.Stderr, cancel)
	select {
	case <-p.Exited():
	case <-killed: // it hangs in the kernel, and was given up
	}
	p.Stdin.SetWriteDeadline(time.Now().Add(lingerTime)) // what it left in the background may have it, too, and not read
	out, errText := stdout.wait(), stderr.wait()
	<-fed // a git that does not read to the end says so by its code
	if !stop() {
		<-killed
		return nil, context.Cause(ctx)
	}
	code, sig, err := p.End()
	switch {
	case err != nil:
		return nil, err
	case sig != 0:
		return nil, fmt.Errorf("git %s: ended by signal %v", what, sig)
	case code != 0:
		return out, &failure{what, code, string(errText)}
	}
	return out, nil
}

func feed(p *tools.Spawned, in io.Reader) error {
	var err error
	if in != nil {
		_, err = io.Copy(p.Stdin, in)
	}
	return errors.Join(err, p.Stdin.Close())
}

// collector reads one stream of a command.
type collector struct {
	file interface {
		io.ReadCloser
		SetReadDeadline(time.Time) error
	}
	buf  bytes.Buffer
	done chan struct{}
}

var errOutput = errors.New("the output of git is too large")

func collect(file interface {
	io.ReadCloser
	SetReadDeadline(time.Time) error
}, cancel context.CancelCauseFunc) *collector {
	c := &collector{file: file, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if n, _ := io.Copy(&c.buf, io.LimitReader(file, outputBytes+1)); n > outputBytes {
			cancel(errOutput)
			io.Copy(io.Discard, file)
		}
	}()
	return c
}

// wait is called when the command has ended. What it left in the background and
// still has the stream is not waited for.
func (c *collector) wait() []byte {
	c.file.SetReadDeadline(time.Now().Add(lingerTime))
	<-c.done
	c.file.Close()
	return c.buf.Bytes()
}

// fields are the parts of output that was asked for with -z.
func fields(out []byte) []string {
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}
