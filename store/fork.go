package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"troupe/protocol"
)

// Fork makes a new session of the view's branch. The header names the new
// session; its parentSession is filled in unless it is set.
//
// Entries keep their ids and their bytes. Left out are labels, which come
// again at the end for the entries that are there, and troupe's bookkeeping,
// which belongs to the old session's process; what followed them follows what
// they followed. The new file is written at once if the branch contains a
// message, or somebody keeps the session; else with the first durable append. The old session is only read.
func Fork(fsys FS, v View, path string, header protocol.Header, o Options) (*Log, error) {
	l, err := fork(fsys, v, path, header, o)
	if err != nil {
		return nil, fmt.Errorf("fork session %s: %w", v.path, err)
	}
	return l, nil
}

func fork(fsys FS, v View, path string, header protocol.Header, o Options) (*Log, error) {
	header.ParentSession = cmp.Or(header.ParentSession, v.path)
	l := NewLog(fsys, path, header, o)
	c := newCopier(v, v.branch())
	for entry, err := range v.lines(c.list) {
		if err != nil {
			return nil, err
		}
		if err := l.appendLine(c.adapt(entry), v.id(entry.slot), false); err != nil {
			return nil, err
		}
	}
	l.idx.resolve(0)
	if err := c.relabel(l); err != nil {
		return nil, err
	}
	if path == "" || o.Commit == nil && !slices.ContainsFunc(c.list, func(i int32) bool { return v.slots[i].kind == kindMessage }) {
		return l, nil
	}
	if _, err := l.write(nil, true); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotDurable, err)
	}
	return l, nil
}

// copier takes a branch over into a new session.
type copier struct {
	view View
	list []int32           // the entries that are copied
	next map[string]string // id of an entry that is not → id of the next that is, for compactions
}

// isForked says whether a fork copies entries of a kind.
func (k kind) isForked() bool { return k != kindLabel && !k.isTroupe() }

func newCopier(v View, branch []int32) *copier {
	c := &copier{view: v, next: map[string]string{}}
	next := ""
	for _, i := range slices.Backward(branch) {
		if !v.slots[i].kind.isForked() {
			c.next[v.id(i)] = next
			continue
		}
		next = v.id(i)
		c.list = append(c.list, i)
	}
	slices.Reverse(c.list)
	return c
}

// adapt gives an entry the parent it has in the new session, and a compaction
// the first kept entry. A line that needs neither is taken as it is.
func (c *copier) adapt(l *line) []byte {
	b := slices.Clone(l.wire())
	slot := &c.view.slots[l.slot]
	if slot.parent != none {
		parent := slot.parent
		for parent != none && !c.view.slots[parent].kind.isForked() {
			parent = c.view.slots[parent].parent
		}
		if parent != slot.parent {
			b = setMember(b, "parentId", quoteID(c.view.id(parent)))
		}
	}
	if slot.kind == kindCompaction {
		if next, dropped := c.next[rawString(b, "firstKeptEntryId")]; dropped {
			b = setMember(b, "firstKeptEntryId", quote(next))
		}
	}
	return b
}

func quoteID(id string) []byte {
	if id == "" {
		return []byte("null")
	}
	return quote(id)
}

// relabel repeats the labels of the entries that were copied, in the order in
// which the entries stand.
func (c *copier) relabel(l *Log) error {
	found, when := labels{}, map[string]int64{}
	for entry, err := range c.view.lines(c.view.all(func(s *slot) bool { return s.kind == kindLabel })) {
		if err != nil {
			return err
		}
		found.take(entry)
		when[rawString(entry.b, "targetId")] = protocol.ParseTime(string(entry.head.stamp))
	}
	for _, ref := range l.View().Refs() {
		if label, ok := found[ref.ID]; ok {
			if _, err := l.Append(protocol.Label{TargetID: ref.ID, Label: label}, when[ref.ID], false); err != nil {
				return err
			}
		}
	}
	return nil
}

// ErrNotUserMessage: only user messages can be forked before.
var ErrNotUserMessage = errors.New("not a user message")

// ForkPoint finds what a fork before a user message needs: the leaf of the
// branch to copy, "" if the message stands first, and the message's text.
func (v View) ForkPoint(entryID string) (leaf, text string, err error) {
	i := v.find(entryID)
	if i == none {
		return "", "", noEntry(entryID)
	}
	if v.slots[i].role != roleUser {
		return "", "", fmt.Errorf("entry %q: %w", entryID, ErrNotUserMessage)
	}
	for l, err := range v.lines([]int32{i}) {
		if err != nil {
			return "", "", err
		}
		text = contentText(l.head.message.content, "")
	}
	return v.id(v.slots[i].parent), text, nil
}
