package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

//go:generate go run troupe/cmd/troupe-doc

// Schema describes the wire as JSON Schema (draft 2020-12): every command,
// every response and every event, from the same tables and structs that decode
// and encode them.
func Schema() []byte {
	b := &schemas{defs: map[string]any{}}
	commands := []any{}
	for _, s := range Commands {
		name := "Command_" + s.Name
		b.defs[name] = b.command(s)
		commands = append(commands, ref(name))
	}
	responses := []any{ref("Failure")}
	b.defs["Failure"] = b.failure()
	for _, s := range Commands {
		name := "Response_" + s.Name
		b.defs[name] = b.response(s)
		responses = append(responses, ref(name))
	}
	events := []any{}
	for _, e := range Events {
		name := "Event_" + e.Name
		b.defs[name] = b.event(e)
		events = append(events, ref(name))
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
		panic("protocol: schema: " + err.Error())
	}
	return append(out, '\n')
}

type obj = map[string]any

func ref(name string) obj { return obj{"$ref": "#/$defs/" + name} }

// schemas gathers named types while it describes others.
type schemas struct{ defs map[string]any }

func (b *schemas) command(s Spec) obj {
	props := obj{
		"type": obj{"const": s.Name},
		"id":   obj{"description": "Any JSON value; the response repeats it."},
	}
	required := []string{"type"}
	if s.Owner == OwnerSession {
		props["sessionId"] = obj{"type": "string", "description": "The routing handle of a session that open_session made; the connection's default session without it."}
	}
	for _, f := range s.fields() {
		sub := b.of(s.Params.Field(f.index).Type)
		if len(f.enum) > 0 {
			sub = obj{"enum": anyOf(f.enum)}
		}
		if f.doc != "" {
			sub = with(sub, "description", f.doc)
		}
		props[f.name] = sub
		if f.required {
			required = append(required, f.name)
		}
	}
	return obj{"type": "object", "description": s.Doc, "properties": props, "required": required}
}

func (b *schemas) response(s Spec) obj {
	props := b.envelope(obj{"const": s.Name}, true)
	required := []string{"type", "command", "success"}
	if s.Result != nil {
		data := b.of(s.Result)
		if s.Nullable {
			data = obj{"anyOf": []any{data, obj{"type": "null"}}}
		}
		props["data"] = data
		if s.Result != reflect.TypeFor[Disposition]() {
			required = append(required, "data")
		}
	}
	return obj{"type": "object", "properties": props, "required": required}
}

func (b *schemas) failure() obj {
	props := b.envelope(obj{"type": "string", "description": "The command's name, or parse for a line that is none."}, false)
	props["error"] = obj{"type": "string", "description": "A sentence."}
	props["code"] = obj{"enum": anyOf(Codes()), "description": "A stable word."}
	return obj{"type": "object", "description": "A command that failed.", "properties": props,
		"required": []string{"type", "command", "success", "error", "code"}}
}

func (b *schemas) envelope(command obj, success bool) obj {
	return obj{
		"type": obj{"const": "response"}, "id": obj{}, "command": command, "success": obj{"const": success},
		"sessionId": obj{"type": "string"}, "seq": obj{"type": "integer"},
	}
}

func (b *schemas) event(e EventSpec) obj {
	s := obj{"type": "object", "properties": obj{}, "required": []string{}}
	if e.Event != nil {
		s = b.structure(e.Event)
	} else {
		s = b.messageUpdate()
	}
	props := maps.Clone(s["properties"].(obj))
	props["type"] = obj{"const": e.Name}
	props["sessionId"] = obj{"type": "string", "description": "The routing handle, on records of a session that open_session made."}
	props["seq"] = obj{"type": "integer", "description": "Rises by one with each record of the session (feature seq)."}
	s["properties"] = props
	s["required"] = append([]string{"type"}, s["required"].([]string)...)
	s["description"] = e.Doc
	return s
}

