package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is read. Beyond them a command is taken for one that hides what it
// does.
const (
	mostScript   = 16 << 10 // bytes
	mostCommands = 50
)

// script is what a command in a shell starts, as far as its text says.
type script struct {
	commands []simple // that a rule has to allow
	behind   []simple // what they start in turn; only rules that limit look at these
	writes   []word   // files that redirections write
	reads    []word
	cds      []cd   // the changes of its directory, in the order of its text
	opaque   string // why no rule about single commands can allow it; "" for nothing
	hidden   bool   // it may start what its text does not show
	behindIt string // why it may, where a rule that has the whole text can allow it
	altered  bool   // a program starts another one with other variables, or in another directory
	lost     bool   // it changes its directory in a way that is not followed
	homeless bool   // it may change the variable HOME
	blind    bool   // it redirects to a file that its text does not name

	calculates bool // it evaluates texts: a command in a subscript of one runs
	carries    bool // it has texts with commands in them, which by themselves run nothing
}

// simple is one command of a script.
type simple struct {
	words  []word
	text   string // in one spelling
	exact  string // in one spelling, with the quotes without which it would mean something else
	source string // as it was written
	cd     int    // the number of the change of directory that it is, from 1; 0 is none
}

// cd is a change of the directory.
type cd struct {
	operands []word
	loops    bool // it may happen more than once
}

// word is a word of a command.
type word struct {
	value   string // without quotes; what is not known is left as it is written
	dynamic bool   // something in it is not known: a variable, a pattern
	prefix  string // what is known to stand first
	many    bool   // it may become several words
	home    bool   // it begins with a ~ that stands for the home directory
}

// readScript takes a command apart. It never fails: what it does not understand is
// opaque.
func readScript(command, shell string) (s script) {
	defer func() {
		if r := recover(); r != nil { // the parser's
			s.hide("it cannot be read")
		}
	}()
	switch path.Base(shell) {
	case ".", "bash", "sh", "dash", "ash":
	default:
		s.hide("rules do not know the shell " + path.Base(shell))
		return s
	}
	s.read(command, 0, false)
	if s.calculates && s.carries {
		s.hide("it calculates, and has commands in a text")
	}
	return s
}

// deepest is how many scripts in scripts are read.
const deepest = 4

// read adds the commands of a text. Those at depth 0 are what has to be allowed.
func (s *script) read(text string, depth int, loops bool) {
	if depth > deepest || len(text) > mostScript || strings.ContainsFunc(text, unprintable) {
		s.hide("it is too long, or has control characters")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		s.hide("its syntax cannot be read")
		return
	}
	r := reader{s: s, text: text, bare: []byte(text), depth: depth, loops: loops}
	syntax.Walk(file, r.node)
	if goesOnOtherwise(r.bare) {
		s.hide("shells do not agree where its lines go on")
	}
}

// goesOnOtherwise says that a text has a line which goes on in the next one, where shells and
// the parser may differ about it: within a word, in a comment, in a here-document.
func goesOnOtherwise(text []byte) bool {
	return bytes.Contains(text, []byte("\\\n")) &&
		(bytes.ContainsRune(text, '#') || bytes.Contains(text, []byte("<<")) || withinWord(string(text)))
}

var withinWord = has(`(?:^|[^ \t])\\\n`)

func unprintable(c rune) bool {
	return c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c == '\ufffd'
}

func (s *script) veil(why string) {
	s.opaque = cmp.Or(s.opaque, why)
}

// compute notes that texts are evaluated.
func (s *script) compute() {
	s.veil("it calculates")
	s.calculates, s.homeless = true, true
}

func (s *script) hide(why string) {
	s.veil(why)
	s.hidden = true
}

// conceal records that a command may start an unknown program that its own text contains.
func (s *script) conceal(why string) {
	s.behindIt = cmp.Or(s.behindIt, why)
	s.hidden = true
}

