package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
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

// What a rule watches, and which files it is about.
func TestStreamRuleScopes(t *testing.T) {
	load := func(head string) ([]config.StreamRule, []config.Problem) {
		root := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(root, "work/.omp/rules"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, "work/.omp/rules/r.md"), []byte("---\nttsr_trigger: x\n"+head+"\n---\nDo not."), 0o600))
		return config.LoadStreamRules(config.Dirs{Agent: filepath.Join(root, "agent"), Cwd: filepath.Join(root, "work"), Home: root, Access: config.Everything}, nil)
	}
	one := func(head string) config.StreamRule {
		rules, problems := load(head)
		require.Empty(t, problems, head)
		require.Len(t, rules, 1, head)
		return rules[0]
	}
	assert.Empty(t, one("").Scopes)
	r := one("scope: [text, thinking, tool, 'tool:edit(*.ts)']\ninterruptMode: never\nalwaysApply: true")
	require.Len(t, r.Scopes, 4)
	assert.Equal(t, "never", r.InterruptMode)
	assert.True(t, r.AlwaysApply)
	assert.Equal(t, []protocol.BlockKind{protocol.BlockText, protocol.BlockThinking, protocol.BlockToolCall, protocol.BlockToolCall},
		[]protocol.BlockKind{r.Scopes[0].Kind, r.Scopes[1].Kind, r.Scopes[2].Kind, r.Scopes[3].Kind})
	assert.Equal(t, "edit", r.Scopes[3].Tool)
	assert.Nil(t, r.Scopes[2].Files)
	assert.True(t, r.Scopes[3].Files("/work/src/a.ts"))
	assert.True(t, r.Scopes[3].Files("a.ts"))
	assert.False(t, r.Scopes[3].Files("a.go"))
	assert.False(t, r.Scopes[3].Files(""))
	r = one("globs: ['src/**/*.go', '*.md']")
	require.Len(t, r.Scopes, 1)
	assert.True(t, r.Scopes[0].Files("/work/src/a/b.go"))
	assert.True(t, r.Scopes[0].Files("README.md"))
	assert.False(t, r.Scopes[0].Files("/work/b.go"))
	for _, wrong := range []string{"scope: tool:", "scope: prose", "scope: 'tool:edit(*.ts'", "interruptMode: sometimes", "globs: ['[']"} {
		rules, problems := load(wrong)
		assert.Empty(t, rules, wrong)
		assert.Len(t, problems, 1, wrong)
	}
}
