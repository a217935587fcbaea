package store

import (
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
	kindTask
	kindQueueOp // and those that are its bookkeeping
	kindToolOp
	kindApproval
	kindBudget
	kindCommand
	kindTroupe // any other
	kindForeign
)

// kindNames are the types on the wire.
var kindNames = [kindForeign]string{
	"unknown", "message", "model_change", "thinking_level_change", "compaction", "branch_summary",
	"custom_message", "label", "session_info", "context_edit", "usage", "custom", "custom", "custom", "custom", "custom", "custom", "custom", "custom",
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
// troupe made, cost nothing beside their slot and a place in a map.
type index struct {
	slots   []slot
	byID    map[uint32]int32 // the newest slot of each packed id, of those before mapped
	mapped  int
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
// in all but a few places of a session. So loading an ordinary session never asks
// the map, which is brought up to date when somebody does.
func (x *index) findPacked(id uint32) int32 {
	if n := len(x.slots) - 1; n >= 0 && x.slots[n].id == id && x.slots[n].flags&flagWideID == 0 {
		return int32(n)
	}
	if x.byID == nil {
		x.byID = make(map[uint32]int32, len(x.slots))
	}
	for ; x.mapped < len(x.slots); x.mapped++ {
		if s := &x.slots[x.mapped]; s.flags&flagWideID == 0 {
			x.byID[s.id] = int32(x.mapped)
		}
	}
	if i, ok := x.byID[id]; ok {
		return i
	}
	return none
}

// addLine adds the entry of a line. It reports false for lines that are no
// entries: without an id, or the header's double. The parent of a duplicated id
// is its nearest predecessor. An entry without a type only holds its place in
// the tree, so that what follows it keeps its history.
func (x *index) addLine(h *lineHead, off int64, size int) bool {
	if len(h.id) == 0 || string(h.kind) == "session" {
		return false
	}
	s, me := slot{off: off, size: uint32(size), kind: x.kindOf(h)}, int32(len(x.slots))
	if s.kind == kindMessage {
		s.role = roleOf(h.message.role)
	}
	if len(h.queueID) > 0 {
		s.flags |= flagQueueID
	}
	if len(h.key) > 0 {
		s.flags |= flagKey
	}
	if len(h.usage()) > 0 {
		s.flags |= flagUsage
	}
	if s.parent = x.findBytes(h.parent); s.parent == none && len(h.parent) > 0 {
		s.flags |= flagOrphan
		x.forward = append(x.forward, forwardRef{me, string(h.parent)})
	}
	if h.stray {
		s.parent = me - 1 // none before the first
	}
	id, packed := packID(h.id)
	if s.id = id; !packed {
		s.flags |= flagWideID
		s.id = x.name(h.id, me)
	}
	x.slots = append(x.slots, s)
	return true
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

// kindOf is the kind of a line's entry.
func (x *index) kindOf(h *lineHead) kind {
	if string(h.kind) == "custom" {
		return customKind(h.custom)
	}
	for k := kindMessage; k < kindCustom; k++ {
		if string(h.kind) == kindNames[k] {
			return k
		}
	}
	return x.foreignKind(h.kind)
}

// foreignKind is the kind of a type that troupe does not know.
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
	case protocol.CustomTask:
		return kindTask
	case protocol.CustomTool:
		return kindToolOp
	case protocol.CustomApproval:
		return kindApproval
	case protocol.CustomBudget:
		return kindBudget
	case protocol.CustomCommand:
		return kindCommand
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

// trim gives back what growing left over, after a load.
func (x *index) trim() {
	if cap(x.slots)-len(x.slots) > len(x.slots)/8 {
		x.slots = slices.Clone(x.slots)
	}
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
