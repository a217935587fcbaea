package store_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// put writes a session file of lines, later than those before it.
func put(m *storetest.Mem, path string, lines ...string) {
	m.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"))
}

func headFor(id, cwd string) string {
	return fmt.Sprintf(`{"type":"session","version":3,"id":%q,"timestamp":"2026-11-21T01:04:26.021Z","cwd":%q,"parentSession":"/parent.jsonl"}`, id, cwd)
}

func at(line string, ms int64) string {
	return strings.Replace(line, fmt.Sprint(t0), fmt.Sprint(ms), 1)
}

func assistantLine(id, parent, text string) string {
	return entryLine("message", id, parent, fmt.Sprintf(`"message":{"role":"assistant","content":[{"type":"text","text":%q}],"timestamp":%d}`, text, t0))
}

func TestListDescribes(t *testing.T) {
	m := storetest.NewMem()
	put(m, "/s/full.jsonl", headFor("full", "/p"),
		entryLine("session_info", "0000000f", "", `"name":"old name"`),
		at(userLine("00000001", "0000000f", "first question"), t0+10), at(assistantLine("00000002", "00000001", "an answer"), t0+30),
		entryLine("message", "00000003", "00000002", `"message":{"role":"toolResult","content":[{"type":"text","text":"hidden"}],"timestamp":1999999999999}`),
		at(userLine("00000004", "00000003", "second"), t0+20), entryLine("session_info", "00000005", "", `"name":" new name "`),
		entryLine("session_info", "00000006", "", `"name":" "`), "{torn", userLine("00000007", "", "unfinished")[:50])
	put(m, "/s/empty.jsonl", headFor("empty", "/p"))
	got, err := store.NewLister(m).List(store.Query{Dir: "/s"})
	require.NoError(t, err)
	assert.Equal(t, []protocol.SessionSummary{
		{
			Path: "/s/full.jsonl", ID: "full", Cwd: "/p", Name: "new name", ParentSessionPath: "/parent.jsonl",
			Created: "2026-11-21T01:04:26.021Z", Modified: protocol.FormatTime(t0 + 30), MessageCount: 4,
			FirstMessage: "first question", AllMessagesText: new("first question an answer second"),
		},
		{
			Path: "/s/empty.jsonl", ID: "empty", Cwd: "/p", ParentSessionPath: "/parent.jsonl",
			Created: "2026-11-21T01:04:26.021Z", Modified: "2026-11-21T01:04:26.021Z", FirstMessage: "(no messages)", AllMessagesText: new(""),
		},
	}, got)
}

func TestListModified(t *testing.T) {
	m := storetest.NewMem()
	put(m, "/s/a.jsonl", headFor("a", "/p"), strings.Replace(userLine("00000001", "", "x"), fmt.Sprintf(`,"timestamp":%d`, t0), "", 1))
	put(m, "/s/b.jsonl", `{"type":"session","id":"b"}`)
	got, err := store.NewLister(m).List(store.Query{Dir: "/s"})
	require.NoError(t, err)
	require.Len(t, got, 2)
	st, err := m.Stat("/s/b.jsonl")
	require.NoError(t, err)
	assert.Equal(t, protocol.FormatTime(st.ModTime().UnixMilli()), got[0].Modified, "the file's time where nothing else is known")
	assert.Equal(t, "2026-11-21T01:04:27.000Z", got[1].Modified, "the entry's time where the message has none")
}

func TestListOldVersion(t *testing.T) {
	src, err := os.ReadFile("testdata/session-v1-input.jsonl")
	require.NoError(t, err)
	m := storetest.NewMem()
	m.WriteFile("/s/v1.jsonl", src)
	got, err := store.NewLister(m).List(store.Query{Dir: "/s"})
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, "hi from v1 hello", got[0].Text())
	assert.Equal(t, 3, got[0].MessageCount)
	assert.Equal(t, src, m.ReadFile("/s/v1.jsonl"))
}

func TestListSkips(t *testing.T) {
	m := storetest.NewMem()
	put(m, "/s/ok.jsonl", headFor("ok", "/p"))
	put(m, "/s/late header.jsonl", "", "{broken", headFor("late", "/p"))
	put(m, "/s/long header.jsonl", headFor("long", "/"+strings.Repeat("x", 3000)))
	put(m, "/s/other.txt", headFor("other", "/p"))
	put(m, "/s/x.jsonl.torn", headFor("torn", "/p"))
	put(m, "/s/garbage.jsonl", "Dear diary")
	put(m, "/s/json.jsonl", `{"a":1}`, headFor("x", "/p"))
	m.WriteFile("/s/empty.jsonl", nil)
	m.WriteFile("/s/tornhead.jsonl", []byte(headFor("t", "/p")[:40]))
	require.NoError(t, m.MkdirAll("/s/dir.jsonl"))
	put(m, "/s/deep/down.jsonl", headFor("down", "/p"))
	l := store.NewLister(m)
	for range 2 {
		assert.ElementsMatch(t, []string{"ok", "late", "long"}, listIDs(t, l, store.Query{Dir: "/s"}))
	}
	assert.Empty(t, listIDs(t, l, store.Query{Dir: "/nowhere"}))
	assert.Empty(t, listIDs(t, l, store.Query{Dir: "/nowhere", All: true}))
	f := storetest.NewFaulty(m, storetest.MustPlan("readdir s always EIO"))
	_, err := store.NewLister(f).List(store.Query{Dir: "/s"})
	assert.Error(t, err)
}

