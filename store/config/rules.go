package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"troupe/protocol"
)

// StreamRule is a Markdown file with a trigger: an instruction that a model is
// shown when what it writes matches.
type StreamRule struct {
	Name        string // of the frontmatter, else the file's name without .md
	Path        string
	Description string
	Content     string
	Trigger     *regexp.Regexp // any of the file's ttsr_trigger or condition
	TriggerText string
	Conditions  []string // its parts, one for each expression of the file
	Location    Location

	Scopes        []RuleScope // what it watches; none is text and the arguments of calls
	ScopeTexts    []string    // the same in the words of the file
	Globs         []string    // of the files that calls have to be about
	AlwaysApply   bool
	InterruptMode string // of the settings' words; "" is the setting
}

// RuleScope is a kind of content that a rule watches.
type RuleScope struct {
	Kind  protocol.BlockKind
	Tool  string                 // of a call, "" for any
	Files func(path string) bool // of a call: that it is about; nil for any
}

// LoadStreamRules finds the rules in the user's and the project's rules
// directories. A trusted project's rule hides a user's of the same name; another
// project's is hidden by it. Files without
// a trigger are no stream rules; a trigger that is no regular expression is a
// problem, and its file is left out.
func LoadStreamRules(dirs Dirs, disabled []string) ([]StreamRule, []Problem) {
	in := dirs.take("stream rules")
	user, project := rulePlaces(dirs)
	var places []place
	switch dirs.Access {
	case Everything:
		places = slices.Concat(project, user)
	case Texts:
		places = slices.Concat(user, project)
	case ContextOnly:
		places = user
	}
	room := protocol.MaxTriggers
	var rules []StreamRule
	seen := map[string]bool{}
	for _, where := range places {
		for _, file := range in.markdownIn(where) {
			r, ok := in.streamRule(file, where.location)
			if !ok || seen[r.Name] || slices.Contains(disabled, r.Name) {
				continue
			}
			weight, err := weigh(r.TriggerText)
			if room -= weight; err == nil && room < 0 {
				in.full = true
				in.add(file, fmt.Errorf("the triggers of all stream rules are larger than %d steps: this rule and those behind it are left out", protocol.MaxTriggers))
				return rules, in.problems
			}
			if err == nil {
				r.Trigger, err = regexp.Compile(r.TriggerText)
			}
			if err != nil {
				in.add(file, err)
				continue
			}
			seen[r.Name] = true
			rules = append(rules, r)
		}
	}
	return rules, in.problems
}

// rulePlaces are the directories of rules: ours, and those of other programs whose
// rules may have triggers, too. Somebody who works at home has no project there.
func rulePlaces(dirs Dirs) (user, project []place) {
	user = []place{{path: filepath.Join(dirs.Agent, "rules"), location: User}}
	if dirs.Home != "" {
		for _, dir := range []string{".omp/agent", ".pisces/agent", ".claude"} {
			user = append(user, place{path: filepath.Join(dirs.Home, dir, "rules"), location: User})
		}
	}
	for _, dir := range []string{".pi", ".omp", ".pisces", ".claude", ".cursor"} {
		p := place{path: filepath.Join(dirs.Cwd, dir, "rules"), location: Project}
		if !slices.ContainsFunc(user, func(u place) bool { return u.path == p.path }) {
			project = append(project, p)
		}
	}
	return user, project
}

// ruleModes are the words of interruptMode.
var ruleModes = []string{"always", "prose-only", "tool-only", "never"}

