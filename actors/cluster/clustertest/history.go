package clustertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"troupe/actors/cluster"
)

// History is what clients sent and got. It is safe for concurrent use.
type History struct {
	mu         sync.Mutex
	acked      map[string]cluster.SessionID // keys
	abandoned  map[string]bool
	Reads      int
	Keys       func(lines []byte) []string // the keys of entries; nil where each is a key
	Replayed   int
	violations []string
}

// NewHistory is an empty one.
func NewHistory() *History {
	return &History{acked: map[string]cluster.SessionID{}, abandoned: map[string]bool{}}
}

// Acked notes that a command was acknowledged.
func (h *History) Acked(c Command, a Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[c.Key] = c.Session
	if a.Replayed {
		h.Replayed++
	}
}

// Abandoned notes that nobody will ask for a command again: its fate stays unknown.
func (h *History) Abandoned(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandoned[key] = true
}

// Count is how many commands were acknowledged, and abandoned.
func (h *History) Count() (acked, abandoned int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acked), len(h.abandoned)
}

// Read notes what a get showed (C8): acked is the last number that the client knew to be
// acknowledged in the session before it asked.
func (h *History) Read(c Command, a Answer, acked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Reads++
	if n := Number(a.Last); n < acked && !h.abandoned[a.Last] { // what was given up may come later, and be the last then
		h.violations = append(h.violations, fmt.Sprintf("C8: %s in %s: a read shows %q, and %d was acknowledged before", c.Key, c.Session, a.Last, acked))
	}
}

func (h *History) keys(lines []byte) []string {
	if h.Keys != nil {
		return h.Keys(lines)
	}
	return strings.Fields(string(lines))
}

func (h *History) violated(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violations = append(h.violations, fmt.Sprintf(format, args...))
}

// Number of a key.
func Number(key string) int {
	_, n, _ := strings.Cut(key, "/")
	i, _ := strconv.Atoi(n)
	return i
}

// Judge reads the logs of sessions through every engine and says what of the laws was
// broken. Each engine is another node's.
func (h *History) Judge(ctx context.Context, engines []cluster.Log, sessions []cluster.SessionID, effects []Effect) []string {
	where := map[string][]cluster.SessionID{} // of keys in the logs
	places := map[string][]int{}              // among the keys of their logs
	epochs := map[string]cluster.Seq{}
	started := map[string]bool{}
	for _, id := range sessions {
		var first []cluster.Record
		for i, e := range engines {
			records, err := h.log(ctx, e, id)
			if err != nil {
				h.violated("C1: session %s through engine %d: %v", id, i, err)
				continue
			}
			if i > 0 && !slices.EqualFunc(first, records, func(a, b cluster.Record) bool { return a.Mark() == b.Mark() && string(a.Lines) == string(b.Lines) }) {
				h.violated("C2: session %s is another through engine %d: %d records, not %d", id, i, len(records), len(first))
			}
			if i == 0 {
				first = records
			}
		}
		last, place := map[string]int{}, 0
		for _, r := range first {
			for _, key := range r.Keys {
				key, _, _ = strings.Cut(key, "\x00") // what it begins is its end
				started[key] = true
			}
			if r.Kind != cluster.Lines {
				continue
			}
			for _, key := range h.keys(r.Lines) {
				where[key], places[key] = append(where[key], id), append(places[key], place)
				place++
				epochs[key] = r.Epoch
				if !slices.Contains(r.Keys, key) {
					h.violated("keys of record %d of %s are %v, and its command is %s", r.Seq, id, r.Keys, key)
				}
				if c := client(key); Number(key) < last[c] && !h.abandoned[key] {
					h.violated("order: %s stands behind %s%d in %s", key, c, last[c], id)
				} else {
					last[c] = max(last[c], Number(key))
				}
			}
		}
	}
	for key, id := range h.acked {
		if !slices.Contains(where[key], id) {
			h.violated("C2: %s was acknowledged and is not in %s", key, id)
		}
	}
	for key, ids := range where {
		if len(ids) > 1 {
			h.violated("C3: %s is %d times in logs: %v, at %v among their commands", key, len(ids), ids, places[key])
		}
	}
	done := map[string]int{}
	for _, e := range effects {
		done[e.Key]++
		if !started[e.Key] {
			h.violated("C4: %s had an effect and is in no log", e.Key)
		} else if e.Epoch > 0 && epochs[e.Key] != e.Epoch { // a shell knows no epoch
			h.violated("C4: %s had its effect in epoch %d, and is written in %d", e.Key, e.Epoch, epochs[e.Key])
		}
	}
	for key, n := range done {
		if n > 1 {
			h.violated("C4: %s had its effect %d times", key, n)
		}
	}
	slices.Sort(h.violations)
	return h.violations
}

// log is a session's records, with their chain checked.
func (h *History) log(ctx context.Context, e cluster.Log, id cluster.SessionID) (records []cluster.Record, err error) {
	tail, err := e.Tail(ctx, id)
	if err != nil || tail.Seq == 0 {
		return nil, err
	}
	_, err = cluster.Load(ctx, e, id, cluster.Mark{}, tail.Seq, func(r cluster.Record) error {
		records = append(records, r)
		return nil
	})
	return records, err
}
