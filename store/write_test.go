package store_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// starts are the states a session file can be in when writing begins.
var starts = map[string]string{
	"unborn":     "",
	"intact":     headLine + "\n" + userLine("0000aaaa", "", "old") + "\n",
	"no newline": headLine + "\n" + userLine("0000aaaa", "", "old"),
	"torn":       headLine + "\n" + userLine("0000aaaa", "", "old") + "\n" + userLine("0000bbbb", "0000aaaa", "torn")[:50],
	"version 1":  strings.Replace(headLine, `"version":3,`, "", 1) + "\n" + `{"type":"message","message":{"role":"user","content":"old"}}` + "\n",
}

// begin opens or starts the session.
func begin(t require.TestingT, fsys store.FS, start string, o store.Options) *store.Log {
	if start == "unborn" {
		return store.NewLog(fsys, file, header(), o)
	}
	l, err := store.OpenLog(fsys, file, o)
	require.NoError(t, err)
	return l
}

func prepared(start string) *storetest.Mem {
	m := storetest.NewMem()
	if start != "unborn" {
		m.WriteFile(file, []byte(starts[start]))
	}
	return m
}

// stored lists what a new process finds in the file, nothing if there is none.
func stored(t require.TestingT, m *storetest.Mem) []string {
	l, err := store.OpenLog(m.Kill(), file, store.Options{})
	if err != nil {
		require.Condition(t, func() bool { return isAbsent(err) }, "%v", err)
		return []string{}
	}
	defer l.Close()
	return ids(l.View().Refs())
}

// Every operation fails once, in every state of the file, the first, second or
// third time it is tried. Whatever the append that was hit reports is the
// truth, the next appends work, and a new process finds what was acknowledged.
func TestEveryFault(t *testing.T) {
	var whats []string
	for _, op := range storetest.Ops {
		whats = append(whats, op+" * #%d EIO")
	}
	for _, n := range []int{0, 1, 30, 200, 100_000} {
		whats = append(whats, "write * #%d short="+strconv.Itoa(n))
	}
	struck := 0
	for start := range starts {
		for _, sync := range []bool{false, true} {
			for _, what := range whats {
				for nth := 1; nth <= 3; nth++ {
					plan := fmt.Sprintf(what, nth)
					name := fmt.Sprintf("%s, sync=%v, %s", start, sync, plan)
					m := prepared(start)
					f := storetest.NewFaulty(m, storetest.Plan{})
					o := options()
					o.Sync = sync
					l := begin(t, f, start, o)
					want := ids(l.View().Refs())
					f.SetPlan(storetest.MustPlan(plan))
					for i := range 5 {
						meta, err := l.Append(user(fmt.Sprint("message ", i)), t0, true)
						if err != nil {
							require.ErrorIs(t, err, store.ErrNotDurable, name)
							require.NotEmpty(t, f.Struck(), name)
						} else {
							want = append(want, meta.ID)
						}
						require.Equal(t, want, ids(l.View().Refs()), name)
						require.Equal(t, want, stored(t, m), name)
					}
					require.GreaterOrEqual(t, len(want), 4, "%s: one fault costs one entry", name)
					require.Equal(t, want, ids(l.View().Branch()), name)
					struck += len(f.Struck())
					f.SetPlan(storetest.Plan{})
					require.NoError(t, l.Close())
					checkTorn(t, m, start, name)
				}
			}
		}
	}
	assert.Greater(t, struck, 150, "the faults did strike")
}

// checkTorn makes sure that the torn end of the file was kept somewhere.
func checkTorn(t *testing.T, m *storetest.Mem, start, name string) {
	t.Helper()
	if start != "torn" {
		return
	}
	torn := userLine("0000bbbb", "0000aaaa", "torn")[:50]
	kept := string(m.ReadFile(file)) + string(m.ReadFile(file+store.TornSuffix))
	require.Contains(t, kept, torn, name)
}

