package extension

import (
	"context"
	"encoding/json"
	"errors"
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
	calls map[uint64]*toolCall
	asked map[uint64]chan extension.Done
	feeds map[uint64]*feed // answers of models that extensions bring
	last  uint64           // number of a call or command
	list  []extension.ToolDef
	// report tells the session an error of theirs. It is set before anything is asked.
	report func(extension.Failure)
}

// toolCall is a call that runs.
type toolCall struct {
	partial chan json.RawMessage // holds the newest
	done    chan extension.ToolDone
}

// NewTools returns a runner without tools.
func NewTools() *Tools {
	return &Tools{calls: map[uint64]*toolCall{}, asked: map[uint64]chan extension.Done{}, feeds: map[uint64]*feed{}, report: func(extension.Failure) {}}
}

// ask shows an event to the extensions and waits for what they say together. It
// must not be called by an actor.
func (t *Tools) ask(ctx context.Context, event any) (extension.Done, error) {
	raw, err := json.Marshal(event)
	if err != nil {
		return extension.Done{}, err
	}
	t.mu.Lock()
	vm, why := t.vm, t.why
	t.last += 2
	id, answer := t.last|1, make(chan extension.Done, 1)
	if vm != nil {
		t.asked[id] = answer
	}
	t.mu.Unlock()
	if vm == nil {
		return extension.Done{}, errors.New("the extensions have ended: " + why)
	}
	vm.Call(id, raw)
	select {
	case d := <-answer:
		return d, failed(d)
	case <-ctx.Done():
		t.answer(extension.Done{ID: id})
		vm.CancelCall(id)
		return extension.Done{}, ctx.Err()
	}
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
	if f := t.feedOf(d.ID); f != nil {
		f.put(nil, &d)
		return true
	}
	t.mu.Lock()
	c := t.asked[d.ID]
	delete(t.asked, d.ID)
	t.mu.Unlock()
	if c != nil {
		c <- d
	}
	return c != nil
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
	id, c, vm, err := t.begin()
	if err != nil {
		return protocol.ToolResult{}, err
	}
	vm.Tool(id, call)
	for {
		select {
		case raw := <-c.partial:
			if r, err := resultOf(raw); err == nil {
				progress(r)
			}
		case d := <-c.done:
			return ended(d)
		case <-ctx.Done():
			t.end(id)
			vm.CancelTool(id)
			return protocol.ToolResult{}, ctx.Err()
		}
	}
}

// ended is the result of a call.
func ended(d extension.ToolDone) (protocol.ToolResult, error) {
	r, err := resultOf(d.Result)
	if err != nil {
		return protocol.ToolResult{}, err
	}
	if d.IsError {
		return protocol.ToolResult{}, worker.ErrorResult{ToolResult: r}
	}
	return r, nil
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

func (t *Tools) begin() (uint64, *toolCall, extension.VM, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.vm == nil {
		return 0, nil, nil, errors.New(lost(t.why))
	}
	t.last += 2
	id := t.last | 1
	c := &toolCall{make(chan json.RawMessage, 1), make(chan extension.ToolDone, 1)}
	t.calls[id] = c
	return id, c, t.vm, nil
}

// number is one that no call has.
func (t *Tools) number() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last += 2
	return t.last | 1
}

func (t *Tools) end(id uint64) *toolCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[id]
	delete(t.calls, id)
	return c
}

// update keeps the newest progress of a call.
func (t *Tools) update(m extension.ToolUpdate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[m.ID]
	if c == nil {
		return
	}
	select {
	case <-c.partial:
	default:
	}
	c.partial <- m.Partial
}

func (t *Tools) done(m extension.ToolDone) {
	if c := t.end(m.ID); c != nil {
		c.done <- m
	}
}

// set takes over what is registered now.
func (t *Tools) set(list []extension.ToolDef) {
	t.mu.Lock()
	t.list = list
	t.mu.Unlock()
}

// lost says to the model why a call has no result.
func lost(why string) string { return "The extension that runs this tool has ended: " + why }

// use gives calls to another virtual machine.
func (t *Tools) use(vm extension.VM) {
	t.mu.Lock()
	t.vm, t.why = vm, ""
	t.mu.Unlock()
}

// lose ends all calls: the virtual machine is gone.
func (t *Tools) lose(why string) {
	t.mu.Lock()
	t.vm, t.why = nil, why
	calls, asked, feeds := t.calls, t.asked, t.feeds
	t.calls, t.asked, t.feeds = map[uint64]*toolCall{}, map[uint64]chan extension.Done{}, map[uint64]*feed{}
	t.mu.Unlock()
	for _, f := range feeds {
		f.put(nil, &extension.Done{Err: "the extensions have ended: " + why})
	}
	for id, c := range asked {
		c <- extension.Done{ID: id, Err: "the extensions have ended: " + why}
	}
	for id, c := range calls {
		c.done <- extension.ToolDone{ID: id, IsError: true, Result: protocol.AppendValue(nil, protocol.ToolResult{Content: protocol.TextContent(lost(why))})}
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
