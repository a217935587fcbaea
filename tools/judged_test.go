package tools

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestJudgedCommands: of commands that rules have judged git takes no directory for a
// repository but .git, and cd changes to any directory.
func TestJudgedCommands(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Environ = append(env.Environ, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=somebody", "CDPATH="+env.Cwd+"/far")
	put(t, env, "far/near/x", "")
	put(t, env, "near/y", "")
	text, _, err := run(t, env, "bash", object{"command": "git init -q --bare bare && printf '[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch canary; false\n' >> bare/config; cd near >/dev/null; ls; git config user.name"})
	require.NoError(t, err)
	assert.Equal(t, "x\nsomebody\n", text)

	judged := *env
	judged.Judged = true
	_, _, err = run(t, &judged, "bash", object{"command": "cd bare && git status"})
	assert.ErrorContains(t, err, "safe.bareRepository")
	assert.NoFileExists(t, env.Cwd+"/bare/canary")
	text, _, err = run(t, &judged, "bash", object{"command": "git config user.name; cd near; ls"})
	require.NoError(t, err)
	assert.Equal(t, "somebody\ny\n", text)
	text, _, err = run(t, &judged, "bash", object{"command": "env; true"})
	require.NoError(t, err)
	assert.NotContains(t, text, "safe.bareRepository", "what does not start git itself keeps its own settings")

	_, _, err = run(t, env, "bash", object{"command": "cd bare && git status"})
	require.NoError(t, err)
	assert.FileExists(t, env.Cwd+"/bare/canary", "the canary is not seen")
	assert.Equal(t, 1, len(slices.DeleteFunc(slices.Clone(env.Environ), func(kv string) bool { return kv != "GIT_CONFIG_COUNT=1" })))
}
