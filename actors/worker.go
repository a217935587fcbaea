package actors

import (
	"context"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// worker is an actor that does one job on a goroutine of the crew: a stream of a
// model, a tool call, a bash command. The goroutine tells the session what
// comes of it; the actor starts it, cancels it when it is stopped, and dies of
// its panics, so that supervision sees them. A worker whose job is done ends
// itself; one that ends without having delivered a result is noticed by its
// session through Terminated.
type worker struct {
	log    zerolog.Logger
	crew   *crew
	job    func(ctx context.Context) // delivers its result itself, unless ctx ends
	cancel context.CancelFunc
}

// worker makes the actor for a job of this session.
func (s *Session) worker(job func(ctx context.Context)) *worker {
	return &worker{log: s.log, crew: s.cfg.crew, job: job}
}

func (w *worker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		ctx, cancel := context.WithCancel(context.Background())
		w.cancel = cancel
		root, self := c.ActorSystem().Root, c.Self()
		w.crew.hand(func() { w.run(ctx, root, self) })
	case *actor.Stopping:
		w.cancel()
	case finished:
		c.Stop(c.Self())
	case crashed:
		panic(m.reason)
	}
}

func (w *worker) run(ctx context.Context, root *actor.RootContext, self *actor.PID) {
	defer func() {
		if r := recover(); r != nil {
			w.log.Error().Str("actor", self.Id).Any("panic", r).Bytes("stack", debug.Stack()).Msg("worker crashed")
			root.Send(self, crashed{r})
			return
		}
		root.Send(self, finished{})
	}()
	w.job(ctx)
}

// stopWorkers is how sessions supervise their workers: a crash ends the job,
// for nobody knows what it has done already.
var stopWorkers = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// tokens bound how much a worker may have under way to its session: it takes
// one for each message, the session gives it back when the message is handled.
// An abort never waits behind more than that.
type tokens chan struct{}

const streamTokens = 4 // batches of parts: few, so that parts gather while the session is busy

// take waits for a token; false means that ctx ended first.
func (t tokens) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// give takes a token back from a message that has been handled.
func (t tokens) give() {
	select {
	case <-t:
	default: // its taker is of an earlier life of the session
	}
}
