package harness

import (
	"bytes"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"

	"troupe/protocol/schema"
)

// wireSchemas is the published schema, split into one schema per kind of line. A failure then
// reports the actual mistake instead of every alternative that does not match.
var wireSchemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.JSON()))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("wire.json", doc); err != nil {
		panic(err)
	}
	schemas := map[string]*jsonschema.Schema{}
	for name := range doc.(map[string]any)["$defs"].(map[string]any) {
		schemas[name] = c.MustCompile("wire.json#/$defs/" + name)
	}
	return schemas
})

// checkSchema checks every line that the daemon wrote against the schema.
func (d *Daemon) checkSchema() {
	for _, l := range d.Lines() {
		v := gjson.Parse(l)
		name := "Event_" + v.Get("type").Str
		switch {
		case v.Get("type").Str == "response" && v.Get("success").Bool():
			name = "Response_" + v.Get("command").Str
		case v.Get("type").Str == "response":
			name = "Failure"
		}
		s := wireSchemas()[name]
		if !assert.NotNil(d.T, s, "no schema for %s", Clip(l, 300)) {
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(l)))
		if assert.NoError(d.T, err, Clip(l, 300)) {
			assert.NoError(d.T, s.Validate(doc), "%s", Clip(l, 500))
		}
	}
}
