package failpoint

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parse reads a plan: faults, separated by semicolons. Empty text is the nil plan.
func Parse(text string) (*Plan, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	p := &Plan{text: text, released: make(chan struct{})}
	for one := range strings.SplitSeq(text, ";") {
		f, err := parseFault(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("fault plan: %w in %q", err, one)
		}
		p.faults = append(p.faults, f)
	}
	return p, nil
}

var actions = []action{actPanic, actPanicAfter, actDelay, actStall, actDrop, actKill, actKillAfter}

func parseFault(text string) (*fault, error) {
	f := &fault{text: text, seen: map[string]int{}, rngs: map[string]*rand.Rand{}, which: which{later: true}}
	words := strings.Fields(text)
	if len(words) == 0 || !slices.Contains(actions, action(words[0])) {
		return nil, fmt.Errorf("unknown action")
	}
	f.action, words = action(words[0]), words[1:]
	if f.action == actDelay && len(words) > 0 {
		d, err := time.ParseDuration(words[0])
		if err != nil {
			return nil, err
		}
		f.delay, words = d, words[1:]
	}
	if len(words) != 2 && len(words) != 3 {
		return nil, fmt.Errorf("want an actor, a message and perhaps which")
	}
	f.actor, f.msg = words[0], words[1]
	if _, err := path.Match(f.actor, ""); err != nil {
		return nil, err
	}
	if len(words) == 2 {
		return f, nil
	}
	var err error
	f.which, err = parseWhich(words[2])
	return f, err
}

func parseWhich(word string) (w which, err error) {
	if share, seed, random := strings.Cut(word, "/"); random {
		w.random = true
		if w.share, err = strconv.ParseFloat(share, 64); err != nil {
			return w, err
		}
		w.seed, err = strconv.ParseUint(seed, 10, 64)
		return w, err
	}
	word, w.later = strings.CutSuffix(word, "+")
	w.n, err = strconv.Atoi(word)
	return w, err
}
