package search

import (
	"path/filepath"
	"regexp"
	"strings"

	"troupe/protocol/bounded"
	"troupe/protocol/gitignore"
)

// Program is the program whose ignore files count.
type Program int

const (
	// Ripgrep obeys .rgignore and .ignore files everywhere, and what git ignores
	// only inside of a repository.
	Ripgrep Program = iota
	// Fd obeys .fdignore and .ignore files and what git ignores everywhere, and
	// fd/ignore of the user.
	Fd
)

// ownName is the ignore file that only this program reads.
func (p Program) ownName() string {
	if p == Fd {
		return ".fdignore"
	}
	return ".rgignore"
}

// rules are those of all ignore files for a directory. They do not change. Paths
// are relative to the root of the file system.
type rules struct {
	own  *gitignore.Rules // of .rgignore or .fdignore
	both *gitignore.Rules // of .ignore
	git  *gitignore.Rules // of .gitignore, info/exclude and the user's file

	inRepository bool
}

// ignored decides about a path, https://docs.rs/ignore/latest/ignore/struct.WalkBuilder.html#ignore-rules.
func (r *rules) ignored(path string, isDir bool) bool {
	for _, kind := range []*gitignore.Rules{r.own, r.both, r.git} {
		if ignored, decided := kind.Decide(path, isDir); decided {
			return ignored
		}
	}
	return false
}

// ruleLoader reads ignore files.
type ruleLoader struct {
	program Program
	global  *gitignore.Rules // of the user, for git
	fd      *gitignore.Rules // of the user, for fd
}

func newRuleLoader(s Search) ruleLoader {
	l := ruleLoader{program: s.Program}
	anchor := s.Root
	if real, err := filepath.EvalSymlinks(anchor); err == nil {
		anchor = real
	}
	if s.Program == Fd {
		anchor = ""
		if rel, err := filepath.Rel(s.Cwd, s.Root); err == nil && filepath.IsLocal(rel) {
			anchor = s.Cwd
		}
		l.fd = loadRules(nil, filepath.Join(s.configHome(), "fd", "ignore"), "", true)
	}
	l.global = loadRules(l.fd, s.excludesFile(), belowTop(anchor), false)
	return l
}

// top returns the rules that hold at the root of the file system. Fd obeys git's
// rules without a repository, as it is called for places outside of one.
func (l *ruleLoader) top(inRepository bool) rules {
	if l.program == Fd && !inRepository {
		return rules{git: l.global, inRepository: true}
	}
	return rules{git: l.fd}
}

// enter adds the rules of a directory. has reports whether it has a file of a
// name. A repository starts again with the user's rules.
func (l *ruleLoader) enter(r rules, dir string, has func(name string) bool) rules {
	rel := belowTop(dir)
	if has(".git") || has(".jj") {
		r.inRepository = true
		r.git = loadRules(l.global, filepath.Join(gitDir(dir), "info", "exclude"), rel, false)
	}
	if r.inRepository && has(".gitignore") {
		r.git = loadRules(r.git, filepath.Join(dir, ".gitignore"), rel, false)
	}
	if has(".ignore") {
		r.both = loadRules(r.both, filepath.Join(dir, ".ignore"), rel, true)
	}
	if own := l.program.ownName(); has(own) {
		r.own = loadRules(r.own, filepath.Join(dir, own), rel, true)
	}
	return r
}

// belowTop is an absolute path relative to the root of the file system.
func belowTop(path string) string {
	return strings.Trim(filepath.ToSlash(strings.TrimPrefix(path, filepath.VolumeName(path))), "/")
}

// maxIgnoreFile is the number of bytes that are read of an ignore file.
const maxIgnoreFile = 1 << 20

// loadRules adds those of an ignore file for the directory rel. A file that is
// not there or cannot be read has none. Git's files have no alternatives in
// braces.
func loadRules(rules *gitignore.Rules, file, rel string, braces bool) *gitignore.Rules {
	content, _ := bounded.ReadFile(file, maxIgnoreFile) // as much as there is room for
	if braces && strings.Contains(string(content), "{") {
		content = []byte(expandBraces(string(content)))
	}
	return rules.With(content, rel, 0)
}

