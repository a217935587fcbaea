//go:build linux

// Command bench measures the built daemon from outside, beside the limit (the
// relay: the same bytes moved, no agent) and two versions of pi from npm, all on
// the same machine in the same run:
//
//	go run ./e2e/bench              every row
//	go run ./e2e/bench -quick       every row, fewer and smaller samples
//	go run ./e2e/bench -rows abort  the rows whose names match
//	go run ./e2e/bench -before B -rows abort  beside another build of the daemon
//	go run ./e2e/bench -against C   beside the daemon of commit C, which is built first
//	go run ./e2e/bench -curves docs cost curves as SVG
//	go run ./e2e/bench -allocs      allocations of the Go benchmarks against allocs.txt
//
// Agents take turns within a row, so that what else the machine does hits all
// of them. Times are only comparable within a run.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"troupe/e2e/figures"
)

type options struct {
	quick  bool
	rows   string
	reps   int
	json   string
	doc    string
	curves string
	max    int
	troupe string
	before string
	commit string
	noPeer bool
	list   bool
	allocs bool
	update bool
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "few and small samples, less than two minutes")
	flag.StringVar(&o.rows, "rows", "", "only rows whose name matches this expression")
	flag.IntVar(&o.reps, "reps", 0, "samples of each row and agent; 0 for the row's own number")
	flag.StringVar(&o.json, "json", "", "write all samples here as JSON")
	flag.StringVar(&o.doc, "doc", "", "put machine and table into this document, between its marks")
	flag.StringVar(&o.curves, "curves", "", "measure the cost curves, and only them, and write SVG into this directory")
	flag.IntVar(&o.max, "max", 100_000, "the right end of the curves")
	flag.StringVar(&o.troupe, "troupe", "", "the daemon; built from this tree if empty")
	flag.StringVar(&o.before, "before", "", "another build of the daemon, to take turns with this one")
	flag.StringVar(&o.commit, "against", "", "the same, built from this commit")
	flag.BoolVar(&o.noPeer, "no-peer", false, "without the peers")
	flag.BoolVar(&o.list, "list", false, "list the rows")
	flag.BoolVar(&o.allocs, "allocs", false, "compare allocations of the Go benchmarks with e2e/bench/allocs.txt")
	flag.BoolVar(&o.update, "update", false, "with -allocs: write the file")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.list {
		for _, r := range rows {
			fmt.Printf("%-18s %s\n", r.name, r.metrics[0].title)
		}
		return nil
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("not in the module: %w", err)
	}
	module := strings.TrimSpace(string(root))
	if o.allocs {
		return compareAllocs(module, o.update)
	}
	only, err := regexp.Compile(o.rows)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "troupe-bench-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	troupe, relay := o.troupe, filepath.Join(dir, "relay")
	if err := build(module, relay, "./e2e/bench/relay"); err != nil {
		return err
	}
	if troupe == "" {
		troupe = filepath.Join(dir, "troupe")
		if err := build(module, troupe, "./cmd/troupe"); err != nil {
			return err
		}
	}
	if o.commit != "" {
		o.before = filepath.Join(dir, "before")
		if err := buildCommit(module, o.commit, filepath.Join(dir, "tree"), o.before); err != nil {
			return err
		}
	}
	debug.SetGCPercent(400) // the driver's own collections are not to be measured
	all := agents(module, troupe, relay, !o.noPeer)
	if o.before != "" {
		all = append(all, daemon(before, o.before))
	}
	if o.curves != "" {
		return drawCurves(all, o)
	}
	rep := &report{machine: machine(module, all), agents: all}
	for _, r := range rows {
		if only.MatchString(r.name) {
			rep.results = append(rep.results, measure(r, all, o))
		}
	}
	return rep.write(o)
}

// build builds a program of a tree as make build does.
func build(tree, out, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir, cmd.Stderr, cmd.Env = tree, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

// buildCommit builds the daemon of a commit in a tree of its own, which it removes again.
func buildCommit(module, commit, tree, out string) error {
	git := func(args ...string) error {
		cmd := exec.Command("git", append([]string{"-C", module}, args...)...)
		cmd.Stderr = os.Stderr
		return cmd.Run()
	}
	if err := git("worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return fmt.Errorf("check out %s: %w", commit, err)
	}
	defer git("worktree", "remove", "--force", tree)
	return build(tree, out, "./cmd/troupe")
}

// result is the samples of one row.
type result struct {
	row     row
	samples map[string]map[string][]float64 // by agent and metric
	errors  []string
}

func measure(r row, all []*agent, o options) *result {
	res := &result{row: r, samples: map[string]map[string][]float64{}}
	reps := r.reps
	if o.quick {
		reps = 1
	}
	if o.reps > 0 {
		reps = o.reps
	}
	failed := map[string]bool{}
	for i := range reps {
		for _, a := range all {
			if !slices.Contains(strings.Fields(r.who), a.plays()) || failed[a.name] || a.peer && i >= max(1, reps/2) {
				continue
			}
			v, err := sample(r, a, o.quick)
			if err != nil {
				failed[a.name] = true
				res.errors = append(res.errors, fmt.Sprintf("%s: %s", a.name, err))
				fmt.Fprintf(os.Stderr, "bench: %s: %s: %s\n", r.name, a.name, err)
				continue
			}
			if res.samples[a.name] == nil {
				res.samples[a.name] = map[string][]float64{}
			}
			for k, x := range v {
				res.samples[a.name][k] = append(res.samples[a.name][k], x)
			}
		}
	}
	for _, m := range r.metrics {
		fmt.Fprintf(os.Stderr, "%-18s %-46s", r.name, m.title)
		for _, a := range all {
			if s := res.samples[a.name][m.key]; len(s) > 0 {
				fmt.Fprintf(os.Stderr, "  %s %s", a.title, number(median(s)))
			}
		}
		fmt.Fprintf(os.Stderr, "  (want %s %s)\n", number(m.target), m.unit)
	}
	return res
}

// sample runs a row once in a fresh place.
func sample(r row, a *agent, quick bool) (v values, err error) {
	var p *place
	defer func() {
		if p != nil {
			p.close()
		}
	}()
	defer figures.Caught(&err)
	p = newPlace()
	v = r.run(&sampler{place: p, agent: a, how: r.how, quick: quick})
	time.Sleep(20 * time.Millisecond)
	return v, nil
}
