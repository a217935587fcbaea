package session

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"troupe/protocol"
	"troupe/store/config"
)

// What children see of our environment is one rule: everything but the keys of
// the providers that are in use. A provider is in use once a model of it was
// selected in any session of the process, or when settings, the command line,
// models.json or auth.json name it. Being in the catalogue does not count: what
// the tools of the user need (GITHUB_TOKEN for gh, AWS_* for aws) passes unless a
// model needs it, too. With the setting bash.inheritEnv everything passes.

// childEnviron is the environment of child processes, with the agent directory's
// programs first.
func (h *Shared) childEnviron(inherit bool) []string {
	var env []string
	path, secrets := "", h.Models.Secrets(h.used.has)
	for _, kv := range h.Environ {
		name, value, _ := strings.Cut(kv, "=")
		if name == "PATH" {
			path = value
			continue
		}
		if inherit || !secrets[name] {
			env = append(env, kv)
		}
	}
	return append(env, fmt.Sprintf("PATH=%s:%s", filepath.Join(h.AgentDir, "bin"), path))
}

// usedProviders are the providers in use, as far as sessions and settings say.
type usedProviders struct{ names sync.Map }

func (u *usedProviders) has(provider string) bool {
	_, used := u.names.Load(provider)
	return used
}

// use notes that a model is selected.
func (u *usedProviders) use(m *protocol.Model) {
	if m != nil {
		u.names.Store(m.Provider, true)
	}
}

// named notes the providers that settings and the command line name.
func (u *usedProviders) named(f *config.Settings, patterns []string) {
	named := append([]string{f.DefaultProvider + "/", f.DefaultModel}, f.EnabledModels...)
	named = append(named, patterns...)
	named = slices.AppendSeq(named, maps.Keys(f.ModelThinkingLevels))
	named = slices.AppendSeq(named, maps.Keys(f.Compaction.ModelOverrides))
	for _, name := range named {
		if provider, _, found := strings.Cut(name, "/"); found && provider != "" {
			u.names.Store(provider, true)
		}
	}
}
