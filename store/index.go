package store

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"troupe/protocol"
)

// kind is the type of an entry in short. Kinds from kindForeign on stand for
// types that troupe does not know; the index keeps their names.
type kind uint16

const (
	kindOther kind = iota // of a file with more foreign types than a kind can count
	kindMessage
	kindModelChange
	kindThinkingLevel
	kindCompaction
	kindBranchSummary
	kindCustomMessage
	kindLabel
	kindSessionInfo
	kindContextEdit
	kindUsage
	kindCustom
	kindTodos // custom entries of troupe's own that belong to the conversation
	kindRules
	kindQueueOp // and those that are its bookkeeping
	kindToolOp
	kindTroupe // any other
	kindForeign
)

// kindNames are the types on the wire.
var kindNames = [kindForeign]string{
	"unknown", "message", "model_change", "thinking_level_change", "compaction", "branch_summary",
	"custom_message", "label", "session_info", "context_edit", "usage", "custom", "custom", "custom", "custom", "custom", "custom",
}

// isTroupe says whether entries of this kind are troupe's bookkeeping.
func (k kind) isTroupe() bool { return k >= kindQueueOp && k <= kindTroupe }

// isOwn says whether entries of this kind are troupe's: clients do not see them.
func (k kind) isOwn() bool { return k >= kindTodos && k <= kindTroupe }

// role is the role of a message entry in short.
type role uint8

const (
	roleNone role = iota // no message, or a role that troupe does not know
	roleUser
	roleAssistant
	roleToolResult
	roleBashExecution
	roleCustom
	roleBranchSummary
	roleCompactionSummary
	roleSystem
)

var roleNames = [...]string{
	"", "user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary", "system",
}

func roleOf(name []byte) role {
	if string(name) == "hookMessage" { // the name of custom before version 3
		return roleCustom
	}
	return role(max(0, slices.Index(roleNames[:], string(name))))
}

// slot flags.
const (
	flagWideID  = 1 << iota // id is an index into names
	flagOrphan              // names a parent that is not in the file
	flagQueueID             // carries troupeQueueId
	flagKey                 // carries troupeKey
	flagUsage               // says what it cost
)

// none is the slot number of "no entry".
const none int32 = -1

// slot is all that is kept in memory of an entry of a session file: 24 bytes.
// A slot never changes once the index has handed it out, so that views may
// read it without a lock.
type slot struct {
	off    int64
	id     uint32 // its 8 hex digits as a number, or see flagWideID
	parent int32  // slot number; none for roots and orphans. Following parents always ends.
	size   uint32 // bytes of the line without its end
	kind   kind
	role   role
	flags  uint8
}

// index finds entries by id. Ids of 8 hex digits, which all ids are that pi or
// troupe made, cost nothing beside their slot and a cell or two of a table.
type index struct {
	slots   []slot
	byID    idTable  // of the slots that have no name
	ids     idFilter // of the same
	names   []string // other ids
	byName  map[string]int32
	foreign []string // names of kinds from kindForeign on
	forward []forwardRef
}

// forwardRef is a parent that had not been seen when its child was added.
type forwardRef struct {
	child  int32
	parent string
}

// find returns the newest entry with the id.
func (x *index) find(id string) int32 {
	return x.findBytes([]byte(id))
}

func (x *index) findBytes(id []byte) int32 {
	if n, ok := packID(id); ok {
		return x.findPacked(n)
	}
	if i, ok := x.byName[string(id)]; ok {
		return i
	}
	return none
}

// findPacked looks first at the last entry, which is what the next one follows
// in all but a few places of a session.
func (x *index) findPacked(id uint32) int32 {
	if n := len(x.slots) - 1; n >= 0 && x.slots[n].id == id && x.slots[n].flags&flagWideID == 0 {
		return int32(n)
	}
	return x.byID.find(x.slots, id)
}

// fresh says that no entry has the id. Now and then it is wrong about one that
// none has.
func (x *index) fresh(id uint32) bool { return !x.ids.mayHave(x.slots, id) }

// entry is what a line adds to an index, as far as that can be said without
// the lines before it.
type entry struct {
	slot         // parent, a foreign kind and a wide id are not known yet
	named uint32 // the parent, if hasNamed
	rest  *entryRest

	hasNamed bool
}

// entryRest is what few entries have. It is nil for those that have none of it.
type entryRest struct {
	id, parent []byte // ids that are not packed
	kind       []byte // a type that troupe does not know
}

