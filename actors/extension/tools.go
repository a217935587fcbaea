package extension

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"troupe/actors/core"
	"troupe/actors/toolbox"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/protocol/extension"
	"troupe/tools"
)

// Tools runs the tools that the extensions of a session have registered, and asks
// extensions on behalf of jobs. It is a [toolbox.Runner]. Jobs run on goroutines of
// workers, beside the actor that hears what becomes of calls and questions: mu guards
// it.
type Tools struct {
	mu    sync.Mutex
	vm    extension.VM // nil while it is gone
	why   string       // it is gone
	feeds map[uint64]*feed
	last  uint64 // number of a call or command
	list  []extension.ToolDef
	// report tells the session an error of theirs. It is set before anything is asked.
	report func(extension.Failure)
}

// feed is what comes of something that a job has asked, on its way to the job.
type feed struct {
	lost   string // what is said, with the reason, if the virtual machine ends before
	events []json.RawMessage
	done   *extension.Done
	failed bool          // the result of a tool is an error
	more   chan struct{} // holds one when there is something to take
}

// NewTools returns a runner without tools.
func NewTools() *Tools {
	return &Tools{feeds: map[uint64]*feed{}, report: func(extension.Failure) {}}
}

// What is said to whom something was lost.
const (
	extensionsLost = "the extensions have ended: "
	toolLost       = "The extension that runs this tool has ended: "
)

// begin opens a feed for what is asked of the virtual machine; end closes it.
func (t *Tools) begin(lost string) (uint64, *feed, extension.VM, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.vm == nil {
		return 0, nil, nil, errors.New(lost + t.why)
	}
	t.last += 2
	id, f := t.last|1, &feed{lost: lost, more: make(chan struct{}, 1)}
	t.feeds[id] = f
	return id, f, t.vm, nil
}

func (t *Tools) end(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.feeds, id)
}

// hear has something added to a feed; false if no job waits for it.
func (t *Tools) hear(id uint64, add func(*feed)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.feeds[id]
	if f == nil {
		return false
	}
	add(f)
	select {
	case f.more <- struct{}{}:
	default:
	}
	return true
}

// take gives what has come since it was last called.
func (t *Tools) take(f *feed) ([]json.RawMessage, *extension.Done) {
	t.mu.Lock()
	defer t.mu.Unlock()
	events := f.events
	f.events = nil
	return events, f.done
}

// wait waits for the end of what was begun, and closes its feed. What comes before goes to each.
func (t *Tools) wait(ctx context.Context, id uint64, f *feed, vm extension.VM, cancel extension.Word, each func(json.RawMessage)) (extension.Done, error) {
	defer t.end(id)
	for {
		select {
		case <-f.more:
		case <-ctx.Done():
			vm.Say(cancel)
			return extension.Done{}, ctx.Err()
		}
		events, done := t.take(f)
		for _, event := range events {
			each(event)
		}
		if done != nil {
			return *done, failed(*done)
		}
	}
}

// ask shows an event to the extensions and waits for what they say together. It
// must not be called by an actor.
func (t *Tools) ask(ctx context.Context, event any) (extension.Done, error) {
	raw, err := json.Marshal(event)
	if err != nil {
		return extension.Done{}, err
	}
	id, f, vm, err := t.begin(extensionsLost)
	if err != nil {
		return extension.Done{}, err
	}
	vm.Say(extension.Call{ID: id, Event: raw})
	return t.wait(ctx, id, f, vm, extension.CancelCall{ID: id}, func(json.RawMessage) {})
}

// failed says why there is no answer.
func failed(d extension.Done) error {
	switch {
	case d.Err != "":
		return errors.New(d.Err)
	case d.TimedOut:
		return errors.New("the extensions did not answer in time")
	}
	return nil
}

// answer hands a job what it asked for; false if no job did.
func (t *Tools) answer(d extension.Done) bool {
	return t.hear(d.ID, func(f *feed) { f.done = &d })
}

