package store

import (
	"encoding/json"
	"iter"

	"troupe/protocol"
)

// mostText is how many bytes Text gives at once, unless a single line has more.
const mostText = 1 << 20

// Text gives a session as its file is in the current version: whole lines, the header first.
func (v View) Text(f func(lines []byte) error) error {
	text := append(v.header.AppendJSON(nil), '\n')
	for line, err := range v.lines(v.all(nil)) {
		if err != nil {
			return err
		}
		if len(text)+len(line.b) >= mostText {
			if err := f(text); err != nil {
				return err
			}
			text = text[:0]
		}
		text = append(append(text, line.b...), '\n')
	}
	return f(text)
}

// Moved says where the session goes on, if that is a cluster: troupe writes nothing behind the entry
// that says so.
func (v View) Moved() (op protocol.MovedOp, moved bool) {
	for e := range v.ownBack() {
		return op, e.CustomType == protocol.CustomMoved && json.Unmarshal(e.Data, &op) == nil
	}
	return op, false
}

// Adopted says where the session works, if that was changed when another node of a cluster took it over.
func (v View) Adopted() (op protocol.AdoptedOp, adopted bool) {
	for e := range v.ownBack() {
		if e.CustomType == protocol.CustomAdopted {
			return op, json.Unmarshal(e.Data, &op) == nil
		}
	}
	return op, false
}

// Worked is the newest entry that says that something was run which may have changed files, a tool or a command, or that
// the model was told that a node was lost; "" for none.
func (v View) Worked() string { return v.id(v.work(0)) }

// WorkedSince says whether there is such an entry behind a place, "" for the beginning. inRun leaves out what stands behind
// the newest message of a user.
func (v View) WorkedSince(place string, inRun bool) bool {
	end := int32(len(v.slots))
	for inRun && end > 0 {
		end--
		inRun = v.slots[end].role != roleUser
	}
	at := v.work(len(v.slots) - int(end))
	return at != none && (place == "" || at > v.find(place))
}

// work is the slot of the newest such entry but for some at the end.
func (v View) work(but int) int32 {
	for i := int32(len(v.slots)-but) - 1; i >= 0; i-- {
		switch s := v.slots[i]; {
		case s.role == roleToolResult, s.role == roleBashExecution:
			return i
		case s.kind == kindCustomMessage:
			r, err := v.record(i)
			if e, is := r.Entry.(protocol.CustomMessageEntry); err == nil && is && e.CustomType == protocol.NoteFailover {
				return i
			}
		}
	}
	return none
}

// Choices is the newest [protocol.ChoicesOp] of the file; nil for none.
func (v View) Choices() json.RawMessage {
	for e := range v.ownBack() {
		if e.CustomType == protocol.CustomChoices {
			return e.Data
		}
	}
	return nil
}

// ownBack is troupe's own entries that bear on no branch, the newest first, as far as they can be read.
func (v View) ownBack() iter.Seq[protocol.Custom] {
	return func(yield func(protocol.Custom) bool) {
		for i := len(v.slots) - 1; i >= 0; i-- {
			if v.slots[i].kind != kindTroupe {
				continue
			}
			r, err := v.record(int32(i))
			if e, ok := r.Entry.(protocol.Custom); err != nil || ok && !yield(e) {
				return
			}
		}
	}
}
