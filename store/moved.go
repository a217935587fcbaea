package store

import (
	"encoding/json"
	"slices"

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

// Moved says where the session goes on, if that is a cluster.
func (v View) Moved() (op protocol.MovedOp, moved bool) {
	own := v.all(func(s *slot) bool { return s.kind == kindTroupe })
	for _, i := range slices.Backward(own) {
		r, err := v.record(i)
		if err != nil {
			continue
		}
		if e, ok := r.Entry.(protocol.Custom); ok && e.CustomType == protocol.CustomMoved {
			moved = json.Unmarshal(e.Data, &op) == nil
			return op, moved
		}
	}
	return op, false
}
