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

// unwatched is what the race detector does not look into; the Makefile says why, and has the same.
var unwatched = []string{"modernc.org/libquickjs", "modernc.org/libc", "github.com/evanw/esbuild/..."}

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
		args := []string{"build", "-race", "-o", binary}
		for _, pkg := range unwatched {
			args = append(args, "-gcflags="+pkg+"=-race=false")
		}
		build := exec.Command("go", append(args, "troupe/cmd/troupe")...)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build troupe:", err)
			return 1
		}
	}
	defer browser.Quit()
	return m.Run()
}
