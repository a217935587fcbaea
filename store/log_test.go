package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

func TestUnbornUntilDurable(t *testing.T) {
	l, m := newLog(t)
	assert.False(t, l.Materialised())
	assert.Equal(t, "", l.Leaf())
	for _, e := range []protocol.Entry{
		protocol.ModelChange{Provider: "acme", ModelID: "big"}, protocol.ThinkingLevelChange{ThinkingLevel: "low"},
	} {
		_, err := l.Append(e, t0, false)
		require.NoError(t, err)
	}
	assert.Empty(t, m.Files(), "settings alone make no file")
	assert.Equal(t, 2, l.Len())
	assert.Equal(t, "00000002", l.Leaf())
	r, err := l.View().Record("00000001")
	require.NoError(t, err)
	assert.Equal(t, protocol.ModelChange{Provider: "acme", ModelID: "big"}, r.Entry)
	require.NoError(t, l.Sync(), "there is nothing to sync")

	meta, err := l.Append(user("hi"), t0, true)
	require.NoError(t, err)
	assert.Equal(t, protocol.EntryMeta{ID: "00000003", ParentID: "00000002", Timestamp: "2026-11-21T01:04:26.021Z"}, meta)
	assert.True(t, l.Materialised())
	assert.Equal(t, headLine+`
{"type":"model_change","id":"00000001","parentId":null,"timestamp":"2026-11-21T01:04:26.021Z","provider":"acme","modelId":"big"}
{"type":"thinking_level_change","id":"00000002","parentId":"00000001","timestamp":"2026-11-21T01:04:26.021Z","thinkingLevel":"low"}
{"type":"message","id":"00000003","parentId":"00000002","timestamp":"2026-11-21T01:04:26.021Z","message":{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1795223066021}}
`, string(m.ReadFile(file)))

	before := len(m.ReadFile(file))
	_, err = l.Append(protocol.ThinkingLevelChange{ThinkingLevel: "high"}, t0, false)
	require.NoError(t, err)
	assert.Greater(t, len(m.ReadFile(file)), before, "from then on everything is written")
	assert.Equal(t, ids(l.View().Refs()), ids(open(t, m, file).View().Refs()))
}

func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent", "sessions", "--p--", "s.jsonl")
	l := store.NewLog(store.OS{}, path, header(), options())
	defer l.Close()
	add(t, l, user("hi"))
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), st.Mode().Perm())
	for dir := filepath.Dir(path); filepath.Base(dir) != "agent"; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o700), st.Mode().Perm(), dir)
	}
}

// writes counts the writes below it.
type writes struct {
	store.FS
	list [][]byte
}

type countedFile struct {
	store.File
	w *writes
}

func (w *writes) Create(name string) (store.File, error) {
	f, err := w.FS.Create(name)
	return countedFile{f, w}, err
}

func (f countedFile) Write(p []byte) (int, error) {
	f.w.list = append(f.w.list, bytes.Clone(p))
	return f.File.Write(p)
}

func TestOneWritePerEntry(t *testing.T) {
	w := &writes{FS: storetest.NewMem()}
	l := store.NewLog(w, file, header(), options())
	defer l.Close()
	_, err := l.Append(protocol.SessionInfo{Name: "n"}, t0, false)
	require.NoError(t, err)
	add(t, l, user("a"), answer("b"), user("c"))
	require.Len(t, w.list, 3)
	assert.Equal(t, 3, bytes.Count(w.list[0], []byte("\n")), "the first has all that waited")
	for _, one := range w.list[1:] {
		assert.Equal(t, len(one)-1, bytes.IndexByte(one, '\n'), "one whole line")
	}
}

func TestMemoryOnly(t *testing.T) {
	l := store.NewLog(nil, "", header(), options())
	got := add(t, l, user("a"), answer("b"), user("c"))
	assert.Equal(t, []string{"00000001", "00000002", "00000003"}, got)
	assert.False(t, l.Materialised())
	assert.Equal(t, "", l.Path())
	require.NoError(t, l.SetLeaf(got[0]))
	add(t, l, user("d"))
	c, err := l.View().Context()
	require.NoError(t, err)
	sameMessages(t, l.View())
	assert.Equal(t, []string{"user: a", "user: d"}, texts(c.Messages()))
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err = l.Append(user("e"), t0, true)
	assert.ErrorIs(t, err, fs.ErrClosed)
	assert.ErrorIs(t, l.Sync(), fs.ErrClosed)
}

