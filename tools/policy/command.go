package policy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// decideCommand judges a command in a shell by everything that it starts.
func (s *Set) decideCommand(mode Mode, c Call) Decision {
	sc := readScript(c.Command, c.Shell)
	if sc.moves && slices.ContainsFunc(sc.commands, simple.relative) {
		sc.veil("it is not known which directory a program is in")
	}
	tools := func(r *Rule) bool { return r.names(c.Tool) }
	for _, limit := range []action{deny, ask} {
		if d, decided := s.limitCommand(limit, sc, tools); decided {
			return d
		}
	}
	if sc.hidden && s.find(deny, tools) != nil {
		return Decision{Verdict: Ask, Why: sc.opaque + ", and there are rules that deny commands"}
	}
	if sc.hidden && s.find(ask, tools) != nil {
		return Decision{Verdict: Ask, Why: sc.opaque + ", and there are rules that ask about commands"}
	}
	all := s.find(allow, func(r *Rule) bool { return tools(r) && r.whole }) != nil
	if all && mode != ReadOnly {
		mode = Auto // whoever lets every command run lets it write, too
	}
	files := s.decideFiles(mode, sc)
	if all || mode == Auto || files.Verdict == Deny {
		return files
	}
	asked, always := s.unnamed(sc, tools)
	switch {
	case sc.opaque == "" && len(asked) == 0:
		return files
	case mode == ReadOnly:
		return byMode(mode)
	}
	d := Decision{Verdict: Ask, Why: "the mode is " + string(mode), Note: note(asked)}
	switch {
	case sc.opaque != "":
		d.Why = sc.opaque
	case always != nil && (files.Verdict == Allow || files.Always != nil):
		if d.Always = merge(always, files.Always); len(d.Always) > MostAlways {
			d.Always = nil
		}
	}
	return d
}

// limitCommand looks for a rule that denies, or that asks, among all that a script
// starts and the files that it redirects to.
func (s *Set) limitCommand(a action, sc script, tools func(*Rule) bool) (Decision, bool) {
	rule := s.find(a, func(r *Rule) bool { return tools(r) && r.whole })
	for _, list := range [][]simple{sc.commands, sc.behind} {
		for _, c := range list {
			if rule == nil {
				rule = s.find(a, func(r *Rule) bool { return tools(r) && c.limitedBy(r) })
			}
		}
	}
	if rule == nil {
		return Decision{}, false
	}
	verdict := Ask
	if a == deny {
		verdict = Deny
	}
	return Decision{Verdict: verdict, Rule: rule, Why: rule.String()}, true
}

// limitedBy says whether a rule that limits is about a command, however it is quoted
// and wherever its program lies.
func (c simple) limitedBy(r *Rule) bool {
	if c.fits(&r.command) {
		return true
	}
	if head := path.Base(c.words[0].value); head != c.words[0].value {
		named := slices.Clone(c.words)
		named[0].value = head
		return r.command.matches(spell(named))
	}
	return false
}

// decideFiles judges what is redirected as reading and editing.
func (s *Set) decideFiles(mode Mode, sc script) Decision {
	worst := Decision{Verdict: Allow}
	judge := func(kind Kind, tool, name string) {
		p := s.absolute(name)
		var d Decision
		switch {
		case p == "/dev/null" || p == "/dev/stdout" || p == "/dev/stderr" || p == "/dev/stdin" || p == "/dev/zero":
			return
		case sc.moves && !filepath.IsAbs(name) && mode != Auto:
			d = Decision{Verdict: Ask, Why: "it is not known which directory " + name + " is in"}
		default:
			d = s.decidePath(mode, s.target(kind, tool, p))
			if d.Verdict == Ask && d.Always != nil {
				d.Always = exactPath(kind, s.place.real(p))
			}
		}
		if d.Verdict < worst.Verdict {
			d.Always = merge(worst.Always, d.Always)
			worst = d
		} else if d.Verdict == Ask {
			worst.Always = merge(worst.Always, d.Always)
		}
	}
	for _, name := range sc.writes {
		judge(Edit, "edit", name)
	}
	for _, name := range sc.reads {
		judge(Read, "read", name)
	}
	return worst
}

func exactPath(kind Kind, p string) []string {
	if strings.ContainsAny(p, `*?[]{}\()`+"\n") {
		return nil
	}
	if kind == Edit {
		return []string{"Edit(/" + p + ")"}
	}
	return []string{"Read(/" + p + ")"}
}

