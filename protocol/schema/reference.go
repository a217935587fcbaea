package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"troupe/protocol"
)

// Reference describes the wire for people, as Markdown.
func Reference() []byte {
	var w bytes.Buffer
	w.WriteString(referenceHead)
	w.WriteString("\n## Commands\n\n| command | dialects | data of the response |\n|---|---|---|\n")
	for _, s := range protocol.Commands {
		fmt.Fprintf(&w, "| [`%s`](#%s) | %s | %s |\n", s.Name, s.Name, dialectsOf(s.Since), resultText(s))
	}
	for _, s := range protocol.Commands {
		writeCommand(&w, s)
	}
	w.WriteString("\n## Events\n\n| event | dialects | needs |\n|---|---|---|\n")
	for _, e := range protocol.Events {
		fmt.Fprintf(&w, "| [`%s`](#%s) | %s | %s |\n", e.Name, e.Name, dialectsOf(e.Since), e.Needs)
	}
	for i, e := range protocol.Events {
		isFirst := !slices.ContainsFunc(protocol.Events[:i], func(before protocol.EventSpec) bool { return before.Name == e.Name })
		writeEvent(&w, e, isFirst)
	}
	writeTypes(&w)
	writeLimits(&w)
	w.WriteString(referenceFoot)
	return w.Bytes()
}

// referenceFoot names what the dialects have and this version does not.
const referenceFoot = `
## Not in this version

Commands of these parts are answered with ` + "`unknown_command`" + `. Their events are never sent.

| part | dialects | names |
|---|---|---|
| MCP servers that extensions register | pi1 | ` + "`registerMcpServer`" + ` |
| commands of oh-my-pi 18 other than host tools and todos | omp18 | ` + "`negotiate_protocol`, `set_fast_mode`, `get_available_commands`, `set_host_uri_schemes`, `get_messages_page`, `handoff`" + ` |
| images by URL. The error asks for the data. ` + "`data:`" + ` URLs are accepted | s0 s3 | ` + "`source`" + ` of type ` + "`url`" + ` in an image |
| streams for web clients; SDKs in TypeScript | s0 s1 s2 | ` + "`troupe schema --ts`" + ` prints the types |
| the steps start, done and error in ` + "`message_update`: `message_start` and `message_end` have the same information" + ` | s0 s3 s4 | ` + "`assistantMessageEvent.type`" + ` |
| WebSockets to model providers | pi1 | |

Settings and files without effect are listed under
[Configuration that this version does not obey](#configuration-that-this-version-does-not-obey).
`

const referenceHead = `# Protocol reference

This page lists every command, event and type of the protocol, each with an example. ` + "`make generate`" + ` writes it from
the tables of the packages protocol and config. The examples are recorded from test runs (` + "`make examples`" + `). In them,
ids, times and paths are replaced by fixed ones, and long texts and lists end in ` + "`…`" + `.

| page | content |
|---|---|
| [Writing a client](../docs/clients.md) | complete programs, reconnecting, several clients of a session |
| [Order of messages](../docs/protocol/messages.md) | which records follow a command, and in which order |
| [Errors](../docs/protocol/errors.md) | error codes, and whether a failed command may be sent again |
| [Dialects and features](../docs/protocol/dialects.md) | the variants of the protocol |
| [schema.json](schema.json) | the same as JSON Schema |

## Records

A client writes commands to stdin of ` + "`troupe --mode rpc`" + ` and reads responses and events from its stdout. Each record is one
JSON object on a line of its own, in UTF-8, ended by LF.

| record | form |
|---|---|
| command | ` + "`{\"id\":\"1\",\"type\":\"prompt\",\"message\":\"hi\"}`" + `. ` + "`id`" + ` is any JSON value of the client's choice |
| response to a success | ` + "`{\"id\":\"1\",\"type\":\"response\",\"command\":\"prompt\",\"success\":true,\"data\":{…}}`" + ` |
| response to a failure | ` + "`{\"id\":\"1\",\"type\":\"response\",\"command\":\"prompt\",\"success\":false,\"error\":\"a sentence\",\"code\":\"a_stable_word\"}`" + ` |
| event | ` + "`{\"type\":\"agent_start\",\"runId\":\"1\"}`" + ` |

Every command gets exactly one response, unless it is marked as not answered. Records may have members that are not listed
here. Clients ignore members and events that they do not know.

A connection has a default session, and commands without ` + "`sessionId`" + ` go to it. A client that opens more sessions with
` + "`open_session`" + ` adds the returned ` + "`sessionId`" + ` to their commands. All records of such a session have it, too.

## Dialects

pi has changed its protocol over time, and other programs speak it with changes of their own. Each of these variants is a
**dialect**: it has commands and events of its own, and gives some members another form. troupe speaks all of them.

Every dialect accepts every command. The difference is how some records look, and how a session behaves in some cases.
A client that does not choose gets the **union**, which works with the clients of all dialects. A new client needs no
other. A **feature** is a part of the protocol that a client enables by name, in any dialect. An event that needs a
feature says so.

| name in the tables | who speaks it |
|---|---|
| s0 | pi of January 2026 (0.45) |
| s1 | pisces |
| s2 | pi 0.74, with additions for web front ends |
| s3 | oh-my-pi 1.337 |
| s4 | pi_agent_rust |
| pi1 | pi 0.87 and 1.x |
| omp18 | oh-my-pi 18. It is no dialect that can be chosen: the union has its additions |
| troupe | additions of troupe, in every dialect |

In the tables, the column "dialects" says whose protocol has a command or event; "all" means s0 to s4 and pi1. Members
and parameters without an entry in "only in" belong to every dialect that has their command, event or type.
`

