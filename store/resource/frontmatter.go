package resource

import (
	"strconv"
	"strings"
)

// frontmatter is the head of a Markdown file: the YAML between two lines of
// three dashes at its beginning. It is read by a small reader of our own,
// because all that occurs there in practice is a flat list of keys with texts
// and lists of texts: plain, quoted or in blocks, over one line or several.
// Values of other shapes, such as nested maps, are passed over. Unlike a YAML
// parser it takes a colon in a plain text for what people mean by it.
type frontmatter map[string]yamlValue

// yamlValue is a text or a list.
type yamlValue struct {
	text string
	list []string // nil for a text
}

// splitFrontmatter separates a file's head from its body, which is returned
// without surrounding space. Without a closing line there is no head.
func splitFrontmatter(src string) (frontmatter, string) {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	rest, ok := strings.CutPrefix(src, "---\n")
	if !ok {
		return nil, strings.TrimSpace(src)
	}
	lines := strings.Split(rest, "\n")
	for i, line := range lines {
		if strings.TrimRight(line, " \t") == "---" {
			r := yamlReader{lines: lines[:i]}
			return r.mapping(), strings.TrimSpace(strings.Join(lines[i+1:], "\n"))
		}
	}
	return nil, strings.TrimSpace(src)
}

// text is a key's text, "" if it has none. A list is joined by commas.
func (f frontmatter) text(key string) string {
	v := f[key]
	if v.list != nil {
		return strings.Join(v.list, ", ")
	}
	return v.text
}

// bool says whether a key is true.
func (f frontmatter) bool(key string) bool { return strings.EqualFold(f[key].text, "true") }

type yamlReader struct {
	lines []string
	at    int
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// isIgnored is true of blank lines and comments.
func isIgnored(line string) bool {
	t := strings.TrimSpace(line)
	return t == "" || t[0] == '#'
}

func (r *yamlReader) mapping() frontmatter {
	f := frontmatter{}
	for r.at < len(r.lines) {
		line := r.lines[r.at]
		r.at++
		if isIgnored(line) || indentOf(line) > 0 {
			continue
		}
		key, rest, ok := splitKey(line)
		if !ok {
			continue
		}
		if v, ok := r.value(rest); ok {
			f[key] = v
		}
	}
	return f
}

// splitKey splits a line at the colon that ends its key.
func splitKey(line string) (key, rest string, ok bool) {
	if line[0] == '"' || line[0] == '\'' {
		text, end, closed := unquoteYAML(line)
		rest, ok = strings.CutPrefix(strings.TrimLeft(line[end:], " "), ":")
		return text, strings.TrimSpace(rest), closed && ok
	}
	for i := range len(line) {
		if line[i] == ':' && (i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t') {
			return strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+1:]), true
		}
	}
	return "", "", false
}

// value reads what follows a key, on its line and on the next ones. ok is false
// for shapes that are passed over.
func (r *yamlReader) value(rest string) (v yamlValue, ok bool) {
	switch {
	case rest == "" || rest[0] == '#':
		return r.nextLines()
	case rest[0] == '|' || rest[0] == '>':
		return yamlValue{text: r.block(rest)}, true
	case rest[0] == '"' || rest[0] == '\'':
		return yamlValue{text: r.quoted(rest)}, true
	case rest[0] == '[':
		return r.flowList(rest)
	case rest[0] == '{' || rest[0] == '&' || rest[0] == '*' || rest[0] == '!':
		r.continuation()
		return yamlValue{}, false
	}
	return yamlValue{text: r.plain(rest)}, true
}

// nextLines reads a value that begins below its key: a block list, or a plain
// or quoted text. A key without anything has the empty text.
func (r *yamlReader) nextLines() (yamlValue, bool) {
	from := r.at
	for from < len(r.lines) && isIgnored(r.lines[from]) {
		from++
	}
	if from == len(r.lines) {
		return yamlValue{}, true
	}
	line := r.lines[from]
	item := strings.TrimSpace(line)
	switch {
	case item == "-" || strings.HasPrefix(item, "- "):
		r.at = from
		return r.blockList(indentOf(line))
	case indentOf(line) == 0:
		return yamlValue{}, true
	}
	if _, _, isMap := splitKey(item); isMap {
		r.continuation()
		return yamlValue{}, false
	}
	r.at = from + 1
	return r.value(item)
}