func (b *schemas) messageUpdate() obj {
	message := b.of(reflect.TypeFor[*AssistantMessage]())
	step := obj{"type": "object", "properties": obj{
		"type": obj{"enum": []any{"text_start", "text_delta", "text_end", "thinking_start", "thinking_delta", "thinking_end",
			"toolcall_start", "toolcall_delta", "toolcall_end"}},
		"contentIndex": obj{"type": "integer", "description": "The block's place in the message's content."},
		"delta":        obj{"type": "string", "description": "With _delta: what was added; for a tool call, JSON text of its arguments."},
		"content":      obj{"type": "string", "description": "With text_end and thinking_end: the whole block."},
		"toolCall":     with(b.of(reflect.TypeFor[ToolCall]()), "description", "With toolcall_end."),
		"id":           obj{"type": "string", "description": "With toolcall_start and deltaUpdates."},
		"toolName":     obj{"type": "string", "description": "With toolcall_start and deltaUpdates."},
		"partial":      with(message, "description", "The same as message."),
	}, "required": []string{"type", "contentIndex"}}
	return obj{"type": "object", "properties": obj{
		"message":               with(message, "description", "The message so far; not with deltaUpdates."),
		"usage":                 with(b.of(reflect.TypeFor[Usage]()), "description", "With deltaUpdates: the counts so far."),
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
	reflect.TypeFor[ThinkingLevel](): anyOf(ThinkingLevels),
	reflect.TypeFor[QueueMode]():     {"all", "one-at-a-time"},
	reflect.TypeFor[InterruptMode](): {"immediate", "wait"},
	reflect.TypeFor[StopReason]():    {"stop", "length", "toolUse", "error", "aborted", "pending"},
}

// of describes a type; structs become definitions of their own.
func (b *schemas) of(t reflect.Type) obj {
	if set, ok := closedSets[t]; ok {
		return obj{"enum": set}
	}
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return obj{}
	case reflect.TypeFor[Message]():
		return b.union("Message", "role", reflect.TypeFor[*UserMessage](), reflect.TypeFor[*AssistantMessage](),
			reflect.TypeFor[*ToolResultMessage](), reflect.TypeFor[*BashExecutionMessage](), reflect.TypeFor[*CustomMessage](),
			reflect.TypeFor[*BranchSummaryMessage](), reflect.TypeFor[*CompactionSummaryMessage]())
	case reflect.TypeFor[Block]():
		return b.union("Block", "type", reflect.TypeFor[Text](), reflect.TypeFor[Thinking](), reflect.TypeFor[ToolCall](), reflect.TypeFor[Image]())
	case reflect.TypeFor[Record]():
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
	panic("protocol: no schema for " + t.String())
}

func (b *schemas) named(t reflect.Type) obj {
	if _, ok := b.defs[t.Name()]; !ok {
		b.defs[t.Name()] = true // being described
		b.defs[t.Name()] = b.structure(t)
	}
	return ref(t.Name())
}

// structure describes a struct by its tags. A member is required unless it is
// omitted when empty; a pointer that is not omitted may be null.
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
		optional := strings.Contains(opts, "omitempty") || f.Type == reflect.TypeFor[RunID]()
		if f.Type.Kind() == reflect.Pointer && !optional || name == "leafId" || f.Tag.Get("null") != "" {
			s = obj{"anyOf": []any{s, obj{"type": "null"}}}
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			s = with(s, "description", doc)
		}
		props[name] = s
		if !optional && !(t == reflect.TypeFor[SessionChanged]() && name == "sessionId") {
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
	case Message:
		return v.Role()
	case *Text:
		return "text"
	case *Thinking:
		return "thinking"
	case *ToolCall:
		return "toolCall"
	case *Image:
		return "image"
	}
	panic("protocol: no discriminator for " + t.String())
}

func (b *schemas) record() obj {
	return obj{"type": "object", "description": "An entry of the session file.", "properties": obj{
		"type": obj{"type": "string"}, "id": obj{"type": "string"},
		"parentId": obj{"type": []any{"string", "null"}}, "timestamp": obj{"type": "string"},
	}, "required": []string{"type", "id", "parentId", "timestamp"}}
}

// Reference describes the wire for people, as Markdown.
func Reference() []byte {
	var w bytes.Buffer
	w.WriteString(referenceHead)
	w.WriteString("\n## Commands\n\n| command | dialects | data of a success |\n|---|---|---|\n")
	for _, s := range Commands {
		fmt.Fprintf(&w, "| [`%s`](#%s) | %s | %s |\n", s.Name, s.Name, s.Since, resultText(s))
	}
	for _, s := range Commands {
		writeCommand(&w, s)
	}
	w.WriteString("\n## Events\n\n| event | dialects | needs |\n|---|---|---|\n")
	for _, e := range Events {
		fmt.Fprintf(&w, "| [`%s`](#%s) | %s | %s |\n", e.Name, e.Name, e.Since, e.Feature)
	}
	for _, e := range Events {
		writeEvent(&w, e)
	}
	writeTypes(&w)
	writeDialects(&w)
	writeCodes(&w)
	writeLimits(&w)
	w.WriteString(referenceFoot)
	return w.Bytes()
}

// referenceFoot names what the dialects have and this version does not.
const referenceFoot = `
## Not in this version

What a document describes and this version does not do. Commands of these parts are answered with ` + "`unknown_command`" + `, and
their events never come:

| part | dialects | names |
|---|---|---|
| extensions and hooks, in ` + "`extensions`, `hooks`" + ` directories or named by ` + "`--extension`, `--hook`" + ` and settings | S0 S1 S2 S3 S4 P O | named on stderr once; ` + "`extension_error`, `hook_error`" + ` |
| with them: their slash commands, which steer and follow_up will refuse | S0 S1 S2 S4 P O | ` + "`get_commands`" + ` lists prompts and skills only; ` + "`/name`" + ` of none of these goes to the model as it is |
| with them: vetoes of new_session, switch_session, fork, branch, clone and navigate_tree | S0 S1 S2 S3 P O | ` + "`cancelled`" + ` is always false, but for a navigate_tree that was given up while it waited for its summary |
| with them: dialogs other than those of ` + "`--confirm`" + `, their timeouts, notices, and a shutdown by an extension | S1 S2 P O | ` + "`extension_ui_request`" + ` with another method than ` + "`confirm`" + ` |
| the task tool: subagents, isolation in worktrees and verification, with the settings ` + "`task.*`" + ` and the file ` + "`omp.jsonc`" + ` | S1 O | the model is told ` + "`Tool task not found`" + `; ` + "`subagent_*`, `get_subagents`, `get_subagent_messages`, `set_subagent_subscription`" + ` |
| budgets, with the settings ` + "`task.budget.*`" + `: no limit is applied | S1 | ` + "`budget_warning`, `budget_exceeded`" + ` |
| what only oh-my-pi 18 has beside host tools and todos | O | ` + "`negotiate_protocol`, `set_fast_mode`, `get_available_commands`, `set_host_uri_schemes`, `get_messages_page`, `handoff`, `get_login_providers`, `login`" + ` |
| images by URL: URLs are not fetched, the error says to send the data; ` + "`data:`" + ` URLs are taken | S0 S3 | an image's ` + "`source`" + ` of type ` + "`url`" + ` |
| the stream for web clients over a WebSocket; the typed client and the SDK in TypeScript | S0 S1 S2 | ` + "`troupe schema --ts`" + ` prints the types |
| the start, done and error steps of a message: message_start and message_end say as much | S0 S3 S4 | ` + "`assistantMessageEvent.type`" + ` |
| WebSockets to model providers | P | |

Settings and files that this version does not obey are listed under [Configuration that this version does not obey](#configuration-that-this-version-does-not-obey).
`

const referenceHead = `# The wire

Generated from the tables of packages protocol and resource by ` + "`make generate`" + `; edit those.

One JSON object per line, UTF-8, LF. stdin carries commands, stdout responses and events and nothing else.
A command is ` + "`{\"id\":any,\"type\":\"name\",…parameters}`" + `; its one response repeats the id and the name:
` + "`{\"id\":…,\"type\":\"response\",\"command\":\"name\",\"success\":true,\"data\":…}`" + ` or
` + "`{…,\"success\":false,\"error\":\"a sentence\",\"code\":\"a_stable_word\"}`" + `. Members not named here may appear; ignore
what you do not know. The framing, the ordering promises and the error classes are in ` + "`doc.go`" + `; the machine-readable
form is ` + "`schema.json`" + `.

Dialects: S0 pi of January 2026, S1 pisces, S2 web parity, S3 oh-my-pi 1.337, S4 pi_agent_rust, P pi 1.x,
O oh-my-pi 18, T troupe itself. Everything in the tables works without negotiating, unless it names a feature.
A parameter or member without an entry under "only in" is in every dialect that has its command, event or type.
`

func resultText(s Spec) string {
	switch {
	case s.Silent:
		return "(not answered)"
	case s.Result == nil:
		return "–"
	}
	text := typeText(s.Result)
	if s.Nullable {
		text += " or null"
	}
	return text
}

// typeText names a type as readers of the wire would.
func typeText(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "any"
	case t.Kind() == reflect.Pointer:
		return typeText(t.Elem())
	case t.Kind() == reflect.Slice:
		return typeText(t.Elem()) + "[]"
	case t.Kind() == reflect.Struct:
		return fmt.Sprintf("[%s](#%s)", t.Name(), strings.ToLower(t.Name()))
	case t.Kind() == reflect.Interface:
		return t.Name()
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "integer"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.String && closedSets[t] != nil:
		var values []string
		for _, v := range closedSets[t] {
			values = append(values, fmt.Sprint(v))
		}
		return strings.Join(values, ", ")
	}
	return t.Kind().String()
}