type reader struct {
	s     *script
	text  string
	bare  []byte // text without what is taken as it is written
	depth int
	loops bool // all of it is in a loop
	until uint // the end of the loops that have been met, as an offset
	again bool // the command that is looked at may run more than once
}

// repeats says whether what stands at an offset may run more than once.
func (r *reader) repeats(at uint) bool { return r.loops || at < r.until }

// asWritten takes what stands there out of bare.
func (r *reader) asWritten(n syntax.Node) {
	for i := n.Pos().Offset(); i < n.End().Offset(); i++ {
		r.bare[i] = 'x'
	}
}

// node looks at a node of the tree.
func (r *reader) node(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.WhileClause:
		r.until = max(r.until, n.End().Offset())
	case *syntax.CallExpr:
		r.call(n)
	case *syntax.Redirect:
		r.redirect(n)
	case *syntax.CmdSubst, *syntax.ProcSubst:
		r.s.veil("it takes the output of a command for a part of another")
	case *syntax.FuncDecl:
		r.until = max(r.until, n.End().Offset())
		r.s.lost = true
		r.s.veil("it declares a function")
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		r.s.compute()
	case *syntax.CoprocClause, *syntax.TestDecl, *syntax.ExtGlob:
		r.s.veil("it has more syntax than rules know")
	case *syntax.DeclClause:
		r.s.veil("it declares variables")
		r.s.calculates, r.s.homeless = true, true
	case *syntax.ForClause:
		r.loop(n)
	case *syntax.ParamExp:
		r.param(n)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			r.s.compute()
		}
	case *syntax.BinaryTest:
		r.test(n)
	case *syntax.DblQuoted:
		if n.Dollar {
			r.s.veil("it is translated")
		}
	case *syntax.SglQuoted:
		r.carry(single(n))
		r.asWritten(n)
	case *syntax.Lit:
		if strings.Contains(n.Value, `\`) {
			r.carry(unescape(n.Value, false))
		}
	}
	return true
}

// carry looks at a text that runs nothing by itself.
func (r *reader) carry(text string) {
	if strings.ContainsRune(text, '`') || strings.Contains(text, "$(") || strings.Contains(text, "${") {
		r.s.carries = true
	}
}

// plainLoop is a variable that no program looks at.
var plainLoop = has(`^([a-z]|file|dir|name|item|pkg)$`)

func (r *reader) loop(n *syntax.ForClause) {
	r.until = max(r.until, n.End().Offset())
	if it, ok := n.Loop.(*syntax.WordIter); !ok || n.Select || !plainLoop(it.Name.Value) {
		r.s.veil("it sets a variable")
		r.s.homeless = true
	}
}

// param is the value of a variable, in the forms that calculate nothing.
func (r *reader) param(n *syntax.ParamExp) {
	if n.Excl || n.Index != nil || n.Slice != nil || n.Repl != nil || n.Names != 0 || n.Param == nil || n.NestedParam != nil || n.Flags != nil {
		r.s.hide("what a variable stands for is calculated")
		return
	}
	if n.Exp == nil {
		return
	}
	// What quotes and brackets mean within depends on where the whole stands.
	if w := n.Exp.Word; w != nil && !plainValue(r.text[w.Pos().Offset():w.End().Offset()]) {
		r.s.hide("what a variable stands for is calculated")
		return
	}
	switch n.Exp.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		r.s.veil("it sets a variable")
		r.s.homeless = true
	default:
		r.s.hide("what a variable stands for is calculated")
	}
}

var plainValue = has(`^[A-Za-z0-9_./,:@%+=*? -]*$`)

var number = has(`^[0-9]{1,9}$`)

// test is a comparison in [[ ]]. Numbers in them are calculated, which may run commands.
func (r *reader) test(n *syntax.BinaryTest) {
	switch n.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		for _, x := range []syntax.TestExpr{n.X, n.Y} {
			if w, ok := x.(*syntax.Word); !ok || !number(w.Lit()) {
				r.s.compute()
			}
		}
	}
}

