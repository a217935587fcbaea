package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (w world) contextFiles() (list []string, problems []Problem) {
	files, problems := LoadContextFiles(w.dirs)
	for _, f := range files {
		if strings.HasPrefix(f.Path, w.home) { // the machine may have its own above
			list = append(list, w.short(f.Path)+": "+f.Content)
		}
	}
	return list, problems
}

func TestContextFiles(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/AGENTS.md": "agent", "AGENTS.md": "home", "work/CLAUDE.md": "work", "work/.git/config": "",
		"work/proj/AGENTS.md": "proj", "work/proj/CLAUDE.md": "not read", "work/proj/sub/AGENTS.md": "not read",
	})
	got, problems := w.contextFiles()
	assert.Empty(t, problems)
	assert.Equal(t, []string{"~/agent/AGENTS.md: agent", "~/AGENTS.md: home", "~/work/CLAUDE.md: work", "~/work/proj/AGENTS.md: proj"}, got)
	w.write("work/proj/AGENTS.override.md", "override")
	w.dirs.Access = ContextOnly
	got, _ = w.contextFiles()
	assert.Equal(t, "~/work/proj/AGENTS.override.md: override", got[3], "text for the model is read in any case")
}

func TestContextFilesOnce(t *testing.T) {
	w := newWorld(t, map[string]string{"agent/AGENTS.md": "agent", "agent/below/AGENTS.md": "below"})
	w.dirs.Cwd = w.path("agent/below")
	got, _ := w.contextFiles()
	assert.Equal(t, []string{"~/agent/AGENTS.md: agent", "~/agent/below/AGENTS.md: below"}, got)
	w.dirs.Cwd = w.path("agent")
	got, _ = w.contextFiles()
	assert.Equal(t, []string{"~/agent/AGENTS.md: agent"}, got)
}

func TestContextFilesUnreadable(t *testing.T) {
	w := newWorld(t, map[string]string{"work/proj/CLAUDE.md": "second choice", "work/AGENTS.md": "\ufeffmarked \xff"})
	require.NoError(t, os.MkdirAll(w.path("work/proj/AGENTS.md"), 0o700))
	got, problems := w.contextFiles()
	assert.Equal(t, []string{"~/work/AGENTS.md: marked \uFFFD", "~/work/proj/CLAUDE.md: second choice"}, got)
	assert.Equal(t, []string{"~/work/proj/AGENTS.md: not a regular file"}, w.told(problems))
}

func (w world) templates(s Sources) ([]string, []Problem) {
	templates, problems := LoadTemplates(s)
	list := []string{}
	for _, x := range templates {
		list = append(list, string(x.Location)+" "+x.Name+" "+w.short(x.Path)+": "+x.Description)
	}
	return list, problems
}

func TestTemplates(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/prompts/both.md": "---\ndescription: user's\nargument-hint: <file>\n---\nU", "agent/prompts/sub/no.md": "x", "agent/prompts/no.txt": "x",
		"work/proj/.pi/prompts/both.md": "---\ndescription: project's\n---\nP", "work/proj/.pi/prompts/mine.md": "\n\n  A first line that is much longer than the sixty characters a description may have\nsecond",
		"extra/one.md": "one", "extra/both.md": "three", "more/two.md": "---\nx: y\n---\ntwo",
	})
	s := Sources{Dirs: w.dirs, Named: []Named{{"~/extra", w.dirs.Agent, User}}, Flags: []string{"../../more/two.md", w.path("gone.md")}}
	got, problems := w.templates(s)
	assert.Equal(t, []string{
		"user both ~/agent/prompts/both.md: user's",
		"project mine ~/work/proj/.pi/prompts/mine.md: A first line that is much longer than the sixty characters a...",
		"path one ~/extra/one.md: one", "path two ~/more/two.md: two",
	}, got)
	assert.Equal(t, []string{"~/gone.md: stat ~/gone.md: no such file or directory"}, w.told(problems))
	templates, _ := LoadTemplates(s)
	assert.Equal(t, "<file>", templates[0].ArgumentHint)
	assert.Equal(t, "U", templates[0].Body)

	s.Access = ContextOnly
	got, _ = w.templates(s)
	assert.Len(t, got, 3)
	s.NoDefaults = true
	got, _ = w.templates(s)
	assert.Equal(t, []string{"path two ~/more/two.md: two"}, got, "what the command line names is loaded in any case")
}

