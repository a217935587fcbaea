package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// patterns makes patterns of absolute paths from what a rule says, as in a .gitignore:
// //x is from the root of the file system, ~/x from the home directory, /x from the
// working directory, x/y as well, and x alone is a name at any depth below it. A rule
// that limits takes /x for the root of the file system, too: whoever writes it may
// mean either.
func (p *Place) patterns(spec string, a action) []string {
	list := p.written(spec, a)
	if a == allow {
		return list
	}
	for _, pattern := range slices.Clone(list) { // a limit on a link is a limit on its target
		list = merge(list, []string{p.resolved(pattern)})
	}
	return list
}

// resolved is a pattern without the symbolic links in front of its first wildcard.
func (p *Place) resolved(pattern string) string {
	end := strings.IndexAny(pattern, `*?[{\`)
	if end < 0 {
		end = len(pattern)
	} else {
		end = strings.LastIndexByte(pattern[:end], '/')
	}
	real, known := p.real(pattern[:max(end, 0)])
	if end <= 0 || !known {
		return pattern
	}
	return literal(real) + pattern[end:]
}

func (p *Place) written(spec string, a action) []string {
	spec = strings.ReplaceAll(spec, "{", `\{`) // no alternatives in a .gitignore
	rest, absolute := strings.CutPrefix(spec, "//")
	if absolute {
		return []string{path.Clean("/" + rest)}
	}
	if spec == "~" || strings.HasPrefix(spec, "~/") {
		return below(p.bases(p.Home), spec[1:])
	}
	if strings.HasPrefix(spec, "/") {
		list := below(p.bases(p.Cwd), spec)
		if a != allow {
			list = append(list, path.Clean(spec))
		}
		return list
	}
	name := strings.TrimPrefix(spec, "./")
	if name == spec && !strings.Contains(strings.TrimSuffix(spec, "/"), "/") && spec != ".." && spec != "." {
		name = "**/" + spec
	}
	return below(p.bases(p.Cwd), name)
}

// bases is a directory as it is written, and where it really is.
func (p *Place) bases(dir string) []string {
	dir = path.Clean(dir)
	if real, known := p.real(dir); known && real != dir {
		return []string{dir, real}
	}
	return []string{dir}
}

func below(bases []string, pattern string) (list []string) {
	for _, b := range bases {
		list = append(list, path.Clean(literal(b)+"/"+pattern))
	}
	return list
}

// literal makes a pattern that matches nothing but a path.
func literal(p string) string {
	var b strings.Builder
	for _, c := range []byte(p) {
		if strings.IndexByte(`*?[]{}\`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// covers says whether one of the patterns matches a path or a directory above it.
func covers(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return doublestar.MatchUnvalidated(pattern, p) || doublestar.MatchUnvalidated(strings.TrimSuffix(pattern, "/")+"/**", p)
	})
}

// exact says whether one of the patterns is the path itself, without a wildcard.
func exact(patterns []string, p string) bool { return slices.Contains(patterns, literal(p)) }

// target is a path that a call reads or writes.
type target struct {
	kind    Kind
	tool    string
	written string // as it was asked for, clean
	real    string // without symbolic links
	known   bool   // real is where it leads
}

// target is a path as a call names it, with each .. where it stands.
func (s *Set) target(kind Kind, tool, p string) target {
	real, known := s.place.real(p)
	return target{kind, tool, path.Clean(p), real, known}
}

func (s *Set) decidePaths(mode Mode, c Call) Decision {
	if len(c.Paths) == 0 {
		return s.decideTool(mode, c)
	}
	worst := Decision{Verdict: Allow}
	for _, p := range c.Paths {
		d := s.decidePath(mode, s.target(c.Kind, c.Tool, p))
		always := worst.Always
		if d.Verdict < worst.Verdict {
			worst = d
		}
		if d.Verdict == Ask && worst.Verdict == Ask {
			worst.Always = merge(always, d.Always)
		}
	}
	return worst
}

func (s *Set) decidePath(mode Mode, t target) Decision {
	limits := func(r *Rule) bool {
		return r.names(t.tool) && (r.whole || covers(r.paths, t.real) || covers(r.paths, t.written))
	}
	if d, decided := s.limited(limits); decided {
		return d
	}
	allows := s.find(allow, func(r *Rule) bool { return r.names(t.tool) && (r.whole || covers(r.paths, t.real)) })
	if d, decided := s.builtIn(mode, t); decided {
		return d
	}
	switch {
	case !t.known:
		return s.unknown(mode, t.kind, t.tool, "it is not known where "+t.written+" leads")
	case mode == Auto, allows != nil && (mode != ReadOnly || t.kind == Read):
		return Decision{Verdict: Allow}
	case t.kind == Read && (mode == Edits || s.inside(t.real)), mode == Edits && s.inside(t.real):
		return Decision{Verdict: Allow}
	case mode == ReadOnly && t.kind == Read:
		return Decision{Verdict: Deny, Why: "the permission mode is readonly, and " + t.written + " is outside of the working directory"}
	case mode == ReadOnly:
		return byMode(mode)
	}
	return Decision{Verdict: Ask, Why: "the permission mode is " + string(mode), Always: alwaysPath(t)}
}

// alwaysPath allows the directory of a path.
func alwaysPath(t target) []string {
	dir := path.Dir(t.real)
	if dir == "/" || strings.ContainsAny(dir, `*?[]{}\()`+"\n") {
		return nil
	}
	name := "Read"
	if t.kind == Edit {
		name = "Edit"
	}
	return []string{name + "(/" + dir + "/**)"}
}

// inside says whether a path without symbolic links is in the working directory.
func (s *Set) inside(p string) bool { return within(p, s.cwd) }

func within(p, dir string) bool {
	return dir != "" && (p == dir || dir == "/" || strings.HasPrefix(p, dir+"/"))
}

// runsLater are directories in a project that hold what runs, or says what runs, when
// somebody works in it: of .git every file may, commondir as well as the configuration of
// a submodule.
var runsLater = map[string]bool{
	".git": true, ".hg": true, ".jj": true, ".sl": true, ".bzr": true, "_darcs": true, // of version control
	".pi": true, ".omp": true, ".pisces": true, // of agents
}

// runs says whether a file runs, or says what runs, when somebody works in the project.
func (s *Set) runs(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		if runsLater[strings.ToLower(name)] { // there are file systems to which that is the same
			return true
		}
	}
	return s.inRepository(p) || s.place.Programs != nil && slices.ContainsFunc(s.place.Programs(), func(program string) bool {
		real, _ := s.place.real(program)
		return within(p, program) || within(p, real)
	})
}

// inRepository says whether a file belongs to what git takes for a repository, whatever
// its name, or would make one. See gitrepository-layout(5): HEAD with objects and refs, or
// with commondir, which names the directory that has these.
func (s *Set) inRepository(p string) bool {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		has := func(name string) bool { return within(p, path.Join(dir, name)) || s.place.exists(path.Join(dir, name)) }
		if s.repository(dir, has) {
			return true
		}
		if dir == "/" {
			return false
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(p, strings.TrimSuffix(dir, "/")+"/"), "/")
		if (name == "hooks" || name == "info" || strings.HasPrefix(name, "config") || name == "commondir") && has("objects") && has("refs") {
			return true // another one may name it in its commondir
		}
	}
}

func (s *Set) repository(dir string, has func(string) bool) bool {
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// bareAbove says whether git takes the working directory itself, or one above it, for a
// repository without a name of its own: its configuration may be part of a project.
func (s *Set) bareAbove() bool {
	for dir := s.cwd; !s.place.exists(path.Join(dir, ".git")); dir = path.Dir(dir) {
		if s.repository(dir, func(name string) bool { return s.place.exists(path.Join(dir, name)) }) {
			return true
		}
		if dir == "/" || dir == "." || dir == "" {
			return false
		}
	}
	return false
}

// keyFiles hold what other programs are let in with.
var keyFiles = []string{
	"~/.ssh/id_*", "~/.gnupg", "~/.aws/credentials", "~/.netrc", "~/.config/gh/hosts.yml", "~/.docker/config.json", "~/.kube/config",
	"~/.git-credentials", "~/.config/git/credentials", "~/.cargo/credentials*", "~/.azure", "~/.config/gcloud",
	"/**/id_rsa", "/**/id_dsa", "/**/id_ecdsa", "/**/id_ed25519", "/**/*.pem", "/**/*.key", "/**/*.p12", "/**/*.pfx", "/**/*.jks", "/**/*.keystore",
	"/**/.env", "/**/.env.{local,dev,development,prod,production,staging,test}", "/**/.env.*.local",
	"/**/.npmrc", "/**/.pypirc", "/**/.netrc", "/**/credentials.json", "/**/secrets.{yaml,yml,json,toml}",
}

// ownKeys are those of troupe and pi, in their own directories.
var ownKeys = []string{"auth.json", "models.json", "troupe"}

// builtIn keeps what belongs to the person rather than to the project. Only a rule
// that names the file itself says otherwise.
func (s *Set) builtIn(mode Mode, t target) (Decision, bool) {
	named := func(r *Rule) bool { return r.names(t.tool) && exact(r.paths, t.real) }
	switch {
	case mode == Auto:
		return Decision{}, false
	case t.kind == Edit && (s.owns(t.real) || s.runs(t.real) || within(t.real, path.Join(s.home(), ".ssh"))):
		if mode != ReadOnly && s.find(allow, named) != nil {
			return Decision{Verdict: Allow}, true
		}
		return Decision{Verdict: Deny, Why: t.real + " says what runs later, or who is let in: only a rule that names the file allows to edit it"}, true
	case covers(s.keyPatterns(), t.real):
		if s.find(allow, named) != nil && (t.kind == Read || mode != ReadOnly) {
			return Decision{Verdict: Allow}, true
		}
		if mode == ReadOnly && (t.kind == Edit || !s.inside(t.real)) {
			return Decision{}, false
		}
		return Decision{Verdict: Ask, Why: t.real + " holds keys"}, true
	}
	return Decision{}, false
}

func (s *Set) home() string {
	real, _ := s.place.real(s.place.Home)
	return real
}

func (s *Set) owns(p string) bool {
	return slices.ContainsFunc(s.place.Own, func(dir string) bool {
		real, _ := s.place.real(dir)
		return within(p, real)
	})
}

func (s *Set) keyPatterns() []string {
	list := slices.Clone(keyFiles)
	for _, dir := range s.place.Own {
		real, _ := s.place.real(dir)
		list = append(list, below([]string{real}, "{"+strings.Join(ownKeys, ",")+"}")...)
	}
	home := literal(s.home())
	for i, p := range list {
		if rest, ok := strings.CutPrefix(p, "~"); ok {
			list[i] = home + rest
		}
	}
	return list
}

func merge(list, more []string) []string {
	for _, x := range more {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}
