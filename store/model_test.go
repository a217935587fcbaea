package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// twin is a session as one would write it without caring for memory, time or
// disks: a list of records.
type twin struct {
	entries []protocol.Record
	leaf    string
}

func (w *twin) byID(id string) *protocol.Record {
	for i := range w.entries {
		if w.entries[i].ID == id {
			return &w.entries[i]
		}
	}
	return nil
}

func (w *twin) branch() []protocol.Record {
	var path []protocol.Record
	for id := w.leaf; id != ""; {
		r := w.byID(id)
		path = append(path, *r)
		id = r.ParentID
	}
	slices.Reverse(path)
	return path
}

func (w *twin) append(meta protocol.EntryMeta, e protocol.Entry) {
	w.entries = append(w.entries, protocol.Record{EntryMeta: meta, Entry: e})
	w.leaf = meta.ID
}

// context is the naive reading of the rules: find out for every entry whether
// it is in, then what edits make of it.
func (w *twin) context() []string {
	branch := w.branch()
	last := -1
	for i, r := range branch {
		if r.Entry.EntryType() == "compaction" {
			last = i
		}
	}
	from := 0
	out := []string{}
	if last >= 0 {
		c := branch[last].Entry.(protocol.Compaction)
		out = append(out, "summary: "+c.Summary)
		from = last
		for i := range last {
			if branch[i].ID == c.FirstKeptEntryID {
				from = i
				break
			}
		}
	}
	for i := from; i < len(branch); i++ {
		text, ok := plainText(branch[i])
		if !ok {
			continue
		}
		for _, later := range branch[i+1:] {
			edit, isEdit := later.Entry.(protocol.ContextEdit)
			if !isEdit || edit.TargetID != branch[i].ID || strings.HasPrefix(text, "branch: ") {
				continue
			}
			ok = string(edit.Replacement) != "null"
			if ok {
				text, _, _ = strings.Cut(text, ": ")
				text += ": " + strings.Trim(string(edit.Replacement), `"`)
			}
		}
		if ok {
			out = append(out, text)
		}
	}
	return out
}

func plainText(r protocol.Record) (string, bool) {
	switch e := r.Entry.(type) {
	case protocol.MessageEntry:
		return render(e.Message), true
	case protocol.CustomMessageEntry:
		return "custom " + e.CustomType + ": " + e.Content.Text("|"), true
	case protocol.BranchSummary:
		return "branch: " + e.Summary, e.Summary != ""
	}
	return "", false
}

func (w *twin) queue() []string {
	waiting := []string{}
	for _, r := range w.entries {
		gone := map[string]bool{}
		switch e := r.Entry.(type) {
		case protocol.Custom:
			op := queueOpOf(e)
			if op.Op == "add" {
				waiting = append(waiting, op.ID)
			}
			for _, id := range op.IDs {
				gone[id] = true
			}
		case protocol.MessageEntry:
			gone[e.QueueID] = true
		}
		waiting = slices.DeleteFunc(waiting, func(id string) bool { return gone[id] })
	}
	return waiting
}

func queueOpOf(e protocol.Custom) protocol.QueueOp {
	var op protocol.QueueOp
	if e.CustomType == protocol.CustomQueue {
		mustUnmarshal(e.Data, &op)
	}
	return op
}

func (w *twin) labels() map[string]string {
	labels := map[string]string{}
	for _, r := range w.entries {
		if l, ok := r.Entry.(protocol.Label); ok {
			labels[l.TargetID] = l.Label
		}
	}
	maps.DeleteFunc(labels, func(_, label string) bool { return label == "" })
	return labels
}

func (w *twin) name() string {
	name := ""
	for _, r := range w.entries {
		if i, ok := r.Entry.(protocol.SessionInfo); ok && strings.TrimSpace(i.Name) != "" {
			name = strings.TrimSpace(i.Name)
		}
	}
	return name
}

// machine drives a log and its twin through the same life.
type machine struct {
	mem      *storetest.Mem
	fsys     *storetest.Faulty
	log      *store.Log
	twin     twin
	sync     bool
	ctx      *store.Context      // extended along, nil when it has to be built anew
	attempts [][]protocol.Record // what the file would have held, had a failed append worked
	leftOver bool                // the last entry is of a failed append: nobody was told of it and nothing has synced it
	count    int
	queue    int
}

func (m *machine) options() store.Options {
	m.count++
	return store.Options{Sync: m.sync, Rand: &counting{n: uint32(m.count) << 20}}
}