// A session in memory and one on disk are the same to their owner.
func TestMemoryEqualsDisk(t *testing.T) {
	onDisk, m := newLog(t)
	inMemory := store.NewLog(nil, "", header(), options())
	for _, l := range []*store.Log{onDisk, inMemory} {
		got := add(t, l, user("a"), answer("b", "c1"), result("c1"), protocol.SessionInfo{Name: "n"})
		require.NoError(t, l.SetLeaf(got[1]))
		add(t, l, protocol.Label{TargetID: got[0], Label: "start"}, user("branch"))
	}
	assert.Equal(t, onDisk.View().Refs(), inMemory.View().Refs())
	for _, ref := range onDisk.View().Refs() {
		a, err := onDisk.View().Raw(ref.ID)
		require.NoError(t, err)
		b, err := inMemory.View().Raw(ref.ID)
		require.NoError(t, err)
		assert.Equal(t, string(a), string(b))
	}
	reopened := open(t, m, file)
	assert.Equal(t, onDisk.View().Refs(), reopened.View().Refs())
	assert.Equal(t, onDisk.Leaf(), reopened.Leaf())
}

func TestLeaf(t *testing.T) {
	l, m := newLog(t)
	got := add(t, l, user("a"), answer("b"), user("c"))
	before := m.ReadFile(file)
	require.NoError(t, l.SetLeaf(got[0]))
	assert.Equal(t, got[0], l.Leaf())
	assert.ErrorIs(t, l.SetLeaf("nope"), store.ErrNoEntry)
	assert.Equal(t, got[0], l.Leaf())
	require.NoError(t, l.SetLeaf(""))
	assert.Equal(t, "", l.Leaf())
	assert.Equal(t, before, m.ReadFile(file), "moving writes nothing")
	assert.Equal(t, got[2], open(t, m, file).Leaf(), "and is forgotten")
	root := add(t, l, user("another root"))[0]
	r, err := open(t, m, file).View().Record(root)
	require.NoError(t, err)
	assert.Equal(t, "", r.ParentID)
	v, err := l.View().At(got[2])
	require.NoError(t, err)
	assert.Equal(t, got, ids(v.Branch()))
	v, err = v.At("")
	require.NoError(t, err)
	assert.Empty(t, v.Branch())
	_, err = v.At("nope")
	assert.ErrorIs(t, err, store.ErrNoEntry)
}

func TestLookups(t *testing.T) {
	l, _ := newLog(t)
	id := add(t, l, user("a"))[0]
	assert.True(t, l.Has(id))
	for _, unknown := range []string{"", "nope", "00000009", "0000000Z", "000000010"} {
		assert.False(t, l.Has(unknown))
		_, err := l.View().Record(unknown)
		assert.ErrorIs(t, err, store.ErrNoEntry)
		_, err = l.View().Raw(unknown)
		assert.ErrorIs(t, err, store.ErrNoEntry)
	}
	r, err := l.View().Record(id)
	require.NoError(t, err)
	assert.Equal(t, user("a").Message.(*protocol.UserMessage).Content, r.Entry.(protocol.MessageEntry).Message.(*protocol.UserMessage).Content)
}

func TestAppendRefuses(t *testing.T) {
	l, m := newLog(t)
	add(t, l, user("a"))
	before := m.ReadFile(file)
	for name, e := range map[string]protocol.Entry{
		"label for nobody":   protocol.Label{TargetID: "nope", Label: "x"},
		"data that is none":  protocol.Custom{CustomType: "x", Data: json.RawMessage(`{"a":`)},
		"data of many lines": protocol.Custom{CustomType: "x", Data: json.RawMessage("{\n\"a\":\n")},
		"no id any more":     protocol.Custom{CustomType: "x", Data: json.RawMessage(`1,"id":2,"x":3`)},
		"another id":         protocol.Custom{CustomType: "x", Data: json.RawMessage(`1,"id":"00000009","x":3`)},
		"nothing it can say": protocol.UnknownEntry{Type: "x", Raw: json.RawMessage(`{"type":"x"}`)},
	} {
		_, err := l.Append(e, t0, true)
		assert.Error(t, err, name)
		assert.NotErrorIs(t, err, store.ErrNotDurable, "%s: it is not the disk's fault", name)
		assert.Equal(t, 1, l.Len(), name)
		assert.Equal(t, string(before), string(m.ReadFile(file)), name)
	}
	_, err := l.Append(protocol.Label{TargetID: "nope"}, t0, true)
	assert.ErrorIs(t, err, store.ErrNoEntry)
}

