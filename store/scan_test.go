package store_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
)

// oracle is the validator the scanner has to agree with.
func oracle(b []byte) bool {
	return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

var validityCases = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `truex`, `0`, `-0`, `01`, `-`, `1.`, `1.5`, `.5`, `1e`, `1e5`, `1E+5`, `1e-`, `+1`, `1 2`,
	`""`, `"a"`, `"`, `"a`, `"\n"`, `"\x"`, `"\u00e9"`, `"\u00E9"`, `"\u00g0"`, `"\u12"`, `"\ud800"`, `"\ud83d\ude00"`, "\"\x00\"", "\"\t\"", "\"\x7f\"",
	"\"\xff\"", "\"caf\u00e9\"", `"\`, `"\"`, `"\\"`, `"\/"`, `"12345678"`, `"1234567`, `"123456\"8"`,
	`{}`, `{`, `}`, `[]`, `[`, `]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2]`, `[[]]`, `[[]`, `[]]`, `{]`, `[}`,
	`{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"b":[{"c":null}]}`, `{"a":1,"a":2}`, `{,}`, `{"a":1}{`, `{"a":1} `,
	" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n", "\v{}", "\u00a0{}", "\ufeff{}", "{}\x00",
	`{"message":5}`, `{"message":{"role":1}}`, `{"message":{"role":"x"}`, `{"type":{"a":1}}`, `{"id":["x"]}`,
}

func TestValidJSON(t *testing.T) {
	for _, c := range validityCases {
		assert.Equal(t, oracle([]byte(c)), store.ValidJSON([]byte(c)), "%q", c)
	}
}

// TestValidJSON_depth: what jsontext accepts is accepted within an entry, too.
func TestValidJSON_depth(t *testing.T) {
	for _, n := range []int{9_998, 10_000, 10_001, 10_099, 10_100, 10_101, 200_000} {
		for _, text := range []string{
			strings.Repeat("[", n) + strings.Repeat("]", n),
			strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n),
			`{"message":{"content":` + strings.Repeat("[", n-2) + strings.Repeat("]", n-2) + "}}",
		} {
			fits := n <= 10_100
			assert.Equal(t, fits, store.ValidJSON([]byte(text)), "depth %d of %.12s", n, text)
			if oracle([]byte(text)) {
				assert.True(t, fits)
			}
			if text[0] == '{' {
				_, ok := store.ScanLine([]byte(text))
				assert.Equal(t, fits, ok, "depth %d of %.12s", n, text)
			}
		}
	}
}

// Every line of the samples, whole, cut anywhere and with any byte changed.
func TestScanLine_damagedSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, line := range sampleLines(t) {
		for range 60 {
			b := []byte(line)
			switch rng.IntN(3) {
			case 0:
				b = b[:rng.IntN(len(b)+1)]
			case 1:
				b[rng.IntN(len(b))] = byte(rng.IntN(256))
			}
			want := oracle(b) && strings.HasPrefix(strings.TrimSpace(string(b)), "{")
			_, ok := store.ScanLine(b)
			require.Equal(t, want, ok, "%s", b)
			require.Equal(t, oracle(b), store.ValidJSON(b), "%s", b)
		}
	}
}

// Entries with every byte taken away, doubled or changed into one of those that
// mean something, and cut everywhere.
func TestScanLine_everyByte(t *testing.T) {
	const usage = `"usage":{"input":1,"output":20,"cacheRead":0,"cacheWrite":0,"totalTokens":21,"cost":{"input":0.1,"output":2e-5,"cacheRead":0,"cacheWrite":0,"total":-0.1}}`
	for _, line := range []string{
		`{"type":"message","id":"00000001","parentId":"00000002","timestamp":"2026","message":{"role":"assistant",` + usage + `,"model":"m"}}`,
		`{"type":"usage","id":"00000001","parentId":null,"timestamp":"2026",` + usage + `}`,
		`{"message":{"content":[{"type":"text","text":"t"}],"role":"user"}}`,
		`{"message":{"content":[{"type":"text","text":"t","x":[1]},{"y":{}}],"role":"user"}}`,
	} {
		check := func(b string) {
			head, ok := store.ScanLine([]byte(b))
			require.Equal(t, oracle([]byte(b)), ok, "%s", b)
			if ok {
				require.Equal(t, looseHead(t, []byte(b)), head, "%s", b)
			}
		}
		check(line)
		for i := range line {
			for _, c := range []string{"", line[i:i+1] + line[i:i+1], " ", `"`, `\`, ",", "}", "0", "x", "\x00", `\u0061`} {
				check(line[:i] + c + line[i+1:])
			}
			_, ok := store.ScanLine([]byte(line[:i]))
			require.False(t, ok, "%s", line[:i])
		}
	}
}

