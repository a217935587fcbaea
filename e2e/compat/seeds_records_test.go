package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol/schema"
)

// TestSeedRecords checks that the schema covers every response and event in a seed. It must have
// all their members, with values of the same type.
func TestSeedRecords(t *testing.T) {
	var published struct {
		Defs map[string]map[string]any `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(schema.JSON(), &published))
	s := shapes{published.Defs}
	for _, seed := range seeds {
		doc := seedText(t, seed.name)
		_, records, types := split(doc)
		for _, x := range records {
			name := "Event_" + x.str("type")
			if success, _ := x.get("success"); x.str("type") == "response" {
				name = "Response_" + x.str("command")
				if success.text == "false" {
					name = "Failure"
				}
			}
			if name == "Response_" || x.str("type") == "..." {
				continue // the grammar of a response, not an example
			}
			def := published.Defs[name]
			if assert.NotNil(t, def, "%s has %s, troupe does not", seed.name, name) {
				assert.Empty(t, s.lacks(def, x.literal, types), "%s: %s", seed.name, x.raw)
			}
		}
		for _, x := range examples(doc) {
			if name := typeOf(x); name != "" {
				assert.Empty(t, s.lacks(published.Defs[name], x.literal, types), "%s: %s", seed.name, x.raw)
			}
		}
	}
}

// typeOf returns the schema type of an example that has no type member.
func typeOf(x example) string {
	_, window := x.get("contextWindow")
	_, reasoning := x.get("reasoning")
	_, streaming := x.get("isStreaming")
	switch role := x.str("role"); {
	case role != "":
		return strings.ToUpper(role[:1]) + role[1:] + "Message"
	case window && reasoning:
		return "Model"
	case streaming:
		return "SessionState"
	}
	return ""
}

// shapes compares examples with the definitions of the schema.
type shapes struct{ defs map[string]map[string]any }

// lenient lists the members whose values in the seeds differ from those of the protocol.
var lenient = []string{
	"content",       // of a user message: a string in S0 and S3, blocks in all that was seen
	"attachments",   // of old sessions
	"thinkingLevel", // S1 lists the choices in one string
	"steeringMode", "followUpMode", "interruptMode",
	"fullOutputPath", // or null
	"details",
	"finalError",
	"model", // S1 shows two of its members
}

func (s shapes) lacks(def map[string]any, l literal, types map[string]literal) string {
	if ref, ok := def["$ref"].(string); ok {
		return s.lacks(s.defs[strings.TrimPrefix(ref, "#/$defs/")], l, types)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list, ok := def[key].([]any); ok {
			var reasons []string
			for _, d := range list {
				why := s.lacks(d.(map[string]any), l, types)
				if why == "" {
					return ""
				}
				reasons = append(reasons, why)
			}
			return strings.Join(reasons, "; ")
		}
	}
	if named, ok := types[l.text]; ok && l.kind == 'w' {
		name := l.text
		named.list = l.list
		l = named
		types = maps.Clone(types)
		delete(types, name) // a tree contains itself
	}
	switch {
	case l.kind == '.' || l.kind == '|' || len(def) == 0:
		return "" // a sketch, or any value
	case l.list || l.kind == '[':
		if def["type"] != "array" {
			return fmt.Sprintf("an array, not %v", def)
		}
		items, _ := def["items"].(map[string]any)
		if l.list {
			l.list = false
			return s.lacks(items, l, types)
		}
		for _, i := range l.items {
			if why := s.lacks(items, i, types); why != "" {
				return why
			}
		}
	case l.kind == '{':
		return s.object(def, l, types)
	case l.kind == '"':
		return s.word(def, l.text)
	case l.kind == '0':
		if def["type"] != "integer" && def["type"] != "number" {
			return fmt.Sprintf("%s, not %v", l.text, def)
		}
	case l.kind == 'w':
		kind := map[string]string{"true": "boolean", "false": "boolean", "null": "null", "string": "string", "boolean": "boolean"}[l.text]
		if c, ok := def["const"]; ok && fmt.Sprint(c) == l.text {
			return ""
		}
		if kind != "" && def["type"] != kind {
			return fmt.Sprintf("%s, not %v", l.text, def)
		}
	}
	return ""
}

func (s shapes) word(def map[string]any, text string) string {
	if enum, ok := def["enum"].([]any); ok && !slices.Contains(enum, any(text)) && text != "..." {
		return fmt.Sprintf("%q is none of %v", text, enum)
	}
	if c, ok := def["const"]; ok && c != text {
		return fmt.Sprintf("%q is not %v", text, c)
	}
	if kind, ok := def["type"]; ok && kind != "string" {
		return fmt.Sprintf("%q, not %v", text, kind)
	}
	return ""
}

func (s shapes) object(def map[string]any, l literal, types map[string]literal) string {
	if def["type"] != "object" {
		return fmt.Sprintf("an object, not %v", def)
	}
	known, _ := def["properties"].(map[string]any)
	if known == nil {
		return ""
	}
	for _, m := range l.members {
		if m.name == "..." || slices.Contains(lenient, m.name) {
			continue
		}
		d, ok := known[m.name].(map[string]any)
		if !ok {
			return m.name + " is not known"
		}
		if why := s.lacks(d, m.value, types); why != "" {
			return m.name + ": " + why
		}
	}
	return ""
}
