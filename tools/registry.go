package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"troupe/protocol"
)

// Registry is an ordered set of tools. It does not change.
type Registry struct {
	tools  []Tool
	byName map[string]Tool
	infos  []protocol.ToolInfo
}

// defaultActive are the tools a session begins with, in this order.
var defaultActive = []string{"read", "bash", "edit", "write"}

// New returns the built-in tools, followed by more. One with the name of an
// earlier tool takes its place.
func New(more ...Tool) *Registry {
	r := &Registry{byName: make(map[string]Tool)}
	builtin := []Tool{newRead(), newBash(), newEdit(), newWrite(), newGrep(), newFind(), newLs()}
	for _, t := range append(builtin, more...) {
		r.add(t)
	}
	return r
}

func (r *Registry) add(t Tool) {
	name := t.Info().Name
	if _, taken := r.byName[name]; taken {
		for i, old := range r.tools {
			if old.Info().Name == name {
				r.tools[i] = t
			}
		}
	} else {
		r.tools = append(r.tools, t)
	}
	r.byName[name], r.infos = t, nil
	for _, t := range r.tools {
		r.infos = append(r.infos, t.Info())
	}
	r.infos = slices.Clip(r.infos)
}

// Bound is the set for a session that is bound by a sandbox: bash can be asked to do
// without it.
func (r *Registry) Bound() *Registry {
	bound := New(r.tools...)
	if _, own := r.byName["bash"].(bash); own {
		bound.add(bashFor[boundArgs]())
	}
	return bound
}

// Lookup finds a tool by its exact name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	t, ok := r.byName[name]
	return t, ok
}

// Names lists all tools in order.
func (r *Registry) Names() []string {
	names := make([]string, len(r.tools))
	for i, t := range r.tools {
		names[i] = t.Info().Name
	}
	return names
}

// Infos describes all tools in order. Nobody writes to the list.
func (r *Registry) Infos() []protocol.ToolInfo { return r.infos }

// DefaultActive names the tools a session begins with.
func (r *Registry) DefaultActive() []string { return append([]string(nil), defaultActive...) }

// Run validates the arguments of a call, changes them where that makes them
// fit (see [ValidateArgs]), and runs the tool. Every error is written for the
// model.
func (r *Registry) Run(ctx context.Context, name string, call Call) (protocol.ToolResult, error) {
	t, args, err := r.Accept(name, call.Args)
	if err != nil {
		return protocol.ToolResult{}, err
	}
	call.Args = args
	return t.Run(ctx, call)
}

// mender is a tool that knows what models get wrong in its arguments beyond what
// a schema can say.
type mender interface {
	mend(args json.RawMessage) json.RawMessage
}

// Accept finds the tool of a call and makes the arguments fit. The error is the one
// with which Run would refuse the call.
func (r *Registry) Accept(name string, raw json.RawMessage) (Tool, json.RawMessage, error) {
	t, ok := r.byName[name]
	if !ok {
		return nil, nil, UnknownToolError(name)
	}
	args := raw
	if t, ok := t.(mender); ok {
		args = t.mend(args)
	}
	args, err := ValidateArgs(t.Info().Parameters, args)
	if err != nil {
		return nil, nil, InvalidArgsError(name, raw, err)
	}
	return t, args, nil
}

// UnknownToolError is what a model reads that calls a tool which does not
// exist.
func UnknownToolError(name string) error { return fmt.Errorf("Tool %s not found", name) }

// InvalidArgsError is what a model reads whose arguments did not pass
// [ValidateArgs] with err: the problems, and what it sent.
func InvalidArgsError(name string, args json.RawMessage, err error) error {
	var problems ArgsError
	if !errors.As(err, &problems) {
		problems = ArgsError{{rootPath, err.Error()}}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Validation failed for tool %q:\n", name)
	for _, p := range problems {
		fmt.Fprintf(&b, "  - %s: %s\n", p.Path, p.Reason)
	}
	b.WriteString("\nReceived arguments:\n")
	var pretty bytes.Buffer
	if json.Indent(&pretty, args, "", "  ") != nil {
		pretty.Reset()
		pretty.Write(args)
	}
	b.WriteString(pretty.String())
	return errors.New(b.String())
}
