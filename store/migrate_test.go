package store_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// anonymous replaces made-up ids by their rank, so that two migrations of one
// file can be compared.
func anonymous(t *testing.T, text string) string {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
		text = strings.ReplaceAll(text, rawID(t, json.RawMessage(line)), "id"+string(rune('A'+i)))
	}
	return text
}

// pi's own migration of the same file, without the entry pi adds on opening.
func TestMigrateAsPi(t *testing.T) {
	l, path := openSample(t, "session-v1-input.jsonl")
	src, err := os.ReadFile(path)
	require.NoError(t, err)
	pis, err := os.ReadFile("testdata/session-v1-after-load.jsonl")
	require.NoError(t, err)
	lines := strings.SplitAfter(string(pis), "\n")
	pis = []byte(strings.Join(lines[:5], ""))

	got := string(store.Migrate(src, protocol.Header{Version: 1, ID: "x"}))
	assert.Equal(t, anonymous(t, string(pis)), anonymous(t, got))

	assert.Equal(t, 3, l.Header().Version)
	unchanged, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(src), string(unchanged), "opening does not rewrite")
	c, err := l.View().Context()
	require.NoError(t, err)
	sameMessages(t, l.View())
	assert.Equal(t, []string{"summary: v1 summary", "assistant: hello", "custom h: hook text"}, texts(c.Messages()))

	add(t, l, user("new"))
	rewritten, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, anonymous(t, string(pis)), anonymous(t, strings.Join(strings.SplitAfter(string(rewritten), "\n")[:5], "")))
	again := open(t, store.OS{}, path)
	assert.Equal(t, ids(l.View().Refs()), ids(again.View().Refs()))
	assert.Equal(t, 5, again.Len())
	left, err := filepath.Glob(filepath.Dir(path) + "/*")
	require.NoError(t, err)
	assert.Equal(t, []string{path}, left, "no temporary file is left")
}

func TestMigrate(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int
		src     string
		want    string // id1… are the ids that were made up, in order
	}{
		{"header gets its version in place", 2, `{"version":2,"type":"session","id":"s","x":1}`, `{"version":3,"type":"session","id":"s","x":1}`},
		{"keys keep order and space", 1, headV1 + "\n" + ` { "z" : 1 , "type" : "message" , "a" : [ 2 ] } `,
			headV3 + "\n" + ` { "z" : 1 , "type" : "message" , "a" : [ 2 ] ,"id":"id1","parentId":null} `},
		{"chain", 1, headV1 + "\n" + `{"type":"a"}` + "\n" + `{"type":"b"}` + "\n" + `{"type":"c"}`,
			headV3 + "\n" + `{"type":"a","id":"id1","parentId":null}` + "\n" + `{"type":"b","id":"id2","parentId":"id1"}` + "\n" + `{"type":"c","id":"id3","parentId":"id2"}`},
		{"what is there stays", 1, headV1 + "\n" + `{"type":"a","id":"own","parentId":null}` + "\n" + `{"type":"b","id":"own2","parentId":"own"}` + "\n" + `{"type":"c"}`,
			headV3 + "\n" + `{"type":"a","id":"own","parentId":null}` + "\n" + `{"type":"b","id":"own2","parentId":"own"}` + "\n" + `{"type":"c","id":"id1","parentId":"own2"}`},
		{"broken lines stay and do not count", 1, headV1 + "\n" + `{"type":"a"}` + "\n{oops\n\n" + `{"type":"compaction","firstKeptEntryIndex":1,"summary":"s"}`,
			headV3 + "\n" + `{"type":"a","id":"id1","parentId":null}` + "\n{oops\n\n" + `{"type":"compaction","summary":"s","id":"id2","parentId":"id1","firstKeptEntryId":"id1"}`},
		{"other JSON counts", 1, headV1 + "\n5\n" + `{"type":"a"}` + "\n" + `{"type":"compaction","firstKeptEntryIndex":2}`,
			headV3 + "\n5\n" + `{"type":"a","id":"id1","parentId":null}` + "\n" + `{"type":"compaction","id":"id2","parentId":"id1","firstKeptEntryId":"id1"}`},
		{"index out of range", 1, headV1 + "\n" + `{"type":"compaction","firstKeptEntryIndex":7}`,
			headV3 + "\n" + `{"type":"compaction","id":"id1","parentId":null}`},
		{"index of the header", 1, headV1 + "\n" + `{"type":"compaction","firstKeptEntryIndex":0}`,
			headV3 + "\n" + `{"type":"compaction","id":"id1","parentId":null}`},
		{"index that is none", 1, headV1 + "\n" + `{"type":"compaction","firstKeptEntryIndex":"x"}`,
			headV3 + "\n" + `{"type":"compaction","id":"id1","parentId":null}`},
		{"role", 2, headV1 + "\n" + `{"type":"message","id":"a","parentId":null,"message":{"x":1,"role":"hookMessage","y":{"role":"hookMessage"}},"k":2}`,
			headV3 + "\n" + `{"type":"message","id":"a","parentId":null,"message":{"x":1,"role":"custom","y":{"role":"hookMessage"}},"k":2}`},
		{"version 2 has ids", 2, headV1 + "\n" + `{"type":"a"}`, headV3 + "\n" + `{"type":"a"}`},
		{"torn end", 1, headV1 + "\n" + `{"type":"a"}` + "\n" + `{"type":"b"`, headV3 + "\n" + `{"type":"a","id":"id1","parentId":null}` + "\n" + `{"type":"b"`},
		{"empty object", 1, headV1 + "\n{}", headV3 + "\n{}"},
	} {
		got := string(store.Migrate([]byte(c.src), protocol.Header{Version: c.version, ID: "s"}))
		n := 0
		for line := range strings.SplitSeq(got, "\n") {
			var e struct{ ID string }
			if json.Unmarshal([]byte(line), &e) == nil && len(e.ID) == 8 {
				n++
				got = strings.ReplaceAll(got, e.ID, "id"+string(rune('0'+n)))
			}
		}
		assert.Equal(t, c.want+"\n", got, c.name)
	}
}