func (m *machine) drawEntry(t *rapid.T) protocol.Entry {
	text := fmt.Sprint("text ", len(m.twin.entries))
	target := m.drawID(t)
	switch rapid.IntRange(0, 12).Draw(t, "kind") {
	case 0:
		return protocol.ModelChange{Provider: "p", ModelID: text}
	case 1:
		return answer(text)
	case 2:
		return protocol.Compaction{Summary: text, FirstKeptEntryID: target}
	case 3:
		return protocol.BranchSummary{Summary: rapid.SampledFrom([]string{"", text}).Draw(t, "summary"), FromID: "x"}
	case 4:
		return protocol.CustomMessageEntry{CustomType: "note", Content: protocol.TextContent(text)}
	case 5:
		if target != "" {
			return protocol.Label{TargetID: target, Label: rapid.SampledFrom([]string{"", "l1", "l2"}).Draw(t, "label")}
		}
	case 6:
		return protocol.SessionInfo{Name: rapid.SampledFrom([]string{"", " ", " n1 ", "n2"}).Draw(t, "name")}
	case 7:
		return protocol.ContextEdit{TargetID: target, Replacement: []byte(rapid.SampledFrom([]string{"null", `"edited"`, `"again"`}).Draw(t, "edit"))}
	case 8, 9:
		m.queue++
		return queueOp(protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: fmt.Sprint("q", m.queue), Kind: protocol.QueueSteer, Text: text}})
	case 10:
		return queueOp(protocol.QueueOp{Op: "remove", IDs: []string{fmt.Sprint("q", rapid.IntRange(1, m.queue+1).Draw(t, "remove"))}})
	case 11:
		e := user(text)
		e.QueueID = fmt.Sprint("q", rapid.IntRange(1, m.queue+1).Draw(t, "deliver"))
		return e
	}
	return user(text)
}

func (m *machine) drawID(t *rapid.T) string {
	if len(m.twin.entries) == 0 {
		return ""
	}
	return rapid.SampledFrom(m.twin.entries).Draw(t, "entry").ID
}

func (m *machine) append(t *rapid.T) {
	e := m.drawEntry(t)
	meta, err := m.log.Append(e, t0+int64(len(m.twin.entries)), rapid.IntRange(0, 3).Draw(t, "durable") > 0)
	if err != nil {
		require.ErrorIs(t, err, store.ErrNotDurable)
		require.NotEmpty(t, m.fsys.Struck())
		m.attempts = append(m.attempts, append(slices.Clone(m.twin.entries), protocol.Record{Entry: e}))
		return
	}
	require.Equal(t, m.twin.leaf, meta.ParentID)
	m.twin.append(meta, e)
	m.leftOver = false
	if m.ctx != nil && !m.ctx.Extend(protocol.Record{EntryMeta: meta, Entry: e}) {
		m.ctx = nil
	}
}

func (m *machine) setLeaf(t *rapid.T) {
	id := m.drawID(t)
	if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
		id = ""
	}
	require.NoError(t, m.log.SetLeaf(id))
	m.twin.leaf, m.ctx = id, nil
}

func (m *machine) breakDisk(t *rapid.T) {
	m.fsys.SetPlan(storetest.MustPlan(rapid.SampledFrom([]string{
		"write * #1 ENOSPC", "write * #1 short=40", "write * #1 short=40; truncate * #1 EIO", "sync * #1 EIO", "truncate * #1 EIO",
		"seed=1; * * p=0.1 EIO", "create * #1 EMFILE", "",
	}).Draw(t, "plan")))
}

// restart ends the process or the power, and opens what is left.
func (m *machine) restart(t *rapid.T) {
	acknowledged, attempts, struck := m.twin.entries, m.attempts, m.fsys.Struck()
	safe := m.log.Materialised()
	powerCut := rapid.Bool().Draw(t, "power cut")
	if powerCut {
		m.mem = m.mem.Crash(rapid.Uint64Max(1000).Draw(t, "seed"))
		safe = safe && m.sync && !m.leftOver
	} else {
		m.mem = m.mem.Kill()
	}
	_ = m.log.Close()
	m.fsys, m.ctx, m.twin, m.attempts = storetest.NewFaulty(m.mem, storetest.Plan{}), nil, twin{}, nil
	var err error
	if m.log, err = store.OpenLog(m.fsys, file, m.options()); err != nil {
		require.True(t, isAbsent(err), "%v", err)
		require.False(t, safe, "an acknowledged session is gone")
		m.log = store.NewLog(m.fsys, file, header(), m.options())
		return
	}
	n := m.log.Len()
	switch {
	case isPrefix(m.log, acknowledged):
		require.True(t, !safe || n == len(acknowledged), "an acknowledged entry is gone")
		m.twin.entries = acknowledged[:n:n]
	default:
		m.twin.entries, m.leftOver = m.leftover(t, attempts), true
		require.True(t, powerCut || couldNotBeRemoved(struck), "a failed append has worked")
		require.True(t, !safe || n == len(acknowledged)+1, "an acknowledged entry is gone")
	}
	m.twin.leaf = m.log.Leaf()
}

func isPrefix(l *store.Log, entries []protocol.Record) bool {
	for i, ref := range l.View().Refs() {
		if i >= len(entries) || entries[i].ID != ref.ID {
			return false
		}
	}
	return true
}

