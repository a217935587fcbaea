package actortest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/tools"
)

// Exec is a shell without processes: a Config.Exec. Words of the command:
//
//	sleep=MS  fake milliseconds before it ends, unless it is cancelled
//	out=N     lines of output, 1 by default
//	exit=N    its exit code
//	deaf      it does not hear of a cancel
//	missing   it cannot be started
func Exec(ctx context.Context, spec tools.ExecSpec) (tools.ExecResult, error) {
	w := words(spec.Command)
	if w.has("missing") {
		return tools.ExecResult{}, errors.New("no shell")
	}
	out := ""
	for i := range w.number("out", 1) {
		line := fmt.Sprintf("%d of %s\n", i, spec.Command)
		if out += line; spec.Delta != nil {
			spec.Delta(line)
		}
	}
	result := tools.ExecResult{ExitCode: w.number("exit", 0)}
	result.Output.Content = out
	if ms := w.number("sleep", 0); ms > 0 {
		cancel := ctx.Done()
		if w.has("deaf") {
			cancel = nil
		}
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-cancel:
		}
	}
	result.Cancelled = ctx.Err() != nil
	return result, nil
}
