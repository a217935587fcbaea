package store_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

const forkFile = "/home/me/.pi/agent/sessions/--p--/fork.jsonl"

func forkHeader() protocol.Header { return store.NewHeader("id-2", "/p", "", t0+1) }

func TestForkPoint(t *testing.T) {
	l, _ := newLog(t)
	got := add(t, l, user("one"), answer("x"), protocol.MessageEntry{Message: &protocol.UserMessage{Content: protocol.Content{
		protocol.Text{Text: "t"}, protocol.Image{Data: "AAAA", MimeType: "image/png"}, protocol.Text{Text: "wo"},
	}}})
	v := l.View()
	leaf, text, err := v.ForkPoint(got[2])
	require.NoError(t, err)
	assert.Equal(t, got[1], leaf)
	assert.Equal(t, "two", text)
	leaf, text, err = v.ForkPoint(got[0])
	require.NoError(t, err)
	assert.Equal(t, "", leaf)
	assert.Equal(t, "one", text)
	_, _, err = v.ForkPoint(got[1])
	assert.ErrorIs(t, err, store.ErrNotUserMessage)
	_, _, err = v.ForkPoint("nope")
	assert.ErrorIs(t, err, store.ErrNoEntry)
}

// pi forked this file before "Explain option B"; so do we.
func TestForkAsPi(t *testing.T) {
	l, path := openSample(t, "session-tree.jsonl")
	pis, err := os.ReadFile("testdata/session-fork.jsonl")
	require.NoError(t, err)
	want := strings.Split(string(pis), "\n")[1:6]
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	leaf, text, err := l.View().ForkPoint("cf25c456")
	require.NoError(t, err)
	assert.Equal(t, "Explain option B", text)
	v, err := l.View().At(leaf)
	require.NoError(t, err)
	target := filepath.Join(t.TempDir(), "fork.jsonl")
	fork, err := store.Fork(store.OS{}, v, target, forkHeader(), options())
	require.NoError(t, err)
	defer fork.Close()
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	assert.Equal(t, want, lines[1:])
	assert.Equal(t, path, fork.Header().ParentSession)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after), "the old session is only read")
	add(t, fork, user("Only in the fork"))
	assert.Equal(t, 6, open(t, store.OS{}, target).Len())
}

func lines(b []byte) []string { return strings.Split(strings.TrimSpace(string(b)), "\n") }

func TestForkLeavesOutAndRelabels(t *testing.T) {
	l, m := newLog(t)
	u := add(t, l, user("a"))[0]
	label := add(t, l, protocol.Label{TargetID: u, Label: "first"})[0]
	add(t, l, protocol.Custom{CustomType: protocol.CustomTool}, queueOp(protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: "q"}}), protocol.Custom{CustomType: "troupe.other"})
	a := add(t, l, answer("b"))[0]
	x := add(t, l, protocol.Custom{CustomType: "extension"})[0]
	add(t, l, protocol.Label{TargetID: a, Label: "gone"}, protocol.Label{TargetID: label, Label: "label of a label"}, protocol.Label{TargetID: a})
	later, err := l.Append(protocol.Label{TargetID: x, Label: "ext"}, t0+5, true)
	require.NoError(t, err)
	require.NoError(t, l.SetLeaf(u))
	add(t, l, user("other branch"), protocol.Label{TargetID: u, Label: "renamed elsewhere"})
	before := m.ReadFile(file)
	v, err := l.View().At(later.ID)
	require.NoError(t, err)
	fork, err := store.Fork(m, v, forkFile, forkHeader(), store.Options{Rand: &counting{n: 0xf0}})
	require.NoError(t, err)
	defer fork.Close()
	assert.Equal(t, []string{u, a, x, "000000f1", "000000f2"}, ids(fork.View().Refs()))
	assert.Equal(t, ids(fork.View().Refs()), ids(fork.View().Branch()), "one chain")
	s, err := fork.View().State()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{u: "renamed elsewhere", x: "ext"}, s.Labels)
	assert.Empty(t, s.Queue)
	got := lines(m.ReadFile(forkFile))
	old := lines(before)
	assert.Equal(t, old[1], got[1], "what needs no new parent keeps its bytes")
	assert.Equal(t, strings.Replace(old[6], `"parentId":"00000005"`, `"parentId":"`+u+`"`, 1), got[2])
	assert.Equal(t, old[7], got[3])
	assert.Contains(t, got[5], `"timestamp":"2026-11-21T01:04:26.026Z"`, "labels keep their time")
	assert.Equal(t, before, m.ReadFile(file))
	assert.Equal(t, ids(fork.View().Refs()), ids(open(t, m, forkFile).View().Refs()))
}

// The boundary of a compaction is kept also if it was on an entry that is not
// copied.
func TestForkKeepsCompactionBoundary(t *testing.T) {
	for _, boundary := range []protocol.Entry{protocol.Label{TargetID: "00000001", Label: "l"}, protocol.Custom{CustomType: protocol.CustomTool}} {
		l := store.NewLog(nil, "", header(), options())
		add(t, l, user("a"))
		b := add(t, l, boundary)[0]
		add(t, l, protocol.Custom{CustomType: protocol.CustomTool}, user("b"), compaction("s", b), user("c"))
		want, err := l.View().Context()
		require.NoError(t, err)
		sameMessages(t, l.View())
		require.Equal(t, []string{"summary: s", "user: b", "user: c"}, texts(want.Messages()))
		fork, err := store.Fork(nil, l.View(), "", forkHeader(), options())
		require.NoError(t, err)
		got, err := fork.View().Context()
		require.NoError(t, err)
		sameMessages(t, fork.View())
		assert.Equal(t, texts(want.Messages()), texts(got.Messages()))
	}
}

