package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"troupe/protocol"
	"troupe/tools"
	"troupe/tools/extension/quick"
)

// toolCall is what JavaScript says of a call of a built-in tool.
type toolCall struct {
	Cwd    string `json:"cwd"`
	CallID string `json:"callId"`
	Prefix string `json:"prefix"`
	Shell  string `json:"shellPath"`
}

func toolOps() map[string]operation {
	return map[string]operation{
		"tool.info": func(c *opCall) (any, error) {
			t, ok := c.host.tools.Lookup(c.args.text(0))
			if !ok {
				return nil, tools.UnknownToolError(c.args.text(0))
			}
			i := t.Info()
			return map[string]any{"name": i.Name, "description": i.Description, "parameters": i.Parameters, "promptSnippet": i.Snippet, "promptGuidelines": i.Guidelines}, nil
		},
		"models": func(c *opCall) (any, error) {
			if c.host.o.Models == nil {
				return quick.JSON("[]"), nil
			}
			return quick.JSON(c.host.o.Models(c.args.text(0))), nil
		},
		"models.name": func(c *opCall) (any, error) {
			if c.host.o.ProviderName == nil {
				return c.args.text(0), nil
			}
			return c.host.o.ProviderName(c.args.text(0)), nil
		},
		"tool.run": func(c *opCall) (any, error) { return c.runTool(nil) },
	}
}

// runTool runs a built-in tool: name, arguments, options.
func (c *opCall) runTool(progress func(protocol.ToolResult)) (any, error) {
	name := c.args.text(0)
	var o toolCall
	if err := c.args.into(2, &o); err != nil {
		return nil, err
	}
	o.Cwd = cmp.Or(o.Cwd, c.cwd)
	home, _ := os.UserHomeDir() // "" leaves ~ as it is
	t, input, err := c.host.tools.Accept(name, c.args.json(1))
	if err != nil {
		return nil, err
	}
	env := &tools.Env{
		Cwd: o.Cwd, Home: home, Environ: os.Environ(), Shell: o.Shell, ShellPrefix: o.Prefix, AutoResize: true,
		Files: c.host.o.Files, Procs: c.procs,
	}
	r, err := t.Run(c.ctx, tools.Call{ID: o.CallID, Args: input, Env: env, Progress: progress})
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	return toolResult(r), nil
}

func toolResult(r protocol.ToolResult) json.RawMessage { return protocol.AppendValue(nil, r) }

// toolStream is a built-in tool whose progress is heard.
func toolStream(c *opCall, say emit) (stream, func(), error) {
	ctx, cancel := context.WithCancel(c.ctx)
	one := *c
	one.ctx = ctx
	return killer{cancel}, func() {
		defer cancel()
		r, err := one.runTool(func(r protocol.ToolResult) { say("update", toolResult(r)) })
		if err != nil {
			say("error", &failure{Message: err.Error()})
			return
		}
		say("result", r)
	}, nil
}
