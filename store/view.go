package store

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"troupe/protocol"
)

// View is a snapshot of a session: its entries up to a moment, and a leaf.
// Views are values, cheap to take and to pass on. Any goroutine may read from
// one while the log's owner goes on appending; nothing that is appended or
// moved later shows in it. Once the log is closed, reading entries fails with
// fs.ErrClosed.
//
// Entries are read from the file when they are asked for, and checked: if
// somebody has overwritten them the error is ErrChanged.
type View struct {
	path    string
	header  protocol.Header
	slots   []slot
	names   []string
	foreign []string
	leaf    int32
	file    File   // nil if everything is in buf
	buf     []byte // the file's content while it is not on disk
}

// Ref is an entry without its body.
type Ref struct {
	ID     string
	Type   string // as in the file; "unknown" if there are too many different ones
	Role   string // of a message, if troupe knows it
	Offset int64  // of the line in the file
	Size   int    // of the line in bytes
}

// Path is the session's file, "" for a session in memory.
func (v View) Path() string { return v.path }

// Header is the session's header.
func (v View) Header() protocol.Header { return v.header }

// Leaf is the id of the view's leaf, "" for none.
func (v View) Leaf() string { return v.id(v.leaf) }

// Len is the number of entries on all branches.
func (v View) Len() int { return len(v.slots) }

// At is the same snapshot with another leaf, "" for none.
func (v View) At(leaf string) (View, error) {
	i, err := v.lookup(leaf)
	v.leaf = i
	return v, err
}

// Record reads an entry.
func (v View) Record(id string) (protocol.Record, error) {
	i := v.find(id)
	if i == none {
		return protocol.Record{}, noEntry(id)
	}
	return v.record(i)
}

// Raw reads an entry's line, without its end. It is valid JSON in UTF-8.
func (v View) Raw(id string) ([]byte, error) {
	i := v.find(id)
	if i == none {
		return nil, noEntry(id)
	}
	return v.raw(i)
}

// Branch lists the entries from the root to the leaf.
func (v View) Branch() []Ref { return v.refs(v.branch()) }

// Back goes through the entries from the leaf to the root.
func (v View) Back() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for i := v.leaf; i != none; i = v.slots[i].parent {
			if !yield(v.refs([]int32{i})[0]) {
				return
			}
		}
	}
}

// FirstUser is the id of the branch's first message of a user, "" for none.
func (v View) FirstUser() string {
	first := int32(none)
	for i := v.leaf; i != none; i = v.slots[i].parent {
		if v.slots[i].role == roleUser {
			first = i
		}
	}
	return v.id(first)
}

// Refs lists all entries in the order of the file.
func (v View) Refs() []Ref { return v.refs(v.all(nil)) }

// all lists the slots in the order of the file: those that are wanted, nil for
// every one.
func (v View) all(wanted func(*slot) bool) []int32 {
	all := make([]int32, 0, len(v.slots))
	for i := range v.slots {
		if wanted == nil || wanted(&v.slots[i]) {
			all = append(all, int32(i))
		}
	}
	return all
}

// Records reads the entries from the root to the leaf.
func (v View) Records() ([]protocol.Record, error) { return v.records(v.branch()) }

func (v View) refs(list []int32) []Ref {
	refs := make([]Ref, len(list))
	for n, i := range list {
		s := &v.slots[i]
		refs[n] = Ref{s.name(v.names), v.typeOf(s.kind), roleNames[s.role], s.off, int(s.size)}
	}
	return refs
}

func (v View) typeOf(k kind) string {
	if k < kindForeign {
		return kindNames[k]
	}
	return v.foreign[k-kindForeign]
}

// id is an entry's id, "" for none.
func (v View) id(i int32) string {
	if i == none {
		return ""
	}
	return v.slots[i].name(v.names)
}

// name is the slot's id; names are the index's ids that are not numbers.
func (s *slot) name(names []string) string {
	if s.flags&flagWideID != 0 {
		return names[s.id]
	}
	return string(appendID(make([]byte, 0, 8), s.id))
}

// lookup finds an entry that has to exist; "" is none.
func (v View) lookup(id string) (int32, error) {
	if id == "" {
		return none, nil
	}
	i := v.find(id)
	if i == none {
		return none, noEntry(id)
	}
	return i, nil
}

// find returns the newest entry with the id. A view has no map, because the
// log goes on writing to it; looking at every slot takes a tenth of a
// millisecond where there are a hundred thousand.
func (v View) find(id string) int32 {
	n, packed := packID([]byte(id))
	for i := len(v.slots) - 1; i >= 0; i-- {
		s := &v.slots[i]
		wide := s.flags&flagWideID != 0
		if packed && !wide && s.id == n || !packed && wide && v.names[s.id] == id {
			return int32(i)
		}
	}
	return none
}

// shown is an entry, or the nearest one before it, that clients see.
func (v View) shown(i int32) int32 {
	for i != none && v.slots[i].kind.isOwn() {
		i = v.slots[i].parent
	}
	return i
}