// The memory of a long line is not kept for as long as the session lives.
func TestLongLinesLeaveNoMemory(t *testing.T) {
	l := store.NewLog(store.OS{}, filepath.Join(t.TempDir(), "s.jsonl"), header(), options())
	defer l.Close()
	add(t, l, user(strings.Repeat("x", 32<<20)))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	assert.Less(t, m.HeapAlloc, uint64(24<<20))
	runtime.KeepAlive(l)
}

func TestMultilineDataBecomesOneLine(t *testing.T) {
	l, m := newLog(t)
	id := add(t, l, protocol.Custom{CustomType: "x", Data: json.RawMessage("{\n \"a\": \"\\n\"\n}")})[0]
	assert.Equal(t, 2, bytes.Count(m.ReadFile(file), []byte("\n")))
	r, err := open(t, m, file).View().Record(id)
	require.NoError(t, err)
	assert.JSONEq(t, `{"a":"\n"}`, string(r.Entry.(protocol.Custom).Data))
}

// fixed repeats one id.
type fixed byte

func (f fixed) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

func TestIDs(t *testing.T) {
	l := store.NewLog(nil, "", header(), store.Options{Rand: fixed(0xab)})
	got := add(t, l, user("a"), user("b"))
	assert.Equal(t, []string{"abababab", "abababab-abab-4bab-abab-abababababab"}, got)
	_, err := l.Append(user("c"), t0, true)
	require.NoError(t, err, "a third id need not be good, but it must not hang")

	l = store.NewLog(nil, "", header(), store.Options{})
	id := l.NewID()
	assert.False(t, l.Has(id))
	meta, err := l.AppendAs(id, user("a"), t0, true)
	require.NoError(t, err)
	assert.Equal(t, id, meta.ID)
	_, err = l.AppendAs(id, user("b"), t0, true)
	require.ErrorContains(t, err, "is taken")
	assert.Equal(t, 1, l.Len())

	l = store.NewLog(nil, "", header(), store.Options{Rand: errReader{}})
	_, err = l.Append(user("a"), t0, true)
	assert.Error(t, err)

	l = store.NewLog(nil, "", header(), store.Options{})
	seen := map[string]bool{}
	for range 100 {
		id := add(t, l, user("a"))[0]
		assert.Regexp(t, `^[0-9a-f]{8}$`, id)
		assert.False(t, seen[id])
		seen[id] = true
	}
}

func TestQueueMembersSurvive(t *testing.T) {
	l, m := newLog(t)
	e := user("a")
	e.QueueID, e.Key = "q1", protocol.IdempotencyKey{Key: "k#1", Fingerprint: "f"}
	id := add(t, l, e)[0]
	r, err := open(t, m, file).View().Record(id)
	require.NoError(t, err)
	assert.Equal(t, "q1", r.Entry.(protocol.MessageEntry).QueueID)
	assert.Equal(t, e.Key, r.Entry.(protocol.MessageEntry).Key)
}

func TestTakesOverEmptyFile(t *testing.T) {
	for _, content := range []string{"", "\n \n", headLine[:30], "{", "\x00\x00"} {
		m := storetest.NewMem()
		m.WriteFile(file, []byte(content))
		_, err := store.OpenLog(m, file, store.Options{})
		require.ErrorIs(t, err, store.ErrEmpty)
		l := store.NewLog(m, file, header(), options())
		add(t, l, user("a"))
		assert.Equal(t, 1, open(t, m, file).Len())
		torn := m.ReadFile(file + store.TornSuffix)
		if strings.TrimSpace(content) == "" {
			assert.Nil(t, torn)
		} else {
			assert.Equal(t, content+"\n", string(torn), "what was there is kept aside")
		}
		require.NoError(t, l.Close())
	}
}

func TestNeverOverwrites(t *testing.T) {
	for _, content := range []string{"Dear diary", headLine + "\n" + userLine("00000001", "", "x") + "\n", strings.Repeat("x", 100_000)} {
		m := storetest.NewMem()
		m.WriteFile(file, []byte(content))
		l := store.NewLog(m, file, header(), options())
		for range 2 {
			_, err := l.Append(user("a"), t0, true)
			assert.ErrorIs(t, err, store.ErrNotDurable)
			assert.ErrorIs(t, err, fs.ErrExist)
		}
		assert.Zero(t, l.Len())
		assert.Equal(t, content, string(m.ReadFile(file)))
		assert.Equal(t, []string{file}, m.Files())
		require.NoError(t, l.Close())
	}
}

