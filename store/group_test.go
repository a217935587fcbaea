package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// calls counts what is asked of a file system.
type calls struct {
	store.FS
	writes, syncs int
}

type callsFile struct {
	store.File
	c *calls
}

func (c *calls) OpenAppend(name string) (store.File, error) {
	f, err := c.FS.OpenAppend(name)
	return callsFile{f, c}, err
}

func (c *calls) Create(name string) (store.File, error) {
	f, err := c.FS.Create(name)
	return callsFile{f, c}, err
}

func (f callsFile) Write(p []byte) (int, error) { f.c.writes++; return f.File.Write(p) }
func (f callsFile) Sync() error                 { f.c.syncs++; return f.File.Sync() }

// TestGroup: the entries of a group are written with one write and one fsync,
// and are what single appends would have made of them.
func TestGroup(t *testing.T) {
	for _, unborn := range []bool{true, false} {
		t.Run(fmt.Sprintf("unborn %t", unborn), func(t *testing.T) {
			mem := storetest.NewMem()
			c := &calls{FS: mem}
			o := options()
			o.Sync = true
			l := store.NewLog(c, "sessions/a.jsonl", header(), o)
			if !unborn {
				add(t, l, user("zero"))
			}
			before := *c
			l.Begin(0, 0)
			first := add(t, l, user("one"))[0]
			assert.True(t, l.Has(first))
			assert.Equal(t, first, l.Leaf())
			rest := add(t, l, protocol.Label{TargetID: first, Label: "x"}, answer("two"))
			assert.Equal(t, before.writes, c.writes)
			require.NoError(t, l.Commit())
			assert.Equal(t, before.writes+1, c.writes)
			assert.Equal(t, before.syncs+1, c.syncs)
			assert.Equal(t, rest[1], l.Leaf())

			last := add(t, l, user("three"))[0]
			again := open(t, mem, "sessions/a.jsonl")
			want := append(append([]string{first}, rest...), last)
			got := ids(again.View().Refs())
			assert.Equal(t, want, got[len(got)-4:])
			assert.Equal(t, ids(l.View().Refs()), got)
		})
	}
}

// TestGroup_fails: what cannot be written as a whole is not there at all, and
// the next append begins at a clean end.
func TestGroup_fails(t *testing.T) {
	for _, plan := range []string{"write *.jsonl #1 EIO", "write *.jsonl #1 short=300", "sync *.jsonl #1 EIO", "write *.jsonl #1 short=9; truncate * #1 EIO"} {
		t.Run(plan, func(t *testing.T) {
			mem := storetest.NewMem()
			f := storetest.NewFaulty(mem, storetest.Plan{})
			o := options()
			o.Sync = true
			l := store.NewLog(f, "sessions/a.jsonl", header(), o)
			kept := add(t, l, user("zero"))
			f.SetPlan(storetest.MustPlan(plan))
			l.Begin(0, 0)
			lost := add(t, l, user("one"), answer("two"))
			require.ErrorIs(t, l.Commit(), store.ErrNotDurable)
			assert.Equal(t, kept[0], l.Leaf())
			assert.False(t, l.Has(lost[0]))
			kept = append(kept, add(t, l, user("three"))...)
			assert.Equal(t, kept, ids(open(t, mem, "sessions/a.jsonl").View().Refs()))
		})
	}
}

// TestGroup_discarded: a group that is not committed leaves nothing.
func TestGroup_discarded(t *testing.T) {
	l, mem := newLog(t)
	kept := add(t, l, user("zero"))
	l.Begin(0, 0)
	add(t, l, user("one"))
	l.Discard()
	require.NoError(t, l.Commit())
	kept = append(kept, add(t, l, user("two"))...)
	assert.Equal(t, kept, ids(l.View().Refs()))
	assert.Len(t, mem.Files(), 1)
}

// TestGroup_noLine: an entry that would not be read as one is refused, and leaves nothing in the group.
func TestGroup_noLine(t *testing.T) {
	l, _ := newLog(t)
	kept := add(t, l, user("zero"))
	l.Begin(0, 0)
	kept = append(kept, add(t, l, user("one"))...)
	_, err := l.Append(protocol.Custom{CustomType: "x", Data: []byte(`{"a":`)}, 0, true)
	require.ErrorContains(t, err, "valid JSON")
	kept = append(kept, add(t, l, user("two"))...)
	require.NoError(t, l.Commit())
	assert.Equal(t, kept, ids(l.View().Refs()))
}
