package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// extensions loads what a world has, as a session does. Each extension is one line:
// its path, source and scope, and what else is to be said.
func (w world) extensions(f ExtensionFlags, policy Policy) (found, told []string) {
	w.t.Helper()
	settings, dirs, problems, err := LoadSettings(w.dirs, policy, nil)
	require.NoError(w.t, err)
	f.Global = func() []string { return []string{w.path("lib/node_modules")} }
	_, list, more := FindExtensions(dirs, settings, f)
	for _, x := range list {
		line := fmt.Sprintf("%s %s %s", w.short(x.Path), x.Source, x.Scope)
		if x.Form != AnExtension {
			line += " " + string(x.Form)
		}
		if x.Package {
			line += " of " + w.short(x.Base)
		}
		require.Equal(w.t, real(x.Path), x.Real)
		found = append(found, line)
	}
	return found, w.told(append(problems, more...))
}

// folders makes a world of empty files, each path one word; a word with = has what
// follows as its content.
func folders(t *testing.T, files ...string) world {
	w := newWorld(t, nil)
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		w.write(name, content)
	}
	return w
}

// TestWhereExtensionsLie: each row is a tree of files, what is asked for and what is
// found, in the order of loading.
func TestWhereExtensionsLie(t *testing.T) {
	const user, project = "agent/", "work/proj/.pi/"
	for _, c := range []struct {
		name  string
		files []string
		flags ExtensionFlags
		want  []string
		told  []string
	}{
		{name: "nothing"},
		{
			name: "a directory of extensions",
			files: []string{
				user + "extensions/b.ts", user + "extensions/a.js", user + "extensions/.hidden.ts", user + "extensions/notes.md",
				user + "extensions/types.d.ts", user + "extensions/x.mjs", user + "extensions/node_modules/m/index.ts",
				user + "extensions/dir/index.ts", user + "extensions/dir/other.ts", user + "extensions/dir/deeper/index.ts",
				user + "extensions/old/index.js", user + "extensions/empty/readme.md",
			},
			want: []string{
				"~/agent/extensions/a.js auto user", "~/agent/extensions/b.ts auto user", "~/agent/extensions/dir/index.ts auto user",
				"~/agent/extensions/old/index.js auto user",
			},
		},
		{
			name: "a manifest says what a directory has, and nothing else of it is one",
			files: []string{
				user + `extensions/m/package.json={"pi":{"extensions":["./src/one.ts","two","./none.ts"]}}`, user + "extensions/m/src/one.ts",
				user + "extensions/m/index.ts", user + "extensions/m/two/index.ts",
				user + `extensions/o/package.json={"omp":{"extensions":["main.ts"]}}`, user + "extensions/o/main.ts", user + "extensions/o/index.ts",
				user + `extensions/p/package.json={"name":"p"}`, user + "extensions/p/index.ts",
				user + `extensions/q/package.json={"pi":{"skills":[]}}`, user + "extensions/q/index.ts",
				user + `extensions/z/package.json={"pi":{"extensions":[]}}`, user + "extensions/z/index.ts",
			},
			want: []string{
				"~/agent/extensions/m/src/one.ts auto user", "~/agent/extensions/m/two/index.ts auto user", "~/agent/extensions/m/none.ts auto user", "~/agent/extensions/o/main.ts auto user",
				"~/agent/extensions/p/index.ts auto user", "~/agent/extensions/q/index.ts auto user",
			},
		},
		{
			name: "what ignore files exclude",
			files: []string{
				user + "extensions/.gitignore=build\n*.gen.ts", user + "extensions/.fdignore=draft.ts", user + "extensions/build/index.ts", user + "extensions/x.gen.ts",
				user + "extensions/draft.ts", user + "extensions/ok.ts", user + "extensions/in/.ignore=index.ts", user + "extensions/in/index.ts",
			},
			want: []string{"~/agent/extensions/ok.ts auto user"},
		},
		{
			name: "the order",
			files: []string{
				"cli.ts", "work/proj/here.ts", project + "named.ts", project + "extensions/auto.ts", project + `settings.json={"extensions":["named.ts"],"packages":["./pack"]}`,
				project + "pack/extensions/p.ts", user + "named.ts", user + "extensions/auto.ts", user + `settings.json={"extensions":["./named.ts"],"packages":["npm:n"]}`,
				user + "npm/node_modules/n/extensions/n.ts",
			},
			flags: ExtensionFlags{Sources: []string{"~/cli.ts", "here.ts"}},
			want: []string{
				"~/cli.ts cli temporary", "~/work/proj/here.ts cli temporary", "~/work/proj/.pi/named.ts local project", "~/work/proj/.pi/extensions/auto.ts auto project",
				"~/agent/named.ts local user", "~/agent/extensions/auto.ts auto user",
				"~/work/proj/.pi/pack/extensions/p.ts ./pack project of ~/work/proj/.pi/pack", "~/agent/npm/node_modules/n/extensions/n.ts npm:n user of ~/agent/npm/node_modules/n",
			},
		},
		{
			name:  "only those of the command line",
			files: []string{"cli.ts", project + "extensions/a.ts", user + `settings.json={"extensions":["./x.ts"],"packages":["npm:n"]}`, user + "npm/node_modules/n/extensions/n.ts", "p/extensions/q.ts"},
			flags: ExtensionFlags{Sources: []string{"~/cli.ts", "~/p"}, None: true},
			want:  []string{"~/cli.ts cli temporary", "~/p/extensions/q.ts ~/p temporary of ~/p"},
		},
		{
			name:  "a file counts once, at its first place",
			files: []string{user + "extensions/a.ts", user + `settings.json={"extensions":["extensions/a.ts","extensions"]}`},
			flags: ExtensionFlags{Sources: []string{"~/agent/extensions/a.ts"}},
			want:  []string{"~/agent/extensions/a.ts cli temporary"},
		},
		{
			name: "signs of settings are about their own scope",
			files: []string{
				user + "extensions/a.ts", user + "extensions/b.ts", user + "extensions/c.ts", user + "more/d.ts", user + "more/e.ts", project + "extensions/a.ts",
				user + `settings.json={"extensions":["-extensions/c.ts","+extensions/b.ts","!extensions/*.ts","more/*.ts","!**/e.ts"]}`,
			},
			want: []string{"~/work/proj/.pi/extensions/a.ts auto project", "~/agent/more/d.ts local user", "~/agent/extensions/b.ts auto user"},
		},
		{
			name:  "-path wins over +path",
			files: []string{user + "extensions/a.ts", user + `settings.json={"extensions":["-~/agent/extensions/a.ts","+extensions/a.ts"]}`},
		},
		{
			name:  "a directory by name",
			files: []string{user + "extensions/sub/index.ts", user + "extensions/b.ts", user + `settings.json={"extensions":["!sub"]}`},
			want:  []string{"~/agent/extensions/b.ts auto user"},
		},
		{
			name:  "what is named and is not there is for whoever loads it to refuse",
			files: []string{"empty/x.md", "text.md", user + `settings.json={"extensions":["gone.ts"]}`},
			flags: ExtensionFlags{Sources: []string{"~/none.ts", "~/empty", "~/text.md", "builtin:mcp"}},
			want:  []string{"~/none.ts cli temporary", "~/agent/gone.ts local user"},
			told: []string{
				"builtin:mcp: this version has no built-in extensions", "~/empty: no extension in this directory",
				"~/text.md: an extension is one of .ts .js .mts .cts .mjs .cjs .tsx .jsx",
			},
		},
		{
			name:  "every kind of module, if it is named",
			files: []string{"a.mts", "b.cts", "c.mjs", "d.cjs", "e.tsx", "f.jsx"},
			flags: ExtensionFlags{Sources: []string{"~/a.mts", "~/b.cts", "~/c.mjs", "~/d.cjs", "~/e.tsx", "~/f.jsx"}},
			want:  []string{"~/a.mts cli temporary", "~/b.cts cli temporary", "~/c.mjs cli temporary", "~/d.cjs cli temporary", "~/e.tsx cli temporary", "~/f.jsx cli temporary"},
		},
		{
			name:  "a directory of extensions by flag, with an odd space in its name",
			files: []string{"my dir/a.ts", "my dir/b/index.js"},
			flags: ExtensionFlags{Sources: []string{"~/my\u00a0dir"}},
			want:  []string{"~/my dir/a.ts cli temporary", "~/my dir/b/index.js cli temporary"},
		},
		{
			name: "old names",
			files: []string{
				"h.ts", "t/index.ts", user + "hooks/a.ts", user + "hooks/deeper/index.ts", user + "tools/t/index.ts", user + "tools/fd", user + "tools/loose.ts", user + "extensions/x.ts",
				project + "hooks/p.ts", project + "tools/q/index.js", project + "own.ts", project + `settings.json={"hooks":["own.ts"],"customTools":["./ct"]}`, project + "ct/index.ts",
			},
			flags: ExtensionFlags{Hooks: []string{"~/h.ts"}, Tools: []string{"~/t"}},
			want: []string{
				"~/h.ts cli temporary hook", "~/t/index.ts cli temporary tool", "~/work/proj/.pi/own.ts local project hook", "~/work/proj/.pi/hooks/p.ts auto project hook",
				"~/work/proj/.pi/ct/index.ts local project tool", "~/work/proj/.pi/tools/q/index.js auto project tool", "~/agent/extensions/x.ts auto user",
				"~/agent/hooks/a.ts auto user hook", "~/agent/tools/t/index.ts auto user tool",
			},
		},
		{
			name:  "a circle of manifests",
			files: []string{`a/package.json={"pi":{"extensions":["../b"]}}`, `b/package.json={"pi":{"extensions":["../a"]}}`},
			flags: ExtensionFlags{Hooks: []string{"~/a"}},
			told:  []string{"~/a: manifests name each other in a circle"},
		},
		{
			name:  "settings of a wrong kind",
			files: []string{user + `settings.json={"extensions":"a.ts","packages":[{"skills":[]}]}`},
			told: []string{
				`~/agent/settings.json:1:15: extensions: want a list of strings`, `~/agent/settings.json:1:33: packages: want sources of packages, or objects with one`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := folders(t, c.files...)
			found, told := w.extensions(c.flags, Policy{Consent: Approved})
			assert.Equal(t, c.want, found)
			for i := range told {
				told[i] = strings.ReplaceAll(told[i], w.home, "~")
			}
			assert.Equal(t, c.told, told)
		})
	}
}

