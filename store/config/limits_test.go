package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// every loads everything there is and returns what was said about it.
func (w world) every() (told []string) {
	w.t.Helper()
	_, problems := w.settings()
	told = append(told, w.told(problems)...)
	s := Sources{Dirs: w.dirs}
	for _, load := range []func() []Problem{
		func() []Problem { _, p := LoadContextFiles(w.dirs); return p },
		func() []Problem { _, p := LoadBase(w.dirs, ""); return p },
		func() []Problem { _, p := LoadAppend(w.dirs, nil); return p },
		func() []Problem { _, p := LoadTemplates(s); return p },
		func() []Problem { _, p := LoadSkills(s); return p },
		func() []Problem { _, p := LoadStreamRules(w.dirs, nil); return p },
	} {
		told = append(told, w.told(load())...)
	}
	return told
}

// theFiles is one file of each kind that is read, of the project and of the user.
var theFiles = []string{
	"agent/settings.json", "work/proj/.pi/settings.json", "agent/AGENTS.md", "work/proj/CLAUDE.md", "work/AGENTS.md",
	"agent/SYSTEM.md", "work/proj/.pi/SYSTEM.md", "agent/APPEND_SYSTEM.md", "work/proj/.pi/APPEND_SYSTEM.md",
	"agent/prompts/p.md", "work/proj/.pi/prompts/p.md", "agent/skills/s/SKILL.md", "work/proj/.pi/skills/s/SKILL.md",
	"work/proj/.agents/skills/s/SKILL.md", "agent/rules/r.md", "work/proj/.pi/rules/r.md",
}

// TestFilesWithoutEnd puts what never ends in the place of every file: each is
// named, and nothing waits or fills the memory.
func TestFilesWithoutEnd(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"hole":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"kernel": func(path string) error { return os.Symlink("/proc/kmsg", path) },
	} {
		for _, file := range theFiles {
			w := newWorld(t, map[string]string{file + ".x/y": ""})
			path := w.path(file)
			require.NoError(t, make(path))
			if name == "hole" {
				require.NoError(t, os.Truncate(path, 3<<30))
			}
			begun := time.Now()
			told := strings.Join(w.every(), "\n")
			assert.Less(t, time.Since(begun), patience, "%s %s", name, file)
			short := "~/" + file
			switch listed := strings.Contains(file, "/prompts/") || strings.Contains(file, "/rules/"); {
			case name == "hole":
				assert.Contains(t, told, short+": larger than 1 MiB")
			case name == "kernel":
				assert.NotContains(t, told, "SECRET")
			case !listed: // a directory's listing passes over what is no file
				assert.Contains(t, told, short+": not a regular file", name)
			}
		}
	}
}

// TestKindsHaveLimits: many files, and large ones, stop at the limit of their
// kind, which is said once.
func TestKindsHaveLimits(t *testing.T) {
	many := map[string]string{}
	for i := range protocol.MaxTextFiles + 5 {
		many[fmt.Sprintf("work/proj/.pi/prompts/%d.md", i)] = "x"
		many[fmt.Sprintf("work/proj/.pi/skills/%d/SKILL.md", i)] = skillText(fmt.Sprint("s", i), "x")
		many[fmt.Sprintf("work/proj/.pi/rules/%d.md", i)] = "---\nttsr_trigger: x\n---\n"
	}
	w := newWorld(t, many)
	told := w.every()
	require.Len(t, told, 3)
	for i, kind := range []string{"prompt templates", "skills", "stream rules"} {
		assert.Contains(t, told[i], kind+": more than 1000 files, 8 MiB or 10000 directory entries: the rest is left out")
	}
	templates, _ := LoadTemplates(Sources{Dirs: w.dirs})
	assert.Len(t, templates, protocol.MaxTextFiles)

	large := map[string]string{}
	for i := range 10 {
		large[fmt.Sprintf("work/proj/.pi/prompts/%d.md", i)] = strings.Repeat("x", protocol.MaxTextFile)
	}
	w = newWorld(t, large)
	templates, problems := LoadTemplates(Sources{Dirs: w.dirs})
	assert.Len(t, templates, protocol.MaxTextTotal/protocol.MaxTextFile)
	assert.Len(t, problems, 1)

	crowd := newWorld(t, nil)
	dir := crowd.path("work/proj/.pi/skills")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for i := range protocol.MaxEntries + 1 {
		require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, fmt.Sprint(i))))
	}
	_, problems = LoadSkills(Sources{Dirs: crowd.dirs})
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0].Error(), "10000 directory entries")
}

// TestIgnoreFilesHaveALimit: each entry is held against each rule.
func TestIgnoreFilesHaveALimit(t *testing.T) {
	w := newWorld(t, map[string]string{"agent/skills/.gitignore": strings.Repeat("a\n", 1_000_000)})
	for i := range 5000 {
		w.write(fmt.Sprintf("agent/skills/b%d.txt", i), "")
	}
	begun := time.Now()
	_, problems := LoadSkills(Sources{Dirs: w.dirs})
	assert.Empty(t, problems)
	assert.Less(t, time.Since(begun), patience)
}

