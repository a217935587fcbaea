package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"troupe/e2e/browser"
)

// binary is the daemon under test, built once with the race detector.
var (
	binary   string
	coverDir string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "troupe-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	coverDir = filepath.Join(dir, "cover")
	if err := os.Mkdir(coverDir, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = os.Getenv("TROUPE_BINARY") // another build, or another program
	if binary == "" {
		binary = filepath.Join(dir, "troupe")
		build := exec.Command("go", "build", "-race", "-o", binary, "troupe/cmd/troupe")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build troupe:", err)
			return 1
		}
	}
	defer browser.Quit()
	return m.Run()
}
