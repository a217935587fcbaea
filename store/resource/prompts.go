package resource

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Template is a prompt that a person keeps in a file, to be used as
// "/name arguments".
type Template struct {
	Name         string // the file's name without .md
	Description  string // of the frontmatter, else the beginning of the body
	ArgumentHint string
	Location     Location
	Path         string
	Body         string
}

// descriptionRunes is how much of a body serves as a description.
const descriptionRunes = 60

// LoadTemplates finds the Markdown files in the user's and the project's
// prompts directories, and those the settings and the command line name. Of
// several templates of a name the first counts, in this order.
func LoadTemplates(s Sources) ([]Template, []Problem) {
	var p problems
	places := []place{
		{path: filepath.Join(s.Agent, "prompts"), location: User},
		{path: filepath.Join(s.project(), "prompts"), location: Project},
	}
	if s.IgnoreProject {
		places = places[:1]
	}
	if s.NoDefaults {
		places = nil
	}
	places = append(places, s.named(&p)...)
	var templates []Template
	seen := map[string]bool{}
	for _, where := range places {
		for _, file := range p.markdownIn(where) {
			t, ok := p.template(file, where.location)
			if ok && !seen[t.Name] && s.wanted(file, where.location) {
				seen[t.Name] = true
				templates = append(templates, t)
			}
		}
	}
	return templates, p
}

// markdownIn lists the Markdown files directly in a place, or the place itself
// if it is a file.
func (p *problems) markdownIn(where place) []string {
	st, err := os.Stat(where.path)
	if err != nil {
		if where.mustBe || !isAbsent(err) {
			p.add(where.path, err)
		}
		return nil
	}
	if !st.IsDir() {
		return []string{where.path}
	}
	entries, err := os.ReadDir(where.path)
	if err != nil {
		p.add(where.path, err)
	}
	var files []string
	for _, e := range entries {
		file := filepath.Join(where.path, e.Name())
		if st, err := os.Stat(file); filepath.Ext(file) == ".md" && err == nil && st.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files
}

func (p *problems) template(file string, location Location) (Template, bool) {
	src, err := read(file)
	if err != nil {
		p.add(file, err)
		return Template{}, false
	}
	head, body := splitFrontmatter(src)
	t := Template{
		Name: strings.TrimSuffix(filepath.Base(file), ".md"), Description: head.text("description"),
		ArgumentHint: head.text("argument-hint"), Location: location, Path: file, Body: body,
	}
	if t.Description == "" {
		t.Description = firstLine(body)
	}
	return t, true
}

// firstLine is the beginning of a text's first line that is not blank.
func firstLine(body string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	line = strings.TrimSpace(line)
	if utf8.RuneCountInString(line) <= descriptionRunes {
		return line
	}
	return string([]rune(line)[:descriptionRunes]) + "..."
}

// SplitArguments splits what follows a template's name. White space separates;
// a quote at the beginning of an argument keeps together what is up to the
// next one, in which a backslash makes an ordinary character of the quote. A
// quote in the middle of a word, or one that is never closed, is a character
// like others.
func SplitArguments(text string) []string {
	var args []string
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return args
		}
		arg, rest, ok := quotedArgument(text)
		if !ok {
			end := strings.IndexFunc(text, unicode.IsSpace)
			if end < 0 {
				end = len(text)
			}
			arg, rest = text[:end], text[end:]
		}
		args, text = append(args, arg), rest
	}
}

// quotedArgument takes an argument in quotes, and what sticks to its end.
func quotedArgument(text string) (arg, rest string, ok bool) {
	quote := text[0]
	if quote != '"' && quote != '\'' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == quote:
			b.WriteByte(quote)
			i++
		case text[i] == quote:
			rest := text[i+1:]
			end := strings.IndexFunc(rest, unicode.IsSpace)
			if end < 0 {
				end = len(rest)
			}
			return b.String() + rest[:end], rest[end:], true
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", false
}

// Expand puts the arguments into the template. What they contain is not
// looked at again.
//
//	$1 $2 … $10     one argument, nothing if it is missing
//	$@ $ARGUMENTS   all arguments, with a space between two
//	${1} ${@}       the same
//	${@:2} ${@:2:3} from the second on; three of them
//	${1:-x} ${@:-x} x if there is none or it is empty
func (t Template) Expand(args []string) string {
	var b strings.Builder
	for rest := t.Body; ; {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(rest[:i])
		value, n := substitute(rest[i:], args)
		if n == 0 {
			value, n = "$", 1
		}
		b.WriteString(value)
		rest = rest[i+n:]
	}
}

// substitute reads the variable that s begins with and says how long it is, 0
// if it is none.
func substitute(s string, args []string) (value string, n int) {
	switch {
	case strings.HasPrefix(s, "$ARGUMENTS"):
		return strings.Join(args, " "), len("$ARGUMENTS")
	case strings.HasPrefix(s, "$@"):
		return strings.Join(args, " "), 2
	case strings.HasPrefix(s, "${"):
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return "", 0
		}
		value, ok := braced(s[2:end], args)
		if !ok {
			return "", 0
		}
		return value, end + 1
	}
	digits := leadingDigits(s[1:])
	if digits == "" {
		return "", 0
	}
	return argument(digits, args), 1 + len(digits)
}

// braced reads what stands between ${ and }.
func braced(s string, args []string) (string, bool) {
	name, modifier := s, ""
	if i := strings.IndexByte(s, ':'); i >= 0 {
		name, modifier = s[:i], s[i:]
	}
	if name != "@" && (name == "" || leadingDigits(name) != name) {
		return "", false
	}
	value := strings.Join(args, " ")
	if name != "@" {
		value = argument(name, args)
	}
	switch {
	case modifier == "":
		return value, true
	case strings.HasPrefix(modifier, ":-"):
		if value == "" {
			value = modifier[2:]
		}
		return value, true
	case name == "@":
		return slice(modifier[1:], args)
	}
	return "", false
}

// slice reads N or N:L. N counts from 1, and 0 means 1.
func slice(s string, args []string) (string, bool) {
	from, length, limited := strings.Cut(s, ":")
	if from == "" || leadingDigits(from) != from || limited && (length == "" || leadingDigits(length) != length) {
		return "", false
	}
	start := min(max(number(from)-1, 0), len(args))
	end := len(args)
	if limited {
		end = min(end, start+number(length))
	}
	return strings.Join(args[start:end], " "), true
}

func argument(digits string, args []string) string {
	if n := number(digits); n >= 1 && n <= len(args) {
		return args[n-1]
	}
	return ""
}

func leadingDigits(s string) string {
	n := 0
	for n < len(s) && s[n]-'0' <= 9 {
		n++
	}
	return s[:n]
}

// number reads digits; more of them than fit are as good as infinity.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 1 << 30
	}
	return n
}
