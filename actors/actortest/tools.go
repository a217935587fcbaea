package actortest

import (
	"context"
	"encoding/json"
	"time"

	"troupe/e2e/history"
	"troupe/protocol"
	"troupe/tools"
)

// Tools are tools without processes. What they do follows the words of the
// message that made the model call them (see [Models]):
//
//	note     answers; after work=MS, with a report of progress, if asked to
//	danger   like note; needs consent in the tests' configuration
//	deaf     like note, but does not hear of a cancel
//	boom     panics
func Tools(h *history.History) *tools.Registry {
	return tools.New(
		tool{"note", h, tool.note}, tool{"danger", h, tool.danger}, tool{"deaf", h, tool.deaf}, tool{"boom", h, tool.boom},
	)
}

// ToolNames are the names of the tools of Tools.
var ToolNames = []string{"note", "danger", "deaf", "boom"}

type tool struct {
	name string
	h    *history.History
	run  func(tool, context.Context, tools.Call, messageWords) string
}

func (t tool) Info() protocol.ToolInfo {
	return protocol.ToolInfo{
		Name: t.name, Description: "For tests.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}
}

func (t tool) Run(ctx context.Context, call tools.Call) (protocol.ToolResult, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return protocol.ToolResult{}, err
	}
	text := t.run(t, ctx, call, words(args.Text))
	if ctx.Err() != nil {
		return protocol.ToolResult{}, ctx.Err()
	}
	return protocol.ToolResult{Content: protocol.TextContent(text + args.Text)}, nil
}

func (t tool) note(ctx context.Context, call tools.Call, w messageWords) string {
	if ms := w.number("work", 0); ms > 0 {
		call.Progress(protocol.ToolResult{Content: protocol.TextContent("working")})
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return t.name + " did "
}

func (t tool) danger(ctx context.Context, call tools.Call, w messageWords) string {
	t.h.Add(history.Ran, call.ID)
	return t.note(ctx, call, w)
}

func (t tool) deaf(_ context.Context, call tools.Call, w messageWords) string {
	return t.note(context.Background(), call, w)
}

func (t tool) boom(context.Context, tools.Call, messageWords) string { panic("boom") }
