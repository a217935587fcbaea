package actors

import (
	"fmt"
	"path/filepath"
	"strings"

	"troupe/protocol"
	"troupe/store/resource"
)

// What children see of our environment is one rule: everything but the keys of
// the providers that are in use. A provider is in use once a model of it was
// selected in any session of the process, or when settings, the command line,
// models.json or auth.json name it. Being in the catalogue does not count: what
// the tools of the user need (GITHUB_TOKEN for gh, AWS_* for aws) passes unless a
// model needs it, too. With the setting bash.inheritEnv everything passes.

// childEnviron is the environment of child processes, with the agent directory's
// programs first.
func (c *Config) childEnviron(inherit bool) []string {
	var env []string
	path, secrets := "", c.Models.Secrets(c.uses)
	for _, kv := range c.Environ {
		name, value, _ := strings.Cut(kv, "=")
		if name == "PATH" {
			path = value
			continue
		}
		if inherit || !secrets[name] {
			env = append(env, kv)
		}
	}
	return append(env, fmt.Sprintf("PATH=%s:%s", filepath.Join(c.AgentDir, "bin"), path))
}

// uses says whether a provider is in use, as far as sessions and settings say.
func (c *Config) uses(provider string) bool {
	_, used := c.used.Load(provider)
	return used
}

// use notes that a model is selected.
func (c *Config) use(m *protocol.Model) {
	if m != nil {
		c.used.Store(m.Provider, true)
	}
}

// useNamed notes the providers that settings and the command line name.
func (c *Config) useNamed(f *resource.Settings) {
	named := append([]string{f.DefaultProvider + "/", f.DefaultModel}, f.EnabledModels...)
	named = append(named, c.ModelPatterns...)
	for model := range f.ModelThinkingLevels {
		named = append(named, model)
	}
	for model := range f.Compaction.ModelOverrides {
		named = append(named, model)
	}
	for _, name := range named {
		if provider, _, found := strings.Cut(name, "/"); found && provider != "" {
			c.used.Store(provider, true)
		}
	}
}
