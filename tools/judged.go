package tools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"troupe/tools/policy"
)

// judged is the environment of a command that permission rules have judged. Their verdict is
// about the directory of the session: a CDPATH would have cd go elsewhere, and git takes every
// directory with the right files for a repository, whose configuration names programs. With
// safe.bareRepository=explicit (git-config(1), since git 2.38) it takes only those that are
// called .git, or named on its command line.
func (e *Env) judged(command string) *Env {
	if !e.Judged {
		return e
	}
	env := *e
	env.Environ = slices.DeleteFunc(slices.Clone(e.Environ), func(kv string) bool { return strings.HasPrefix(kv, "CDPATH=") })
	if !policy.StartsGit(command) {
		return &env
	}
	count := 0
	for _, kv := range env.Environ {
		if text, is := strings.CutPrefix(kv, "GIT_CONFIG_COUNT="); is {
			count, _ = strconv.Atoi(text)
		}
	}
	count = max(count, 0)
	env.Environ = append(env.Environ, fmt.Sprintf("GIT_CONFIG_COUNT=%d", count+1),
		fmt.Sprintf("GIT_CONFIG_KEY_%d=safe.bareRepository", count), fmt.Sprintf("GIT_CONFIG_VALUE_%d=explicit", count))
	return &env
}
