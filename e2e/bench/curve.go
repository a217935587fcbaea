//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"troupe/e2e/figures"
)

// curve is what one thing costs as another grows.
type curve struct {
	file, title, x, y string
	lines             []line
}

// line is the cost of one agent in one way of running.
type line struct {
	name  string
	agent string
	how   how
	max   int // the largest x; 0 for the end of the curve
	at    func(x *sampler, n int) float64
}

var curves = []curve{
	{"perf-delta.svg", "Cost of a delta against the length of the message", "deltas in the message", "µs per delta", []line{
		{"limit, cumulative", "limit", cumulative, 20_000, perDelta},
		{"troupe, cumulative", "troupe", cumulative, 0, perDelta},
		{"limit, delta-only", "limit", delta, 0, perDelta},
		{"troupe, delta-only", "troupe", delta, 0, perDelta},
	}},
	{"perf-turn.svg", "Cost of a turn against the history", "messages in the context", "ms per turn", []line{
		{"limit", "limit", delta, 0, func(x *sampler, n int) float64 { return turnWith(x, n, 6) }},
		{"troupe", "troupe", delta, 0, func(x *sampler, n int) float64 { return turnWith(x, n, 6) }},
	}},
	{"perf-append.svg", "Cost of a command against the history", "entries in the session", "µs", []line{
		{"append an entry", "troupe", delta, 0, func(x *sampler, n int) float64 {
			return commandWith(x, n, `{"id":"x","type":"set_session_name","name":"n%d"}`)
		}},
		{"get_state", "troupe", delta, 0, func(x *sampler, n int) float64 {
			return commandWith(x, n, `{"id":"x%d","type":"get_state"}`)
		}},
	}},
	{"perf-sessions.svg", "Memory against open sessions", "sessions", "MB resident", []line{
		{"unused", "troupe", delta, 0, func(x *sampler, n int) float64 { return memoryWith(x, n, false) }},
		{"after one turn each", "troupe", delta, 10_000, func(x *sampler, n int) float64 { return memoryWith(x, n, true) }},
	}},
}

func perDelta(x *sampler, n int) float64 {
	q := x.ready(x.agent, x.how)
	answer := textAnswer(n, "word ")
	x.model.answers(func(a *ask) { a.play(answer) })
	q.prompt("go")
	best := math.Inf(1)
	for range 3 {
		took, _, _ := q.prompt("go")
		best = min(best, figures.US(took)/float64(n))
	}
	return best
}

// commandWith is the best of some medians: a round trip has two speeds, of
// which the system chooses one for a while.
func commandWith(x *sampler, n int, command string) float64 {
	q := x.conversation(n)
	best := math.Inf(1)
	for range 20 {
		var d []time.Duration
		for i := range 300 {
			begun := time.Now()
			q.send(fmt.Sprintf(command, i))
			q.until(`"id":"x`)
			d = append(d, time.Since(begun))
		}
		best = min(best, figures.US(figures.P50(d[30:])))
		time.Sleep(20 * time.Millisecond)
	}
	return best
}

func memoryWith(x *sampler, n int, used bool) float64 {
	x.how.args = append(x.how.args, "--max-sessions", strconv.Itoa(n+10))
	q := x.ready(x.agent, x.how)
	ids := x.opens(q, n)
	if used {
		short := textAnswer(20, "word ")
		x.model.answers(func(a *ask) { a.play(short) })
		for _, id := range ids {
			q.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + id + `"}`)
			q.until(agentEnd)
		}
	}
	time.Sleep(2 * time.Second)
	return q.memory()
}

type point struct{ x, y float64 }

func drawCurves(all []*agent, o options) error {
	for _, c := range curves {
		if o.rows != "" && !strings.Contains(c.file, o.rows) {
			continue
		}
		drawn := map[string][]point{}
		for _, l := range c.lines {
			for n := 100.0; n <= float64(o.max)*1.01; n *= math.Sqrt(10) {
				if l.max > 0 && n > float64(l.max)*1.01 {
					break
				}
				x := int(math.Round(n/10) * 10)
				for _, a := range all {
					if a.name != l.agent {
						continue
					}
					r := row{how: l.how, run: func(s *sampler) values { return values{"y": l.at(s, x)} }}
					v, err := sample(r, a, false)
					if err != nil {
						fmt.Fprintf(os.Stderr, "bench: %s: %s at %d: %s\n", c.file, l.name, x, err)
						continue
					}
					fmt.Fprintf(os.Stderr, "%-18s %-20s %7d  %s %s\n", c.file, l.name, x, number(v["y"]), c.y)
					drawn[l.name] = append(drawn[l.name], point{float64(x), v["y"]})
				}
			}
		}
		if err := os.WriteFile(filepath.Join(o.curves, c.file), []byte(svg(c, drawn)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// svg draws lines over two logarithmic axes.
func svg(c curve, drawn map[string][]point) string {
	const w, h, left, top, right, bottom = 640.0, 360.0, 70.0, 40.0, 150.0, 50.0
	x0, x1, y0, y1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, points := range drawn {
		for _, p := range points {
			x0, x1 = min(x0, p.x), max(x1, p.x)
			y0, y1 = min(y0, p.y), max(y1, p.y)
		}
	}
	if math.IsInf(x0, 1) {
		return ""
	}
	low, high := math.Floor(math.Log10(y0)), math.Ceil(math.Log10(y1))
	if high == low {
		high++
	}
	px := func(x float64) float64 {
		return left + (w-left-right)*(math.Log10(x)-math.Log10(x0))/max(math.Log10(x1)-math.Log10(x0), 1e-9)
	}
	py := func(y float64) float64 { return h - bottom - (h-top-bottom)*(math.Log10(y)-low)/(high-low) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="white"/><text x="%g" y="22" font-size="14">%s</text>`+"\n", w, h, left, c.title)
	tick := func(v float64) string {
		if v >= 1 {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	for e := math.Ceil(math.Log10(x0)); e <= math.Log10(x1)+1e-9; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&b, `<path d="M%.1f %g V%g" stroke="#ddd"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", px(v), top, h-bottom, px(v), h-bottom+16, tick(v))
	}
	for e := low; e <= high; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&b, `<path d="M%g %.1f H%g" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n", left, py(v), w-right, left-6, py(v)+4, tick(v))
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", (left+w-right)/2, h-10, c.x)
	fmt.Fprintf(&b, `<text transform="translate(16 %g) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+h-bottom)/2, c.y)
	colours := []string{"#999999", "#c03030", "#555555", "#2060c0"}
	if len(c.lines) == 2 {
		colours = []string{"#999999", "#2060c0"}
	}
	label := math.Inf(-1)
	for i, l := range c.lines {
		points := drawn[l.name]
		if len(points) == 0 {
			continue
		}
		var d strings.Builder
		for j, p := range points {
			fmt.Fprintf(&d, "%c%.1f %.1f ", "ML"[min(j, 1)], px(p.x), py(p.y))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, px(p.x), py(p.y), colours[i])
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`, d.String(), colours[i])
		y := py(points[len(points)-1].y)
		if math.Abs(y-label) < 14 {
			y = label + 14
		}
		label = y
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" fill="%s">%s</text>`+"\n", w-right+6, y+4, colours[i], l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
