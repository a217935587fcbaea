package config

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

func fullParts() PromptParts {
	return PromptParts{
		Tools: []protocol.ToolInfo{
			{Name: "read", Snippet: "Read a file"},
			{Name: "bash", Snippet: "Run a command", Guidelines: []string{" Quote paths. ", "Be brief.", ""}},
			{Name: "edit", Snippet: "Change a file", Guidelines: []string{"Quote paths."}}, {Name: "write"},
		},
		Append:       []string{"Speak plainly.\n", "", "And kindly."},
		ContextFiles: []ContextFile{{"/h/AGENTS.md", "Home rules.\n"}, {"/h/p/AGENTS.md", "\nProject rules."}},
		Skills: []Skill{
			{Name: "pdf", Description: `Reads "PDF" & <forms>`, Path: "/s/pdf/SKILL.md"}, {Name: "secret", Description: "x", Path: "/s/x", Hidden: true},
		},
		Cwd: "/h/p",
	}
}

// The whole prompt is a document of its own; run with GOLDEN=1 to rewrite it.
func TestSystemPrompt(t *testing.T) {
	got := SystemPrompt(fullParts())
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile("testdata/systemprompt.md", []byte(got), 0o644))
	}
	want, err := os.ReadFile("testdata/systemprompt.md")
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
	for range 20 {
		require.Equal(t, got, SystemPrompt(fullParts()), "byte for byte")
	}
}

func TestSystemPromptParts(t *testing.T) {
	with := func(change func(*PromptParts)) string {
		p := fullParts()
		change(&p)
		return SystemPrompt(p)
	}
	base := with(func(p *PromptParts) { p.Base = "You are a pirate." })
	assert.True(t, strings.HasPrefix(base, "You are a pirate.\n\nSpeak plainly."))
	assert.NotContains(t, base, "# Tools")
	assert.NotContains(t, base, "# Guidelines")
	assert.Contains(t, base, "Home rules.")
	assert.Contains(t, base, "<name>pdf</name>")

	noRead := with(func(p *PromptParts) { p.Tools = p.Tools[1:] })
	assert.NotContains(t, noRead, "available_skills", "a skill that cannot be read is of no use")
	assert.NotContains(t, noRead, "Read a file before")
	assert.NotContains(t, with(func(p *PromptParts) { p.Skills = p.Skills[1:] }), "# Skills")
	assert.NotContains(t, with(func(p *PromptParts) { p.ContextFiles = nil }), "# Project context")
	assert.Contains(t, with(func(p *PromptParts) { p.Tools = nil }), "None: answer")

	full := with(func(*PromptParts) {})
	assert.Contains(t, full, "Use bash to look around")
	assert.Equal(t, 1, strings.Count(full, "Quote paths."))
	assert.Equal(t, 1, strings.Count(full, "Be brief."))
	searching := with(func(p *PromptParts) { p.Tools = append(p.Tools, protocol.ToolInfo{Name: "grep"}) })
	assert.NotContains(t, searching, "Use bash to look around")
	assert.Contains(t, searching, "prefer the tools made for it")
	assert.Less(t, strings.Index(full, "Home rules"), strings.Index(full, "Project rules"), "the nearest comes last")
	assert.True(t, strings.HasSuffix(full, "\n\nCurrent working directory: /h/p"))
}

func TestLoadBase(t *testing.T) {
	w := newWorld(t, map[string]string{"work/proj/file.md": "from the file"})
	base := func(flag string) string {
		text, problems := LoadBase(w.dirs, flag)
		assert.Empty(t, problems)
		return text
	}
	assert.Equal(t, "", base(""))
	w.write("agent/SYSTEM.md", "user's")
	assert.Equal(t, "user's", base(""))
	w.write("work/proj/.pi/SYSTEM.md", "project's")
	assert.Equal(t, "project's", base(""))
	assert.Equal(t, "You are you.", base("You are you."))
	assert.Equal(t, "from the file", base("file.md"))
	assert.Equal(t, "from the file", base(w.path("work/proj/file.md")))
	assert.Equal(t, "from the file", base("~/work/proj/file.md"))
	assert.Equal(t, "missing.md", base("missing.md"), "a text, then")
	assert.Equal(t, ".pi", base(".pi"), "a directory is no text either")
	long := strings.Repeat("x", 10_000) + "\x00"
	assert.Equal(t, long, base(long))
	w.dirs.Access = ContextOnly
	assert.Equal(t, "user's", base(""))
}

func TestLoadAppend(t *testing.T) {
	w := newWorld(t, map[string]string{"agent/APPEND_SYSTEM.md": "user's", "work/proj/x.md": "X"})
	load := func(flags ...string) []string {
		texts, problems := LoadAppend(w.dirs, flags)
		assert.Empty(t, problems)
		return texts
	}
	assert.Equal(t, []string{"user's"}, load())
	assert.Equal(t, []string{"one", "X"}, load("one", "x.md"), "flags replace the file")
	assert.Empty(t, load(" "))
	w.write("work/proj/.pi/APPEND_SYSTEM.md", "project's")
	assert.Equal(t, []string{"project's"}, load())
	require.NoError(t, os.Remove(w.path("work/proj/.pi/APPEND_SYSTEM.md")))
	require.NoError(t, os.MkdirAll(w.path("work/proj/.pi/APPEND_SYSTEM.md"), 0o700))
	texts, problems := LoadAppend(w.dirs, nil)
	assert.Equal(t, []string{"user's"}, texts)
	assert.Len(t, problems, 1)
}
