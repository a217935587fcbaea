package schema

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"troupe/protocol"
)

//go:embed examples.jsonl
var exampleLines []byte

// Example is one record of a test run: a command with its response, or an event. Package exampletest
// records examples and checks them.
type Example struct {
	Name    string          `json:"name"`              // the command or event
	Title   string          `json:"title,omitempty"`   // the case; "" for the usual one
	From    string          `json:"from"`              // the test that records it
	Command json.RawMessage `json:"command,omitempty"` // "" for events
	Record  json.RawMessage `json:"record,omitempty"`  // "" for commands without a response
}

// Examples returns all examples. Those of one command or event are adjacent, with the usual case first.
var Examples = sync.OnceValue(func() []Example {
	list, err := ParseExamples(exampleLines)
	if err != nil {
		panic("schema: examples.jsonl: " + err.Error())
	}
	return list
})

// ParseExamples reads examples, one per line.
func ParseExamples(lines []byte) (list []Example, err error) {
	for line := range bytes.Lines(lines) {
		var e Example
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func writeExamples(w *bytes.Buffer, name string) {
	for _, e := range Examples() {
		if e.Name == name {
			w.WriteString("\nExample" + strings.TrimSuffix(", "+e.Title, ", ") + ":\n\n")
			writeExample(w, e)
		}
	}
}

func writeExample(w *bytes.Buffer, e Example) {
	w.WriteString("```json\n")
	for _, raw := range []json.RawMessage{e.Command, e.Record} {
		if raw != nil {
			w.WriteString(FormatJSON(raw) + "\n")
		}
	}
	w.WriteString("```\n")
}

// maxLine is the width, in bytes, of a line of an example.
const maxLine = 110

// FormatJSON breaks a value into lines. A value that fits into a line stays on it.
func FormatJSON(raw []byte) string {
	var w strings.Builder
	formatJSON(&w, raw, 0, 0)
	return w.String()
}

// formatJSON writes a value. used is the number of bytes before it on its line, with the comma after it.
func formatJSON(w *strings.Builder, raw []byte, depth, used int) {
	raw = compact(raw)
	open, shut := raw[0], raw[len(raw)-1]
	if 2*depth+used+len(raw) <= maxLine || open != '{' && open != '[' {
		w.Write(raw)
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token()
	w.WriteByte(open)
	for first := true; dec.More(); first = false {
		if !first {
			w.WriteByte(',')
		}
		w.WriteString("\n" + strings.Repeat("  ", depth+1))
		key := ""
		if open == '{' {
			name, _ := dec.Token()
			text, _ := json.Marshal(name)
			key = string(text) + ": "
			w.WriteString(key)
		}
		var value json.RawMessage
		_ = dec.Decode(&value)
		formatJSON(w, value, depth+1, len(key)+1)
	}
	w.WriteString("\n" + strings.Repeat("  ", depth))
	w.WriteByte(shut)
}

func compact(raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		panic("schema: " + err.Error())
	}
	return b.Bytes()
}

// typeExamples returns one value for each struct that occurs in the examples: the one that has the most
// members, and of these the shortest.
var typeExamples = sync.OnceValue(func() map[reflect.Type]json.RawMessage {
	best := map[reflect.Type]json.RawMessage{}
	most := map[reflect.Type]int{}
	collect := func(t reflect.Type, raw json.RawMessage, members int) {
		if old := best[t]; old == nil || members > most[t] || members == most[t] && len(raw) < len(old) {
			best[t], most[t] = raw, members
		}
	}
	for _, e := range Examples() {
		members := map[string]json.RawMessage{}
		for _, raw := range []json.RawMessage{e.Record, e.Command} {
			if raw != nil {
				_ = json.Unmarshal(raw, &members) // those of the command may be added; no event has them
			}
		}
		if s := protocol.Lookup(e.Name); s != nil {
			for _, p := range s.Parameters() {
				visitJSON(s.Params.Field(p.Index).Type, members[p.Name], collect)
			}
			if s.Result != nil {
				visitJSON(s.Result, members["data"], collect)
			}
		}
		for _, ev := range protocol.Events {
			if ev.Name != e.Name {
				continue
			}
			t := ev.Members
			if t == messageUpdate {
				visitJSON(reflect.TypeFor[*protocol.AssistantMessage](), members["message"], collect)
				continue
			}
			visitJSON(t, e.Record, collect)
			visitTask(e.Record, collect)
		}
	}
	return best
})

// visitTask calls collect for the details of a result of the tool task, and all values in it.
func visitTask(record json.RawMessage, collect func(t reflect.Type, raw json.RawMessage, members int)) {
	var end struct {
		ToolName string
		Result   struct{ Details json.RawMessage }
	}
	if json.Unmarshal(record, &end) == nil && end.ToolName == "task" {
		visitJSON(taskDetails, end.Result.Details, collect)
	}
}

var taskDetails = reflect.TypeFor[protocol.TaskDetails]()

// visitJSON calls collect for a value and all values in it that are structs of the protocol.
func visitJSON(t reflect.Type, raw json.RawMessage, collect func(t reflect.Type, raw json.RawMessage, members int)) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	switch t {
	case reflect.TypeFor[protocol.Message](), reflect.TypeFor[protocol.Block]():
		var kind struct{ Role, Type string }
		if json.Unmarshal(raw, &kind) != nil {
			return
		}
		for _, of := range unionRoots {
			if discriminatorOf(of) == kind.Role || kind.Role == "" && discriminatorOf(of) == kind.Type {
				visitJSON(of, raw, collect)
			}
		}
		return
	case reflect.TypeFor[protocol.Record](), reflect.TypeFor[json.RawMessage]():
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		visitJSON(t.Elem(), raw, collect)
	case reflect.Slice:
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // a string where long lists are cut
		for _, v := range list {
			visitJSON(t.Elem(), v, collect)
		}
	case reflect.Map:
		var values map[string]json.RawMessage
		_ = json.Unmarshal(raw, &values)
		for _, v := range values {
			visitJSON(t.Elem(), v, collect)
		}
	case reflect.Struct:
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return
		}
		count := 0
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if v, has := members[name]; has && f.IsExported() && name != "-" {
				count++
				visitJSON(f.Type, v, collect)
			}
		}
		collect(t, raw, count)
	}
}

// unionRoots are the structs that a Message or a Block may be.
var unionRoots = []reflect.Type{
	reflect.TypeFor[protocol.UserMessage](), reflect.TypeFor[protocol.AssistantMessage](), reflect.TypeFor[protocol.ToolResultMessage](),
	reflect.TypeFor[protocol.BashExecutionMessage](), reflect.TypeFor[protocol.CustomMessage](), reflect.TypeFor[protocol.BranchSummaryMessage](),
	reflect.TypeFor[protocol.CompactionSummaryMessage](), reflect.TypeFor[protocol.Text](), reflect.TypeFor[protocol.Thinking](),
	reflect.TypeFor[protocol.ToolCall](), reflect.TypeFor[protocol.Image](),
}

// typesWithoutExample returns the names of documented structs that occur in no example.
func typesWithoutExample() (names []string) {
	for _, t := range documentedTypes() {
		if typeExamples()[t] == nil {
			names = append(names, t.Name())
		}
	}
	slices.Sort(names)
	return names
}