func listIDs(t *testing.T, l *store.Lister, q store.Query) []string {
	t.Helper()
	got, err := l.List(q)
	require.NoError(t, err)
	list := []string{}
	for _, s := range got {
		list = append(list, s.ID)
	}
	return list
}

func headIDs(t *testing.T, l *store.Lister, q store.Query) []string {
	t.Helper()
	got, err := l.Heads(q)
	require.NoError(t, err)
	list := []string{}
	for _, h := range got {
		list = append(list, h.Header.ID)
	}
	return list
}

// projects has three projects; files are written in the order of their ids.
func projects() *storetest.Mem {
	m := storetest.NewMem()
	put(m, "/r/--a--/t1_aa11.jsonl", headFor("aa11", "/a"), at(userLine("00000001", "", "1"), t0+500))
	put(m, "/r/--b--/t2_bb22.jsonl", headFor("bb22", "/b"), at(userLine("00000001", "", "2"), t0+200))
	put(m, "/r/--a--/t3_aa33.jsonl", headFor("aa33", "/a"), at(userLine("00000001", "", "3"), t0+300))
	put(m, "/r/--a--/t4_ab44.jsonl", headFor("ab44", "/a:"), at(userLine("00000001", "", "4"), t0+400))
	put(m, "/r/loose.jsonl", headFor("loose", "/a"))
	return m
}

func TestListQueries(t *testing.T) {
	l := store.NewLister(projects())
	assert.Equal(t, []string{"aa11", "ab44", "aa33"}, listIDs(t, l, store.Query{Dir: "/r/--a--"}), "by activity")
	assert.Equal(t, []string{"aa11", "aa33"}, listIDs(t, l, store.Query{Dir: "/r/--a--", Cwd: "/a"}), "the header decides")
	assert.Equal(t, []string{"aa11", "ab44", "aa33", "bb22"}, listIDs(t, l, store.Query{Dir: "/r", All: true}))
	assert.Equal(t, []string{"ab44", "aa33", "bb22", "aa11"}, headIDs(t, l, store.Query{Dir: "/r", All: true}), "by time of writing")
	assert.Equal(t, []string{"ab44", "aa33"}, listIDs(t, l, store.Query{Dir: "/r", All: true, Limit: 2}), "those written last")
	assert.Equal(t, []string{"aa33"}, headIDs(t, l, store.Query{Dir: "/r/--a--", Cwd: "/a", Limit: 1}))
}

func TestMostRecent(t *testing.T) {
	m := projects()
	put(m, "/r/--a--/t5_junk.jsonl", "no session")
	put(m, "/r/--a--/t6_other.jsonl", headFor("other", "/elsewhere"))
	l := store.NewLister(m)
	h, ok, err := l.MostRecent(store.Query{Dir: "/r/--a--", Cwd: "/a"})
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, "/r/--a--/t3_aa33.jsonl", h.Path)
	_, ok, err = l.MostRecent(store.Query{Dir: "/r/--none--"})
	require.NoError(t, err)
	assert.False(t, ok)
}

// Only as many first lines are read as are needed.
func TestMostRecentIsLazy(t *testing.T) {
	m := storetest.NewMem()
	for i := range 50 {
		put(m, fmt.Sprintf("/s/t%02d.jsonl", i), headFor(fmt.Sprint("s", i), "/p"))
	}
	f := storetest.NewFaulty(m, storetest.MustPlan("open * #2+ EIO"))
	h, ok, err := store.NewLister(f).MostRecent(store.Query{Dir: "/s"})
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, "s49", h.Header.ID)
	assert.Empty(t, f.Struck())
}

