package protocol

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// unmarshalMended reads JSON that other programs have written, with members of other types than v has.
// A number is taken from a text and a fraction is cut off, a truth value is taken from its text or from
// a number, a text from a number. Members without such a reading are left out, as if they were absent.
func unmarshalMended(raw []byte, v any) error {
	if err := Unmarshal(raw, v); err == nil {
		return nil
	}
	reflect.ValueOf(v).Elem().SetZero()
	return Unmarshal(mend(gjson.ParseBytes(raw), reflect.TypeOf(v).Elem()), v)
}

var rawType = reflect.TypeFor[json.RawMessage]()

// mend returns v as JSON of a type, nil if it cannot be read as one.
func mend(v gjson.Result, t reflect.Type) []byte {
	switch {
	case t == rawType:
		return []byte(v.Raw)
	case t == reflect.TypeFor[Content]():
		return mendContent(v)
	case t.Kind() == reflect.Pointer:
		if v.Type == gjson.Null {
			return []byte("null")
		}
		return mend(v, t.Elem())
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		if Unmarshal([]byte(v.Raw), reflect.New(t).Interface()) != nil {
			return nil
		}
		return []byte(v.Raw)
	case t.Kind() == reflect.Struct:
		return mendObject(v, t)
	case t.Kind() == reflect.Slice:
		return mendList(v, t.Elem())
	}
	return mendPlain(v, t.Kind())
}

func mendObject(v gjson.Result, t reflect.Type) []byte {
	if !v.IsObject() {
		return nil
	}
	out := OpenObject(nil)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		var member gjson.Result
		Members(v, []string{name}, &member)
		if !member.Exists() {
			continue
		}
		if value := mend(member, t.Field(i).Type); value != nil {
			out.Raw(name, value)
		}
	}
	return out.Close()
}

func mendList(v gjson.Result, t reflect.Type) []byte {
	if !v.IsArray() {
		return nil
	}
	out := []byte("[")
	for _, item := range v.Array() {
		if value := mend(item, t); value != nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, value...)
		}
	}
	return append(out, ']')
}

func mendPlain(v gjson.Result, kind reflect.Kind) []byte {
	switch kind {
	case reflect.String:
		if v.Type == gjson.String {
			return []byte(v.Raw)
		}
		if v.Type == gjson.Number {
			return []byte(`"` + v.Raw + `"`)
		}
	case reflect.Bool:
		if b, ok := truth(v); ok {
			return strconv.AppendBool(nil, b)
		}
	case reflect.Int, reflect.Int64:
		if n, ok := number(v); ok && math.Abs(n) < 1<<63 {
			return strconv.AppendInt(nil, int64(n), 10)
		}
	case reflect.Float64:
		if n, ok := number(v); ok {
			return strconv.AppendFloat(nil, n, 'g', -1, 64)
		}
	}
	return nil
}

// number reads a number that may stand in a text.
func number(v gjson.Result) (n float64, ok bool) {
	text := v.Raw
	if v.Type == gjson.String {
		text = strings.TrimSpace(v.Str)
	} else if v.Type != gjson.Number {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// truth reads a truth value that may stand in a text or be a number.
func truth(v gjson.Result) (is, ok bool) {
	if v.Type == gjson.String {
		switch strings.ToLower(strings.TrimSpace(v.Str)) {
		case "true", "1":
			return true, true
		case "false", "0", "":
			return false, true
		}
		return false, false
	}
	return v.Bool(), v.IsBool() || v.Type == gjson.Number
}

// mendContent returns content as a list of blocks. What is no block becomes a text, so that a model
// is sent all that clients are shown.
func mendContent(v gjson.Result) []byte {
	items := []gjson.Result{v}
	switch {
	case v.Type == gjson.Null:
		return []byte("null")
	case v.IsArray():
		items = v.Array()
	}
	var list Content
	for _, item := range items {
		list = append(list, mendBlock(item))
	}
	return list.AppendJSON(nil)
}

func mendBlock(v gjson.Result) Block {
	if b, err := decodeBlock(v); err == nil {
		return b
	}
	if !v.IsObject() {
		return Text{Text: plainText(v)}
	}
	raw := []byte(v.Raw)
	switch v.Get("type").Str {
	case "text":
		b := mended[Text](raw)
		b.Text = plainText(v.Get("text"))
		return b
	case "thinking":
		return mended[Thinking](raw)
	case "image":
		return mended[Image](raw)
	case "toolCall":
		return mended[ToolCall](raw).withObject()
	}
	return Text{Text: v.Raw}
}

func mended[T any](raw []byte) (v T) {
	_ = unmarshalMended(raw, &v) // what cannot be read stays absent
	return v
}

// plainText is a value as text: its own, or its JSON.
func plainText(v gjson.Result) string {
	if v.Type == gjson.String || v.Type == gjson.Null {
		return v.Str
	}
	return v.Raw
}

// withObject makes the arguments an object, as every protocol of a model wants them: the one that a text
// holds, else one with the value as its only member.
func (c ToolCall) withObject() ToolCall {
	v := gjson.ParseBytes(c.Arguments)
	switch {
	case v.IsObject():
	case len(c.Arguments) == 0 || v.Type == gjson.Null:
		c.Arguments = json.RawMessage("{}")
	case v.Type == gjson.String && ValidJSON([]byte(v.Str)) && gjson.Parse(v.Str).IsObject():
		c.Arguments = json.RawMessage(v.Str)
	default:
		o := OpenObject(nil)
		o.Raw("value", c.Arguments)
		c.Arguments = o.Close()
	}
	return c
}
