package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"troupe/protocol"
	"troupe/protocol/extension"
	"troupe/providers"
)

// Providers are those that extensions have registered, and what is wrong with some.
func (t *Tools) Providers(list []json.RawMessage) (regs []providers.Registration, problems []extension.Failure) {
	for _, raw := range list {
		var p struct {
			Name   string
			Path   string
			Config struct {
				Virtual   json.RawMessage
				Functions []string
			}
		}
		var config struct{ Config json.RawMessage }
		err := json.Unmarshal(raw, &config)
		if err == nil {
			err = json.Unmarshal(raw, &p)
		}
		fail := func(event, format string, args ...any) {
			problems = append(problems, extension.Failure{Path: p.Path, Event: event, Message: fmt.Sprintf(format, args...)})
		}
		switch {
		case err != nil:
			fail("register_provider", "provider %s: %s", p.Name, err)
			continue
		case len(p.Config.Virtual) > 0:
			reg, err := t.virtual(p.Name, p.Config.Virtual)
			if err != nil {
				fail("register_virtual_model", "%s: %s", p.Name, err)
				continue
			}
			regs = append(regs, reg)
			continue
		}
		unused := slices.DeleteFunc(slices.Clone(p.Config.Functions), func(f string) bool {
			return slices.Contains([]string{"streamSimple", "refreshModels", "getModels"}, f) || strings.HasPrefix(f, "oauth.")
		})
		if len(unused) > 0 {
			fail("register_provider", "provider %s: this host does not use %s", p.Name, strings.Join(unused, ", "))
		}
		reg := providers.Registration{Name: p.Name, Config: config.Config}
		if slices.Contains(p.Config.Functions, "streamSimple") {
			reg.Stream = &streamer{t, "provider:" + p.Name}
		}
		if slices.Contains(p.Config.Functions, "oauth.getApiKey") {
			reg.Login = &loginOf{t, "provider:" + p.Name}
		}
		regs = append(regs, reg)
	}
	return regs, problems
}

// streamer asks a model through the function streamSimple of an extension. It is a
// [providers.Provider].
type streamer struct {
	tools *Tools
	key   string
}

// silence is how long such a function may say nothing.
const silence = 300 * time.Second

func (s *streamer) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		id, feed, vm, err := s.tools.begin(extensionsLost)
		if err != nil {
			yield(nil, protocol.ErrorServer.Errorf("%s", err))
			return
		}
		defer s.tools.end(id)
		cancel := extension.CancelCall{ID: id}
		vm.Say(extension.Invoke{ID: id, Key: s.key, Member: "streamSimple", Args: streamArgs(&req)})
		var in streamed
		stall := time.NewTimer(silence)
		defer stall.Stop()
		for {
			select {
			case <-ctx.Done():
				vm.Say(cancel)
				yield(nil, protocol.Aborted())
				return
			case <-stall.C:
				vm.Say(cancel)
				yield(nil, protocol.ErrorStalled.Errorf("streamSimple of the extension sent nothing for %v", silence))
				return
			case <-feed.more:
			}
			stall.Reset(silence)
			events, done := s.tools.take(feed)
			for _, raw := range events {
				parts, err := in.parts(raw)
				for _, p := range parts {
					if !yield(p, nil) {
						vm.Say(cancel)
						return
					}
				}
				if err != nil {
					yield(nil, err)
					return
				}
			}
			switch {
			case in.over:
				return
			case done != nil && done.Err != "":
				yield(nil, protocol.ErrorServer.Errorf("%s", done.Err))
				return
			case done != nil:
				yield(nil, protocol.ErrorCutStream.Errorf("streamSimple of the extension ended without done or error"))
				return
			}
		}
	}
}

// streamArgs are (model, context, options) of streamSimple.
func streamArgs(req *providers.Request) []json.RawMessage {
	tools := []map[string]any{}
	for _, t := range req.Tools {
		tools = append(tools, map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Parameters})
	}
	options := map[string]any{"sessionId": req.SessionID}
	if req.Thinks() {
		options["reasoning"] = req.Thinking
	}
	if req.Credentials.Key != "" {
		options["apiKey"] = req.Credentials.Key
	}
	if len(req.Credentials.Headers) > 0 {
		options["headers"] = req.Credentials.Headers
	}
	if req.MaxTokens > 0 {
		options["maxTokens"] = req.MaxTokens
	}
	shown := map[string]any{"systemPrompt": req.System, "messages": rawMessages(req.Messages), "tools": tools}
	args := []json.RawMessage{protocol.AppendValue(nil, req.Model)}
	for _, v := range []any{shown, options} {
		args = append(args, protocol.JSON(v))
	}
	return args
}

// streamed makes parts of the events of an answer, whose blocks may come whole.
type streamed struct {
	begun bool
	open  []bool // blocks, by index
	size  []int  // of what has come of each
	over  bool
}