// entryOf reads the entry of a line. It reports false for lines that are no
// entries: without a type or an id, or the header's double.
func entryOf(h *lineHead, off int64, size int) (e entry, ok bool) {
	if h.kind == nil || len(h.id) == 0 || string(h.kind) == "session" {
		return e, false
	}
	var rest entryRest
	e.slot = slot{off: off, size: uint32(size), parent: none, kind: kindOf(h)}
	if e.kind == kindMessage {
		e.role = roleOf(h.message.role)
	}
	if e.kind == kindForeign {
		rest.kind = h.kind
	}
	if len(h.queueID) > 0 {
		e.flags |= flagQueueID
	}
	if len(h.key) > 0 {
		e.flags |= flagKey
	}
	if len(h.usage()) > 0 {
		e.flags |= flagUsage
	}
	if e.id, ok = packID(h.id); !ok {
		e.flags |= flagWideID
		rest.id = h.id
	}
	if e.named, e.hasNamed = packID(h.parent); !e.hasNamed && len(h.parent) > 0 {
		rest.parent = h.parent
	}
	if rest.id != nil || rest.parent != nil || rest.kind != nil {
		e.rest = &entryRest{rest.id, rest.parent, rest.kind}
	}
	return e, true
}

// addLine adds the entry of a line. It reports false for lines that are no
// entries.
func (x *index) addLine(h *lineHead, off int64, size int) bool {
	e, ok := entryOf(h, off, size)
	if ok {
		x.add(&e)
	}
	return ok
}

// add appends an entry. The parent of a duplicated id is its nearest
// predecessor.
func (x *index) add(e *entry) {
	s, me := e.slot, int32(len(x.slots))
	if e.hasNamed {
		s.parent = x.findPacked(e.named)
	}
	if r := e.rest; r != nil {
		if r.kind != nil {
			s.kind = x.foreignKind(r.kind)
		}
		if r.parent != nil {
			s.parent = x.findBytes(r.parent)
		}
	}
	if s.parent == none {
		if id := e.parentID(); id != "" {
			s.flags |= flagOrphan
			x.forward = append(x.forward, forwardRef{me, id})
		}
	}
	if s.flags&flagWideID != 0 {
		s.id = x.name(e.rest.id, me)
	}
	x.slots = append(x.slots, s)
}

// parentID is the id of the parent that the entry names, "" for none.
func (e *entry) parentID() string {
	switch {
	case e.hasNamed:
		return string(appendID(nil, e.named))
	case e.rest != nil:
		return string(e.rest.parent)
	}
	return ""
}

// name makes an entry findable by an id that is not packed and returns the
// name's number.
func (x *index) name(id []byte, me int32) uint32 {
	name := string(id)
	x.names = append(x.names, name)
	if x.byName == nil {
		x.byName = make(map[string]int32)
	}
	x.byName[name] = me
	return uint32(len(x.names) - 1)
}

// kindOf is the kind of a line's entry, kindForeign for all types that troupe
// does not know.
func kindOf(h *lineHead) kind {
	if string(h.kind) == "custom" {
		return customKind(h.custom)
	}
	for k := kindMessage; k < kindCustom; k++ {
		if string(h.kind) == kindNames[k] {
			return k
		}
	}
	return kindForeign
}

func (x *index) foreignKind(typ []byte) kind {
	for i, name := range x.foreign {
		if name == string(typ) {
			return kindForeign + kind(i)
		}
	}
	if len(x.foreign) >= 1000 {
		return kindOther
	}
	// A fresh list, because views hold the old one.
	x.foreign = append(slices.Clip(x.foreign), string(typ))
	return kindForeign + kind(len(x.foreign)-1)
}

func customKind(customType []byte) kind {
	switch string(customType) {
	case protocol.CustomQueue:
		return kindQueueOp
	case protocol.CustomTodos:
		return kindTodos
	case protocol.CustomRules:
		return kindRules
	case protocol.CustomTool:
		return kindToolOp
	}
	if strings.HasPrefix(string(customType), customPrefix) {
		return kindTroupe
	}
	return kindCustom
}

// resolve finds the parents that came after their children, as in files that
// were put together by hand, and makes sure that following parents ends. Slots
// before from are in use by views and stay as they are.
func (x *index) resolve(from int32) {
	if len(x.forward) == 0 {
		return
	}
	for _, ref := range x.forward {
		if p := x.find(ref.parent); p != none && p != ref.child {
			x.slots[ref.child].parent = p
			x.slots[ref.child].flags &^= flagOrphan
		}
	}
	x.forward = nil
	x.cutCycles(from)
}

// cutCycles walks up from every entry until it reaches a root or an entry it
// has met before; meeting one of the same walk means that there is a ring.
func (x *index) cutCycles(from int32) {
	met := make([]int32, len(x.slots)) // the walk that met the slot, counted from 1
	for i := from; i < int32(len(x.slots)); i++ {
		walk, at := i+1, i
		for at >= from && met[at] == 0 {
			met[at] = walk
			at = x.slots[at].parent
		}
		if at >= from && met[at] == walk {
			x.openRing(at)
		}
	}
}

