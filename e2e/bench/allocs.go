//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hot lists the benchmarks of the hot paths. Their allocations do not depend on the machine.
var hot = []struct{ pkg, bench, times string }{
	{"./protocol", "^Benchmark(DecodeRecord|ArgsFeed)", "0.2s"},
	{"./protocol/pi", "^Benchmark(Encode|Decode|Frame|Response)", "0.2s"},
	{"./actors/core", "^BenchmarkStep", "0.2s"},
	{"./actors/scenario/flow", "^BenchmarkDaemon", "0.2s"},
	{"./store", "^Benchmark(Append|Context2k)", "0.2s"},
	{"./providers/auth", "^BenchmarkSign", "0.2s"},
	{"./providers/wire", "^BenchmarkEventReader", "0.2s"},
	{"./providers/anthropic", "^BenchmarkDelta", "100000x"}, // whole answers of 5,000
	{"./providers/openai", "^BenchmarkDelta", "100000x"},
	{"./providers/responses", "^BenchmarkDelta", "100000x"},
	{"./providers/google", "^BenchmarkDelta", "100000x"},
}

var benchLine = regexp.MustCompile(`^(Benchmark\S+?)(?:-\d+)?\s+\d+\s.*?(\S+) allocs/op`)

// compareAllocs runs the benchmarks. It fails if one of them allocates at least one and over a
// tenth more than the file records.
func compareAllocs(module string, update bool) error {
	path := filepath.Join(module, "e2e/bench/allocs.txt")
	now := map[string]float64{}
	var names []string
	for _, h := range hot {
		cmd := exec.Command("go", "test", "-run", "^$", "-bench", h.bench, "-benchmem", "-benchtime", h.times, h.pkg)
		cmd.Dir, cmd.Stderr = module, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", h.pkg, err, out)
		}
		for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
			if m := benchLine.FindStringSubmatch(s.Text()); m != nil {
				name := strings.TrimPrefix(h.pkg, "./") + " " + m[1]
				now[name], _ = strconv.ParseFloat(m[2], 64)
				names = append(names, name)
			}
		}
	}
	if update {
		var b strings.Builder
		b.WriteString("# allocations per operation: go run ./e2e/bench -allocs -update\n")
		for _, n := range names {
			fmt.Fprintf(&b, "%s %s\n", n, strconv.FormatFloat(now[n], 'f', -1, 64))
		}
		return os.WriteFile(path, []byte(b.String()), 0o644)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	was := map[string]float64{}
	for line := range strings.Lines(string(raw)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			was[line[:i]], _ = strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
		}
	}
	var worse []string
	for _, n := range names {
		old, known := was[n]
		mark := ""
		switch {
		case !known:
			mark = "new: run with -update"
			worse = append(worse, n)
		case now[n] > old+math.Max(1, old/10)-1e-9:
			mark = "WORSE"
			worse = append(worse, n)
		case now[n] < old-math.Max(1, old/10)+1e-9:
			mark = "better: run with -update"
		}
		fmt.Printf("%-60s %10g → %-10g %s\n", n, old, now[n], mark)
		delete(was, n)
	}
	for n := range was {
		worse = append(worse, n+" is gone")
	}
	if slices.Sort(worse); len(worse) > 0 {
		return fmt.Errorf("allocations: %s", strings.Join(worse, "; "))
	}
	return nil
}