// streamEvent is an event of a stream of pi-ai without what repeats.
type streamEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"contentIndex"`
	Delta   string          `json:"delta"`
	Block   json.RawMessage `json:"block"`
	Message json.RawMessage `json:"message"` // with done and error
	Reason  string          `json:"reason"`
}

func (s *streamed) parts(raw json.RawMessage) (out []protocol.Part, err error) {
	var ev streamEvent
	if err := json.Unmarshal(raw, &ev); err != nil {
		return nil, protocol.ErrorServer.Errorf("streamSimple of the extension: %s", err)
	}
	if !s.begun {
		s.begun = true
		out = append(out, protocol.PartStart{})
	}
	kinds := map[string]protocol.BlockKind{"text": protocol.BlockText, "thinking": protocol.BlockThinking, "toolcall": protocol.BlockToolCall}
	for word, kind := range kinds {
		switch ev.Type {
		case word + "_start":
			return append(out, s.start(ev.Index, kind, ev.Block)...), nil
		case word + "_delta":
			out = append(out, s.start(ev.Index, kind, ev.Block)...)
			return append(out, s.delta(ev.Index, ev.Delta)...), nil
		case word + "_end":
			return append(out, s.end(ev.Index, kind, ev.Block)...), nil
		}
	}
	switch ev.Type {
	case "done", "error":
		more, err := s.last(ev)
		return append(out, more...), err
	default: // start, and what later versions have
		return out, nil
	}
}

// start opens a block, unless it is there.
func (s *streamed) start(i int, kind protocol.BlockKind, raw json.RawMessage) []protocol.Part {
	if i < len(s.open) {
		return nil
	}
	s.open, s.size = append(s.open, true), append(s.size, 0)
	var b struct{ ID, Name string }
	_ = json.Unmarshal(raw, &b) // what is no object has no name
	return []protocol.Part{protocol.PartBlockStart{Index: i, Kind: kind, ID: b.ID, Name: b.Name}}
}

func (s *streamed) delta(i int, text string) []protocol.Part {
	if i < len(s.size) {
		s.size[i] += len(text)
	}
	return []protocol.Part{protocol.PartDelta{Index: i, Delta: text}}
}

// end closes a block. One of which nothing has come comes whole.
func (s *streamed) end(i int, kind protocol.BlockKind, raw json.RawMessage) (out []protocol.Part) {
	out = s.start(i, kind, raw)
	if i < 0 || i >= len(s.open) || !s.open[i] {
		return append(out, protocol.PartBlockEnd{Index: i}) // out of order: the session says so
	}
	var b struct {
		ID, Name, Text, Thinking, TextSignature, ThinkingSignature, ThoughtSignature string
		Redacted                                                                     bool
		Arguments                                                                    json.RawMessage
	}
	_ = json.Unmarshal(raw, &b)
	if s.size[i] == 0 {
		whole := map[protocol.BlockKind]string{protocol.BlockText: b.Text, protocol.BlockThinking: b.Thinking, protocol.BlockToolCall: string(b.Arguments)}[kind]
		out = append(out, s.delta(i, whole)...)
	}
	s.open[i] = false
	signature := map[protocol.BlockKind]string{
		protocol.BlockText: b.TextSignature, protocol.BlockThinking: b.ThinkingSignature, protocol.BlockToolCall: b.ThoughtSignature,
	}[kind]
	return append(out, protocol.PartBlockEnd{Index: i, Signature: signature, Redacted: b.Redacted, ID: b.ID, Name: b.Name})
}

// last ends the answer, with what of it has not come before.
func (s *streamed) last(ev streamEvent) (out []protocol.Part, err error) {
	s.over = true
	m, err := protocol.DecodeExactMessage(ev.Message)
	msg, ok := m.(*protocol.AssistantMessage)
	if err != nil || !ok {
		return nil, protocol.ErrorServer.Errorf("streamSimple of the extension gave no message with %s", ev.Type)
	}
	if ev.Type == "error" {
		return nil, protocol.ErrorServer.Errorf("%s", cmp.Or(msg.ErrorMessage, "streamSimple of the extension failed"))
	}
	for i, b := range msg.Content {
		if i < len(s.open) && !s.open[i] {
			continue
		}
		kind := protocol.BlockText
		switch b.(type) {
		case protocol.Thinking:
			kind = protocol.BlockThinking
		case protocol.ToolCall:
			kind = protocol.BlockToolCall
		default: // text
		}
		out = append(out, s.end(i, kind, protocol.AppendValue(nil, b))...)
	}
	out = append(out, protocol.PartUsage{Usage: msg.Usage.Bounded()})
	stop := msg.StopReason
	if stop != protocol.StopLength && stop != protocol.StopToolUse {
		stop = protocol.StopStop
	}
	return append(out, protocol.PartDone{StopReason: stop}), nil
}

// streamPart reads the act with which streamSimple says an event.
func (t *Tools) streamPart(raw json.RawMessage) error {
	a, err := read[struct {
		ID    uint64
		Event json.RawMessage
	}](raw)
	if err != nil {
		return err
	}
	t.hear(a.ID, func(f *feed) { f.events = append(f.events, a.Event) })
	return nil
}