// openRing cuts a ring where a child stands before its parent in the file,
// which every ring does somewhere.
func (x *index) openRing(at int32) {
	for x.slots[at].parent < at {
		at = x.slots[at].parent
	}
	x.slots[at].parent = none
	x.slots[at].flags |= flagOrphan
}

// reserve makes room for n entries.
func (x *index) reserve(n int) { x.slots = slices.Grow(x.slots, max(0, n-len(x.slots))) }

// trim gives back what growing left over, after a load.
func (x *index) trim() {
	if cap(x.slots)-len(x.slots) > len(x.slots)/8 {
		x.slots = slices.Clone(x.slots)
	}
}

// idTable finds slots by their packed id: the newest of those that have it. It
// is an open hash table of slot numbers, half the size of a map, which would
// have the ids a second time. It is brought up to date when it is asked: all
// at once that takes a fraction of the time, and loading an ordinary session
// does not ask.
type idTable struct {
	cells []int32 // slot numbers from 1, 0 for empty; a power of two of them, at most half full
	shift uint8   // the bits of a product that are left number the cells
	seen  int     // slots that are in it
}

// idFactor spreads ids over a table. It is different in every process, so that
// nobody can write a file whose ids meet in few cells.
var idFactor = rand.Uint64() | 1

// cell is where the search for an id begins.
func (t *idTable) cell(id uint32) int { return int(uint64(id) * idFactor >> t.shift) }

// find returns the newest of the slots with the id.
func (t *idTable) find(slots []slot, id uint32) int32 {
	t.update(slots)
	for c := t.cell(id); ; c = (c + 1) & (len(t.cells) - 1) {
		i := t.cells[c] - 1
		if i == none || slots[i].id == id {
			return i
		}
	}
}

func (t *idTable) update(slots []slot) {
	if 2*len(slots) >= len(t.cells) {
		size := max(16, 1<<bits.Len(uint(2*len(slots))))
		t.cells, t.shift, t.seen = make([]int32, size), uint8(64-bits.TrailingZeros(uint(size))), 0
	}
	for ; t.seen < len(slots); t.seen++ {
		if slots[t.seen].flags&flagWideID == 0 {
			t.put(slots, int32(t.seen))
		}
	}
}

// put makes a slot findable, in the place of one with the same id.
func (t *idTable) put(slots []slot, i int32) {
	for c := t.cell(slots[i].id); ; c = (c + 1) & (len(t.cells) - 1) {
		if old := t.cells[c] - 1; old == none || slots[old].id == slots[i].id {
			t.cells[c] = i + 1
			return
		}
	}
}

// idFilter knows of most ids that no slot has them, from so few bits that they
// stay in the processor's cache: each new id is looked for in vain, and for that
// the table is too large. Like the table, it is brought up to date when it is
// asked.
type idFilter struct {
	bits  []uint64 // a power of two of them, at most one bit in 8 set
	shift uint8    // the bits of a product that are left number the bits
	seen  int      // slots that are in it
}

// mayHave is false if none of the slots has the id.
func (f *idFilter) mayHave(slots []slot, id uint32) bool {
	if len(slots) >= 8*len(f.bits) {
		size := 1 << bits.Len(uint(len(slots)/8))
		f.bits, f.shift, f.seen = make([]uint64, size), uint8(64-bits.TrailingZeros(uint(64*size))), 0
	}
	for ; f.seen < len(slots); f.seen++ {
		if slots[f.seen].flags&flagWideID == 0 {
			word, bit := f.place(slots[f.seen].id)
			f.bits[word] |= bit
		}
	}
	word, bit := f.place(id)
	return f.bits[word]&bit != 0
}

// place is where the bit of an id is: nobody can write a file that sets more
// bits than it has ids, so it may be the same in every process.
func (f *idFilter) place(id uint32) (word int, bit uint64) {
	const golden = 0x9e3779b97f4a7c15
	n := uint64(id) * golden >> f.shift
	return int(n / 64), 1 << (n % 64)
}

// packID reads an id of exactly 8 lower-case hex digits.
func packID(id []byte) (uint32, bool) {
	if len(id) != 8 {
		return 0, false
	}
	n, all := uint32(0), byte(0)
	for _, c := range id {
		v := hexValues[c]
		all |= v
		n = n<<4 | uint32(v)
	}
	return n, all <= 0xf
}

// hexValues has 0xff for what is no lower-case hex digit.
var hexValues = func() (values [256]byte) {
	for c := range values {
		values[c] = 0xff
	}
	for v, c := range []byte(hexDigits) {
		values[c] = byte(v)
	}
	return values
}()

const hexDigits = "0123456789abcdef"

// appendID appends the 8 hex digits of a packed id.
func appendID(dst []byte, id uint32) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[id>>shift&15])
	}
	return dst
}
