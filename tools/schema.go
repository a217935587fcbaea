package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"troupe/protocol"
)

// described is what a tool says of itself.
type described struct{ info protocol.ToolInfo }

// Info is part of [Tool].
func (d described) Info() protocol.ToolInfo { return d.info }

// describe makes a tool's description from its text, the struct T of its
// arguments and what it does with the file they name. The text is what the model reads, then optionally a section
// "Snippet", the tool's line in the system prompt, and a list "Guidelines".
func describe[T any](name, text string, files protocol.FileUse) described {
	info := protocol.ToolInfo{Name: name, Parameters: schemaOf(reflect.TypeFor[T]()), Files: files}
	for i, section := range strings.Split(text, "\n## ") {
		title, body := "", section
		if i > 0 {
			title, body, _ = strings.Cut(section, "\n")
		}
		body = strings.TrimSpace(body)
		switch title {
		case "":
			info.Description = body
		case "Snippet":
			info.Snippet = body
		case "Guidelines":
			for line := range strings.Lines(body) {
				info.Guidelines = append(info.Guidelines, strings.TrimSpace(strings.TrimPrefix(line, "- ")))
			}
		default:
			panic(fmt.Sprintf("tools: %s.md has an unknown section %q", name, title))
		}
	}
	return described{info}
}

// schemaOf derives the JSON Schema of a struct from the json and description
// tags of its fields, in their order. A field is required unless it has
// omitempty. It knows the types that arguments of tools have; another one is a
// programming error and panics.
func schemaOf(t reflect.Type) json.RawMessage { return appendSchema(nil, t, "") }

func appendSchema(dst []byte, t reflect.Type, description string) []byte {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	dst = append(dst, `{"type":"`+schemaType(t)+`"`...)
	if description != "" {
		dst = append(dst, `,"description":`...)
		dst = protocol.AppendString(dst, description)
	}
	switch t.Kind() {
	case reflect.Slice:
		dst = append(dst, `,"items":`...)
		dst = appendSchema(dst, t.Elem(), "")
	case reflect.Struct:
		dst = appendFields(dst, t)
	}
	return append(dst, '}')
}

func schemaType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct:
		return "object"
	}
	panic("tools: no schema for an argument of type " + t.String())
}

func appendFields(dst []byte, t reflect.Type) []byte {
	var required []byte
	dst = append(dst, `,"properties":{`...)
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = protocol.AppendString(dst, name)
		dst = append(dst, ':')
		dst = appendSchema(dst, field.Type, field.Tag.Get("description"))
		if options != "omitempty" {
			if required != nil {
				required = append(required, ',')
			}
			required = protocol.AppendString(required, name)
		}
	}
	dst = append(dst, '}')
	if required != nil {
		dst = append(dst, `,"required":[`...)
		dst = append(dst, required...)
		dst = append(dst, ']')
	}
	return dst
}

// decodeArgs reads validated arguments.
func decodeArgs[T any](raw json.RawMessage) (args T, err error) {
	if err = json.Unmarshal(raw, &args); err != nil {
		err = fmt.Errorf("read arguments: %w", err)
	}
	return args, err
}

// details is the JSON of a result's details.
func details(v any) json.RawMessage { return protocol.AppendValue(nil, v) }
