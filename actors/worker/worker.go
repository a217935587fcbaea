package worker

import (
	"context"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/kernel"
)

// Job is what a worker does on a goroutine. It tells the session what comes of it,
// unless ctx ends first.
type Job func(ctx context.Context, tell func(msg any))

// Worker is an actor that does one job. It starts the job, cancels it when it is
// stopped, and takes over its panics, so that supervision sees them. A worker
// whose job is done ends itself; from Terminated its session learns of one that
// has ended without a result.
type Worker struct {
	log    zerolog.Logger
	runs   kernel.Dispatcher
	job    Job
	cancel context.CancelFunc
}

// New makes the actor for a job. Its parent is the session.
func New(log zerolog.Logger, runs kernel.Dispatcher, job Job) *Worker {
	return &Worker{log: log, runs: runs, job: job}
}

// finished says that the job has come to its end.
type finished struct{}

// CancelJob ends the context of a job and leaves the worker alive, so that the job
// can still tell its result.
type CancelJob struct{}

func (w *Worker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		ctx, cancel := context.WithCancel(context.Background())
		w.cancel = cancel
		root, self, session := c.ActorSystem().Root, c.Self(), c.Parent()
		tell := func(msg any) { root.Send(session, msg) }
		w.runs.Go(func() { w.run(ctx, root, self, tell) })
	case *actor.Stopping, CancelJob:
		w.cancel()
	case finished:
		c.Stop(c.Self())
	case kernel.Crashed:
		panic(m.Reason)
	}
}

func (w *Worker) run(ctx context.Context, root *actor.RootContext, self *actor.PID, tell func(any)) {
	defer func() {
		if r := recover(); r != nil {
			w.log.Error().Str("actor", self.Id).Any("panic", r).Bytes("stack", debug.Stack()).Msg("worker crashed")
			root.Send(self, kernel.Crashed{Reason: r})
			return
		}
		root.Send(self, finished{})
	}()
	w.job(ctx, tell)
}

// Tokens bound how much a worker may have under way to its session: it takes
// one for each message, the session gives it back when the message is handled.
// An abort never waits behind more than that.
type Tokens chan struct{}

// streamTokens are few, so that parts gather while the session is busy.
const streamTokens = 4

// take waits for a token; false means that ctx ended first.
func (t Tokens) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Give takes a token back from a message that has been handled.
func (t Tokens) Give() {
	select {
	case <-t:
	default: // it was taken by a worker of a session that has crashed meanwhile
	}
}