// watches reads what a rule watches.
func (r *StreamRule) watches(head frontmatter) error {
	r.Globs, r.AlwaysApply, r.InterruptMode = head.texts("globs"), head.bool("alwaysApply"), head.text("interruptMode")
	if r.InterruptMode != "" && !slices.Contains(ruleModes, r.InterruptMode) {
		return fmt.Errorf("interruptMode: want one of %s", strings.Join(ruleModes, ", "))
	}
	r.ScopeTexts = head.texts("scope")
	for _, text := range r.ScopeTexts {
		s, err := ruleScope(text)
		if err != nil {
			return err
		}
		r.Scopes = append(r.Scopes, s)
	}
	if len(r.Globs) == 0 {
		return nil
	}
	files, err := filesLike(r.Globs)
	if err != nil {
		return err
	}
	if len(r.Scopes) == 0 {
		r.Scopes = []RuleScope{{Kind: protocol.BlockToolCall}}
	}
	for i := range r.Scopes {
		if s := &r.Scopes[i]; s.Kind == protocol.BlockToolCall && s.Files == nil {
			s.Files = files
		}
	}
	return nil
}

// ruleScope reads text, thinking, tool, tool:NAME or tool:NAME(GLOB).
func ruleScope(text string) (RuleScope, error) {
	switch text {
	case "text":
		return RuleScope{Kind: protocol.BlockText}, nil
	case "thinking":
		return RuleScope{Kind: protocol.BlockThinking}, nil
	case "tool":
		return RuleScope{Kind: protocol.BlockToolCall}, nil
	}
	name, isTool := strings.CutPrefix(text, "tool:")
	name, glob, hasGlob := strings.Cut(name, "(")
	glob, closed := strings.CutSuffix(glob, ")")
	if !isTool || name == "" || hasGlob != closed {
		return RuleScope{}, fmt.Errorf("scope: want text, thinking, tool, tool:NAME or tool:NAME(GLOB), not %q", text)
	}
	s := RuleScope{Kind: protocol.BlockToolCall, Tool: name}
	if !hasGlob {
		return s, nil
	}
	var err error
	s.Files, err = filesLike([]string{glob})
	return s, err
}

// filesLike is whether a path is like one of some patterns: by its name if a pattern
// has no slash, else by its end.
func filesLike(globs []string) (func(path string) bool, error) {
	for _, glob := range globs {
		if !doublestar.ValidatePattern(glob) {
			return nil, fmt.Errorf("not a pattern: %q", glob)
		}
	}
	return func(path string) bool {
		path = filepath.ToSlash(path)
		return slices.ContainsFunc(globs, func(glob string) bool {
			if !strings.HasPrefix(glob, "/") {
				glob = "**/" + strings.TrimPrefix(glob, "./")
			}
			return path != "" && (doublestar.MatchUnvalidated(glob, path) || doublestar.MatchUnvalidated(glob, "/"+path))
		})
	}, nil
}

// weigh says about how many steps an expression compiles to: a short text that
// repeats and repeats may come to millions.
func weigh(expression string) (int, error) {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return steps(re), nil
}

func steps(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, protocol.MaxTriggers+1)
}

// streamRule reads a rule; its trigger is still to be compiled.
func (in *intake) streamRule(file string, location Location) (StreamRule, bool) {
	src, err := in.read(file, location)
	if err != nil {
		in.failed(file, err)
		return StreamRule{}, false
	}
	head, body := splitFrontmatter(src)
	var triggers []string
	for _, key := range []string{"ttsr_trigger", "ttsrTrigger", "condition"} {
		if v := head[key]; v.list != nil {
			triggers = append(triggers, v.list...)
		} else if v.text != "" {
			triggers = append(triggers, v.text)
		}
	}
	if len(triggers) == 0 {
		return StreamRule{}, false
	}
	text := triggers[0]
	if len(triggers) > 1 {
		text = "(?:" + strings.Join(triggers, ")|(?:") + ")"
	}
	r := StreamRule{Name: head.text("name"), Path: file, Description: head.text("description"), Content: body, TriggerText: text, Conditions: triggers, Location: location}
	r.Name = cmp.Or(r.Name, strings.TrimSuffix(filepath.Base(file), ".md"))
	if err := r.watches(head); err != nil {
		in.add(file, err)
		return StreamRule{}, false
	}
	return r, true
}