// TestExtensionsThroughLinks: an extension is its file, however links lead to it.
func TestExtensionsThroughLinks(t *testing.T) {
	w := folders(t, "src/ext.ts", "src/dir/index.ts", "agent/extensions/z.ts")
	require.NoError(t, os.Symlink(w.path("src/ext.ts"), w.path("agent/extensions/a.ts")))
	require.NoError(t, os.Symlink(w.path("src/ext.ts"), w.path("agent/extensions/b.ts")))
	require.NoError(t, os.Symlink(w.path("src/dir"), w.path("agent/extensions/c")))
	require.NoError(t, os.Symlink(w.path("nowhere"), w.path("agent/extensions/d.ts")))
	found, told := w.extensions(ExtensionFlags{}, Policy{})
	assert.Empty(t, told)
	assert.Equal(t, []string{"~/agent/extensions/a.ts auto user", "~/agent/extensions/c/index.ts auto user", "~/agent/extensions/z.ts auto user"}, found)
}

// TestExtensionsNeedTrust: what a project brings does not count before somebody
// trusts it, by whatever setting, place or package it comes.
func TestExtensionsNeedTrust(t *testing.T) {
	w := folders(t, "work/proj/.pi/extensions/a.ts", "work/proj/.pi/hooks/b.ts", "work/proj/.pi/tools/c/index.ts", "work/proj/d.ts", "work/proj/.pi/npm/node_modules/p/extensions/p.ts",
		"work/proj/.pi/npm/node_modules/p/prompts/p.md", `work/proj/.pi/settings.json={"extensions":["../d.ts"],"packages":["npm:p"]}`, "agent/extensions/mine.ts", "agent/npm/node_modules/p/extensions/users.ts",
		`agent/settings.json={"packages":["npm:p"]}`)
	mine := []string{"~/agent/extensions/mine.ts auto user", "~/agent/npm/node_modules/p/extensions/users.ts npm:p user of ~/agent/npm/node_modules/p"}
	for _, p := range []Policy{{}, {Strict: true}, {Consent: Refused}} {
		found, told := w.extensions(ExtensionFlags{}, p)
		assert.Equal(t, mine, found, "the project's word about a package of the user's does not count either")
		require.Len(t, told, 1)
		assert.Contains(t, told[0], "these are left out: extensions, packages, .pi/extensions, .pi/hooks, .pi/tools, .pi/npm.")
	}
	found, _ := w.extensions(ExtensionFlags{}, Policy{Consent: Approved})
	assert.Equal(t, []string{
		"~/work/proj/d.ts local project", "~/work/proj/.pi/extensions/a.ts auto project", "~/work/proj/.pi/hooks/b.ts auto project hook", "~/work/proj/.pi/tools/c/index.ts auto project tool",
		mine[0], "~/work/proj/.pi/npm/node_modules/p/extensions/p.ts npm:p project of ~/work/proj/.pi/npm/node_modules/p",
	}, found)
	w.write("agent/trust.json", fmt.Sprintf("{%q: true}", w.path("work/proj")))
	stored, _ := w.extensions(ExtensionFlags{}, Policy{})
	assert.Equal(t, found, stored)
	none, _ := w.extensions(ExtensionFlags{}, Policy{Consent: Refused})
	assert.Equal(t, mine, none)
}

