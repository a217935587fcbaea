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
	agents  []*agent
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
		"Linux " + say("uname", "-r") + ", " + strings.TrimPrefix(say("go", "version"), "go version "),
		"Load when it began: " + strings.Join(strings.Fields(say("cat", "/proc/loadavg"))[:3], " ") + "; " + time.Now().UTC().Format("2006-01-02 15:04 UTC") +
			"; tree " + say("git", "describe", "--always", "--dirty"),
	}
	for _, a := range all {
		if a.peer {
			lines = append(lines, "Peer: "+a.title+" from npm, on Node "+say(a.command(nil, how{}).Path, "--version"))
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
	b.WriteString("| | unit | limit |")
	var others []*agent
	for _, a := range r.agents {
		if a.peer {
			others = append(others, a)
			fmt.Fprintf(&b, " %s |", a.title)
		}
	}
	b.WriteString(" **troupe** | ÷ limit | ÷ best peer | target | |\n|" + strings.Repeat("---|", 8+len(others)) + "\n")
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
			best, peers := math.NaN(), ""
			for _, a := range others {
				text, p := cell(a.name)
				if peers += " " + text + " |"; math.IsNaN(best) || m.more && p > best || !m.more && p < best {
					best = p
				}
			}
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
			fmt.Fprintf(&b, "| %s | %s | %s |%s **%s** | %s | %s | %s | %s |\n", m.title, m.unit, limit, peers, troupe, ratio(t, l), ratio(t, best), target, verdict)
		}
		for _, e := range res.errors {
			line, _, _ := strings.Cut(e, "\n")
			fmt.Fprintf(&b, "| ↑ %s |%s\n", strings.ReplaceAll(line[:min(len(line), 120)], "|", "/"), strings.Repeat(" |", 7+len(others)))
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