// Two things go wrong at once: writes are short and what they leave cannot be
// cut off. The rest is fenced and never becomes an entry.
func TestShortWriteThatCannotBeCut(t *testing.T) {
	dry := prepared("intact")
	l := begin(t, dry, "intact", options())
	add(t, l, user("lost"))
	require.NoError(t, l.Close())
	line := len(dry.ReadFile(file)) - len(starts["intact"])
	for _, short := range []int{0, 1, 20, line - 2, line - 1, line, line + 100} {
		m := prepared("intact")
		f := storetest.NewFaulty(m, storetest.Plan{})
		l := begin(t, f, "intact", options())
		want := ids(l.View().Refs())
		f.SetPlan(storetest.MustPlan(fmt.Sprintf("write *.jsonl #1 short=%d; truncate * always EIO", short)))
		_, err := l.Append(user("lost"), t0, true)
		require.ErrorIs(t, err, store.ErrNotDurable)
		require.Equal(t, want, ids(l.View().Refs()))
		meta, err := l.Append(user("next"), t0, true)
		if short >= line {
			require.ErrorIs(t, err, store.ErrNotDurable, "a whole line that nobody asked for stands there")
		} else {
			require.NoError(t, err, short)
			want = append(want, meta.ID)
			require.Equal(t, want, stored(t, m), short)
		}
		f.SetPlan(storetest.Plan{})
		meta, err = l.Append(user("healed"), t0, true)
		require.NoError(t, err, short)
		want = append(want, meta.ID)
		require.Equal(t, want, ids(l.View().Refs()), short)
		require.Equal(t, want, stored(t, m), short)
		require.NoError(t, l.Close())
	}
}

// With fsync failing the line is whole on disk; it goes again.
func TestSyncFails(t *testing.T) {
	m := prepared("intact")
	f := storetest.NewFaulty(m, storetest.Plan{})
	l := begin(t, f, "intact", store.Options{Sync: true, Rand: &counting{}})
	defer l.Close()
	f.SetPlan(storetest.MustPlan("sync *.jsonl #1 EIO"))
	_, err := l.Append(user("a"), t0, true)
	require.ErrorIs(t, err, store.ErrNotDurable)
	require.Equal(t, starts["intact"], string(m.ReadFile(file)))

	f.SetPlan(storetest.MustPlan("sync *.jsonl #1 EIO; truncate * #1 EIO; fstat * #2 EIO"))
	_, err = l.Append(user("b"), t0, true)
	require.ErrorIs(t, err, store.ErrNotDurable)
	require.NotEqual(t, starts["intact"], string(m.ReadFile(file)), "it could not be cut")
	id := add(t, l, user("c"))[0]
	assert.Equal(t, []string{"0000aaaa", id}, stored(t, m))
}

// What was reported as failed does not come back with the power.
func TestFailedAppendStaysAway(t *testing.T) {
	m := prepared("intact")
	f := storetest.NewFaulty(m, storetest.Plan{})
	l := begin(t, f, "intact", store.Options{Sync: true, Rand: &counting{}})
	defer l.Close()
	f.SetPlan(storetest.MustPlan("sync *.jsonl #1 EIO"))
	_, err := l.Append(user("a"), t0, true)
	require.ErrorIs(t, err, store.ErrNotDurable)
	for seed := range uint64(3000) {
		assert.Equal(t, []string{"0000aaaa"}, stored(t, m.Crash(seed)), seed)
	}
}

// A directory on the way that the user may not read was not made by us.
func TestSyncUnderForeignDirectory(t *testing.T) {
	m := storetest.NewMem()
	f := storetest.NewFaulty(m, storetest.MustPlan("syncdir home always EACCES"))
	l := store.NewLog(f, file, header(), store.Options{Sync: true})
	defer l.Close()
	add(t, l, user("a"))
	assert.NotEmpty(t, f.Struck())
	f.SetPlan(storetest.MustPlan("syncdir sessions always EIO"))
	second := store.NewLog(f, "/home/me/.pi/agent/sessions/--q--/s.jsonl", header(), store.Options{Sync: true})
	defer second.Close()
	_, err := second.Append(user("a"), t0, true)
	assert.ErrorIs(t, err, store.ErrNotDurable)
}

