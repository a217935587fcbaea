package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

func TestOpenSamples(t *testing.T) {
	for name, want := range map[string]struct {
		entries, branch int
		leaf            string
	}{
		"session-basic.jsonl":              {26, 26, ""},
		"session-tree.jsonl":               {20, 7, "e93d3850"},
		"session-fork.jsonl":               {7, 7, "36bb1e7f"},
		"session-compaction.jsonl":         {28, 28, "8d7848bc"},
		"session-retry-and-overflow.jsonl": {16, 16, ""},
		"session-concurrent-writers.jsonl": {13, 10, "9b5822f2"},
		"session-v1-after-load.jsonl":      {5, 5, "ccd593b3"},
	} {
		l, path := openSample(t, name)
		assert.Equal(t, want.entries, l.Len(), name)
		assert.Len(t, l.View().Branch(), want.branch, name)
		if want.leaf != "" {
			assert.Equal(t, want.leaf, l.Leaf(), name)
		}
		assert.Equal(t, store.Damage{}, l.Damage(), name)
		assert.Equal(t, path, l.Path())
		assert.True(t, l.Materialised())
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(src)), "\n")[1:]
		for i, ref := range l.View().Refs() {
			raw, err := l.View().Raw(ref.ID)
			require.NoError(t, err)
			require.Equal(t, lines[i], string(raw), "%s: lines come back byte for byte", name)
			assert.Equal(t, lines[i], string(src[ref.Offset:ref.Offset+int64(ref.Size)]))
		}
	}
}

func TestRefs(t *testing.T) {
	l, _ := openSample(t, "session-tree.jsonl")
	var got []string
	for _, r := range l.View().Refs() {
		got = append(got, fmt.Sprintf("%s %s %s", r.ID, r.Type, r.Role))
	}
	assert.Equal(t, []string{"6d022ba7 model_change ", "156b02ae thinking_level_change ", "24c83926 message system"}, got[:3])
	assert.Contains(t, got, "95b43e30 custom ")
	assert.Contains(t, got, "56aadc08 custom_message ")
	assert.Contains(t, got, "c51ca74b branch_summary ")
	assert.Contains(t, got, "fd20ec3f label ")
	assert.Contains(t, got, "e93d3850 session_info ")
	assert.Contains(t, got, "4bddd3c4 message assistant")
}

