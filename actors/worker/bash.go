package worker

import (
	"context"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/tools"
)

// Exec runs a command in a shell; see tools.Exec.
type Exec func(context.Context, tools.ExecSpec) (tools.ExecResult, error)

// BashJob runs a bash command of the client; with updates it tells of output while
// that comes. Unlike a tool call its result counts also when it was cancelled: the
// command still has to be answered. So it is ended by [CancelJob].
func BashJob(run Exec, e core.StartBash, env *tools.Env, updates bool) Job {
	return func(ctx context.Context, tell func(any)) {
		spec := tools.ExecSpec{Env: env, Command: e.Command, Sanitize: true}
		if updates {
			t := make(Tokens, streamTokens)
			spec.Delta = func(delta string) {
				if t.take(ctx) {
					tell(BashProgress{core.BashProgress{Job: e.Job, Delta: delta}, t})
				}
			}
		}
		result, err := run(ctx, spec)
		done := core.BashDone{Job: e.Job, Result: result.BashResult()}
		if err != nil {
			done.Err = protocol.CodeIO.Errorf("%s", err)
		}
		tell(done)
	}
}

// BashProgress is output with the token to give back for it.
type BashProgress struct {
	core.BashProgress
	Tokens Tokens
}
