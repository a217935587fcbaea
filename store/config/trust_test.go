package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// load loads the settings of a world under a policy.
func (w world) load(p Policy) (*Settings, Dirs, []string) {
	w.t.Helper()
	s, dirs, problems, err := LoadSettings(w.dirs, p, nil)
	require.NoError(w.t, err)
	return s, dirs, w.told(problems)
}

// without is settings without what was decided about the project.
func without(s *Settings) *Settings {
	s.Project, s.Undecided = protocol.ProjectTrust{}, false
	s.Given = nil // as it was written: nobody obeys it
	return s
}

// harmful are values of keys that say the contrary of the effect.
var harmless = map[string]string{
	"bash.inheritEnv": `false`, "defaultTools": `["-bash"]`, "images.blockImages": `true`, "ttsr.enabled": `true`,
	"task.verification.enabled": `true`, "task.verification.requireForIsolated": `true`, "task.verification.maxRetries": `1`,
	"task.isolation.enabled": `true`, "task.isolation.apply": `false`, "task.budget.strict": `true`, "task.budget.requirePrice": `true`, "task.enabled": `false`,
	"retry.maxRetries": `1`, "retry.baseDelayMs": `5000`, "retry.maxAgentDelayMs": `90000`, "retry.provider.maxRetries": `0`,
}

// needs is the access that each effect needs: said here again, for it is the rule
// that everything hangs on.
var needs = map[Effect]Access{
	Context: ContextOnly, Text: Texts, Tunes: Texts,
	Starts: Everything, Redirects: Everything, Loosens: Everything, Widens: Everything, Reserved: Everything,
}

// TestSettingsOfProjects walks the table of parts: what a project says counts,
// is left out and is named as its row says.
func TestSettingsOfProjects(t *testing.T) {
	obeyed := map[string]bool{}
	for _, f := range Defaults().fields("", User) {
		obeyed[f.key] = true
		p, known := partOf(f.key)
		require.True(t, known && (p.Missing == "" || p.Missing == tasks) && !p.Screen, "%s is read, so its row says so", f.key)
		require.Equal(t, f.key, p.Key, "what is read has a row of its own")
	}
	seen := map[string]bool{}
	for _, p := range Parts() {
		require.False(t, seen[p.Name()], "%s has two rows", p.Name())
		seen[p.Name()] = true
		require.True(t, p.Key == "" || p.Path == "", p.Name())
		if p.Key == "" {
			continue
		}
		require.Equal(t, obeyed[p.Key], p.Missing == "" && !p.Screen, "%s: read by something, or named as not obeyed", p.Key)
		value := everyValue[p.Key]
		if value == "" {
			value = `["x"]`
		}
		switch p.Key { // the value above is the careful one
		case "images.blockImages":
			value = `false`
		case "ttsr.enabled":
			value = `false`
		case "retry.maxRetries":
			value = `9`
		case "task.verification.enabled", "task.verification.requireForIsolated", "task.isolation.enabled", "task.budget.requirePrice":
			value = `false`
		case "task.isolation.apply":
			value = `true`
		}
		w := newWorld(t, map[string]string{"work/proj/.pi/settings.json": nested(p.Key, value)})
		for access, consent := range map[Access]Policy{ContextOnly: {Strict: true}, Texts: {}, Everything: {Consent: Approved}} {
			s, dirs, told := w.load(consent)
			require.Equal(t, access, dirs.Access)
			changed := !assert.ObjectsAreEqual(Defaults(), without(s)) || p.Key == "images.blockImages"
			s, _, _ = w.load(consent)
			switch {
			case p.Screen:
				require.False(t, changed, p.Key)
				require.Empty(t, told, p.Key)
			case p.Effect == Reserved:
				require.False(t, changed, p.Key)
				require.Contains(t, told[0], "count only in the user's file: "+p.Key)
			case needs[p.Effect] <= access:
				require.Equal(t, obeyed[p.Key], changed, p.Key)
				require.Empty(t, s.Project.LeftOut, p.Key)
			default:
				require.Equal(t, Defaults(), without(s), p.Key)
				s, _, _ = w.load(consent)
				require.Equal(t, []string{p.Key}, s.Project.LeftOut)
				require.Contains(t, told[len(told)-1], "these are left out: "+p.Key+".")
			}
			if p.Missing != "" && !saysNothing(gjson.Parse(value)) {
				require.Contains(t, told[0], fmt.Sprintf("this version does not obey the settings %s (%s)", p.Key, p.Missing))
			}
		}
		if p.Harmless == nil {
			continue
		}
		w.write("work/proj/.pi/settings.json", nested(p.Key, harmless[p.Key]))
		s, _, _ := w.load(Policy{})
		require.Empty(t, s.Project.LeftOut, "%s: %s", p.Key, harmless[p.Key])
		s, _, _ = w.load(Policy{Strict: true})
		require.Equal(t, []string{p.Key}, s.Project.LeftOut)
	}
}