const (
	headV1 = `{"type":"session","id":"s"}`
	headV3 = `{"type":"session","id":"s","version":3}`
)

// Ids made up for an old file are the same each time, and new to the file.
func TestMigrateIDs(t *testing.T) {
	src := headV1 + strings.Repeat("\n"+`{"type":"a"}`, 300)
	first := openText(t, src)
	second := openText(t, src)
	assert.Equal(t, ids(first.View().Refs()), ids(second.View().Refs()))
	unique := map[string]bool{}
	for _, id := range ids(first.View().Refs()) {
		assert.Regexp(t, `^[0-9a-f]{8}$`, id)
		unique[id] = true
	}
	assert.Len(t, unique, 300)
	// A file that already uses one of them.
	taken := first.View().Refs()[0].ID
	third := openText(t, headV1+"\n"+`{"type":"a"}`+"\n"+`{"type":"b","id":"`+taken+`"}`)
	assert.NotEqual(t, taken, third.View().Refs()[0].ID)
}

func TestMigrateOnFirstAppendOnly(t *testing.T) {
	m := storetest.NewMem()
	src := headV1 + "\n" + `{"type":"message","message":{"role":"user","content":"old"},"keep":"me"}` + "\n"
	m.WriteFile(file, []byte(src))
	l := open(t, m, file)
	v := l.View()
	exercise(t, v)
	require.NoError(t, l.Sync())
	assert.Equal(t, src, string(m.ReadFile(file)))
	_, err := l.Append(protocol.SessionInfo{Name: "n"}, t0, false)
	require.NoError(t, err)
	assert.Contains(t, string(m.ReadFile(file)), `"keep":"me"`)
	assert.Contains(t, string(m.ReadFile(file)), `"version":3`)
	exercise(t, v)
	assert.Equal(t, 2, open(t, m, file).Len())
	add(t, l, user("x"))
	require.NoError(t, l.Sync())
	assert.Equal(t, 3, open(t, m, file).Len())
}

func TestMemberSurgery(t *testing.T) {
	for _, c := range []struct{ object, name, value, want string }{
		{`{}`, "a", "1", `{"a":1}`},
		{`{ }`, "a", "1", `{ "a":1}`},
		{`{"b":2}`, "a", "1", `{"b":2,"a":1}`},
		{`{"a":2}`, "a", "1", `{"a":1}`},
		{`{"a":2,"b":3,"a":4}`, "a", "1", `{"a":2,"b":3,"a":1}`},
		{`{"b":"}"}`, "a", "1", `{"b":"}","a":1}`},
		{`{"\u0061":2}`, "a", "1", `{"\u0061":1}`},
		{`{"b":{"a":1}}`, "a", "2", `{"b":{"a":1},"a":2}`},
	} {
		assert.Equal(t, c.want, store.SetMember([]byte(c.object), c.name, c.value), c.object)
	}
	for _, c := range []struct{ object, want string }{
		{`{}`, `{}`},
		{`{"a":1}`, `{}`},
		{`{"a":1,"b":2}`, `{"b":2}`},
		{`{"b":2,"a":[1,{"a":2}]}`, `{"b":2}`},
		{`{ "b" : 2 , "a" : 1 , "c" : 3 }`, `{"b" : 2,"c" : 3}`},
		{`{"a":1,"b":2,"a":3}`, `{"b":2}`},
	} {
		assert.Equal(t, c.want, store.DropMember([]byte(c.object), "a"), c.object)
	}
}

func FuzzMigrate(f *testing.F) {
	for _, name := range []string{"session-v1-input.jsonl", "session-tree.jsonl"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(b, 1)
		f.Add(b, 2)
	}
	f.Add([]byte(headV1+"\n"+`{"type":"compaction","firstKeptEntryIndex":1,"id":"x"}`+"\n{"), 1)
	f.Add([]byte(headV1+"\n"+`{"type":"message","message":{"role":"hookMessage"},"message":{}}`), 2)
	f.Fuzz(func(t *testing.T, src []byte, version int) {
		out := store.Migrate(src, protocol.Header{Version: version, ID: "s"})
		before, after := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n"), strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		require.Len(t, after, len(before), "lines neither come nor go")
		for i, line := range before {
			if oracle([]byte(line)) {
				require.True(t, oracle([]byte(after[i])), "valid stays valid: %s", after[i])
			} else {
				require.Equal(t, line, after[i], "what is broken stays as it is")
			}
		}
		again := store.Migrate(out, protocol.Header{Version: version, ID: "s"})
		require.Equal(t, string(out), string(again), "migrating twice changes nothing more")
	})
}
