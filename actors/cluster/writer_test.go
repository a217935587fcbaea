package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
)

var histories = flag.Int("histories", 300, "how many histories the laws are checked on")

const session = cluster.SessionID("a-session")

// TestLaws lets three nodes claim one session whenever they please, with an
// engine that fails, and judges the log: one writer behind each claim, what was
// acknowledged is there, and nothing is there twice.
func TestLaws(t *testing.T) {
	acknowledged, fenced := 0, 0
	for seed := range uint64(*histories) {
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, seed: seed, log: clustertest.New(seed, int(seed%60))}
			h.run()
			acknowledged, fenced = acknowledged+len(h.acked), fenced+h.fenced
		})
	}
	require.NotZero(t, acknowledged)
	require.NotZero(t, fenced, "no node was ever fenced: the histories judge nothing")
}

// readAll reads what is left when everything that was late has come.
func readAll(t *testing.T, log *clustertest.Memory, f func(cluster.Record) error) error {
	time.Sleep(10 * time.Second)
	log.Faults(0)
	tail, err := log.Tail(t.Context(), session)
	require.NoError(t, err)
	return log.Read(t.Context(), session, 0, tail.Seq, f)
}

type history struct {
	t      *testing.T
	seed   uint64
	log    *clustertest.Memory
	mu     sync.Mutex
	acked  []string
	fenced int
}

func (h *history) run() {
	var nodes sync.WaitGroup
	for node := range 3 {
		nodes.Go(func() { h.node(node) })
	}
	nodes.Wait()
	h.judge()
}

// node lives five lives: it claims, writes for a while, and is fenced, killed
// (it forgets all it knew), or releases.
func (h *history) node(node int) {
	rnd := rand.New(rand.NewPCG(h.seed, uint64(node)))
	for life := range 5 {
		boot := fmt.Sprintf("n%d-b%d", node, life)
		w, err := clustertest.Own(h.t.Context(), h.log, session, fmt.Sprint(node), boot, cluster.Mark{})
		if err != nil {
			h.isFence(err)
			continue
		}
		for n := range 1 + rnd.IntN(8) {
			line := fmt.Sprintf("%s-%d", boot, n)
			if _, err = w.Append(h.t.Context(), []byte(line), nil); err != nil {
				h.isFence(err)
				_, again := w.Append(h.t.Context(), []byte("behind the fence"), nil)
				h.isFence(again)
				break
			}
			h.mu.Lock()
			h.acked = append(h.acked, line)
			h.mu.Unlock()
		}
		if err == nil && rnd.IntN(2) == 0 {
			if err := w.Release(h.t.Context(), nil); err != nil {
				h.isFence(err)
			}
		}
	}
}

func (h *history) isFence(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !errors.Is(err, cluster.ErrFenced) {
		h.t.Errorf("seed %d: %v", h.seed, err)
	}
	h.fenced++
}

func (h *history) judge() {
	var chain cluster.Mark
	times := map[string]int{}
	require.NoError(h.t, readAll(h.t, h.log, func(r cluster.Record) error {
		if r.Kind == cluster.Lines {
			times[string(r.Lines)]++
		}
		return chain.Add(r)
	}), "seed %d: one writer behind each claim", h.seed)
	for _, line := range h.acked {
		require.Equal(h.t, 1, times[line], "seed %d: %s was acknowledged", h.seed, line)
	}
	for line, n := range times {
		require.Equal(h.t, 1, n, "seed %d: %s is there more than once", h.seed, line)
	}
	require.Zero(h.t, times["behind the fence"], "seed %d", h.seed)
}

// TestAlone: who has no rival is never fenced, whatever the engine does.
func TestAlone(t *testing.T) {
	for seed := range uint64(*histories) {
		synctest.Test(t, func(t *testing.T) {
			w, err := clustertest.Own(t.Context(), clustertest.New(seed, 50), session, "a", "1", cluster.Mark{})
			require.NoError(t, err, "seed %d", seed)
			for range 10 {
				_, err := w.Append(t.Context(), []byte("line"), nil)
				require.NoError(t, err, "seed %d", seed)
			}
		})
	}
}

