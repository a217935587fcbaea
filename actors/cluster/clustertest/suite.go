package clustertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"hash/crc64"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

// Suite is what every engine must hold to. open gives another connection to one and the same
// engine, which nobody else writes to sessions or nodes of the suite's names.
func Suite(t *testing.T, open func(t *testing.T) cluster.Engine) {
	for name, test := range map[string]func(*testing.T, func(*testing.T) cluster.Engine){
		"Fence":    suiteFence,
		"Records":  suiteRecords,
		"Writers":  suiteWriters,
		"Claims":   suiteClaims,
		"Parts":    suiteParts,
		"Unknown":  suiteUnknown,
		"List":     suiteList,
		"Trim":     suiteTrim,
		"Registry": suiteRegistry,
		"Twins":    suiteTwins,
		"Index":    suiteIndex,
		"Names":    suiteNames,
		"Contexts": suiteContexts,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// fresh is a session that nobody has.
func fresh() cluster.SessionID { return cluster.SessionID("s-" + rand.Text()) }

// Own claims a session of which something is known behind its tail, without asking who lives.
func Own(ctx context.Context, log cluster.Log, id cluster.SessionID, node, boot string, known cluster.Mark) (*cluster.Writer, error) {
	tail, err := cluster.TailBehind(ctx, log, id, known)
	if err != nil {
		return nil, err
	}
	return cluster.Own(ctx, log, id, node, boot, tail, cluster.Wants{})
}

func claimed(t *testing.T, e cluster.Engine, id cluster.SessionID, node string) *cluster.Writer {
	t.Helper()
	w, err := Own(t.Context(), e, id, node, node+"-boot", cluster.Mark{})
	require.NoError(t, err)
	return w
}

func whole(t *testing.T, e cluster.Engine, id cluster.SessionID) (records []cluster.Record) {
	t.Helper()
	tail, err := e.Tail(t.Context(), id)
	require.NoError(t, err)
	mark, err := cluster.Load(t.Context(), e, id, cluster.Mark{}, tail.Seq, func(r cluster.Record) error {
		records = append(records, r)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, tail.Mark(), mark)
	return records
}

// suiteFence: an append is taken behind the last record and nowhere else.
func suiteFence(t *testing.T, open func(*testing.T) cluster.Engine) {
	e, id := open(t), fresh()
	tail, err := e.Tail(t.Context(), id)
	require.NoError(t, err)
	require.Zero(t, tail)
	_, err = e.Append(t.Context(), id, 7, cluster.Record{Kind: cluster.Claim, Node: "a", Boot: "1", Prev: 7})
	require.ErrorIs(t, err, cluster.ErrConflict, "behind a record that is not there")
	first, err := e.Append(t.Context(), id, 0, cluster.Record{Kind: cluster.Claim, Node: "a", Boot: "1"})
	require.NoError(t, err)
	require.NotZero(t, first)
	for _, after := range []cluster.Seq{0, first - 1, first + 1} {
		_, err = e.Append(t.Context(), id, after, cluster.Record{Kind: cluster.Claim, Node: "b", Boot: "1", Prev: after})
		require.ErrorIs(t, err, cluster.ErrConflict, "behind %d", after)
	}
	second, err := e.Append(t.Context(), id, first, cluster.Record{Kind: cluster.Claim, Node: "b", Boot: "1", Prev: first})
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = e.Append(t.Context(), id, first, cluster.Record{Kind: cluster.Lines, Epoch: first, N: 1, Node: "a", Boot: "1", Prev: first})
	require.ErrorIs(t, err, cluster.ErrConflict, "behind somebody else's claim")
}

// suiteRecords: what was appended is read as it was, from any place, by who comes later.
func suiteRecords(t *testing.T, open func(*testing.T) cluster.Engine) {
	e, id := open(t), fresh()
	w := claimed(t, e, id, "a")
	bodies := [][]byte{[]byte(`{"a":1}`), {}, []byte("zwei\nZeilen ∀\x00\xff"), bytes.Repeat([]byte("x"), cluster.MostLines)}
	keys := [][]string{nil, {"client/1"}, {"c/ä \n\"", "d/2"}, {" "}}
	var marks []cluster.Mark
	marks = append(marks, w.Mark())
	for i, body := range bodies {
		_, err := w.Append(t.Context(), body, keys[i])
		require.NoError(t, err)
		marks = append(marks, w.Mark())
	}
	_, err := w.Note(t.Context(), []byte("note"), nil)
	require.NoError(t, err)
	require.NoError(t, w.Release(t.Context(), nil))
	other := open(t)
	records := whole(t, other, id)
	require.Len(t, records, 3+len(bodies))
	for i, body := range bodies {
		r := records[i+1]
		assert.Equal(t, string(body), string(r.Lines))
		assert.Equal(t, keys[i], r.Keys)
		assert.Equal(t, []any{cluster.Lines, "a", "a-boot", uint64(i + 1), records[0].Seq, records[i].Seq},
			[]any{r.Kind, r.Node, r.Boot, r.N, r.Epoch, r.Prev})
	}
	assert.Equal(t, cluster.Note, records[len(bodies)+1].Kind)
	last := records[len(records)-1]
	assert.Equal(t, cluster.Release, last.Kind)
	for i, from := range marks {
		n := 0
		to, err := cluster.Load(t.Context(), other, id, from, last.Seq, func(cluster.Record) error { n++; return nil })
		require.NoError(t, err)
		assert.Equal(t, len(records)-1-i, n, "behind record %d", i)
		assert.Equal(t, last.Mark(), to)
	}
	n := 0
	_, err = cluster.Load(t.Context(), other, id, cluster.Mark{}, records[2].Seq, func(cluster.Record) error { n++; return nil })
	require.NoError(t, err)
	assert.Equal(t, 3, n, "up to a record, that one included")
	stop := fmt.Errorf("enough")
	_, err = cluster.Load(t.Context(), other, id, cluster.Mark{}, last.Seq, func(cluster.Record) error { return stop })
	require.Equal(t, stop, err)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	_, err = cluster.Load(ctx, other, id, cluster.Mark{}, last.Seq+1000, func(cluster.Record) error { return nil })
	assert.ErrorIs(t, err, cluster.ErrDamaged, "a log that ends before it should is no shorter session")
	_, err = e.Append(t.Context(), id, last.Seq, cluster.Record{Kind: cluster.Lines, Lines: make([]byte, cluster.MostLines+1)})
	assert.ErrorIs(t, err, cluster.ErrTooLarge)
	_, err = Own(ctx, other, id, "b", "1", cluster.Mark{Seq: last.Seq + 5, Sum: last.Sum})
	assert.ErrorIs(t, err, cluster.ErrDamaged, "shorter than what is known")
	_, err = Own(ctx, other, id, "b", "1", cluster.Mark{Seq: last.Seq, Sum: last.Sum + 1})
	assert.ErrorIs(t, err, cluster.ErrDamaged, "another log than what is known")
}

// suiteWriters (O4): of many that append behind the same record one is taken, each time.
func suiteWriters(t *testing.T, open func(*testing.T) cluster.Engine) {
	engines, id := []cluster.Engine{open(t), open(t), open(t)}, fresh()
	after := cluster.Seq(0)
	for round := range 20 {
		var mu sync.Mutex
		var all sync.WaitGroup
		var won []cluster.Seq
		for i := range 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				seq, err := engines[i%3].Append(ctx, id, after, cluster.Record{Kind: cluster.Claim, Node: fmt.Sprint("n", i), Boot: "1", Prev: after})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, seq)
				} else {
					assert.ErrorIs(t, err, cluster.ErrConflict)
				}
			})
		}
		all.Wait()
		require.Len(t, won, 1, "round %d", round)
		after = won[0]
	}
	assert.Len(t, whole(t, engines[0], id), 20)
}