// dialectsOf says in which dialects a row of a table is.
func dialectsOf(since string) string { return cmp.Or(since, "all") }

func resultText(s protocol.Spec) string {
	switch {
	case s.Silent:
		return "(not answered)"
	case s.Result == nil:
		return "none"
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
	case eventOf(t) != "":
		return fmt.Sprintf("[%s](#%s)", t.Name(), eventOf(t))
	case t == reflect.TypeFor[protocol.Record]():
		return "[Record](#types)"
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

// eventOf returns the event whose members a struct has, or "".
func eventOf(t reflect.Type) string {
	for _, e := range protocol.Events {
		if e.Members == t && t != messageUpdate {
			return e.Name
		}
	}
	return ""
}

func writeCommand(w *bytes.Buffer, s protocol.Spec) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\nDialects: %s. Data of the response: %s.\n", s.Name, s.Doc, dialectsOf(s.Since), resultText(s))
	defer writeExamples(w, s.Name)
	if len(s.Parameters()) == 0 {
		return
	}
	w.WriteString("\n| parameter | type | only in | |\n|---|---|---|---|\n")
	for _, f := range s.Parameters() {
		kind := typeText(s.Params.Field(f.Index).Type)
		if len(f.Enum) > 0 {
			kind = strings.Join(f.Enum, ", ")
		}
		need := ""
		if f.Required {
			need = "**required.** "
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s%s |\n", f.Name, kind, s.Params.Field(f.Index).Tag.Get("since"), need, f.Doc)
	}
}

func writeEvent(w *bytes.Buffer, e protocol.EventSpec, withExamples bool) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\nDialects: %s.", e.Name, e.Doc, dialectsOf(e.Since))
	if e.Needs != "" {
		fmt.Fprintf(w, " Needs the feature `%s`.", e.Needs)
	}
	if e.Unless != "" {
		fmt.Fprintf(w, " Not with the feature `%s`.", e.Unless)
	}
	if e.Merges {
		w.WriteString(" Adjacent ones that wait for the client are merged.")
	}
	w.WriteString("\n")
	if withExamples {
		defer writeExamples(w, e.Name)
	}
	if e.Members == messageUpdate {
		w.WriteString("\n" + updateText)
		return
	}
	writeMembers(w, e.Members)
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
		if strings.Contains(opts, "omit") {
			kind += ", optional"
			if null := f.Tag.Get("null"); null != "" {
				kind += " (null in " + null + ")"
			}
		} else if f.Type.Kind() == reflect.Pointer || f.Tag.Get("null") != "" {
			kind += " or null"
		}
		if not := f.Tag.Get("not"); not != "" {
			kind += ", not in " + not
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, kind, f.Tag.Get("since"), f.Tag.Get("doc"))
	}
	if rows.Len() > 0 {
		w.WriteString("\n| member | type | only in | |\n|---|---|---|---|\n")
		w.Write(rows.Bytes())
	}
}