// TestDoubtIsFinal: nothing follows a record that may be there.
func TestDoubtIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &silent{Memory: clustertest.New(1, 0)}
		w, err := clustertest.Own(t.Context(), log, session, "a", "1", cluster.Mark{})
		require.NoError(t, err)
		log.silent = true
		ctx, cancel := context.WithCancel(t.Context())
		log.asked = cancel
		_, err = w.Append(ctx, []byte("one"), nil)
		require.ErrorIs(t, err, cluster.ErrUnknown)
		log.silent = false
		_, err = w.Append(t.Context(), []byte("two"), nil)
		require.ErrorIs(t, err, cluster.ErrUnknown)
	})
}

// silent does not answer while it is silent.
type silent struct {
	*clustertest.Memory
	silent bool
	asked  func()
}

func (s *silent) Append(ctx context.Context, id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	if s.silent {
		s.asked()
		return 0, cluster.ErrUnknown
	}
	return s.Memory.Append(ctx, id, after, r)
}

// TestOldTails: who claims again behind a tail that is an old one, and is shown what its own life has written before
// when it is refused, does not take that for its own claim and record.
func TestOldTails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &oldTails{Memory: clustertest.New(1, 0)}
		own := func(node string) (*cluster.Writer, error) {
			return clustertest.Own(t.Context(), log, session, node, node+"-1", cluster.Mark{})
		}
		first, err := own("a")
		require.NoError(t, err)
		claimed, err := log.Tail(t.Context(), session)
		require.NoError(t, err)
		_, err = first.Append(t.Context(), []byte("one"), nil)
		require.NoError(t, err)
		_, err = own("b")
		require.NoError(t, err)
		log.tails = []cluster.Record{{}, claimed}
		_, err = own("a")
		require.ErrorIs(t, err, cluster.ErrFenced)
	})
}

// oldTails shows some tails before it shows true ones.
type oldTails struct {
	*clustertest.Memory
	tails []cluster.Record
}

func (o *oldTails) Tail(ctx context.Context, id cluster.SessionID) (cluster.Record, error) {
	if len(o.tails) == 0 {
		return o.Memory.Tail(ctx, id)
	}
	r := o.tails[0]
	o.tails = o.tails[1:]
	return r, nil
}

// TestChain: a log with a hole, a strange record or a changed byte is damaged.
func TestChain(t *testing.T) {
	var good []cluster.Record
	synctest.Test(t, func(t *testing.T) {
		log := clustertest.New(1, 0)
		w, err := clustertest.Own(t.Context(), log, session, "a", "1", cluster.Mark{})
		require.NoError(t, err)
		for _, line := range []string{"one", "two", "three"} {
			_, err := w.Append(t.Context(), []byte(line), []string{"c/" + line})
			require.NoError(t, err)
		}
		require.NoError(t, w.Release(t.Context(), nil))
		_, err = w.Append(t.Context(), []byte("four"), nil)
		require.ErrorIs(t, err, cluster.ErrReleased)
		_, err = w.Append(t.Context(), make([]byte, cluster.MostEntries+1), nil)
		require.ErrorIs(t, err, cluster.ErrTooLarge)
		require.NoError(t, readAll(t, log, func(r cluster.Record) error {
			good = append(good, r)
			return nil
		}))
	})
	check := func(change func(at int, r *cluster.Record) (keep bool)) error {
		var chain cluster.Mark
		for at, r := range good {
			if change(at, &r) {
				if err := chain.Add(r); err != nil {
					return err
				}
			}
		}
		return nil
	}
	require.NoError(t, check(func(int, *cluster.Record) bool { return true }))
	// Each is wrong in one thing only, and what is said of it says in which.
	only := func(at int, change func(r *cluster.Record)) func(int, *cluster.Record) bool {
		return func(i int, r *cluster.Record) bool {
			if i == at {
				change(r)
			}
			return true
		}
	}
	type cases = map[string]func(at int, r *cluster.Record) bool
	for why, of := range map[string]cases{
		"follows": {
			"no claim":             func(at int, _ *cluster.Record) bool { return at != 0 },
			"a hole":               func(at int, _ *cluster.Record) bool { return at != 2 },
			"behind another place": only(2, func(r *cluster.Record) { r.Prev-- }),
			"a second beginning":   only(2, func(r *cluster.Record) { r.Prev = 0 }),
		},
		"does not grow": {
			"the same place": only(2, func(r *cluster.Record) { r.Seq = r.Prev }),
			"a place before": only(2, func(r *cluster.Record) { r.Seq = 1 }),
		},
		"has sum": {
			"a changed byte": only(2, func(r *cluster.Record) { r.Lines = []byte("twO") }),
			"another sum":    only(2, func(r *cluster.Record) { r.Sum++ }),
			"a lost byte":    only(3, func(r *cluster.Record) { r.Lines = r.Lines[1:] }),
		},
		"is a claim with": {
			"a claim with an epoch":  only(0, func(r *cluster.Record) { r.Epoch = 7 }),
			"a claim with a number":  only(0, func(r *cluster.Record) { r.N = 1 }),
			"lines that are a claim": only(2, func(r *cluster.Record) { r.Kind = cluster.Claim }),
		},
		"is not the next of": {
			"another boot":   only(2, func(r *cluster.Record) { r.Boot = "x" }),
			"another node":   only(2, func(r *cluster.Record) { r.Node = "x" }),
			"another epoch":  only(2, func(r *cluster.Record) { r.Epoch++ }),
			"a number again": only(2, func(r *cluster.Record) { r.N-- }),
			"a number later": only(2, func(r *cluster.Record) { r.N++ }),
			"behind a release": func(at int, r *cluster.Record) bool {
				if at == 2 {
					r.Kind = cluster.Release
				}
				return true
			},
			"lines without a claim": only(0, func(r *cluster.Record) { r.Kind, r.N = cluster.Lines, 1 }),
		},
	} {
		for name, change := range of {
			err := check(change)
			require.ErrorIs(t, err, cluster.ErrDamaged, name)
			require.ErrorContains(t, err, why, name)
		}
	}
}

