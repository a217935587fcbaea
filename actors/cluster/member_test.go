package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
)

// peer is a member with its own way to the engine.
type peer struct {
	*cluster.Member
	way   *clustertest.Memory
	ended chan error
	kill  context.CancelFunc
}

func join(t *testing.T, engine *clustertest.Memory, name, boot string, change ...func(*cluster.MemberConfig)) *peer {
	way := engine.Client()
	cfg := cluster.MemberConfig{Self: cluster.Node{Name: name, Boot: boot, Addr: name + ":1"}, Log: way, Registry: way}
	for _, f := range change {
		f(&cfg)
	}
	ctx, kill := context.WithCancel(t.Context())
	p := &peer{cluster.Join(cfg), way, make(chan error, 1), kill}
	go func() { p.ended <- p.Run(ctx) }()
	return p
}

// settle lets members hear of each other.
func settle() { time.Sleep(time.Second); synctest.Wait() }

func claim(t *testing.T, p *peer) *cluster.Owned {
	t.Helper()
	o, err := p.Claim(t.Context(), session, cluster.Wants{}, cluster.Mark{})
	require.NoError(t, err)
	return o
}

// TestOwnerLost: while the owner lives everybody is led to it, and nobody may claim; when it is
// lost the next one who asks claims after its beats have failed to come, and finds what it has
// written and whose effect that was. The old one, if it only stood still, is fenced.
func TestOwnerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		a, b := join(t, engine, "a", "1"), join(t, engine, "b", "2")
		settle()
		_, err := b.Where(t.Context(), session)
		require.ErrorIs(t, err, cluster.ErrNoSession)
		old := claim(t, a)
		require.Equal(t, "new", old.Why)
		_, err = a.Claim(t.Context(), session, cluster.Wants{}, cluster.Mark{})
		require.ErrorIs(t, err, cluster.ErrInUse)
		require.NoError(t, old.Append(t.Context(), []byte("one\n"), []string{"c/1"}))
		n, err := b.Where(t.Context(), session)
		require.NoError(t, err)
		require.Equal(t, "a:1", n.Addr)
		var elsewhere *cluster.ElsewhereError
		_, err = b.Claim(t.Context(), session, cluster.Wants{}, cluster.Mark{})
		require.ErrorAs(t, err, &elsewhere)
		require.Equal(t, "a", elsewhere.Node)

		a.kill()
		lost := time.Now()
		for n.Name == "a" {
			n, err = b.Where(t.Context(), session)
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, "b", n.Name)
		o := claim(t, b)
		require.Less(t, time.Since(lost), 1400*time.Millisecond)
		require.GreaterOrEqual(t, time.Since(lost), time.Second)
		require.Equal(t, []string{"dead", "a"}, []string{o.Why, o.From})
		text := ""
		at, err := o.Load(t.Context(), cluster.Mark{}, cluster.Keys{}, func(lines []byte) error { text += string(lines); return nil })
		require.NoError(t, err)
		require.Equal(t, o.Mark(), at)
		require.Equal(t, "one\n", text)
		require.NotZero(t, o.Done("c/1"))
		require.Zero(t, o.Done("c/2"))
		require.ErrorIs(t, old.Append(t.Context(), []byte("two\n"), nil), cluster.ErrFenced)
		require.ErrorIs(t, old.Current(t.Context()), cluster.ErrFenced)
	})
}

// TestNeverHeardOf: a session of a node that nobody who lives has ever heard of is not elsewhere for ever: it is claimed as that
// of a node that has died, behind the same beats.
func TestNeverHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		_, err := clustertest.Own(t.Context(), engine, session, "z", "z-1", cluster.Mark{})
		require.NoError(t, err)
		a, b := join(t, engine, "a", "1"), join(t, engine, "b", "2")
		settle()
		begun := time.Now()
		var n cluster.Node
		for n.Name != "a" && n.Name != "b" {
			n, err = b.Where(t.Context(), session)
			require.NoError(t, err)
			require.Less(t, time.Since(begun), 3*time.Second, "it is on %s", n.Name)
			time.Sleep(10 * time.Millisecond)
		}
		o := claim(t, a)
		require.Equal(t, []string{"dead", "z"}, []string{o.Why, o.From})
		require.Less(t, time.Since(begun), 3*time.Second)
	})
}

// TestReleased: a session that was released is claimed at once, by who is placed.
func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		a, b := join(t, engine, "a", "1"), join(t, engine, "b", "2")
		settle()
		require.NoError(t, claim(t, a).Release(t.Context()))
		begun := time.Now()
		require.Equal(t, "release", claim(t, b).Why)
		require.Less(t, time.Since(begun), 50*time.Millisecond)
	})
}