func TestNoResources(t *testing.T) {
	w := newWorld(t, nil)
	templates, problems := LoadTemplates(Sources{Dirs: w.dirs})
	assert.Empty(t, templates)
	assert.Empty(t, problems)
	skills, problems := LoadSkills(Sources{Dirs: w.dirs})
	assert.Empty(t, skills)
	assert.Empty(t, problems)
}

func TestFilters(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/prompts/a.md": "a", "agent/prompts/b.md": "b", "agent/prompts/c.md": "c", "work/proj/.pi/prompts/b2.md": "b2",
		"x/p1.md": "1", "x/p2.md": "2", "x/q1.md": "3",
	})
	names := func(list ...Named) string {
		templates, problems := LoadTemplates(Sources{Dirs: w.dirs, Named: list})
		require.Empty(t, problems)
		var names []string
		for _, t := range templates {
			names = append(names, t.Name)
		}
		return strings.Join(names, " ")
	}
	user := func(text string) Named { return Named{text, w.dirs.Agent, User} }
	assert.Equal(t, "a b c b2", names())
	assert.Equal(t, "a c b2", names(user("!b*")), "a user's filter is for the user's")
	assert.Equal(t, "a b c", names(Named{"!b*", w.path("work/proj/.pi"), Project}))
	assert.Equal(t, "b2", names(user("!prompts/*")))
	assert.Equal(t, "b b2", names(user("!prompts/*"), user("+prompts/b.md")))
	assert.Equal(t, "a b b2", names(user("-prompts/c.md")))
	assert.Equal(t, "a b c b2", names(user("+prompts/b.md")), "there is nothing to bring back")
	assert.Equal(t, "a b c b2 p1 p2", names(user("~/x/p*.md")))
	assert.Equal(t, "a b c b2 p1 q1", names(user("~/x"), user("!p2.md")))
	assert.Equal(t, "a b c b2", names(user(""), user("~/x/none*.md")))
	_, problems := LoadTemplates(Sources{Dirs: w.dirs, Named: []Named{user("~/x/[")}})
	assert.Len(t, problems, 1, "a pattern that is none")
}

func TestSplitArguments(t *testing.T) {
	for text, want := range map[string][]string{
		"":                      nil,
		"  ":                    nil,
		"a b\tc\n d":            {"a", "b", "c", "d"},
		`"a b" 'c d'`:           {"a b", "c d"},
		`don't stop`:            {"don't", "stop"},
		`say "hi there`:         {"say", `"hi`, "there"},
		`a"b c"d`:               {`a"b`, `c"d`},
		`"it's" 'say "x"'`:      {"it's", `say "x"`},
		`"a \"b\" c" 'd \'e\''`: {`a "b" c`, `d 'e'`},
		`"a \' b"`:              {`a \' b`},
		`""`:                    {""},
		`"" b ''`:               {"", "b", ""},
		`"a b"c d`:              {"a bc", "d"},
		`"a""b"`:                {`a"b"`},
		`'`:                     {"'"},
		`ü "ö ä"`:               {"ü", "ö ä"},
		`\"a b\"`:               {`\"a`, `b\"`},
	} {
		assert.Equal(t, want, SplitArguments(text), "%s", text)
	}
}

func TestTemplateExpand(t *testing.T) {
	args := []string{"one", "", "three", "$1", "five", "6", "7", "8", "9", "ten"}
	for body, want := range map[string]string{
		"":                       "",
		"no variables, 5$":       "no variables, 5$",
		"$1-$2-$3":               "one--three",
		"$4":                     "$1",
		"$10$1":                  "tenone",
		"$11|$0|$99":             "||",
		"$@":                     "one  three $1 five 6 7 8 9 ten",
		"$ARGUMENTS":             "one  three $1 five 6 7 8 9 ten",
		"<$ARGUMENTS>":           "<one  three $1 five 6 7 8 9 ten>",
		"${1}${10}":              "oneten",
		"${@}":                   "one  three $1 five 6 7 8 9 ten",
		"${@:9}":                 "9 ten",
		"${@:0:1}|${@:1:1}":      "one|one",
		"${@:3:3}":               "three $1 five",
		"${@:3:0}":               "",
		"${@:9:50}|${@:50}":      "9 ten|",
		"${1:-x}|${2:-x}":        "one|x",
		"${11:-two words}":       "two words",
		"${11:-$1}":              "$1",
		"${11:-}":                "",
		"${@:-x}":                "one  three $1 five 6 7 8 9 ten",
		"$$1":                    "$one",
		"$x ${x} ${} ${:1} $":    "$x ${x} ${} ${:1} $",
		"${1:2} ${@:a} ${@:1:b}": "${1:2} ${@:a} ${@:1:b}",
		"${1":                    "${1",
		"$ARGUMENT":              "$ARGUMENT",
		"${99999999999999999999}${@:99999999999999999999}${@:1:99999999999999999999}": "one  three $1 five 6 7 8 9 ten",
		"€$1€": "€one€",
	} {
		assert.Equal(t, want, expanded(t, body, args), body)
	}
	assert.Equal(t, "[] [] [x] [x]", expanded(t, "[$1] [$@] [${1:-x}] [${@:-x}]", nil))
}

