package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestDocumentedSettings holds the list of settings in docs/configuration.md to the program:
// it has every key, its values are the defaults, and the examples of keys without a default
// are accepted.
func TestDocumentedSettings(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	list := regexp.MustCompile("(?s)```jsonc\n(.*?)```").FindStringSubmatch(string(page))[1]
	load := func(text string) *Settings {
		agent := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(agent, "settings.json"), []byte(text), 0o600))
		s, _, problems, err := LoadSettings(Dirs{Agent: agent, Cwd: t.TempDir(), Home: t.TempDir()}, Policy{}, nil)
		require.NoError(t, err)
		assert.Empty(t, problems)
		s.Given = nil
		return s
	}
	want, got := Defaults(), load(list)
	got.Project, got.Undecided, got.Task.Mentioned = want.Project, want.Undecided, want.Task.Mentioned
	assert.Equal(t, want, got)

	all := regexp.MustCompile(`(?m)^( *)// (".*)$`).ReplaceAllString(list, "$1$2")
	load(all)
	var keys []string
	tree, problem := parse("docs", []byte(all))
	require.Nil(t, problem)
	walk("", tree, func(key string, _ gjson.Result) { keys = append(keys, key) })
	oldNames := "queueMode todoCompletion.enabled todoCompletion.maxReminders todo.reminders.max"
	for _, f := range want.fields("", User) {
		if !strings.Contains(oldNames, f.key) {
			assert.Contains(t, keys, f.key)
		}
	}
}
