package config

import (
	"fmt"
	"strings"
	"unicode"

	"troupe/protocol"
)

// Expander replaces input that names a template or a skill by what it stands
// for.
type Expander struct {
	Templates     []Template
	Skills        []Skill
	SkillCommands bool // settings key enableSkillCommands
}

// Expand expands "/skill:name arguments" and "/template arguments". Everything
// else, and names that nobody knows, come back unchanged; so does, with the
// error, what names a skill whose file cannot be read or a template that
// becomes too large.
func (e Expander) Expand(text string) (string, error) {
	if !strings.HasPrefix(text, "/") {
		return text, nil
	}
	name, args := text[1:], ""
	if i := strings.IndexFunc(name, unicode.IsSpace); i >= 0 {
		name, args = name[:i], strings.TrimSpace(name[i:])
	}
	if skill, ok := strings.CutPrefix(name, "skill:"); ok {
		return e.skill(text, skill, args)
	}
	for _, t := range e.Templates {
		if t.Name == name {
			expanded, err := t.Expand(SplitArguments(args))
			if err != nil {
				return text, err
			}
			return expanded, nil
		}
	}
	return text, nil
}

// skill wraps a skill's instructions and puts the arguments after them.
func (e Expander) skill(text, name, args string) (string, error) {
	for _, s := range e.Skills {
		if s.Name != name || !e.SkillCommands {
			continue
		}
		src, err := read(s.Path, protocol.MaxTextFile)
		if err != nil {
			return text, fmt.Errorf("skill %s: %w", name, err)
		}
		_, body := splitFrontmatter(src)
		out := fmt.Sprintf("<skill name=\"%s\" location=\"%s\">\nRelative paths in this skill start from %s.\n\n%s\n</skill>",
			escapeXML(s.Name), escapeXML(s.Path), s.Dir(), body)
		if args != "" {
			out += "\n\n" + args
		}
		return out, nil
	}
	return text, nil
}

// Commands lists what can be expanded: templates, then skills. Where those come from
// that are of no package, their location says.
func (e Expander) Commands() []protocol.SlashCommand {
	list := []protocol.SlashCommand{}
	for _, t := range e.Templates {
		list = append(list, protocol.SlashCommand{
			Name: t.Name, Description: t.Description, Source: "prompt", Location: string(t.Location), Path: t.Path,
			SourceInfo: t.Package.sourceOf(t.Path),
		})
	}
	for _, s := range e.Skills {
		if e.SkillCommands {
			list = append(list, protocol.SlashCommand{
				Name: "skill:" + s.Name, Description: s.Description, Source: "skill", Location: string(s.Location), Path: s.Path,
				SourceInfo: s.Package.sourceOf(s.Path),
			})
		}
	}
	return list
}

// escapeXML makes text safe inside a tag and its attributes.
func escapeXML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace(s)
}