func TestExclusive(t *testing.T) {
	for name, fsys := range map[string]store.FS{"os": store.OS{}, "mem": storetest.NewMem()} {
		path := filepath.Join(t.TempDir(), "s.jsonl")
		require.NoError(t, fsys.MkdirAll(filepath.Dir(path)))
		claim := store.Options{Exclusive: true}
		a := store.NewLog(fsys, path, header(), claim)
		add(t, a, user("a"))
		_, err := store.OpenLog(fsys, path, claim)
		assert.ErrorIs(t, err, store.ErrInUse, name)
		reader := open(t, fsys, path)
		assert.Equal(t, 1, reader.Len(), "who does not claim may read")
		require.NoError(t, a.Close())
		b, err := store.OpenLog(fsys, path, claim)
		require.NoError(t, err, name)
		add(t, b, user("b"))
		require.NoError(t, b.Close())
	}
}

// Two claim the same empty file: one gets it, the other's entry is not lost in
// silence.
func TestExclusiveBirth(t *testing.T) {
	m := storetest.NewMem()
	m.WriteFile(file, nil)
	claim := store.Options{Exclusive: true}
	a, b := store.NewLog(m, file, header(), claim), store.NewLog(m, file, header(), claim)
	add(t, a, user("a"))
	_, err := b.Append(user("b"), t0, true)
	assert.ErrorIs(t, err, store.ErrNotDurable)
	assert.ErrorIs(t, err, store.ErrInUse)
	assert.Equal(t, 1, open(t, m, file).Len())
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

func TestReadOnlyFile(t *testing.T) {
	m := storetest.NewMem()
	m.WriteFile(file, []byte(headLine+"\n"+userLine("00000001", "", "x")+"\n"))
	m.SetReadOnly(file, true)
	l := open(t, m, file)
	v := l.View()
	assert.Equal(t, 1, l.Len())
	_, err := l.Append(user("y"), t0, true)
	assert.ErrorIs(t, err, store.ErrNotDurable)
	assert.ErrorIs(t, err, fs.ErrPermission)
	m.SetReadOnly(file, false)
	add(t, l, user("z"))
	assert.Equal(t, 2, open(t, m, file).Len())
	_, err = v.Record("00000001")
	assert.NoError(t, err, "the view's handle is still there")
}

// pi writes to a session that is open here.
func TestForeignLines(t *testing.T) {
	l, m := newLog(t)
	mine := add(t, l, user("a"))[0]
	pi, err := m.OpenAppend(file)
	require.NoError(t, err)
	defer pi.Close()
	foreign := func(text string) {
		_, err := pi.Write([]byte(text))
		require.NoError(t, err)
	}
	foreign(userLine("deadbeef", mine, "from pi") + "\n" + "garbage\n" + userLine("deadbee2", "deadbeef", "no newline"))
	next := add(t, l, user("b"))[0]
	assert.Equal(t, store.Damage{Foreign: 2, Skipped: 1}, l.Damage())
	r, err := l.View().Record(next)
	require.NoError(t, err)
	assert.Equal(t, mine, r.ParentID, "our branch goes on")
	r, err = l.View().Record("deadbee2")
	require.NoError(t, err)
	assert.Equal(t, "deadbeef", r.ParentID)
	foreign(userLine("deadbee3", "deadbee2", "torn")[:30])
	last := add(t, l, user("c"))[0]
	again := open(t, m, file)
	assert.Equal(t, []string{mine, "deadbeef", "deadbee2", next, last}, ids(again.View().Refs()))
	assert.Equal(t, []string{mine, next, last}, ids(again.View().Branch()))
	assert.Equal(t, ids(l.View().Refs()), ids(again.View().Refs()))
	assert.Equal(t, userLine("deadbee3", "deadbee2", "torn")[:30]+"\n", string(m.ReadFile(file+store.TornSuffix)))
}

func TestFileTakenAway(t *testing.T) {
	move := func(m *storetest.Mem) error { return m.Rename(file, file+".bak") }
	for name, meddle := range map[string]func(m *storetest.Mem) error{
		"removed":  func(m *storetest.Mem) error { return m.Remove(file) },
		"moved":    move,
		"replaced": func(m *storetest.Mem) error { m.WriteFile(file, []byte("something else")); return nil },
		"replaced by a longer one": func(m *storetest.Mem) error {
			m.WriteFile(file, bytes.Repeat([]byte("something else\n"), 1000))
			return nil
		},
		"replaced by an editor, which keeps the old one": func(m *storetest.Mem) error {
			err := move(m)
			m.WriteFile(file, bytes.Repeat([]byte("something else\n"), 1000))
			return err
		},
		"replaced by one of the same size, while another name keeps the old one": func(m *storetest.Mem) error {
			same := m.ReadFile(file)
			err := move(m)
			m.WriteFile(file, same)
			return err
		},
		"cut": func(m *storetest.Mem) error {
			f, err := m.OpenAppend(file)
			return errors.Join(err, f.Truncate(50), f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, m := newLog(t)
			add(t, l, user("a"))
			add(t, l, user("b"))
			require.NoError(t, meddle(m))
			left := m.ReadFile(file)
			for range 2 {
				_, err := l.Append(user("c"), t0+100, true)
				assert.ErrorIs(t, err, store.ErrNotDurable)
			}
			assert.Equal(t, 2, l.Len())
			assert.Equal(t, left, m.ReadFile(file))
		})
	}
}

// meddler is a file system in which somebody else acts in the moment of a
// write: before it, or after it and before anybody was told of it.
type meddler struct {
	store.FS
	before, after func()
}

type meddledFile struct {
	store.File
	by *meddler
}

func (m *meddler) Create(name string) (store.File, error) {
	f, err := m.FS.Create(name)
	return meddledFile{f, m}, err
}

func (f meddledFile) Write(p []byte) (int, error) {
	before, after := f.by.before, f.by.after
	f.by.before, f.by.after = nil, nil
	if before != nil {
		before()
	}
	n, err := f.File.Write(p)
	if after != nil {
		after()
	}
	return n, err
}

// TestFileTakenAwayMeanwhile: what is done to a file in the very moment of an
// append is noticed before the append is acknowledged. What was not is nowhere.
func TestFileTakenAwayMeanwhile(t *testing.T) {
	for name, meddle := range map[string]func(m *storetest.Mem){
		"removed": func(m *storetest.Mem) { _ = m.Remove(file) },
		"moved":   func(m *storetest.Mem) { _ = m.Rename(file, file+".bak") },
		"moved, with a copy in its place": func(m *storetest.Mem) {
			same := m.ReadFile(file)
			_ = m.Rename(file, file+".bak")
			m.WriteFile(file, same)
		},
		"written over": func(m *storetest.Mem) { overwrite(m, file, "something else\n") },
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				m := storetest.NewMem()
				by := &meddler{FS: m}
				l := store.NewLog(by, file, header(), options())
				add(t, l, user("a"))
				act := func() { meddle(m) }
				if by.before = act; when == "after" {
					by.before, by.after = nil, act
				}
				_, err := l.Append(user("lost"), t0, true)
				assert.ErrorIs(t, err, store.ErrNotDurable)
				assert.Equal(t, 1, l.Len())
				assert.NotContains(t, string(m.ReadFile(file+".bak")), "lost")
			})
		}
	}
}

