package schema

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"troupe/protocol"
)

// JSON describes the wire as JSON Schema (draft 2020-12): every command,
// every response and every event, from the same tables and structs that decode
// and encode them.
func JSON() []byte {
	b := &schemas{defs: map[string]any{}}
	define := func(name string, is obj) obj {
		b.defs[name] = is
		return ref(name)
	}
	commands, responses, events := []any{}, []any{define("Failure", b.failure())}, []any{}
	for _, s := range protocol.Commands {
		commands = append(commands, define("Command_"+s.Name, b.command(s)))
		responses = append(responses, define("Response_"+s.Name, b.response(s)))
	}
	for _, e := range protocol.Events {
		events = append(events, define("Event_"+e.Name, b.event(e)))
	}
	b.defs["Command"] = obj{"anyOf": commands, "description": "One line on stdin."}
	b.defs["Response"] = obj{"anyOf": responses, "description": "The one answer to a command."}
	b.defs["Event"] = obj{"anyOf": events, "description": "Something a client is told without having asked."}
	b.defs["Output"] = obj{"anyOf": []any{ref("Response"), ref("Event")}, "description": "One line on stdout."}
	out, err := json.MarshalIndent(obj{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "pi RPC as spoken by troupe",
		"description": "Generated from the tables of package protocol. Members not named here may appear; readers ignore what they do not know.",
		"$ref":        "#/$defs/Output",
		"$defs":       b.defs,
	}, "", " ")
	if err != nil {
		panic("schema: " + err.Error())
	}
	return append(out, '\n')
}

type obj = map[string]any

func ref(name string) obj { return obj{"$ref": "#/$defs/" + name} }

// schemas gathers named types while it describes others.
type schemas struct{ defs map[string]any }