// TestKeys: the newest commands of a session are known, each with its record, and no more are kept than that takes.
func TestKeys(t *testing.T) {
	const newest, most = 1024, 1024 + 256
	var k cluster.Keys
	for i := range 5000 {
		k.Add(cluster.Seq(2*i+1), []string{fmt.Sprint("c/", i), fmt.Sprint("d/", i)})
		require.LessOrEqual(t, len(k.Of), most)
		require.Len(t, k.Seqs, len(k.Of))
		if i%500 == 499 {
			for back := range min(newest/2, i+1) {
				require.Equal(t, cluster.Seq(2*(i-back)+1), k.Find(fmt.Sprint("c/", i-back)), "%d of %d", back, i)
				require.Equal(t, cluster.Seq(2*(i-back)+1), k.Find(fmt.Sprint("d/", i-back)), "%d of %d", back, i)
			}
			require.Zero(t, k.Find(fmt.Sprint("c/", i-most)), "the oldest go first")
			require.Zero(t, k.Find("c/"))
		}
	}
	k.Add(20_001, []string{"c/4999"})
	require.EqualValues(t, 20_001, k.Find("c/4999"), "the last record of a key")
	text, err := json.Marshal(k)
	require.NoError(t, err)
	var again cluster.Keys
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, k, again)
}

func TestSuite_memory(t *testing.T) {
	m := clustertest.New(1, 0)
	clustertest.Suite(t, func(*testing.T) cluster.Engine { return m.Client() })
}

// TestLoad (C12): what is not the log is an error with its place, never a shorter session.
func TestLoad(t *testing.T) {
	for name, damage := range map[string]func(r []cluster.Record) []cluster.Record{
		"a hole":         func(r []cluster.Record) []cluster.Record { return append(r[:2], r[3:]...) },
		"a changed byte": func(r []cluster.Record) []cluster.Record { r[2].Lines = []byte("liNe"); return r },
		"a cut end":      func(r []cluster.Record) []cluster.Record { return r[:3] },
		"a strange boot": func(r []cluster.Record) []cluster.Record { r[2].Boot = "x"; return r },
		"nothing":        func([]cluster.Record) []cluster.Record { return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			log := clustertest.New(1, 0)
			w, err := clustertest.Own(t.Context(), log, session, "a", "1", cluster.Mark{})
			require.NoError(t, err)
			for range 4 {
				_, err := w.Append(t.Context(), []byte("line"), nil)
				require.NoError(t, err)
			}
			log.Damage(session, damage)
			n := 0
			_, err = cluster.Load(t.Context(), log, session, cluster.Mark{}, w.Mark().Seq, func(cluster.Record) error { n++; return nil })
			require.ErrorIs(t, err, cluster.ErrDamaged, name)
			require.Less(t, n, 4, name)
		})
	}
}