func expanded(t *testing.T, body string, args []string) string {
	t.Helper()
	text, err := Template{Body: body}.Expand(args)
	require.NoError(t, err)
	return text
}

func TestExpander(t *testing.T) {
	w := newWorld(t, map[string]string{"s/SKILL.md": "---\nname: fix\ndescription: d\n---\n\nDo $1 & that.\n"})
	skill := Skill{Name: "fix", Description: "d", Location: User, Path: w.path("s/SKILL.md")}
	e := Expander{
		Templates: []Template{{Name: "review", Body: "Review $1: $@"}, {Name: "skill:odd", Body: "never"}}, Skills: []Skill{skill}, SkillCommands: true,
	}
	block := "<skill name=\"fix\" location=\"" + skill.Path + "\">\nRelative paths in this skill start from " + w.path("s") + ".\n\nDo $1 & that.\n</skill>"
	for text, want := range map[string]string{
		"hello":                  "hello",
		" /review a":             " /review a",
		"/review a b":            "Review a: a b",
		"/review":                "Review : ",
		"/review\na\nb":          "Review a: a b",
		"/reviews a":             "/reviews a",
		"/unknown $1":            "/unknown $1",
		"/":                      "/",
		"/ review":               "/ review",
		"/skill:fix":             block,
		"/skill:fix  the thing ": block + "\n\nthe thing",
		"/skill:none x":          "/skill:none x",
		"/skill:odd":             "/skill:odd",
		"/skill:":                "/skill:",
	} {
		got, err := e.Expand(text)
		require.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
	require.NoError(t, os.Remove(skill.Path))
	got, err := e.Expand("/skill:fix x")
	assert.Error(t, err)
	assert.Equal(t, "/skill:fix x", got)

	var names []string
	for _, c := range e.Commands() {
		names = append(names, c.Name+" "+c.Source+" "+c.Location)
	}
	assert.Equal(t, []string{"review prompt ", "skill:odd prompt ", "skill:fix skill user"}, names)
	e.SkillCommands = false
	assert.Len(t, e.Commands(), 2)
	got, err = e.Expand("/skill:fix")
	require.NoError(t, err)
	assert.Equal(t, "/skill:fix", got)
	assert.NotNil(t, Expander{}.Commands())
}

func (w world) skills(s Sources) ([]string, []string) {
	skills, problems := LoadSkills(s)
	list := []string{}
	for _, x := range skills {
		hidden := ""
		if x.Hidden {
			hidden = " hidden"
		}
		list = append(list, string(x.Location)+" "+x.Name+" "+w.short(x.Path)+": "+x.Description+hidden)
	}
	return list, w.told(problems)
}

func skillText(name, description string) string {
	text := "---\n"
	if name != "" {
		text += "name: " + name + "\n"
	}
	if description != "" {
		text += "description: " + description + "\n"
	}
	return text + "---\nBody"
}

func TestSkills(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/skills/one/SKILL.md":             skillText("one", "first"),
		"agent/skills/one/deeper/SKILL.md":      skillText("deeper", "not looked at"),
		"agent/skills/group/two/SKILL.md":       skillText("", "named by its directory"),
		"agent/skills/loose.md":                 skillText("", "loose"),
		"agent/skills/group/notes.md":           skillText("notes", "not at the top"),
		"agent/skills/.hidden/SKILL.md":         skillText("dot", "x"),
		"agent/skills/node_modules/x/SKILL.md":  skillText("mod", "x"),
		".agents/skills/three/SKILL.md":         skillText("three", "from home"),
		"work/proj/.pi/skills/one/SKILL.md":     skillText("one", "second"),
		"work/proj/.pi/skills/four/SKILL.md":    skillText("four", "project") + "\n",
		"work/.git/HEAD":                        "",
		"work/.agents/skills/five/SKILL.md":     skillText("five", "of the repository"),
		"work/proj/.agents/skills/six/SKILL.md": "---\ndescription: six\ndisable-model-invocation: true\n---",
		"extra/seven/SKILL.md":                  skillText("seven", "by settings"),
		"eight/SKILL.md":                        skillText("eight", "by flag"),
	})
	s := Sources{Dirs: w.dirs, Named: []Named{{"../extra", w.dirs.Agent, User}}, Flags: []string{w.path("eight")}}
	got, problems := w.skills(s)
	assert.Equal(t, []string{
		"user two ~/agent/skills/group/two/SKILL.md: named by its directory", "user loose ~/agent/skills/loose.md: loose",
		"user one ~/agent/skills/one/SKILL.md: first", "user three ~/.agents/skills/three/SKILL.md: from home",
		"project four ~/work/proj/.pi/skills/four/SKILL.md: project", "project six ~/work/proj/.agents/skills/six/SKILL.md: six hidden",
		"project five ~/work/.agents/skills/five/SKILL.md: of the repository", "path seven ~/extra/seven/SKILL.md: by settings",
		"path eight ~/eight/SKILL.md: by flag",
	}, got)
	assert.Equal(t, []string{"~/work/proj/.pi/skills/one/SKILL.md: skill one is already defined by ~/agent/skills/one/SKILL.md"}, problems)

	s.Access = ContextOnly
	got, _ = w.skills(s)
	assert.Len(t, got, 6)
	s.NoDefaults = true
	got, _ = w.skills(s)
	assert.Equal(t, []string{"path eight ~/eight/SKILL.md: by flag"}, got)
	s = Sources{Dirs: w.dirs, Named: []Named{{"!group/**", w.path("agent/skills"), User}, {"-skills/one", w.dirs.Agent, User}}}
	s.Home = ""
	got, _ = w.skills(s)
	assert.Equal(t, []string{
		"user loose ~/agent/skills/loose.md: loose", "project four ~/work/proj/.pi/skills/four/SKILL.md: project",
		"project one ~/work/proj/.pi/skills/one/SKILL.md: second",
		"project six ~/work/proj/.agents/skills/six/SKILL.md: six hidden", "project five ~/work/.agents/skills/five/SKILL.md: of the repository",
	}, got)
}

