package policy

import "strings"

// pattern is the specifier of a command rule: a text in which a star stands for
// arguments that are known to be harmless, see [program], and two stars for anything. At
// the end, after a space or a colon, they also stand for nothing, and start with a new
// word.
type pattern struct {
	text  string // without the star at the end if open
	open  bool   // more words may follow
	stars bool   // there is a star
	every bool   // there are two, next to each other: no argument is looked at

	plain, more []string // the pieces between the stars: of text, and with more words; see wildcard
}

func newPattern(spec string) pattern {
	p := pattern{text: strings.TrimSpace(spec), every: strings.Contains(spec, "**")}
	for _, end := range []string{":*", " *", " **"} {
		if head, ok := strings.CutSuffix(p.text, end); ok && !p.open {
			p.text, p.open = strings.TrimSpace(head), true
		}
	}
	p.stars = p.open || strings.Contains(p.text, "*")
	p.plain = strings.Split(p.text, "*")
	if p.open {
		p.more = strings.Split(p.text+" *", "*")
	}
	return p
}

// all says that it matches every command.
func (p *pattern) all() bool { return p.text == "*" || p.text == "" && p.open }

func (p *pattern) matches(text string) bool {
	return wildcard(p.plain, text) || p.open && wildcard(p.more, text)
}

// wildcard matches a text with pieces between which anything may stand.
func wildcard(pieces []string, text string) bool {
	first, last := pieces[0], pieces[len(pieces)-1]
	if len(pieces) == 1 {
		return text == first
	}
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, piece := range pieces[1 : len(pieces)-1] {
		i := strings.Index(text, piece)
		if i < 0 {
			return false
		}
		text = text[i+len(piece):]
	}
	return true
}