// What the file looks like, what is loaded, and that loading changed nothing.
func TestOpenDamaged(t *testing.T) {
	u1, u2, u3 := userLine("00000001", "", "one"), userLine("00000002", "00000001", "two"), userLine("00000003", "00000002", "three")
	for _, c := range []struct {
		name, content string
		branch        []string
		all           int
		damage        store.Damage
	}{
		{"intact", headLine + "\n" + u1 + "\n" + u2 + "\n", []string{"00000001", "00000002"}, 2, store.Damage{}},
		{"header alone", headLine + "\n", []string{}, 0, store.Damage{}},
		{"header without line ending", headLine, []string{}, 0, store.Damage{}},
		{"no final newline", headLine + "\n" + u1, []string{"00000001"}, 1, store.Damage{}},
		{"CRLF and blank lines", "\n" + headLine + "\r\n\r\n \n" + u1 + "\r\n", []string{"00000001"}, 1, store.Damage{}},
		{"broken middle", headLine + "\n" + u1 + "\n{\"type\":\"mess\n" + u2 + "\n", []string{"00000001", "00000002"}, 2, store.Damage{Skipped: 1}},
		{"broken parent", headLine + "\n" + u1 + "\n" + u2[:40] + "\n" + u3 + "\n", []string{"00000003"}, 2, store.Damage{Skipped: 1}},
		{"torn last line", headLine + "\n" + u1 + "\n" + u2[:40], []string{"00000001"}, 1, store.Damage{TornBytes: 40}},
		{"zeros at the end", headLine + "\n" + u1 + "\n\x00\x00\x00", []string{"00000001"}, 1, store.Damage{TornBytes: 3}},
		{"no entries", headLine + "\n5\n[]\nnull\n\"x\"\n{}\n{\"type\":\"message\"}\n" + u1 + "\n", []string{"00000001"}, 1, store.Damage{Skipped: 6}},
		{"second header", headLine + "\n" + u1 + "\n" + headLine + "\n" + u2 + "\n", []string{"00000001", "00000002"}, 2, store.Damage{Skipped: 1}},
		{"broken line before the header", "{\n" + headLine + "\n" + u1 + "\n", []string{"00000001"}, 1, store.Damage{Skipped: 1}},
		{"control character in a text", headLine + "\n" + strings.Replace(u1, "one", "o\x01e", 1) + "\n", []string{}, 0, store.Damage{Skipped: 1}},
		{"missing parent", headLine + "\n" + u2 + "\n" + u3 + "\n", []string{"00000002", "00000003"}, 2, store.Damage{}},
		{"own parent", headLine + "\n" + userLine("00000001", "00000001", "x") + "\n", []string{"00000001"}, 1, store.Damage{}},
		{"parent comes later", headLine + "\n" + u2 + "\n" + u1 + "\n" + u3 + "\n", []string{"00000001", "00000002", "00000003"}, 3, store.Damage{}},
		{"ring", headLine + "\n" + userLine("00000001", "00000002", "a") + "\n" + userLine("00000002", "00000001", "b") + "\n", []string{"00000001", "00000002"}, 2, store.Damage{}},
		{"ring entered from outside", headLine + "\n" + userLine("00000001", "00000003", "a") + "\n" + userLine("00000002", "00000003", "b") + "\n" + userLine("00000003", "00000002", "c") + "\n", []string{"00000002", "00000003"}, 3, store.Damage{}},
		{"other ids", headLine + "\n" + userLine("a", "", "x") + "\n" + userLine("DEADBEEF", "a", "y") + "\n" + userLine("ü/1", "DEADBEEF", "z") + "\n", []string{"a", "DEADBEEF", "ü/1"}, 3, store.Damage{}},
		{"file twice over", headLine + "\n" + u1 + "\n" + u2 + "\n" + headLine + "\n" + u1 + "\n" + u2 + "\n", []string{"00000001", "00000002"}, 4, store.Damage{Skipped: 1}},
		{"unknown types are parents", headLine + "\n" + u1 + "\n" + entryLine("hologram", "00000002", "00000001", `"x":1`) + "\n" + u3 + "\n", []string{"00000001", "00000002", "00000003"}, 3, store.Damage{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := storetest.NewMem()
			m.WriteFile(file, []byte(c.content))
			l := open(t, m, file)
			assert.Equal(t, c.branch, ids(l.View().Branch()))
			assert.Equal(t, c.all, l.Len())
			assert.Equal(t, c.damage, l.Damage())
			assert.Equal(t, "id-1", l.Header().ID)
			records, err := l.View().Records()
			require.NoError(t, err)
			read := []string{}
			for _, r := range records {
				read = append(read, r.ID)
			}
			assert.Equal(t, c.branch, read, "in the order of the branch, wherever they stand")
			exercise(t, l.View())
			assert.Equal(t, c.content, string(m.ReadFile(file)), "opening changes nothing")
			assert.Equal(t, []string{file}, m.Files())
		})
	}
}

