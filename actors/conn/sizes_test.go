package conn

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/actors/link"
	"troupe/protocol"
	"troupe/protocol/pi"
)

// filler gives a value to every field of a type.
type filler struct {
	text  string
	items int // of each list
	whole int64
	next  int // counts the interfaces, for which the types take turns
	seals bool
}

// fillers are the shapes in which sizes are compared: empty, long texts, texts that are longer when
// they are escaped, many short items, and large numbers.
func fillers() map[string]filler {
	return map[string]filler{
		"empty": {}, "long": {text: strings.Repeat("word ", 400), items: 1}, "sealed": {text: strings.Repeat("word ", 400), items: 3, seals: true},
		"escaped": {text: strings.Repeat("\x01\"\n", 200), items: 2, whole: 1}, "invalid": {text: strings.Repeat("\xff\xc0é", 200), items: 1},
		"many": {text: "a", items: 20, whole: -1}, "numbers": {text: "", items: 20, whole: math.MinInt64},
	}
}

var fillTypes = map[reflect.Type][]any{
	reflect.TypeFor[protocol.Message](): {&protocol.UserMessage{}, &protocol.AssistantMessage{}, &protocol.ToolResultMessage{}, &protocol.BashExecutionMessage{},
		&protocol.CustomMessage{}, &protocol.BranchSummaryMessage{}, &protocol.CompactionSummaryMessage{}, &protocol.UnknownMessage{}},
	reflect.TypeFor[protocol.Block](): {protocol.Text{}, protocol.Thinking{}, protocol.ToolCall{}, protocol.Image{}, protocol.UnknownBlock{}},
	reflect.TypeFor[protocol.Entry](): {protocol.MessageEntry{}, protocol.ModelChange{}, protocol.Compaction{}, protocol.Custom{}, protocol.Label{}, protocol.UnknownEntry{}},
	reflect.TypeFor[protocol.Event](): {protocol.TurnStart{}, protocol.ExtensionError{}, protocol.ToolExecutionEnd{}},
}