// continuation takes the lines that belong to the current value: those that are
// indented, and blank ones between them.
func (r *yamlReader) continuation() []string {
	from, to := r.at, r.at
	for i := from; i < len(r.lines); i++ {
		line := r.lines[i]
		if strings.TrimSpace(line) == "" {
			continue
		}
		if indentOf(line) == 0 {
			break
		}
		to = i + 1
	}
	r.at = to
	return r.lines[from:to]
}

// plain reads a text without quotes. It ends at a comment.
func (r *yamlReader) plain(first string) string {
	text, commented := cutComment(first)
	if commented {
		return scalar(text)
	}
	var more []string
	for _, line := range r.continuation() {
		t, commented := cutComment(strings.TrimSpace(line))
		if strings.HasPrefix(t, "#") {
			break
		}
		more = append(more, t)
		if commented {
			break
		}
	}
	return scalar(fold(append([]string{text}, more...)))
}

// scalar gives the words for nothing their meaning.
func scalar(s string) string {
	switch s {
	case "~", "null", "Null", "NULL":
		return ""
	}
	return s
}

func cutComment(s string) (text string, commented bool) {
	for i := 1; i < len(s); i++ {
		if s[i] == '#' && (s[i-1] == ' ' || s[i-1] == '\t') {
			return strings.TrimSpace(s[:i]), true
		}
	}
	return strings.TrimSpace(s), false
}

// fold joins lines as YAML does: a line break is a space, n blank lines are n
// line breaks.
func fold(lines []string) string {
	var b strings.Builder
	breaks := 0
	for i, line := range lines {
		if i > 0 && line == "" {
			breaks++
			continue
		}
		switch {
		case i == 0:
		case breaks > 0:
			b.WriteString(strings.Repeat("\n", breaks))
		default:
			b.WriteByte(' ')
		}
		breaks = 0
		b.WriteString(line)
	}
	return b.String()
}

// quoted reads a text in quotes, which may go on below.
func (r *yamlReader) quoted(first string) string {
	text, _, closed := unquoteYAML(first)
	if closed {
		return text
	}
	at := r.at
	all := first
	for _, line := range r.continuation() {
		at++
		all += "\n" + line
		if text, _, closed := unquoteYAML(all); closed {
			r.at = at
			return text
		}
	}
	return all // never closed: taken as it is
}

// unquoteYAML reads the quoted text that s begins with. end is where it ends in
// s.
func unquoteYAML(s string) (text string, end int, closed bool) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote && quote == '\'' && i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == quote:
			return b.String(), i + 1, true
		case c == '\\' && quote == '"' && i+1 < len(s):
			i += unescape(&b, s[i+1:])
		case c == '\n':
			i += foldBreak(&b, s[i:])
		default:
			b.WriteByte(c)
		}
	}
	return "", len(s), false
}

// foldBreak folds the line break that s begins with and says how many bytes
// after it are done with as well.
func foldBreak(b *strings.Builder, s string) int {
	sofar := strings.TrimRight(b.String(), " \t")
	b.Reset()
	b.WriteString(sofar)
	rest := strings.TrimLeft(s, " \t\n")
	space := s[:len(s)-len(rest)]
	if n := strings.Count(space, "\n"); n > 1 {
		b.WriteString(strings.Repeat("\n", n-1))
	} else {
		b.WriteByte(' ')
	}
	return len(space) - 1
}

