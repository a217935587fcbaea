package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/tools"
)

// toolJob runs one tool call, once clients were shown that it will. Progress is cumulative, so while the session has
// not handled one report the next is left out: the result has it all.
func toolJob(root *actor.RootContext, to *actor.PID, run int, call protocol.ToolCall, env *tools.Env, reg *tools.Registry, shown *receipt) func(context.Context) {
	return func(ctx context.Context) {
		if !shown.wait(ctx) {
			return
		}
		t := make(tokens, 1)
		result, err := reg.Run(ctx, call.Name, tools.Call{
			ID: call.ID, Args: call.Arguments, Env: env,
			Progress: func(partial protocol.ToolResult) {
				select {
				case t <- struct{}{}:
					root.Send(to, toolProgress{session.ToolProgress{Run: run, CallID: call.ID, Partial: partial}, t})
				default:
				}
			},
		})
		if ctx.Err() != nil {
			return // nobody waits for it any more
		}
		done := session.ToolDone{Run: run, CallID: call.ID, Result: result}
		if err != nil {
			done.IsError = true
			done.Result = protocol.ToolResult{Content: protocol.TextContent(err.Error())}
		}
		root.Send(to, done)
	}
}

// toolProgress is a report with the token to give back for it.
type toolProgress struct {
	session.ToolProgress
	tokens tokens
}