// TestFilesOfProjects walks the rows of files.
func TestFilesOfProjects(t *testing.T) {
	for _, p := range Parts() {
		if p.Path == "" || p.Screen {
			continue
		}
		file := p.Path
		if filepath.Ext(file) == "" {
			file += "/x"
		}
		w := newWorld(t, map[string]string{"work/proj/" + file: "text"})
		for access, policy := range map[Access]Policy{ContextOnly: {Strict: true}, Texts: {}, Everything: {Consent: Approved}} {
			s, _, told := w.load(policy)
			if needs[p.Effect] <= access {
				assert.Empty(t, s.Project.LeftOut, p.Path)
			} else {
				assert.Equal(t, []string{p.Path}, s.Project.LeftOut)
				assert.Contains(t, told[len(told)-1], p.Path+". To trust it use --approve, or put {\"~/work/proj\": true} into ~/agent/troupe/trust.json")
			}
			missing := p.Missing != "" && strings.Contains(told[0], fmt.Sprintf("does not obey ~/work/proj/%s (%s)", p.Path, p.Missing))
			assert.Equal(t, p.Missing != "", missing, p.Path)
		}
		if p.Agent != "" {
			file := filepath.Join("agent", p.Agent)
			if filepath.Ext(file) == "" {
				file += "/x"
			}
			_, _, told := newWorld(t, map[string]string{file: "x"}).load(Policy{})
			if p.Missing == "" {
				assert.Empty(t, told, p.Agent)
				continue
			}
			require.Len(t, told, 1)
			assert.Contains(t, told[0], fmt.Sprintf("does not obey ~/agent/%s (%s)", p.Agent, p.Missing))
		}
	}
	_, _, told := newWorld(t, map[string]string{"agent/tools/fd": "", "agent/commands/.gitkeep": "", "work/proj/.pi/hooks/.gitkeep": ""}).load(Policy{})
	assert.Empty(t, told, "nothing that anybody has configured")
}

// TestTextsOfProjects: the texts themselves come with the access they need.
func TestTextsOfProjects(t *testing.T) {
	w := newWorld(t, map[string]string{
		"work/proj/.pi/SYSTEM.md": "system", "work/proj/.pi/APPEND_SYSTEM.md": "append", "work/proj/.pi/prompts/p.md": "prompt",
		"work/proj/.pi/skills/s/SKILL.md": skillText("s", "x"), "work/proj/.agents/skills/t/SKILL.md": skillText("t", "x"),
		"work/proj/.pi/rules/r.md": "---\nttsr_trigger: x\n---\nrule", "work/proj/AGENTS.md": "context",
		"agent/rules/r.md": "---\nttsr_trigger: y\n---\nuser's rule",
	})
	for access, want := range map[Access]int{ContextOnly: 2, Texts: 7, Everything: 7} {
		d := w.dirs
		d.Access = access
		n := 0
		base, _ := LoadBase(d, "")
		add, _ := LoadAppend(d, nil)
		templates, _ := LoadTemplates(Sources{Dirs: d})
		skills, _ := LoadSkills(Sources{Dirs: d})
		rules, _ := LoadStreamRules(d, nil)
		files, _ := LoadContextFiles(d)
		if base != "" {
			n++
		}
		n += len(add) + len(templates) + len(skills) + len(rules) + len(files)
		assert.Equal(t, want, n)
		require.Len(t, rules, 1)
		if access == Everything {
			assert.Equal(t, "rule", rules[0].Content)
		} else {
			assert.Equal(t, "user's rule", rules[0].Content, "a project that is not trusted hides no rule of the user's")
		}
	}
}

