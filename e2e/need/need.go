// Package need skips tests that this machine cannot run, and counts them: tests
// that need a program, a browser or a right which a bare machine does not have.
//
// With TROUPE_CI set in the environment such a test fails instead, so that a
// machine which is meant to run everything does not pass by running less.
package need

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
)

// skipped counts tests by the reason they were skipped for.
var (
	mu      sync.Mutex
	skipped = map[string]int{}
)

// Program returns the path of the first of the named programs that is installed.
// Without any of them it skips the test.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, names[0], "not installed")
	return ""
}

// Missing skips a test because of something else that the machine lacks, such as
// a package registry or a kernel feature. It does not return.
func Missing(t testing.TB, what, why string) {
	t.Helper()
	reason := fmt.Sprintf("needs %s: %s", what, why)
	if CI() {
		t.Fatal(reason)
	}
	mu.Lock()
	skipped[reason]++
	mu.Unlock()
	t.Skip(reason)
}

// CI reports whether the machine is meant to have everything that tests need.
func CI() bool { return os.Getenv("TROUPE_CI") != "" }

// Skipped describes the tests that were skipped so far, one line for each reason,
// as in "7 tests skipped: needs node: not installed".
func Skipped() (lines []string) {
	mu.Lock()
	defer mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		tests := "tests"
		if skipped[reason] == 1 {
			tests = "test"
		}
		lines = append(lines, fmt.Sprintf("%d %s skipped: %s", skipped[reason], tests, reason))
	}
	return lines
}
