package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

func TestOutputSchema(t *testing.T) {
	for _, c := range []struct{ name, given, want string }{
		{"anything", `{}`, `{}`},
		{"string", `{"type":"string"}`, `{"type":"string"}`},
		{"timestamp", `{"type":"timestamp"}`, `{"type":"string","format":"date-time"}`},
		{"number", `{"type":"float64"}`, `{"type":"number"}`},
		{"whole number", `{"type":"uint8"}`, `{"type":"integer","minimum":0,"maximum":255}`},
		{"enum", `{"enum":["a","b"]}`, `{"enum":["a","b"]}`},
		{"enum or null", `{"enum":["a"],"nullable":true}`, `{"enum":["a",null]}`},
		{"type or null", `{"type":"string","nullable":true}`, `{"type":["string","null"]}`},
		{"list", `{"elements":{"type":"boolean"}}`, `{"type":"array","items":{"type":"boolean"}}`},
		{"map", `{"values":{"type":"int32"}}`,
			`{"type":"object","additionalProperties":{"type":"integer","minimum":-2147483648,"maximum":2147483647}}`},
		{"object", `{"properties":{"n":{"type":"int16","metadata":{"description":"how many"}}},"optionalProperties":{"note":{"type":"string"}}}`,
			`{"type":"object","required":["n"],"additionalProperties":false,"properties":{
				"n":{"type":"integer","minimum":-32768,"maximum":32767,"description":"how many"},"note":{"type":"string"}}}`},
		{"open object", `{"optionalProperties":{},"additionalProperties":true}`, `{"type":"object","required":[],"properties":{}}`},
		{"one of several", `{"discriminator":"kind","mapping":{"a":{"properties":{"x":{"type":"string"}}}}}`,
			`{"anyOf":[{"type":"object","required":["x","kind"],"additionalProperties":false,"properties":{"x":{"type":"string"},"kind":{"const":"a"}}}]}`},
		{"reference", `{"definitions":{"s":{"type":"string"}},"properties":{"a":{"ref":"s"},"b":{"ref":"s","nullable":true}}}`,
			`{"type":"object","required":["a","b"],"additionalProperties":false,"properties":{"a":{"type":"string"},"b":{"type":["string","null"]}}}`},
		{"JSON Schema", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`,
			`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`},
		{"JSON Schema inside", `{"properties":{"n":{"type":"integer"}}}`,
			`{"type":"object","required":["n"],"additionalProperties":false,"properties":{"n":{"type":"integer"}}}`},
		{"a property called not", `{"type":"object","properties":{"not":{"type":"string"}}}`, `{"type":"object","properties":{"not":{"type":"string"}}}`},
	} {
		got, err := protocol.OutputSchema(json.RawMessage(c.given))
		require.NoError(t, err, c.name)
		assert.JSONEq(t, c.want, string(got), c.name)
	}
}

func TestOutputSchemaRefuses(t *testing.T) {
	for given, want := range map[string]string{
		`[]`:                                  "the schema is no object",
		`{`:                                   "the schema is not JSON: unexpected end of JSON input",
		`{"type":"int64"}`:                    "the schema cannot be checked: /: unknown type int64",
		`{"elements":3}`:                      "the schema cannot be checked: /elements: want an object",
		`{"ref":"x"}`:                         "the schema cannot be checked: /: no definition x",
		`{"enum":[]}`:                         "the schema cannot be checked: /: enum: want strings",
		`{"discriminator":"k"}`:               "the schema cannot be checked: /: discriminator: want a name and a mapping",
		`{"propertys":{}}`:                    "the schema cannot be checked: /: unknown member propertys",
		`{"properties":{"a":{"$ref":"#/a"}}}`: "the schema cannot be checked: /properties/a: $ref is not supported",
		`{"type":"array","items":{"not":{}}}`: "the schema cannot be checked: /items: not is not supported",
		`{"properties":[]}`:                   "the schema cannot be checked: /properties: want an object",
		`{"definitions":{"a":{"elements":{"ref":"a"}}},"ref":"a"}`: "the schema cannot be checked: /definitions/a/elements: definition a contains itself",
	} {
		_, err := protocol.OutputSchema(json.RawMessage(given))
		assert.EqualError(t, err, want, given)
	}
	// Each definition names the one before it twice.
	doubled := map[string]any{"d0": map[string]any{"type": "string"}}
	for i := range 30 {
		before := map[string]any{"ref": "d" + string(rune('0'+i))}
		doubled["d"+string(rune('0'+i+1))] = map[string]any{"properties": map[string]any{"a": before, "b": before}}
	}
	raw, err := json.Marshal(map[string]any{"definitions": doubled, "ref": "d" + string(rune('0'+30))})
	require.NoError(t, err)
	_, err = protocol.OutputSchema(raw)
	assert.ErrorContains(t, err, "it is too large")
}
