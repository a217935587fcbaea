package resource

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"troupe/protocol"
	"troupe/protocol/bounded"
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
	triggers := 0
	var rules []StreamRule
	seen := map[string]bool{}
	for _, where := range places {
		for _, file := range in.markdownIn(where) {
			r, ok := in.streamRule(file, where.location)
			if !ok || seen[r.Name] || slices.Contains(disabled, r.Name) {
				continue
			}
			if triggers += len(r.TriggerText); triggers > protocol.MaxTriggers {
				in.add(file, fmt.Errorf("the triggers of all stream rules have more than %d KiB: this rule is left out", protocol.MaxTriggers>>10))
				continue
			}
			seen[r.Name] = true
			rules = append(rules, r)
		}
	}
	return rules, in.problems
}

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
	if len(text) > protocol.MaxTriggers { // a short expression may compile to much, a long one to anything
		in.add(file, bounded.TooLarge{Limit: protocol.MaxTriggers})
		return StreamRule{}, false
	}
	trigger, err := regexp.Compile(text)
	if err != nil {
		in.add(file, err)
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
