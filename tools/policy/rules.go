package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/tidwall/gjson"
)

type action uint8

const (
	deny action = iota
	ask
	allow
)

func (a action) String() string { return [...]string{"deny", "ask", "allow"}[a] }

// Rule is one line of a permissions.json, or an answer of "always".
type Rule struct {
	Text   string // as it was written
	Source string // the file, or who said it
	Line   int    // in the file, from 1; 0 is none

	action  action
	tool    string // as we call it, or a pattern of MCP tools
	class   []string
	whole   bool // it is about every call of the tool
	command pattern
	paths   []string // patterns of absolute paths, of which one has to match
	dead    bool     // it can match nothing
}

// Place is where the rule stands.
func (r *Rule) Place() string {
	if r.Line > 0 {
		return r.Source + ":" + strconv.Itoa(r.Line)
	}
	return r.Source
}

// Action is the list that the rule is in: allow, ask or deny.
func (r *Rule) Action() string { return r.action.String() }

// String is the rule with its place.
func (r *Rule) String() string {
	return fmt.Sprintf("%s %s (%s)", r.action, r.Text, r.Place())
}

// Place is where paths in rules begin.
type Place struct {
	Cwd  string // of the session
	Home string
	// Own are files and directories of troupe's own configuration and keys, which
	// no call edits unless a rule names the file.
	Own []string
	// Tools are those that there are; a rule about another one is named.
	Tools []string
	// Programs are files and directories that run as extensions, or as the shell: what
	// the settings name, whether it is there yet or not. Nil: there are none.
	Programs func() []string
	// Real follows the symbolic links of an absolute path, of which the end need not
	// exist and in which .. is left where it stands; see [troupe/tools/realpath]. False:
	// it is not known where it leads. Nil takes .. away as text.
	Real func(string) (string, bool)
	// Exists says whether there is something at a path, a link included; nil: nothing is.
	Exists func(string) bool
}

func (p *Place) real(name string) (string, bool) {
	if p.Real == nil {
		return path.Clean(name), true
	}
	return p.Real(name)
}

func (p *Place) exists(name string) bool { return p.Exists != nil && p.Exists(name) }

// Set is rules with where they hold. It does not change.
type Set struct {
	place    Place
	cwd      string // without symbolic links
	rules    []Rule // those that deny first, then those that ask
	mode     Mode
	floor    Mode // of files that tighten
	sandbox  Sandbox
	broken   bool
	problems []string
}

// Sandbox is what a permissions.json says of confinement; "" for nothing.
type Sandbox struct {
	Files   string // off, workspace, readonly
	Network string // off
}

// File is a permissions.json.
type File struct {
	Path    string
	Content []byte
	Err     error // it is there and cannot be read
	// Tightens: it may take away and not give. Its allow rules do not count, and its
	// mode only if it is stricter.
	Tightens bool
}

// Load reads permission files. One that cannot be understood fails closed: until it
// is mended no rule allows anything, and what would run asks; see Broken.
func Load(place Place, files ...File) *Set {
	s := &Set{place: place}
	s.cwd, _ = place.real(place.Cwd)
	for _, f := range files {
		s.file(f)
	}
	s.order()
	return s
}

// Mode is the mode of a session: what its caller says, else what the user's file says,
// else auto; stricter, if a file that tightens says so.
func (s *Set) Mode(said Mode) Mode {
	return Stricter(cmp.Or(said, s.mode, Auto), s.floor)
}

// Active says whether calls have to be judged even where the mode is auto.
func (s *Set) Active() bool { return s.broken || s.floor != "" || len(s.rules) > 0 }

// Bare says whether the working directory is in a repository of git that is not called .git.
func (s *Set) Bare() bool { return s.bareAbove() }

// Broken says that a file could not be understood.
func (s *Set) Broken() bool { return s.broken }

// Sandbox is the strictest that the files ask for.
func (s *Set) Sandbox() Sandbox { return s.sandbox }

// Problems name with file and line what is wrong, rules that can match nothing
// included.
func (s *Set) Problems() []string { return s.problems }

// Rules are all rules, in the order in which they decide.
func (s *Set) Rules() []Rule { return s.rules }

// With is the set with rules that allow added, as Decide gave them in Always.
func (s *Set) With(source string, always ...string) (*Set, error) {
	more := *s
	more.rules = slices.Clone(s.rules)
	for _, text := range always {
		r, err := more.parse(text, allow)
		if err != nil {
			return nil, err
		}
		if r.Source = source; r.dead {
			return nil, fmt.Errorf("rule %s can match nothing", text)
		}
		more.rules = append(more.rules, r)
	}
	more.order()
	return &more, nil
}

