package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// Window bounds what is under way between one client and its sessions: a
// balance in bytes. The reader debits each line that it reads, with room for an
// answer, until the command reaches its handler. Who sends a record to the
// client debits its encoded size, until the writer has written it.
//
// While half of the window is used up by records that are not written
//
//   - sessions take no further message from their workers, so that models and
//     tools wait, too;
//   - large answers are not made: the questions wait, with the view of the
//     session that they are to show.
//
// The other half is left for small answers, so that an abort stops a run though
// nobody reads. While all of the window is used up the reader reads no further
// line. So what a client does not read costs no more than the limit and one
// record for each of its sessions, whatever it asks for, in every mode.
//
// The balance is shared by the parts of a connection and its sessions, each on
// its own goroutine: mu guards it.
type Window struct {
	limit int
	lossy bool // no session waits for the client: what it does not read is dropped
	root  *actor.RootContext

	mu      sync.Mutex
	in      int           // bytes of lines that have not reached their handler
	out     int           // bytes of records that are not written
	most    int           // the largest out there was
	closed  bool          // nothing can be written any more: nobody waits
	reader  bool          // the reader waits
	wake    chan struct{} // wakes it; has room for one
	waiting []*actor.PID  // is sent WindowOpen
}

// NewLossyWindow is for a client whose events are dropped if it does not read them. Only
// large answers to itself wait for it.
func NewLossyWindow(limit int, root *actor.RootContext) *Window {
	w := NewWindow(limit, root)
	w.lossy = true
	return w
}

// WindowOpen tells an actor that has asked for it by [Window.Tell] that the window
// is open again.
type WindowOpen struct{}

// AnswerRoom is how many bytes a line takes beside its own: room for a small
// answer. Answers above that are made only while the window is open.
const AnswerRoom = 2 << 10

func NewWindow(limit int, root *actor.RootContext) *Window {
	return &Window{limit: limit, root: root, wake: make(chan struct{}, 1)}
}

// Credit is what was debited for one line. The zero value is nothing.
type Credit struct {
	of    *Window
	Bytes int
}

// Admit waits until a line of so many bytes may come in; false if it was
// stopped. A line of any size gets in when there is room at all.
func (w *Window) Admit(line int, stop <-chan struct{}) (Credit, bool) {
	n := line + AnswerRoom
	for {
		w.mu.Lock()
		if w.closed || w.in+w.out < w.limit {
			w.in += n
			w.mu.Unlock()
			return Credit{w, n}, true
		}
		w.reader = true
		w.mu.Unlock()
		select {
		case <-w.wake:
		case <-stop:
			return Credit{}, false
		}
	}
}

// Enter debits a command that does not come in a line, without waiting.
func (w *Window) Enter(bytes int) Credit {
	n := bytes + AnswerRoom
	w.change(n, 0)
	return Credit{w, n}
}

// GiveBack credits the line. It may be called once.
func (c Credit) GiveBack() {
	if c.of != nil {
		c.of.change(-c.Bytes, 0)
	}
}

// take debits records on their way to the writer.
func (w *Window) take(bytes int) {
	w.mu.Lock()
	w.out += bytes
	w.most = max(w.most, w.out)
	w.mu.Unlock()
}

// Give credits records that are written, or will never be.
func (w *Window) Give(bytes int) { w.change(0, -bytes) }

func (w *Window) change(in, out int) {
	w.mu.Lock()
	w.in, w.out = w.in+in, w.out+out
	w.notify()
	w.mu.Unlock()
}

// Close ends all waiting: the client can be written to no more.
func (w *Window) Close() {
	w.mu.Lock()
	w.closed = true
	w.notify()
	w.mu.Unlock()
}

// notify is called with mu held. Those who wait are told when a quarter of the
// window has become free, so that they do not take turns record by record.
func (w *Window) notify() {
	if w.reader && (w.closed || w.in+w.out <= w.limit/4*3) {
		w.reader = false
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	if len(w.waiting) == 0 || !w.closed && w.out > w.limit/4 {
		return
	}
	for _, pid := range w.waiting {
		w.root.Send(pid, WindowOpen{})
	}
	w.waiting = nil
}

// Holds says whether sessions make no more events before the client has read.
func (w *Window) Holds() bool { return !w.lossy && w.Full() }

// Lossy says that events for the client are dropped rather than waited for.
func (w *Window) Lossy() bool { return w.lossy }

// Out is how many bytes of records are not written.
func (w *Window) Out() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out
}

// Full says whether the client has to read before more is made for it.
func (w *Window) Full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.closed && w.out >= w.limit/2
}

// Room is how many bytes of records may be made, 0 if it is full.
func (w *Window) Room() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.limit/2-w.out)
}

// Tell sends WindowOpen to an actor once the window is open.
func (w *Window) Tell(pid *actor.PID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.waiting {
		if other.Equal(pid) {
			return
		}
	}
	w.waiting = append(w.waiting, pid)
	w.notify()
}

// Peak is the largest out there was since it was last asked for; for tests.
func (w *Window) Peak() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := w.most
	w.most = w.out
	return most
}

// Balance is for tests.
func (w *Window) Balance() (in, out int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.in, w.out
}
