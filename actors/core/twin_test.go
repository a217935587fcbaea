package core

import (
	"slices"

	"troupe/protocol"
)

// twin is the machine's naive second implementation: only who is queued where
// and what is delivered when, written as plainly as the rules can be said.
type twin struct {
	set                       Settings
	steering, followUp        []string
	steerAll, followAll, wait bool
	delivered                 []string
	skipped                   int

	state     string // idle, asking, tools, retrying, compacting
	injected  map[string]bool
	big       bool   // the context nearly fills the window
	settled   bool   // since the last compaction there has been an answer
	usage     int64  // what the answer in progress reports
	then      string // after a compaction: turn, again, or nothing
	recovered bool
	input     int64 // what the answer in progress says its request took
	overflow  bool  // the answer was made of less than the request
	mine      bool  // by the model that is still selected
	joinable  bool  // started by an idle steer, first byte not seen
	calls     []string
	next      int // first call not finished; in parallel the number finished
	hadCalls  bool
	tries     int
	retryWon  bool
	parallel  bool
	dialogs   int // parallel: dialogs open
}

func newTwin(set Settings) *twin {
	return &twin{
		set: set, state: "idle", steering: []string{}, followUp: []string{}, delivered: []string{},
		injected: map[string]bool{}, parallel: set.Rules.ParallelTools,
	}
}

func (w *twin) prompt(text string, b protocol.StreamingBehavior) {
	active := w.state != "idle"
	switch {
	case active && b == protocol.BehaviorSteer:
		w.steering = append(w.steering, text)
	case active && b == protocol.BehaviorFollowUp:
		w.followUp = append(w.followUp, text)
	case w.joinable:
		w.delivered = append(w.delivered, text)
	case w.state == "compacting" && w.then != "turn" && !w.set.Rules.RejectPromptGap:
		w.followUp = append(w.followUp, text)
	case w.state == "retrying" && !w.set.Rules.RejectPromptGap:
		w.tries = 0
		w.start(text)
	case !active:
		w.start(text)
	}
}

func (w *twin) say(text string, kind protocol.QueueKind) {
	starts := w.state == "idle" && !w.set.Rules.IdleQueueWaits
	queue := &w.followUp
	if kind == protocol.QueueSteer {
		queue = &w.steering
	}
	if starts && len(*queue) == 0 {
		w.joinable = w.start(text)
		return
	}
	*queue = append(*queue, text)
	switch {
	case !starts:
	case w.full():
		w.state, w.then = "compacting", ""
	default:
		w.startQueued()
		w.joinable = true
	}
}

// start says whether the run begins now: a full context is compacted first.
func (w *twin) start(text string) bool {
	if w.full() {
		w.followUp = append(w.followUp, text)
		w.state, w.then = "compacting", ""
		return false
	}
	w.recovered = false
	w.delivered = append(w.delivered, text)
	w.begin()
	return true
}

func (w *twin) full() bool { return w.big && w.settled }

func (w *twin) inject(text string) {
	w.steering = append(w.steering, text)
	w.injected[text] = true
}

func (w *twin) compact() {
	if w.state == "compacting" {
		return
	}
	w.abort()
	w.state, w.then = "compacting", ""
}

// compacted ends a compaction, with a summary or without.
func (w *twin) compacted(done bool) {
	w.settled = false
	if done {
		w.big = false
	}
	switch then := w.then; {
	case then == "turn":
		w.turnOver()
	case (then == "again" || then == "instead") && done:
		w.begin()
	case then == "again":
		w.state = "idle"
	default:
		w.startQueued()
	}
}

func (w *twin) startQueued() {
	wanted := len(w.followUp) > 0 || slices.ContainsFunc(w.steering, func(s string) bool { return !w.injected[s] })
	if !wanted {
		w.state = "idle"
		return
	}
	w.recovered = false
	if !w.takeSteering() {
		w.takeFollowUp()
	}
	w.ask()
}

