package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Metrics counts what a node does, for who watches many. It is safe for concurrent use; the nil
// value counts nothing.
type Metrics struct {
	mu     sync.Mutex // guards what follows
	series map[string]*series
}

// series is a counter, or how long something took.
type series struct {
	sum     float64
	buckets []uint64 // one for each of bounds, and one beyond; none of a counter
}

// bounds are in seconds.
var bounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// Count adds to a counter. name may have labels: x_total{why="dead"}.
func (m *Metrics) Count(name string, n float64) { m.add(name, n, false) }

// Took notes how long something took.
func (m *Metrics) Took(name string, d time.Duration) { m.add(name, d.Seconds(), true) }

func (m *Metrics) add(name string, n float64, timed bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.series == nil {
		m.series = map[string]*series{}
	}
	s := m.series[name]
	if s == nil {
		s = new(series)
		m.series[name] = s
		if timed {
			s.buckets = make([]uint64, len(bounds)+1)
		}
	}
	if s.sum += n; timed {
		i, _ := slices.BinarySearch(bounds, n)
		s.buckets[i]++
	}
}

// Write writes all of it as text for Prometheus, with gauges of this moment.
func (m *Metrics) Write(w io.Writer, gauges map[string]float64) error {
	var text strings.Builder
	typed := map[string]bool{}
	kind := func(name, kind string) {
		if base, _, _ := strings.Cut(name, "{"); !typed[base] {
			typed[base] = true
			fmt.Fprintf(&text, "# TYPE %s %s\n", base, kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gauges)) {
		kind(name, "gauge")
		fmt.Fprintf(&text, "%s %v\n", name, gauges[name])
	}
	m.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(m.series)) {
		s, below := m.series[name], uint64(0)
		if s.buckets == nil {
			kind(name, "counter")
			fmt.Fprintf(&text, "%s %v\n", name, s.sum)
			continue
		}
		kind(name, "histogram")
		for i, n := range s.buckets {
			bound := "+Inf"
			if below += n; i < len(bounds) {
				bound = fmt.Sprint(bounds[i])
			}
			fmt.Fprintf(&text, "%s_bucket{le=%q} %d\n", name, bound, below)
		}
		fmt.Fprintf(&text, "%s_sum %v\n%s_count %d\n", name, s.sum, name, below)
	}
	m.mu.Unlock()
	_, err := io.WriteString(w, text.String())
	return err
}

// Measured is a log whose appends and damages are counted.
func Measured(log Engine, m *Metrics) Engine { return &measured{log, m} }

type measured struct {
	Engine
	m *Metrics
}

// Append implements [Log].
func (l *measured) Append(ctx context.Context, id SessionID, after Seq, r Record) (Seq, error) {
	begun := time.Now()
	seq, err := l.Engine.Append(ctx, id, after, r)
	if err == nil {
		l.m.Took("troupe_cluster_append_seconds", time.Since(begun))
		return seq, nil
	}
	l.m.Count(fmt.Sprintf("troupe_cluster_append_retries_total{why=%q}", reason(err)), 1)
	return seq, err
}

// Damaged implements [Log].
func (l *measured) Damaged(id SessionID, source string, err error) {
	l.m.Count("troupe_cluster_chain_errors_total", 1)
	l.Engine.Damaged(id, source, err)
}

// reason is an error in a word.
func reason(err error) string {
	for why, is := range map[string]error{"conflict": ErrConflict, "unavailable": ErrUnavailable, "full": ErrFull, "too_large": ErrTooLarge, "fenced": ErrFenced} {
		if errors.Is(err, is) {
			return why
		}
	}
	return "unknown"
}
