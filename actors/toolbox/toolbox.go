package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/tools"
)

// Runner offers tools and carries out calls of them.
type Runner interface {
	// Infos describes the tools, in the order in which they are listed.
	Infos() []protocol.ToolInfo
	// Start checks the arguments of a call of one of these tools and says how the
	// call is carried out. It has no effects and does not block. The error is
	// written for the model.
	Start(call protocol.ToolCall) (Work, error)
}

// Work is how a call is carried out: a [Job], [ByClient], [ByMachine] or a [Result].
type Work interface{ work() }

// Job is a call that takes time: a worker runs it. It may report progress, which
// is cumulative, and returns soon after ctx ends. An error becomes the text of an
// error result that the model reads.
type Job func(ctx context.Context, env *tools.Env, progress func(protocol.ToolResult)) (protocol.ToolResult, error)

// ByClient is a call that the client runs, with these arguments. The result comes
// as its command.
type ByClient struct{ Args json.RawMessage }

// Result is a call that needs no time.
type Result struct {
	protocol.ToolResult
	Todos []protocol.TodoPhase // the todo list that the session keeps from now on; nil for the one it has

	Submission *protocol.Submission // what a child hands over; nil for any other tool
}

func (Job) work()      {}
func (ByClient) work() {}
func (Result) work()   {}

// Box is runners, whose tools have different names. It does not change.
type Box []Runner

// Own is the daemon's own tools: those of a registry, and the todo list.
func Own(reg *tools.Registry) Box { return Box{Builtin(reg), Todo{}} }

// Known is the tools that a session may have, whoever runs them but its client and its
// extensions.
func Known(reg *tools.Registry) Box { return Own(reg).With(NewTask(core.TaskOffer{})) }

// With is the box with one more runner.
func (b Box) With(r Runner) Box { return append(slices.Clip(b), r) }

// Under is the box with one more runner, whose tools take the place of those with
// the same names.
func (b Box) Under(r Runner) Box { return Box{r, covered{b, r}} }

// covered is a box without the tools that another runner has.
type covered struct {
	box  Box
	over Runner
}

func (c covered) Infos() []protocol.ToolInfo {
	over := c.over.Infos()
	return slices.DeleteFunc(slices.Clone(c.box.Infos()), func(info protocol.ToolInfo) bool {
		return slices.ContainsFunc(over, func(o protocol.ToolInfo) bool { return o.Name == info.Name })
	})
}

func (c covered) Start(call protocol.ToolCall) (Work, error) { return c.box.Start(call) }

// Described is the box whose tools are described once, for whoever asks.
func (b Box) Described() Box { return Box{described{b, b.Infos()}} }

type described struct {
	Box
	infos []protocol.ToolInfo
}

func (d described) Infos() []protocol.ToolInfo { return d.infos }

// Infos describes all tools. Nobody writes to the list.
func (b Box) Infos() (infos []protocol.ToolInfo) {
	if len(b) == 1 {
		return b[0].Infos()
	}
	for _, r := range b {
		infos = append(infos, r.Infos()...)
	}
	return infos
}

// Lookup describes one tool.
func (b Box) Lookup(name string) (protocol.ToolInfo, bool) {
	info, r := b.find(name)
	return info, r != nil
}

// Select describes the tools with these names that exist, in the order of the
// names.
func (b Box) Select(names []string) (infos []protocol.ToolInfo) {
	for _, n := range names {
		if info, ok := b.Lookup(n); ok {
			infos = append(infos, info)
		}
	}
	return infos
}

// Files says what a tool does with the file that its arguments name; a tool that
// does not exist does nothing with one.
func (b Box) Files(name string) protocol.FileUse {
	info, _ := b.find(name)
	return info.Files
}

// find returns a nil runner for a tool that does not exist.
func (b Box) find(name string) (protocol.ToolInfo, Runner) {
	for _, r := range b {
		for _, info := range r.Infos() {
			if info.Name == name {
				return info, r
			}
		}
	}
	return protocol.ToolInfo{}, nil
}

