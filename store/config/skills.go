package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/protocol/gitignore"
)

// Skill is a set of instructions that a model reads when a task calls for it.
// Its text stays in the file until then.
type Skill struct {
	Name        string
	Description string
	Location    Location
	Path        string   // the file with the instructions
	Hidden      bool     // not shown to models; the command works
	Package     *Package // it is part of; nil for none
}

// Dir is where the skill's relative references start.
func (s Skill) Dir() string { return filepath.Dir(s.Path) }

// Limits that the specification of skills sets. Only a missing description
// keeps a skill out; the rest is reported.
const (
	maxSkillName        = 64
	maxSkillDescription = 1024
)

// LoadSkills finds skills: in the agent directory, in ~/.agents, in the
// project's .pi and in .agents of the working directory and those above it up
// to the root of the repository, then those the settings and the command line
// name, then those of packages. Below each place a directory with a SKILL.md is a skill and not looked
// into further; Markdown files directly in a place are skills, too. Names that
// begin with a dot, node_modules and what ignore files exclude are passed over.
// Of several skills of a name the first counts.
func LoadSkills(s Sources) ([]Skill, []Problem) {
	scan := skillScan{intake: s.take("skills"), sources: s, names: map[string]string{}, files: map[string]bool{}, dirs: map[string]bool{}}
	places := append(s.skillPlaces(), s.named(&scan.intake.problems)...)
	places = append(places, s.packed(kindSkills)...)
	for _, where := range places {
		scan.place(where)
	}
	return scan.skills, scan.problems
}

func (s Sources) skillPlaces() []place {
	if s.NoDefaults {
		return nil
	}
	places := []place{{path: filepath.Join(s.Agent, "skills"), location: User, loose: true}}
	if s.Home != "" {
		places = append(places, place{path: filepath.Join(s.Home, ".agents", "skills"), location: User, loose: true})
	}
	if s.Access < Texts {
		return places
	}
	places = append(places, place{path: filepath.Join(s.project(), "skills"), location: Project, loose: true})
	for _, dir := range upToRepository(s.Cwd) {
		places = append(places, place{path: filepath.Join(dir, ".agents", "skills"), location: Project, loose: true})
	}
	return places
}

// upToRepository lists a directory and those above it up to the root of the
// repository it is in; outside of one there is only the directory.
func upToRepository(cwd string) []string {
	var dirs []string
	for dir := filepath.Clean(cwd); ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if exists(filepath.Join(dir, ".git")) {
			return dirs
		}
		if dir == filepath.Dir(dir) {
			return dirs[:1]
		}
	}
}

type skillScan struct {
	*intake
	sources Sources
	skills  []Skill
	names   map[string]string // name → file
	files   map[string]bool   // real paths
	dirs    map[string]bool   // real paths: each is looked at once, however links lead to it
}

func (s *skillScan) place(where place) {
	st, err := os.Stat(where.path)
	switch {
	case err != nil:
		if where.mustBe || !isAbsent(err) {
			s.add(where.path, err)
		}
	case st.IsDir():
		s.dir(where.path, where, nil)
	default:
		s.file(where.path, where)
	}
}

// dir looks at a directory. rules are those of the directories above it, below
// the place.
func (s *skillScan) dir(dir string, where place, rules *gitignore.Rules) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || s.dirs[real] {
		return
	}
	s.dirs[real] = true
	if s.refuses(s.sources.Dirs, dir, where) {
		return
	}
	if rel, err := filepath.Rel(where.path, dir); err == nil && strings.Count(rel, string(filepath.Separator)) >= protocol.MaxDepth {
		s.add(dir, fmt.Errorf("skills are not looked for deeper than %d directories", protocol.MaxDepth))
		return
	}
	if file := filepath.Join(dir, "SKILL.md"); exists(file) {
		s.file(file, where)
		return
	}
	entries := s.list(dir, where.location)
	rules = ignoreIn(dir, rules)
	for _, e := range entries {
		s.entry(filepath.Join(dir, e.Name()), where, rules, dir == where.path)
	}
}

func (s *skillScan) entry(path string, where place, rules *gitignore.Rules, top bool) {
	name := filepath.Base(path)
	st, err := os.Stat(path) // through symbolic links
	if err != nil || name[0] == '.' || name == "node_modules" || rules.Ignored(filepath.ToSlash(path), st.IsDir()) {
		return
	}
	switch {
	case st.IsDir():
		s.dir(path, where, rules)
	case top && where.loose && filepath.Ext(name) == ".md" && st.Mode().IsRegular():
		s.file(path, where)
	}
}

// file takes up a skill, unless it is there already.
func (s *skillScan) file(path string, where place) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || s.files[real] || s.refuses(s.sources.Dirs, path, where) || !s.sources.takes(path, where) {
		return
	}
	s.files[real] = true
	skill, ok := s.skill(path, where.location)
	if !ok {
		return
	}
	skill.Package = where.of
	if first, taken := s.names[skill.Name]; taken {
		s.add(path, fmt.Errorf("skill %s is already defined by %s", skill.Name, first))
		return
	}
	s.names[skill.Name] = path
	s.skills = append(s.skills, skill)
}

func (s *skillScan) skill(path string, location Location) (Skill, bool) {
	src, err := s.read(path, location)
	if err != nil {
		s.failed(path, err)
		return Skill{}, false
	}
	head, _ := splitFrontmatter(src)
	skill := Skill{
		Name: head.text("name"), Description: strings.TrimSpace(head.text("description")), Location: location, Path: path,
		Hidden: head.bool("disable-model-invocation"),
	}
	skill.Name = cmp.Or(skill.Name, defaultSkillName(path))
	if skill.Description == "" {
		s.add(path, errors.New("skill without description"))
		return Skill{}, false
	}
	s.check(skill)
	return skill, true
}

// defaultSkillName is the directory's name, or that of a loose file.
func defaultSkillName(path string) string {
	if filepath.Base(path) == "SKILL.md" {
		return filepath.Base(filepath.Dir(path))
	}
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

// check reports what departs from the specification and does no harm.
func (s *skillScan) check(skill Skill) {
	if n := len(skill.Name); n > maxSkillName {
		s.add(skill.Path, fmt.Errorf("skill name has %d characters, more than %d", n, maxSkillName))
	}
	if !isSkillName(skill.Name) {
		s.add(skill.Path, fmt.Errorf("skill name %q: use a-z, 0-9 and single hyphens inside", skill.Name))
	}
	if n := len([]rune(skill.Description)); n > maxSkillDescription {
		s.add(skill.Path, fmt.Errorf("skill description has %d characters, more than %d", n, maxSkillDescription))
	}
}

func isSkillName(name string) bool {
	return !slices.ContainsFunc(strings.Split(name, "-"), func(part string) bool {
		return part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789") != ""
	})
}

// ignoreNames are the files that say what not to look at.
var ignoreNames = []string{".gitignore", ".ignore", ".fdignore"}

// ignoreIn adds the rules of a directory's ignore files. Of a file too large as
// much counts as there is room for.
func ignoreIn(dir string, rules *gitignore.Rules) *gitignore.Rules {
	for _, name := range ignoreNames {
		content, _ := bounded.ReadFile(filepath.Join(dir, name), protocol.MaxIgnoreFile)
		rules = rules.With(content, filepath.ToSlash(dir), protocol.MaxIgnoreRules)
	}
	return rules
}