// TestOhMyPi: with its agent directory its names count, and only then.
func TestOhMyPi(t *testing.T) {
	w := folders(t, ".omp/agent/hooks/pre/a.ts", ".omp/agent/hooks/post/b.ts", ".omp/agent/extensions/x.ts", "work/proj/.omp/extensions/y.ts", "work/proj/.omp/hooks/pre/c.ts")
	found, _ := w.extensions(ExtensionFlags{}, Policy{Consent: Approved})
	assert.Empty(t, found)
	w.dirs.Agent = w.path(".omp/agent")
	found, _ = w.extensions(ExtensionFlags{}, Policy{Consent: Approved})
	assert.Equal(t, []string{
		"~/work/proj/.omp/extensions/y.ts auto project", "~/work/proj/.omp/hooks/pre/c.ts auto project hook", "~/.omp/agent/extensions/x.ts auto user",
		"~/.omp/agent/hooks/pre/a.ts auto user hook", "~/.omp/agent/hooks/post/b.ts auto user hook",
	}, found)
}

// TestWherePackagesLie: each row is the source of a package, and where it is found.
func TestWherePackagesLie(t *testing.T) {
	lies := func(dir string) []string { return []string{dir + "/package.json={}", dir + "/extensions/x.ts"} }
	for _, c := range []struct{ source, dir, told string }{
		{source: "npm:a", dir: "agent/npm/node_modules/a"},
		{source: "npm:a@^1.2", dir: "agent/npm/node_modules/a"},
		{source: "npm:@s/a@latest", dir: "agent/npm/node_modules/@s/a"},
		{source: "npm:old", dir: "lib/node_modules/old"},
		{source: "git:github.com/o/r", dir: "agent/git/github.com/o/r"},
		{source: "git:github.com/o/r@v1", dir: "agent/git/github.com/o/r"},
		{source: "git:git@github.com:o/r.git@v1", dir: "agent/git/github.com/o/r"},
		{source: "https://github.com/o/r.git", dir: "agent/git/github.com/o/r"},
		{source: "https://github.com/o/r#main", dir: "agent/git/github.com/o/r"},
		{source: "git:https://github.com/o/r", dir: "agent/git/github.com/o/r"},
		{source: "ssh://git@host.org:22/a/b/c.git", dir: "agent/git/host.org/a/b/c"},
		{source: "./p", dir: "agent/p"},
		{source: "~/q", dir: "q"},
		{source: "npm:none", told: "npm:none: Package not installed: npm:none (pi install npm:none)"},
		{source: "git:host/o/none", told: "git:host/o/none: Package not installed: git:host/o/none (pi install git:host/o/none)"},
		{source: "./none", told: "./none: Package path does not exist: ~/agent/none"},
		{source: "npm:../../x", told: "npm:../../x: no name of an npm package"},
		{source: "npm:@s", told: "npm:@s: no name of an npm package"},
		{source: "git:host/../../../x/y", told: "git:host/../../../x/y: no address of a repository"},
		{source: "https://host", told: "https://host: no address of a repository"},
		{source: "builtin:mcp", told: "builtin:mcp: this version has no built-in extensions"},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := folders(t, append(lies("decoy"), fmt.Sprintf(`agent/settings.json={"packages":[%q]}`, c.source))...)
			if c.dir != "" {
				for _, f := range lies(c.dir) {
					name, content, _ := strings.Cut(f, "=")
					w.write(name, content)
				}
			}
			found, told := w.extensions(ExtensionFlags{}, Policy{})
			if c.dir == "" {
				assert.Equal(t, []string{c.told}, told)
				assert.Empty(t, found)
				return
			}
			assert.Equal(t, []string{fmt.Sprintf("~/%s/extensions/x.ts %s user of ~/%s", c.dir, c.source, c.dir)}, found)
			assert.Empty(t, told)
		})
	}
}

