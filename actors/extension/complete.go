package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/providers"
)

// completion is what an extension asks a model: complete and stream of pi-ai.
type completion struct {
	Model struct {
		ID, Provider, API, BaseURL string
		Headers                    map[string]string
		MaxTokens, ContextWindow   int64
		Reasoning                  bool
		Input                      []string
	} `json:"model"`
	Context struct {
		SystemPrompt string
		Messages     []json.RawMessage
		Tools        []struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	} `json:"context"`
	Options struct {
		APIKey    string
		Headers   map[string]string
		MaxTokens int64
		Reasoning protocol.ThinkingLevel
	} `json:"options"`
}

// Completion makes a request of what an extension asks a model. base is what requests
// of the session have in common.
func Completion(raw json.RawMessage, catalog *protocol.Catalog, base providers.Request) (providers.Request, error) {
	a, err := read[completion](raw)
	if err != nil {
		return base, fmt.Errorf("complete: %w", err)
	}
	base.Model = a.model(catalog)
	base.System, base.MaxTokens, base.Cache = a.Context.SystemPrompt, a.Options.MaxTokens, providers.CacheNone
	base.Thinking = base.Model.Clamp(a.Options.Reasoning)
	more, err := messagesOf(a.Context.Messages)
	if err != nil {
		return base, fmt.Errorf("complete: %w", err)
	}
	base.Messages = append(base.Messages, more...)
	for _, t := range a.Context.Tools {
		base.Tools = append(base.Tools, protocol.ToolInfo{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	if a.Options.APIKey != "" || len(a.Options.Headers) > 0 {
		base.Credentials = providers.Credentials{Key: a.Options.APIKey, Headers: a.Options.Headers}
	}
	return base, nil
}

// model is the one that is asked: that of the catalogue, as the extension has changed
// it, or one that it has made up.
func (a *completion) model(catalog *protocol.Catalog) *protocol.Model {
	m := protocol.Model{ID: a.Model.ID, Name: a.Model.ID, Provider: a.Model.Provider, Input: a.Model.Input, ContextWindow: a.Model.ContextWindow, MaxTokens: a.Model.MaxTokens, Reasoning: a.Model.Reasoning}
	if known := catalog.Find(a.Model.Provider, a.Model.ID); known != nil {
		m = *known
	}
	m.API = cmp.Or(a.Model.API, m.API)
	if a.Model.BaseURL != protocol.ShownAddress(m.BaseURL) { // else it is the catalogue's, as the extension was shown it
		m.BaseURL = cmp.Or(a.Model.BaseURL, m.BaseURL)
	}
	if len(a.Model.Headers) > 0 {
		own := protocol.ProviderConfig{}
		if m.ProviderConfig != nil {
			own = *m.ProviderConfig
		}
		headers := map[string]string{}
		maps.Copy(headers, own.Headers)
		maps.Copy(headers, a.Model.Headers)
		own.Headers = headers
		m.ProviderConfig = &own
	}
	return &m
}

// RunCompletion asks the model, tells every step, and returns the whole message. A
// failure is a message, too.
func RunCompletion(ctx context.Context, models worker.Streamer, req providers.Request, tell func(json.RawMessage)) json.RawMessage {
	c := whole{msg: &protocol.AssistantMessage{
		Content: protocol.Content{}, API: req.Model.API, Provider: req.Model.Provider, Model: req.Model.ID,
		StopReason: protocol.StopStop, Timestamp: time.Now().UnixMilli(),
	}}
	for part, err := range models.Stream(ctx, req) {
		if err == nil {
			err = c.take(part, req.Model, tell)
		}
		if err != nil {
			c.failed(err)
			break
		}
	}
	return protocol.AppendValue(nil, c.msg)
}

// whole is the answer of a model as it grows.
type whole struct {
	msg    *protocol.AssistantMessage
	blocks []growing
	by     *protocol.Model // who answers, if it is another than was asked
}

type growing struct {
	kind protocol.BlockKind
	text []byte
	args protocol.ArgsBuilder
	call protocol.ToolCall
}

func (c *whole) failed(err error) {
	c.msg.StopReason, c.msg.ErrorMessage = protocol.StopError, err.Error()
	if known, is := errors.AsType[*protocol.StreamError](err); is && known.Kind == protocol.ErrorAborted {
		c.msg.StopReason = protocol.StopAborted
	}
}

// take adds a part, and tells the event of pi-ai that it is.
func (c *whole) take(part protocol.Part, model *protocol.Model, tell func(json.RawMessage)) error {
	event := func(kind protocol.BlockKind, step string, index int, more map[string]any) {
		ev := map[string]any{"type": kind.String() + "_" + step, "contentIndex": index}
		maps.Copy(ev, more)
		tell(protocol.JSON(ev))
	}
	switch p := part.(type) {
	case protocol.PartStart:
		c.msg.ResponseID = p.ResponseID
		if by := p.Model; by != nil {
			c.by, c.msg.API, c.msg.Provider, c.msg.Model = by, by.API, by.Provider, by.ID
		}
		tell(json.RawMessage(`{"type":"start"}`))
	case protocol.PartBlockStart:
		c.blocks = append(c.blocks, growing{kind: p.Kind, call: protocol.ToolCall{ID: p.ID, Name: p.Name, Arguments: json.RawMessage("{}")}})
		c.msg.Content = append(c.msg.Content, protocol.Text{})
		event(p.Kind, "start", p.Index, map[string]any{"id": p.ID, "toolName": p.Name})
	case protocol.PartDelta:
		if p.Index < 0 || p.Index >= len(c.blocks) {
			return errors.New("the provider sent its answer out of order")
		}
		b := &c.blocks[p.Index]
		if b.kind == protocol.BlockToolCall {
			b.args.Feed(p.Delta)
		} else {
			b.text = append(b.text, p.Delta...)
		}
		event(b.kind, "delta", p.Index, map[string]any{"delta": p.Delta})
	case protocol.PartBlockEnd:
		if p.Index < 0 || p.Index >= len(c.blocks) {
			return errors.New("the provider sent its answer out of order")
		}
		b := c.blocks[p.Index].end(p)
		c.msg.Content[p.Index] = b
		event(c.blocks[p.Index].kind, "end", p.Index, map[string]any{"block": json.RawMessage(protocol.AppendValue(nil, b))})
	case protocol.PartUsage:
		c.msg.Usage = cmp.Or(c.by, model).Price(p.Usage)
	case protocol.PartDone:
		c.msg.StopReason = p.StopReason
	}
	return nil
}

func (b *growing) end(p protocol.PartBlockEnd) protocol.Block {
	switch b.kind {
	case protocol.BlockThinking:
		return protocol.Thinking{Thinking: string(b.text), Signature: p.Signature, Redacted: p.Redacted}
	case protocol.BlockToolCall:
		b.call.ID, b.call.Name = cmp.Or(p.ID, b.call.ID), cmp.Or(p.Name, b.call.Name)
		b.call.Arguments, b.call.ThoughtSignature = b.args.AppendJSON(nil), p.Signature
		return b.call
	default:
		return protocol.Text{Text: string(b.text), Signature: p.Signature}
	}
}
