package actors

import (
	"errors"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/store/resource"
)

// texts are what a person lays out for an agent to read: templates, skills,
// context files, the parts of the system prompt.
type texts struct {
	expander resource.Expander
	parts    resource.PromptParts
}

// readTexts reads them. What cannot be read is named in the log and left out.
func readTexts(cfg *Config, spec OpenSpec, dirs resource.Dirs, files *resource.Settings) *texts {
	t := &texts{parts: resource.PromptParts{Base: spec.SystemPrompt, Cwd: dirs.Cwd}}
	var problems []resource.Problem
	note := func(p []resource.Problem) { problems = append(problems, p...) }
	var found []resource.Problem
	t.expander.SkillCommands = files.EnableSkillCommands
	t.expander.Templates, found = resource.LoadTemplates(resource.Sources{
		Dirs: dirs, Named: files.Prompts, Flags: cfg.Prompts, NoDefaults: cfg.NoPrompts,
	})
	note(found)
	t.expander.Skills, found = resource.LoadSkills(resource.Sources{
		Dirs: dirs, Named: files.Skills, Flags: cfg.Skills, NoDefaults: cfg.NoSkills,
	})
	note(found)
	t.parts.Skills = t.expander.Skills
	if !cfg.NoContext {
		t.parts.ContextFiles, found = resource.LoadContextFiles(dirs)
		note(found)
	}
	if t.parts.Base == "" {
		t.parts.Base, found = resource.LoadBase(dirs, "")
		note(found)
	}
	if t.parts.Append = []string{spec.AppendSystemPrompt}; spec.AppendSystemPrompt == "" {
		t.parts.Append, found = resource.LoadAppend(dirs, nil)
		note(found)
	}
	cfg.complain(problems)
	return t
}

// system composes the system prompt for a set of tools.
func (t *texts) system(tools []protocol.ToolInfo) string {
	parts := t.parts
	parts.Tools = tools
	return resource.SystemPrompt(parts)
}

// expand replaces a command's text by the template or skill it names. That of
// queue_message is taken as it is.
func (s *Session) expand(c *session.Command) {
	switch cmd := c.Cmd.(type) {
	case protocol.Prompt:
		cmd.Message = s.expandText(c, cmd.Message)
		c.Cmd = cmd
	case protocol.Steer:
		cmd.Message = s.expandText(c, cmd.Message)
		c.Cmd = cmd
	case protocol.FollowUp:
		cmd.Message = s.expandText(c, cmd.Message)
		c.Cmd = cmd
	case protocol.AbortAndPrompt:
		cmd.Message = s.expandText(c, cmd.Message)
		c.Cmd = cmd
	default: // has no such text
	}
}

// expandText looks up a text that begins with /, and notes what comes of it.
func (s *Session) expandText(c *session.Command, text string) string {
	if text == "" || text[0] != '/' {
		return text
	}
	expanded, err := s.work.texts().expander.Expand(text)
	switch {
	case errors.As(err, new(bounded.TooLarge)):
		c.Refused = protocol.CodeInvalidParams.Errorf("%s", err)
	case err != nil:
		s.log.Warn().Err(err).Msg("skill cannot be read")
	}
	c.Slash = expanded == text
	return expanded
}
