package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"troupe/protocol"
	"troupe/providers"
)

// virtualModel is a model that an extension routes, as it has registered it.
type virtualModel struct {
	Provider, ID, Name       string
	ThinkingLevels           []protocol.ThinkingLevel
	ContextWindow, MaxTokens int64
	Input                    []string
}

// virtual makes a registration of a virtual model.
func (t *Tools) virtual(key string, raw json.RawMessage) (providers.Registration, error) {
	var v virtualModel
	if err := json.Unmarshal(raw, &v); err != nil {
		return providers.Registration{}, err
	}
	if v.Provider == "" || v.ID == "" {
		return providers.Registration{}, errors.New("a virtual model needs a provider and an id")
	}
	m := &protocol.Model{
		ID: v.ID, Name: cmp.Or(v.Name, v.ID), Provider: v.Provider, API: protocol.VirtualAPI, Input: v.Input, ContextWindow: v.ContextWindow, MaxTokens: v.MaxTokens,
		ProviderConfig: &protocol.ProviderConfig{ThinkingValues: map[string]*string{}},
	}
	if m.Input == nil {
		m.Input = []string{"text", "image"}
	}
	for _, level := range protocol.ThinkingLevels {
		if slices.Contains(v.ThinkingLevels, level) {
			m.ProviderConfig.ThinkingValues[string(level)] = new(string(level))
			m.ProviderConfig.ThinkingLevels = append(m.ProviderConfig.ThinkingLevels, level)
			m.Reasoning = m.Reasoning || level != protocol.ThinkingLevels[0]
		} else {
			m.ProviderConfig.ThinkingValues[string(level)] = nil
		}
	}
	return providers.Registration{Name: v.Provider, Virtual: &providers.Virtual{
		Model: m, Route: func(ctx context.Context, req providers.Request) (providers.Route, error) {
			return t.route(ctx, key, req)
		},
	}}, nil
}

// route asks the extension which model answers a request.
func (t *Tools) route(ctx context.Context, key string, req providers.Request) (to providers.Route, err error) {
	failed := func(err error) error {
		return protocol.ErrorInvalid.Errorf("%s/%s: no route: %s", req.Model.Provider, req.Model.ID, err)
	}
	raw, err := json.Marshal(map[string]any{
		"model": json.RawMessage(protocol.AppendValue(nil, req.Model)), "thinkingLevel": req.Thinking, "why": req.Why, "messages": rawMessages(req.Messages),
	})
	if err != nil {
		return to, failed(err)
	}
	result, err := t.invoke(ctx, key, "route", raw)
	if ctx.Err() != nil {
		return to, protocol.Aborted()
	}
	if err != nil {
		return to, failed(err)
	}
	var r struct {
		Model         struct{ Provider, ID string }
		ThinkingLevel protocol.ThinkingLevel
	}
	if err := unmarshal(result, &r); err != nil {
		return to, failed(err)
	}
	if r.Model.ID == "" {
		return to, failed(fmt.Errorf("route gave no model"))
	}
	return providers.Route{Provider: r.Model.Provider, ModelID: r.Model.ID, Level: r.ThinkingLevel}, nil
}