// TestLed: who looks for a session whose handle leads to another one is led to that one, also while it is claimed by who wants to
// know where it leads, and when that node is lost over it; what was done before is known where the handle leads back.
func TestLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		a, b, d := join(t, engine, "a", "1"), join(t, engine, "b", "2"), join(t, engine, "d", "3")
		settle()
		const other = "other-session"
		_, err := a.Claim(t.Context(), other, cluster.Wants{}, cluster.Mark{})
		require.NoError(t, err)
		o := claim(t, a)
		done := cluster.Keys{}
		done.Add(7, []string{"c/1"})
		o.Lead = &cluster.Lead{To: other, Node: "a", Done: done}
		require.NoError(t, o.Release(t.Context()))
		leads := func() {
			t.Helper()
			n, err := d.Where(t.Context(), session)
			require.NoError(t, err)
			require.Equal(t, "a", n.Name)
		}
		leads()
		o = claim(t, b)
		leads()
		require.NoError(t, o.Release(t.Context()))
		leads()
		claim(t, b)
		b.kill()
		time.Sleep(3 * time.Second)
		leads()
		o = claim(t, d)
		require.Equal(t, "dead", o.Why)
		require.Equal(t, cluster.SessionID(other), o.Lead.To)
		require.NotZero(t, o.Lead.Done.Find("c/1"))

		text, err := json.Marshal(map[string]any{"done": o.Lead.Done})
		require.NoError(t, err)
		require.NoError(t, o.Note(t.Context(), text, nil))
		o.Lead = nil
		n, err := a.Where(t.Context(), session)
		require.NoError(t, err)
		require.Equal(t, "d", n.Name)
		require.NoError(t, o.Release(t.Context()))
		o = claim(t, a)
		require.Nil(t, o.Lead)
		_, err = o.Load(t.Context(), cluster.Mark{}, cluster.Keys{}, func([]byte) error { return nil })
		require.NoError(t, err)
		require.NotZero(t, o.Done("c/1"))
		require.Zero(t, o.Done("c/2"))
	})
}

// TestDrained: nothing is placed on a node that takes no sessions.
func TestDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		a, b := join(t, engine, "a", "1"), join(t, engine, "b", "2")
		settle()
		a.Drain()
		settle()
		for i := range 20 {
			n, err := b.Place(cluster.SessionID(fmt.Sprint("session-", i)), cluster.Wants{})
			require.NoError(t, err)
			require.Equal(t, "b", n.Name)
		}
	})
}

// TestPinned: a session whose directory is on one node cannot be had on another one, which says
// where the directory is.
func TestPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		roots := func(c *cluster.MemberConfig) {
			c.Self.Roots = map[string]cluster.Root{"app": {Path: "/app", Mode: cluster.Pinned}}
		}
		a, b := join(t, engine, "a", "1", roots), join(t, engine, "b", "2", roots)
		settle()
		_, err := a.Claim(t.Context(), session, cluster.Wants{Root: "app"}, cluster.Mark{})
		require.NoError(t, err)
		require.ErrorIs(t, a.Take("b", cluster.Wants{Root: "app", Node: "a"}), cluster.ErrNowhere)
		a.kill()
		time.Sleep(2 * time.Second)
		_, err = b.Where(t.Context(), session)
		require.ErrorIs(t, err, cluster.ErrNowhere)
		require.ErrorContains(t, err, "is on a")
		_, err = b.Claim(t.Context(), session, cluster.Wants{}, cluster.Mark{})
		require.ErrorIs(t, err, cluster.ErrNowhere)
	})
}

// TestManyAsk: those who ask all the time whether a node is dead do not keep each other from knowing it.
func TestManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		a, b := join(t, engine, "a", "1"), join(t, engine, "b", "2")
		settle()
		_, err := a.Claim(t.Context(), session, cluster.Wants{}, cluster.Mark{})
		require.NoError(t, err)
		deaths := 0
		b.OnDeath(func(string) { deaths++ })
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = b.Where(ctx, session)
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		a.kill()
		time.Sleep(2 * time.Second)
		where, err := b.Where(t.Context(), session)
		require.NoError(t, err)
		require.Equal(t, "b", where.Name)
		require.Equal(t, 1, deaths, "it is lost once")
		stop()
		all.Wait()
	})
}

// TestTwin: of two lives of one node the younger works, and has the sessions of the elder.
func TestTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		a := join(t, engine, "a", "1")
		settle()
		old := claim(t, a)
		twin := join(t, engine, "a", "2")
		settle()
		require.ErrorIs(t, <-a.ended, cluster.ErrFenced)
		require.Equal(t, "boot", claim(t, twin).Why)
		require.ErrorIs(t, old.Append(t.Context(), []byte("two\n"), nil), cluster.ErrFenced)
	})
}

// TestTwinClaims: the elder of two lives does not have a session back that the younger has taken, and the younger takes
// none while the elder may answer from memory.
func TestTwinClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		a := join(t, engine, "a", "1")
		settle()
		old := claim(t, a)
		twin := join(t, engine, "a", "2")
		begun := time.Now()
		young := claim(t, twin)
		require.GreaterOrEqual(t, time.Since(begun), 750*time.Millisecond)
		require.ErrorIs(t, old.Current(t.Context()), cluster.ErrFenced)
		old.Drop()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := a.Claim(ctx, session, cluster.Wants{}, cluster.Mark{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, young.Append(t.Context(), []byte("two\n"), nil))
		require.ErrorIs(t, <-a.ended, cluster.ErrFenced)
	})
}

