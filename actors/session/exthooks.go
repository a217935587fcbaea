package session

import (
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/providers"
	"troupe/tools"
)

// callHook asks the extensions.
func (s *Session) callHook(c actor.Context, e core.CallHook) {
	s.rebound(c) // the machine asks for the session that it is in
	if s.ext.pid == nil {
		s.inputs.cause(core.HookDone{ID: e.ID})
		return
	}
	call := extension.Call{CallHook: e}
	if _, ok := e.Hook.(core.BeforeAgentStartHook); ok {
		call.SystemPrompt = extension.SystemPrompt{Text: s.systemPrompt(), Options: s.promptOptions(), Make: systemOf}
	}
	s.update()
	s.ext.asks.hooks[e.ID] = e.Hook
	s.ext.events.Asked(e.Hook, false)
	s.ext.send(call)
}

func (s *Session) cancelHook(e core.CancelHook) {
	asked := s.ext.asks.hooks[e.ID]
	if asked == nil { // about permissions
		return
	}
	s.ext.events.Asked(asked, true)
	delete(s.ext.asks.hooks, e.ID)
	if s.ext.pid != nil {
		s.ext.send(e)
	}
}

// hookDone completes what extensions made of a message as if a client had sent it.
func (s *Session) hookDone(c actor.Context, in core.HookDone) {
	delete(s.ext.asks.hooks, in.ID)
	if taken, ok := in.Answer.(core.Taken); ok && !taken.Handled {
		s.expand(&taken.Command)
		in.Answer = taken
	}
	s.step(c, in)
	s.release(c)
}

// extensionsSee says whether a message goes past extensions as its author wrote it.
func (s *Session) extensionsSee(cmd protocol.Command) bool {
	return protocol.TraitsOf(cmd).Is(protocol.TakesInput) && s.ext.listens["input"]
}

// said is what extensions say to a command that replaces the session or goes elsewhere
// in it.
type said struct {
	veto    bool
	nav     *protocol.NavigateTree  // in the place of the command
	summary *protocol.BranchSummary // of the branch that it leaves
}

// beforeSwitch asks the extensions about a command that replaces the session. It is to
// be called off the actor's goroutine.
func (s *Session) beforeSwitch(e core.LoadSession, more extension.Replacing) func() said {
	name, event := extension.BeforeSwitch(e.Cmd, more)
	if name == "" || !s.ext.listens[name] {
		return func() said { return said{} }
	}
	s.update()
	ctx, cancel := context.WithCancel(context.Background())
	s.ext.asks.parting = parting{e.Seq, cancel}
	s.inputs.cause(core.SwitchAsked{Seq: e.Seq, Dialog: len(s.ext.asks.dialogs) > 0})
	box, leaf := s.ext.tools, s.file.Leaf()
	return func() (says said) {
		if nav, is := e.Cmd.(protocol.NavigateTree); is {
			says.veto, nav, says.summary = box.BeforeTree(ctx, nav, leaf)
			says.nav = &nav
		} else {
			says.veto = box.Vetoes(ctx, name, event)
		}
		says.veto = says.veto || ctx.Err() != nil
		return says
	}
}

// partingOver ends the question about a command that replaces the session.
func (s *Session) partingOver(seq uint64) {
	if l := s.ext.asks.parting; l.cancel != nil && l.seq == seq {
		l.cancel()
		s.ext.asks.parting = parting{}
	}
}

// partingAsks tells the machine whether extensions that are asked about a command ask a
// person now.
func (s *Session) partingAsks(c actor.Context) {
	if l := s.ext.asks.parting; l.cancel != nil {
		s.step(c, core.SwitchAsked{Seq: l.seq, Dialog: len(s.ext.asks.dialogs) > 0})
	}
}

// beforeCompact is what extensions say to a compaction, off the actor's goroutine;
// nil if nobody listens.
func (s *Session) beforeCompact() func(context.Context, *worker.Compactor) (*protocol.Compaction, *protocol.Error) {
	if !s.ext.listens["session_before_compact"] {
		return nil
	}
	s.update()
	box, set := s.ext.tools, s.work.files.Compaction
	return func(ctx context.Context, k *worker.Compactor) (*protocol.Compaction, *protocol.Error) {
		c, cancelled := box.BeforeCompact(ctx, k, set.Enabled)
		if cancelled {
			return nil, protocol.CodeCancelled.Errorf("Compaction cancelled")
		}
		return c, nil
	}
}

// taps let extensions look at requests, by those of the events that they listen to.
func (s *Session) taps(model *protocol.Model, events ...string) func(context.Context) *providers.Taps {
	box, listens := s.ext.tools, s.ext.listens
	if box == nil || !slices.ContainsFunc(events, func(name string) bool { return listens[name] }) {
		return func(context.Context) *providers.Taps { return nil }
	}
	heard := map[string]bool{}
	for _, name := range events {
		heard[name] = listens[name]
	}
	return func(ctx context.Context) *providers.Taps { return box.Taps(ctx, model, heard) }
}

// contextHook is what extensions make of the messages that a model is to be shown,
// off the actor's goroutine.
func (s *Session) contextHook() func(context.Context, *providers.Request) {
	box, first, whole := s.ext.tools, s.ext.listens["context"], s.ext.listens["context_with_system"]
	return func(ctx context.Context, req *providers.Request) {
		if first {
			req.Messages = box.Context(ctx, req.Messages)
		}
		if whole {
			box.ContextWithSystem(ctx, req)
		}
	}
}

// bashJob runs a command of a client, which extensions that listen see first: one
// that does not answer lets it not pass.
func (s *Session) bashJob(e core.StartBash) worker.Job {
	exec := s.shared.Exec
	if wait := s.grace(); wait != nil {
		exec = func(ctx context.Context, spec tools.ExecSpec) (tools.ExecResult, error) {
			if wait(ctx) != nil {
				return tools.ExecResult{Cancelled: true}, nil
			}
			return s.shared.Exec(ctx, spec)
		}
	}
	run := worker.BashJob(exec, e, s.bashEnv(), s.clients.told(protocol.FeatureBashUpdates))
	refuse := s.ext.refuseBash
	if refuse == "" && !s.ext.listens["user_bash"] {
		return run
	}
	s.update()
	box, cwd := s.ext.tools, s.work.cwd
	return func(ctx context.Context, tell func(any)) {
		if refuse != "" {
			tell(core.BashDone{Job: e.Job, Err: protocol.CodeUnsupported.Errorf("%s", refuse)})
			return
		}
		result, err := box.UserBash(ctx, e.Command, cwd, e.Exclude)
		switch {
		case ctx.Err() != nil:
			tell(core.BashDone{Job: e.Job, Result: protocol.BashResult{Cancelled: true}})
		case err != nil:
			tell(core.BashDone{Job: e.Job, Err: protocol.CodeUnsupported.Errorf("%s", err)})
		case result != nil:
			tell(core.BashDone{Job: e.Job, Result: *result})
		default:
			run(ctx, tell)
		}
	}
}
