package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
	"troupe/store/storetest"
)

// keeper keeps the lines of a session.
type keeper struct {
	lines []byte
	n     int
	err   error
	whole []bool // what Close was told
}

func (k *keeper) Close(whole bool) { k.whole = append(k.whole, whole) }

func (k *keeper) Commit(lines []byte) error {
	if k.err != nil {
		return k.err
	}
	k.lines = append(k.lines, lines...)
	k.n++
	return nil
}

func (k *keeper) options() store.Options {
	o := options()
	o.Commit = k
	return o
}

// TestCommitComesFirst: lines go to who keeps the session before they are in the file, the
// header with the first, those of a group together; what is refused there is nowhere.
func TestCommitComesFirst(t *testing.T) {
	mem, k := storetest.NewMem(), &keeper{}
	l := store.NewLog(mem, file, header(), k.options())
	_, err := l.Append(user("waits"), t0, false)
	require.NoError(t, err)
	require.Zero(t, k.n)
	add(t, l, user("one"))
	require.Equal(t, 1, k.n)
	l.Begin(0, 0)
	add(t, l, user("two"), answer("three"))
	require.NoError(t, l.Commit())
	require.Equal(t, 2, k.n)
	require.Equal(t, string(mem.ReadFile(file)), string(k.lines))

	k.err = errors.New("fenced")
	_, err = l.Append(user("four"), t0, true)
	require.ErrorIs(t, err, store.ErrNotDurable)
	require.ErrorIs(t, err, k.err)
	require.Equal(t, 4, l.Len())
	require.Equal(t, string(mem.ReadFile(file)), string(k.lines))
	require.NoError(t, l.Close())
	require.Equal(t, []bool{true}, k.whole)
}

// TestRefusedAtBirth: a session whose first lines are not taken has no file.
func TestRefusedAtBirth(t *testing.T) {
	mem, k := storetest.NewMem(), &keeper{err: errors.New("away")}
	l := store.NewLog(mem, file, header(), k.options())
	_, err := l.Append(user("one"), t0, true)
	require.ErrorIs(t, err, k.err)
	require.False(t, l.Materialised())
	require.Nil(t, mem.ReadFile(file))
	k.err = nil
	add(t, l, user("one"))
	require.Equal(t, string(mem.ReadFile(file)), string(k.lines))
}

// TestCopyCannotBeWritten: what is kept elsewhere is in the session, though the disk is full.
func TestCopyCannotBeWritten(t *testing.T) {
	for _, born := range []bool{false, true} {
		for _, plan := range []string{"write s.jsonl always ENOSPC", "stat s.jsonl always EIO", "fstat s.jsonl always EIO"} {
			faulty := storetest.NewFaulty(storetest.NewMem(), storetest.Plan{})
			k := &keeper{}
			l := store.NewLog(faulty, file, header(), k.options())
			if born {
				add(t, l, user("zero"))
			}
			view := l.View()
			faulty.SetPlan(storetest.MustPlan(plan))
			add(t, l, user("one"), user("two"))
			l.Begin(0, 0)
			ids := add(t, l, user("three"), answer("four"))
			require.NoError(t, l.Commit())
			records, err := l.View().Records()
			require.NoError(t, err)
			require.Equal(t, ids[1], records[len(records)-1].ID)
			require.Equal(t, strings.Count(string(k.lines), "\n")-1, l.Len(), "%v %s", born, plan)
			_, err = view.Records()
			require.NoError(t, err)
			require.True(t, l.Materialised())
			require.NoError(t, l.Close())
			require.Equal(t, []bool{false}, k.whole)
		}
	}
}

// TestCopyOfStrangers: what another program writes to a copy is not in the session.
func TestCopyOfStrangers(t *testing.T) {
	mem, k := storetest.NewMem(), &keeper{}
	l := store.NewLog(mem, file, header(), k.options())
	add(t, l, user("one"))
	mem.WriteFile(file, append(mem.ReadFile(file), []byte(`{"type":"custom","id":"deadbeef","parentId":null,"customType":"x"}`+"\n")...))
	_, err := l.Append(user("two"), t0, true)
	require.ErrorIs(t, err, store.ErrChanged)
	require.Equal(t, 1, k.n)
}