// documentedTypes returns the structs that commands and events refer to, by name. Those that are the
// members of an event are described with the event.
func documentedTypes() []reflect.Type {
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
	for _, t := range append(slices.Clone(unionRoots), taskDetails) {
		visit(t)
	}
	for _, s := range protocol.Commands {
		for _, p := range s.Parameters() {
			visit(s.Params.Field(p.Index).Type)
		}
		if s.Result != nil {
			visit(s.Result)
		}
	}
	for _, e := range protocol.Events {
		if e.Members != messageUpdate {
			visit(e.Members)
		}
	}
	types := slices.SortedFunc(maps.Keys(seen), func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.DeleteFunc(types, func(t reflect.Type) bool { return eventOf(t) != "" || t.Name() == "Record" || t.Name() == "EntryMeta" })
}

func writeTypes(w *bytes.Buffer) {
	w.WriteString("\n## Types\n\nTimes in messages are milliseconds since 1970, times in session entries are ISO 8601. Costs are in US dollars.\n\n" +
		"- `Message` is one of the types whose name ends in Message. Its `role` says which.\n" +
		"- `Block` is Text, Thinking, ToolCall or Image. Its `type` says which.\n" +
		"- `Record` is an entry of a session file: `type`, `id`, `parentId`, `timestamp` and the members of its type. [Session files](../docs/architecture.md) have one per line.\n")
	for _, t := range documentedTypes() {
		fmt.Fprintf(w, "\n### %s\n", t.Name())
		writeMembers(w, t)
		if raw := typeExamples()[t]; raw != nil {
			fmt.Fprintf(w, "\n```json\n%s\n```\n", FormatJSON(raw))
		}
	}
}

// DialectTable lists the dialects, for docs/protocol/dialects.md.
func DialectTable() string {
	var w strings.Builder
	w.WriteString("| dialect | features enabled | behaviour that differs from the union's |\n|---|---|---|\n")
	for _, d := range protocol.Dialects() {
		wire, _, _ := d.Open()
		fmt.Fprintf(&w, "| `%s` | %s | %s |\n", d, code(wire.On()), strings.Join(d.Describe(), "; "))
	}
	return w.String()
}

// FeatureTable lists the features, for docs/protocol/dialects.md.
func FeatureTable() string {
	var w strings.Builder
	w.WriteString("| feature | effect |\n|---|---|\n")
	for _, f := range protocol.Features() {
		fmt.Fprintf(&w, "| `%s` | %s |\n", f, f.Doc())
	}
	return w.String()
}

// CodeTable lists the error codes, for docs/protocol/errors.md.
func CodeTable() string {
	var w strings.Builder
	w.WriteString("| code | meaning |\n|---|---|\n")
	for _, c := range protocol.Codes() {
		fmt.Fprintf(&w, "| `%s` | %s |\n", c, c.Doc())
	}
	return w.String()
}

// RetryTable lists the members of an error's data that say whether a command may have run.
func RetryTable() string {
	var w bytes.Buffer
	writeMembers(&w, reflect.TypeFor[protocol.RetryInfo]())
	return strings.TrimPrefix(w.String(), "\n")
}

// EffectTable lists the commands by the state that they change, for docs/protocol/errors.md.
func EffectTable() string {
	var w strings.Builder
	w.WriteString("| changes | commands |\n|---|---|\n")
	for _, of := range []struct {
		effect protocol.Effect
		text   string
	}{
		{protocol.EffectNone, "nothing, or the same again: `retryable` is always true"},
		{protocol.EffectLog, "the session: its log shows whether the command ran"},
		{protocol.EffectOutside, "files, processes or services: look at them to learn whether it ran"},
	} {
		var names []string
		for _, s := range protocol.Commands {
			if s.Effect() == of.effect {
				names = append(names, s.Name)
			}
		}
		fmt.Fprintf(&w, "| %s | %s |\n", of.text, code(names))
	}
	return w.String()
}

// ExampleText is the first example of a command or event, for the pages in docs/protocol.
func ExampleText(name string) string {
	var w bytes.Buffer
	for _, e := range Examples() {
		if e.Name == name {
			writeExample(&w, e)
			break
		}
	}
	return w.String()
}

// code formats words as code.
func code(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

func writeLimits(w *bytes.Buffer) {
	w.WriteString("\n## Limits\n\nThese limits bound the memory of the daemon. Pipes and devices are never opened, except standard input and an `@file` of the command line. Limits of extensions are in [extensions](../docs/extensions.md).\n\n| limit on | value | beyond it |\n|---|---|---|\n")
	for _, l := range protocol.Limits {
		fmt.Fprintf(w, "| %s | %s | %s |\n", l.What, l.Value, l.Beyond)
	}
}