// TestPackagesOfProjectAndUser: the project's word replaces the user's about the same
// package, unless it only adjusts it.
func TestPackagesOfProjectAndUser(t *testing.T) {
	files := []string{
		"agent/npm/node_modules/p/extensions/a.ts", "agent/npm/node_modules/p/extensions/b.ts", "agent/npm/node_modules/p/extensions/c.ts",
		"work/proj/.pi/npm/node_modules/p/extensions/own.ts",
	}
	for _, c := range []struct {
		name, user, project string
		want                []string
		told                []string
	}{
		{name: "only the user's", user: `["npm:p@1"]`, project: `[]`, want: []string{"a", "b", "c"}},
		{name: "a list chooses", user: `[{"source":"npm:p","extensions":["extensions/a.ts","./extensions/b.ts"]}]`, want: []string{"a", "b"}},
		{name: "a list of signs", user: `[{"source":"npm:p","extensions":["!*/*.ts","+extensions/c.ts"]}]`, want: []string{"c"}},
		{name: "an empty list", user: `[{"source":"npm:p","extensions":[]}]`},
		{name: "the project's replaces", user: `["npm:p@1"]`, project: `["npm:p@2"]`, want: []string{"own"}},
		{name: "the project's adjusts", user: `[{"source":"npm:p","extensions":["!**/b.ts"]}]`, project: `[{"source":"npm:p","autoload":false,"extensions":["-extensions/a.ts","+extensions/b.ts"]}]`, want: []string{"b", "c"}},
		{name: "nothing to adjust", project: `[{"source":"npm:p","autoload":false,"extensions":["+extensions/own.ts"]}]`},
		{name: "not installed for the project", user: `[]`, project: `["npm:q"]`, told: []string{"npm:q: Package not installed: npm:q (pi install -l npm:q)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := folders(t, files...)
			for name, list := range map[string]string{"agent/settings.json": c.user, "work/proj/.pi/settings.json": c.project} {
				if list != "" {
					w.write(name, `{"packages":`+list+`}`)
				}
			}
			found, told := w.extensions(ExtensionFlags{}, Policy{Consent: Approved})
			var names []string
			for _, f := range found {
				path, _, _ := strings.Cut(f, " ")
				names = append(names, strings.TrimSuffix(filepath.Base(path), ".ts"))
			}
			assert.Equal(t, c.want, names)
			assert.Equal(t, c.told, told)
		})
	}
}