// TestCopies: a copy is as long as its mark says, whatever was written behind it, and one that
// is not what its mark says is set aside.
func TestCopies(t *testing.T) {
	const path = "/home/me/copies/s.jsonl"
	mem := storetest.NewMem()
	require.NoError(t, mem.MkdirAll("/home/me/copies"))
	open := func() (*store.Copy, string, string) {
		t.Helper()
		c, note, aside, err := store.OpenCopy(mem, path)
		require.NoError(t, err)
		return c, string(note), aside
	}
	c, note, aside := open()
	require.Empty(t, note+aside)
	exists, err := c.Close()
	require.NoError(t, err)
	require.False(t, exists)

	require.NoError(t, c.Write([]byte("one\n")))
	_, err = c.Close()
	require.NoError(t, err)
	require.NoError(t, store.MarkCopy(mem, path, []byte(`{"seq":1}`)))
	mem.WriteFile(path, []byte("one\ntwo"))
	c, note, aside = open()
	require.Equal(t, `{"seq":1}`, note)
	require.Empty(t, aside)
	require.NoError(t, c.Write([]byte("zwei\n")))
	require.Equal(t, "one\nzwei\n", string(mem.ReadFile(path)))

	for i, other := range []string{"ONE\nzwei\n", "on"} {
		require.NoError(t, store.MarkCopy(mem, path, []byte(`{"seq":2}`)))
		mem.WriteFile(path, []byte(other))
		c, note, aside = open()
		assert.Empty(t, note)
		assert.Equal(t, path+store.AsideSuffix+string(rune('1'+i)), aside)
		assert.Equal(t, other, string(mem.ReadFile(aside)))
		require.NoError(t, c.Write([]byte("new\n")))
		assert.Equal(t, "new\n", string(mem.ReadFile(path)))
	}
	aside, err = c.Reset()
	require.NoError(t, err)
	require.Equal(t, path+store.AsideSuffix+"3", aside)
}

// TestCopyThatHasMore: lines that a copy had behind its mark are written again, or they are lost where the session is kept,
// and stay in the copy; where others are written they are set aside.
func TestCopyThatHasMore(t *testing.T) {
	const path = "/home/me/copies/s.jsonl"
	for name, c := range map[string]struct {
		has, written, is, aside string
		lost                    int
	}{
		"all of it":       {has: "2\n3\n", written: "2\n3\n4\n", is: "1\n2\n3\n4\n"},
		"the same":        {has: "2\n3\n", written: "2\n3\n", is: "1\n2\n3\n"},
		"its end is lost": {has: "2\n3\n4\n", written: "2\n", is: "1\n2\n3\n4\n", lost: 2},
		"all is lost":     {has: "2\n3\n", is: "1\n2\n3\n", lost: 2},
		"another history": {has: "2\n3\n", written: "2\nx\n", is: "1\n2\nx\n", aside: "2\n3\n"},
		"a torn line":     {has: "2\n{\"a", written: "2\n", is: "1\n2\n"},
		"no lines":        {has: "\x00\x00\n\x00", is: "1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := storetest.NewMem()
			require.NoError(t, mem.MkdirAll("/home/me/copies"))
			mem.WriteFile(path, []byte("1\n"))
			require.NoError(t, store.MarkCopy(mem, path, []byte(`{}`)))
			mem.WriteFile(path, []byte("1\n"+c.has))
			copied, _, aside, err := store.OpenCopy(mem, path)
			require.NoError(t, err)
			require.Empty(t, aside)
			assert.Equal(t, c.has[0] == '2', copied.Ahead())
			for line := range strings.Lines(c.written) {
				require.NoError(t, copied.Write([]byte(line)))
			}
			lost, aside, err := copied.Lost()
			require.NoError(t, err)
			assert.Equal(t, c.lost, lost)
			_, err = copied.Close()
			require.NoError(t, err)
			assert.Equal(t, c.is, string(mem.ReadFile(path)))
			if c.aside == "" {
				assert.Empty(t, aside)
			} else {
				assert.Contains(t, string(mem.ReadFile(aside)), "3\n")
			}
		})
	}
}

// TestForkIsCommitted: the copy of a branch is kept, too.
func TestForkIsCommitted(t *testing.T) {
	mem, k := storetest.NewMem(), &keeper{}
	l := store.NewLog(mem, file, header(), options())
	add(t, l, user("one"), answer("two"))
	other := store.NewHeader("id-2", "/p", "", t0)
	_, err := store.Fork(mem, l.View(), "/home/me/copies/t.jsonl", other, k.options())
	require.NoError(t, err)
	require.Equal(t, string(mem.ReadFile("/home/me/copies/t.jsonl")), string(k.lines))
	require.Equal(t, 3, strings.Count(string(k.lines), "\n"))
}
