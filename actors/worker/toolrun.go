package worker

import (
	"context"
	"errors"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/tools"
)

// ToolJob runs one tool call after clients were shown it; a nil receipt waits for
// nobody. Progress is cumulative, so while the session has not handled
// one report the next is left out: the result has it all.
func ToolJob(attempt core.Attempt, id string, shown *link.Receipt, call func(ctx context.Context, progress func(protocol.ToolResult)) (protocol.ToolResult, error)) Job {
	return func(ctx context.Context, tell func(any)) {
		if !shown.Wait(ctx) {
			return
		}
		t := make(Tokens, 1)
		result, err := call(ctx, func(partial protocol.ToolResult) {
			select {
			case t <- struct{}{}:
				tell(ToolProgress{core.ToolProgress{Attempt: attempt, CallID: id, Partial: partial}, t})
			default:
			}
		})
		if ctx.Err() == nil { // otherwise nobody waits for it any more
			tell(ToolEnd(attempt, id, result, err))
		}
	}
}

// ToolEnd is the end of a call, with a result or with an error for the model.
func ToolEnd(attempt core.Attempt, id string, result protocol.ToolResult, err error) core.ToolDone {
	done := core.ToolDone{Attempt: attempt, CallID: id, Result: result}
	var whole ErrorResult
	var sandboxed *tools.SandboxedError
	switch {
	case errors.As(err, &whole):
		done.IsError, done.Result = true, whole.ToolResult
	case err != nil:
		done.IsError = true
		done.Result = protocol.ToolResult{Content: protocol.TextContent(err.Error()), Structured: result.Structured}
		if errors.As(err, &sandboxed) {
			done.Result.Details = sandboxed.Details()
		}
	}
	return done
}

// ErrorResult is the error of a call that has more to it than a text.
type ErrorResult struct{ protocol.ToolResult }

func (e ErrorResult) Error() string { return e.Content.Text("\n") }

// ToolProgress is a report with the token to give back for it.
type ToolProgress struct {
	core.ToolProgress
	Tokens Tokens
}