func TestOpenRefused(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          error
	}{
		{"empty", "", store.ErrEmpty},
		{"white space", " \n\n", store.ErrEmpty},
		{"torn header", headLine[:40], store.ErrEmpty},
		{"torn header at its first byte", "{", store.ErrEmpty},
		{"zeros", "\x00\x00\x00\x00", store.ErrEmpty},
		{"header followed by zeros", headLine + "\x00\x00", store.ErrEmpty},
		{"text", "Dear diary,\n", store.ErrNotSession},
		{"text without newline", "Dear diary", store.ErrNotSession},
		{"other JSON", "{\"a\":1}\n", store.ErrNotSession},
		{"other JSON without newline", "[1,2]", store.ErrNotSession},
		{"entry first", userLine("00000001", "", "x") + "\n" + headLine + "\n", store.ErrNotSession},
		{"header without id", `{"type":"session","version":3}` + "\n", store.ErrNotSession},
		{"header with number for id", `{"type":"session","id":5}` + "\n", store.ErrNotSession},
		{"header with empty id", `{"type":"session","id":""}` + "\n", store.ErrNotSession},
		{"broken header, whole line", headLine[:40] + "\n", store.ErrNotSession},
		{"bytes", "\x89PNG\r\n\x1a\n\x00\x00\x00", store.ErrNotSession},
		{"large", strings.Repeat("x", 100_000), store.ErrNotSession},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := storetest.NewMem()
			m.WriteFile(file, []byte(c.content))
			_, err := store.OpenLog(m, file, store.Options{})
			assert.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, file)
			assert.Equal(t, c.content, string(m.ReadFile(file)))
			assert.Equal(t, []string{file}, m.Files())
		})
	}
}

// reach notes how far into files anybody read.
type reach struct {
	store.FS
	furthest int64
}

type reachFile struct {
	store.File
	r *reach
}

func (r *reach) OpenAppend(name string) (store.File, error) {
	f, err := r.FS.OpenAppend(name)
	return reachFile{f, r}, err
}

func (f reachFile) ReadAt(p []byte, off int64) (int, error) {
	f.r.furthest = max(f.r.furthest, off+int64(len(p)))
	return f.File.ReadAt(p, off)
}

// A huge file that is one line is refused without being read.
func TestOpenHugeGarbage(t *testing.T) {
	m := storetest.NewMem()
	m.WriteFile(file, make([]byte, 8<<20))
	r := &reach{FS: m}
	_, err := store.OpenLog(r, file, store.Options{})
	assert.ErrorIs(t, err, store.ErrNotSession)
	assert.LessOrEqual(t, r.furthest, int64(64<<10))
}

func TestOpenElsewhere(t *testing.T) {
	dir := t.TempDir()
	_, err := store.OpenLog(store.OS{}, filepath.Join(dir, "none.jsonl"), store.Options{})
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = store.OpenLog(store.OS{}, dir, store.Options{})
	assert.ErrorIs(t, err, store.ErrNotSession, "a directory")
	_, err = store.OpenLog(store.OS{}, "", store.Options{})
	assert.ErrorIs(t, err, store.ErrInvalidPath)
	_, err = store.OpenLog(store.OS{}, "a\x00b", store.Options{})
	assert.ErrorIs(t, err, store.ErrInvalidPath)
}

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		line string
		want protocol.Header
	}{
		{headLine, protocol.Header{Version: 3, ID: "id-1", Timestamp: "2026-11-21T01:04:26.021Z", Cwd: "/p"}},
		{`{"type":"session","id":"x","version":9}`, protocol.Header{Version: 9, ID: "x"}},
		{`{"type":"session","id":"x","version":3,"parentSession":"/a.jsonl","extra":[1]}`, protocol.Header{Version: 3, ID: "x", ParentSession: "/a.jsonl"}},
		{`{"type":"session","id":"x","version":3,"branchedFrom":"/b.jsonl"}`, protocol.Header{Version: 3, ID: "x", ParentSession: "/b.jsonl"}},
		{`{"type":"session","id":"x","version":3,"cwd":7,"timestamp":null,"parentSession":false}`, protocol.Header{Version: 3, ID: "x"}},
		{`{"type":"session","id":"x","version":3,"cwd":"/caf` + "\xff" + `"}`, protocol.Header{Version: 3, ID: "x", Cwd: "/caf\uFFFD"}},
		{`{"type":"session","id":"x"}`, protocol.Header{Version: 3, ID: "x"}},
		{`{"type":"session","id":"x","version":"1"}`, protocol.Header{Version: 3, ID: "x"}},
	} {
		assert.Equal(t, c.want, openText(t, c.line).Header(), c.line)
	}
}