// TestManifests: what a package says that it has, by kind.
func TestManifests(t *testing.T) {
	w := folders(t, "p/a.ts", "p/b.ts", "p/lib/c.ts", "p/lib/d.ts", "p/extensions/not.ts", "p/know/s/SKILL.md="+skillText("s", "x"), "p/know/t/SKILL.md="+skillText("t", "x"), "p/ask.md=Ask", "p/prompts/not.md=x",
		`p/package.json={"version":"1.0.0","pi":{"extensions":["a.ts","lib/*.ts","!**/d.ts","gone.ts"],"skills":["./know"],"prompts":["ask.md"],"themes":["t"]}}`,
		`agent/settings.json={"packages":[{"source":"~/p","skills":["!**/t/SKILL.md"]}],"skills":["!s"]}`, "agent/skills/own/SKILL.md="+skillText("own", "x"), "agent/skills/s2/SKILL.md="+skillText("s", "other"))
	found, told := w.extensions(ExtensionFlags{}, Policy{})
	assert.Equal(t, []string{"~/p/a.ts ~/p user of ~/p", "~/p/lib/c.ts ~/p user of ~/p", "~/p/gone.ts ~/p user of ~/p"}, found)
	assert.Empty(t, told)

	s, _ := w.settings()
	packages, _ := LoadPackages(PackageSources{Dirs: w.dirs, Named: s.Packages})
	skills, problems := LoadSkills(Sources{Dirs: w.dirs, Named: s.Skills, Packages: packages})
	assert.Equal(t, []string{"~/p/know/s/SKILL.md: skill s is already defined by ~/agent/skills/s2/SKILL.md"}, w.told(problems), "the settings' filters are about what the settings find")
	var names []string
	for _, skill := range skills {
		names = append(names, fmt.Sprintf("%s %s %s", skill.Name, w.short(skill.Path), skill.Location))
	}
	assert.Equal(t, []string{"own ~/agent/skills/own/SKILL.md user", "s ~/agent/skills/s2/SKILL.md user"}, names)
	templates, problems := LoadTemplates(Sources{Dirs: w.dirs, Packages: packages})
	assert.Empty(t, problems)
	require.Len(t, templates, 1)
	assert.Equal(t, "ask", templates[0].Name)
	command := Expander{Templates: templates}.Commands()[0]
	assert.Equal(t, &protocol.SourceInfo{Path: w.path("p/ask.md"), Source: "~/p", Scope: "user", Origin: "package", BaseDir: w.path("p")}, command.SourceInfo)
	templates, _ = LoadTemplates(Sources{Dirs: w.dirs, Packages: packages, NoDefaults: true})
	assert.Empty(t, templates)
	flagged, _ := LoadPackages(PackageSources{Dirs: w.dirs, Flags: []string{"~/p"}})
	templates, _ = LoadTemplates(Sources{Dirs: w.dirs, Packages: flagged, NoDefaults: true})
	assert.Len(t, templates, 1, "what the command line names counts in any case")
}