// TestWrittenTogether: another program appends in the very moment of an append.
func TestWrittenTogether(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			m := storetest.NewMem()
			by := &meddler{FS: m}
			l := store.NewLog(by, file, header(), options())
			mine := add(t, l, user("a"))[0]
			pi := func() { write(m, file, userLine("deadbeef", mine, "from pi")+"\n") }
			if by.before = pi; when == "after" {
				by.before, by.after = nil, pi
			}
			got := add(t, l, user("b"), user("c"))
			assert.Equal(t, 4, l.Len())
			r, err := l.View().Record(got[0])
			require.NoError(t, err)
			assert.Equal(t, mine, r.ParentID)
			assert.Equal(t, ids(open(t, m, file).View().Refs()), ids(l.View().Refs()))
		})
	}
}

// overwrite replaces the content of a file in its place.
func overwrite(m *storetest.Mem, name, content string) {
	f, err := m.OpenAppend(name)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		panic(err)
	}
	write(m, name, content)
}

func write(m *storetest.Mem, name, content string) {
	f, err := m.OpenAppend(name)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte(content)); err != nil {
		panic(err)
	}
}

// TestWrittenOver: a file that keeps its name and its place on the disk, but
// not its content. An append neither adds to what is somebody else's nor
// believes that its parent is still there.
func TestWrittenOver(t *testing.T) {
	another := headLine + "\n" + userLine("00000001", "", "x") + "\n"
	for name, content := range map[string]func(was string) string{
		"empty":                    func(string) string { return "" },
		"shorter":                  func(was string) string { return was[:len(was)/2] },
		"of the same size":         func(was string) string { return strings.Replace(was, `"id":"`, `"id":"f`, 1)[:len(was)-1] + "\n" },
		"garbage inside":           func(was string) string { return was[:len(was)-40] + strings.Repeat("x", 39) + "\n" },
		"longer":                   func(string) string { return another + strings.Repeat(userLine("00000002", "00000001", "y")+"\n", 100) },
		"another session":          func(was string) string { return strings.Replace(was, header().ID, "another", 1) },
		"a line more in the front": func(was string) string { return "\n" + was },
	} {
		t.Run(name, func(t *testing.T) {
			l, m := newLog(t)
			add(t, l, user("a"), user("b"))
			overwrite(m, file, content(string(m.ReadFile(file))))
			left := m.ReadFile(file)
			for range 2 {
				_, err := l.Append(user("c"), t0, true)
				assert.ErrorIs(t, err, store.ErrNotDurable)
				assert.ErrorIs(t, err, store.ErrChanged)
			}
			assert.Equal(t, 2, l.Len())
			assert.Equal(t, string(left), string(m.ReadFile(file)))
		})
	}
}

