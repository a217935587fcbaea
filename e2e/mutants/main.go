// Command mutants makes bugs on purpose, one at a time, in a copy of the tree,
// and sees that the tests notice each. A suite that has never failed proves
// nothing.
//
//	go run ./e2e/mutants            all of them
//	go run ./e2e/mutants -run steer those whose name has the word
//	go run ./e2e/mutants -file actors/cluster those of a room
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	only := flag.String("run", "", "only mutants whose name contains this")
	file := flag.String("file", "", "only mutants of files whose path contains this")
	jobs := flag.Int("jobs", 2, "how many at the same time")
	limit := flag.Duration("timeout", 3*time.Minute, "of one")
	flag.Parse()
	var chosen []mutant
	for _, m := range mutants {
		if strings.Contains(m.name, *only) && strings.Contains(m.file, *file) {
			chosen = append(chosen, m)
		}
	}
	if err := baseline(chosen, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "mutants: without any mutant:", err)
		return 2
	}
	queue := make(chan mutant)
	results := make(chan result)
	var workers sync.WaitGroup
	for range *jobs {
		tree, err := copyTree()
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			return 2
		}
		defer os.RemoveAll(tree)
		workers.Go(func() {
			for m := range queue {
				results <- try(tree, m, *limit)
			}
		})
	}
	go func() {
		for _, m := range chosen {
			queue <- m
		}
		close(queue)
		workers.Wait()
		close(results)
	}()
	caught := 0
	for r := range results {
		fmt.Printf("%-8s %-58s %5.1fs  %s\n", r.verdict, r.name, r.took.Seconds(), r.note)
		if r.verdict == "caught" {
			caught++
		}
	}
	fmt.Printf("%d of %d caught\n", caught, len(chosen))
	if caught < len(chosen) {
		return 1
	}
	return 0
}

// baseline runs the tests on the tree as it is: where they fail anyway, a
// failure says nothing about a mutant.
func baseline(chosen []mutant, limit time.Duration) error {
	done := map[string]bool{}
	for _, m := range chosen {
		key := strings.Join(m.test, " ")
		if done[key] {
			continue
		}
		done[key] = true
		if out, err := goTest(".", m, limit); err != nil {
			return fmt.Errorf("go test %s: %w: %s", key, err, out)
		}
	}
	return nil
}

// goTest runs a mutant's tests until one fails, in whichever package.
func goTest(tree string, m mutant, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out := &output{failed: cancel}
	args := append([]string{"test", "-count=1", "-failfast", "-vet=off", fmt.Sprintf("-timeout=%s", limit)}, m.test...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.WaitDelay, cmd.Stdout, cmd.Stderr = tree, time.Second, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // tests of other packages end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	return out.Bytes(), err
}

// output collects the output of go test and calls failed when a package has failed.
type output struct {
	bytes.Buffer
	failed func()
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Buffer.Write(p)
	if bytes.Contains(o.Bytes(), []byte("\nFAIL\t")) {
		o.failed()
	}
	return n, err
}

type result struct {
	name, verdict, note string
	took                time.Duration
}

// copyTree copies the sources of the working directory, which is the module's.
func copyTree() (string, error) {
	to, err := os.MkdirTemp("", "troupe-mutants-")
	if err != nil {
		return "", err
	}
	pack := `tar -c --exclude=./.git --exclude=./bin --exclude=./cover --exclude=node_modules . | tar -x -C "$0"`
	if out, err := exec.Command("sh", "-c", pack, to).CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy the tree: %w: %s", err, out)
	}
	return to, nil
}

// try applies a mutant, runs its tests until the first failure, and takes it
// back.
func try(tree string, m mutant, limit time.Duration) result {
	r := result{name: m.name, verdict: "MISSED"}
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	path := filepath.Join(tree, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return result{m.name, "BROKEN", err.Error(), 0}
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return result{m.name, "BROKEN", fmt.Sprintf("the snippet is %d times in %s", n, m.file), 0}
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return result{m.name, "BROKEN", err.Error(), 0}
	}
	defer func() { _ = os.WriteFile(path, source, 0o600) }()
	out, err := goTest(tree, m, limit)
	r.took = time.Since(began)
	switch text := string(out); {
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "build troupe"):
		r.verdict, r.note = "BROKEN", "does not build: "+firstLine(text, ".go:")
	case err != nil:
		r.verdict, r.note = "caught", firstLine(text, "--- FAIL", "panic:")
	}
	return r
}

// firstLine is the first line that has one of the words.
func firstLine(text string, words ...string) string {
	for line := range strings.Lines(text) {
		for _, w := range words {
			if strings.Contains(line, w) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
