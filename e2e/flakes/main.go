// Command flakes looks for tests that fail only sometimes. It runs every package
// whose tests start goroutines, round after round, with the race detector and
// while every core is kept busy by loops that compute nothing.
//
//	go run ./e2e/flakes -n 20                        all packages, until each has passed 20 rounds
//	go run ./e2e/flakes -n 20 ./actors/conn ./e2e/...  the named ones
//	go run ./e2e/flakes -report                      print the results file
//
// Each finished round is one line of the results file, and a round that is
// already there is not run again: an interrupted run resumes where it stopped.
// Rounds count for one state of the code only. A package whose test binary, test
// data or daemon has changed since starts at round 1.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "flakes:", err)
		stop()
		os.Exit(1)
	}
}

// options are the settings of one invocation.
type options struct {
	rounds  int           // rounds that each package has to pass
	busy    int           // busy loops beside the tests
	timeout time.Duration // limit of one round of one package
	results string        // path of the results file
}

func run(ctx context.Context) error {
	var o options
	flag.IntVar(&o.rounds, "n", 5, "`rounds` that each package has to pass")
	flag.IntVar(&o.busy, "busy", runtime.NumCPU(), "busy `loops` beside the tests")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Minute, "limit of one round of one package")
	flag.StringVar(&o.results, "results", "flakes.jsonl", "results `file`")
	report := flag.Bool("report", false, "print the results file and run nothing")
	flag.Parse()

	results, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer results.Close()
	if *report {
		return results.report(os.Stdout, nil)
	}

	dir, err := os.MkdirTemp("", "troupe-flakes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packages, err := listPackages(ctx, flag.Args())
	if err != nil {
		return err
	}
	for i := range packages {
		if err := packages[i].build(ctx, dir, raceFlags); err != nil {
			return err
		}
	}
	keepBusy(o.busy)
	if err := runRounds(ctx, packages, results, o); err != nil {
		return err
	}
	return results.report(os.Stdout, packages)
}

// runRounds runs round 1 of every package, then round 2, and so on, so that an
// interrupted run has covered all packages alike.
func runRounds(ctx context.Context, packages []testPackage, results *results, o options) error {
	for round := 1; round <= o.rounds; round++ {
		for _, p := range packages {
			if results.has(p, round) {
				continue
			}
			outcome := p.run(ctx, round, o)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted; run again to resume at round %d of %s", round, p.path)
			}
			fmt.Printf("%s round %d: %s\n", p.path, round, outcome)
			if err := results.add(outcome); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepBusy starts n loops that occupy a core each until the process ends.
func keepBusy(n int) {
	runtime.GOMAXPROCS(n + 1) // one more for this program's own work
	for range n {
		go func() {
			for turns := new(atomic.Uint64); ; {
				turns.Add(1)
			}
		}()
	}
}

// testPackage is a package with tests, compiled with the race detector.
type testPackage struct {
	path   string // import path
	dir    string // where its tests run
	e2e    bool   // its tests run the built daemon, too
	binary string // the compiled test
	state  string // hash of all that the outcome of a round depends on
}

// raceFlags compile a test with the race detector, except for C that was translated
// to Go and a compiler that is only handed text. The Makefile has the same flags.
var raceFlags = []string{"-race", "-gcflags=modernc.org/libquickjs=-race=false",
	"-gcflags=modernc.org/libc=-race=false", "-gcflags=github.com/evanw/esbuild/...=-race=false"}

// sequential matches packages whose tests start no goroutines.
var sequential = regexp.MustCompile(`^troupe/(protocol|actors/core)(/|$)`)

// listPackages returns the packages that match the patterns and have tests. Without
// a pattern it returns those whose tests start goroutines.
func listPackages(ctx context.Context, patterns []string) ([]testPackage, error) {
	all := len(patterns) == 0
	if all {
		patterns = []string{"./..."}
	}
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}`
	out, err := output(ctx, "go", slices.Concat([]string{"list", "-f", format}, patterns)...)
	if err != nil {
		return nil, err
	}
	var packages []testPackage
	for line := range strings.Lines(out) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if all && sequential.MatchString(path) {
			continue
		}
		packages = append(packages, testPackage{path: path, dir: dir, e2e: strings.HasPrefix(path, "troupe/e2e")})
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no package with tests matches %s", strings.Join(patterns, " "))
	}
	return packages, nil
}

// build compiles the package's tests into dir with the given flags and computes its state.
func (p *testPackage) build(ctx context.Context, dir string, flags []string) error {
	p.binary = filepath.Join(dir, strings.ReplaceAll(p.path, "/", "-")+".test")
	if _, err := output(ctx, "go", slices.Concat([]string{"test", "-c", "-o", p.binary}, flags, []string{p.path})...); err != nil {
		return err
	}
	hash := sha256.New()
	if err := addFile(hash, p.binary); err != nil {
		return err
	}
	if p.e2e {
		daemon := filepath.Join(dir, "troupe")
		if _, err := output(ctx, "go", "build", "-buildvcs=false", "-o", daemon, "troupe/cmd/troupe"); err != nil {
			return err
		}
		if err := addFile(hash, daemon); err != nil {
			return err
		}
	}
	if err := addTree(hash, filepath.Join(p.dir, "testdata")); err != nil {
		return err
	}
	p.state = hex.EncodeToString(hash.Sum(nil))[:16]
	return nil
}

func addFile(hash io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(hash, f)
	return err
}

// addTree adds the files below root; a root that does not exist adds nothing.
func addTree(hash io.Writer, root string) error {
	return filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return addFile(hash, path)
	})
}

// failedTest matches the line by which a test reports its failure.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs all tests of the package once. Every third round shuffles them.
func (p testPackage) run(ctx context.Context, round int, o options) outcome {
	shuffle := "off"
	if round%3 == 0 {
		shuffle = fmt.Sprint(round)
	}
	cmd := exec.CommandContext(ctx, p.binary, "-test.timeout="+o.timeout.String(), "-test.shuffle="+shuffle)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "TROUPE_CI=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	result := outcome{Package: p.path, State: p.state, Round: round, Passed: err == nil, Shuffle: shuffle,
		Seconds: time.Since(begin).Round(100 * time.Millisecond).Seconds(), Time: begin.UTC().Format(time.RFC3339)}
	if err == nil {
		return result
	}
	for _, m := range failedTest.FindAllStringSubmatch(string(out), -1) {
		result.Failed = append(result.Failed, m[1])
	}
	result.Output = tail(string(out), maxOutput)
	return result
}

// maxOutput is how many bytes of the output of a failed round are kept.
const maxOutput = 64 << 10

func tail(s string, n int) string {
	return s[max(0, len(s)-n):]
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
