package store

import "fmt"

// group is what has been appended since Begin. Its entries are complete and
// have ids, but they are part of the log only when Commit has written them, all
// with one write and, where entries are durable, one fsync.
type group struct {
	open    bool
	durable bool
	text    []byte
	ends    []int // of each entry's line in text, before its line feed
	ids     []string
}

// Begin opens a group: entries appended from here on are written by Commit.
// Until then the log is as it was, except that Leaf and Has know them.
func (l *Log) Begin() {
	l.group = group{open: true, text: l.group.text[:0], ends: l.group.ends[:0], ids: l.group.ids[:0]}
}

// stage keeps an entry's line, which has its line feed.
func (l *Log) stage(line []byte, id string, durable bool) {
	g := &l.group
	g.text = append(g.text, line...)
	g.ends = append(g.ends, len(g.text)-1)
	g.ids = append(g.ids, id)
	g.durable = g.durable || durable
}

// Commit writes the group. An error, marked ErrNotDurable as in Append, says
// that none of its entries is part of the log.
func (l *Log) Commit() error {
	g := l.group
	l.Discard()
	if len(g.ids) == 0 {
		return nil
	}
	off, err := l.write(g.text, g.durable)
	if err != nil {
		return fmt.Errorf("append to session %s: %w: %w", l.name(), ErrNotDurable, err)
	}
	begin := 0
	for _, end := range g.ends {
		var h lineHead
		scanLine(g.text[begin:end], &h) // it was looked at before it was staged
		l.idx.addLine(&h, off+int64(begin), end-begin)
		begin = end + 1
	}
	l.leaf = int32(len(l.idx.slots)) - 1
	return nil
}

// Discard closes a group without writing it.
func (l *Log) Discard() {
	g := &l.group
	if cap(g.text) > maxScratch {
		g.text = nil
	}
	l.group = group{text: g.text[:0], ends: g.ends[:0], ids: g.ids[:0]}
}