func (f *filler) fill(v reflect.Value, depth int) {
	if !v.CanSet() {
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		raw, _ := json.Marshal(f.text)
		v.Set(reflect.ValueOf(json.RawMessage(raw)))
		return
	}
	kind := v.Kind()
	if depth > 6 && (kind == reflect.Slice || kind == reflect.Map || kind == reflect.Pointer) {
		return
	}
	switch kind {
	case reflect.String:
		v.SetString(f.text)
	case reflect.Bool:
		v.SetBool(f.items > 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(f.whole)
	case reflect.Float64:
		v.SetFloat(float64(f.whole) / 3)
	case reflect.Pointer:
		if f.items > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
			f.seal(v)
		}
	case reflect.Slice:
		if f.items > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			n := f.items
			if depth > 2 {
				n = min(n, 2)
			}
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range f.items {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if key.Kind() == reflect.String {
				key.SetString(fmt.Sprint(i))
			}
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
	case reflect.Interface:
		list := fillTypes[v.Type()]
		if list == nil {
			v.Set(reflect.ValueOf(f.text))
			return
		}
		of := reflect.ValueOf(list[f.next%len(list)])
		f.next++
		if of.Kind() == reflect.Pointer {
			made := reflect.New(of.Type().Elem())
			f.fill(made.Elem(), depth+1)
			f.seal(made)
			v.Set(made)
			return
		}
		made := reflect.New(of.Type()).Elem()
		f.fill(made, depth+1)
		v.Set(made)
	}
}

func (f *filler) seal(v reflect.Value) {
	if m, ok := v.Interface().(protocol.Message); ok && f.seals {
		protocol.Seal(m)
	}
}

// value makes a value of a type, which may be a pointer.
func (f filler) value(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	if of.Kind() == reflect.Pointer {
		v.Set(reflect.New(of.Elem()))
		f.fill(v.Elem(), 0)
		return v
	}
	f.fill(v, 0)
	return v
}

// wires are the ways in which clients are written to, with the feature sets that differ.
func wires() (list []protocol.Wire) {
	var all []string
	for _, f := range protocol.Features() {
		all = append(all, string(f))
	}
	for _, d := range protocol.Dialects() {
		wire, _, _ := d.Open()
		list = append(list, wire)
	}
	for _, features := range [][]string{all, {"seq", "hookUI"}, {"seq", "queueUpdate", "dialogEvents"}, {"deltaUpdates"}} {
		wire, _, _ := protocol.DialectUnion.Open(features...)
		list = append(list, wire)
	}
	return list
}

// requireCounted fails if a record takes over 10 % more than it was counted for.
func requireCounted(t *testing.T, counted int, line []byte, what ...any) {
	t.Helper()
	require.LessOrEqual(t, float64(len(line)), 1.1*float64(counted), fmt.Sprint(what...))
}

// TestEventSizes: the size that every event is counted for is that of its lines, for every client.
func TestEventSizes(t *testing.T) {
	for name, f := range fillers() {
		for _, row := range protocol.Events {
			if row.Event == reflect.TypeFor[*protocol.MessageUpdate]() {
				continue // TestStreamSizes
			}
			ev := f.value(row.Event).Interface().(protocol.Event)
			for _, wire := range wires() {
				it := link.Item{Event: ev}
				new(link.Sizer).Size(&it)
				line := pi.NewEncoder(wire, "handle").AppendEvent(nil, ev, 1<<40)
				requireCounted(t, it.Size+it.Whole, line, name, " ", row.Name, " ", wire.Dialect)
				if len(line) > 4000 && wire.Dialect == protocol.DialectUnion && len(protocol.RowsOf(ev)) == 1 {
					require.Less(t, it.Size, 2*len(line), "%s %s in %s counts far more than it takes", name, row.Name, wire.Dialect)
				}
			}
		}
	}
}

// TestAnswerSizes: the size that every answer is counted for is that of its line.
func TestAnswerSizes(t *testing.T) {
	for name, f := range fillers() {
		for _, c := range protocol.Commands {
			for _, r := range []protocol.Response{
				{ID: []byte(`"` + strings.Repeat("i", 5000) + `"`), Command: f.text, SessionID: f.text, Err: protocol.CodeInternal.Errorf("%s", f.text)},
				{Command: c.Name},
			} {
				if c.Result != nil && r.Err == nil && c.Result.Kind() != reflect.Interface {
					r.Data = f.value(c.Result).Interface()
				}
				for _, wire := range wires() {
					line := pi.NewEncoder(wire, "").AppendResponse(nil, r)
					requireCounted(t, link.RecordSize+r.Size(), line, name, " ", c.Name, " ", wire.Dialect)
				}
				if long, ok := r.Data.(interface{ Long() protocol.Pieces }); ok {
					r.Data = long.Long()
					requireCounted(t, link.RecordSize+r.Size(), pi.NewEncoder(protocol.Wire{}, "").AppendResponse(nil, r), name, " ", c.Name, " in pieces")
				}
			}
		}
	}
}

// TestStreamSizes: each update of a message counts as its encoded size, also where
// the end of a block differs from its streamed content.
func TestStreamSizes(t *testing.T) {
	for name, f := range fillers() {
		signed := protocol.Thinking{Thinking: f.text, Signature: strings.Repeat("s", 4000)}
		call := protocol.ToolCall{ID: f.text, Name: f.text, Arguments: json.RawMessage(`{"a":` + string(protocol.AppendString(nil, f.text)) + `}`)}
		events := []protocol.Event{protocol.MessageStart{Message: &protocol.AssistantMessage{Model: f.text}}}
		for i, b := range []struct {
			kind  protocol.BlockKind
			start protocol.Block
			delta string
			end   protocol.Block
		}{
			{protocol.BlockThinking, nil, f.text, signed}, {protocol.BlockText, nil, f.text, protocol.Text{Text: f.text, Signature: f.text}},
			{protocol.BlockToolCall, protocol.ToolCall{ID: call.ID, Name: call.Name}, string(call.Arguments), call},
		} {
			for _, u := range []protocol.MessageUpdate{{Step: protocol.UpdateStart, Block: b.start}, {Step: protocol.UpdateDelta, Delta: b.delta, Usage: &protocol.Usage{Input: 1 << 39, Cost: protocol.Cost{Total: 0.123456}}}, {Step: protocol.UpdateEnd, Block: b.end}} {
				u.Kind, u.Index, u.RunID = b.kind, i, "run"
				events = append(events, &u)
			}
		}
		for _, wire := range wires() {
			sizes, enc := new(link.Sizer), pi.NewEncoder(wire, "handle")
			for i, ev := range events {
				it := link.Item{Event: ev}
				sizes.Size(&it)
				if !wire.Has(protocol.FeatureDeltaUpdates) {
					it.Size += it.Whole
				}
				requireCounted(t, it.Size, enc.AppendEvent(nil, ev, 1<<40+uint64(i)), name, " ", i, " ", wire.Dialect)
			}
		}
	}
}

// TestForeignSizes: a value that cannot be encoded has a size.
func TestForeignSizes(t *testing.T) {
	for _, v := range []any{
		&protocol.UnknownMessage{Raw: []byte("{\n")}, protocol.Record{}, protocol.Raw("[\n"), protocol.UnknownBlock{}, math.NaN(),
		struct{ F func() }{}, map[string]any{"a": make(chan int)}, protocol.MessageEnd{}, protocol.AgentEnd{Messages: []protocol.Message{nil}},
	} {
		require.NotPanics(t, func() { protocol.SizeOf(v) }, "%T", v)
	}
}