// maxAlternatives is the number of rules that one line may stand for.
const maxAlternatives = 1000

// expandBraces writes each line with {a,b} as several lines without. It drops
// those that are malformed or too many.
func expandBraces(content string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(content, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		lines, rest, ok := alternativesOf(line, false)
		if !ok || rest != "" {
			continue
		}
		for _, line := range lines {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// alternativesOf reads text up to its end or, in braces, up to the closing one,
// and returns its alternatives and the text after it.
func alternativesOf(text string, inBraces bool) (all []string, rest string, ok bool) {
	current := []string{""}
	for i := 0; i < len(text); i++ {
		piece := text[i : i+1]
		switch {
		case piece == `\` && i+1 < len(text):
			i++
			piece = text[i-1 : i+1]
		case piece == "{":
			inner, after, ok := alternativesOf(text[i+1:], true)
			if !ok || len(current)*len(inner) > maxAlternatives {
				return nil, "", false
			}
			if len(inner) > 0 {
				current = products(current, inner)
			}
			i = len(text) - len(after) - 1
			continue
		case piece == "}":
			return appendFilled(all, current), text[i+1:], inBraces
		case piece == "," && inBraces:
			all = appendFilled(all, current)
			current = []string{""}
			continue
		}
		for j := range current {
			current[j] += piece
		}
	}
	return append(all, current...), "", !inBraces
}

func products(first, second []string) (all []string) {
	for _, a := range first {
		for _, b := range second {
			all = append(all, a+b)
		}
	}
	return all
}

func appendFilled(all, texts []string) []string {
	for _, text := range texts {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// excludesFile is git's ignore file of the user: core.excludesFile of the user's
// settings, or the usual one. https://git-scm.com/docs/gitignore
func (s *Search) excludesFile() string {
	for _, settings := range []string{filepath.Join(s.Home, ".gitconfig"), filepath.Join(s.configHome(), "git", "config")} {
		content, _ := bounded.ReadFile(settings, maxIgnoreFile)
		value, found := excludesSetting(string(content))
		if !found {
			continue
		}
		if rest, ok := strings.CutPrefix(value, "~/"); ok {
			return filepath.Join(s.Home, rest)
		}
		return absolute(s.Cwd, value)
	}
	return filepath.Join(s.configHome(), "git", "ignore")
}

func (s *Search) configHome() string {
	if s.ConfigHome != "" {
		return s.ConfigHome
	}
	return filepath.Join(s.Home, ".config")
}

var (
	settingsSection  = regexp.MustCompile(`^\s*\[\s*([^\]]*?)\s*\]`)
	excludesVariable = regexp.MustCompile(`(?i)^\s*excludesfile\s*=\s*(?:"([^"]*)"|([^\s#;]+(?:[ \t]+[^\s#;]+)*))`)
)

// excludesSetting finds the last core.excludesFile in git's settings.
func excludesSetting(content string) (value string, found bool) {
	core := false
	for line := range strings.Lines(content) {
		if m := settingsSection.FindStringSubmatch(line); m != nil {
			core = strings.EqualFold(m[1], "core")
			line = line[len(m[0]):]
		}
		if m := excludesVariable.FindStringSubmatch(line); m != nil && core {
			value, found = m[1]+m[2], true
		}
	}
	return value, found
}

// maxGitFile bounds the files of git that hold a path.
const maxGitFile = 16 << 10

// gitDir returns the directory of a repository that all its worktrees share.
func gitDir(dir string) string {
	git := filepath.Join(dir, ".git")
	content, err := bounded.ReadFile(git, maxGitFile)
	if err != nil {
		return git // a directory
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(string(content)), "gitdir: ")
	if !ok {
		return git
	}
	git = absolute(dir, target)
	if common, err := bounded.ReadFile(filepath.Join(git, "commondir"), maxGitFile); err == nil {
		git = absolute(git, strings.TrimSpace(string(common)))
	}
	return git
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
