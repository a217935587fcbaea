package store

import (
	"fmt"
	"slices"
	"sync"
)

// group is what has been appended since Begin. Its entries are complete and
// have ids, but they are part of the log only when Commit has written them, all
// with one write and, where entries are durable, one fsync.
type group struct {
	durable bool
	text    []byte
	lines   []staged
	ids     []string
}

// staged is an entry's line, which is read once: its parts are in the group's text, or in
// what that was before it grew.
type staged struct {
	head       lineHead
	begin, end int // in the text, before its line feed
}

// groups are those that no log has open: between two groups a log needs no memory for them.
var groups = sync.Pool{New: func() any { return new(group) }}

// Begin opens a group of about so many entries and bytes: entries appended from here on
// are written by Commit. Until then the log is as it was, except that Leaf and Has know them.
func (l *Log) Begin(entries, bytes int) {
	l.Discard()
	l.group = groups.Get().(*group)
	g := l.group
	g.text, g.lines, g.ids = slices.Grow(g.text, bytes), slices.Grow(g.lines, entries), slices.Grow(g.ids, entries)
}

// release lets another log have the group, if it is not too large to keep.
func (g *group) release() {
	clear(g.lines) // they would keep the text
	clear(g.ids)
	if cap(g.text) > maxScratch {
		g.text = nil
	}
	*g = group{text: g.text[:0], lines: g.lines[:0], ids: g.ids[:0]}
	groups.Put(g)
}

// has says whether an entry of the group has this id. A nil group has none.
func (g *group) has(id string) bool { return g != nil && slices.Contains(g.ids, id) }

// stage keeps an entry's line, which is what text has beyond the group's, if it is one.
func (g *group) stage(text []byte, id string, durable bool) error {
	at := staged{begin: len(g.text), end: len(text)}
	if !at.head.fits(text[at.begin:], id) {
		return errLine
	}
	g.text = append(text, '\n')
	g.lines, g.ids, g.durable = append(g.lines, at), append(g.ids, id), g.durable || durable
	return nil
}

// Commit writes the group. An error, marked ErrNotDurable as in Append, says
// that none of its entries is part of the log.
func (l *Log) Commit() error {
	g := l.group
	if g == nil {
		return nil
	}
	l.group = nil
	defer g.release()
	if len(g.ids) == 0 {
		return nil
	}
	off, err := l.write(g.text, g.durable)
	if err != nil {
		return fmt.Errorf("append to session %s: %w: %w", l.name(), ErrNotDurable, err)
	}
	for i := range g.lines {
		at := &g.lines[i]
		l.idx.addLine(&at.head, off+int64(at.begin), at.end-at.begin)
	}
	l.leaf = int32(len(l.idx.slots)) - 1
	return nil
}

// Discard closes a group without writing it.
func (l *Log) Discard() {
	if l.group != nil {
		l.group.release()
		l.group = nil
	}
}
