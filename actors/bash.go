package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/tools"
)

// bashJob runs a bash command of the client. Unlike a tool call its result
// counts also when it was cancelled: the command still has to be answered.
func bashJob(run Exec, root *actor.RootContext, to *actor.PID, job int, command string, env *tools.Env, stream bool) func(context.Context) {
	return func(ctx context.Context) {
		spec := tools.ExecSpec{Env: env, Command: command, Sanitize: true}
		if stream {
			t := make(tokens, streamTokens)
			spec.Delta = func(delta string) {
				if t.take(ctx) {
					root.Send(to, bashProgress{session.BashProgress{Job: job, Delta: delta}, t})
				}
			}
		}
		result, err := run(ctx, spec)
		done := session.BashDone{Job: job, Result: result.BashResult()}
		if err != nil {
			done.Err = protocol.CodeIO.Errorf("%s", err)
		}
		root.Send(to, done)
	}
}

// bashProgress is output with the token to give back for it.
type bashProgress struct {
	session.BashProgress
	tokens tokens
}

// bashWorker is a worker whose cancellation leaves it alive to deliver its
// result.
type bashWorker struct{ *worker }

// cancelJob asks a bash worker to end its command.
type cancelJob struct{}

func (w *bashWorker) Receive(c actor.Context) {
	if _, ok := c.Message().(cancelJob); ok {
		w.cancel()
		return
	}
	w.worker.Receive(c)
}

// bashEnv is where a client's command runs.
func (s *Session) bashEnv() *tools.Env {
	env := *s.work.env
	env.Environ = s.cfg.childEnviron(s.work.files.InheritEnv)
	return &env
}