// Start starts a call; see [Runner].
func (b Box) Start(call protocol.ToolCall) (Work, error) {
	_, r := b.find(call.Name)
	if r == nil {
		return nil, tools.UnknownToolError(call.Name)
	}
	return r.Start(call)
}

// Check returns the error with which Start would refuse a call.
func (b Box) Check(call protocol.ToolCall) error {
	_, err := b.Start(call)
	return err
}

// CheckWith is Check where a client has tools, too. Exact: arguments that Start would
// mend are refused as well.
func (b Box) CheckWith(call protocol.ToolCall, host []protocol.HostTool, exact bool) error {
	all := b.With(Host(host))
	if info, known := all.Lookup(call.Name); known && exact {
		if err := tools.CheckArgs(info.Parameters, call.Arguments); err != nil {
			return tools.InvalidArgsError(info.Name, call.Arguments, err)
		}
	}
	return all.Check(call)
}

// Active is the set of tools a session begins with: the caller's, else the
// settings', each a list as [Wanted] reads it. nil leaves the choice to the next.
// Names of tools that do not exist are left out.
func (b Box) Active(asked, configured, usual []string) []string {
	list := asked
	if list == nil {
		if list = configured; len(list) == 0 {
			return b.known(usual) // in a root without files most are not there
		}
	}
	var set []string
	if changesUsual(list) {
		set = slices.Clone(usual)
	}
	for _, item := range list {
		name := strings.TrimLeft(item, "+-")
		if strings.HasPrefix(item, "-") {
			set = slices.DeleteFunc(set, func(n string) bool { return fits(name, n) })
			continue
		}
		for _, info := range b.Infos() {
			if info.Name != name && fits(name, info.Name) {
				set = append(set, info.Name)
			}
		}
		set = append(set, name)
	}
	return b.known(set)
}

// Wanted says whether a list of tools has a tool. An item is a name, or a pattern with *, ? and [classes].
// With + or - before any of them the list changes the usual set instead of replacing it; usual says whether
// the tool is in that. Later items count more.
func Wanted(list []string, name string, usual bool) bool {
	wanted := usual && changesUsual(list)
	for _, item := range list {
		if fits(strings.TrimLeft(item, "+-"), name) {
			wanted = !strings.HasPrefix(item, "-")
		}
	}
	return wanted
}

// changesUsual says whether a list adds to the usual tools, or takes from them.
func changesUsual(list []string) bool {
	return slices.ContainsFunc(list, func(n string) bool { return strings.HasPrefix(n, "+") || strings.HasPrefix(n, "-") })
}

// IsPlain says whether a list has nothing but names.
func IsPlain(list []string) bool {
	return !changesUsual(list) && !slices.ContainsFunc(list, func(n string) bool { return strings.ContainsAny(n, "*?[") })
}

func fits(pattern, name string) bool {
	if pattern == name {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// Knows says whether an item of a list, as [Wanted] reads it, means a tool of the box.
func (b Box) Knows(item string) bool {
	name := strings.TrimLeft(item, "+-")
	_, ok := b.Lookup(name)
	return ok || slices.ContainsFunc(b.Infos(), func(info protocol.ToolInfo) bool { return fits(name, info.Name) })
}

// Empty says why a list that names tools leaves a session without any; nil if it does not. A list
// without names, or one that only takes tools away, is meant so.
func (b Box) Empty(list []string) error {
	if len(list) == 0 || changesUsual(list) || slices.ContainsFunc(list, b.Knows) {
		return nil
	}
	return fmt.Errorf("no tool is called %s: want names such as read or grep, patterns, or +NAME and -NAME", strings.Join(list, ", "))
}

func (b Box) known(names []string) []string {
	set := []string{}
	for _, n := range names {
		if _, ok := b.Lookup(n); ok && !slices.Contains(set, n) {
			set = append(set, n)
		}
	}
	return set
}

// Fit checks the arguments of a call against the schema of its tool, and returns
// them as the tool wants them.
func Fit(info protocol.ToolInfo, call protocol.ToolCall) (json.RawMessage, error) {
	args, err := tools.ValidateArgs(info.Parameters, call.Arguments)
	if err != nil {
		return nil, tools.InvalidArgsError(info.Name, call.Arguments, err)
	}
	return args, nil
}
