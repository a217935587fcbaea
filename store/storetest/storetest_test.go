package storetest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/store"
	"troupe/store/storetest"
)

func TestMemKeepsContract(t *testing.T) {
	storetest.TestFS(t, storetest.NewMem(), "/")
}

func TestOSKeepsContract(t *testing.T) {
	storetest.TestFS(t, store.OS{}, t.TempDir())
}

func TestFaultyWithoutFaultsKeepsContract(t *testing.T) {
	storetest.TestFS(t, storetest.NewFaulty(storetest.NewMem(), storetest.Plan{}), "/")
}

func create(t *testing.T, fsys store.FS, name string) store.File {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t *testing.T, f store.File, text string) {
	t.Helper()
	_, err := f.Write([]byte(text))
	require.NoError(t, err)
}

func TestKillKeepsEverything(t *testing.T) {
	m := storetest.NewMem()
	require.NoError(t, m.MkdirAll("/d"))
	f := create(t, m, "/d/f")
	write(t, f, "hello")
	require.NoError(t, f.Lock())
	after := m.Kill()
	assert.Equal(t, "hello", string(after.ReadFile("/d/f")))
	g, err := after.OpenAppend("/d/f")
	require.NoError(t, err)
	assert.NoError(t, g.Lock(), "locks die with the process")
	write(t, g, " world")
	assert.Equal(t, "hello", string(m.ReadFile("/d/f")), "the original goes on by itself")
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := storetest.NewMem()
	require.NoError(t, m.MkdirAll("/d"))
	f := create(t, m, "/d/f")
	write(t, f, "safe.")
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("/"))
	require.NoError(t, m.SyncDir("/d"))
	write(t, f, "lost?")
	outcomes := map[string]bool{}
	for seed := range uint64(200) {
		got := string(m.Crash(seed).ReadFile("/d/f"))
		require.GreaterOrEqual(t, len(got), 5)
		require.Equal(t, "safe.", got[:5])
		outcomes[got] = true
	}
	assert.True(t, outcomes["safe."], "nothing of it may survive")
	assert.True(t, outcomes["safe.lost?"], "all of it may survive")
	assert.True(t, outcomes["safe.lo"], "part of it may survive")
	assert.True(t, outcomes["safe.los\x00"], "zeros may stand for data")
}

func TestCrashMayLoseNames(t *testing.T) {
	m := storetest.NewMem()
	require.NoError(t, m.MkdirAll("/d"))
	f := create(t, m, "/d/f")
	write(t, f, "x")
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("/d"))
	found := 0
	for seed := range uint64(100) {
		if m.Crash(seed).ReadFile("/d/f") != nil {
			found++
		}
	}
	assert.NotZero(t, found)
	assert.Less(t, found, 100, "the directory's own name was not synced")
}

func TestCrashTakesRenameBack(t *testing.T) {
	m := storetest.NewMem()
	m.WriteFile("/f", []byte("old"))
	g := create(t, m, "/g")
	write(t, g, "new")
	require.NoError(t, g.Sync())
	require.NoError(t, m.Rename("/g", "/f"))
	outcomes := map[string]bool{}
	for seed := range uint64(100) {
		after := m.Crash(seed)
		outcomes[fmt.Sprintf("f=%s g=%s", after.ReadFile("/f"), after.ReadFile("/g"))] = true
	}
	assert.Equal(t, map[string]bool{"f=old g=": true, "f=old g=new": true, "f=new g=": true}, outcomes)
}

func TestCrashIsReproducible(t *testing.T) {
	m := storetest.NewMem()
	f := create(t, m, "/f")
	require.NoError(t, m.SyncDir("/"))
	write(t, f, "0123456789")
	for seed := range uint64(20) {
		assert.Equal(t, m.Crash(seed).ReadFile("/f"), m.Crash(seed).ReadFile("/f"))
	}
}

func TestPlanText(t *testing.T) {
	for _, text := range []string{
		"",
		"write *.jsonl #2 short=17",
		"seed=7; sync * p=0.25 EIO; create *.torn always EMFILE",
		"* a #3+ EROFS; truncate ? #1 ENOSPC",
	} {
		p, err := storetest.ParsePlan(text)
		require.NoError(t, err, text)
		assert.Equal(t, text, p.String())
	}
	for _, text := range []string{
		"write", "fly * always EIO", "write * always EPERM", "write * #0 EIO", "write * p=2 EIO", "write * soon EIO",
		"sync * always short=3", "write * always short=-1", "write [ always EIO", "seed=x",
	} {
		_, err := storetest.ParsePlan(text)
		assert.Error(t, err, text)
	}
}

func TestPlanRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := storetest.Plan{Seed: rapid.Uint64Max(1000).Draw(t, "seed")}
		for range rapid.IntRange(0, 4).Draw(t, "rules") {
			r := storetest.Rule{
				Op: rapid.SampledFrom(storetest.Ops).Draw(t, "op"), Pattern: rapid.StringMatching(`[a-z*?]{1,5}`).Draw(t, "pattern"),
				Short: -1, Err: storetest.Errnos["EIO"],
			}
			switch rapid.IntRange(0, 2).Draw(t, "when") {
			case 1:
				r.Nth, r.Onwards = rapid.IntRange(1, 9).Draw(t, "nth"), rapid.Bool().Draw(t, "onwards")
			case 2:
				r.Probability = float64(rapid.IntRange(1, 100).Draw(t, "p")) / 100
			}
			p.Rules = append(p.Rules, r)
		}
		got, err := storetest.ParsePlan(p.String())
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

func TestFaultyFollowsPlan(t *testing.T) {
	m := storetest.NewMem()
	f := storetest.NewFaulty(m, storetest.MustPlan("write a #2 short=3; sync a #1 EIO; remove * always EROFS"))
	file := create(t, f, "/a")
	write(t, file, "one")
	n, err := file.Write([]byte("second"))
	assert.Equal(t, 3, n)
	assert.ErrorIs(t, err, storetest.Errnos["ENOSPC"])
	write(t, file, "three")
	assert.Equal(t, "onesecthree", string(m.ReadFile("/a")))
	assert.ErrorIs(t, file.Sync(), storetest.Errnos["EIO"])
	assert.NoError(t, file.Sync())
	assert.ErrorIs(t, f.Remove("/a"), storetest.Errnos["EROFS"])
	assert.Equal(t, []string{"write a short=3", "sync a EIO", "remove a EROFS"}, f.Struck())
	f.SetPlan(storetest.Plan{})
	assert.NoError(t, f.Remove("/a"))
}

func TestFaultyEveryOperation(t *testing.T) {
	for _, op := range storetest.Ops {
		m := storetest.NewMem()
		m.WriteFile("/a", []byte("x"))
		require.NoError(t, m.MkdirAll("/d"))
		f := storetest.NewFaulty(m, storetest.Plan{})
		file, err := f.OpenAppend("/a")
		require.NoError(t, err)
		f.SetPlan(storetest.MustPlan(op + " * always EIO"))
		calls := map[string]func() error{
			"append":   func() error { _, err := f.OpenAppend("/a"); return err },
			"open":     func() error { _, err := f.Open("/a"); return err },
			"create":   func() error { _, err := f.Create("/b"); return err },
			"stat":     func() error { _, err := f.Stat("/a"); return err },
			"readdir":  func() error { _, err := f.ReadDir("/d"); return err },
			"rename":   func() error { return f.Rename("/a", "/b") },
			"remove":   func() error { return f.Remove("/a") },
			"mkdir":    func() error { return f.MkdirAll("/c") },
			"syncdir":  func() error { return f.SyncDir("/d") },
			"write":    func() error { _, err := file.Write([]byte("y")); return err },
			"read":     func() error { _, err := file.ReadAt(make([]byte, 1), 0); return err },
			"truncate": func() error { return file.Truncate(0) },
			"sync":     file.Sync,
			"fstat":    func() error { _, err := file.Stamp(); return err },
			"lock":     file.Lock,
			"close":    file.Close,
		}
		assert.ErrorIs(t, calls[op](), storetest.Errnos["EIO"], op)
		assert.Equal(t, "x", string(m.ReadFile("/a")), op)
		file.Close()
	}
}

func TestFaultyChanceIsPerFile(t *testing.T) {
	outcome := func(others int) (failed []int) {
		f := storetest.NewFaulty(storetest.NewMem(), storetest.MustPlan("seed=3; write * p=0.5 EIO"))
		a, b := create(t, f, "/a"), create(t, f, "/b")
		for i := range 40 {
			for range others {
				b.Write([]byte("x"))
			}
			if _, err := a.Write([]byte("x")); err != nil {
				failed = append(failed, i)
			}
		}
		return failed
	}
	assert.Equal(t, outcome(0), outcome(3))
	assert.InDelta(t, 20, len(outcome(0)), 12)
}