func TestTriggersHaveALimit(t *testing.T) {
	rule := func(trigger string) string { return "---\nttsr_trigger: '" + trigger + "'\n---\nx" }
	w := newWorld(t, map[string]string{
		"agent/rules/a.md": rule("first"), "agent/rules/b.md": rule(strings.Repeat("b", protocol.MaxTriggers-10)),
		"agent/rules/c.md": rule("one too many"), "agent/rules/d.md": rule("d"),
	})
	rules, problems := LoadStreamRules(w.dirs, nil)
	assert.Len(t, rules, 2)
	assert.Equal(t, []string{
		"~/agent/rules/c.md: the triggers of all stream rules are larger than 20000 steps: this rule and those behind it are left out",
	}, w.told(problems))

	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("agent/rules/%d.md", i)] = rule(strings.Repeat("(a{1000}|", 100) + "b" + strings.Repeat(")", 100))
	}
	w = newWorld(t, files)
	begun := time.Now()
	rules, problems = LoadStreamRules(w.dirs, nil)
	assert.Empty(t, rules)
	assert.Len(t, problems, 1)
	assert.Less(t, time.Since(begun), patience)
	for trigger, want := range map[string]int{"abc": 4, "(a|b)*": 4, "a{1000}": 3000, "(?:a{100}){10}": 3020, "[a-z]{3}": 12} {
		got, err := weigh(trigger)
		require.NoError(t, err)
		assert.InDelta(t, want, got, float64(want)/2, trigger)
	}
}

func TestSkillsHaveADepth(t *testing.T) {
	w := newWorld(t, map[string]string{"agent/skills/" + strings.Repeat("d/", 30) + "s/SKILL.md": skillText("s", "x"), "agent/skills/" + strings.Repeat("e/", 40) + "t/SKILL.md": skillText("t", "x")})
	skills, problems := LoadSkills(Sources{Dirs: w.dirs})
	assert.Len(t, skills, 1)
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0].Error(), "skills are not looked for deeper than 32 directories")
}

func TestListsHaveALimit(t *testing.T) {
	for _, n := range []int{protocol.MaxResourceValues, protocol.MaxResourceValues + 1} {
		_, problems := one(t, `{"prompts": ["x"`+strings.Repeat(`,"x"`, n-1)+`]}`)
		assert.Len(t, problems, n-protocol.MaxResourceValues)
	}
}

// TestExpansionHasALimit: a small template that repeats its arguments.
func TestExpansionHasALimit(t *testing.T) {
	_, err := Template{Name: "t", Body: strings.Repeat("$@", 500_000)}.Expand([]string{strings.Repeat("x", 1000)})
	require.EqualError(t, err, "template t with its arguments is larger than 16 MiB")
	e := Expander{Templates: []Template{{Name: "t", Body: strings.Repeat("$1", 500_000)}}}
	_, err = e.Expand("/t " + strings.Repeat("x", 1000))
	assert.Error(t, err)
}

// patience is longer than a reader takes on a busy machine under the race detector, and
// much shorter than one takes that is quadratic.
const patience = 2 * time.Minute

// TestNothingIsQuadratic gives every reader a quarter of the largest text it takes, of
// what made readers slow. A quadratic one takes a sixteenth of its time for that.
func TestNothingIsQuadratic(t *testing.T) {
	fill := func(s string) []byte { return bytes.Repeat([]byte(s), protocol.MaxTextFile/4/len(s)) }
	for _, s := range []string{"/*", "/**", "//", "/*\n", "{", "[", `{"a":`, `"`, `\`, ",", "[,", `{"a":1,`, " ", "]", "- ", "a: ", "a:\n", "a: [", "a: '", "a: |\n", "a: b\n", "a: b: c\n", "a: {\n", "x:\n  - [\n", " ", "\n", "---\n", "$", "${", "${1:-", "${@:1:1}", "$@", "!", "a/", "**/"} {
		src := fill(s)
		for _, head := range []string{"", "---\n", "---\na: ", "{\"a\": "} {
			text := head + string(src) + "\n---\n"
			begun := time.Now()
			_, _ = parse("x", []byte(text))
			_, body := splitFrontmatter(text)
			_, _ = Template{Body: body}.Expand([]string{"x", "y"})
			_, _ = Template{Body: string(src)}.Expand([]string{"x", "y"})
			assert.Less(t, time.Since(begun), patience/8, "%q after %q", s, head)
		}
	}
	for range 2 {
		begun := time.Now()
		_, problems := one(t, strings.Repeat(`{"compaction":`, 5000)+"1"+strings.Repeat("}", 5000))
		assert.Len(t, problems, 1)
		assert.Less(t, time.Since(begun), patience)
	}
}
