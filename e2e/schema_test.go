package e2e

import (
	"bytes"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"

	"troupe/protocol/schema"
)

// wire is the published schema, with one schema for each kind of line, so that
// a failure names what is wrong instead of everything it is not.
var wire = sync.OnceValue(func() map[string]*jsonschema.Schema {
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

// lawful checks every line that a daemon wrote against the schema.
func (d *daemon) lawful() {
	for _, l := range d.output() {
		v := gjson.Parse(l)
		name := "Event_" + v.Get("type").Str
		switch {
		case v.Get("type").Str == "response" && v.Get("success").Bool():
			name = "Response_" + v.Get("command").Str
		case v.Get("type").Str == "response":
			name = "Failure"
		}
		s := wire()[name]
		if !assert.NotNil(d.t, s, "no schema for %s", clip(l, 300)) {
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(l)))
		if assert.NoError(d.t, err, clip(l, 300)) {
			assert.NoError(d.t, s.Validate(doc), "%s", clip(l, 500))
		}
	}
}
