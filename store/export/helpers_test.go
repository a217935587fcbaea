package export_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store/export"
)

// sample reads a session file of testdata.
func sample(t testing.TB, name string) export.Document {
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	doc := export.Document{
		Generator: "troupe test", Exported: time.UnixMilli(1_795_800_000_000),
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &doc.Header))
	for _, line := range lines[1:] {
		doc.Entries = append(doc.Entries, json.RawMessage(line))
	}
	return doc
}

// session is a document of entries that follow each other.
func session(entries ...string) export.Document {
	doc := export.Document{Header: protocol.Header{Version: 3, ID: "id-1", Timestamp: "2026-11-21T01:04:26.021Z", Cwd: "/p"}}
	for _, e := range entries {
		doc.Entries = append(doc.Entries, json.RawMessage(e))
	}
	return doc
}

func page(t testing.TB, doc export.Document) string {
	var b bytes.Buffer
	require.NoError(t, export.Write(&b, doc))
	return b.String()
}

// save writes a page to a file and returns its address.
func save(t testing.TB, html string) string {
	path := filepath.Join(t.TempDir(), "session.html")
	require.NoError(t, os.WriteFile(path, []byte(html), 0o600))
	return "file://" + path
}

// element is what stands between the tags of the element with an id.
func element(t testing.TB, html, id string) string {
	_, rest, ok := strings.Cut(html, `id="`+id+`">`)
	require.True(t, ok, "no element %s", id)
	text, _, ok := strings.Cut(rest, "</")
	require.True(t, ok)
	return text
}