func (s *Set) absolute(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		name = s.place.Home + name[1:]
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.place.Cwd, name)
	}
	return filepath.Clean(name)
}

// unnamed are the commands that no rule allows, with the rules that would; nil where
// one of them can be allowed only once.
func (s *Set) unnamed(sc script, tools func(*Rule) bool) (asked []simple, always []string) {
	once := false
	for _, c := range sc.commands {
		if s.allows(c, tools) {
			continue
		}
		asked = append(asked, c)
		rule := derive(c)
		if rule == "" {
			once = true
			continue
		}
		always = merge(always, []string{rule})
	}
	if once || len(always) > MostAlways {
		return asked, nil
	}
	if always == nil {
		always = []string{}
	}
	return asked, always
}

func (s *Set) allows(c simple, tools func(*Rule) bool) bool {
	head := c.words[0]
	if head.dynamic {
		return false
	}
	if inert[head.value] || strictSet[c.text] || head.value == "cd" && s.staysInside(c) {
		return true
	}
	if s.find(allow, func(r *Rule) bool { return tools(r) && s.allowedBy(c, r, tools) }) != nil {
		return true
	}
	if w, ok := wrappers[head.value]; ok && w.through {
		r := reader{s: new(script)}
		r.unwrap(w, c.words[1:])
		return r.s.opaque == "" && len(r.s.behind) > 0 && s.allows(r.s.behind[0], tools)
	}
	return false
}

// staysInside says that a cd goes to a directory within the working directory.
func (s *Set) staysInside(c simple) bool {
	if len(c.words) != 2 || c.words[1].dynamic || c.words[1].value == "-" {
		return false
	}
	return s.inside(s.place.real(s.absolute(c.words[1].value)))
}

// allowedBy says whether a rule names a command. A star in it stands for arguments, not
// for what makes something else of the program: that has to stand in the rule, as often.
func (s *Set) allowedBy(c simple, r *Rule, tools func(*Rule) bool) bool {
	if !c.fits(&r.command) {
		return false
	}
	if !r.command.stars {
		return true
	}
	head, rest := kin(c.words[0].value), c.words[1:]
	if find := orders[head]; find != nil && find(rest) {
		return false
	}
	named := strings.Fields(r.command.text)
	for i, w := range rest {
		if !escapesBy(head, w) && !(i == 0 && head == "tar" && escapesBy(head, dashed(w))) {
			continue
		}
		at := slices.Index(named, w.value)
		if at < 0 {
			return false
		}
		named = slices.Delete(named, at, at+1)
	}
	behind := reader{s: new(script)}
	behind.lookBehind(c)
	return !slices.ContainsFunc(behind.s.behind, func(started simple) bool {
		return !slices.Contains(named, started.words[0].value) && !s.allows(started, tools)
	})
}

// dashed is the first word of tar, which needs no dash to be options.
func dashed(w word) word {
	if w.value != "" && w.value[0] != '-' {
		w.value, w.prefix = "-"+w.value, "-"+w.prefix
	}
	return w
}

// derive is the rule that allows a command and nothing else that matters, "" if there
// is none.
func derive(c simple) string {
	for _, w := range c.words {
		if strings.ContainsAny(w.value, "*\n()") || w.dynamic {
			return ""
		}
	}
	for _, reader := range readers {
		if (c.text == reader || strings.HasPrefix(c.text, reader+" ")) && !slices.ContainsFunc(c.words, func(w word) bool { return escapesBy(c.words[0].value, w) }) {
			return "bash(" + reader + " *)"
		}
	}
	if strings.HasSuffix(c.text, ":") {
		return ""
	}
	return "bash(" + c.text + ")"
}

func note(asked []simple) string {
	for _, c := range asked {
		for _, runner := range runners {
			if c.text == runner || strings.HasPrefix(c.text, runner+" ") {
				return runner + " runs the project's code"
			}
		}
	}
	return ""
}

// relative says that the program is found from the working directory.
func (c simple) relative() bool {
	head := c.words[0].value
	return strings.Contains(head, "/") && !strings.HasPrefix(head, "/") && !strings.HasPrefix(head, "~/")
}

// fits says whether a pattern matches the command, as it was written or in one spelling.
func (c simple) fits(p *pattern) bool {
	return p.matches(c.text) || c.source != c.text && p.matches(c.source)
}
