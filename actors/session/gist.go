package session

import (
	"strings"

	"troupe/protocol"
	"troupe/store"
)

// gist is by what people know a session in a list: the beginning of its first message, and
// of its last answer.
type gist struct {
	known       bool // else it is read when somebody wants to know
	first, last string
}

// maxSaidBytes is how much of each is told, in bytes.
const maxSaidBytes = 200

// note takes up an entry of the branch.
func (w *gist) note(e protocol.Entry) {
	m, is := e.(protocol.MessageEntry)
	if !is || !w.known {
		return
	}
	switch m := m.Message.(type) {
	case *protocol.UserMessage:
		if w.first == "" {
			w.first = beginningOf(m.Content.Text(" "))
		}
	case *protocol.AssistantMessage:
		if text := beginningOf(m.Content.Text(" ")); text != "" {
			w.last = text
		}
	default: // nobody knows a session by it
	}
}

// read looks for both in a log. What cannot be read is left out.
func (w *gist) read(view store.View) {
	*w = gist{known: true}
	first := view.FirstUser()
	if r, err := view.Record(first); first != "" && err == nil {
		w.note(r.Entry)
	}
	if text, err := view.LastAssistantText(true); err == nil && text != nil {
		w.last = beginningOf(*text)
	}
}

// beginningOf is the first line of a text that has anything in it, cut.
func beginningOf(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return protocol.Prefix(strings.TrimSpace(line), maxSaidBytes)
}

// whatWasSaid is said of the session as it is now.
func (s *Session) whatWasSaid() gist {
	if !s.reported.said.known && s.file.Log != nil {
		s.reported.said.read(s.file.View())
	}
	return s.reported.said
}