func TestSyncOnDemand(t *testing.T) {
	m := storetest.NewMem()
	f := storetest.NewFaulty(m, storetest.Plan{})
	l := store.NewLog(f, file, header(), options())
	defer l.Close()
	got := add(t, l, user("a"), user("b"))
	require.NoError(t, l.Sync())
	for seed := range uint64(30) {
		assert.Equal(t, got, stored(t, m.Crash(seed)), "one sync for both, and for the names on the way")
	}
	got = append(got, add(t, l, user("c"))...)
	f.SetPlan(storetest.MustPlan("sync * #1 EIO"))
	assert.ErrorIs(t, l.Sync(), store.ErrNotDurable)
	assert.ErrorIs(t, l.Sync(), store.ErrNotDurable, "a second sync that works proves nothing")
	assert.Equal(t, got, stored(t, m), "the entries are there, for processes")
	add(t, l, user("d"))
	require.NoError(t, open(t, f, file).Sync())
}

func TestSyncModeSurvivesPowerCut(t *testing.T) {
	for start := range starts {
		m := prepared(start)
		l := begin(t, m, start, store.Options{Sync: true, Rand: &counting{}})
		want := ids(l.View().Refs())
		for i := range 4 {
			want = append(want, add(t, l, user(fmt.Sprint(i)))...)
			for seed := range uint64(25) {
				require.Equal(t, want, stored(t, m.Crash(seed)), "%s, entry %d, seed %d", start, i, seed)
			}
		}
		require.NoError(t, l.Close())
	}
}

// A power cut during the rewrite of an old file leaves the old file or the new.
func TestMigrationSurvivesPowerCut(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "rename", "syncdir"} {
		m := prepared("version 1")
		f := storetest.NewFaulty(m, storetest.Plan{})
		l := begin(t, f, "version 1", options())
		f.SetPlan(storetest.MustPlan(op + " * #1 EIO"))
		_, _ = l.Append(user("new"), t0, true)
		for seed := range uint64(40) {
			after := m.Crash(seed)
			again, err := store.OpenLog(after, file, store.Options{})
			require.NoError(t, err, "%s %d", op, seed)
			require.NotZero(t, again.Len())
			require.Equal(t, l.View().Refs()[0].ID, again.View().Refs()[0].ID, "ids of old entries are the same")
			require.NoError(t, again.Close())
		}
		require.NoError(t, l.Close())
	}
}

func TestMigrationFailureLeavesOldFile(t *testing.T) {
	for _, plan := range []string{
		"create * always ENOSPC", "write * always short=20", "sync * always EIO", "rename * always EIO", "stat * always EIO",
	} {
		m := prepared("version 1")
		f := storetest.NewFaulty(m, storetest.Plan{})
		l := begin(t, f, "version 1", options())
		f.SetPlan(storetest.MustPlan(plan))
		_, err := l.Append(user("x"), t0, true)
		require.ErrorIs(t, err, store.ErrNotDurable, plan)
		assert.Equal(t, starts["version 1"], string(m.ReadFile(file)), plan)
		assert.Equal(t, []string{file}, m.Files(), "%s: nothing is left lying about", plan)
		r, err := l.View().Record(l.Leaf())
		require.NoError(t, err)
		assert.Equal(t, "message", r.Entry.EntryType(), "it can still be read")
		f.SetPlan(storetest.Plan{})
		add(t, l, user("y"))
		assert.Len(t, stored(t, m), 2)
		require.NoError(t, l.Close())
	}
}