// Infos describes the tools.
func (t *Tools) Infos() []protocol.ToolInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	infos := make([]protocol.ToolInfo, len(t.list))
	for i, tool := range t.list {
		infos[i] = protocol.ToolInfo{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters, Snippet: tool.Snippet, Guidelines: tool.Guidelines, Sequential: tool.ExecutionMode == "sequential"}
	}
	return infos
}

// PathOf is the extension that has registered a tool, "" for none; of nil it is none.
func (t *Tools) PathOf(name string) string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tool := range t.list {
		if tool.Name == name {
			return tool.Path
		}
	}
	return ""
}

// Start hands the call to the extensions, with arguments that fit.
func (t *Tools) Start(call protocol.ToolCall) (toolbox.Work, error) {
	info, ok := toolbox.Box{t}.Lookup(call.Name)
	if !ok {
		return nil, tools.UnknownToolError(call.Name)
	}
	args, err := toolbox.Fit(info, call)
	if err != nil {
		return nil, err
	}
	return toolbox.Job(func(ctx context.Context, _ *tools.Env, progress func(protocol.ToolResult)) (protocol.ToolResult, error) {
		return t.run(ctx, extension.ToolCall{ID: call.ID, Name: call.Name, Args: args, Prepared: true}, progress)
	}), nil
}

func (t *Tools) run(ctx context.Context, call extension.ToolCall, progress func(protocol.ToolResult)) (protocol.ToolResult, error) {
	id, f, vm, err := t.begin(toolLost)
	if err != nil {
		return protocol.ToolResult{}, err
	}
	vm.Say(extension.RunTool{ID: id, Call: call})
	d, err := t.wait(ctx, id, f, vm, extension.CancelTool{ID: id}, func(partial json.RawMessage) {
		if r, err := resultOf(partial); err == nil {
			progress(r)
		}
	})
	if err != nil {
		return protocol.ToolResult{}, err
	}
	r, err := resultOf(d.Result)
	if err == nil && f.failed {
		err = worker.ErrorResult{ToolResult: r}
	}
	return r, err
}

// resultOf reads a result. One without content, or none at all, is empty.
func resultOf(raw json.RawMessage) (r protocol.ToolResult, err error) {
	if len(raw) > 0 && string(raw) != "null" {
		err = json.Unmarshal(raw, &r)
	}
	if r.Content == nil {
		r.Content = protocol.TextContent("")
	}
	return r, err
}

// number is one that no call has.
func (t *Tools) number() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last += 2
	return t.last | 1
}

// update keeps the newest progress of a call.
func (t *Tools) update(m extension.ToolUpdate) {
	t.hear(m.ID, func(f *feed) { f.events = []json.RawMessage{m.Partial} })
}

func (t *Tools) done(m extension.ToolDone) {
	t.hear(m.ID, func(f *feed) { f.done, f.failed = &extension.Done{Result: m.Result}, m.IsError })
}

// set takes over what is registered now.
func (t *Tools) set(list []extension.ToolDef) {
	t.mu.Lock()
	t.list = list
	t.mu.Unlock()
}

// use gives calls to another virtual machine.
func (t *Tools) use(vm extension.VM) {
	t.mu.Lock()
	t.vm, t.why = vm, ""
	t.mu.Unlock()
}

// lose ends all that was asked: the virtual machine is gone.
func (t *Tools) lose(why string) {
	t.mu.Lock()
	t.vm, t.why = nil, why
	ids := slices.Collect(maps.Keys(t.feeds))
	t.mu.Unlock()
	for _, id := range ids {
		t.hear(id, func(f *feed) { f.done = &extension.Done{Err: f.lost + why} })
	}
}

// Executed is what ctx.executeTool gives.
func Executed(d core.InnerDone) json.RawMessage {
	return protocol.AppendValue(nil, struct {
		ToolCall   protocol.ToolCall   `json:"toolCall"`
		Result     protocol.ToolResult `json:"result"`
		IsError    bool                `json:"isError"`
		DurationMs int64               `json:"durationMs"`
	}{d.Call, d.Result, d.IsError, d.TookMs})
}
