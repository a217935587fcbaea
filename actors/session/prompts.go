package session

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/store/config"
)

// promptResources are what a person lays out for an agent to read: templates,
// skills, context files, the parts of the system prompt.
type promptResources struct {
	expander config.Expander
	parts    config.PromptParts
}

// prompts reads them when they are first needed, and keeps them until a session
// is parked. Jobs ask for them as well: mu guards the rest.
type prompts struct {
	mu   sync.Mutex
	read func(more extension.Resources) *promptResources
	more extension.Resources // of extensions
	kept *promptResources    // nil until they are read
}

func (p *prompts) get() *promptResources {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = p.read(p.more)
	}
	return p.kept
}

func (p *prompts) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = nil
}

// add adds what extensions bring along.
func (p *prompts) add(more extension.Resources) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more, p.kept = more, nil
}

// readPromptResources reads them. What cannot be read is named in the log and left
// out.
func readPromptResources(shared *Shared, spec link.OpenSpec, dirs config.Dirs, files *config.Settings, packages []config.Package, more extension.Resources) *promptResources {
	t := &promptResources{parts: config.PromptParts{Base: spec.SystemPrompt, Cwd: dirs.Cwd}}
	note := shared.complaints.all
	var found []config.Problem
	t.expander.SkillCommands = files.EnableSkillCommands
	t.expander.Templates, found = config.LoadTemplates(config.Sources{
		Dirs: dirs, Named: files.Prompts, Packages: packages, Flags: slices.Concat(shared.Prompts, more.Prompts), NoDefaults: shared.NoPrompts,
	})
	note(found)
	t.expander.Skills, found = config.LoadSkills(config.Sources{
		Dirs: dirs, Named: files.Skills, Packages: packages, Flags: slices.Concat(shared.Skills, more.Skills), NoDefaults: shared.NoSkills,
	})
	note(found)
	t.parts.Skills = t.expander.Skills
	if !shared.NoContext && (spec.Child == nil || !spec.Child.Agent.NoContext) {
		t.parts.ContextFiles, found = config.LoadContextFiles(dirs)
		note(found)
	}
	if t.parts.Base == "" {
		t.parts.Base, found = config.LoadBase(dirs, "")
		note(found)
	}
	if t.parts.Append = []string{spec.AppendSystemPrompt}; spec.AppendSystemPrompt == "" {
		t.parts.Append, found = config.LoadAppend(dirs, nil)
		note(found)
	}
	return t
}

// system composes the system prompt for a set of tools.
func (t *promptResources) system(tools []protocol.ToolInfo) string {
	parts := t.parts
	parts.Tools = tools
	return config.SystemPrompt(parts)
}

// options are what the system prompt for a set of tools is made of, as extensions see
// it.
func (t *promptResources) options(tools []protocol.ToolInfo) extension.PromptOptions {
	o := extension.PromptOptions{
		CustomPrompt: t.parts.Base, Guidelines: []string{}, Append: strings.Join(t.parts.Append, "\n\n"), Sections: map[string]string{},
		Cwd: t.parts.Cwd, ContextFiles: []extension.PromptFile{}, Skills: []extension.PromptSkill{},
	}
	o.SetTools(tools)
	for _, f := range t.parts.ContextFiles {
		o.ContextFiles = append(o.ContextFiles, extension.PromptFile(f))
	}
	for _, s := range t.parts.Skills {
		o.Skills = append(o.Skills, extension.PromptSkill{Name: s.Name, Description: s.Description, Path: s.Path, BaseDir: s.Dir(), Hidden: s.Hidden})
	}
	return o
}

// systemOf composes the system prompt of what extensions have made of its parts.
func systemOf(o extension.PromptOptions) string {
	parts := config.PromptParts{
		Base: o.CustomPrompt, Tools: o.ToolInfos(), Guidelines: o.Guidelines, Append: []string{o.Append}, Sections: o.Sections, Cwd: o.Cwd,
	}
	for _, f := range o.ContextFiles {
		parts.ContextFiles = append(parts.ContextFiles, config.ContextFile(f))
	}
	for _, s := range o.Skills {
		parts.Skills = append(parts.Skills, config.Skill{Name: s.Name, Description: s.Description, Path: s.Path, Hidden: s.Hidden})
	}
	return config.SystemPrompt(parts)
}

// expand replaces a command's text, if it begins with /, by the template or skill
// that it names, and notes what comes of it.
func (s *Session) expand(c *core.Command) {
	cmd, ok := c.Cmd.(protocol.Expandable)
	if !ok || !strings.HasPrefix(cmd.Text(), "/") {
		return
	}
	expanded, err := s.work.prompts.get().expander.Expand(cmd.Text())
	switch {
	case errors.As(err, new(bounded.TooLarge)):
		c.Refused = protocol.CodeInvalidParams.Errorf("%s", err)
	case err != nil:
		s.log.Warn().Err(err).Msg("skill cannot be read")
	}
	c.Slash = expanded == cmd.Text()
	c.Said, c.Cmd = c.Cmd, cmd.WithText(expanded)
}
