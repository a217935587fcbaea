package store

import (
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
// message, else with the first durable append. The old session is only read.
func Fork(fsys FS, v View, path string, header protocol.Header, o Options) (*Log, error) {
	l, err := fork(fsys, v, path, header, o)
	if err != nil {
		return nil, fmt.Errorf("fork session %s: %w", v.path, err)
	}
	return l, nil
}

func fork(fsys FS, v View, path string, header protocol.Header, o Options) (*Log, error) {
	branch := v.branch()
	c := newCopier(v, branch, func(k kind) bool { return k == kindLabel || k.isTroupe() })
	l := c.start(fsys, path, header, o)
	if err := c.copyTo(l, branch); err != nil {
		return nil, err
	}
	if err := c.relabel(l); err != nil {
		return nil, err
	}
	hasMessage := slices.ContainsFunc(branch, func(i int32) bool { return v.slots[i].kind == kindMessage })
	return l, l.bear(hasMessage)
}

// Copy makes a new session of a whole one, every branch of it, for another
// working directory: the header's. Lines keep their bytes and their order.
// Left out are broken lines and troupe's bookkeeping. The new file is written
// at once; if that fails it does not exist.
func Copy(fsys FS, v View, path string, header protocol.Header, o Options) (*Log, error) {
	all := make([]int32, len(v.slots))
	for i := range all {
		all[i] = int32(i)
	}
	c := newCopier(v, all, kind.isTroupe)
	l := c.start(fsys, path, header, o)
	err := c.copyTo(l, all)
	if err == nil {
		err = l.bear(true)
	}
	if err != nil {
		return nil, fmt.Errorf("copy session %s: %w", v.path, err)
	}
	return l, nil
}

// copier takes entries over into a new session.
type copier struct {
	view View
	drop func(kind) bool
	next map[string]string // id of a dropped entry → id of the next that is kept, for compactions
	kept map[string]bool
}

// newCopier looks ahead over the entries that will be copied.
func newCopier(v View, list []int32, drop func(kind) bool) *copier {
	c := &copier{view: v, drop: drop, next: map[string]string{}, kept: make(map[string]bool, len(list))}
	next := ""
	for _, i := range slices.Backward(list) {
		id := v.id(i)
		if drop(v.slots[i].kind) {
			c.next[id] = next
			continue
		}
		next = id
		c.kept[id] = true
	}
	return c
}

func (c *copier) start(fsys FS, path string, header protocol.Header, o Options) *Log {
	if header.ParentSession == "" {
		header.ParentSession = c.view.path
	}
	return NewLog(fsys, path, header, o)
}

func (c *copier) copyTo(l *Log, list []int32) error {
	keep := slices.DeleteFunc(slices.Clone(list), func(i int32) bool { return c.drop(c.view.slots[i].kind) })
	for entry, err := range c.view.lines(keep) {
		if err != nil {
			return err
		}
		if err := l.appendLine(c.adapt(entry), c.view.id(entry.slot), false); err != nil {
			return err
		}
	}
	l.idx.resolve(0)
	return nil
}

// adapt gives an entry the parent it has in the new session, and a compaction
// the first kept entry. A line that needs neither is taken as it is.
func (c *copier) adapt(l *line) []byte {
	b := slices.Clone(l.wire())
	slot := &c.view.slots[l.slot]
	if slot.parent != none {
		parent := slot.parent
		for parent != none && c.drop(c.view.slots[parent].kind) {
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
	for i := range c.view.slots {
		if c.view.slots[i].kind != kindLabel {
			continue
		}
		for entry, err := range c.view.lines([]int32{int32(i)}) {
			if err != nil {
				return err
			}
			found.take(entry)
			when[rawString(entry.b, "targetId")] = protocol.ParseTime(string(entry.head.stamp))
		}
	}
	for _, ref := range l.Refs() {
		label, ok := found[ref.ID]
		if !ok || !c.kept[ref.ID] {
			continue
		}
		if _, err := l.Append(protocol.Label{TargetID: ref.ID, Label: label}, when[ref.ID], false); err != nil {
			return err
		}
	}
	return nil
}

// bear writes an unborn session to its file, if it has one and now is true.
func (l *Log) bear(now bool) error {
	if !now || l.path == "" {
		return nil
	}
	if _, err := l.materialise(nil); err != nil {
		return fmt.Errorf("%w: %w", ErrNotDurable, err)
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