func TestResolve(t *testing.T) {
	m := projects()
	put(m, "/r/--a--/renamed.jsonl", headFor("cc55", "/a"))
	put(m, "/r/--a--/t7_aa.jsonl", headFor("aa", "/a"))
	put(m, "/r/--a--/t8_aa77.jsonl", headFor("zz", "/a"))
	l := store.NewLister(m)
	q := store.Query{Dir: "/r/--a--", Cwd: "/a"}
	for _, c := range []struct {
		id, want  string
		elsewhere bool
	}{
		{"aa11", "aa11", false}, {"aa1", "aa11", false}, {"aa", "aa", false}, {"aa3", "aa33", false}, {"a", "aa", false},
		{"cc", "cc55", false}, {"bb", "bb22", true}, {"ab", "ab44", true}, {"zz", "zz", false},
		{"aa77", "", true}, {"", "", false}, {"nope", "", true}, {"11", "", true},
	} {
		h, elsewhere, ok, err := l.Resolve(q, "/r", c.id)
		require.NoError(t, err)
		assert.Equal(t, c.want != "", ok, c.id)
		assert.Equal(t, c.want, h.Header.ID, c.id)
		if ok {
			assert.Equal(t, c.elsewhere, elsewhere, c.id)
		}
	}
	_, _, ok, err := l.Resolve(q, "", "bb")
	require.NoError(t, err)
	assert.False(t, ok, "without a root the search ends here")
}

// counted counts the files that are opened.
type counted struct {
	store.FS
	mu    sync.Mutex
	opens []string
}

func (c *counted) Open(name string) (store.File, error) {
	c.mu.Lock()
	c.opens = append(c.opens, filepath.Base(name))
	c.mu.Unlock()
	return c.FS.Open(name)
}

func (c *counted) reset() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	opens := c.opens
	c.opens = nil
	return opens
}

func TestListRemembers(t *testing.T) {
	m := projects()
	put(m, "/r/--a--/junk.jsonl", "no session")
	c := &counted{FS: m}
	l := store.NewLister(c)
	q := store.Query{Dir: "/r", All: true}
	before, err := l.List(q)
	require.NoError(t, err)
	assert.Len(t, c.reset(), 4+4+1, "each once for its head and once in full, junk once")
	again, err := l.List(q)
	require.NoError(t, err)
	assert.Equal(t, before, again)
	assert.Empty(t, c.reset(), "nothing has changed")

	f, err := m.OpenAppend("/r/--b--/t2_bb22.jsonl")
	require.NoError(t, err)
	_, err = f.Write([]byte(at(userLine("00000002", "00000001", "more"), t0+999) + "\n"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, m.Remove("/r/--a--/t3_aa33.jsonl"))
	put(m, "/r/--a--/new.jsonl", headFor("new", "/a"))
	assert.Equal(t, []string{"bb22", "aa11", "ab44", "new"}, listIDs(t, l, q))
	assert.ElementsMatch(t, []string{"t2_bb22.jsonl", "t2_bb22.jsonl", "new.jsonl", "new.jsonl"}, c.reset(), "only what is new is read")
}

// A file that cannot be read now may be readable later.
func TestListTriesAgain(t *testing.T) {
	f := storetest.NewFaulty(projects(), storetest.MustPlan("open t1* #1 EMFILE; read t3* #1 EIO; open t4* #2 EIO"))
	l := store.NewLister(f)
	assert.Empty(t, listIDs(t, l, store.Query{Dir: "/r/--a--"}))
	assert.Equal(t, []string{"aa11", "ab44", "aa33"}, listIDs(t, l, store.Query{Dir: "/r/--a--"}))
}

func TestListTextIsBounded(t *testing.T) {
	m := storetest.NewMem()
	long := strings.Repeat("ä", store.MaxListText)
	put(m, "/s/a.jsonl", headFor("a", "/p"), assistantLine("00000001", "", "x"+long), userLine("00000002", "00000001", "y"+long), userLine("00000003", "", "z"))
	got, err := store.NewLister(m).List(store.Query{Dir: "/s"})
	require.NoError(t, err)
	assert.Equal(t, 3, got[0].MessageCount)
	assert.LessOrEqual(t, len(got[0].Text()), store.MaxListText)
	assert.Greater(t, len(got[0].Text()), store.MaxListText-4)
	assert.True(t, strings.HasPrefix(got[0].FirstMessage, "yä"), "the first message is known even if the text was full before it")
	assert.True(t, strings.HasSuffix(got[0].FirstMessage, "ä"))
}

// With more text than the lister will keep, it keeps less and lists the same.
func TestListCacheIsBounded(t *testing.T) {
	m := storetest.NewMem()
	long := strings.Repeat("x", store.MaxListText)
	for i := range 600 {
		put(m, fmt.Sprintf("/s/%03d.jsonl", i), headFor(fmt.Sprint(i), "/p"), userLine("00000001", "", long))
	}
	c := &counted{FS: m}
	l := store.NewLister(c)
	assert.Len(t, listIDs(t, l, store.Query{Dir: "/s"}), 600)
	c.reset()
	assert.Len(t, listIDs(t, l, store.Query{Dir: "/s"}), 600)
	again := len(c.reset())
	assert.Greater(t, again, 50)
	assert.Less(t, again, 150)
	for i := range 600 {
		require.NoError(t, m.Remove(fmt.Sprintf("/s/%03d.jsonl", i)))
	}
	put(m, "/s/new.jsonl", headFor("new", "/p"), userLine("00000001", "", long))
	listIDs(t, l, store.Query{Dir: "/s"})
	c.reset()
	listIDs(t, l, store.Query{Dir: "/s"})
	assert.Empty(t, c.reset(), "what is gone makes room")
}

func TestListOnDisk(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string, age time.Duration) string {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		when := time.UnixMilli(t0).Add(-age)
		require.NoError(t, os.Chtimes(path, when, when))
		return path
	}
	write("--a--/old.jsonl", headFor("old", "/a")+"\n", time.Hour)
	write("--a--/new.jsonl", headFor("new", "/a")+"\n", time.Minute)
	target := write("elsewhere/linked", headFor("linked", "/a")+"\n", time.Second)
	require.NoError(t, os.Symlink(target, filepath.Join(root, "--a--", "link.jsonl")))
	require.NoError(t, os.Symlink(filepath.Join(root, "gone"), filepath.Join(root, "--a--", "dangling.jsonl")))
	require.NoError(t, os.Symlink(filepath.Join(root, "--a--"), filepath.Join(root, "--same--")))
	secret := write("--a--/secret.jsonl", headFor("secret", "/a")+"\n", 0)
	require.NoError(t, os.Chmod(secret, 0))
	l := store.NewLister(store.OS{})
	want := []string{"linked", "new", "old"}
	if os.Geteuid() == 0 { // root may read it
		want = append([]string{"secret"}, want...)
	}
	assert.Equal(t, want, headIDs(t, l, store.Query{Dir: filepath.Join(root, "--a--")}))
	assert.Len(t, headIDs(t, l, store.Query{Dir: root, All: true}), 2*len(want), "a linked directory counts")
	_, err := l.Heads(store.Query{Dir: target})
	assert.Error(t, err, "a file is no directory")
	assert.NotErrorIs(t, err, fs.ErrNotExist)
}

