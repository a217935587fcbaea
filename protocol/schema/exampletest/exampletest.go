// Package exampletest records the examples of the protocol reference from tests and checks that they
// stay true. With -examples.update, tests write the examples instead of comparing them.
package exampletest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol/schema"
)

var update = flag.Bool("examples.update", false, "write the examples of the protocol reference")

// mu guards the file and checked.
var (
	mu      sync.Mutex
	checked = map[string]bool{} // examples of this process, by key
)

// Check compares an example with the recorded one: the command has to be equal, and the record has to
// have the same members. Values that vary, such as ids, times and paths, are normalized first. names
// are pairs of a text and its replacement.
func Check(t testing.TB, e schema.Example, names ...string) {
	t.Helper()
	n := &normalizer{names: strings.NewReplacer(names...), seen: map[string]string{}}
	if e.Command != nil {
		e.Command = n.line(e.Command)
	}
	if e.Record != nil {
		e.Record = n.line(e.Record)
	}
	mu.Lock()
	defer mu.Unlock()
	checked[key(e)] = true
	list := load(t)
	at := slices.IndexFunc(list, func(old schema.Example) bool { return key(old) == key(e) })
	if *update {
		if at >= 0 {
			list = slices.Delete(list, at, at+1)
		}
		save(t, append(list, e))
		return
	}
	require.GreaterOrEqual(t, at, 0, "no example of %s is recorded: run make examples", key(e))
	old := list[at]
	require.Equal(t, old.From, e.From, "two tests record %s", key(e))
	require.Equal(t, string(old.Command), string(e.Command), "the command of %s differs: run make examples", key(e))
	require.Equal(t, shape(old.Record), shape(e.Record), "the example of %s has other members: run make examples", key(e))
}

// Complete requires that every example of a test was checked in this process.
func Complete(t testing.TB, from string) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	list := load(t)
	isStale := func(e schema.Example) bool { return strings.HasPrefix(e.From, from) && !checked[key(e)] }
	if *update {
		save(t, slices.DeleteFunc(list, isStale))
		return
	}
	for _, e := range list {
		// Not require, which would end a cleanup before the test can report its failure.
		assert.False(t, isStale(e), "no test records %s any more: run make examples", key(e))
	}
}

func key(e schema.Example) string { return strings.TrimSpace(e.Name + " " + e.Title) }

// path finds the file from the directory of any package of the module.
func path(t testing.TB) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "protocol", "schema", "examples.jsonl")
		}
		require.NotEqual(t, filepath.Dir(dir), dir)
	}
}

func load(t testing.TB) []schema.Example {
	raw, err := os.ReadFile(path(t))
	require.NoError(t, err)
	list, err := schema.ParseExamples(raw)
	require.NoError(t, err)
	return list
}

func save(t testing.TB, list []schema.Example) {
	slices.SortFunc(list, func(a, b schema.Example) int { return strings.Compare(key(a), key(b)) })
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	for _, e := range list {
		require.NoError(t, enc.Encode(e))
	}
	require.NoError(t, os.WriteFile(path(t), w.Bytes(), 0o644))
}

// shape describes which members a value has, and of which kinds they are.
func shape(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	return shapeOf(gjson.ParseBytes(raw))
}

func shapeOf(v gjson.Result) string {
	var parts []string
	switch {
	case v.IsObject():
		v.ForEach(func(k, member gjson.Result) bool {
			parts = append(parts, k.Str+": "+shapeOf(member))
			return true
		})
		return "{" + strings.Join(parts, ", ") + "}"
	case v.IsArray():
		for _, e := range v.Array() {
			parts = append(parts, shapeOf(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strings.ToLower(v.Type.String())
}

// Limits of a record in the reference.
const (
	maxElements = 6   // of an array; a longer one keeps half of them and "…"
	maxText     = 240 // bytes of a string; a longer one is cut and ends in "…"
)

// normalizer replaces values that differ from run to run.
type normalizer struct {
	names *strings.Replacer
	seen  map[string]string // replacements of ids
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeText  = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d([:-])\d\d[:-]\d\d[.-]\d{3}Z`)
	localPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	entryID   = regexp.MustCompile(`^[0-9a-f]{8}$`)
	longID    = regexp.MustCompile(`^[0-9a-f]{16,64}$`)
)

// line normalizes a command or a record. Its own id becomes "1", as in a first command.
func (n *normalizer) line(raw json.RawMessage) json.RawMessage {
	v := gjson.ParseBytes(raw)
	isDialog := strings.Contains(v.Get("type").Str, "_ui_") || strings.HasPrefix(v.Get("type").Str, "host_tool_")
	if id := v.Get("id"); id.Type == gjson.String && (v.Get("type").Str == "response" || !isDialog && v.Get("runId").Str == "") {
		if _, known := n.seen[id.Str]; !known && strings.HasPrefix(id.Str, "line ") {
			n.seen[id.Str] = "1"
		}
	}
	return json.RawMessage(n.value("", v))
}

func (n *normalizer) value(name string, v gjson.Result) string {
	var parts []string
	switch {
	case v.IsObject():
		v.ForEach(func(k, member gjson.Result) bool {
			parts = append(parts, quote(n.text("", k.Str))+":"+n.value(k.Str, member))
			return true
		})
		return "{" + strings.Join(parts, ",") + "}"
	case v.IsArray():
		list := v.Array()
		for i, e := range list {
			if i == maxElements/2 && len(list) > maxElements {
				parts = append(parts, `"…"`)
				break
			}
			parts = append(parts, n.value(name, e))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case v.Type == gjson.String:
		return quote(n.text(name, v.Str))
	case v.Type == gjson.Number:
		return n.number(name, v)
	}
	return v.Raw
}

func (n *normalizer) text(name, s string) string {
	s = n.names.Replace(s)
	if to, known := n.seen[s]; known {
		return to
	}
	switch {
	case entryID.MatchString(s):
		return n.id(s, "%08x", 0xa1)
	case longID.MatchString(s):
		return n.id(s, "%016x", 0xb1)
	case name == "epoch":
		return "e1"
	}
	s = uuid.ReplaceAllStringFunc(s, func(id string) string { return n.id(id, "019ad3f2-7c00-7000-8000-%012x", 0x1) })
	s = timeText.ReplaceAllStringFunc(s, func(text string) string {
		if strings.Contains(text, ":") {
			return "2026-01-15T10:00:00.000Z"
		}
		return "2026-01-15T10-00-00-000Z"
	})
	s = localPort.ReplaceAllString(s, "127.0.0.1:8080")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText/2], "") + "…"
	}
	return s
}

// id numbers the ids of an example in the order in which they occur.
func (n *normalizer) id(s, format string, first int) string {
	if n.seen[s] == "" {
		n.seen[s] = fmt.Sprintf(format, first+len(n.seen))
	}
	return n.seen[s]
}

// epochTime is 2026-01-15T10:00:00Z in milliseconds.
const epochTime = "1768471200000"

func (n *normalizer) number(name string, v gjson.Result) string {
	switch {
	case v.Num > 9e11 && v.Num < 3e12: // milliseconds since 1970
		return epochTime
	case strings.HasSuffix(name, "durationMs"), strings.HasSuffix(name, "elapsedMs"), strings.HasSuffix(name, "wallTimeMs"), name == "bytes":
		return "120"
	case len(v.Raw) > 15:
		return strconv.FormatFloat(v.Num, 'f', -1, 32) // 0.0003 for 0.00030000000000000003
	}
	return v.Raw
}

func quote(s string) string {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("exampletest: " + err.Error())
	}
	return strings.TrimSuffix(w.String(), "\n")
}