func sampleLines(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var lines []string
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		lines = append(lines, strings.Split(strings.TrimSpace(string(b)), "\n")...)
	}
	return lines
}

// looseHead reads what ScanLine reads by way of encoding/json.
func looseHead(t testing.TB, line []byte) store.ScanHead {
	var top map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(line, &top))
	var message map[string]json.RawMessage
	_ = json.Unmarshal(top["message"], &message)
	str := func(m map[string]json.RawMessage, key string) (s string) {
		_ = json.Unmarshal(m[key], &s)
		return s
	}
	usage := message["usage"]
	if usage == nil {
		usage = top["usage"]
	}
	return store.ScanHead{
		Kind: str(top, "type"), ID: str(top, "id"), Parent: str(top, "parentId"), Stamp: str(top, "timestamp"),
		Custom: str(top, "customType"), QueueID: str(top, "troupeQueueId"), Key: str(top, "troupeKey"), Usage: string(usage),
		Role: str(message, "role"), Provider: str(message, "provider"), Model: str(message, "model"),
		StopReason: str(message, "stopReason"), ToolName: str(message, "toolName"), Content: string(message["content"]),
		At: string(message["timestamp"]),
	}
}

func TestScanLine_samples(t *testing.T) {
	for _, line := range sampleLines(t) {
		got, ok := store.ScanLine([]byte(line))
		require.True(t, ok)
		require.Equal(t, looseHead(t, []byte(line)), got)
	}
}

func TestScanLine_unusual(t *testing.T) {
	for _, c := range []struct {
		line string
		want store.ScanHead
	}{
		{`{}`, store.ScanHead{}},
		{` { "id" : "a" , "type" : "b" } `, store.ScanHead{ID: "a", Kind: "b"}},
		{`{"\u0069d":"\u0061bc","type":"x\ny"}`, store.ScanHead{ID: "abc", Kind: "x\ny"}},
		{`{"id":"a","id":"b"}`, store.ScanHead{ID: "b"}},
		{`{"id":"a","id":null}`, store.ScanHead{}},
		{`{"id":5,"parentId":null,"type":["x"]}`, store.ScanHead{ID: "5"}},
		{`{"id":true,"parentId":-2,"type":"x"}`, store.ScanHead{Parent: "-2", Kind: "x"}},
		{`{"data":{"id":"no","type":"no"},"message":{"message":{"role":"no"},"role":"yes"}}`, store.ScanHead{Role: "yes"}},
		{`{"message":{"role":"a"},"message":{}}`, store.ScanHead{}},
		{`{"message":"text"}`, store.ScanHead{}},
		{`{"message":{"usage":{"input":1},"content":[ 1 ]},"usage":2}`, store.ScanHead{Usage: `{"input":1}`, Content: `[ 1 ]`}},
		{`{"usage":{"input":1}}`, store.ScanHead{Usage: `{"input":1}`}},
		{`{"message":{"role":"\"a\\"}}`, store.ScanHead{Role: `"a\`}},
	} {
		got, ok := store.ScanLine([]byte(c.line))
		assert.True(t, ok, c.line)
		assert.Equal(t, c.want, got, c.line)
	}
	for _, line := range []string{``, `[]`, `"x"`, `5`, `null`, `{"id":"a"`, `{"id":"a"}}`, `{"id":"a"},`, `{"id":a}`, `{"type":"x"}{"type":"y"}`} {
		_, ok := store.ScanLine([]byte(line))
		assert.False(t, ok, line)
	}
}

func FuzzScan(f *testing.F) {
	for _, c := range validityCases {
		f.Add([]byte(c))
	}
	for _, line := range sampleLines(f) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := oracle(b)
		require.Equal(t, want, store.ValidJSON(b))
		head, ok := store.ScanLine(b)
		var top map[string]json.RawMessage
		isObject := want && json.Unmarshal(b, &top) == nil && top != nil
		require.Equal(t, isObject, ok)
		if ok && !strings.ContainsRune(string(b), '\\') { // encoding/json mends text that the scanner leaves as it is
			require.Equal(t, looseHead(t, b).ID != "", head.ID != "")
		}
	})
}