// suiteClaims: sessions go from hand to hand, and each line that was acknowledged is there once.
func suiteClaims(t *testing.T, open func(*testing.T) cluster.Engine) {
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := []cluster.SessionID{fresh(), fresh(), fresh(), fresh()}
	acked := map[string]int{}
	for node := range 4 {
		e := open(t)
		all.Go(func() {
			for life := range 12 {
				id := ids[(node+life)%len(ids)]
				w, err := Own(t.Context(), e, id, fmt.Sprint("n", node), fmt.Sprint("b", life), cluster.Mark{})
				for n := 0; n < 8 && err == nil; n++ {
					line := fmt.Sprintf("%s %d-%d-%d", id, node, life, n)
					if _, err = w.Append(t.Context(), []byte(line), nil); err == nil {
						mu.Lock()
						acked[line]++
						mu.Unlock()
					}
				}
				if err != nil {
					assert.ErrorIs(t, err, cluster.ErrFenced)
				}
			}
		})
	}
	all.Wait()
	there := map[string]int{}
	e := open(t)
	for _, id := range ids {
		for _, r := range whole(t, e, id) {
			if r.Kind == cluster.Lines {
				there[string(r.Lines)]++
			}
		}
	}
	assert.NotEmpty(t, acked)
	for line := range acked {
		assert.Equal(t, 1, there[line], line)
	}
	for line, n := range there {
		assert.Equal(t, 1, n, line)
	}
}