// A line may straddle the buffer in every way.
func TestLongLines(t *testing.T) {
	for _, size := range []int{store.ReadBuffer - 400, store.ReadBuffer - 1, store.ReadBuffer, store.ReadBuffer + 1, 3*store.ReadBuffer + 17} {
		long := strings.Repeat("ä", size/2)
		l := openText(t, headLine, userLine("00000001", "", long), userLine("00000002", "00000001", "short"), userLine("00000003", "00000002", long))
		require.Equal(t, 3, l.Len())
		c, err := l.View().Context()
		require.NoError(t, err)
		sameMessages(t, l.View())
		require.Equal(t, []string{"user: " + long, "user: short", "user: " + long}, texts(c.Messages()))
	}
}

func TestRawIsUTF8(t *testing.T) {
	l := openText(t, headLine, entryLine("hologram", "00000001", "", "\"x\":\"a\xffb\""), "  "+userLine("00000002", "", "x")+" \r")
	raw, err := l.View().Raw("00000001")
	require.NoError(t, err)
	assert.Contains(t, string(raw), "a\uFFFDb")
	raw, err = l.View().Raw("00000002")
	require.NoError(t, err)
	assert.Equal(t, userLine("00000002", "", "x"), string(raw), "no space around it")
}

func TestOldRoleInNewFile(t *testing.T) {
	l := openText(t, headLine, entryLine("message", "00000001", "", `"message":{"role":"hookMessage","customType":"h","content":"x","display":true,"timestamp":1}`))
	assert.Equal(t, "custom", l.View().Refs()[0].Role)
	c, err := l.View().Context()
	require.NoError(t, err)
	sameMessages(t, l.View())
	assert.Equal(t, []string{"custom h: x"}, texts(c.Messages()))
}

func TestManyTypes(t *testing.T) {
	lines := []string{headLine}
	for i := range 1200 {
		lines = append(lines, entryLine(fmt.Sprintf("type%d", i), fmt.Sprintf("%08x", i+1), "", ""))
	}
	l := openText(t, lines...)
	refs := l.View().Refs()
	assert.Equal(t, "type7", refs[7].Type)
	assert.Equal(t, "type999", refs[999].Type)
	assert.Equal(t, "unknown", refs[1100].Type)
	r, err := l.View().Record(refs[1100].ID)
	require.NoError(t, err)
	assert.Equal(t, "type1100", r.Entry.EntryType(), "the record knows")
}

// Ten thousand entries whose parents all come later, in rings and chains.
func TestHostileParents(t *testing.T) {
	const n = 20_000
	lines := []string{headLine}
	for i := range n {
		lines = append(lines, userLine(fmt.Sprintf("%08x", i), fmt.Sprintf("%08x", (i+1)%n), "x"))
	}
	l := openText(t, lines...)
	assert.Equal(t, []string{"00000000", fmt.Sprintf("%08x", n-1)}, ids(l.View().Branch()), "opened where a child stands first")
	tree, err := l.View().Tree()
	require.NoError(t, err)
	assert.Len(t, tree.Nodes, 1)
	assert.Equal(t, n, countNodes(tree.Nodes))
}

func TestOpenReadFails(t *testing.T) {
	m := storetest.NewMem()
	m.WriteFile(file, []byte(headLine+"\n"+userLine("00000001", "", "x")+"\n"))
	for _, plan := range []string{
		"stat * #1 EIO", "append * #1 EIO", "append * #1 EMFILE", "fstat * #1 EIO", "read * #1 EIO",
		"append * #1 EACCES; open * #1 EMFILE",
	} {
		f := storetest.NewFaulty(m, storetest.MustPlan(plan))
		_, err := store.OpenLog(f, file, store.Options{})
		assert.Error(t, err, plan)
		assert.NotEmpty(t, f.Struck())
		l := open(t, f, file)
		assert.Equal(t, 1, l.Len(), "the fault has passed")
	}
}

