package protocol

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func argsOf(pieces ...string) *ArgsBuilder {
	var a ArgsBuilder
	for _, p := range pieces {
		a.Feed(p)
	}
	return &a
}

func TestArgsBuilder(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, `{}`}, {`{`, `{}`}, {`{"`, `{}`}, {`{"a`, `{}`}, {`{"a"`, `{}`}, {`{"a":`, `{}`},
		{`{"a":"`, `{"a":""}`}, {`{"command":"echo one; `, `{"command":"echo one; "}`},
		{`{"a":"x\`, `{"a":"x"}`}, {`{"a":"x\n`, `{"a":"x\n"}`}, {`{"a":"x\u00`, `{"a":"x"}`}, {`{"a":"x\u00e9`, `{"a":"x\u00e9"}`},
		{`{"a":"\ud83d`, `{"a":""}`}, {`{"a":"\ud83d\ude00`, `{"a":"\ud83d\ude00"}`}, {`{"a":"\ud83dx`, `{"a":"\ud83dx"}`},
		{`{"a":1`, `{"a":1}`}, {`{"a":-`, `{}`}, {`{"a":1.`, `{}`}, {`{"a":1.5`, `{"a":1.5}`}, {`{"a":1e`, `{}`}, {`{"a":tru`, `{}`}, {`{"a":true`, `{"a":true}`},
		{`{"a":1,`, `{"a":1}`}, {`{"a":1,"b`, `{"a":1}`}, {`{"a":1,"b":[`, `{"a":1,"b":[]}`}, {`{"a":[1,2`, `{"a":[1,2]}`}, {`{"a":[1,`, `{"a":[1]}`},
		{`{"a":[{"x":"y`, `{"a":[{"x":"y"}]}`}, {`{"a":{}`, `{"a":{}}`}, {`{"a":{}}`, `{"a":{}}`}, {" { \"a\" :\n 1 ,\r\n\t\"b\" : [ ] } ", `{"a":1,"b":[]}`},
		{`{"a":"raw` + "\n" + `break"}`, `{"a":"raw\nbreak"}`},
		{`[1]`, `{}`}, {`null`, `{}`}, {`nul`, `{}`}, {`"x"`, `{}`}, {`nonsense`, `{}`}, {`{"a":1}}`, `{"a":1}`}, {`{"a":1} x`, `{"a":1}`}, {`{"a" 1}`, `{}`}, {`{"a":1 "b":2}`, `{"a":1}`}, {`{"a":\u0031}`, `{}`},
		{`{"a":"x\q"}`, `{"a":"x\\q"}`}, {`{"a":"C:\users\bob"}`, `{"a":"C:\\users\bob"}`}, {`{"a":"\d+\u12","b":"\u00e9\u00g\\"}`, `{"a":"\\d+\\u12","b":"\u00e9\\u00g\\"}`}, {`{"a\_b":"\é","c":"\"}`, `{"a\\_b":"\\é","c":"\"}"}`}, {`{a:1}`, `{}`}, {`{"a":nul}`, `{}`}, {`{"a":[1}`, `{"a":[1]}`}, {`{"é":"ü`, `{"é":"ü"}`},
	} {
		got := string(argsOf(c.in).AppendJSON(nil))
		require.Equal(t, c.want, got, c.in)
		require.Equal(t, got, string(argsOf(strings.Split(c.in, "")...).AppendJSON(nil)), "in pieces: %s", c.in)
	}
}

func TestArgsBuilder_complete(t *testing.T) {
	for in, want := range map[string]bool{
		``: true, `{}`: true, ` {"a":1} `: true, `{"a":1`: false, `{`: false, `[]`: false, `{"a":1}x`: false, `x`: false,
		`{"a":"\A"}`: true, `{"a":"\uQ"}`: true, `{"a":"\A`: false, `{"a":"\u00`: false, `{"a":"C:\"}`: false,
		` null `: true, `nul`: false, `nullx`: false, `null null`: false, `n ull`: false,
	} {
		require.Equal(t, want, argsOf(in).Complete(), in)
	}
}

func TestArgsBuilder_depth(t *testing.T) {
	a := argsOf(`{"a":` + strings.Repeat("[", 5000))
	require.False(t, a.Complete())
	require.True(t, a.TooDeep())
	require.True(t, json.Valid(a.AppendJSON(nil)))
	deepest := MaxArgDepth - 1 // in the object
	a = argsOf(`{"a":` + strings.Repeat("[", deepest) + strings.Repeat("]", deepest) + `}`)
	require.True(t, a.Complete())
	require.False(t, a.TooDeep())
	require.False(t, argsOf(`{"a":[`).TooDeep(), "incomplete is something else")
}

// jsonObject draws JSON text of an object, with white space.
func jsonObject(t *rapid.T) string {
	return "{" + jsonMembers(t, 3) + "}"
}

func jsonMembers(t *rapid.T, depth int) string {
	var parts []string
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		parts = append(parts, string(AppendString(nil, rapid.String().Draw(t, "key")+string(rune('a'+i))))+ws(t)+":"+ws(t)+jsonValue(t, depth-1)+ws(t))
	}
	return ws(t) + strings.Join(parts, ","+ws(t))
}

