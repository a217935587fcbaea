package config

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"troupe/protocol"
)

// PromptParts are the parts of a system prompt.
type PromptParts struct {
	Base         string              // replaces identity, tools and guidelines; "" for the default
	Tools        []protocol.ToolInfo // those that are active, in order
	Guidelines   []string            // beside those of the tools
	Append       []string
	Sections     map[string]string // further ones, by their titles
	ContextFiles []ContextFile
	Skills       []Skill
	Cwd          string
}

// LoadBase is the text that replaces the default prompt: the flag
// --system-prompt, which names a file or is the text itself, else the project's
// SYSTEM.md, else the user's. It is "" if there is none.
func LoadBase(d Dirs, flag string) (string, []Problem) {
	in := d.take("system prompts")
	if flag != "" {
		return in.textOrFile(d, flag), in.problems
	}
	return in.first(d, "SYSTEM.md"), in.problems
}

// LoadAppend lists the texts that are put after the prompt: those of the flags
// --append-system-prompt, else the project's APPEND_SYSTEM.md, else the user's.
func LoadAppend(d Dirs, flags []string) ([]string, []Problem) {
	in := d.take("additions to the system prompt")
	var texts []string
	for _, flag := range flags {
		texts = append(texts, in.textOrFile(d, flag))
	}
	if len(flags) == 0 {
		texts = []string{in.first(d, "APPEND_SYSTEM.md")}
	}
	return slices.DeleteFunc(texts, func(t string) bool { return strings.TrimSpace(t) == "" }), in.problems
}

func (in *intake) first(d Dirs, name string) string {
	if d.Access >= Texts {
		if text, ok := in.readIfThere(filepath.Join(d.project(), name), Project); ok {
			return text
		}
	}
	text, _ := in.readIfThere(filepath.Join(d.Agent, name), User)
	return text
}

// textOrFile reads a file if the value names one. Texts are often too long, or
// too strange, to be names at all; that is no problem.
func (in *intake) textOrFile(d Dirs, value string) string {
	path := d.expand(value, d.Cwd)
	if !d.mayName(path) {
		return value
	}
	in.hold(d, path)
	text, err := in.read(path, Path)
	if err == nil {
		return text
	}
	if exists(path) && !errors.Is(err, errNotFile) {
		in.add(path, err)
	}
	return value
}

// SystemPrompt puts the parts together. Equal parts give equal bytes: there is
// no date and no other thing in it that changes by itself, so that what
// providers keep of it stays good.
func SystemPrompt(parts PromptParts) string {
	var sections []string
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			sections = append(sections, text)
		}
	}
	if strings.TrimSpace(parts.Base) != "" {
		add(parts.Base)
	} else {
		add(identity)
		add(toolSection(parts.Tools))
		add(guidelineSection(parts.Tools, parts.Guidelines))
	}
	for _, text := range parts.Append {
		add(text)
	}
	for _, title := range slices.Sorted(maps.Keys(parts.Sections)) {
		add("# " + title + "\n\n" + parts.Sections[title])
	}
	add(contextSection(parts.ContextFiles))
	if hasTool(parts.Tools, "read") {
		add(skillSection(parts.Skills))
	}
	add("Current working directory: " + filepath.ToSlash(parts.Cwd))
	return strings.Join(sections, "\n\n")
}

const identity = `You are a coding agent. You work in a person's project through the tools below: you read and change files, run commands, and report what you did.`

func hasTool(tools []protocol.ToolInfo, name string) bool {
	return slices.ContainsFunc(tools, func(t protocol.ToolInfo) bool { return t.Name == name })
}

// toolSection lists the tools that have a snippet, as pi does. The model knows the others by the
// descriptions in the request.
func toolSection(tools []protocol.ToolInfo) string {
	var b strings.Builder
	b.WriteString("# Tools\n")
	for _, t := range tools {
		if t.Snippet != "" {
			b.WriteString("\n- " + t.Name + ": " + t.Snippet)
		}
	}
	if len(tools) == 0 {
		b.WriteString("\nNone: answer from what you know and what you are told.")
	}
	b.WriteString("\n\nThe project may provide further tools; their descriptions come with them.")
	return b.String()
}

// guidelineSection depends on which tools there are, and on what the tools say
// for themselves.
func guidelineSection(tools []protocol.ToolInfo, more []string) string {
	var lines []string
	add := func(when bool, line string) {
		if line = strings.TrimSpace(line); when && line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	has := func(name string) bool { return hasTool(tools, name) }
	searches := has("grep") || has("find") || has("ls")
	add(has("bash") && !searches, "Use bash to look around: ls, rg, find.")
	add(has("bash") && searches, "To look around prefer the tools made for it (grep, find, ls) over bash: they are faster and skip ignored files.")
	add(has("read") && has("edit"), "Read a file before you edit it.")
	add(has("edit"), "An edit replaces text that has to match exactly, white space included.")
	add(has("write"), "Write whole files only when they are new or change throughout.")
	add(has("edit") || has("write"), "Say what you did in your answer, not through cat or echo.")
	for _, t := range tools {
		for _, line := range t.Guidelines {
			add(true, line)
		}
	}
	for _, line := range more {
		add(true, line)
	}
	add(true, "Be brief.")
	add(true, "Name the files you work on by their paths.")
	return "# Guidelines\n\n- " + strings.Join(lines, "\n- ")
}

func contextSection(files []ContextFile) string {
	if len(files) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Project context\n\nInstructions that were left for you. Where they disagree the later ones count.")
	for _, f := range files {
		b.WriteString("\n\n## " + f.Path + "\n\n" + strings.TrimSpace(f.Content))
	}
	return b.String()
}

func skillSection(skills []Skill) string {
	var b strings.Builder
	for _, s := range skills {
		if !s.Hidden {
			b.WriteString("\n  <skill>\n    <name>" + escapeXML(s.Name) + "</name>\n    <description>" + escapeXML(s.Description) +
				"</description>\n    <location>" + escapeXML(s.Path) + "</location>\n  </skill>")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return `# Skills

Each skill below is a file of instructions for one kind of task. When a task fits a description, read the file first and follow it. Relative paths in it start from the file's directory.

<available_skills>` + b.String() + "\n</available_skills>"
}
