package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// outcome is one round of one package: a line of the results file.
type outcome struct {
	Package string   `json:"package"`
	State   string   `json:"state"` // hash of the code that ran
	Round   int      `json:"round"` // from 1
	Passed  bool     `json:"passed"`
	Failed  []string `json:"failed,omitempty"` // names of tests
	Shuffle string   `json:"shuffle"`          // "off" or the seed
	Seconds float64  `json:"seconds"`
	Time    string   `json:"time"`             // start, RFC 3339
	Output  string   `json:"output,omitempty"` // end of the output of a failed round
}

func (o outcome) String() string {
	switch {
	case o.Passed:
		return fmt.Sprintf("passed in %.0f s", o.Seconds)
	case len(o.Failed) == 0:
		return fmt.Sprintf("FAILED in %.0f s, no test named", o.Seconds)
	default:
		return fmt.Sprintf("FAILED in %.0f s: %s", o.Seconds, strings.Join(o.Failed, ", "))
	}
}

// results is the results file: JSON lines that are only ever appended.
type results struct {
	file     *os.File
	outcomes []outcome
}

// openResults reads the results file at path and creates it if it does not exist.
func openResults(path string) (*results, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	r := &results{file: file}
	lines := bufio.NewReader(file)
	size := int64(0)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r, file.Truncate(size) // truncated last line: run it again
		}
		if err != nil {
			return nil, err
		}
		size += int64(len(line))
		var o outcome
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		r.outcomes = append(r.outcomes, o)
	}
}

func (r *results) Close() error { return r.file.Close() }

// has reports whether the round has run on the package's present state.
func (r *results) has(p testPackage, round int) bool {
	return slices.ContainsFunc(r.outcomes, func(o outcome) bool {
		return o.Package == p.path && o.State == p.state && o.Round == round
	})
}

// add appends an outcome in one write.
func (r *results) add(o outcome) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	r.outcomes = append(r.outcomes, o)
	_, err = r.file.Write(append(line, '\n'))
	return err
}

// report prints a line for each package and each test that failed. It counts the
// present state of the given packages, and every state if none is given. It
// returns an error if a round has failed.
func (r *results) report(w io.Writer, packages []testPackage) error {
	states := map[string]string{}
	for _, p := range packages {
		states[p.path] = p.state
	}
	type count struct {
		rounds, failures int
		seconds          float64 // of the slowest round
		tests            map[string]int
	}
	counts := map[string]*count{}
	failures := 0
	for _, o := range r.outcomes {
		if len(packages) > 0 && states[o.Package] != o.State {
			continue
		}
		c := counts[o.Package]
		if c == nil {
			c = &count{tests: map[string]int{}}
			counts[o.Package] = c
		}
		c.rounds++
		c.seconds = max(c.seconds, o.Seconds)
		if o.Passed {
			continue
		}
		c.failures++
		failures++
		for _, name := range o.Failed {
			c.tests[name]++
		}
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "package\trounds\tfailures\tslowest\ttests that failed")
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		c := counts[path]
		var tests []string
		for _, name := range slices.Sorted(maps.Keys(c.tests)) {
			tests = append(tests, fmt.Sprintf("%s ×%d", name, c.tests[name]))
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%.0f s\t%s\n", path, c.rounds, c.failures, c.seconds, strings.Join(tests, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if failures > 0 {
		return fmt.Errorf("%d rounds failed", failures)
	}
	return nil
}
