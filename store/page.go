package store

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"troupe/protocol"
)

// Page says which of the sessions of a listing are wanted. The zero value is all of them,
// whole.
type Page struct {
	Words    string // that all stand in the name, the directory or the text
	Limit    int    // at most so many, 0 for all
	Cursor   string // those behind the one that an earlier page has ended with
	Textless bool   // without AllMessagesText
}

// Of takes the page out of a list. next leads to the one behind it, "" if there is none; ok
// is false if the cursor is none.
func (p Page) Of(list []protocol.SessionSummary) (page []protocol.SessionSummary, next string, ok bool) {
	if p.Limit > 0 || p.Cursor != "" {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b protocol.SessionSummary) int { return inOrder(&a, b.Modified, b.Path) })
	}
	modified, path, ok := p.from()
	if !ok {
		return nil, "", false
	}
	words := strings.Fields(strings.ToLower(p.Words))
	page = []protocol.SessionSummary{}
	for i := range list {
		s := list[i]
		if p.Cursor != "" && inOrder(&s, modified, path) <= 0 || !has(&s, words) {
			continue
		}
		if p.Limit > 0 && len(page) == p.Limit {
			last := page[len(page)-1]
			return page, base64.RawURLEncoding.EncodeToString([]byte(last.Modified + "\n" + last.Path)), true
		}
		if p.Textless {
			s.AllMessagesText = nil
		}
		page = append(page, s)
	}
	return page, "", true
}

// inOrder compares a session with a place in the order of pages: the latest first.
func inOrder(s *protocol.SessionSummary, modified, path string) int {
	return cmp.Or(strings.Compare(modified, s.Modified), strings.Compare(s.Path, path))
}

// from is the place that the cursor names.
func (p Page) from() (modified, path string, ok bool) {
	if p.Cursor == "" {
		return "", "", true
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	modified, path, ok = strings.Cut(string(raw), "\n")
	return modified, path, ok && err == nil
}

func has(s *protocol.SessionSummary, words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(strings.Join([]string{s.Name, s.Cwd, s.FirstMessage, s.Text()}, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}
