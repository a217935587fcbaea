package schema

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestReference: everything the tables have is in the reference, and every
// reference in the schema leads somewhere.
func TestReference(t *testing.T) {
	text := string(Reference())
	for _, s := range protocol.Commands {
		require.Contains(t, text, "\n### "+s.Name+"\n")
	}
	for _, e := range protocol.Events {
		require.Contains(t, text, "\n### "+e.Name+"\n")
	}
	var headings []string
	for _, m := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatch(text, -1) {
		headings = append(headings, strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"))
	}
	headings = append(headings, "configuration-that-this-version-does-not-obey") // of package config
	for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		require.True(t, slices.Contains(headings, m[1]), "the reference links to #%s", m[1])
	}
	var schema struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	raw := JSON()
	require.NoError(t, json.Unmarshal(raw, &schema))
	for _, part := range strings.Split(string(raw), `"#/$defs/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		require.Contains(t, schema.Defs, name)
	}
}

// TestEverythingHasAnExample: the reference has an example of every command, event and type, and no
// example of anything else.
func TestEverythingHasAnExample(t *testing.T) {
	names := map[string]bool{}
	for _, e := range Examples() {
		names[e.Name] = true
	}
	for _, s := range protocol.Commands {
		require.True(t, names[s.Name], "no example of %s: mark one in a script of e2e/wire and run make examples", s.Name)
	}
	for _, e := range protocol.Events {
		require.True(t, names[e.Name], "no example of %s: mark one in a script of e2e/wire and run make examples", e.Name)
	}
	require.Empty(t, typesWithoutExample())
	for name := range names {
		isEvent := slices.ContainsFunc(protocol.Events, func(e protocol.EventSpec) bool { return e.Name == name })
		require.True(t, isEvent || protocol.Lookup(name) != nil, "an example of %s, which does not exist", name)
	}
}

// TestFormatJSON: a value that fits stays on its line, a longer one is broken at its members.
func TestFormatJSON(t *testing.T) {
	short := `{"a":[1,{"b":"<c>"}],"d":null}`
	require.Equal(t, short, FormatJSON([]byte(short)))
	long := `{"list":[` + strings.Repeat(`{"n":1000000},`, 8) + `"…"],"empty":{}}`
	text := FormatJSON([]byte(long))
	require.JSONEq(t, long, text)
	require.Equal(t, "{\n  \"list\": [\n    {\"n\":1000000},", text[:len("{\n  \"list\": [\n    {\"n\":1000000},")])
	require.True(t, strings.HasSuffix(text, "    \"…\"\n  ],\n  \"empty\": {}\n}"), text)
}