func TestDecide(t *testing.T) {
	const ours, pis = "agent/troupe/trust.json", "agent/trust.json"
	for _, c := range []struct {
		name    string
		files   map[string]string
		consent Consent
		strict  bool
		want    Access
		by      string
	}{
		{name: "nobody has decided", want: Texts, by: "defaultProjectTrust"},
		{name: "as in pi 1.x", strict: true, want: ContextOnly, by: "defaultProjectTrust"},
		{name: "yes by flag", consent: Approved, files: map[string]string{ours: `{"~/work/proj": false}`}, want: Everything, by: "--approve"},
		{name: "no by flag", consent: Refused, files: map[string]string{ours: `{"~/work/proj": true}`}, want: ContextOnly, by: "--no-approve"},
		{name: "our store", files: map[string]string{ours: `{"~/work/proj": true}`, pis: `{"~/work/proj": false}`}, want: Everything, by: ours},
		{name: "our store says no", files: map[string]string{ours: `{"~/work/proj": false}`, pis: `{"~/work/proj": true}`}, want: Texts, by: ours},
		{name: "pi's store", files: map[string]string{ours: `{"~/elsewhere": true}`, pis: `{"~/work/proj": true}`}, want: Everything, by: pis},
		{name: "a directory above", files: map[string]string{pis: `{"~/work": true}`}, want: Everything, by: pis},
		{name: "the nearest counts", files: map[string]string{pis: `{"~": true, "~/work": false, "~/work/proj": null}`}, want: Texts, by: pis},
		{name: "a longer name is another directory", files: map[string]string{pis: `{"~/work/pro": true}`}, want: Texts, by: "defaultProjectTrust"},
		{name: "the setting", files: map[string]string{"agent/settings.json": `{"defaultProjectTrust": "always"}`}, want: Everything, by: "defaultProjectTrust"},
		{name: "the setting says never", files: map[string]string{"agent/settings.json": `{"defaultProjectTrust": "never"}`}, want: Texts, by: "defaultProjectTrust"},
		{name: "a saved no beats the setting", files: map[string]string{pis: `{"~/work/proj": false}`, "agent/settings.json": `{"defaultProjectTrust": "always"}`}, want: Texts, by: pis},
		{name: "a project does not trust itself", files: map[string]string{"work/proj/.pi/settings.json": `{"defaultProjectTrust": "always"}`, "work/proj/.pi/trust.json": `{"~/work/proj": true}`}, want: Texts, by: "defaultProjectTrust"},
		{name: "a broken store trusts nobody", files: map[string]string{ours: `{"~/work`, pis: `{"~/work/proj": true}`, "agent/settings.json": `{"defaultProjectTrust": "always"}`}, want: Texts, by: ours},
		{name: "nor does one with odd words", files: map[string]string{pis: `{"~/work/proj": "yes"}`}, want: Texts, by: pis},
		{name: "nor one that is no object", files: map[string]string{pis: `[true]`}, want: Texts, by: pis},
		{name: "nor one that is too large", files: map[string]string{pis: `{"~/work/proj": true}` + strings.Repeat(" ", protocol.MaxSettingsFile)}, want: Texts, by: pis},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			for name, content := range c.files {
				w.write(name, strings.ReplaceAll(content, "~", w.home))
			}
			s, dirs, told := w.load(Policy{Consent: c.consent, Strict: c.strict})
			assert.Equal(t, c.want, dirs.Access)
			assert.Equal(t, c.want == Everything, s.Project.Trusted)
			by := s.Project.DecidedBy
			if rel, err := filepath.Rel(w.home, by); err == nil && filepath.IsAbs(by) {
				by = rel
			}
			assert.Equal(t, c.by, by)
			assert.Equal(t, c.want != Everything && c.by == "defaultProjectTrust" && !strings.Contains(c.name, "never"), s.Undecided)
			if strings.Contains(c.name, "nor ") || strings.Contains(c.name, "broken") {
				require.NotEmpty(t, told)
				assert.Contains(t, told[0], "no project is trusted")
			}
		})
	}
}