// suiteParts: what is above a record goes in several and comes back as one; parts that nothing
// ended never were.
func suiteParts(t *testing.T, open func(*testing.T) cluster.Engine) {
	e, id := open(t), fresh()
	w := claimed(t, e, id, "a")
	entry := bytes.Repeat([]byte("0123456789"), cluster.MostLines/4)
	_, err := w.Append(t.Context(), entry, []string{"c/1"})
	require.NoError(t, err)
	tail, lost := w.Mark(), []byte("lost")
	_, err = e.Append(t.Context(), id, tail.Seq, cluster.Record{Kind: cluster.Part, Prev: tail.Seq, Epoch: tail.Epoch, N: tail.N + 1, Node: "a", Boot: "a-boot",
		Lines: lost, Sum: crc64.Update(tail.Sum, crc64.MakeTable(crc64.ECMA), lost)})
	require.NoError(t, err)
	w = claimed(t, e, id, "b")
	_, err = w.Append(t.Context(), []byte("short"), nil)
	require.NoError(t, err)
	var got [][]byte
	for _, r := range whole(t, open(t), id) {
		if r.Kind == cluster.Lines {
			got = append(got, r.Lines)
		}
	}
	require.Len(t, got, 2)
	assert.True(t, bytes.Equal(entry, got[0]))
	assert.Equal(t, "short", string(got[1]))
}

// suiteUnknown (C16): a record of a kind that this version does not know, which a newer one has written in the same format, is kept
// and skipped: the chain goes over it, its keys count, and none of its text is an entry. The session is claimed and goes on behind it.
func suiteUnknown(t *testing.T, open func(*testing.T) cluster.Engine) {
	e, id := open(t), fresh()
	w := claimed(t, e, id, "a")
	_, err := w.Append(t.Context(), []byte("one\n"), nil)
	require.NoError(t, err)
	at, text := w.Mark(), []byte(`{"of":"a newer version"}`)
	seq, err := e.Append(t.Context(), id, at.Seq, cluster.Record{Kind: "kind-of-tomorrow", Prev: at.Seq, Epoch: at.Epoch, N: at.N + 1, Node: "a", Boot: "a-boot",
		Keys: []string{"c/new"}, Lines: text, Sum: crc64.Update(at.Sum, crc64.MakeTable(crc64.ECMA), text)})
	require.NoError(t, err)
	w = claimed(t, e, id, "b")
	_, err = w.Append(t.Context(), []byte("two\n"), nil)
	require.NoError(t, err)
	records := whole(t, open(t), id)
	require.Len(t, records, 5)
	assert.Equal(t, []any{cluster.Kind("kind-of-tomorrow"), string(text), seq}, []any{records[2].Kind, string(records[2].Lines), records[2].Seq})
	var keys cluster.Keys
	var lines []byte
	mark, err := cluster.Follow(t.Context(), e, id, cluster.Mark{}, &keys, w.Mark().Seq, func(more []byte) error {
		lines = append(lines, more...)
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []any{"one\ntwo\n", w.Mark(), seq}, []any{string(lines), mark, keys.Find("c/new")})
}

func suiteList(t *testing.T, open func(*testing.T) cluster.Engine) {
	e := open(t)
	want := map[cluster.SessionID]bool{}
	for range 25 {
		id := fresh()
		claimed(t, e, id, "a")
		want[id] = true
	}
	seen := map[cluster.SessionID]int{}
	for page := ""; ; {
		ids, next, err := e.List(t.Context(), page, 7)
		require.NoError(t, err)
		require.LessOrEqual(t, len(ids), 7)
		for _, id := range ids {
			seen[id]++
		}
		if page = next; page == "" {
			break
		}
	}
	for id := range want {
		assert.Equal(t, 1, seen[id], id)
	}
}

func suiteTrim(t *testing.T, open func(*testing.T) cluster.Engine) {
	e, id := open(t), fresh()
	w := claimed(t, e, id, "a")
	for i := range 5 {
		_, err := w.Append(t.Context(), []byte(fmt.Sprint("line ", i)), nil)
		require.NoError(t, err)
	}
	before := w.Mark()
	require.NoError(t, w.Trim(t.Context(), []byte(`{"archive":"there"}`)))
	_, err := w.Append(t.Context(), []byte("after"), nil)
	require.NoError(t, err)
	records := whole(t, open(t), id)
	require.Len(t, records, 2)
	assert.Equal(t, []any{cluster.Trimmed, `{"archive":"there"}`, "after"}, []any{records[0].Kind, string(records[0].Lines), string(records[1].Lines)})
	n := 0
	mark, err := cluster.Load(t.Context(), e, id, before, w.Mark().Seq, func(cluster.Record) error { n++; return nil })
	require.NoError(t, err)
	assert.Equal(t, []any{2, w.Mark()}, []any{n, mark}, "behind a mark")
	claimed(t, e, id, "b")
	assert.Len(t, whole(t, e, id), 3)
}

func suiteRegistry(t *testing.T, open func(*testing.T) cluster.Engine) {
	a, b := open(t), open(t)
	name := "node-" + rand.Text()
	_, found, err := a.Node(t.Context(), name)
	require.NoError(t, err)
	assert.False(t, found)
	n := cluster.Node{Name: name, Boot: "one", Addr: "127.0.0.1:1", Labels: map[string]string{"gpu": "no"}, Version: "0", Reads: [2]int{1, 1},
		Writes: [2]int{1, 1}, Roots: map[string]cluster.Root{"app": {Path: "/srv", Mode: cluster.Shared}}, Doing: cluster.Doing{Sessions: 3}}
	for n.Beat = 1; n.Beat <= 5; n.Beat++ {
		require.NoError(t, a.Beat(t.Context(), n))
	}
	n.Beat--
	got, found, err := b.Node(t.Context(), name)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, n, got)
	other := cluster.Node{Name: "node-" + rand.Text(), Boot: "two"}
	assert.Eventually(t, func() bool { // who beats hears
		other.Beat++
		if b.Beat(t.Context(), other) != nil {
			return false
		}
		for _, heard := range b.Nodes() {
			if heard.Name == name && heard.Beat == 5 {
				return true
			}
		}
		return false
	}, 5*time.Second, 20*time.Millisecond)
	late := open(t)
	assert.Contains(t, late.Nodes(), n, "who comes later knows who is there")
}

