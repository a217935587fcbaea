package session

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/toolbox"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/providers"
	"troupe/tools"
	"troupe/tools/git"
)

// startStream asks the model for the next message of the branch.
func (s *Session) startStream(c actor.Context, e core.StartStream) {
	if err := s.buildContext(); err != nil {
		s.inputs.cause(core.StreamEnd{Attempt: e.Attempt, Err: protocol.ErrorInternal.Errorf("session cannot be read: %s", err)})
		return
	}
	req := s.work.newRequest(e.Repeats)
	req.Model, req.Thinking, req.SessionID, req.Why = e.Model, e.Level, s.file.id, providers.ForRun
	if e.Again {
		req.Why = providers.ForRetry
	}
	req.Must, req.Messages = e.Must, s.context.Messages()
	work, shrunk := s.work, s.shrunk
	req.Tools = s.box().Select(e.Tools)
	resize := work.files.Images.AutoResize
	window := e.Model.ContextWindow
	tight := window > 0 && s.m.ContextTokens() > window/10*9
	seen, taps := s.contextHook(), s.taps(e.Model, extension.RequestEvents...)
	complete := func(ctx context.Context) providers.Request { // off the actor's goroutine: it may read files
		if req.System = work.prompts.get().system(req.Tools); e.SystemPrompt != nil {
			req.System = *e.SystemPrompt
		}
		seen(ctx, &req)
		req.Taps = taps(ctx)
		if resize {
			req.Messages = shrunk.Fit(req.Messages)
		}
		if tight {
			req.Messages = worker.FitWindow(req.Messages, window)
		}
		return req
	}
	s.startWorker(c, fmt.Sprintf("turn/%d", e.Attempt), worker.TurnJob(e.Attempt, s.models(), complete), job{kind: core.WorkerStream, attempt: e.Attempt})
}

// startWorker has a job done by a worker.
func (s *Session) startWorker(c actor.Context, name string, do worker.Job, j job) {
	pid := s.spawn(c, name, func() actor.Actor { return worker.New(s.log, s.kernel.Dispatcher, do) })
	s.jobs.track(pid, j)
}

// box is the tools that can be active.
func (s *Session) box() toolbox.Box { return s.ownTools().With(toolbox.Host(s.m.HostTools())) }

// ownTools is the same without the client's.
func (s *Session) ownTools() toolbox.Box {
	if s.ext.tools == nil {
		return s.work.tools
	}
	return s.work.tools.Under(s.ext.tools)
}

// startTool starts a call: one that takes time is a worker's.
func (s *Session) startTool(c actor.Context, e core.StartTool) {
	work, err := s.box().Start(e.Call)
	switch work := work.(type) {
	case toolbox.Job:
		s.startJob(c, e, work)
	case toolbox.ByClient:
		s.inputs.cause(core.HostReady{Attempt: e.Attempt, CallID: e.Call.ID, Args: work.Args})
	case toolbox.ByMachine:
		s.inputs.cause(core.TaskReady{Attempt: e.Attempt, CallID: e.Call.ID, Args: work.Args})
	case toolbox.Result:
		done := worker.ToolEnd(e.Attempt, e.Call.ID, work.ToolResult, nil)
		done.Todos, done.Submission = work.Todos, work.Submission
		s.inputs.cause(done)
	default:
		done := worker.ToolEnd(e.Attempt, e.Call.ID, protocol.ToolResult{}, err)
		done.Refused = true
		s.inputs.cause(done)
	}
}

func (s *Session) startJob(c actor.Context, e core.StartTool, run toolbox.Job) {
	env := s.toolEnv()
	if e.Unbound {
		env.Sandbox = tools.Sandbox{}
	}
	env.Interrupt = new(tools.Interrupt)
	wait := s.grace()
	call := func(ctx context.Context, progress func(protocol.ToolResult)) (protocol.ToolResult, error) {
		if wait != nil && wait(ctx) != nil {
			return protocol.ToolResult{}, ctx.Err()
		}
		return run(ctx, env, progress)
	}
	s.startWorker(c, fmt.Sprintf("tool/%d/%s", e.Attempt, pathName(e.Call.ID)), worker.ToolJob(e.Attempt, e.Call.ID, s.jobs.receipts[e.Call.ID], call),
		job{kind: core.WorkerTool, attempt: e.Attempt, id: e.Call.ID, stop: env.Interrupt})
}