func TestListerIsSharedSafely(t *testing.T) {
	m := projects()
	l := store.NewLister(m)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 20 {
				if i%5 == 0 {
					put(m, fmt.Sprintf("/r/--a--/x%d.jsonl", i), headFor(fmt.Sprint("x", i), "/a"))
				}
				assert.GreaterOrEqual(t, len(listIDs(t, l, store.Query{Dir: "/r", All: true})), 4)
				headIDs(t, l, store.Query{Dir: "/r/--a--"})
			}
		})
	}
	wg.Wait()
}

// plainFS is a file system without the shortcuts of the one it is.
type plainFS struct{ store.FS }

// The system's own way to stat a directory finds what the general one does.
func TestListShortcut(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for i := range 20 {
		name := fmt.Sprintf("s%02d.jsonl", i)
		write(name, headFor(fmt.Sprint("id-", i), "/p")+"\n")
		when := time.Unix(1_795_000_000+int64(i/2), int64(i)) // pairs that differ by nanoseconds
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), when, when))
	}
	write("other.txt", "no session")
	write("garbage.jsonl", "no session")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir.jsonl"), 0o700))
	elsewhere := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.WriteFile(elsewhere, []byte(headFor("linked", "/p")+"\n"), 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "link.jsonl")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "linked dir.jsonl")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling.jsonl")))

	quick, plain := store.NewLister(store.OS{}), store.NewLister(plainFS{store.OS{}})
	compare := func(n int) {
		t.Helper()
		want, err := plain.Heads(store.Query{Dir: dir})
		require.NoError(t, err)
		got, err := quick.Heads(store.Query{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Len(t, got, n)
		wantList, err := plain.List(store.Query{Dir: dir})
		require.NoError(t, err)
		gotList, err := quick.List(store.Query{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, wantList, gotList)
	}
	compare(21)
	require.NoError(t, os.Remove(filepath.Join(dir, "s03.jsonl")))
	write("s04.jsonl", headFor("other id", "/p")+"\n")
	write("s99.jsonl", headFor("new", "/p")+"\n")
	compare(21)
	for _, l := range []*store.Lister{quick, plain} {
		_, err := l.Heads(store.Query{Dir: filepath.Join(dir, "other.txt")})
		require.Error(t, err, "no directory")
		heads, err := l.Heads(store.Query{Dir: filepath.Join(dir, "nowhere")})
		require.NoError(t, err)
		require.Empty(t, heads)
	}
}