func TestForkIsBornWithAMessage(t *testing.T) {
	l, m := newLog(t)
	settings := add(t, l, protocol.ModelChange{Provider: "p", ModelID: "m"})[0]
	first := add(t, l, user("a"))[0]
	for leaf, born := range map[string]bool{"": false, settings: false, first: true} {
		v, err := l.View().At(leaf)
		require.NoError(t, err)
		fork, err := store.Fork(m, v, forkFile, forkHeader(), options())
		require.NoError(t, err)
		assert.Equal(t, born, fork.Materialised(), leaf)
		assert.Equal(t, born, m.ReadFile(forkFile) != nil)
		assert.Equal(t, leaf, fork.Leaf())
		add(t, fork, user("b"))
		assert.Equal(t, ids(fork.View().Refs()), ids(open(t, m, forkFile).View().Refs()))
		require.NoError(t, fork.Close())
		require.NoError(t, m.Remove(forkFile))
	}
}

func TestForkInMemory(t *testing.T) {
	l := store.NewLog(nil, "", header(), options())
	got := add(t, l, user("a"), answer("b"))
	fork, err := store.Fork(nil, l.View(), "", forkHeader(), store.Options{})
	require.NoError(t, err)
	assert.Equal(t, got, ids(fork.View().Refs()))
	assert.Equal(t, "", fork.Header().ParentSession, "there is no file to name")
	add(t, fork, user("c"))
	assert.Equal(t, 2, l.Len())
	assert.Equal(t, 3, fork.Len())
}

func TestForkOfFork(t *testing.T) {
	l, m := newLog(t)
	add(t, l, user("a"))
	fork, err := store.Fork(m, l.View(), forkFile, forkHeader(), options())
	require.NoError(t, err)
	defer fork.Close()
	second, err := store.Fork(m, fork.View(), "/x/second.jsonl", store.NewHeader("id-3", "/p", "", t0), options())
	require.NoError(t, err)
	defer second.Close()
	assert.Equal(t, forkFile, second.Header().ParentSession, "the immediate predecessor")
	own := forkHeader()
	own.ParentSession = "/chosen.jsonl"
	third, err := store.Fork(m, l.View(), "/x/third.jsonl", own, options())
	require.NoError(t, err)
	defer third.Close()
	assert.Equal(t, "/chosen.jsonl", third.Header().ParentSession)
}

func TestForkFails(t *testing.T) {
	l, m := newLog(t)
	add(t, l, user("a"))
	before := m.ReadFile(file)
	for _, plan := range []string{
		"create fork* always ENOSPC", "write fork* always short=50", "mkdir * always EROFS", "write fork* always ENOSPC",
	} {
		f := storetest.NewFaulty(m, storetest.MustPlan(plan))
		_, err := store.Fork(f, l.View(), forkFile, forkHeader(), options())
		assert.ErrorIs(t, err, store.ErrNotDurable, plan)
		assert.Equal(t, []string{file}, m.Files(), "%s: nothing is left", plan)
	}
	m.WriteFile(forkFile, []byte("somebody's"))
	_, err := store.Fork(m, l.View(), forkFile, forkHeader(), options())
	assert.Error(t, err)
	assert.Equal(t, "somebody's", string(m.ReadFile(forkFile)))
	require.NoError(t, l.Close())
	_, err = store.Fork(m, l.View(), "/x/new.jsonl", forkHeader(), options())
	assert.Error(t, err, "the source cannot be read")
	assert.Nil(t, m.ReadFile("/x/new.jsonl"))
	assert.Equal(t, before, m.ReadFile(file))
}

func TestForkOfDamagedAndOldFiles(t *testing.T) {
	m := storetest.NewMem()
	put(m, file, headV1, `{"type":"message","message":{"role":"user","content":"old"}}`, "{broken", `{"type":"x"}`)
	l := open(t, m, file)
	fork, err := store.Fork(m, l.View(), forkFile, forkHeader(), options())
	require.NoError(t, err)
	defer fork.Close()
	again := open(t, m, forkFile)
	assert.Equal(t, ids(l.View().Refs()), ids(again.View().Refs()))
	assert.Equal(t, store.Damage{}, again.Damage())
	assert.Equal(t, 3, again.Header().Version)
}

// Forking anywhere in any session gives the same context as staying there.
func TestForkKeepsContext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{mem: storetest.NewMem()}
		m.fsys = storetest.NewFaulty(m.mem, storetest.Plan{})
		m.log = store.NewLog(m.fsys, file, header(), m.options())
		defer func() { _ = m.log.Close() }()
		for range rapid.IntRange(1, 25).Draw(t, "entries") {
			m.append(t)
			if rapid.IntRange(0, 4).Draw(t, "move") == 0 {
				m.setLeaf(t)
			}
		}
		v, err := m.log.View().At(m.drawID(t))
		require.NoError(t, err)
		want, err := v.Context()
		require.NoError(t, err)
		sameMessages(t, v)
		fork, err := store.Fork(m.fsys, v, forkFile, forkHeader(), m.options())
		require.NoError(t, err)
		defer func() { _ = fork.Close() }()
		got, err := fork.View().Context()
		require.NoError(t, err)
		sameMessages(t, fork.View())
		require.Equal(t, texts(want.Messages()), texts(got.Messages()))
		require.Equal(t, ids(fork.View().Refs()), ids(fork.View().Branch()), "a single branch, nothing orphaned")
		for _, ref := range fork.View().Refs() {
			raw, err := fork.View().Raw(ref.ID)
			require.NoError(t, err)
			require.True(t, json.Valid(raw))
		}
	})
}
