package protocol

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxSchemaNodes bounds what the schema of an answer becomes when its references
// are written out.
const maxSchemaNodes = 10_000

// OutputSchema makes the schema of an answer, which is written in JSON Type
// Definition (RFC 8927) or in JSON Schema, one that the arguments of tools are
// checked by: JSON Schema without references. What cannot be said in it is an
// error: references that lead back to themselves, and those of JSON Schema.
func OutputSchema(raw json.RawMessage) (json.RawMessage, error) {
	var node any
	if err := json.Unmarshal(raw, &node); err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	root, ok := node.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema is no object")
	}
	definitions, _ := root["definitions"].(map[string]any)
	t := jtd{definitions: definitions}
	schema, err := t.translate("", root)
	if err != nil {
		return nil, err
	}
	return AppendValue(nil, schema), nil
}

// jtd translates type definitions.
type jtd struct {
	definitions map[string]any
	open        []string // references that are being written out
	nodes       int
}

// jsonSchemaWords are members that a type definition does not have.
var jsonSchemaWords = []string{"$schema", "$ref", "$defs", "required", "items", "anyOf", "oneOf", "allOf", "const", "not", "if"}

// isJSONSchema tells the two languages apart, where they differ.
func isJSONSchema(node map[string]any) bool {
	if slices.ContainsFunc(jsonSchemaWords, func(word string) bool { _, has := node[word]; return has }) {
		return true
	}
	switch t := node["type"].(type) {
	case []any:
		return true
	case string:
		return slices.Contains([]string{"object", "array", "number", "integer", "null"}, t)
	}
	return false
}

func (t *jtd) errorf(path, format string, args ...any) error {
	path = cmp.Or(path, "/")
	return fmt.Errorf("the schema cannot be checked: %s: %s", path, fmt.Sprintf(format, args...))
}

// translate makes JSON Schema of a definition; what is JSON Schema stays.
func (t *jtd) translate(path string, value any) (map[string]any, error) {
	if t.nodes++; t.nodes > maxSchemaNodes {
		return nil, t.errorf(path, "it is too large")
	}
	node, ok := value.(map[string]any)
	if !ok {
		return nil, t.errorf(path, "want an object")
	}
	if isJSONSchema(node) {
		return node, t.checked(path, node)
	}
	schema, err := t.form(path, node)
	if err != nil {
		return nil, err
	}
	if node["nullable"] == true {
		schema = nullable(schema)
	}
	if meta, ok := node["metadata"].(map[string]any); ok {
		describe(schema, meta["description"])
	}
	describe(schema, node["description"])
	return schema, nil
}

func describe(schema map[string]any, text any) {
	if text, ok := text.(string); ok {
		schema["description"] = text
	}
}

// form translates by the member that makes a definition what it is.
func (t *jtd) form(path string, node map[string]any) (map[string]any, error) {
	switch {
	case node["ref"] != nil:
		return t.ref(path, node["ref"])
	case node["type"] != nil:
		return t.scalar(path, node["type"])
	case node["enum"] != nil:
		return t.enum(path, node["enum"])
	case node["elements"] != nil:
		items, err := t.translate(path+"/elements", node["elements"])
		return map[string]any{"type": "array", "items": items}, err
	case node["values"] != nil:
		values, err := t.translate(path+"/values", node["values"])
		return map[string]any{"type": "object", "additionalProperties": values}, err
	case node["discriminator"] != nil:
		return t.discriminated(path, node)
	case node["properties"] != nil || node["optionalProperties"] != nil:
		return t.properties(path, node)
	}
	return t.anything(path, node)
}

// anything is the definition without members; one with members that mean nothing
// is not taken for it.
func (t *jtd) anything(path string, node map[string]any) (map[string]any, error) {
	for _, name := range slices.Sorted(maps.Keys(node)) {
		if !slices.Contains([]string{"nullable", "metadata", "definitions", "description"}, name) {
			return nil, t.errorf(path, "unknown member %s", name)
		}
	}
	return map[string]any{}, nil
}

func (t *jtd) ref(path string, ref any) (map[string]any, error) {
	name, _ := ref.(string)
	node, ok := t.definitions[name]
	switch {
	case !ok:
		return nil, t.errorf(path, "no definition %v", ref)
	case slices.Contains(t.open, name):
		return nil, t.errorf(path, "definition %s contains itself", name)
	}
	t.open = append(t.open, name)
	schema, err := t.translate("/definitions/"+name, node)
	t.open = t.open[:len(t.open)-1]
	return maps.Clone(schema), err
}