// TestTrustThroughLinks: a store has directories without symbolic links.
func TestTrustThroughLinks(t *testing.T) {
	w := newWorld(t, map[string]string{"real/proj/x": ""})
	require.NoError(t, os.Symlink(w.path("real/proj"), w.path("link")))
	w.dirs.Cwd = w.path("link")
	w.write("agent/trust.json", fmt.Sprintf("{%q: true}", w.path("link")))
	_, dirs, _ := w.load(Policy{})
	assert.Equal(t, Texts, dirs.Access)
	w.write("agent/trust.json", fmt.Sprintf("{%q: true}", w.path("real")))
	_, dirs, _ = w.load(Policy{})
	assert.Equal(t, Everything, dirs.Access)
}

// TestClientTrusts: open_session is the user's word, and may bring a default.
func TestClientTrusts(t *testing.T) {
	w := newWorld(t, map[string]string{"work/proj/.pi/settings.json": `{"shellPath": "/x"}`})
	s, dirs, _, err := LoadSettings(w.dirs, Policy{}, []byte(`{"defaultProjectTrust": "always", "shellCommandPrefix": "y"}`))
	require.NoError(t, err)
	assert.Equal(t, Everything, dirs.Access)
	assert.Equal(t, "/x", s.ShellPath)
	assert.Equal(t, "y", s.ShellCommandPrefix)
	w.write("agent/trust.json", fmt.Sprintf("{%q: false}", w.path("work/proj")))
	_, dirs, _, err = LoadSettings(w.dirs, Policy{}, []byte(`{"defaultProjectTrust": "always"}`))
	require.NoError(t, err)
	assert.Equal(t, Texts, dirs.Access)
}

// TestClientSettings: what a client sends is right, or it is told.
func TestClientSettings(t *testing.T) {
	w := newWorld(t, nil)
	for src, want := range map[string]string{
		`"x"`:                         "settings are not an object",
		`[1]`:                         "settings are not an object",
		`5`:                           "settings are not an object",
		`{"shellPath": 5}`:            "shellPath: want a string",
		`{"compaction": true}`:        "compaction: want an object",
		`{"retry": {"enabled": "x"}}`: "retry.enabled: want true or false",
		`{"skills": [1]}`:             "skills: want a list of strings",
		`{"defaultProjectTrust": 1}`:  "defaultProjectTrust: want one of ask, always, never",
	} {
		_, _, _, err := LoadSettings(w.dirs, Policy{}, []byte(src))
		assert.ErrorContains(t, err, want, src)
	}
	_, _, problems, err := LoadSettings(w.dirs, Policy{}, []byte(`{"nonsense": 1, "task": {"batch": true}, "retry": {"enabeld": true}, "theme": "dark"}`))
	require.NoError(t, err)
	assert.Equal(t, []string{
		"settings: unknown settings: nonsense, retry.enabeld", "settings: this version does not obey the settings task.batch (parts of the task tool)",
	}, w.told(problems))
}

// TestLinksOutOfProjects: a project that is not trusted brings nothing that is
// not its own.
// TestLinksIntoRepositoryAbove checks links of a directory below a repository, which is somebody else's:
// they lead within the directory only.
func TestLinksIntoRepositoryAbove(t *testing.T) {
	w := newWorld(t, map[string]string{
		"work/.git/x": "", "work/secret": "SECRET", "work/proj/inside.md": "inside", "work/proj/.pi/x": "",
	})
	require.NoError(t, os.Symlink(w.path("work/secret"), w.path("work/proj/AGENTS.md")))
	require.NoError(t, os.Symlink(w.path("work/proj/inside.md"), w.path("work/proj/.pi/SYSTEM.md")))
	w.dirs.Access = Texts
	files, problems := w.contextFiles()
	assert.Empty(t, files)
	assert.Equal(t, []string{"~/work/proj/AGENTS.md: a link that leads out of the project, which is not trusted"}, w.told(problems))
	base, _ := LoadBase(w.dirs, "")
	assert.Equal(t, "inside", base)
}

