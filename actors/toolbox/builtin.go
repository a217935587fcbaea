package toolbox

import (
	"context"

	"troupe/protocol"
	"troupe/tools"
)

// builtin is the tools of a registry.
type builtin struct{ reg *tools.Registry }

// Builtin runs the tools of a registry.
func Builtin(reg *tools.Registry) Runner { return builtin{reg} }

func (b builtin) Infos() []protocol.ToolInfo { return b.reg.Infos() }

func (b builtin) Start(call protocol.ToolCall) (Work, error) {
	tool, args, err := b.reg.Accept(call.Name, call.Arguments)
	if err != nil {
		return nil, err
	}
	return Job(func(ctx context.Context, env *tools.Env, progress func(protocol.ToolResult)) (protocol.ToolResult, error) {
		return tool.Run(ctx, tools.Call{ID: call.ID, Args: args, Env: env, Progress: progress})
	}), nil
}