func writeCommand(w *bytes.Buffer, s Spec) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\nDialects: %s. Answer: %s.\n", s.Name, s.Doc, s.Since, resultText(s))
	if len(s.fields()) == 0 {
		return
	}
	w.WriteString("\n| parameter | type | only in | |\n|---|---|---|---|\n")
	for _, f := range s.fields() {
		kind := typeText(s.Params.Field(f.index).Type)
		if len(f.enum) > 0 {
			kind = strings.Join(f.enum, ", ")
		}
		need := ""
		if f.required {
			need = "**required.** "
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s%s |\n", f.name, kind, s.Params.Field(f.index).Tag.Get("since"), need, f.doc)
	}
}

func writeEvent(w *bytes.Buffer, e EventSpec) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\nDialects: %s.", e.Name, e.Doc, e.Since)
	if e.Feature != "" {
		fmt.Fprintf(w, " Needs the feature `%s`.", e.Feature)
	}
	w.WriteString("\n")
	if e.Event == nil {
		w.WriteString("\n" + updateText)
		return
	}
	writeMembers(w, e.Event)
}

const updateText = `| member | type | |
|---|---|---|
| ` + "`message`" + ` | [AssistantMessage](#assistantmessage) | The message so far. Not with deltaUpdates. |
| ` + "`usage`" + ` | [Usage](#usage) | The counts so far. Only with deltaUpdates. |
| ` + "`assistantMessageEvent.type`" + ` | text_start, text_delta, text_end, thinking_…, toolcall_… | The step. |
| ` + "`….contentIndex`" + ` | integer | The block's place in the content. |
| ` + "`….delta`" + ` | string | With _delta. For a tool call: JSON text of its arguments. |
| ` + "`….content`" + ` | string | With text_end and thinking_end: the whole block. |
| ` + "`….toolCall`" + ` | [ToolCall](#toolcall) | With toolcall_end. |
| ` + "`….id`, `….toolName`" + ` | string | With toolcall_start and deltaUpdates. |
| ` + "`….partial`" + ` | [AssistantMessage](#assistantmessage) | The same as message. Not with deltaUpdates. |
`

