package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

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
}

// LoadStreamRules finds the rules in the user's and the project's rules
// directories. A trusted project's rule hides a user's of the same name; another
// project's is hidden by it. Files without
// a trigger are no stream rules; a trigger that is no regular expression is a
// problem, and its file is left out.
func LoadStreamRules(dirs Dirs, disabled []string) ([]StreamRule, []Problem) {
	in := dirs.take("stream rules")
	user, project := place{path: filepath.Join(dirs.Agent, "rules"), location: User}, place{path: filepath.Join(dirs.project(), "rules"), location: Project}
	var places []place
	switch dirs.Access {
	case Everything:
		places = []place{project, user}
	case Texts:
		places = []place{user, project}
	case ContextOnly:
		places = []place{user}
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
	r := StreamRule{Name: head.text("name"), Path: file, Description: head.text("description"), Content: body, TriggerText: text}
	if r.Name == "" {
		r.Name = strings.TrimSuffix(filepath.Base(file), ".md")
	}
	return r, true
}
