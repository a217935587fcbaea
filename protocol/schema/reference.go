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
	w.WriteString("\n## Commands\n\n| command | dialects | data of a success |\n|---|---|---|\n")
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
	for _, e := range protocol.Events {
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
| extensions: MCP servers of their own | pi1 | ` + "`registerMcpServer`" + ` |
| what only oh-my-pi 18 has beside host tools and todos | omp18 | ` + "`negotiate_protocol`, `set_fast_mode`, `get_available_commands`, `set_host_uri_schemes`, `get_messages_page`, `handoff`" + ` |
| images by URL: URLs are not fetched, the error says to send the data; ` + "`data:`" + ` URLs are taken | s0 s3 | an image's ` + "`source`" + ` of type ` + "`url`" + ` |
| the stream for web clients over a WebSocket; the typed client and the SDK in TypeScript | s0 s1 s2 | ` + "`troupe schema --ts`" + ` prints the types |
| the start, done and error steps of a message: message_start and message_end say as much | s0 s3 s4 | ` + "`assistantMessageEvent.type`" + ` |
| WebSockets to model providers | pi1 | |

Settings and files that this version does not obey are listed under [Configuration that this version does not obey](#configuration-that-this-version-does-not-obey).
`

const referenceHead = `# The wire

Generated from the tables of packages protocol and config by ` + "`make generate`" + `; edit those.

One JSON object per line, UTF-8, LF. stdin carries commands, stdout responses and events and nothing else.
A command is ` + "`{\"id\":any,\"type\":\"name\",…parameters}`" + `; its one response repeats the id and the name:
` + "`{\"id\":…,\"type\":\"response\",\"command\":\"name\",\"success\":true,\"data\":…}`" + ` or
` + "`{…,\"success\":false,\"error\":\"a sentence\",\"code\":\"a_stable_word\"}`" + `. A record of a session that ` + "`open_session`" + `
opened names it right behind the type, and then its number, if it has one: ` + "`{\"type\":…,\"sessionId\":…,\"seq\":…,…}`" + `. Members
not named here may appear; ignore what you do not know. The framing, the ordering promises and the error classes are in ` + "`doc.go`" + `; the machine-readable
form is ` + "`schema.json`" + `.

Dialects: s0 pi of January 2026, s1 pisces, s2 web parity, s3 oh-my-pi 1.337, s4 pi_agent_rust, pi1 pi 1.x. Beside
them omp18 is oh-my-pi 18, whose clients the union serves, and troupe what troupe adds. Everything in the tables works
without negotiating, unless it names a feature. A parameter or member without an entry under "only in" is in every
dialect that has its command, event or type.
`

// dialectsOf says in which dialects a row of a table is.
func dialectsOf(since string) string { return cmp.Or(since, "all") }

func resultText(s protocol.Spec) string {
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

func writeCommand(w *bytes.Buffer, s protocol.Spec) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\nDialects: %s. Answer: %s.\n", s.Name, s.Doc, dialectsOf(s.Since), resultText(s))
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

func writeEvent(w *bytes.Buffer, e protocol.EventSpec) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\nDialects: %s.", e.Name, e.Doc, dialectsOf(e.Since))
	if e.Needs != "" {
		fmt.Fprintf(w, " Needs the feature `%s`.", e.Needs)
	}
	if e.Unless != "" {
		fmt.Fprintf(w, " Not with the feature `%s`.", e.Unless)
	}
	if e.Merges {
		w.WriteString(" Neighbours that wait for the client become one.")
	}
	w.WriteString("\n")
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
		reflect.TypeFor[protocol.UserMessage](), reflect.TypeFor[protocol.AssistantMessage](), reflect.TypeFor[protocol.ToolResultMessage](),
		reflect.TypeFor[protocol.BashExecutionMessage](), reflect.TypeFor[protocol.CustomMessage](), reflect.TypeFor[protocol.BranchSummaryMessage](),
		reflect.TypeFor[protocol.CompactionSummaryMessage](), reflect.TypeFor[protocol.Text](), reflect.TypeFor[protocol.Thinking](), reflect.TypeFor[protocol.ToolCall](), reflect.TypeFor[protocol.Image](),
	}
	for _, t := range roots {
		visit(t)
	}
	for _, s := range protocol.Commands {
		if s.Result != nil {
			visit(s.Result)
		}
	}
	events := map[reflect.Type]bool{}
	for _, e := range protocol.Events {
		if e.Members != messageUpdate {
			events[e.Members] = true
			visit(e.Members)
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
s4, for one, that relies on steer and follow_up refusing what begins with / and names nothing has to choose ` + "`s4`" + `. A dialect
changes what is listed here, and which empty members are null (see the types), and nothing else.

In every dialect there are additions that its document does not have, which readers ignore as they must ignore any member
and any type they do not know: the data of an accepted message (` + "`disposition`" + `, which clients of pi 1.x need), ` + "`runId`" + `, the
members marked troupe, ` + "`agent_end.willRetry` and `error`" + `, and the events ` + "`agent_settled`, `queue_changed` and `session_changed`" + `.
` + "`tool_execution_end.result.details`" + ` is there where a tool has something to say, as in every pi; the samples of s0 and s3 always
show it.
`

func writeDialects(w *bytes.Buffer) {
	w.WriteString(dialectsHead + "\n| dialect | features on | behaviour |\n|---|---|---|\n")
	for _, d := range protocol.Dialects() {
		wire, _, _ := d.Open()
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", d, strings.Join(wire.On(), ", "), strings.Join(d.Describe(), "; "))
	}
	w.WriteString("\n| feature | |\n|---|---|\n")
	for _, f := range protocol.Features() {
		fmt.Fprintf(w, "| `%s` | %s |\n", f, f.Doc())
	}
}

func writeCodes(w *bytes.Buffer) {
	w.WriteString("\n## Error codes\n\n| code | |\n|---|---|\n")
	for _, c := range protocol.Codes() {
		fmt.Fprintf(w, "| `%s` | %s |\n", c, c.Doc())
	}
	w.WriteString(mayHaveRun)
	writeMembers(w, reflect.TypeFor[protocol.RetryInfo]())
	w.WriteString("\n| effect of a repeated command | commands |\n|---|---|\n")
	for _, of := range []struct {
		effect protocol.Effect
		text   string
	}{
		{protocol.EffectNone, "none: `retryable` is always true"},
		{protocol.EffectLog, "entries in the session: its log shows whether the command ran"},
		{protocol.EffectOutside, "files, processes or services: look at them to learn whether it ran"},
	} {
		var names []string
		for _, s := range protocol.Commands {
			if s.Effect() == of.effect {
				names = append(names, "`"+s.Name+"`")
			}
		}
		fmt.Fprintf(w, "| %s | %s |\n", of.text, strings.Join(names, ", "))
	}
}

const mayHaveRun = `
### Commands that may have run

Where a node or the wire to it is lost, or a session crashes, before a command is answered, the error says in its ` + "`data`" + ` whether the command may have run.
A client that sends a command again that has ` + "`outcome: \"unknown\"`" + ` may carry it out twice, unless it has named itself (` + "`hello {clientId}`" + `) and repeats the same line under the same id:
once the session is there again, its log answers that line. A command that is in the log gets its answer, with ` + "`replayed`" + `; one that is not is carried out;
one of which the log says only that it began is refused with ` + "`cancelled`" + `, and ` + "`outcome: \"unknown\"`" + ` for good.
`

func writeLimits(w *bytes.Buffer) {
	w.WriteString("\n## Limits\n\nNobody else decides how much memory the daemon takes. Files that are no regular files (pipes, devices) are never opened, but for standard input and an `@file` of the command line. What extensions may use stands in docs/extensions.md.\n\n| what | at most | beyond it |\n|---|---|---|\n")
	for _, l := range protocol.Limits {
		fmt.Fprintf(w, "| %s | %s | %s |\n", l.What, l.Value, l.Beyond)
	}
}
