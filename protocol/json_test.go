package protocol

import (
	"encoding/json"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/e2e/need"
)

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a<b>&c": `"a<b>&c"`, "\"\\\n\r\t\b\f\x00\x1f": `"\"\\\n\r\t\b\f\u0000\u001f"`,
		"é\u2028\u2029\x7f😀": "\"é\u2028\u2029\x7f😀\"", "a\xffb\xc3": "\"a\ufffdb\ufffd\"", "\ufffd": "\"\ufffd\"",
	} {
		require.Equal(t, want, string(AppendString(nil, in)), "%q", in)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		var back string
		require.NoError(t, json.Unmarshal(AppendString(nil, a), &back))
		require.Equal(t, a, back)
		joined := AppendEscaped(AppendEscaped(nil, a), b)
		require.Equal(t, string(AppendEscaped(nil, a+b)), string(joined), "escaping is context-free")
	})
}

func TestAppendFloat(t *testing.T) {
	for _, f := range []float64{0, 1, -1, 0.1, 1e-6, 1e-7, 1.5e-9, 1e20, 1e21, 1e300, 0.00030000000000000003, 123456.789, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		want, err := json.Marshal(f)
		require.NoError(t, err)
		require.Equal(t, string(want), string(AppendFloat(nil, f)))
	}
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.Int64Range(-1e15, 1e15).Draw(t, "digits")
		f := float64(digits) / math.Pow10(rapid.IntRange(0, 12).Draw(t, "places"))
		for _, f := range []float64{f, math.Nextafter(f, 0), math.Nextafter(f, 1e9)} {
			want, err := json.Marshal(f)
			require.NoError(t, err)
			require.Equal(t, string(want), string(AppendFloat(nil, f)))
		}
	})
	require.Equal(t, "0", string(AppendFloat(nil, math.NaN())))
	require.Equal(t, "0", string(AppendFloat(nil, math.Inf(1))))
}

// TestAppendString_likeNode compares with JSON.stringify where node is there.
func TestAppendString_likeNode(t *testing.T) {
	node := need.Program(t, "node")
	var text strings.Builder
	for r := rune(0); r < 0x3000; r++ {
		text.WriteRune(r)
	}
	text.WriteString("😀\U0010FFFF")
	in := "const s=[];for(let i=0;i<0x3000;i++)s.push(String.fromCodePoint(i));s.push('😀',String.fromCodePoint(0x10ffff));process.stdout.write(JSON.stringify(s.join('')))"
	out, err := exec.Command(node, "-e", in).Output()
	require.NoError(t, err)
	require.Equal(t, string(out), string(AppendString(nil, text.String())))
}

// FuzzValidJSON compares the two that check, whatever is the length.
func FuzzValidJSON(f *testing.F) {
	for _, seed := range []string{
		"", " ", "{}", " [1, 2.5e+3,-0, 01, -]", `{"a":[true,false,null],"a":{}}`, `"\ud800 \u12g4 \x"`, "\"\x80\xff\"", "\"\t\"", "{} {}", "[1,]", `{"a":1,}`,
		`{"type":"x","delta":{"text":"a\"b"}}`, "1e", "1.", "-", "tru", "nulll", "[[[[]]]]", "\ufeff{}", "{\"a\":1}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want := jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		require.Equal(t, want, ValidJSON(raw), "%q", raw)
	})
}

func TestValidJSON_depth(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for _, n := range []int{1, maxDepth / 2, maxDepth/2 + 1, maxDepth} {
		require.True(t, ValidJSON(nested(n)), n)
	}
	require.False(t, ValidJSON(nested(maxDepth+1)))
}