// TestPackagesByLayout: without a manifest the names of directories speak.
func TestPackagesByLayout(t *testing.T) {
	w := folders(t, "p/extensions/a.ts", "p/extensions/b/index.ts", "p/skills/s/SKILL.md="+skillText("s", "x"), "p/prompts/q.md=x", "single/index.ts", "single/prompts/r.md=x", "one.ts", "none/readme", "agent/x/y.ts",
		`agent/settings.json={"packages":["~/p","~/single","~/one.ts","~/none"]}`)
	found, told := w.extensions(ExtensionFlags{}, Policy{})
	assert.Equal(t, []string{"~/p/extensions/a.ts ~/p user of ~/p", "~/p/extensions/b/index.ts ~/p user of ~/p", "~/single/index.ts ~/single user of ~/single", "~/one.ts ~/one.ts user of ~/one.ts"}, found)
	assert.Equal(t, []string{"~/none: no extension in this directory"}, told)
	s, _ := w.settings()
	packages, _ := LoadPackages(PackageSources{Dirs: w.dirs, Named: s.Packages})
	skills, _ := LoadSkills(Sources{Dirs: w.dirs, Packages: packages})
	templates, _ := LoadTemplates(Sources{Dirs: w.dirs, Packages: packages})
	require.Len(t, skills, 1)
	require.Len(t, templates, 2)
	assert.Equal(t, User, skills[0].Location)
}

// TestPackagesOfTheCommandLine: pi keeps those that only one run has asked for apart.
func TestPackagesOfTheCommandLine(t *testing.T) {
	w := folders(t, "agent/tmp/extensions/npm/0123abcd/node_modules/t/extensions/t.ts", "agent/npm/node_modules/t/extensions/u.ts", "agent/npm/node_modules/v/extensions/v.ts",
		"agent/tmp/extensions/git-github.com/89abcdef/o/r/extensions/g.ts", "agent/tmp/extensions/git-github.com/other/o/s/extensions/g.ts", `agent/settings.json={"packages":["npm:t"]}`)
	found, told := w.extensions(ExtensionFlags{Sources: []string{"npm:t", "npm:v", "git:github.com/o/r", "git:github.com/o/s"}}, Policy{})
	assert.Equal(t, []string{
		"~/agent/tmp/extensions/npm/0123abcd/node_modules/t/extensions/t.ts npm:t temporary of ~/agent/tmp/extensions/npm/0123abcd/node_modules/t",
		"~/agent/npm/node_modules/v/extensions/v.ts npm:v temporary of ~/agent/npm/node_modules/v",
		"~/agent/tmp/extensions/git-github.com/89abcdef/o/r/extensions/g.ts git:github.com/o/r temporary of ~/agent/tmp/extensions/git-github.com/89abcdef/o/r",
	}, found)
	assert.Equal(t, []string{"git:github.com/o/s: Package not installed: git:github.com/o/s (pi install git:github.com/o/s)"}, told)
}

// TestInstalledVersion: a version that is asked for and is not there is named.
func TestInstalledVersion(t *testing.T) {
	w := folders(t, "agent/npm/node_modules/p/extensions/a.ts", `agent/npm/node_modules/p/package.json={"version":"1.2.3"}`)
	for source, want := range map[string][]string{
		"npm:p@1.2.3": nil, "npm:p@^1.0.0": nil, "npm:p": nil, "npm:p@2.0.0": {"npm:p@2.0.0: version 1.2.3 is installed"},
	} {
		w.write("agent/settings.json", fmt.Sprintf(`{"packages":[%q]}`, source))
		found, told := w.extensions(ExtensionFlags{}, Policy{})
		assert.Len(t, found, 1)
		assert.Equal(t, want, told)
	}
}