func (s *Set) order() {
	slices.SortStableFunc(s.rules, func(a, b Rule) int { return int(a.action) - int(b.action) })
}

// find is the first rule of an action that matches. Nothing is allowed by rules as
// long as some of them cannot be read.
func (s *Set) find(a action, matches func(*Rule) bool) *Rule {
	if a == allow && s.broken {
		return nil
	}
	for i := range s.rules {
		if r := &s.rules[i]; r.action == a && !r.dead && matches(r) {
			return r
		}
	}
	return nil
}

func (s *Set) complain(path string, line int, format string, args ...any) {
	place := path
	if line > 0 {
		place += ":" + strconv.Itoa(line)
	}
	s.problems = append(s.problems, place+": "+fmt.Sprintf(format, args...))
}

// fail is for what cannot be understood at all.
func (s *Set) fail(path string, line int, format string, args ...any) {
	s.broken = true
	s.complain(path, line, format+": no rule allows anything until that is mended", args...)
}

func (s *Set) file(f File) {
	switch {
	case f.Err != nil:
		s.fail(f.Path, 0, "%s", f.Err)
		return
	case !gjson.ValidBytes(f.Content):
		s.fail(f.Path, 0, "is not valid JSON")
		return
	}
	root := gjson.ParseBytes(f.Content)
	if !root.IsObject() {
		s.fail(f.Path, 0, "is not an object")
		return
	}
	seen := map[string]bool{}
	root.ForEach(func(key, v gjson.Result) bool {
		line := lineOf(f.Content, key.Index)
		if seen[key.Str] {
			s.fail(f.Path, line, "%s is there twice", key.Str)
			return true
		}
		seen[key.Str] = true
		s.member(f, key.Str, v, line)
		return true
	})
}

func lineOf(content []byte, at int) int {
	return 1 + strings.Count(string(content[:min(at, len(content))]), "\n")
}

func (s *Set) member(f File, key string, v gjson.Result, line int) {
	switch key {
	case "$schema":
	case "mode":
		s.setMode(f, v, line)
	case "allow":
		s.list(f, allow, v, line)
	case "ask":
		s.list(f, ask, v, line)
	case "deny":
		s.list(f, deny, v, line)
	case "sandbox":
		s.setSandbox(f, &s.sandbox.Files, key, v, line, "off", "workspace", "readonly")
	case "sandboxNetwork":
		s.setSandbox(f, &s.sandbox.Network, key, v, line, "on", "off")
	default:
		s.fail(f.Path, line, "%s is none of mode, allow, ask, deny, sandbox, sandboxNetwork", key)
	}
}

func (s *Set) setMode(f File, v gjson.Result, line int) {
	m := Mode(v.Str)
	switch {
	case v.Type != gjson.String || !m.Known():
		s.fail(f.Path, line, "mode is none of auto, edits, ask, readonly")
	case f.Tightens:
		s.floor = Stricter(s.floor, m)
	default:
		s.mode = Stricter(s.mode, m)
	}
}

// setSandbox takes the strictest word; words have the loosest first.
func (s *Set) setSandbox(f File, to *string, key string, v gjson.Result, line int, words ...string) {
	i := slices.Index(words, v.Str)
	switch {
	case v.Type != gjson.String || i < 0:
		s.fail(f.Path, line, "%s is none of %s", key, strings.Join(words, ", "))
	case i > slices.Index(words, *to):
		*to = words[i]
	}
}

func (s *Set) list(f File, a action, v gjson.Result, line int) {
	if !v.IsArray() {
		s.fail(f.Path, line, "%s is not a list", a)
		return
	}
	if a == allow && f.Tightens && len(v.Array()) > 0 {
		s.complain(f.Path, line, "allow does not count: a project may only be stricter")
	}
	v.ForEach(func(_, item gjson.Result) bool {
		line := lineOf(f.Content, item.Index)
		if item.Type != gjson.String {
			s.fail(f.Path, line, "%s has something that is not a string", a)
			return true
		}
		r, err := s.parse(item.Str, a)
		if err != nil {
			s.fail(f.Path, line, "%s", err)
			return true
		}
		if a == allow && f.Tightens {
			return true
		}
		r.Source, r.Line = f.Path, line
		if why := r.narrow(); why != "" {
			s.complain(f.Path, line, "%s", why)
		}
		if why := s.doubt(&r); why != "" {
			s.complain(f.Path, line, "rule %s is kept, and matches nothing: %s", r.Text, why)
		}
		s.rules = append(s.rules, r)
		return true
	})
}

