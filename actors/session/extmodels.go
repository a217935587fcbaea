package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/tidwall/gjson"

	"troupe/actors/extension"
	"troupe/actors/kernel"
	"troupe/protocol"
	words "troupe/protocol/extension"
	"troupe/providers"
	"troupe/tools"
)

// models are those that the session may ask: the process's, and what its extensions
// add.
func (s *Session) models() Models {
	if own := s.ext.models.own; own != nil {
		return own
	}
	return s.shared.Models
}

// addProviders makes the providers that extensions have registered known, if they are
// not yet.
func (s *Session) addProviders(list []json.RawMessage) {
	known := string(slices.Concat(list...))
	if known == s.ext.models.known {
		return
	}
	s.ext.models = modelsOf{known: known}
	regs, failures := s.ext.tools.Providers(list)
	for _, f := range failures {
		s.extensionFailed(f)
	}
	regs = slices.DeleteFunc(regs, func(reg providers.Registration) bool {
		err := checkBound(s.work.env.Sandbox, reg.Config, reg.Stream != nil)
		if err != nil {
			s.extensionFailed(runtimeFailure("register_provider", fmt.Sprintf("provider %q: %s", reg.Name, err)))
		}
		return err != nil
	})
	if len(regs) > 0 {
		own, problems := s.shared.Extend(regs)
		s.ext.models.own = own
		for _, err := range problems {
			s.extensionFailed(runtimeFailure("register_provider", err.Error()))
		}
	}
	s.ext.seen = seen{}
	s.ext.send(words.Update{Snapshot: s.snapshot(true)})
}

// errBoundCommand and errBoundAddress refuse commands and requests that a bound extension would have the daemon make outside its sandbox.
var (
	errBoundCommand = errors.New("the session runs in a sandbox, where an extension can name no !command for a key or header")
	errBoundAddress = errors.New("the network is off for this session, where an extension can name no address for requests of the daemon")
)

// checkBound refuses the description of a provider or a model that has the daemon run a command for an extension in a sandbox, or, without
// a network, ask an address that the extension chooses. streams says that the extension makes the requests itself, inside.
func checkBound(sandbox tools.Sandbox, config json.RawMessage, streams bool) (err error) {
	if !sandbox.On() {
		return nil
	}
	var walk func(v gjson.Result)
	walk = func(v gjson.Result) {
		switch {
		case v.IsObject() || v.IsArray():
			v.ForEach(func(_, of gjson.Result) bool { walk(of); return err == nil })
		case v.Type != gjson.String:
		case strings.HasPrefix(strings.TrimSpace(v.Str), "!"):
			err = errBoundCommand
		case sandbox.NoNetwork && !streams && strings.Contains(v.Str, "//"):
			err = errBoundAddress
		}
	}
	walk(gjson.ParseBytes(config))
	return err
}

// modelAnswered is the answer that an extension has asked for.
type modelAnswered struct {
	op     uint64
	result json.RawMessage
	err    error
}

// askModel asks a model for an extension, off the actor's goroutine.
func (s *Session) askModel(c actor.Context, m extension.Complete) {
	ctx, cancel := context.WithCancel(context.Background())
	s.ext.asks.answers[m.Op] = cancel
	models, catalog, base, root, pid, sandbox := s.models(), s.catalog(), s.work.newRequest(s.m.RepeatsAllowed()), s.ext.root, s.ext.pid, s.work.env.Sandbox
	base.Repeats.MaxQuiet = 0 // no event announces a wait of such a request
	kernel.Background(c, func() any {
		if err := checkBoundModel(sandbox, m.Args, catalog); err != nil {
			return modelAnswered{op: m.Op, err: err}
		}
		req, err := extension.Completion(m.Args, catalog, base)
		if err != nil {
			return modelAnswered{op: m.Op, err: err}
		}
		return modelAnswered{op: m.Op, result: extension.RunCompletion(ctx, models, req, func(event json.RawMessage) {
			root.Send(pid, words.Part{Op: m.Op, Event: event})
		})}
	})
}

// checkBoundModel is [checkBound] for the model that an extension asks: without a network one of the catalogue, where it is.
func checkBoundModel(sandbox tools.Sandbox, args json.RawMessage, catalog *protocol.Catalog) error {
	asked := gjson.GetBytes(args, "model")
	known := catalog.Find(asked.Get("provider").Str, asked.Get("id").Str)
	if sandbox.NoNetwork && (known == nil || asked.Get("baseUrl").Str != "" && asked.Get("baseUrl").Str != protocol.ShownAddress(known.BaseURL)) {
		return errBoundAddress
	}
	return checkBound(tools.Sandbox{Files: sandbox.Files, NoNetwork: sandbox.NoNetwork}, json.RawMessage(cmp.Or(asked.Get("headers").Raw, "{}")), true)
}

// onModelAnswered gives an extension what a model has answered.
func (s *Session) onModelAnswered(m modelAnswered) {
	cancel := s.ext.asks.answers[m.op]
	if cancel == nil {
		return // nobody waits any more
	}
	cancel()
	delete(s.ext.asks.answers, m.op)
	why := ""
	if m.err != nil {
		why = m.err.Error()
	}
	s.answerOp(m.op, m.result, why)
}

// stopCompletion ends the request for an answer that nobody wants any more.
func (s *Session) stopCompletion(op uint64) {
	if cancel := s.ext.asks.answers[op]; cancel != nil {
		cancel()
		delete(s.ext.asks.answers, op)
	}
}

func (s *Session) stopCompletions() {
	for op := range s.ext.asks.answers {
		s.stopCompletion(op)
	}
}

// credentialed is models whose credentials may be asked for.
type credentialed interface {
	Credentials(ctx context.Context, model *protocol.Model) (providers.Credentials, *protocol.StreamError)
}

// tellKey tells an extension what requests authenticate with, off the actor's
// goroutine: commands may print it.
func (s *Session) tellKey(c actor.Context, m extension.Key) {
	models, ok := s.models().(credentialed)
	catalog := s.catalog()
	ctx, cancel := context.WithCancel(context.Background())
	s.ext.asks.answers[m.Op] = cancel
	kernel.Background(c, func() any {
		model := catalog.Find(m.Provider, m.ModelID)
		for _, other := range catalog.Available() {
			if model == nil && other.Provider == m.Provider {
				model = other
			}
		}
		if !ok || model == nil {
			return modelAnswered{op: m.Op, result: json.RawMessage("null")}
		}
		cred, failed := models.Credentials(ctx, model)
		if failed != nil {
			return modelAnswered{op: m.Op, err: errors.New(failed.Message)}
		}
		answer := map[string]any{}
		if cred.Key != "" {
			answer["apiKey"] = cred.Key
		}
		if len(cred.Headers) > 0 {
			answer["headers"] = cred.Headers
		}
		raw, err := json.Marshal(answer)
		return modelAnswered{op: m.Op, result: raw, err: err}
	})
}
