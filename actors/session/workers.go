package session

import (
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/tools"
)

// job is a running worker.
type job struct {
	kind    core.WorkerKind
	attempt core.Attempt // 0 of what belongs to none
	number  int          // of a bash command
	id      string
	pid     *actor.PID
	stop    *tools.Interrupt // of a tool call; nil for others
}

// jobs are the workers of a session.
type jobs struct {
	running  map[string]job           // by PID
	receipts map[string]*link.Receipt // of calls that clients look at first, by call
	timers   map[string]*time.Timer   // by the machine's names; nil for none
	isolated int                      // workers for workspaces so far: their names
	leaving  leaving
}

// leaving are minders of children that stop when clients have been told of it.
type leaving struct {
	minders []*actor.PID   // of the step that goes on
	told    *link.Receipt  // of the end of its run; nil where nobody is told
	ending  []*actor.PID   // minders whose children stop, or are about to
	asked   []link.Request // what the session has cost, by a parent that has left it: these children, too
}

func newJobs() jobs {
	return jobs{running: map[string]job{}, receipts: map[string]*link.Receipt{}}
}

// track remembers a worker under its PID.
func (w *jobs) track(pid *actor.PID, j job) {
	j.pid = pid
	w.running[pid.Id] = j
}

// busy says whether a job is under way. The workers that keep delays and dialogs
// stay for the next ones.
func (w *jobs) busy() bool {
	if len(w.leaving.minders)+len(w.leaving.ending) > 0 {
		return true
	}
	for _, j := range w.running {
		if j.kind != core.WorkerRetry && j.kind != core.WorkerUI {
			return true
		}
	}
	return false
}

// setTimer has the machine told after a while.
func (w *jobs) setTimer(c actor.Context, e core.SetTimer) {
	w.cancelTimer(e.Name)
	if w.timers == nil {
		w.timers = map[string]*time.Timer{}
	}
	w.timers[e.Name] = kernel.After(c, time.Duration(e.AfterMs)*time.Millisecond, c.Self(), core.TimerDue{Name: e.Name})
}

func (w *jobs) cancelTimer(name string) {
	if t := w.timers[name]; t != nil {
		t.Stop()
		delete(w.timers, name)
	}
}

func (w *jobs) stopTimers() {
	for _, t := range w.timers {
		t.Stop()
	}
	w.timers = nil
}

// stop stops every worker.
func (w *jobs) stop(c actor.Context) {
	w.stopTimers()
	for _, j := range w.running {
		c.Stop(j.pid)
	}
	for _, pid := range slices.Concat(w.leaving.minders, w.leaving.ending) {
		c.Stop(pid)
	}
	*w = newJobs()
}

// cancel stops what was begun as an attempt. What still comes of it is stale.
func (w *jobs) cancel(c actor.Context, e core.Cancel) {
	for id, j := range w.running {
		switch {
		case j.attempt != e.Attempt:
		case j.kind == core.WorkerRetry:
			c.Send(j.pid, e)
		case j.kind == core.WorkerChild:
			delete(w.running, id)
			w.leaving.minders = append(w.leaving.minders, j.pid)
		default:
			w.cutShort(c, id)
		}
	}
}

// childrenLeave is when children that were cancelled stop.
type childrenLeave struct{ minders []*actor.PID }

func (l childrenLeave) stop(c actor.Context) {
	for _, pid := range l.minders {
		c.Send(pid, abandoned{})
	}
}

// childrenLeft comes behind the last that such children have said.
type childrenLeft struct{}

// toldWithin is how long they wait for a client that does not read.
const toldWithin = 10 * time.Millisecond

// letLeave stops the children that were cancelled when clients have read that the run is
// over. A hundred of them keep all processors busy with their ends, and who has asked for
// that hears first that it is done.
func (w *jobs) letLeave(c actor.Context) {
	l := &w.leaving
	told, leave := l.told, childrenLeave{l.minders}
	l.told, l.minders, l.ending = nil, nil, append(l.ending, l.minders...)
	if told == nil {
		leave.stop(c)
		return
	}
	kernel.Background(c, func() any {
		late := time.NewTimer(toldWithin)
		defer late.Stop()
		select {
		case <-told.Done():
		case <-late.C:
		}
		return leave
	})
}

// cancelOne stops what an attempt does under an id: a call, or something with the
// workspace of an item. What still comes of it is stale.
func (w *jobs) cancelOne(c actor.Context, kind core.WorkerKind, attempt core.Attempt, of string) {
	for id, j := range w.running {
		if j.kind == kind && j.attempt == attempt && j.id == of {
			w.cutShort(c, id)
		}
	}
}

// cutShort stops a worker and forgets it.
func (w *jobs) cutShort(c actor.Context, id string) {
	j := w.running[id]
	delete(w.running, id)
	j.stop.Now() // not by a goroutine that wakes up after all of the end is written
	c.Stop(j.pid)
}

// cancelBash ends a command of the client, whose result still counts.
func (w *jobs) cancelBash(c actor.Context, number int) {
	for _, j := range w.running {
		if j.kind == core.WorkerBash && j.number == number {
			c.Send(j.pid, worker.CancelJob{})
		}
	}
}

// ended queues the end of a worker behind whatever it has sent before: Terminated
// is a system message and would overtake a result.
func (w *jobs) ended(c actor.Context, pid *actor.PID) {
	w.leaving.ending = slices.DeleteFunc(w.leaving.ending, func(of *actor.PID) bool { return of.Equal(pid) })
	if len(w.leaving.asked) > 0 && len(w.leaving.ending) == 0 {
		c.Send(c.Self(), childrenLeft{})
	}
	if j, ok := w.running[pid.Id]; ok {
		delete(w.running, pid.Id)
		c.Send(c.Self(), core.WorkerGone{Kind: j.kind, Attempt: j.attempt, Job: j.number, ID: j.id})
	}
}

func (s *Session) spawn(c actor.Context, name string, produce actor.Producer) *actor.PID {
	full := s.handle + "/" + name
	pid, err := c.SpawnNamed(s.kernel.Props(produce, full), name)
	if err != nil { // the name is taken by a worker that has not quite ended
		pid = c.SpawnPrefix(s.kernel.Props(produce, full), name+"~"+strconv.FormatInt(time.Now().UnixNano(), 36))
	}
	return pid
}

func (s *Session) scheduleRetry(c actor.Context, e core.ScheduleRetry) {
	f := s.work.files.Retry
	policy := worker.RetryPolicy{Base: time.Duration(f.BaseDelayMs) * time.Millisecond, Max: time.Duration(f.MaxAgentDelayMs) * time.Millisecond}
	pid := s.keeper(c, core.WorkerRetry, "retry", func() actor.Actor { return &worker.RetrySupervisor{Policy: policy} })
	s.jobs.track(pid, job{kind: core.WorkerRetry, attempt: e.Attempt})
	c.Send(pid, e)
}

// tellUI tells the worker that keeps the dialogs.
func (s *Session) tellUI(c actor.Context, m any) {
	c.Send(s.keeper(c, core.WorkerUI, "ui", func() actor.Actor { return &worker.UIBroker{} }), m)
}

// keeper is the worker of a kind of which there is one, spawned when it is first
// needed.
func (s *Session) keeper(c actor.Context, kind core.WorkerKind, name string, produce actor.Producer) *actor.PID {
	for _, j := range s.jobs.running {
		if j.kind == kind {
			return j.pid
		}
	}
	pid := s.spawn(c, name, produce)
	s.jobs.track(pid, job{kind: kind})
	return pid
}
