package resource

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
// directories. A project's rule hides a user's of the same name. Files without
// a trigger are no stream rules; a trigger that is no regular expression is a
// problem, and its file is left out.
func LoadStreamRules(dirs Dirs, disabled []string) ([]StreamRule, []Problem) {
	var p problems
	s := Sources{Dirs: dirs}
	places := []place{{path: filepath.Join(s.project(), "rules"), location: Project}, {path: filepath.Join(s.Agent, "rules"), location: User}}
	if dirs.IgnoreProject {
		places = places[1:]
	}
	var rules []StreamRule
	seen := map[string]bool{}
	for _, where := range places {
		for _, file := range p.markdownIn(where) {
			r, ok := p.streamRule(file)
			if ok && !seen[r.Name] && !slices.Contains(disabled, r.Name) {
				seen[r.Name] = true
				rules = append(rules, r)
			}
		}
	}
	return rules, p
}

func (p *problems) streamRule(file string) (StreamRule, bool) {
	src, err := read(file)
	if err != nil {
		p.add(file, err)
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
	trigger, err := regexp.Compile(text)
	if err != nil {
		p.add(file, err)
		return StreamRule{}, false
	}
	r := StreamRule{
		Name: head.text("name"), Path: file, Description: head.text("description"), Content: body, Trigger: trigger, TriggerText: text,
	}
	if r.Name == "" {
		r.Name = strings.TrimSuffix(filepath.Base(file), ".md")
	}
	return r, true
}
