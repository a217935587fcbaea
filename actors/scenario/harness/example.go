package harness

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol/schema"
	"troupe/protocol/schema/exampletest"
)

// Example records a response or an event for the protocol reference, or checks that the recorded one
// has the same form. title names the case; "" for the usual one.
func (c *Client) Example(record gjson.Result, title string) {
	c.T.Helper()
	e := schema.Example{Name: record.Get("type").Str, Title: title, From: "actors/scenario " + c.T.Name(), Record: json.RawMessage(record.Raw)}
	if id := record.Get("id").Str; e.Name == "response" {
		e.Name = record.Get("command").Str
		e.Command = json.RawMessage(`{"id":"` + id + `",` + strings.TrimPrefix(c.Command(id), "{"))
	}
	exampletest.Check(c.T, e, EmptyDir, "/home/me/project")
}
