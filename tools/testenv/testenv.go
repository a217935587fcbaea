// Package testenv runs the tests of a package in an environment that is the same on every machine.
// It fails the run if the tests leave a file or a process behind.
//
// Every package whose tests write files or start processes calls Isolate first in TestMain:
//
//	func TestMain(m *testing.M) {
//		testenv.Isolate()
//		goleak.VerifyTestMain(m)
//	}
//
// Only tests import it. It imports no other package of this module, so that all of them can use it.
package testenv

import (
	"fmt"
	"os"
)

// isolatedKey is the variable that marks an isolated test binary. Its value is the path of that
// binary, because the tests of one package may run those of another.
const isolatedKey = "TROUPE_TESTENV"

// Isolate starts the test binary a second time, as a child process, and exits with its code. In the
// child process it returns immediately. The child has:
//
//   - an environment of constants (LC_ALL=C.UTF-8, TZ=UTC), PATH, TROUPE_CI, the variables
//     of the go command and those named by keep: no proxies, keys, XDG directories or git settings;
//   - its own empty directories as HOME and TMPDIR, with no repository, package or project
//     above them;
//   - umask 022, and no ignored signal.
//
// The parent process adopts processes that the child leaves running. After the child has exited,
// the parent kills them and removes the two directories, even if the child ran into a timeout. If
// the child exited with 0 and anything was left, the parent reports it and exits with 1.
func Isolate(keep ...string) {
	binary, err := os.Executable()
	if err == nil && os.Getenv(isolatedKey) == binary {
		return
	}
	code := 1
	if err == nil {
		code, err = isolated(binary, keep)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	exit(code)
}

// isolated runs the tests in a child process and cleans up after them.
func isolated(binary string, keep []string) (code int, err error) {
	root, err := makeRoot()
	if err != nil {
		return 1, err
	}
	code, left, err := supervise(binary, os.Args[1:], environment(binary, root, keep))
	if err == nil && code == 0 {
		left = append(left, remains(root)...)
	}
	if err == nil && code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "FAIL: the tests of this package left behind:")
		for _, what := range left {
			fmt.Fprintln(os.Stderr, "\t"+what)
		}
		code = 1
	}
	if failed := removeAll(root); err == nil {
		err = failed
	}
	return code, err
}