// toolEnv is where a tool call of the model runs.
func (s *Session) toolEnv() *tools.Env {
	env := s.bashEnv()
	m := s.m.Model()
	env.Judged = s.judged() && !s.work.permissions.Bare()
	if m != nil && !m.Accepts("image") {
		env.TextOnly = m.ID
	}
	env.Environ = append(env.Environ,
		"AI_AGENT=troupe", "PI_CODING_AGENT=true", "PI_SESSION_ID="+s.file.id, "PI_SESSION_FILE="+s.file.path,
		"PI_REASONING_LEVEL="+string(s.m.Level()))
	if m != nil {
		env.Environ = append(env.Environ, "PI_PROVIDER="+m.Provider, "PI_MODEL="+m.ID)
	}
	return env
}

// bashEnv is where a client's command runs.
func (s *Session) bashEnv() *tools.Env {
	env := *s.work.env
	env.Environ = git.WithCeiling(env.Cwd, s.shared.childEnviron(s.work.files.InheritEnv))
	return &env
}

// startSummary hands a summary to a worker.
func (s *Session) startSummary(c actor.Context, e core.Summarise) {
	base := s.work.newRequest(e.Repeats)
	base.Model, base.Thinking, base.Cache = e.Model, e.Level, providers.CacheNone
	reserve, keep := s.work.files.Compaction.For(e.Model.Provider + "/" + e.Model.ID)
	var err error
	k := worker.Compactor{Models: s.models(), Base: base, Reserve: reserve, Keep: keep, Ask: e, View: s.file.View(), Files: s.work.tools.Files}
	if e.Branch != 0 {
		k.Target = *s.loaded[e.Branch].leaf
		k.Reserve = s.work.files.BranchSummary.ReserveTokens
	} else if err = s.buildContext(); err != nil {
		s.inputs.cause(core.Summarised{Attempt: e.Attempt, Err: protocol.ErrorInternal.Errorf("session cannot be read: %s", err)})
		return
	} else {
		k.Keep = core.KeepRecent(e.Model.ContextWindow, reserve, keep)
		k.Items, k.Tokens = s.context.Items(), s.context.Size().Tokens
		if e.Redo {
			k.Items = worker.WithoutAnswer(k.Items)
		}
		if k.Cut, err = k.CutPoint(); err != nil {
			s.inputs.cause(k.Refused(err))
			return
		}
		s.inputs.cause(core.SummaryBegun{Attempt: e.Attempt})
		k.Before = s.beforeCompact()
	}
	headers := s.taps(e.Model, "before_provider_headers") // a summary is a request like another, but none of the conversation
	do := func(ctx context.Context, tell func(any)) {
		k.Base.Taps = headers(ctx)
		k.Job(ctx, tell)
	}
	s.startWorker(c, fmt.Sprintf("compactor/%d", e.Attempt), do, job{kind: core.WorkerSummary, attempt: e.Attempt})
}

func (s *Session) startBash(c actor.Context, e core.StartBash) {
	run := s.bashJob(e)
	s.startWorker(c, fmt.Sprintf("bash/%d", e.Job), run, job{kind: core.WorkerBash, number: e.Job})
}

// pathName makes a name that can stand in an actor's path: models choose the
// ids of their calls.
func pathName(id string) string {
	clean := []byte(id[:min(len(id), 64)])
	for i, b := range clean {
		if b <= ' ' || b == '/' || b == '*' || b >= 0x7f {
			clean[i] = '_'
		}
	}
	return string(clean)
}