// readers must never see what is not in the file any more.
func TestReadingChecksTheFile(t *testing.T) {
	m := storetest.NewMem()
	m.WriteFile(file, []byte(headLine+"\n"+userLine("00000001", "", "hello")+"\n"))
	l := open(t, m, file)
	f, err := m.OpenAppend(file)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(int64(len(headLine)+10)))
	_, err = l.View().Record("00000001")
	assert.Error(t, err, "cut")
	_, err = f.Write(bytes.Repeat([]byte("x"), 500))
	require.NoError(t, err)
	_, err = l.View().Record("00000001")
	assert.ErrorIs(t, err, store.ErrChanged, "overwritten")
	_, err = l.View().Tree()
	assert.ErrorIs(t, err, store.ErrChanged)
	_, err = l.View().State()
	assert.ErrorIs(t, err, store.ErrChanged)
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"session-tree.jsonl", "session-v1-input.jsonl", "session-retry-and-overflow.jsonl", "session-concurrent-writers.jsonl"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(b, uint16(0))
		f.Add(b[:len(b)/2], uint16(3))
	}
	f.Add([]byte(headLine+"\n"+userLine("1", "2", "x")+"\n"+userLine("2", "1", "y")), uint16(1))
	f.Add([]byte("{"), uint16(0))
	f.Fuzz(func(t *testing.T, src []byte, cut uint16) {
		src = src[:max(0, len(src)-int(cut))]
		m := storetest.NewMem()
		m.WriteFile("/s.jsonl", src)
		l, err := store.OpenLog(m, "/s.jsonl", options())
		require.Equal(t, src, m.ReadFile("/s.jsonl"), "opening changes nothing")
		if err != nil {
			return
		}
		defer l.Close()
		exercise(t, l.View())
		before := l.Len()
		meta, err := l.Append(user("after the storm"), t0, true)
		require.NoError(t, err)
		again := open(t, m, "/s.jsonl")
		defer again.Close()
		require.Equal(t, before+1, again.Len(), "nothing is lost by mending")
		require.Equal(t, meta.ID, again.Leaf())
		require.Equal(t, ids(l.View().Refs()), ids(again.View().Refs()))
		require.Equal(t, ids(l.View().Branch()), ids(again.View().Branch()))
	})
}

// exercise reads everything that can be read of a session; whatever is in the
// file, reading it must work.
func exercise(t require.TestingT, v store.View) {
	_, err := v.State()
	require.NoError(t, err)
	tree, err := v.Tree()
	require.NoError(t, err)
	require.Equal(t, v.Len(), countNodes(tree.Nodes))
	nodes, err := v.RawTree()
	require.NoError(t, err)
	_, err = json.Marshal(nodes)
	require.NoError(t, err)
	entries, _, err := v.Entries("", 0)
	require.NoError(t, err)
	require.Len(t, entries, v.Len())
	_, err = v.Stats(true)
	require.NoError(t, err)
	_, err = v.ForkMessages(true)
	require.NoError(t, err)
	_, err = v.LastAssistantText(false)
	require.NoError(t, err)
	c, err := v.Context()
	require.NoError(t, err)
	sameMessages(t, v)
	for _, item := range c.Items() {
		require.True(t, json.Valid(item.Message.AppendJSON(nil)))
	}
	c.Usage(1000)
	fork, err := store.Fork(nil, v, "", header(), store.Options{})
	require.NoError(t, err)
	require.NoError(t, fork.Close())
}

func countNodes(nodes []protocol.TreeNode) int {
	todo := slices.Clone(nodes)
	for i := 0; i < len(todo); i++ {
		todo = append(todo, todo[i].Children...)
	}
	return len(todo)
}
