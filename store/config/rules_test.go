package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store/config"
)

func TestLoadStreamRules(t *testing.T) {
	root := t.TempDir()
	dirs := config.Dirs{Agent: filepath.Join(root, "agent"), Cwd: filepath.Join(root, "work"), Home: root, Access: config.Everything}
	put := func(path, content string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	put("agent/rules/console.md", "---\nttsr_trigger: console\\.log\ndescription: no logs\n---\nUse the logger.")
	put("agent/rules/both.md", "---\ncondition:\n  - foo\n  - ba[rz]\n---\nUser's.")
	put("work/.pi/rules/both.md", "---\nname: both\nttsr_trigger: project\n---\nProject's.")
	put("agent/rules/plain.md", "An ordinary rule.")
	put("agent/rules/broken.md", "---\nttsr_trigger: '('\n---\nx")
	put("agent/rules/off.md", "---\nttsr_trigger: off\n---\nx")
	rules, problems := config.LoadStreamRules(dirs, []string{"off"})
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0].Error(), "broken.md")
	require.Len(t, rules, 2)
	assert.Equal(t, "Project's.", rules[0].Content)
	assert.Equal(t, "console", rules[1].Name)
	assert.Equal(t, "no logs", rules[1].Description)
	assert.True(t, rules[1].Trigger.MatchString("x console.log(1)"))
	dirs.Access = config.ContextOnly
	rules, _ = config.LoadStreamRules(dirs, nil)
	require.Len(t, rules, 3)
	assert.True(t, rules[0].Trigger.MatchString("baz"))
}