// TestTouched: a file may be touched, copied over itself and moved away and
// back; what counts is that all is there.
func TestTouched(t *testing.T) {
	for name, meddle := range map[string]func(m *storetest.Mem) error{
		"rights": func(m *storetest.Mem) error { m.SetReadOnly(file, true); m.SetReadOnly(file, false); return nil },
		"copied over itself": func(m *storetest.Mem) error {
			overwrite(m, file, string(m.ReadFile(file)))
			return nil
		},
		"moved and back": func(m *storetest.Mem) error { return errors.Join(m.Rename(file, "/x"), m.Rename("/x", file)) },
	} {
		t.Run(name, func(t *testing.T) {
			l, m := newLog(t)
			add(t, l, user("a"), user("b"))
			require.NoError(t, meddle(m))
			add(t, l, user("c"))
			assert.Equal(t, ids(l.View().Refs()), ids(open(t, m, file).View().Refs()))
		})
	}
}

// A view is read while its log is written to; the race detector looks on.
func TestViewsWhileAppending(t *testing.T) {
	for name, path := range map[string]string{"disk": filepath.Join(t.TempDir(), "s.jsonl"), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			l := store.NewLog(store.OS{}, path, header(), store.Options{})
			defer l.Close()
			var wg sync.WaitGroup
			rng := rand.New(rand.NewPCG(1, 1))
			for i := range 80 {
				e := user(fmt.Sprint("message ", i))
				if i%9 == 0 {
					e.Message.(*protocol.UserMessage).Content = protocol.TextContent(strings.Repeat("long ", 1000))
				}
				add(t, l, e, protocol.Custom{CustomType: fmt.Sprint("t", i%40)})
				if i%10 == 0 && i > 0 {
					require.NoError(t, l.SetLeaf(l.View().Refs()[rng.IntN(l.Len())].ID))
				}
				v, n := l.View(), l.Len()
				wg.Go(func() {
					assert.Equal(t, n, v.Len())
					exercise(t, v)
				})
			}
			wg.Wait()
		})
	}
}

func TestViewAfterClose(t *testing.T) {
	l, _ := newLog(t)
	id := add(t, l, user("a"))[0]
	v := l.View()
	require.NoError(t, l.Close())
	_, err := v.Record(id)
	assert.ErrorIs(t, err, fs.ErrClosed)
	assert.Equal(t, []string{id}, ids(v.Branch()), "what is in the index stays")
}

func TestViewAt(t *testing.T) {
	l, _ := newLog(t)
	got := add(t, l, user("a"), user("b"), user("c"))
	v, err := l.View().At(got[1])
	require.NoError(t, err)
	assert.Equal(t, got[1], v.Leaf())
	assert.Equal(t, got[:2], ids(v.Branch()))
	v, err = v.At("")
	require.NoError(t, err)
	assert.Empty(t, v.Branch())
	_, err = v.At("nope")
	assert.ErrorIs(t, err, store.ErrNoEntry)
	records, err := l.View().Records()
	require.NoError(t, err)
	assert.Len(t, records, 3)
	assert.Equal(t, file, v.Path())
	assert.Equal(t, header(), v.Header())
}