func ws(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", " ", "\n", "\t \r\n"}).Draw(t, "ws")
}

func jsonValue(t *rapid.T, depth int) string {
	kinds := 5
	if depth <= 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{`1`, `-2.5e3`, `true`, `false`, `null`, `0`}).Draw(t, "literal")
	case 1:
		return string(AppendString(nil, rapid.String().Draw(t, "string")))
	case 2:
		return `"\u00e9\n\ud83d\ude00\\"`
	case 3:
		return "{" + jsonMembers(t, depth-1) + "}"
	}
	var items []string
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		items = append(items, jsonValue(t, depth-1))
	}
	return "[" + ws(t) + strings.Join(items, ",") + ws(t) + "]"
}

// TestArgsBuilder_random: whole objects come out compacted, every prefix is an
// object, and pieces make no difference.
func TestArgsBuilder_random(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := jsonObject(t)
		var want bytes.Buffer
		require.NoError(t, json.Compact(&want, []byte(text)), text)
		var a ArgsBuilder
		for len(text) > 0 {
			n := min(len(text), rapid.IntRange(1, 12).Draw(t, "piece"))
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n++ // deltas end between characters
			}
			a.Feed(text[:n])
			text = text[n:]
			out := a.AppendJSON(nil)
			require.True(t, json.Valid(out), "%s", out)
			if rapid.Bool().Draw(t, "again") { // another builder goes on from there
				b := argsOf(a.Text())
				require.Equal(t, string(out), string(b.AppendJSON(nil)))
				a = *b
			}
		}
		require.True(t, a.Complete())
		require.Equal(t, want.String(), string(a.AppendJSON(nil)))
	})
}

func FuzzArgs(f *testing.F) {
	f.Add(`{"a":"b","c":[1,{"d":null}]}`)
	f.Add(`{"a":"\ud83d\ude00\u00`)
	f.Add(`{"a":1e5,"b":-0.1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		a := argsOf(text)
		out := a.AppendJSON(nil)
		var obj map[string]any
		require.NoError(t, json.Unmarshal(out, &obj), "%q gave %s", text, out)
		require.False(t, bytes.ContainsAny(out, "\n\r"), "a line break in %q", out)
		var whole map[string]any
		if json.Unmarshal([]byte(text), &whole) == nil && whole != nil {
			require.True(t, a.Complete(), "%q is an object", text)
			require.Equal(t, whole, obj)
		}
	})
}

func BenchmarkArgsFeed(b *testing.B) {
	b.ReportAllocs()
	var a ArgsBuilder
	a.Feed(`{"content":"`)
	for b.Loop() {
		a.Feed("some twenty bytes of it")
		if len(a.out) > 1<<20 {
			a = ArgsBuilder{}
			a.Feed(`{"content":"`)
		}
	}
}
