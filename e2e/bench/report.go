//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

type report struct {
	machine []string
	results []*result
}

func median(s []float64) float64 {
	s = slices.Sorted(slices.Values(s))
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// number writes a value with three digits that mean something.
func number(x float64) string {
	switch {
	case x == 0 || math.IsNaN(x):
		return "–"
	case x >= 1e6:
		return strconv.FormatFloat(x/1e6, 'f', 2, 64) + "M"
	case x >= 10_000:
		return strconv.FormatFloat(x/1e3, 'f', 0, 64) + "k"
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case x >= 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

func machine(module string, all []*agent) []string {
	read := func(path, key string) string {
		raw, _ := os.ReadFile(path)
		for line := range strings.Lines(string(raw)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
				return strings.TrimSpace(v)
			}
		}
		return "?"
	}
	say := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = module
		out, err := cmd.Output()
		if err != nil {
			return "?"
		}
		return strings.TrimSpace(string(out))
	}
	lines := []string{
		fmt.Sprintf("%d × %s, %s of memory", runtime.NumCPU(), read("/proc/cpuinfo", "model name"), read("/proc/meminfo", "MemTotal")),
		"Linux " + say("uname", "-r") + ", " + strings.TrimPrefix(say("go", "version"), "go version ") + ", Node " + say("node", "--version"),
		"Load when it began: " + strings.Join(strings.Fields(say("cat", "/proc/loadavg"))[:3], " ") + "; " + time.Now().UTC().Format("2006-01-02 15:04 UTC") +
			"; tree " + say("git", "describe", "--always", "--dirty"),
	}
	for _, a := range all {
		if a.name == "pi" {
			raw, _ := os.ReadFile(module + "/e2e/rpcclient/node_modules/@mariozechner/pi-coding-agent/package.json")
			var p struct{ Version string }
			_ = json.Unmarshal(raw, &p)
			lines = append(lines, "Peer: pi "+p.Version+" from npm")
		}
	}
	return lines
}

// table is the results as Markdown.
func (r *report) table() string {
	var b strings.Builder
	for _, m := range r.machine {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	b.WriteString("\nEach cell is the median, with minimum–maximum of the samples behind it.\n\n")
	b.WriteString("| | unit | limit | pi | **troupe** | ÷ limit | ÷ pi | target | |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, res := range r.results {
		for _, m := range res.row.metrics {
			cell := func(agent string) (string, float64) {
				s := res.samples[agent][m.key]
				if len(s) == 0 {
					return "–", math.NaN()
				}
				return fmt.Sprintf("%s <sub>%s–%s</sub>", number(median(s)), number(slices.Min(s)), number(slices.Max(s))), median(s)
			}
			ratio := func(a, b float64) string {
				if math.IsNaN(a) || math.IsNaN(b) || b == 0 {
					return "–"
				}
				return number(a / b)
			}
			limit, l := cell("limit")
			pi, p := cell("pi")
			troupe, t := cell("troupe")
			target, verdict := "", ""
			if m.target != 0 {
				target, verdict = "≤ "+number(m.target), "reached"
				if m.more {
					target = "≥ " + number(m.target)
				}
				if math.IsNaN(t) || m.more && t < m.target || !m.more && t > m.target {
					verdict = "**missed**"
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | **%s** | %s | %s | %s | %s |\n", m.title, m.unit, limit, pi, troupe, ratio(t, l), ratio(t, p), target, verdict)
		}
		for _, e := range res.errors {
			line, _, _ := strings.Cut(e, "\n")
			fmt.Fprintf(&b, "| ↑ %s | | | | | | | | |\n", strings.ReplaceAll(line[:min(len(line), 120)], "|", "/"))
		}
	}
	return b.String()
}

func (r *report) write(o options) error {
	table := r.table()
	fmt.Print(table)
	if o.json != "" {
		type entry struct {
			Row, Metric, Title, Unit string
			Target                   float64 `json:",omitempty"`
			MoreIsBetter             bool    `json:",omitempty"`
			Samples                  map[string][]float64
			Errors                   []string `json:",omitempty"`
		}
		doc := struct {
			Machine []string
			Results []entry
		}{Machine: r.machine}
		for _, res := range r.results {
			for _, m := range res.row.metrics {
				e := entry{Row: res.row.name, Metric: m.key, Title: m.title, Unit: m.unit, Target: m.target, MoreIsBetter: m.more, Samples: map[string][]float64{}, Errors: res.errors}
				for agent, s := range res.samples {
					e.Samples[agent] = s[m.key]
				}
				doc.Results = append(doc.Results, e)
			}
		}
		raw, err := json.MarshalIndent(doc, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(raw, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.doc != "" {
		return insert(o.doc, "table", table)
	}
	return nil
}

// insert replaces what is between two marks of a document.
func insert(path, mark, text string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(raw, []byte("<!-- "+mark+" -->\n"))
	_, after, ok2 := bytes.Cut(rest, []byte("<!-- /"+mark+" -->\n"))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks for %s", path, mark)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%s<!-- %s -->\n%s<!-- /%s -->\n%s", before, mark, text, mark, after), 0o644)
}
