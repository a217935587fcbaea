package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// StartsGit says whether the text of a command shows that it starts git.
func StartsGit(command string) bool {
	sc := readScript(command, "")
	git := func(c simple) bool { return path.Base(c.words[0].value) == "git" }
	return sc.hidden || slices.ContainsFunc(sc.commands, git) || slices.ContainsFunc(sc.behind, git)
}

// commandJudge is the judgement of one command in a shell.
type commandJudge struct {
	*Set
	tools func(*Rule) bool // rules about the tool
	sc    script
	dirs  directories
}

// decideCommand judges a command in a shell by everything that it starts.
func (s *Set) decideCommand(mode Mode, c Call) Decision {
	j := &commandJudge{Set: s, tools: func(r *Rule) bool { return r.names(c.Tool) }, sc: readScript(c.Command, c.Shell)}
	sc := &j.sc
	j.dirs = s.follow(sc)
	if j.dirs.moved && slices.ContainsFunc(sc.commands, simple.relative) {
		sc.veil("it is not known which directory a program is in")
	}
	if d, decided := j.limits(); decided {
		return d
	}
	all := s.find(allow, func(r *Rule) bool { return j.tools(r) && r.whole }) != nil
	if all && mode != ReadOnly {
		mode = Auto // whoever lets every command run lets it write, too
	}
	files := j.decideFiles(mode)
	if all || mode == Auto || files.Verdict == Deny {
		return files
	}
	asked, always := j.unnamed()
	switch {
	case sc.opaque == "" && len(asked) == 0:
		return files
	case mode == ReadOnly:
		return byMode(mode)
	}
	d := Decision{Verdict: Ask, Why: "the permission mode is " + string(mode), Note: note(asked)}
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

// limits looks for a rule that denies or asks.
func (j *commandJudge) limits() (Decision, bool) {
	for _, limit := range []action{deny, ask} {
		if d, decided := j.limitCommand(limit, j.sc, j.tools); decided {
			return d, true
		}
	}
	why := cmp.Or(j.sc.opaque, j.sc.behindIt)
	switch {
	case j.sc.hidden && j.find(deny, j.tools) != nil:
		return Decision{Verdict: Ask, Why: why + ", and there are rules that deny commands"}, true
	case j.sc.hidden && j.find(ask, j.tools) != nil:
		return Decision{Verdict: Ask, Why: why + ", and there are rules that ask about commands"}, true
	case j.sc.blind && (j.limitsFiles("edit") || j.limitsFiles("read")):
		return Decision{Verdict: Ask, Why: "it is not known where it writes to or reads from, and there are rules about files"}, true
	}
	return Decision{}, false
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
		return r.command.matches(spell(named, false))
	}
	return false
}

// decideFiles judges what is redirected as reading and editing.
func (j *commandJudge) decideFiles(mode Mode) Decision {
	worst := Decision{Verdict: Allow}
	add := func(d Decision) {
		if d.Verdict < worst.Verdict {
			d.Always = merge(worst.Always, d.Always)
			worst = d
		} else if d.Verdict == Ask {
			worst.Always = merge(worst.Always, d.Always)
		}
	}
	for _, w := range j.sc.writes {
		add(j.decideFile(mode, Edit, "edit", w))
	}
	for _, w := range j.sc.reads {
		add(j.decideFile(mode, Read, "read", w))
	}
	return worst
}

// decideFile judges a redirection in every directory that the command may be in.
func (j *commandJudge) decideFile(mode Mode, kind Kind, tool string, w word) Decision {
	paths, known := j.places(w)
	worst := Decision{Verdict: Allow}
	for _, p := range paths {
		if stream[p] {
			continue
		}
		t := j.target(kind, tool, p)
		d := j.decidePath(mode, t)
		if d.Verdict == Ask && d.Always != nil {
			d.Always = exactPath(kind, t.real)
		}
		if d.Verdict < worst.Verdict {
			worst = d
		}
	}
	if known && len(paths) == 1 || worst.Verdict == Deny || known && mode == Auto {
		return worst
	}
	return j.unknown(mode, kind, tool, "it is not known which directory "+w.value+" is in")
}

