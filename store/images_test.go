package store

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// TestImageRefs: only pictures of messages lose their data, and what is left is the entry.
func TestImageRefs(t *testing.T) {
	for _, c := range [][2]string{
		{`{"id":"a","message":{"role":"user","content":"image"}}`, ""},
		{`{"id":"a","message":{"role":"user","content":[{"type":"text","text":"{\"type\":\"image\"}"}]}}`, ""},
		{`{"id":"a","message":{"role":"user","content":[{"type":"image","mimeType":"image/png"}]}}`, ""},
		{`{ "id":"a", "message": {"content": [ {"type":"image", "data":"QUJD", "mimeType":"image/png", "x":1} , {"type":"text","text":"é"},{"type":"image","data":"QQ==","mimeType":"image/gif"}], "k":[] }, "z":2}`,
			`{ "id":"a", "message": {"content": [ {"type":"image","mimeType":"image/png","ref":"s1/a/0","bytes":3} , {"type":"text","text":"é"},{"type":"image","mimeType":"image/gif","ref":"s1/a/1","bytes":1}], "k":[] }, "z":2}`},
		{`{"type":"custom_message","id":"b","content":[{"type":"image","data":"QUI=","mimeType":"image/webp"}]}`,
			`{"type":"custom_message","id":"b","content":[{"type":"image","mimeType":"image/webp","ref":"s1/b/0","bytes":2}]}`},
	} {
		want := c[1]
		if want == "" {
			want = c[0]
		}
		got := ImageRefs(json.RawMessage(c[0]), "s1/")
		assert.Equal(t, want, string(got))
		assert.True(t, protocol.ValidJSON(got))
	}
}