func TestLinksOutOfProjects(t *testing.T) {
	w := newWorld(t, map[string]string{
		"secret": "SECRET", "elsewhere/prompts/p.md": "P", "elsewhere/s/SKILL.md": skillText("s", "x"),
		"work/.git/x": "", "work/shared.md": "shared", "work/proj/inside.md": "inside", "AGENTS.md": "above",
	})
	link := func(target, name string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
		require.NoError(t, os.Symlink(w.path(target), w.path(name)))
	}
	link("secret", "work/proj/AGENTS.md")
	link("secret", "work/proj/.pi/SYSTEM.md")
	link("work/shared.md", "work/CLAUDE.md")
	link("elsewhere/prompts", "work/proj/.pi/prompts")
	link("elsewhere/s", "work/proj/.pi/skills/s")
	link("elsewhere", "work/proj/.pi/rules")
	w.write("elsewhere/settings.json", `{"steeringMode": "all"}`)
	link("elsewhere/settings.json", "work/proj/.pi/settings.json")

	s, dirs, _ := w.load(Policy{})
	require.Equal(t, Texts, dirs.Access)
	assert.Equal(t, []string{".pi/settings.json", "AGENTS.md", ".pi/SYSTEM.md", ".pi/prompts", ".pi/rules"}, s.Project.LeftOut)
	assert.Equal(t, protocol.QueueOneAtATime, s.SteeringMode)
	w.dirs.Access = Texts
	files, problems := w.contextFiles()
	assert.Equal(t, []string{"~/AGENTS.md: above", "~/work/CLAUDE.md: shared"}, files, "inside the repository a link may lead where it likes")
	assert.Equal(t, []string{"~/work/proj/AGENTS.md: a link that leads out of the project, which is not trusted"}, w.told(problems))
	base, _ := LoadBase(w.dirs, "")
	assert.Empty(t, base)
	templates, _ := w.templates(Sources{Dirs: w.dirs})
	assert.Empty(t, templates)
	skills, _ := w.skills(Sources{Dirs: w.dirs})
	assert.Empty(t, skills)

	w.dirs.Access = Everything
	files, _ = w.contextFiles()
	assert.True(t, slices.Contains(files, "~/work/proj/AGENTS.md: SECRET"), "of a trusted project as in pi")
	templates, _ = w.templates(Sources{Dirs: w.dirs})
	assert.Len(t, templates, 1)
	skills, _ = w.skills(Sources{Dirs: w.dirs})
	assert.Len(t, skills, 1)
}

// TestThePlaceOfTheAgentDirectory: who works in the directory above the agent's
// has one settings.json, and it is the user's.
func TestThePlaceOfTheAgentDirectory(t *testing.T) {
	w := newWorld(t, map[string]string{".pi/settings.json": `{"shellPath": "/mine"}`, ".pi/hooks/x.ts": "", ".agents/skills/x/SKILL.md": skillText("x", "y")})
	w.dirs.Cwd, w.dirs.Agent = w.home, w.path(".pi")
	s, _, told := w.load(Policy{})
	assert.Equal(t, "/mine", s.ShellPath)
	assert.Empty(t, s.Project.LeftOut)
	assert.Empty(t, told)
	found, _ := LoadExtensions(ExtensionSources{Dirs: w.dirs})
	require.Len(t, found, 1, "what is the user's needs no trust of a project")
	assert.Equal(t, "user", found[0].Scope)
	s, _, _ = w.load(Policy{Strict: true})
	assert.Empty(t, s.Project.LeftOut)
}