func TestMigrationNoticesChange(t *testing.T) {
	m := prepared("version 1")
	l := begin(t, m, "version 1", options())
	defer l.Close()
	m.WriteFile(file, []byte(starts["version 1"]+"{}\n"))
	_, err := l.Append(user("x"), t0, true)
	assert.ErrorIs(t, err, store.ErrChanged)
	assert.ErrorIs(t, err, store.ErrNotDurable)
	assert.Equal(t, starts["version 1"]+"{}\n", string(m.ReadFile(file)))
}

// Creation fails, and so does cleaning up after it.
func TestBirthThatCannotBeUndone(t *testing.T) {
	for _, plan := range []string{
		"write *.jsonl #1 short=170; remove * always EIO",
		"write *.jsonl #1 short=170; remove * always EIO; truncate * #1 EIO",
		"sync *.jsonl #1 EIO; remove * always EIO; truncate * #1 EIO",
		"syncdir * #1 EIO; remove * #1 EIO; truncate * #1 EIO",
	} {
		m := storetest.NewMem()
		f := storetest.NewFaulty(m, storetest.MustPlan(plan))
		l := store.NewLog(f, file, header(), store.Options{Sync: true, Rand: &counting{}})
		_, err := l.Append(protocol.SessionInfo{Name: "n"}, t0, false)
		require.NoError(t, err)
		_, err = l.Append(user("a"), t0, true)
		require.ErrorIs(t, err, store.ErrNotDurable, plan)
		assert.Equal(t, 1, l.Len())
		add(t, l, user("b"))
		assert.Equal(t, ids(l.View().Refs()), stored(t, m), plan)
		require.NoError(t, l.Close())
	}
}

// The disk is full for good, then it is not.
func TestFullDisk(t *testing.T) {
	for start := range starts {
		m := prepared(start)
		f := storetest.NewFaulty(m, storetest.Plan{})
		l := begin(t, f, start, options())
		want := ids(l.View().Refs())
		f.SetPlan(storetest.MustPlan("write * always short=60; create * always ENOSPC"))
		for range 5 {
			_, err := l.Append(user("x"), t0, true)
			require.ErrorIs(t, err, store.ErrNotDurable, start)
			require.ErrorIs(t, err, storetest.Errnos["ENOSPC"], start)
			require.Equal(t, want, stored(t, m), start)
		}
		f.SetPlan(storetest.Plan{})
		want = append(want, add(t, l, user("y"), user("z"))...)
		require.Equal(t, want, stored(t, m), start)
		checkTorn(t, m, start, start)
		require.NoError(t, l.Close())
	}
}

func TestQuarantine(t *testing.T) {
	torn := starts["torn"][strings.LastIndexByte(starts["torn"], '\n')+1:]
	m := prepared("torn")
	l := begin(t, m, "torn", options())
	assert.Nil(t, m.ReadFile(file+store.TornSuffix), "not before it is needed")
	id := add(t, l, user("x"))[0]
	assert.Equal(t, torn+"\n", string(m.ReadFile(file+store.TornSuffix)))
	assert.NotContains(t, string(m.ReadFile(file)), torn)
	assert.Equal(t, []string{"0000aaaa", id}, stored(t, m))
	require.NoError(t, l.Close())

	// A second one is added to the first.
	f, err := m.OpenAppend(file)
	require.NoError(t, err)
	_, err = f.Write([]byte("{half"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	l = open(t, m, file)
	add(t, l, user("y"))
	assert.Equal(t, torn+"\n{half\n", string(m.ReadFile(file+store.TornSuffix)))
}

// Where nothing can be moved aside, the torn line stays and ends.
func TestQuarantineFails(t *testing.T) {
	m := prepared("torn")
	f := storetest.NewFaulty(m, storetest.MustPlan("create *.torn always EACCES"))
	l := begin(t, f, "torn", options())
	defer l.Close()
	id := add(t, l, user("x"))[0]
	assert.Contains(t, string(m.ReadFile(file)), starts["torn"]+"\n{")
	assert.Equal(t, []string{"0000aaaa", id}, stored(t, m))
	assert.Equal(t, []string{file}, m.Files())
}