// narrow says that a rule allows less than one might think.
func (r *Rule) narrow() string {
	p := &r.command
	if r.action != allow || !p.stars || p.every || r.whole {
		return ""
	}
	c := simple{}
	for field := range strings.FieldsSeq(p.text) {
		if strings.Contains(field, "*") {
			break
		}
		c.words = append(c.words, word{value: field})
	}
	if len(c.words) == 0 {
		return ""
	}
	head := c.words[0].value
	w, wraps := wrappers[head]
	if _, _, known := c.known(); known || wraps && (w.through || head == "env" || head == "xargs") || families[head] && len(c.words) == 1 {
		return ""
	}
	return fmt.Sprintf("rule %s allows no more than its own words: it is not known what other arguments of %s do. ** stands for every argument, * for those of programs in docs/security.md", r.Text, spell(c.words, false))
}

// ofUser says that a rule is about the home directory of a user by name.
func (r *Rule) ofUser() bool {
	_, spec, _ := strings.Cut(r.Text, "(")
	return strings.HasPrefix(spec, "~") && !strings.HasPrefix(spec, "~/") && spec != "~)"
}

// doubt says why a rule can match nothing, as far as that can be known.
func (s *Set) doubt(r *Rule) string {
	switch {
	case r.dead && r.paths != nil && r.ofUser():
		return "it is not known whose home directory that is; a path from the root starts with //"
	case r.dead && r.paths != nil:
		return "its pattern is broken"
	case r.dead:
		return "this tool has no such specifier"
	case r.action == allow && r.tool == "write" && !r.whole:
		return "files that may be written are named with Edit(path)"
	case strings.HasPrefix(r.tool, "mcp__"):
		return "" // servers come and go
	case s.place.Tools != nil && !slices.ContainsFunc(s.place.Tools, r.names):
		return "there is no such tool yet"
	}
	return ""
}

// classes are tools that are named together, by names of Claude Code and of ours.
var classes = map[string]struct {
	tool  string
	class []string
	kind  Kind
}{
	"bash":  {"bash", []string{"bash"}, Command},
	"read":  {"read", []string{"read", "grep", "find", "ls"}, Read},
	"edit":  {"edit", []string{"edit", "write"}, Edit},
	"write": {"write", []string{"write"}, Edit},
	"grep":  {"grep", []string{"grep"}, Read},
	"find":  {"find", []string{"find"}, Read},
	"glob":  {"find", []string{"find"}, Read},
	"ls":    {"ls", []string{"ls"}, Read},
}

func (s *Set) parse(text string, a action) (Rule, error) {
	name, spec, has := strings.Cut(text, "(")
	if has {
		var closed bool
		if spec, closed = strings.CutSuffix(spec, ")"); !closed || strings.TrimSpace(spec) == "" {
			return Rule{}, fmt.Errorf("rule %q cannot be read: it is Tool or Tool(specifier)", text)
		}
	}
	if !validName(name) {
		return Rule{}, fmt.Errorf("rule %q cannot be read: %q is no name of a tool", text, name)
	}
	r := Rule{Text: text, action: a, tool: name, class: []string{name}, whole: !has}
	known, ours := classes[strings.ToLower(name)]
	if ours {
		r.tool, r.class = known.tool, known.class
	}
	switch {
	case !has:
	case !ours:
		r.dead = true
	case known.kind == Command:
		r.command = newPattern(spec)
		r.whole = r.command.all()
	default:
		r.paths = s.place.patterns(spec, a)
		r.dead = r.ofUser() || slices.ContainsFunc(r.paths, func(p string) bool { return !doublestar.ValidatePattern(p) }) ||
			a == allow && r.tool == "write"
	}
	return r, nil
}

func validName(name string) bool {
	if name == "" {
		return false
	}
	for _, c := range name {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("_-.:*", c) {
			return false
		}
	}
	return true
}

// names says whether the rule is about a tool. mcp__server is about all tools of the
// server, and a star stands for anything.
func (r *Rule) names(tool string) bool {
	switch {
	case slices.Contains(r.class, tool):
		return true
	case strings.Contains(r.tool, "*"):
		return wildcard(strings.Split(r.tool, "*"), tool)
	}
	return strings.HasPrefix(r.tool, "mcp__") && strings.HasPrefix(tool, r.tool+"__")
}