// suiteTwins (C13): of two processes with one name the younger works, and the elder is told.
func suiteTwins(t *testing.T, open func(*testing.T) cluster.Engine) {
	elder, younger := open(t), open(t)
	name := "twin-" + rand.Text()
	require.NoError(t, elder.Beat(t.Context(), cluster.Node{Name: name, Boot: "elder", Beat: 1}))
	require.NoError(t, younger.Beat(t.Context(), cluster.Node{Name: name, Boot: "younger", Beat: 1}))
	require.ErrorIs(t, elder.Beat(t.Context(), cluster.Node{Name: name, Boot: "elder", Beat: 2}), cluster.ErrFenced)
	require.ErrorIs(t, elder.Beat(t.Context(), cluster.Node{Name: name, Boot: "elder", Beat: 3}), cluster.ErrFenced, "for good")
	require.NoError(t, younger.Beat(t.Context(), cluster.Node{Name: name, Boot: "younger", Beat: 2}))
	n, _, err := elder.Node(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, []any{"younger", uint64(2)}, []any{n.Boot, n.Beat})
}

func suiteIndex(t *testing.T, open func(*testing.T) cluster.Engine) {
	e, id, none := open(t), fresh(), fresh()
	require.NoError(t, e.SetIndex(t.Context(), id, []byte("old")))
	require.NoError(t, e.SetIndex(t.Context(), id, []byte("new")))
	other := open(t)
	assert.Eventually(t, func() bool {
		texts, err := other.Indexed(t.Context(), []cluster.SessionID{id, none})
		return err == nil && len(texts) == 1 && string(texts[id]) == "new"
	}, 5*time.Second, 10*time.Millisecond)
	texts, err := other.Indexed(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, texts)
}

// suiteNames: what is no name does not become a part of a subject or a key.
func suiteNames(t *testing.T, open func(*testing.T) cluster.Engine) {
	e := open(t)
	for _, name := range []string{"", "a.b", "a*", ">", "a b", "ä", string(bytes.Repeat([]byte("x"), 65))} {
		_, err := e.Append(t.Context(), cluster.SessionID(name), 0, cluster.Record{Kind: cluster.Claim})
		assert.Error(t, err, name)
		_, err = e.Tail(t.Context(), cluster.SessionID(name))
		assert.Error(t, err, name)
		assert.Error(t, e.Beat(t.Context(), cluster.Node{Name: name}), name)
		_, _, err = e.Node(t.Context(), name)
		assert.Error(t, err, name)
		assert.Error(t, e.SetIndex(t.Context(), cluster.SessionID(name), nil), name)
	}
}

// suiteContexts: a call ends when its context does, and the engine works on.
func suiteContexts(t *testing.T, open func(*testing.T) cluster.Engine) {
	e, id := open(t), fresh()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Append(ctx, id, 0, cluster.Record{Kind: cluster.Claim, Node: "a", Boot: "1"})
	require.Error(t, err)
	_, err = e.Tail(ctx, id)
	require.Error(t, err)
	_, err = cluster.Load(ctx, e, id, cluster.Mark{}, 1, func(cluster.Record) error { return nil })
	require.Error(t, err)
	claimed(t, e, id, "a")
	require.Len(t, whole(t, e, id), 1)
}
