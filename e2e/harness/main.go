// Package harness runs the troupe binary for the tests below e2e: it builds it
// once, gives each test a home of its own with a fake model server, and reads the
// output of the binary.
//
// A test starts from a [Place], and from there a [Daemon] on stdio or a [Server]
// that clients connect to:
//
//	p := harness.NewPlace(t)
//	p.Model.Enqueue(harness.Text("hello"))
//	d := p.Start()
//	d.Prompt("say hello")
//	require.Zero(t, d.Close())
//
// Each package of tests has this TestMain:
//
//	func TestMain(m *testing.M) { harness.Main(m) }
//
// Whatever a daemon writes to stdout is checked against the published schema when
// its test ends, and a data race that it reports fails the test.
package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"troupe/e2e/browser"
	"troupe/e2e/need"
)

// Patience bounds how long a test waits for something that must happen. It only detects hangs.
const Patience = 30 * time.Second

var (
	// Binary is the path of the program under test. TROUPE_BINARY in the environment
	// names another build, or another program.
	Binary string
	// scratch is a directory of this test process. It is removed at the end.
	scratch string
)

// Main builds the binary, runs the tests of a package and exits.
func Main(m *testing.M) {
	if to := os.Getenv(copyTo); to != "" {
		os.Exit(copyExecutable(os.Args[1], to))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "troupe-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	if err := os.Mkdir(coverDir(), 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if Binary = os.Getenv("TROUPE_BINARY"); Binary == "" {
		Binary = filepath.Join(scratch, "troupe")
		if err := buildRace(Binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	defer browser.Quit()
	code := m.Run()
	dir, _ := os.Getwd()
	for _, line := range need.Skipped() {
		fmt.Printf("e2e/%s: %s\n", filepath.Base(dir), line)
	}
	return code
}

// coverDir is where a binary that was built with -cover writes its counters.
func coverDir() string { return filepath.Join(scratch, "cover") }