// plainEnd is what ends a here-document, in the forms that all shells read alike.
var plainEnd = has(`^(?:\\?[A-Za-z0-9_.-]+|'[A-Za-z0-9_. -]+'|"[A-Za-z0-9_. -]+")$`)

// redirect is what a command reads from or writes to.
func (r *reader) redirect(n *syntax.Redirect) {
	if n.N != nil && !number(n.N.Value) {
		r.s.veil("it sets a variable")
	}
	if strings.HasSuffix(r.text[:n.OpPos.Offset()], "]}") { // {x[…]}< is a variable for the number of the file
		r.s.hide("it may calculate a variable")
		return
	}
	switch n.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if end := r.text[n.Word.Pos().Offset():n.Word.End().Offset()]; !plainEnd(end) {
			r.s.hide("it is not known where a here-document ends")
		} else if n.Hdoc != nil && strings.ContainsAny(end[:1], `'"\`) {
			r.asWritten(n.Hdoc)
		}
		return
	case syntax.WordHdoc:
		return
	}
	w := r.word(n.Word)
	duplicate := n.Op == syntax.DplOut || n.Op == syntax.DplIn
	switch {
	case duplicate && !w.dynamic && (number(strings.TrimSuffix(w.value, "-")) || w.value == "-"):
	case duplicate && strings.HasPrefix(w.value, "-"): // <&-make closes its input, and runs make
		r.s.hide("the shell takes what follows the - for a command")
	case w.dynamic || strings.HasPrefix(w.value, "/dev/tcp/") || strings.HasPrefix(w.value, "/dev/udp/"):
		r.s.veil("it is not known where it writes to or reads from")
		r.s.blind = true
	case n.Op == syntax.RdrIn || n.Op == syntax.DplIn:
		r.s.reads = append(r.s.reads, w)
	default:
		r.s.writes = append(r.s.writes, w)
	}
}

// harmless are variables that may be set for a command.
var harmless = map[string]bool{
	"LC_ALL": true, "LANG": true, "TZ": true, "CI": true, "NODE_ENV": true, "NO_COLOR": true, "FORCE_COLOR": true, "TERM": true,
	"RUST_BACKTRACE": true, "RUST_LOG": true, "GOOS": true, "GOARCH": true, "CGO_ENABLED": true, "DEBUG": true, "COLUMNS": true,
}

func (r *reader) call(n *syntax.CallExpr) {
	for _, a := range n.Assigns {
		if a.Append || a.Array != nil || a.Index != nil || !harmless[a.Name.Value] {
			r.s.veil("it sets the variable " + a.Name.Value)
			r.s.homeless = r.s.homeless || a.Name.Value == "HOME" || a.Name.Value == "CDPATH"
		}
	}
	if len(n.Args) == 0 {
		return
	}
	c := simple{source: strings.TrimSpace(r.text[n.Args[0].Pos().Offset():n.Args[len(n.Args)-1].End().Offset()])}
	for _, a := range n.Args {
		c.words = append(c.words, r.word(a))
	}
	r.add(c, r.depth > 0, r.repeats(n.Pos().Offset()))
}

// add takes a command in, and what it starts in turn.
func (r *reader) add(c simple, behind, loops bool) {
	c.text, c.exact = spell(c.words, false), spell(c.words, true)
	c.source = cmp.Or(c.source, c.text)
	if len(r.s.commands)+len(r.s.behind) >= mostCommands {
		r.s.hide(fmt.Sprintf("it has more than %d commands", mostCommands))
		return
	}
	if !c.words[0].dynamic && path.Base(c.words[0].value) == "cd" {
		r.s.cds = append(r.s.cds, cd{c.words[1:], loops})
		c.cd = len(r.s.cds)
	}
	if behind {
		r.s.behind = append(r.s.behind, c)
	} else {
		r.s.commands = append(r.s.commands, c)
	}
	if c.words[0].dynamic {
		r.s.hide("the command itself is not known")
		return
	}
	r.again = loops
	r.lookBehind(c)
}

// spell writes words in one way, whatever the quotes. With exact, a character that is
// quoted because it would mean more without stays so.
func spell(words []word, exact bool) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoted, err := syntax.Quote(w.value, syntax.LangBash)
		if w.dynamic || err != nil || !(exact && w.literal()) && strings.HasPrefix(quoted, "'") && !needsQuotes(w.value) {
			quoted = w.value
		}
		b.WriteString(quoted)
	}
	return b.String()
}

// needsQuotes says whether a value written plainly would be something else. Patterns
// and tildes are left plain: it is the rule's text that they are compared with.
func needsQuotes(v string) bool { return v == "" || strings.ContainsAny(v, " \t\n'\"\\$`;&|<>()#") }

// literal says that a word has a tilde or a pattern that is quoted.
func (w word) literal() bool {
	return !w.dynamic && !w.home && (strings.HasPrefix(w.value, "~") || special(w.value) != noPattern)
}

// word finds what a word stands for.
func (r *reader) word(w *syntax.Word) (out word) {
	if w == nil {
		return word{dynamic: true}
	}
	var b strings.Builder
	r.parts(w.Parts, false, &out, &b)
	out.value = b.String()
	r.tilde(w, &out)
	if !out.dynamic {
		out.prefix = out.value
	}
	return out
}

// tilde finds a ~ at the beginning of a word. It stands for the home directory alone and
// before a slash; with anything else, a quoted slash included, shells do not agree.
func (r *reader) tilde(w *syntax.Word, out *word) {
	first, is := w.Parts[0].(*syntax.Lit)
	if !is || !strings.HasPrefix(first.Value, "~") {
		return
	}
	if user, _, more := strings.Cut(first.Value[1:], "/"); user == "" && (more || len(w.Parts) == 1) {
		out.home = true
	} else {
		out.dynamic, out.prefix = true, "~"
	}
}

func (r *reader) parts(parts []syntax.WordPart, quoted bool, out *word, b *strings.Builder) {
	unknown := func(many bool) {
		if !out.dynamic {
			out.dynamic, out.prefix = true, b.String()
		}
		out.many = out.many || many
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if !quoted {
				switch at := special(p.Value); at {
				case noPattern:
				default:
					before := b.String()
					if !out.dynamic {
						out.dynamic, out.prefix = true, before+unescape(p.Value[:at], quoted)
					}
					out.many = true
				}
			}
			b.WriteString(unescape(p.Value, quoted))
		case *syntax.SglQuoted:
			b.WriteString(single(p))
		case *syntax.DblQuoted:
			r.parts(p.Parts, true, out, b)
		default:
			unknown(!quoted || allOf(p))
			b.WriteString(r.text[p.Pos().Offset():p.End().Offset()])
		}
	}
}

// allOf says that a part is "$@", which is several words in quotes, too.
func allOf(p syntax.WordPart) bool {
	x, is := p.(*syntax.ParamExp)
	return is && x.Param != nil && x.Param.Value == "@"
}

const noPattern = -1

// special finds what a shell expands in a plain text: file patterns, braces.
func special(v string) int {
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '~': // of what looks like an assignment
			if i > 0 && (v[i-1] == '=' || v[i-1] == ':') {
				return i
			}
		case '*', '?', '[', '{':
			if v == "[" || v == "[[" || v == "{}" {
				return noPattern
			}
			return i
		}
	}
	return noPattern
}

// unescape takes the backslashes away.
func unescape(v string, quoted bool) string {
	if !strings.Contains(v, `\`) {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) || quoted && !strings.ContainsRune("$`\"\\\n", rune(v[i+1])) {
			b.WriteByte(v[i])
			continue
		}
		if i++; v[i] != '\n' {
			b.WriteByte(v[i])
		}
	}
	return b.String()
}

func single(p *syntax.SglQuoted) string {
	if !p.Dollar {
		return p.Value
	}
	v, err := expand.Literal(nil, &syntax.Word{Parts: []syntax.WordPart{p}})
	if err != nil {
		return p.Value
	}
	return v
}