func (b *schemas) command(s protocol.Spec) obj {
	props := obj{
		"type": obj{"const": s.Name},
		"id":   obj{"description": "Any JSON value; the response repeats it."},
	}
	required := []string{"type"}
	if s.Scope != protocol.ScopeConnection {
		props["sessionId"] = obj{"type": "string", "description": "The routing handle of a session that open_session made; the connection's default session without it."}
	}
	for _, f := range s.Parameters() {
		sub := b.of(s.Params.Field(f.Index).Type)
		if len(f.Enum) > 0 {
			sub = obj{"enum": anyOf(f.Enum)}
		}
		if f.Doc != "" {
			sub = with(sub, "description", f.Doc)
		}
		props[f.Name] = sub
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return obj{"type": "object", "description": s.Doc, "properties": props, "required": required}
}

func (b *schemas) response(s protocol.Spec) obj {
	props := b.envelope(obj{"const": s.Name}, true)
	required := []string{"type", "command", "success"}
	if s.Result != nil {
		data := b.of(s.Result)
		if s.Nullable {
			data = obj{"anyOf": []any{data, obj{"type": "null"}}}
		}
		props["data"] = data
		if s.Result != reflect.TypeFor[protocol.Disposition]() {
			required = append(required, "data")
		}
	}
	return obj{"type": "object", "properties": props, "required": required}
}

func (b *schemas) failure() obj {
	props := b.envelope(obj{"type": "string", "description": "The command's name, or parse for a line that is none."}, false)
	props["error"] = obj{"type": "string", "description": "A sentence."}
	props["code"] = obj{"enum": anyOf(protocol.Codes()), "description": "A stable word."}
	props["data"] = obj{"anyOf": []any{b.of(reflect.TypeFor[protocol.RetryInfo]()), obj{"type": "object"}},
		"description": "What the code says is there. Where a command was cut off: whether it may have run."}
	return obj{"type": "object", "description": "A command that failed.", "properties": props,
		"required": []string{"type", "command", "success", "error", "code"}}
}

func (b *schemas) envelope(command obj, success bool) obj {
	return obj{
		"type": obj{"const": "response"}, "id": obj{}, "command": command, "success": obj{"const": success},
		"sessionId": obj{"type": "string"},
		"at":        obj{"type": "integer", "description": "The number of the session's last event before the answer (feature seq)."},
	}
}

// messageUpdate has a form of its own.
var messageUpdate = reflect.TypeFor[*protocol.MessageUpdate]()

func (b *schemas) event(e protocol.EventSpec) obj {
	s := b.messageUpdate()
	if e.Members != messageUpdate {
		s = b.structure(e.Members)
	}
	props := maps.Clone(s["properties"].(obj))
	props["type"] = obj{"const": e.Name}
	props["sessionId"] = obj{"type": "string", "description": "The routing handle, on records of a session that open_session made."}
	props["seq"] = obj{"type": "integer", "description": "The event's number among those of the session (feature seq)."}
	props["seqFrom"] = obj{"type": "integer", "description": "The first number that the record stands for, if it stands for several."}
	s["properties"] = props
	s["required"] = append([]string{"type"}, s["required"].([]string)...)
	s["description"] = e.Doc
	return s
}

func (b *schemas) messageUpdate() obj {
	message := b.of(reflect.TypeFor[*protocol.AssistantMessage]())
	step := obj{"type": "object", "properties": obj{
		"type": obj{"enum": []any{"text_start", "text_delta", "text_end", "thinking_start", "thinking_delta", "thinking_end",
			"toolcall_start", "toolcall_delta", "toolcall_end"}},
		"contentIndex": obj{"type": "integer", "description": "The block's place in the message's content."},
		"delta":        obj{"type": "string", "description": "With _delta: what was added; for a tool call, JSON text of its arguments."},
		"content":      obj{"type": "string", "description": "With text_end and thinking_end: the whole block."},
		"toolCall":     with(b.of(reflect.TypeFor[protocol.ToolCall]()), "description", "With toolcall_end."),
		"id":           obj{"type": "string", "description": "With toolcall_start and deltaUpdates."},
		"toolName":     obj{"type": "string", "description": "With toolcall_start and deltaUpdates."},
		"partial":      with(message, "description", "The same as message."),
	}, "required": []string{"type", "contentIndex"}}
	return obj{"type": "object", "properties": obj{
		"message":               with(message, "description", "The message so far; not with deltaUpdates."),
		"usage":                 with(b.of(reflect.TypeFor[protocol.Usage]()), "description", "With deltaUpdates: the counts so far."),
		"assistantMessageEvent": step,
		"runId":                 obj{"type": "string"},
	}, "required": []string{"assistantMessageEvent"}}
}

func with(s obj, key string, value any) obj {
	s = maps.Clone(s)
	s[key] = value
	return s
}

func anyOf[T ~string](values []T) []any {
	list := []any{}
	for _, v := range values {
		list = append(list, string(v))
	}
	return list
}

// closed lists the string types whose values are known.
var closedSets = map[reflect.Type][]any{
	reflect.TypeFor[protocol.ThinkingLevel](): anyOf(protocol.ThinkingLevels),
	reflect.TypeFor[protocol.QueueMode]():     {"all", "one-at-a-time"},
	reflect.TypeFor[protocol.InterruptMode](): {"immediate", "wait"},
	reflect.TypeFor[protocol.StopReason]():    {"stop", "length", "toolUse", "error", "aborted", "pending"},
}

// of describes a type; structs become definitions of their own.
func (b *schemas) of(t reflect.Type) obj {
	if set, ok := closedSets[t]; ok {
		return obj{"enum": set}
	}
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return obj{}
	case reflect.TypeFor[protocol.Message]():
		return b.union("Message", "role", reflect.TypeFor[*protocol.UserMessage](), reflect.TypeFor[*protocol.AssistantMessage](),
			reflect.TypeFor[*protocol.ToolResultMessage](), reflect.TypeFor[*protocol.BashExecutionMessage](), reflect.TypeFor[*protocol.CustomMessage](),
			reflect.TypeFor[*protocol.BranchSummaryMessage](), reflect.TypeFor[*protocol.CompactionSummaryMessage]())
	case reflect.TypeFor[protocol.Block]():
		return b.union("Block", "type", reflect.TypeFor[protocol.Text](), reflect.TypeFor[protocol.Thinking](), reflect.TypeFor[protocol.ToolCall](), reflect.TypeFor[protocol.Image]())
	case reflect.TypeFor[protocol.Record]():
		return b.record()
	}
	switch t.Kind() {
	case reflect.String:
		return obj{"type": "string"}
	case reflect.Bool:
		return obj{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return obj{"type": "integer"}
	case reflect.Float64:
		return obj{"type": "number"}
	case reflect.Slice:
		return obj{"type": "array", "items": b.of(t.Elem())}
	case reflect.Map:
		return obj{"type": "object", "additionalProperties": b.of(t.Elem())}
	case reflect.Pointer:
		return b.of(t.Elem())
	case reflect.Struct:
		return b.named(t)
	}
	panic("schema: no schema for " + t.String())
}

func (b *schemas) named(t reflect.Type) obj {
	if _, ok := b.defs[t.Name()]; !ok {
		b.defs[t.Name()] = true // being described
		b.defs[t.Name()] = b.structure(t)
	}
	return ref(t.Name())
}

// structure describes a struct by its tags. A member is required unless it is
// omitted when empty, or some dialects do not have it; a pointer that is not omitted may be null,
// and a member with the tag also may have that type in some dialect.
func (b *schemas) structure(t reflect.Type) obj {
	props, required := obj{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		s := b.of(f.Type)
		if enum := f.Tag.Get("enum"); enum != "" {
			s = obj{"enum": anyOf(strings.Split(enum, ","))}
		}
		if also := f.Tag.Get("also"); also != "" {
			s = obj{"anyOf": []any{s, obj{"type": also}}}
		}
		optional := strings.Contains(opts, "omit")
		if f.Type.Kind() == reflect.Pointer && !optional || f.Tag.Get("null") != "" {
			s = obj{"anyOf": []any{s, obj{"type": "null"}}}
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			s = with(s, "description", doc)
		}
		props[name] = s
		if !optional && f.Tag.Get("not") == "" {
			required = append(required, name)
		}
	}
	return obj{"type": "object", "properties": props, "required": required}
}

// union describes a sealed family; each member carries its discriminator. A
// member of a kind this version does not know is let through.
func (b *schemas) union(name, discriminator string, types ...reflect.Type) obj {
	if _, ok := b.defs[name]; ok {
		return ref(name)
	}
	b.defs[name] = true
	alternatives, known := []any{}, []any{}
	for _, t := range types {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		value := discriminatorOf(t)
		b.named(t)
		s := b.defs[t.Name()].(obj)
		s["properties"].(obj)[discriminator] = obj{"const": value}
		s["required"] = append([]string{discriminator}, s["required"].([]string)...)
		alternatives = append(alternatives, ref(t.Name()))
		known = append(known, value)
	}
	alternatives = append(alternatives, obj{"type": "object", "properties": obj{discriminator: obj{"type": "string", "not": obj{"enum": known}}},
		"required": []string{discriminator}, "description": "Of a kind this version does not know."})
	b.defs[name] = obj{"anyOf": alternatives}
	return ref(name)
}

func discriminatorOf(t reflect.Type) string {
	switch v := reflect.New(t).Interface().(type) {
	case protocol.Message:
		return v.Role()
	case *protocol.Text:
		return "text"
	case *protocol.Thinking:
		return "thinking"
	case *protocol.ToolCall:
		return "toolCall"
	case *protocol.Image:
		return "image"
	}
	panic("schema: no discriminator for " + t.String())
}

func (b *schemas) record() obj {
	return obj{"type": "object", "description": "An entry of the session file.", "properties": obj{
		"type": obj{"type": "string"}, "id": obj{"type": "string"},
		"parentId": obj{"type": []any{"string", "null"}}, "timestamp": obj{"type": "string"},
	}, "required": []string{"type", "id", "parentId", "timestamp"}}
}