// TestLoad_short: a replica that is behind and says nothing of it.
func TestLoad_short(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &short{Memory: clustertest.New(1, 0)}
		w, err := clustertest.Own(t.Context(), log, session, "a", "1", cluster.Mark{})
		require.NoError(t, err)
		_, err = w.Append(t.Context(), []byte("line"), nil)
		require.NoError(t, err)
		_, err = cluster.Load(t.Context(), log, session, cluster.Mark{}, w.Mark().Seq, func(cluster.Record) error { return nil })
		require.ErrorIs(t, err, cluster.ErrDamaged)
	})
}

// short reads a record less than it is asked for.
type short struct{ *clustertest.Memory }

func (s *short) Sources() []cluster.Source {
	return []cluster.Source{{Name: "short", Read: s.read}}
}

func (s *short) read(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
	return s.Memory.Read(ctx, id, after, to, func(r cluster.Record) error {
		if r.Seq == to {
			return nil
		}
		return f(r)
	})
}

// holey is an engine with two sources, of which the first does not have a record, and says nothing of it.
type holey struct {
	*clustertest.Memory
	hole    cluster.Seq
	damaged []string
}

func (h *holey) Sources() []cluster.Source {
	first := func(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
		return h.Memory.Read(ctx, id, after, to, func(r cluster.Record) error {
			if r.Seq == h.hole {
				return nil
			}
			return f(r)
		})
	}
	return []cluster.Source{{Name: "one", Read: first}, {Name: "two", Read: h.Read}}
}

func (h *holey) Damaged(_ cluster.SessionID, source string, _ error) {
	h.damaged = append(h.damaged, source)
}

// TestLoad_hole (#7549): where one server has a hole the log is read from another, and that server is named.
func TestLoad_hole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &holey{Memory: clustertest.New(1, 0)}
		w, err := clustertest.Own(t.Context(), log, session, "a", "1", cluster.Mark{})
		require.NoError(t, err)
		for i := range 5 {
			seq, err := w.Append(t.Context(), []byte("line"), nil)
			require.NoError(t, err)
			if i == 2 {
				log.hole = seq
			}
		}
		n := 0
		at, err := cluster.Load(t.Context(), log, session, cluster.Mark{}, w.Mark().Seq, func(cluster.Record) error { n++; return nil })
		require.NoError(t, err)
		require.Equal(t, w.Mark(), at)
		require.Equal(t, 6, n, "each once")
		require.Equal(t, []string{"one"}, log.damaged)
	})
}

// TestFollow_parts: a copy that is brought up to a place in the middle of what was appended at once has the mark before
// that: what is behind the place would be taken for all of it.
func TestFollow_parts(t *testing.T) {
	engine := clustertest.New(1, 0)
	w, err := clustertest.Own(t.Context(), engine, "s", "a", "1", cluster.Mark{})
	require.NoError(t, err)
	large := bytes.Repeat([]byte("x"), cluster.MostLines+10)
	_, err = w.Append(t.Context(), large, []string{"c/1"})
	require.NoError(t, err)
	last := w.Mark().Seq
	for to, reached := range map[cluster.Seq]cluster.Seq{w.Epoch(): w.Epoch(), last - 1: w.Epoch(), last: last} {
		var keys cluster.Keys
		var got []byte
		at, err := cluster.Follow(t.Context(), engine, "s", cluster.Mark{}, &keys, to, func(lines []byte) error {
			got = append(got, lines...)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, reached, at.Seq)
		assert.Equal(t, to == last, len(got) == len(large))
		assert.Equal(t, to == last, keys.Find("c/1") == last)
	}
}