// stream are files that every command may read and write.
var stream = map[string]bool{"/dev/null": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/stdin": true, "/dev/zero": true}

// unknown judges a file of which it is not known where it is.
func (s *Set) unknown(mode Mode, kind Kind, tool, why string) Decision {
	switch {
	case mode == Auto && !s.limitsFiles(tool):
		return Decision{Verdict: Allow}
	case mode == ReadOnly && kind == Edit:
		return byMode(mode)
	case mode == ReadOnly:
		return Decision{Verdict: Deny, Why: "the mode is readonly, and " + why}
	}
	return Decision{Verdict: Ask, Why: why}
}

// limitsFiles says whether a rule denies a tool some files, or asks about them.
func (s *Set) limitsFiles(tool string) bool {
	names := func(r *Rule) bool { return r.names(tool) }
	return s.find(deny, names) != nil || s.find(ask, names) != nil
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

// unnamed are the commands that no rule allows, with the rules that would; nil where
// one of them can be allowed only once.
func (j *commandJudge) unnamed() (asked []simple, always []string) {
	once := false
	for _, c := range j.sc.commands {
		if j.allows(c) {
			continue
		}
		asked = append(asked, c)
		rule := derive(c)
		if rule == "" || j.carried(c) {
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

func (j *commandJudge) allows(c simple) bool {
	head := c.words[0]
	if head.dynamic || j.carried(c) {
		return false
	}
	if inert[head.value] || strictSet[c.text] || c.cd > 0 && head.value == "cd" && j.dirs.stays[c.cd-1] {
		return true
	}
	if j.find(allow, func(r *Rule) bool { return j.tools(r) && j.allowedBy(c, r) }) != nil {
		return true
	}
	if w, ok := wrappers[head.value]; ok && w.through {
		started := c.starts()
		return len(started) > 0 && j.allows(started[0])
	}
	return false
}

// versionControl are programs that take their configuration, which names programs, from
// the directory that they run in.
var versionControl = map[string]bool{"git": true, "hg": true, "jj": true, "sl": true, "bzr": true, "brz": true, "darcs": true, "svn": true, "fossil": true}

// carried says that a command is git, or the like, in another directory than that of the
// session: a repository there has a configuration of its own.
func (j *commandJudge) carried(c simple) bool {
	return versionControl[path.Base(c.words[0].value)] && (j.dirs.moved || j.bareAbove())
}

// starts are the commands that a wrapper starts, if all of it is understood.
func (c simple) starts() []simple {
	r := reader{s: new(script)}
	r.lookBehind(c)
	if r.s.opaque != "" || r.s.hidden || r.s.altered {
		return nil
	}
	return r.s.behind
}

// allowedBy says whether a rule names a command. A star in it stands for arguments that
// do no more than the program's purpose. All other arguments have to be in the rule, as often
// as in the command; so has a program that it starts, unless another rule allows that program.
func (j *commandJudge) allowedBy(c simple, r *Rule) bool {
	if !c.fits(&r.command) {
		return false
	}
	if !r.command.stars || r.command.every {
		return true
	}
	named := strings.Fields(r.command.text)
	head := c.words[0].value
	if w, wraps := wrappers[head]; wraps && (w.through || head == "env" || head == "xargs") {
		return c.harmlessBut(named) || j.wraps(c, head, named)
	}
	if !c.harmlessBut(named) {
		return false
	}
	behind := reader{s: new(script)}
	behind.lookBehind(c)
	return !slices.ContainsFunc(behind.s.behind, func(started simple) bool {
		return !slices.Contains(named, started.words[0].value) && !j.allows(started)
	})
}

// wraps reports whether the program that a wrapper starts is allowed, or named by the wrapper's
// own rule. Programs under xargs get arguments that the command does not show.
func (j *commandJudge) wraps(c simple, head string, named []string) bool {
	started := c.starts()
	if len(started) == 0 {
		return false
	}
	first := started[0]
	if p, _, _ := first.known(); head == "xargs" && !p.any {
		return false
	}
	return slices.Contains(named, first.words[0].value) && first.harmlessBut(named) || j.allows(first)
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
		if (c.text == reader || strings.HasPrefix(c.text, reader+" ")) && c.harmlessBut(nil) {
			return "bash(" + reader + " *)"
		}
	}
	if strings.HasSuffix(c.exact, ":") {
		return ""
	}
	return "bash(" + c.exact + ")"
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
	head := c.words[0]
	return strings.Contains(head.value, "/") && !strings.HasPrefix(head.value, "/") && !head.home
}

// fits says whether a pattern matches the command, as it was written or in one spelling.
func (c simple) fits(p *pattern) bool {
	return p.matches(c.text) || c.source != c.text && p.matches(c.source) || c.exact != c.text && p.matches(c.exact)
}