// ShownLeaf is the id of the leaf as clients see it, "" for none.
func (v View) ShownLeaf() string { return v.id(v.shown(v.leaf)) }

// shownLine is an entry as clients see it: its line in the file, behind an entry
// that they see.
func (v View) shownLine(l *line) []byte {
	b := slices.Clone(l.wire())
	if parent := v.slots[l.slot].parent; v.shown(parent) != parent || l.head.stray {
		b = setMember(b, "parentId", quoteID(v.id(v.shown(parent))))
	}
	return b
}

func (v View) branch() []int32 { return v.pathTo(v.leaf) }

// pathTo lists the slots from the root to an entry.
func (v View) pathTo(i int32) []int32 {
	var path []int32
	for ; i != none; i = v.slots[i].parent {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

func (v View) record(i int32) (protocol.Record, error) {
	line, err := v.raw(i)
	if err != nil {
		return protocol.Record{}, err
	}
	return protocol.DecodeRecord(line)
}

func (v View) records(list []int32) ([]protocol.Record, error) {
	records := make([]protocol.Record, 0, len(list))
	for line, err := range v.lines(list) {
		if err != nil {
			return nil, err
		}
		r, err := protocol.DecodeRecord(line.wire())
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

func (v View) raw(i int32) ([]byte, error) {
	for line, err := range v.lines([]int32{i}) {
		if err != nil {
			return nil, err
		}
		return slices.Clone(line.wire()), nil
	}
	return nil, noEntry("")
}

// line is an entry on its way through memory, valid until the next one.
type line struct {
	slot int32
	b    []byte
	head lineHead
}

// wire is the line as it may be sent: in UTF-8, without surrounding space.
func (l *line) wire() []byte {
	b := bytes.TrimSpace(l.b)
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	return b
}

// Neighbouring lines are read at once.
const (
	readGap = 4 << 10   // bytes between two lines that are read rather than skipped
	readMax = 256 << 10 // bytes read at once, unless one line is longer
)

// lines reads entries. Reading is fastest in the order of the file.
func (v View) lines(list []int32) iter.Seq2[*line, error] {
	return func(yield func(*line, error) bool) {
		var buf []byte
		var l line
		for len(list) > 0 {
			n, from, to := v.chunk(list)
			b, err := v.bytes(&buf, from, to)
			for _, i := range list[:n] {
				s := &v.slots[i]
				if err == nil {
					l.slot, l.b = i, b[s.off-from:s.off-from+int64(s.size)]
					err = v.check(&l)
				}
				if !yield(&l, err) || err != nil {
					return
				}
			}
			list = list[n:]
		}
	}
}

// chunk says how many of the first entries are to be read at once, and where
// they stand.
func (v View) chunk(list []int32) (n int, from, to int64) {
	for n, i := range list {
		s := &v.slots[i]
		end := s.off + int64(s.size)
		switch {
		case n == 0:
			from, to = s.off, end
		case s.off < to || s.off-to > readGap || end-from > readMax:
			return n, from, to
		default:
			to = end
		}
	}
	return len(list), from, to
}

// bytes are a part of the file, read into buf if need be.
func (v View) bytes(buf *[]byte, from, to int64) ([]byte, error) {
	if v.file == nil {
		return v.buf[from:to], nil
	}
	*buf = slices.Grow((*buf)[:0], int(to-from))[:to-from]
	if err := readFull(v.file, *buf, from); err != nil {
		return nil, fmt.Errorf("read session %s: %w", v.path, err)
	}
	return *buf, nil
}

// check makes sure that what was read is still the entry that was indexed.
func (v View) check(l *line) error {
	s := &v.slots[l.slot]
	if scanLine(l.b, &l.head) {
		if n, ok := packID(l.head.id); ok && s.flags&flagWideID == 0 && n == s.id {
			return nil
		}
		if s.flags&flagWideID != 0 && v.names[s.id] == string(l.head.id) {
			return nil
		}
	}
	return fmt.Errorf("read session %s at %d: %w", v.path, s.off, ErrChanged)
}

// Bash is the record of the bash command that was given with an idempotency key.
// [ErrNoEntry] says that there is none.
func (v View) Bash(key string) (*protocol.BashExecutionMessage, error) {
	for l, err := range v.lines(v.all(func(s *slot) bool { return s.role == roleBashExecution && s.flags&flagKey != 0 })) {
		if err != nil {
			return nil, err
		}
		if protocol.ParseIdempotencyKey(string(l.head.key)).Key != key {
			continue
		}
		r, err := v.record(l.slot)
		if err != nil {
			return nil, err
		}
		if e, ok := r.Entry.(protocol.MessageEntry); ok {
			if b, ok := e.Message.(*protocol.BashExecutionMessage); ok {
				return b, nil
			}
		}
	}
	return nil, noEntry(key)
}