func writeMembers(w *bytes.Buffer, t reflect.Type) {
	var rows bytes.Buffer
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		kind := typeText(f.Type)
		if enum := f.Tag.Get("enum"); enum != "" {
			kind = strings.ReplaceAll(enum, ",", ", ")
		}
		if strings.Contains(opts, "omitempty") {
			kind += ", optional"
			if null := f.Tag.Get("null"); null != "" {
				kind += " (null in " + null + ")"
			}
		} else if f.Type.Kind() == reflect.Pointer {
			kind += " or null"
		}
		since := f.Tag.Get("since")
		if f.Type == reflect.TypeFor[RunID]() {
			since = "T"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, kind, since, f.Tag.Get("doc"))
	}
	if rows.Len() > 0 {
		w.WriteString("\n| member | type | only in | |\n|---|---|---|---|\n")
		w.Write(rows.Bytes())
	}
}

// writeTypes describes every struct that a command or event refers to.
func writeTypes(w *bytes.Buffer) {
	seen := map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(t.Elem())
		case reflect.Struct:
			if seen[t] {
				return
			}
			seen[t] = true
			for i := range t.NumField() {
				if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
					visit(f.Type)
				}
			}
		}
	}
	roots := []reflect.Type{
		reflect.TypeFor[UserMessage](), reflect.TypeFor[AssistantMessage](), reflect.TypeFor[ToolResultMessage](),
		reflect.TypeFor[BashExecutionMessage](), reflect.TypeFor[CustomMessage](), reflect.TypeFor[BranchSummaryMessage](),
		reflect.TypeFor[CompactionSummaryMessage](), reflect.TypeFor[Text](), reflect.TypeFor[Thinking](), reflect.TypeFor[ToolCall](), reflect.TypeFor[Image](),
	}
	for _, t := range roots {
		visit(t)
	}
	for _, s := range Commands {
		if s.Result != nil {
			visit(s.Result)
		}
	}
	events := map[reflect.Type]bool{}
	for _, e := range Events {
		if e.Event != nil {
			events[e.Event] = true
			visit(e.Event)
		}
	}
	types := slices.SortedFunc(maps.Keys(seen), func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) })
	w.WriteString("\n## Types\n\nTimes in messages are epoch milliseconds, times of entries ISO 8601. Costs are US dollars.\n" +
		"`Message` is one of the types ending in Message, told apart by `role`; `Block` one of Text, Thinking, ToolCall, Image, by `type`.\n")
	for _, t := range types {
		if events[t] || t.Name() == "Record" || t.Name() == "EntryMeta" {
			continue
		}
		fmt.Fprintf(w, "\n### %s\n", t.Name())
		writeMembers(w, t)
	}
}

