package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
	"troupe/store/storetest"
)

// TestNoLocks: where files cannot be locked, sessions work without, and
// somebody is told.
func TestNoLocks(t *testing.T) {
	for _, errno := range []string{"ENOLCK", "EOPNOTSUPP", "ENOSYS"} {
		f := storetest.NewFaulty(storetest.NewMem(), storetest.MustPlan("lock * always "+errno))
		told := 0
		o := store.Options{Exclusive: true, UniqueID: true, NoLocks: func(error) { told++ }}
		l := store.NewLog(f, file, header(), o)
		add(t, l, user("a"), user("b"))
		require.NoError(t, l.Close())
		l, err := store.OpenLog(f, file, o)
		require.NoError(t, err, errno)
		add(t, l, user("c"))
		require.NoError(t, l.Close())
		assert.Equal(t, 2, told, errno)
	}
	f := storetest.NewFaulty(storetest.NewMem(), storetest.MustPlan("lock * always EIO"))
	l := store.NewLog(f, file, header(), store.Options{Exclusive: true})
	defer l.Close()
	_, err := l.Append(user("a"), t0, true)
	assert.ErrorIs(t, err, store.ErrNotDurable, "any other failure is one")
}

// TestUniqueID: an id that somebody chose names one session of a working
// directory.
func TestUniqueID(t *testing.T) {
	for name, fsys := range map[string]store.FS{"os": store.OS{}, "mem": storetest.NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			begin := func(at int64, id, cwd string) *store.Log {
				h := store.NewHeader(id, cwd, "", at)
				l := store.NewLog(fsys, filepath.Join(dir, store.FileName(h)), h, store.Options{UniqueID: true})
				t.Cleanup(func() { l.Close() })
				return l
			}
			first, second := begin(t0, "job", "/p"), begin(t0+1, "job", "/p")
			add(t, first, user("a"))
			for range 2 {
				_, err := second.Append(user("b"), t0, true)
				assert.ErrorIs(t, err, store.ErrNotDurable)
				require.ErrorIs(t, err, store.ErrIDTaken)
				assert.Contains(t, err.Error(), first.Path())
			}
			add(t, begin(t0+2, "other", "/p"), user("c"))
			add(t, begin(t0+3, "job", "/elsewhere"), user("d"))
			add(t, begin(t0+4, "ob", "/p"), user("e"))
			require.NoError(t, fsys.Remove(first.Path()))
			add(t, second, user("f"))

			third := begin(t0+5, "third", "/p")
			unlock, err := fsys.LockDir(dir)
			require.NoError(t, err)
			_, err = third.Append(user("g"), t0, true)
			assert.ErrorIs(t, err, store.ErrInUse, "somebody else is making a session just now")
			unlock()
			add(t, third, user("h"))
		})
	}
}

// TestDirNames: every working directory has a directory that can be made and
// named to a client.
func TestDirNames(t *testing.T) {
	long := "/" + strings.Repeat("ü/", 200)
	names := map[string]bool{}
	for _, cwd := range []string{long, long + "x", "/a\xffb", "/a\xfeb\xfec", "/short"} {
		name := store.EncodeCwd(cwd)
		assert.LessOrEqual(t, len(name), 255)
		assert.Equal(t, strings.ToValidUTF8(name, ""), name)
		require.NoError(t, os.Mkdir(filepath.Join(t.TempDir(), name), 0o700))
		names[name] = true
	}
	assert.Len(t, names, 5)
	assert.Equal(t, "--"+strings.Repeat("x", 251)+"--", store.EncodeCwd("/"+strings.Repeat("x", 251)), "as pi names it, as long as pi can")
	assert.Equal(t, "/a\uFFFDb", store.NewHeader("", "/a\xffb", "", t0).Cwd)

	m := storetest.NewMem()
	cwd := "/a\xffb"
	h := store.NewHeader("", cwd, "", t0)
	l := store.NewLog(m, "/s/"+store.FileName(h), h, options())
	add(t, l, user("a"))
	_, found, err := store.NewLister(m).MostRecent(store.Query{Dir: "/s", Cwd: cwd})
	require.NoError(t, err)
	assert.True(t, found)
}

// TestAgentDirIsAbsolute: paths in it are told to clients.
func TestAgentDirIsAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	wd, err := os.Getwd()
	require.NoError(t, err)
	none := func(string) string { return "" }
	assert.Equal(t, filepath.Join(wd, "a"), store.AgentDir("./a", none, "/home"))
	assert.Equal(t, filepath.Join(wd, "b"), store.AgentDir("", func(name string) string {
		return map[string]string{"PI_CODING_AGENT_DIR": "b"}[name]
	}, "/home"))
	assert.Equal(t, filepath.Join(wd, "home/.pi/agent"), store.AgentDir("", none, "home"))
}
