package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/e2e/need"
)

const (
	program = "troupe/cmd/troupe"
	// copyTo is an environment variable. A test process that has it set copies the executable named
	// by its first argument to this path instead of running tests.
	copyTo = "TROUPE_E2E_COPY"
)

// unwatched lists the packages that the race detector does not instrument. The Makefile has the
// same list and explains it.
var unwatched = []string{"modernc.org/libquickjs", "modernc.org/libc", "github.com/evanw/esbuild/..."}

// buildRace builds the binary with the race detector, or without it where it
// cannot be linked.
func buildRace(path string) error {
	var flags []string
	why, err := noRace()
	switch {
	case err != nil:
		return err
	case why == "":
		flags = append(flags, "-race")
		for _, pkg := range unwatched {
			flags = append(flags, "-gcflags="+pkg+"=-race=false")
		}
	case need.CI():
		return errors.New("build troupe: the race detector is needed: " + why)
	default:
		fmt.Fprintln(os.Stderr, "troupe is built without the race detector:", why)
	}
	return build(path, flags...)
}

// noRace returns why a program cannot be linked with the race detector, or "" if it can. The
// detector is written in C, so linking it needs cgo.
func noRace() (why string, err error) {
	out, err := exec.Command("go", "env", "-json", "CC", "CGO_ENABLED").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	var env struct{ CC, CGO_ENABLED string }
	if err := json.Unmarshal(out, &env); err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	cc, _, _ := strings.Cut(env.CC, " ")
	if _, err := exec.LookPath(cc); err != nil {
		return "the C compiler " + cc + " is not installed", nil
	}
	if env.CGO_ENABLED != "1" {
		return "cgo is off", nil
	}
	if out, err := exec.Command("go", "list", "-race", "runtime").CombinedOutput(); err != nil {
		return strings.TrimSpace(string(out)), nil
	}
	return "", nil
}

// build builds the program and copies it to a path.
//
// The build cache keeps executables linked by go run, but not those linked by go build. With go
// run, the first test package links the program and all others copy it. go run starts the program
// named by -exec with the path of the executable. That program is this test binary, whose Main
// makes the copy.
func build(path string, flags ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("build troupe: %w", err)
	}
	// Several packages are tested at the same time. One of them links, and the
	// others wait for it instead of linking the same program. The go command locks
	// go.mod and files of its caches, but no source file.
	unlock, err := lock(filepath.Join(moduleDir(), "cmd", "troupe", "main.go"))
	if err != nil {
		return fmt.Errorf("build troupe: %w", err)
	}
	defer unlock()
	cmd := exec.Command("go", append(append([]string{"run"}, flags...), "-exec", "'"+self+"'", program)...)
	cmd.Env = append(os.Environ(), copyTo+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build troupe: %w\n%s", err, out)
	}
	return nil
}

// copyExecutable copies the executable. Main calls it instead of running tests when go run has
// started this process. It returns the exit code.
func copyExecutable(from, to string) int {
	err := func() error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
		return out.Close()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// FailpointBinary is the path of the binary with failpoints, see package
// actors/failpoint. It has no race detector: the tests that use it are about the
// files and processes that a kill leaves behind.
func FailpointBinary(t *testing.T) string {
	t.Helper()
	path, err := failpointBinary()
	require.NoError(t, err)
	return path
}

var failpointBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "troupe-failpoints")
	return path, build(path, "-tags", "failpoints")
})

// statSources stats the files that the binary is built from. The go command records which files a
// test stats. A cached pass is then invalid as soon as one of them changes, although no test
// imports them.
var statSources = sync.OnceFunc(func() {
	const files = `{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}{{end}}`
	out, err := exec.Command("go", "list", "-deps", "-f", files, program).Output()
	if err != nil {
		return // the build has failed before
	}
	for _, file := range strings.Fields(string(out)) {
		_, _ = os.Stat(file)
	}
})

// moduleDir is the root of the repository. Tests run in the directory of their package, which is
// two levels below it.
func moduleDir() string { return filepath.Join("..", "..") }

// lock takes an exclusive lock on a file that exists, between processes as well as
// within this one. It waits until the lock is free.
func lock(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