const dialectsHead = `
## Dialects and features

Without ` + "`--dialect` and `hello`" + ` a client has the union, with which the clients of every seed document and of pi 0.31 to 1.5
work, but for what stands under [Not in this version](#not-in-this-version). Where documents contradict each other, the union
takes the side on which no client breaks, and a dialect that is on the other side says so in the table: a client of
S4, for one, that relies on steer and follow_up refusing what begins with / and names nothing has to choose ` + "`s4`" + `. A dialect
changes what is listed here and nothing else.

In every dialect there are additions that its document does not have, which readers ignore as they must ignore any member
and any type they do not know: the data of an accepted message (` + "`disposition`" + `, which clients of pi 1.x need), ` + "`runId`" + `, the
members marked T, ` + "`agent_end.willRetry` and `error`" + `, and the events ` + "`agent_settled`, `queue_changed` and `session_changed`" + `.
` + "`tool_execution_end.result.details`" + ` is there where a tool has something to say, as in every pi; the samples of S0 and S3 always
show it.
`

func writeDialects(w *bytes.Buffer) {
	w.WriteString(dialectsHead + "\n| dialect | features on | behaviour |\n|---|---|---|\n")
	for _, d := range Dialects() {
		g, _ := d.Gates()
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", d, strings.Join(g.On(), ", "), strings.Join(g.describe(), "; "))
	}
	w.WriteString("\n| feature | |\n|---|---|\n")
	for _, f := range Features() {
		fmt.Fprintf(w, "| `%s` | %s |\n", f, featureDocs[f])
	}
}

func writeCodes(w *bytes.Buffer) {
	w.WriteString("\n## Error codes\n\n| code | |\n|---|---|\n")
	for _, c := range Codes() {
		fmt.Fprintf(w, "| `%s` | %s |\n", c, codeDocs[c])
	}
}
