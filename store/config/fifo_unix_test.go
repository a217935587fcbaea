//go:build unix

package config

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe that lies where a file should be must not make anybody wait for its
// writer.
func TestPipesAreNotRead(t *testing.T) {
	w := newWorld(t, map[string]string{"agent/prompts/a.md": "a"})
	for _, name := range []string{
		"agent/settings.json", "agent/SYSTEM.md", "work/proj/AGENTS.md", "agent/prompts/pipe.md", "agent/skills/x/SKILL.md", "agent/skills/.gitignore",
	} {
		w.write(name+".dir/x", "")
		require.NoError(t, syscall.Mkfifo(w.path(name), 0o600))
	}
	_, problems := w.settings()
	assert.Equal(t, []string{"~/agent/settings.json: not a regular file"}, w.told(problems))
	base, problems := LoadBase(w.dirs, "")
	assert.Empty(t, base)
	assert.Len(t, problems, 1)
	_, problems = w.contextFiles()
	assert.Equal(t, []string{"~/work/proj/AGENTS.md: not a regular file"}, w.told(problems))
	templates, _ := w.templates(Sources{Dirs: w.dirs, Flags: []string{w.path("agent/prompts/pipe.md")}})
	assert.Len(t, templates, 1)
	skills, _ := w.skills(Sources{Dirs: w.dirs})
	assert.Empty(t, skills)
}