// over ends a run.
func (w *twin) over() {
	w.state = "idle"
	overflow := w.overflow
	w.overflow = false
	switch {
	case overflow && w.set.Rules.OverflowStands:
		w.state, w.then = "compacting", ""
	case overflow && w.mine && !w.recovered:
		w.recovered = true
		w.state, w.then = "compacting", "instead"
	case w.full():
		w.state, w.then = "compacting", ""
	}
}

func (w *twin) begin() {
	w.takeSteering()
	w.ask()
}

func (w *twin) ask() {
	w.state, w.joinable, w.calls, w.next, w.dialogs, w.usage, w.input = "asking", false, nil, 0, 0, 0, 0
}

func (w *twin) takeSteering() bool {
	n := min(1, len(w.steering))
	if w.steerAll {
		n = len(w.steering)
	}
	w.delivered = append(w.delivered, w.steering[:n]...)
	w.steering = slices.Clone(w.steering[n:])
	return n > 0
}

func (w *twin) takeFollowUp() bool {
	n := min(1, len(w.followUp))
	if w.followAll {
		n = len(w.followUp)
	}
	w.delivered = append(w.delivered, w.followUp[:n]...)
	w.followUp = slices.Clone(w.followUp[n:])
	return n > 0
}

func (w *twin) firstByte() { w.joinable = false }

func (w *twin) abort() {
	if w.state == "compacting" {
		w.settled = false
	}
	w.state, w.joinable, w.tries, w.retryWon = "idle", false, 0, false
}

func (w *twin) failed(retryable, overflow bool, repeats int) {
	w.joinable, w.overflow = false, false
	if w.retryWon {
		w.tries, w.retryWon = 0, false
	}
	if w.tries += repeats; retryable && w.tries < w.set.MaxRetries {
		w.tries++
		w.state = "retrying"
		return
	}
	w.tries = 0
	switch {
	case overflow && w.recovered:
		w.state = "idle"
	case overflow:
		w.recovered = true
		w.state, w.then = "compacting", "again"
	default:
		w.over()
	}
}

func (w *twin) retryDue() { w.begin() }

// answered is a whole answer with these tool calls; "cut" is a call that cannot
// be run.
func (w *twin) answered(names []string) {
	w.joinable, w.settled = false, true
	w.overflow = w.input > 100_000 && len(names) == 0
	w.recovered = w.recovered && w.overflow
	if w.usage > 0 {
		w.big = w.usage > 1000
	}
	w.retryWon = w.tries > 0
	w.calls, w.next, w.hadCalls = names, 0, len(names) > 0
	w.state = "tools"
	if w.parallel {
		for _, n := range names {
			if n == "cut" {
				w.next++
			}
		}
		w.parallelOver()
		return
	}
	w.run()
}

// run skips over calls that end by themselves, up to one that is waited for.
func (w *twin) run() {
	for w.next < len(w.calls) {
		if w.next > 0 && !w.wait && len(w.steering) > 0 {
			w.skipped += len(w.calls) - w.next
			w.next = len(w.calls)
			break
		}
		if w.calls[w.next] != "cut" {
			return
		}
		w.next++
	}
	w.turnOver()
}

func (w *twin) toolDone() {
	w.next++
	if w.parallel {
		w.parallelOver()
		return
	}
	w.run()
}

func (w *twin) parallelOver() {
	if w.next == len(w.calls) {
		w.turnOver()
	}
}

// consent answers the open dialog: refused is as good as done.
func (w *twin) consent(ok bool) {
	if !ok {
		w.toolDone()
	}
}

func (w *twin) turnOver() {
	goesOn := len(w.steering) > 0 || w.hadCalls || len(w.followUp) > 0
	if goesOn && w.full() {
		w.state, w.then = "compacting", "turn"
		return
	}
	if goesOn {
		if !w.takeSteering() && !w.hadCalls {
			w.takeFollowUp()
		}
		w.ask()
		return
	}
	if w.retryWon {
		w.tries, w.retryWon = 0, false
	}
	w.over()
}
