package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"troupe/protocol"
	"troupe/protocol/bounded"
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
	Package      *Package // it is part of; nil for none
}

// descriptionRunes is how much of a body serves as a description.
const descriptionRunes = 60

// LoadTemplates finds the Markdown files in the user's and the project's
// prompts directories, those the settings and the command line name, and those of packages. Of
// several templates of a name the first counts, in this order.
func LoadTemplates(s Sources) ([]Template, []Problem) {
	in := s.take("prompt templates")
	places := []place{
		{path: filepath.Join(s.Agent, "prompts"), location: User},
		{path: filepath.Join(s.project(), "prompts"), location: Project},
	}
	if s.Access < Texts {
		places = places[:1]
	}
	if s.NoDefaults {
		places = nil
	}
	places = append(places, s.named(&in.problems)...)
	places = append(places, s.packed(kindPrompts)...)
	var templates []Template
	seen := map[string]bool{}
	for _, where := range places {
		for _, file := range in.markdownIn(where) {
			if in.refuses(s.Dirs, file, where) {
				continue
			}
			t, ok := in.template(file, where.location)
			if ok && !seen[t.Name] && s.takes(file, where) {
				seen[t.Name] = true
				t.Package = where.of
				templates = append(templates, t)
			}
		}
	}
	return templates, in.problems
}

// markdownIn lists the Markdown files directly in a place, or the place itself
// if it is a file.
func (in *intake) markdownIn(where place) []string {
	st, err := os.Stat(where.path)
	if err != nil {
		if where.mustBe || !isAbsent(err) {
			in.add(where.path, err)
		}
		return nil
	}
	if !st.IsDir() {
		return []string{where.path}
	}
	var files []string
	for _, e := range in.list(where.path, where.location) {
		file := filepath.Join(where.path, e.Name())
		if st, err := os.Stat(file); filepath.Ext(file) == ".md" && err == nil && st.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files
}

func (in *intake) template(file string, location Location) (Template, bool) {
	src, err := in.read(file, location)
	if err != nil {
		in.failed(file, err)
		return Template{}, false
	}
	head, body := splitFrontmatter(src)
	t := Template{
		Name: strings.TrimSuffix(filepath.Base(file), ".md"), Description: head.text("description"),
		ArgumentHint: head.text("argument-hint"), Location: location, Path: file, Body: body,
	}
	t.Description = cmp.Or(t.Description, firstLine(body))
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
//
// What becomes larger than protocol.MaxExpansion is an error: a small template
// may ask for its arguments many times.
func (t Template) Expand(args []string) (string, error) {
	var b strings.Builder
	a := arguments{args, strings.Join(args, " ")}
	for rest := t.Body; ; {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			i = len(rest)
		}
		b.WriteString(rest[:i])
		if b.Len() > protocol.MaxExpansion {
			return "", fmt.Errorf("template %s with its arguments is %w", t.Name, bounded.TooLarge{Limit: protocol.MaxExpansion})
		}
		if rest = rest[i:]; rest == "" {
			return b.String(), nil
		}
		value, n := a.substitute(rest)
		if n == 0 {
			value, n = "$", 1
		}
		b.WriteString(value)
		rest = rest[n:]
	}
}

// arguments are what a template is used with.
type arguments struct {
	list []string
	all  string // with a space between two
}

// maxVariable bounds a variable in braces, with what stands in for it.
const maxVariable = 4 << 10

// substitute reads the variable that s begins with and says how long it is, 0
// if it is none.
func (a arguments) substitute(s string) (value string, n int) {
	switch {
	case strings.HasPrefix(s, "$ARGUMENTS"):
		return a.all, len("$ARGUMENTS")
	case strings.HasPrefix(s, "$@"):
		return a.all, 2
	case strings.HasPrefix(s, "${"):
		end := strings.IndexByte(s[:min(len(s), maxVariable)], '}')
		if end < 0 {
			return "", 0
		}
		value, ok := a.braced(s[2:end])
		if !ok {
			return "", 0
		}
		return value, end + 1
	}
	digits := leadingDigits(s[1:])
	if digits == "" {
		return "", 0
	}
	return a.argument(digits), 1 + len(digits)
}

// braced reads what stands between ${ and }.
func (a arguments) braced(s string) (string, bool) {
	name, modifier := s, ""
	if i := strings.IndexByte(s, ':'); i >= 0 {
		name, modifier = s[:i], s[i:]
	}
	if name != "@" && (name == "" || leadingDigits(name) != name) {
		return "", false
	}
	value := a.all
	if name != "@" {
		value = a.argument(name)
	}
	switch {
	case modifier == "":
		return value, true
	case strings.HasPrefix(modifier, ":-"):
		return cmp.Or(value, modifier[2:]), true
	case name == "@":
		return slice(modifier[1:], a.list)
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

func (a arguments) argument(digits string) string {
	if n := number(digits); n >= 1 && n <= len(a.list) {
		return a.list[n-1]
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
