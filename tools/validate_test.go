package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValidateArgs(t *testing.T) {
	t.Parallel()
	prop := func(schema string) string { return `{"type":"object","properties":{"v":` + schema + `}}` }
	for _, c := range []struct{ schema, args, want, problem string }{
		// what fits stays as it is, byte for byte
		{prop(`{"type":"string"}`), `{"v" : "x"}`, `{"v" : "x"}`, ""},
		{prop(`{"type":"number"}`), `{"v":1e2}`, `{"v":1e2}`, ""},
		{prop(`{"type":["string","null"]}`), `{"v":null}`, `{"v":null}`, ""},
		{`{}`, `{"v":[1,{"a":null}]}`, `{"v":[1,{"a":null}]}`, ""},
		{`true`, `{}`, `{}`, ""},
		{``, `{"a":1}`, `{"a":1}`, ""},
		{prop(`{"type":"string"}`), ``, `{}`, ""},
		{prop(`{"type":"string"}`), `null`, `{}`, ""},
		{`{"type":"object"}`, `"{\"a\":1}"`, `{"a":1}`, ""},

		// coercion
		{prop(`{"type":"integer"}`), `{"v":"7"}`, `{"v":7}`, ""},
		{prop(`{"type":"integer"}`), `{"v":7.0}`, `{"v":7}`, ""},
		{prop(`{"type":"integer"}`), `{"v":"1e3"}`, `{"v":1000}`, ""},
		{prop(`{"type":"number"}`), `{"v":"-0.5"}`, `{"v":-0.5}`, ""},
		{prop(`{"type":"string"}`), `{"v":5}`, `{"v":"5"}`, ""},
		{prop(`{"type":"string"}`), `{"v":1.50}`, `{"v":"1.50"}`, ""},
		{prop(`{"type":"string"}`), `{"v":true}`, `{"v":"true"}`, ""},
		{prop(`{"type":"boolean"}`), `{"v":"true"}`, `{"v":true}`, ""},
		{prop(`{"type":"boolean"}`), `{"v":"False"}`, `{"v":false}`, ""},
		{prop(`{"type":"array","items":{"type":"integer"}}`), `{"v":"[1,\"2\"]"}`, `{"v":[1,2]}`, ""},
		{prop(`{"type":"object","properties":{"a":{"type":"string"}}}`), `{"v":"{\"a\":1}"}`, `{"v":{"a":"1"}}`, ""},
		{prop(`{"type":"integer"}`), `{"v":null}`, `{}`, ""},
		{prop(`{"anyOf":[{"type":"integer"},{"type":"boolean"}]}`), `{"v":"true"}`, `{"v":true}`, ""},
		{prop(`{"anyOf":[{"type":"integer"},{"type":"string"}]}`), `{"v":"7"}`, `{"v":"7"}`, ""},
		{prop(`{"type":["integer","boolean"]}`), `{"v":"true"}`, `{"v":true}`, ""},
		{prop(`{"allOf":[{"type":"integer"},{"minimum":3}]}`), `{"v":"3"}`, `{"v":3}`, ""},
		{`{"additionalProperties":{"type":"integer"}}`, `{"x":"1"}`, `{"x":1}`, ""},
		{prop(`{"type":"string"}`), `{"v":"a<b>&c","w":12345678901234567890}`, `{"v":"a<b>&c","w":12345678901234567890}`, ""},
		{prop(`{"type":"string"}`), `{"v":1,"w":12345678901234567890,"x":"<&>"}`, `{"v":"1","w":12345678901234567890,"x":"<&>"}`, ""},

		// problems
		{prop(`{"type":"integer"}`), `{"v":1.5}`, "", "v: must be integer"},
		{prop(`{"type":"integer"}`), `{"v":"1.5"}`, "", "v: must be integer"},
		{prop(`{"type":"integer"}`), `{"v":1e300}`, "", "v: must be integer"},
		{prop(`{"type":"integer"}`), `{"v":true}`, "", "v: must be integer"},
		{prop(`{"type":"number"}`), `{"v":"0x10"}`, "", "v: must be number"},
		{prop(`{"type":"number"}`), `{"v":"NaN"}`, "", "v: must be number"},
		{prop(`{"type":"boolean"}`), `{"v":"yes"}`, "", "v: must be boolean"},
		{prop(`{"type":"array"}`), `{"v":"{}"}`, "", "v: must be array"},
		{prop(`{"type":"array"}`), `{"v":"[1] x"}`, "", "v: must be array"},
		{prop(`{"type":"string"}`), `{"v":{}}`, "", "v: must be string"},
		{prop(`{"type":["string","array"]}`), `{"v":{}}`, "", "v: must be string or array"},
		{`{"required":["a","b"]}`, `{"b":1}`, "", "a: is required"},
		{`{"required":["a"],"properties":{"a":{"type":"string"}}}`, `{"a":null}`, "", "a: must be string"},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1,"b":2}`, "", "b: is not a known property"},
		{prop(`{"enum":["a",1]}`), `{"v":"c"}`, "", `v: must be one of ["a",1]`},
		{prop(`{"const":{"a":[1.0]}}`), `{"v":{"a":[2]}}`, "", `v: must be {"a":[1.0]}`},
		{prop(`{"minimum":3}`), `{"v":2.9}`, "", "v: must be at least 3"},
		{prop(`{"maximum":3}`), `{"v":3.1}`, "", "v: must be at most 3"},
		{prop(`{"minLength":2}`), `{"v":"€"}`, "", "v: must have at least 2 characters"},
		{prop(`{"items":{"properties":{"x":{"type":"integer"}}}}`), `{"v":[{},{"x":"y"}]}`, "", "v/1/x: must be integer"},
		{prop(`{"anyOf":[{"type":"integer"},{"type":"boolean"}]}`), `{"v":"x"}`, "", "v: must match one of the alternatives"},
		{prop(`{"oneOf":[{"minimum":1},{"minimum":2}]}`), `{"v":3}`, "", "v: must match only one of the alternatives"},
		{prop(`false`), `{"v":3}`, "", "v: is not allowed"},
		{`{"type":"object"}`, `"x"`, "", "root: must be object"},
		{`false`, `{}`, "", "root: is not allowed"},

		// they pass
		{prop(`{"enum":["a",1]}`), `{"v":1.0}`, `{"v":1.0}`, ""},
		{prop(`{"const":{"a":[1.0]}}`), `{"v":{"a":[1]}}`, `{"v":{"a":[1]}}`, ""},
		{prop(`{"const":[]}`), `{"v":[]}`, `{"v":[]}`, ""},
		{prop(`{"oneOf":[{"type":"integer"},{"type":"string"}]}`), `{"v":3}`, `{"v":3}`, ""},

		// malformed and unknown keywords are as if they were not there
		{prop(`{"type":"text","required":"x","properties":[],"items":[1],"enum":{},"minimum":"1","anyOf":{},"allOf":7,"pattern":"("}`), `{"v":[1]}`, `{"v":[1]}`, ""},
		{prop(`{"type":[1,"string"],"minLength":{}}`), `{"v":"x"}`, `{"v":"x"}`, ""},
		{prop(`{"type":7,"oneOf":[],"required":[1]}`), `{"v":{}}`, `{"v":{}}`, ""},
		{`[]`, `{"v":{}}`, `{"v":{}}`, ""},
	} {
		got, err := ValidateArgs(json.RawMessage(c.schema), json.RawMessage(c.args))
		if c.problem != "" {
			require.Error(t, err, "%s on %s", c.schema, c.args)
			var problems ArgsError
			require.ErrorAs(t, err, &problems)
			require.Len(t, problems, 1)
			assert.Equal(t, c.problem, problems[0].Path+": "+problems[0].Reason, "%s on %s", c.schema, c.args)
			assert.EqualError(t, err, "arguments do not fit the schema: "+c.problem)
			continue
		}
		require.NoError(t, err, "%s on %s", c.schema, c.args)
		assert.Equal(t, c.want, string(got), "%s on %s", c.schema, c.args)
	}
}

// A wrong alternative leaves no trace, whatever it changed before it failed.
func TestValidateArgsAlternativesAreTriedOnCopies(t *testing.T) {
	t.Parallel()
	schema := `{"properties":{"v":{"anyOf":[
		{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}},
		{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"}}}]}}}`
	got, err := ValidateArgs(json.RawMessage(schema), json.RawMessage(`{"v":{"a":"1","b":"true"}}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"v":{"a":"1","b":true}}`, string(got))
}

func TestValidateArgsHostileSchemas(t *testing.T) {
	t.Parallel()
	nest := func(open, inner, shut string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	deep := nest(`{"anyOf":[`, `{"type":"string"}`, `]}`, 1500)
	_, err := ValidateArgs(json.RawMessage(deep), json.RawMessage(`{}`))
	assert.Error(t, err)
	wide := `{"type":"object"}`
	for range 12 { // 4^12 alternatives, sharing nothing but their text
		wide = `{"anyOf":[` + wide + `,{"type":"string"}]}`
	}
	got, err := ValidateArgs(json.RawMessage(wide), json.RawMessage(`{"a":1}`))
	require.NoError(t, err)
	assert.Equal(t, `{"a":1}`, string(got))
	branching := `{"properties":{"v":{"type":"integer"}},"required":["w"]}`
	for range 8 {
		branching = `{"anyOf":[` + strings.TrimSuffix(strings.Repeat(branching+",", 4), ",") + `]}`
	}
	_, err = ValidateArgs(json.RawMessage(branching), json.RawMessage(`{"v":"1"}`))
	assert.ErrorContains(t, err, "too complex")
	_, err = ValidateArgs(json.RawMessage(nest(`{"allOf":[`, `{}`, `]}`, 200_000)), json.RawMessage(`{}`))
	assert.ErrorContains(t, err, "schema of the tool is not JSON")
	_, err = ValidateArgs(json.RawMessage(`{}`), json.RawMessage(`{"a":`+nest(`[`, ``, `]`, 200_000)+`}`))
	assert.ErrorContains(t, err, "arguments are not JSON")
	_, err = ValidateArgs(json.RawMessage(`{`), json.RawMessage(`{}`))
	assert.ErrorContains(t, err, "schema of the tool is not JSON")
	many := make([]string, 1000)
	for i := range many {
		many[i] = `"x"`
	}
	_, err = ValidateArgs(json.RawMessage(`{"properties":{"v":{"items":{"type":"integer"}}}}`), json.RawMessage(`{"v":[`+strings.Join(many, ",")+`]}`))
	var problems ArgsError
	require.ErrorAs(t, err, &problems)
	assert.Len(t, problems, maxProblems)
	_, err = ValidateArgs(json.RawMessage(`{"properties":{"v":{"enum":["`+strings.Repeat("x", 9999)+`"]}}}`), json.RawMessage(`{"v":1}`))
	assert.Less(t, len(err.Error()), 600)
}

// What comes out fits as it is: validating it again changes nothing.
func FuzzValidateArgs(f *testing.F) {
	for _, info := range New().Infos() {
		f.Add([]byte(info.Parameters), []byte(`{"path":"x","edits":"[]","limit":"7","offset":null}`))
	}
	f.Add([]byte(`{"anyOf":[{"type":"integer"},{"oneOf":[{"const":1},{"enum":[2]}]}]}`), []byte(`{}`))
	f.Add([]byte(`{"properties":{"a":{"type":["null","integer","array"]},"b":false},"additionalProperties":{"type":"boolean"}}`), []byte(`{"a":"[]","c":"true"}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		got, err := ValidateArgs(schema, args)
		if err != nil {
			return
		}
		again, err := ValidateArgs(schema, got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
		var object map[string]any
		require.NoError(t, json.Unmarshal(got, &object))
	})
}

func BenchmarkValidateArgs(b *testing.B) {
	schema := newEdit().Info().Parameters
	args := json.RawMessage(`{"path":"a.go","edits":[{"oldText":"a","newText":"b"},{"oldText":"c","newText":"d"}]}`)
	for b.Loop() {
		if _, err := ValidateArgs(schema, args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New()
	}
}