func TestSkillsOutsideRepository(t *testing.T) {
	w := newWorld(t, map[string]string{"work/.agents/skills/a/SKILL.md": skillText("a", "x"), "work/proj/.agents/skills/b/SKILL.md": skillText("b", "y")})
	got, _ := w.skills(Sources{Dirs: w.dirs})
	assert.Equal(t, []string{"project b ~/work/proj/.agents/skills/b/SKILL.md: y"}, got)
}

func TestSkillProblems(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/skills/a/SKILL.md": skillText("a", ""),
		"agent/skills/b/SKILL.md": skillText("Not_Good", "kept"),
		"agent/skills/c/SKILL.md": skillText("c--c", "kept"),
		"agent/skills/d/SKILL.md": skillText("-d", "kept"),
		"agent/skills/e/SKILL.md": skillText("e", strings.Repeat("x", 1025)),
		"agent/skills/f/SKILL.md": skillText(strings.Repeat("f", 65), "kept"),
		"agent/skills/g/SKILL.md": "no head at all",
		"agent/skills/h.md":       skillText("ok-9", "fine"),
	})
	require.NoError(t, os.MkdirAll(w.path("agent/skills/i/SKILL.md"), 0o700))
	got, problems := w.skills(Sources{Dirs: w.dirs, Flags: []string{"gone"}})
	assert.Len(t, got, 6)
	assert.Equal(t, []string{
		"~/work/proj/gone: stat ~/work/proj/gone: no such file or directory",
		"~/agent/skills/a/SKILL.md: skill without description",
		`~/agent/skills/b/SKILL.md: skill name "Not_Good": use a-z, 0-9 and single hyphens inside`,
		`~/agent/skills/c/SKILL.md: skill name "c--c": use a-z, 0-9 and single hyphens inside`,
		`~/agent/skills/d/SKILL.md: skill name "-d": use a-z, 0-9 and single hyphens inside`,
		"~/agent/skills/e/SKILL.md: skill description has 1025 characters, more than 1024",
		"~/agent/skills/f/SKILL.md: skill name has 65 characters, more than 64",
		"~/agent/skills/g/SKILL.md: skill without description",
		"~/agent/skills/i/SKILL.md: not a regular file",
	}, sortedTail(problems))
}