// TestLeaseLapsed: an owner without a lease appends before it shows anything, and is told when it
// has another one.
func TestLeaseLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, clustertest.New(1, 0), "a", "1", func(c *cluster.MemberConfig) { c.Patience = time.Second })
		settle()
		o := claim(t, a)
		woken := 0
		o.Woken(func() { woken++ })
		require.NoError(t, o.Note(t.Context(), nil, nil))
		before := o.Mark()
		require.NoError(t, o.Current(t.Context()))
		after := o.Mark()
		require.Equal(t, before, after, "it has a lease")
		a.way.Cut(clustertest.Gone)
		time.Sleep(2 * time.Second)
		require.Error(t, o.Current(t.Context()))
		a.way.Cut(clustertest.Whole)
		settle()
		require.Equal(t, 1, woken)
	})
}

// TestLeaseCameBack: a lease that lapsed and has come back is another one. Somebody may have
// had the session meanwhile, so that what is in memory is shown behind a note only.
func TestLeaseCameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, clustertest.New(1, 0), "a", "1")
		settle()
		o := claim(t, a)
		require.NoError(t, o.Note(t.Context(), nil, nil))
		before := o.Mark()
		a.way.Cut(clustertest.Gone)
		time.Sleep(2 * time.Second)
		a.way.Cut(clustertest.Whole)
		settle()
		require.NoError(t, o.Current(t.Context()))
		after := o.Mark()
		require.NotEqual(t, before, after)
	})
}

// TestNodeJoins (O6): a node that comes while sessions are claimed moves none that has an owner, and gets its share of those that are
// given up and of new ones. Everybody agrees about each.
func TestNodeJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := clustertest.New(1, 0)
		nodes := []*peer{join(t, engine, "a", "1"), join(t, engine, "b", "2")}
		settle()
		id := func(i int) cluster.SessionID { return cluster.SessionID(fmt.Sprint("session-", i)) }
		owned := map[cluster.SessionID]*cluster.Owned{}
		where := map[cluster.SessionID]string{}
		claims := func(i int, by []*peer) {
			at, err := by[0].Place(id(i), cluster.Wants{})
			require.NoError(t, err)
			for _, p := range by {
				if p.Self() == at.Name {
					owned[id(i)], err = p.Claim(t.Context(), id(i), cluster.Wants{}, cluster.Mark{})
					require.NoError(t, err)
					where[id(i)] = at.Name
				}
			}
		}
		agree := func() {
			for s, name := range where {
				for _, p := range nodes {
					at, err := p.Where(t.Context(), s)
					require.NoError(t, err)
					require.Equal(t, name, at.Name, "%s, as %s has it", s, p.Self())
				}
			}
		}
		for i := range 30 {
			if i == 15 { // nobody has heard of it when the next ones are claimed
				nodes = append(nodes, join(t, engine, "c", "3"))
			}
			claims(i, nodes[:2])
		}
		settle()
		agree()
		for i := range 15 {
			require.NoError(t, owned[id(i)].Release(t.Context()))
			at, err := nodes[2].Place(id(i), cluster.Wants{})
			require.NoError(t, err)
			where[id(i)] = at.Name
		}
		for i := range 15 {
			claims(30+i, nodes)
		}
		agree()
		share := 0
		for _, name := range where {
			if name == "c" {
				share++
			}
		}
		require.Greater(t, share, 3)
	})
}

// TestEverybodyClaims: of those who claim at once one has the session, and the others are led there
// (O1, O2).
func TestEverybodyClaims(t *testing.T) {
	for seed := range uint64(*histories / 10) {
		synctest.Test(t, func(t *testing.T) {
			engine := clustertest.New(seed, int(seed%40))
			var all sync.WaitGroup
			var mu sync.Mutex
			owners := map[string]bool{}
			for _, name := range []string{"a", "b", "c"} {
				p := join(t, engine, name, name)
				all.Go(func() {
					for {
						time.Sleep(time.Second)
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						o, err := p.Claim(ctx, session, cluster.Wants{}, cluster.Mark{})
						cancel()
						var elsewhere *cluster.ElsewhereError
						if errors.As(err, &elsewhere) {
							return
						}
						if err == nil {
							mu.Lock()
							owners[name] = true
							mu.Unlock()
							_ = o.Append(t.Context(), []byte(name), nil)
							return
						}
					}
				})
			}
			all.Wait()
			require.NotEmpty(t, owners, "seed %d", seed)
			if seed%40 == 0 {
				require.Len(t, owners, 1, "seed %d", seed)
			}
		})
	}
}
