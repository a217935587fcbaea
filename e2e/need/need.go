// Package need skips and counts tests that this machine cannot run, because they need a program, a
// browser or a permission.
//
// If TROUPE_CI is set, such a test fails instead. A CI machine therefore cannot pass by running
// fewer tests.
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

// skipped counts tests by the reason for skipping them.
var (
	mu      sync.Mutex
	skipped = map[string]int{}
)

// Program returns the path of the first installed program among names. It skips the test if none is
// installed.
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

// Missing skips a test because the machine lacks something else, such as a package registry or a
// kernel feature. It does not return.
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

// CI reports whether the machine must have everything that tests need.
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