// wholeNumbers are the ranges of the types of whole numbers.
var wholeNumbers = map[string][2]int64{
	"int8": {-1 << 7, 1<<7 - 1}, "uint8": {0, 1<<8 - 1},
	"int16": {-1 << 15, 1<<15 - 1}, "uint16": {0, 1<<16 - 1},
	"int32": {-1 << 31, 1<<31 - 1}, "uint32": {0, 1<<32 - 1},
}

func (t *jtd) scalar(path string, word any) (map[string]any, error) {
	name, _ := word.(string)
	switch name {
	case "string", "boolean":
		return map[string]any{"type": name}, nil
	case "timestamp":
		return map[string]any{"type": "string", "format": "date-time"}, nil
	case "float32", "float64":
		return map[string]any{"type": "number"}, nil
	}
	if of, ok := wholeNumbers[name]; ok {
		return map[string]any{"type": "integer", "minimum": of[0], "maximum": of[1]}, nil
	}
	return nil, t.errorf(path, "unknown type %v", word)
}

func (t *jtd) enum(path string, list any) (map[string]any, error) {
	values, _ := list.([]any)
	for _, v := range values {
		if _, ok := v.(string); !ok {
			return nil, t.errorf(path, "enum: want strings")
		}
	}
	if len(values) == 0 {
		return nil, t.errorf(path, "enum: want strings")
	}
	return map[string]any{"enum": values}, nil
}

func (t *jtd) properties(path string, node map[string]any) (map[string]any, error) {
	properties, required := map[string]any{}, []any{}
	for _, group := range []string{"properties", "optionalProperties"} {
		if node[group] == nil {
			continue
		}
		members, ok := node[group].(map[string]any)
		if !ok {
			return nil, t.errorf(path+"/"+group, "want an object")
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			schema, err := t.translate(path+"/"+group+"/"+name, members[name])
			if err != nil {
				return nil, err
			}
			properties[name] = schema
			if group == "properties" {
				required = append(required, name)
			}
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "required": required}
	if node["additionalProperties"] != true {
		schema["additionalProperties"] = false
	}
	return schema, nil
}

// discriminated is one of several objects, told apart by a member.
func (t *jtd) discriminated(path string, node map[string]any) (map[string]any, error) {
	tag, _ := node["discriminator"].(string)
	mapping, _ := node["mapping"].(map[string]any)
	if tag == "" || len(mapping) == 0 {
		return nil, t.errorf(path, "discriminator: want a name and a mapping")
	}
	var forms []any
	for _, value := range slices.Sorted(maps.Keys(mapping)) {
		form, ok := mapping[value].(map[string]any)
		if !ok {
			return nil, t.errorf(path+"/mapping/"+value, "want an object")
		}
		schema, err := t.properties(path+"/mapping/"+value, form)
		if err != nil {
			return nil, err
		}
		schema["properties"].(map[string]any)[tag] = map[string]any{"const": value}
		schema["required"] = append(schema["required"].([]any), tag)
		forms = append(forms, schema)
	}
	return map[string]any{"anyOf": forms}, nil
}

// nullable also admits null.
func nullable(schema map[string]any) map[string]any {
	if name, ok := schema["type"].(string); ok {
		schema["type"] = []any{name, "null"}
		return schema
	}
	if values, ok := schema["enum"].([]any); ok {
		schema["enum"] = append(slices.Clone(values), nil)
		return schema
	}
	if len(schema) == 0 {
		return schema
	}
	return map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
}

// checked says what of a JSON Schema would not be looked at, though the answer
// hangs on it.
func (t *jtd) checked(path string, node any) error {
	if t.nodes++; t.nodes > maxSchemaNodes {
		return t.errorf(path, "it is too large")
	}
	switch node := node.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(node)) {
			isName := strings.HasSuffix(path, "/properties")
			if !isName && slices.Contains([]string{"$ref", "not", "if"}, name) {
				return t.errorf(path, "%s is not supported", name)
			}
			if !isName && slices.Contains([]string{"const", "enum", "default", "examples"}, name) {
				continue // values, not schemas
			}
			if err := t.checked(path+"/"+name, node[name]); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range node {
			if err := t.checked(fmt.Sprintf("%s/%d", path, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}
