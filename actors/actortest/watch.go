package actortest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/failpoint"
	"troupe/e2e/history"
)

// Watch records two things that an actor system does apart from its work: messages to actors that
// have stopped, and crashes.
type Watch struct {
	system  *actor.ActorSystem
	mu      sync.Mutex
	history *history.History
	letters []string
	crashes map[string][]any // reasons of the crashes, by actor
}

// NewWatch returns a Watch that also writes its records to a history.
func NewWatch(h *history.History) *Watch { return &Watch{history: h, crashes: map[string][]any{}} }

// Observe subscribes to the events of an actor system. It is a Config.Observe.
func (w *Watch) Observe(sys *actor.ActorSystem) {
	w.system = sys
	sys.EventStream.Subscribe(func(ev any) {
		switch ev := ev.(type) {
		case *actor.DeadLetterEvent:
			w.letter(ev)
		case *actor.SupervisorEvent:
			w.crash(ev)
		}
	})
}

func (w *Watch) letter(ev *actor.DeadLetterEvent) {
	text := fmt.Sprintf("%s to %s", kindOf(ev.Message), ev.PID.Id)
	w.history.Notef("dead letter: %s", text)
	if expected(ev) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.letters = append(w.letters, text)
}

// kindOf returns the name of a message's type without its package.
func kindOf(m any) string {
	kind := fmt.Sprintf("%T", m)
	return kind[strings.LastIndexByte(kind, '.')+1:]
}

// expected reports whether a message may be a dead letter: it notifies an actor that has stopped in
// the meantime, or it belongs to actors that stop at the same time.
func expected(ev *actor.DeadLetterEvent) bool {
	kind := kindOf(ev.Message)
	for _, kinds := range ourLetters {
		if slices.Contains(kinds, kind) {
			return true
		}
	}
	// To a child whose minder was stopped with its run.
	return slices.Contains(libraryLetters, kind) || strings.Contains(ev.PID.Id, "/sub/")
}

var libraryLetters = []string{"Stop", "Watch", "Unwatch", "Terminated"}

var ourLetters = map[string][]string{
	"of a worker's goroutine, after its actor was stopped": {"finished", "Crashed", "said"},
	"at the end of a connection": {
		"Left", "Quiet",
		"wrote", "Forget", "Closed", "status", "uses", "drained", "flushed", "limit", "connect", "Shutdown", "line", "lineTooLong", "inputClosed",
	},
	"to a session that has let the client go already, and more strictly": {"Leave"},
	"to who is done already": {"RouteClosed", "Cancel", "abandoned", "leavingLate", "CancelJob", "CancelUI", "RetryDue", "RetryScheduled", "uiTimeout", "Users", "told", "due", "renewal", "renewed"},
	"of a job, to extensions that have just ended: it was answered when they did": {"beside"},
	"to a session that closed while its worker spoke": {
		"StreamParts", "LoginWaits", "ToolProgress", "BashProgress", "StreamEnd", "ToolDone", "BashDone", "WorkerGone", "procsGone", "groupDue",
		"reconfigured", "discovered", "CommandOver", "trustSaid", "leftBehind", "loadedSession", "WindowOpen", "QueryDone",
		"ChildOpened", "ChildTold", "ChildReplied", "ChildSettled", "ChildAborted", "ChildLeft", "childrenLeave", "childrenLeft", "childProgress", "GrantAsked", "ChildSpent", "Granted", "Pooled",
	},
}

func (w *Watch) crash(ev *actor.SupervisorEvent) {
	w.history.Notef("crash of %s: %v: %v", ev.Child.Id, ev.Directive, ev.Reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.crashes[ev.Child.Id] = append(w.crashes[ev.Child.Id], ev.Reason)
}

// Letters returns the unexpected dead letters.
func (w *Watch) Letters() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.letters...)
}

// Crashes returns how often an actor has crashed.
func (w *Watch) Crashes(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.crashes[id])
}

// Uninvited returns the crashes that were caused neither by a fault plan nor by a test tool.
func (w *Watch) Uninvited() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, reasons := range w.crashes {
		for _, r := range reasons {
			if _, injected := r.(failpoint.Injected); injected || r == "boom" || strings.Contains(fmt.Sprint(r), "panics") {
				continue
			}
			list = append(list, fmt.Sprintf("%s: %v", id, r))
		}
	}
	return list
}

// Actors returns the number of actors in the system.
func (w *Watch) Actors() (n int) {
	for _, shard := range w.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += shard.Count()
	}
	return n
}

// SendToParent sends a message to the parent of the actor whose id ends with child.
func (w *Watch) SendToParent(t testing.TB, child string, message any) {
	t.Helper()
	for _, shard := range w.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range shard.Keys() {
			if parent, is := strings.CutSuffix(id, child); is {
				w.system.Root.Send(w.system.NewLocalPID(parent), message)
				return
			}
		}
	}
	t.Fatalf("no actor has an id that ends with %q", child)
}