// leftover finds the failed append whose entry is there nevertheless: a power
// cut may take back its removal, or the removal failed as well and the process
// died before it could try again.
func (m *machine) leftover(t *rapid.T, attempts [][]protocol.Record) []protocol.Record {
	n := m.log.Len() - 1
	last, err := m.log.View().Record(m.log.Leaf())
	require.NoError(t, err)
	for _, a := range attempts {
		if len(a) == n+1 && a[n].Entry.EntryType() == last.Entry.EntryType() {
			if found := append(slices.Clone(a[:n]), last); isPrefix(m.log, found) {
				return found
			}
		}
	}
	require.Fail(t, "the file holds what nobody wrote")
	return nil
}

func couldNotBeRemoved(struck []string) bool {
	return slices.ContainsFunc(struck, func(s string) bool {
		return strings.HasPrefix(s, "truncate") || strings.HasPrefix(s, "remove")
	})
}

// check compares everything.
func (m *machine) check(t *rapid.T) {
	v := m.log.View()
	require.Equal(t, m.twin.leaf, v.Leaf())
	require.Len(t, v.Refs(), len(m.twin.entries))
	for i, ref := range v.Refs() {
		require.Equal(t, m.twin.entries[i].ID, ref.ID)
		require.Equal(t, m.twin.entries[i].Entry.EntryType(), ref.Type)
	}
	records, err := v.Records()
	require.NoError(t, err)
	want := m.twin.branch()
	require.Len(t, records, len(want))
	for i, r := range records {
		require.Equal(t, string(want[i].AppendJSON(nil)), string(r.AppendJSON(nil)))
	}
	s, err := v.State()
	require.NoError(t, err)
	ctx, err := v.Context()
	require.NoError(t, err)
	sameMessages(t, v)
	require.Equal(t, m.twin.context(), texts(ctx.Messages()))
	require.Equal(t, ctx.Size(), s.Context)
	if m.ctx == nil {
		m.ctx = ctx
	}
	require.Equal(t, m.twin.context(), texts(m.ctx.Messages()), "extended step by step")
	require.Equal(t, len(m.twin.context()), s.Context.Messages)
	require.Equal(t, m.twin.labels(), s.Labels)
	require.Equal(t, m.twin.name(), s.Name)
	queued := []string{}
	for _, q := range s.Queue {
		queued = append(queued, q.ID)
	}
	require.Equal(t, m.twin.queue(), queued)
}

// The life of a session, with a disk that fails and a machine that dies, is
// the life of its twin: what is acknowledged is there, in order, and nothing
// else is.
func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{mem: storetest.NewMem(), sync: rapid.Bool().Draw(t, "sync")}
		m.fsys = storetest.NewFaulty(m.mem, storetest.Plan{})
		m.log = store.NewLog(m.fsys, file, header(), m.options())
		defer func() { _ = m.log.Close() }()
		steps := map[string]func(*rapid.T){"setLeaf": m.setLeaf, "breakDisk": m.breakDisk, "restart": m.restart}
		for i := range 12 { // mostly appends
			steps[fmt.Sprint("append", i)] = m.append
		}
		steps[""] = func(t *rapid.T) {
			m.fsys.Pause(func() { m.check(t) })
		}
		t.Repeat(steps)
	})
}

// A file that was cut anywhere opens with a prefix of its entries, and what is
// appended then is there when it is opened again.
func TestCutAnywhere(t *testing.T) {
	l, m := newLog(t)
	want := add(t, l, user("one"), answer("two", "c1"), result("c1"), protocol.SessionInfo{Name: "n"}, user("four"))
	whole := m.ReadFile(file)
	for cut := range len(whole) + 1 {
		m := storetest.NewMem()
		m.WriteFile(file, whole[:cut])
		l, err := store.OpenLog(m, file, options())
		if err != nil {
			require.True(t, errors.Is(err, store.ErrEmpty), "cut at %d: %v", cut, err)
			require.Less(t, cut, len(headLine))
			l = store.NewLog(m, file, header(), options())
		}
		n := l.Len()
		require.Equal(t, want[:n], ids(l.View().Refs()))
		if n < len(want) {
			require.Less(t, cut, strings.Index(string(whole), want[n])+600)
		}
		id, err := l.Append(user("after"), t0, true)
		require.NoError(t, err)
		again := open(t, m, file)
		require.Equal(t, append(slices.Clone(want[:n]), id.ID), ids(again.View().Refs()), "cut at %d", cut)
		kept := string(m.ReadFile(file)) + string(m.ReadFile(file+store.TornSuffix))
		require.Contains(t, kept, string(whole[strings.LastIndexByte(string(whole[:cut]), '\n')+1:cut]), "no byte is thrown away")
		require.NoError(t, l.Close())
		require.NoError(t, again.Close())
	}
}