// unescape writes what a backslash and s stand for and says how many bytes of s
// that took.
func unescape(b *strings.Builder, s string) int {
	simple := map[byte]string{
		'n': "\n", 't': "\t", 'r': "\r", '0': "\x00", 'a': "\a", 'b': "\b", 'e': "\x1b", 'f': "\f", 'v': "\v",
		'"': `"`, '/': "/", '\\': `\`, ' ': " ", '_': "\u00a0", 'N': "\u0085", 'L': "\u2028", 'P': "\u2029",
	}
	if text, ok := simple[s[0]]; ok {
		b.WriteString(text)
		return 1
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits > 0 && len(s) > digits {
		if n, err := strconv.ParseUint(s[1:1+digits], 16, 32); err == nil {
			b.WriteRune(rune(n))
			return 1 + digits
		}
	}
	if s[0] == '\n' { // an escaped line break is none
		return len(s) - len(strings.TrimLeft(s, " \t\n"))
	}
	b.WriteByte('\\')
	b.WriteByte(s[0])
	return 1
}

// block reads a text whose lines stand below: | keeps them, > folds them, also
// those that are indented further.
func (r *yamlReader) block(head string) string {
	indicators, _ := cutComment(head)
	lines := r.continuation()
	// Blank lines at the end belong to the text, too.
	for r.at < len(r.lines) && strings.TrimSpace(r.lines[r.at]) == "" {
		lines = append(lines[:len(lines):len(lines)], "")
		r.at++
	}
	lines = unindent(lines, indicators)
	end := len(lines)
	for end > 0 && lines[end-1] == "" {
		end--
	}
	text := strings.Join(lines[:end], "\n")
	if indicators[0] == '>' {
		text = fold(lines[:end])
	}
	switch {
	case strings.Contains(indicators, "-") || end == 0 && !strings.Contains(indicators, "+"):
		return text
	case strings.Contains(indicators, "+"):
		return text + strings.Repeat("\n", len(lines)-end+min(end, 1))
	}
	return text + "\n"
}

// unindent takes the indentation of the first line with a text, or the one
// that the block's head names, from all lines.
func unindent(lines []string, indicators string) []string {
	indent := -1
	if i := strings.IndexAny(indicators, "123456789"); i >= 0 {
		indent = int(indicators[i] - '0')
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		if strings.TrimSpace(line) == "" && (indent < 0 || len(line) <= indent) {
			continue
		}
		if indent < 0 {
			indent = indentOf(line)
		}
		out[i] = line[min(indent, indentOf(line)):]
	}
	return out
}

// blockList reads items that each begin with a dash.
func (r *yamlReader) blockList(indent int) (yamlValue, bool) {
	list := []string{}
	for r.at < len(r.lines) {
		line := r.lines[r.at]
		if isIgnored(line) {
			r.at++
			continue
		}
		item := strings.TrimSpace(line)
		isItem := item == "-" || strings.HasPrefix(item, "- ")
		if indentOf(line) < indent || !isItem && indentOf(line) == indent {
			break
		}
		r.at++
		if isItem && indentOf(line) == indent {
			list = append(list, r.item(strings.TrimSpace(item[1:])))
		}
	}
	return yamlValue{list: list}, true
}

func (r *yamlReader) item(text string) string {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		text, _ = cutComment(text)
		return scalar(text)
	}
	if s, _, closed := unquoteYAML(text); closed {
		return s
	}
	return text
}

// flowList reads a list in brackets, which may go on below. Lists in lists are
// passed over.
func (r *yamlReader) flowList(first string) (yamlValue, bool) {
	all := first
	if !strings.Contains(first, "]") {
		all += " " + strings.Join(r.continuation(), " ")
	}
	list := []string{}
	for rest := all[1:]; ; {
		rest = strings.TrimLeft(rest, " \t,")
		switch {
		case rest == "":
			return yamlValue{}, false
		case rest[0] == ']':
			return yamlValue{list: list}, true
		case rest[0] == '[' || rest[0] == '{':
			return yamlValue{}, false
		case rest[0] == '"' || rest[0] == '\'':
			text, end, closed := unquoteYAML(rest)
			if !closed {
				return yamlValue{}, false
			}
			list, rest = append(list, text), rest[end:]
		default:
			end := strings.IndexAny(rest, ",]")
			if end < 0 {
				return yamlValue{}, false
			}
			list, rest = append(list, scalar(strings.TrimSpace(rest[:end]))), rest[end:]
		}
	}
}
