package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is one entry of the published data. Members that troupe does not read,
// as inputLimits, are left out.
type model struct {
	Type    string            `json:"type"`
	Headers map[string]string `json:"headers"`
	entry
}

// entry is one line of the catalogue, in the form of a model in models.json.
type entry struct {
	ID            string                     `json:"id"`
	Name          string                     `json:"name,omitempty"`
	API           string                     `json:"api,omitempty"`
	BaseURL       string                     `json:"baseUrl,omitempty"`
	Reasoning     bool                       `json:"reasoning,omitempty"`
	Input         []string                   `json:"input,omitempty"`
	Cost          json.RawMessage            `json:"cost,omitempty"`
	ContextWindow int64                      `json:"contextWindow"`
	MaxTokens     int64                      `json:"maxTokens"`
	Compat        map[string]json.RawMessage `json:"compat,omitempty"`
	Levels        json.RawMessage            `json:"thinkingLevelMap,omitempty"`
}

// head is the part of a file before its models.
type head struct {
	Source  source                     `json:"source"`
	Name    string                     `json:"name"`
	API     string                     `json:"api"`
	BaseURL string                     `json:"baseUrl"`
	Headers map[string]string          `json:"headers,omitempty"`
	Compat  map[string]json.RawMessage `json:"compat,omitempty"`
}

// encode writes a provider's file: members that its models share go into the
// head, and each model has a line of its own.
func encode(origin source, at endpoint, list []model) ([]byte, error) {
	list = slices.Clone(list)
	for i := range list {
		if at.address != nil {
			list[i].BaseURL = at.address(list[i].BaseURL)
		}
	}
	h := head{
		Source: origin, Name: at.name, Headers: at.headers,
		API:     usual(list, func(m model) string { return m.API }),
		BaseURL: usual(list, func(m model) string { return m.BaseURL }),
		Compat:  shared(list),
	}
	top, err := line(withDefaults(h, at))
	if err != nil {
		return nil, err
	}
	b := append(bytes.TrimSuffix(top, []byte("}")), `,"models":[`...)
	for i, m := range list {
		text, err := line(reduce(m.entry, h))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.ID, err)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, '\n'), text...)
	}
	return append(b, "\n]}\n"...), nil
}

// withDefaults adds values to a head that its models may still override.
func withDefaults(h head, at endpoint) head {
	compat := map[string]json.RawMessage{}
	for _, flag := range at.supports {
		compat[flag] = json.RawMessage("true")
	}
	maps.Copy(compat, h.Compat)
	h.Compat = compat
	return h
}

// reduce removes from an entry everything that its head has already, and
// defaults.
func reduce(e entry, h head) entry {
	if e.Name == e.ID {
		e.Name = ""
	}
	if e.API == h.API {
		e.API = ""
	}
	if e.BaseURL == h.BaseURL {
		e.BaseURL = ""
	}
	if slices.Equal(e.Input, []string{"text"}) {
		e.Input = nil
	}
	if string(e.Cost) == `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}` {
		e.Cost = nil
	}
	compat := map[string]json.RawMessage{}
	for flag, value := range e.Compat {
		if _, above := h.Compat[flag]; !above {
			compat[flag] = value
		}
	}
	e.Compat = compat
	return e
}

// usual is the most frequent value, the first in alphabetical order of several.
func usual(list []model, of func(model) string) string {
	count := map[string]int{}
	for _, m := range list {
		count[of(m)]++
	}
	return slices.MinFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[b], count[a]) })
}

// shared are the compat members that all models have with the same value.
func shared(list []model) map[string]json.RawMessage {
	out := maps.Clone(list[0].Compat)
	for _, m := range list[1:] {
		maps.DeleteFunc(out, func(flag string, value json.RawMessage) bool { return string(m.Compat[flag]) != string(value) })
	}
	return out
}

// line is v as JSON without escapes for HTML.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