// sortedTail puts the problem of the flag first, wherever it was noticed.
func sortedTail(list []string) []string {
	for i, p := range list {
		if strings.Contains(p, "gone") {
			return append([]string{p}, append(append([]string{}, list[:i]...), list[i+1:]...)...)
		}
	}
	return list
}

func TestSkillsIgnored(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/skills/.gitignore":            "# comment\nbuild\n/top\nlogs/\n*.tmp\n!keep.tmp\nsub/secret\n\\#odd\nlogs2.md/\nspaced  \n",
		"agent/skills/.fdignore":             "fd\r\n",
		"agent/skills/sub/.ignore":           "!build\nlocal\n",
		"agent/skills/build/SKILL.md":        skillText("build1", "x"),
		"agent/skills/a/build/SKILL.md":      skillText("build2", "x"),
		"agent/skills/sub/build/SKILL.md":    skillText("build3", "back again"),
		"agent/skills/sub/local/SKILL.md":    skillText("local1", "x"),
		"agent/skills/local/SKILL.md":        skillText("local2", "not below sub"),
		"agent/skills/top/SKILL.md":          skillText("top1", "x"),
		"agent/skills/a/top/SKILL.md":        skillText("top2", "deeper"),
		"agent/skills/logs/SKILL.md":         skillText("logs1", "x"),
		"agent/skills/x.tmp/SKILL.md":        skillText("x1", "x"),
		"agent/skills/keep.tmp/SKILL.md":     skillText("keep1", "kept"),
		"agent/skills/sub/secret/SKILL.md":   skillText("secret1", "x"),
		"agent/skills/a/sub/secret/SKILL.md": skillText("secret2", "anchored elsewhere"),
		"agent/skills/#odd/SKILL.md":         skillText("odd1", "x"),
		"agent/skills/fd/SKILL.md":           skillText("fd1", "x"),
		"agent/skills/logs2.md":              skillText("logs2", "a file, and the rule is for directories"),
		"agent/skills/spaced/SKILL.md":       skillText("spaced1", "x"),
	})
	skills, problems := LoadSkills(Sources{Dirs: w.dirs})
	assert.Empty(t, problems)
	var names []string
	for _, s := range skills {
		names = append(names, s.Name)
	}
	assert.ElementsMatch(t, []string{"build3", "local2", "top2", "keep1", "secret2", "logs2"}, names)
}

func TestSkillLinks(t *testing.T) {
	w := newWorld(t, map[string]string{"real/linked/SKILL.md": skillText("linked", "x"), "agent/skills/a/SKILL.md": skillText("a", "x")})
	link := func(target, name string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
		require.NoError(t, os.Symlink(w.path(target), w.path(name)))
	}
	link("real", "agent/skills/link")
	link("real/linked", "agent/skills/again")
	link("agent/skills", "agent/skills/ring/back")
	link("agent/skills/a/SKILL.md", "agent/skills/same.md")
	link("nowhere", "agent/skills/dangling")
	got, problems := w.skills(Sources{Dirs: w.dirs})
	assert.Empty(t, problems)
	assert.Equal(t, []string{"user a ~/agent/skills/a/SKILL.md: x", "user linked ~/agent/skills/again/SKILL.md: x"}, got, "each real file once")
}

// Directories that link to each other in every way are looked at once each.
func TestSkillLinksInCircles(t *testing.T) {
	files := map[string]string{}
	const n = 14
	for i := range n {
		files[fmt.Sprintf("agent/skills/d%02d/x/SKILL.md", i)] = skillText(fmt.Sprintf("s%d", i), "x")
	}
	w := newWorld(t, files)
	for i := range n {
		for j := range n {
			if i != j {
				require.NoError(t, os.Symlink(w.path(fmt.Sprintf("agent/skills/d%02d", j)), w.path(fmt.Sprintf("agent/skills/d%02d/to%02d", i, j))))
			}
		}
	}
	skills, problems := LoadSkills(Sources{Dirs: w.dirs})
	assert.Len(t, skills, n)
	assert.Empty(t, problems)
}
