package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// heldDirs makes a directory that a client may name and one that it may not, with links from the one to the other.
func heldDirs(t *testing.T) (d Dirs, root, out string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	root, out = filepath.Join(top, "root"), filepath.Join(top, "out")
	for _, dir := range []string{root, out, filepath.Join(root, "skills"), filepath.Join(out, "deep", "skills")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	const skill = "---\nname: secret\ndescription: of others\n---\nbody"
	require.NoError(t, os.WriteFile(filepath.Join(out, "a.md"), []byte(skill), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(out, "x.ts"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(out, "deep", "skills", "a.md"), []byte(skill), 0o600))
	require.NoError(t, os.Symlink(out, filepath.Join(root, "link")))
	require.NoError(t, os.Symlink(filepath.Join(out, "a.md"), filepath.Join(root, "skills", "a.md")))
	require.NoError(t, os.Symlink(filepath.Join(out, "x.ts"), filepath.Join(root, "skills", "x.ts")))
	d = Dirs{Agent: filepath.Join(top, "agent"), Cwd: root, Home: out, Within: func(path string) bool {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			path = found
		}
		return below(root, path)
	}}
	return d, root, out
}

// TestSettingsOfHeldClients checks that the settings of open_session name no file outside the
// directories that its client may name, in every member that holds a path.
func TestSettingsOfHeldClients(t *testing.T) {
	t.Parallel()
	d, root, out := heldDirs(t)
	outside := []string{out, "../out", "~/x", "link", root + "/link/a.md", "../out/not/there", root + "/../out"}
	for member, of := range map[string]string{
		"sessionDir": `{"sessionDir":"PATH"}`, "shellPath": `{"shellPath":"PATH"}`, "task.isolation.base": `{"task.isolation.base":"PATH"}`,
		"skills": `{"skills":["skills","PATH"]}`, "prompts": `{"prompts":["PATH"]}`, "extensions": `{"extensions":["PATH"]}`,
		"hooks": `{"hooks":["PATH"]}`, "customTools": `{"customTools":["PATH"]}`, "packages": `{"packages":["PATH"]}`,
	} {
		for _, path := range outside {
			_, _, _, err := LoadSettings(d, Policy{}, []byte(strings.ReplaceAll(of, "PATH", path)))
			var refused *OutsideError
			if assert.ErrorAs(t, err, &refused, "%s: %s", member, path) {
				assert.Equal(t, "settings."+member, refused.Member)
			}
		}
		_, _, _, err := LoadSettings(d, Policy{}, []byte(strings.ReplaceAll(of, "PATH", root+"/skills")))
		assert.NoError(t, err, member)
	}
	for _, settings := range []string{
		`{"skills":{"customDirectories":["../out"]}}`, `{"task":{"isolation":{"base":"../out"}}}`, `{"shellPath":"bin/sh"}`,
		`{"shellPath":"` + root + `/link/../sh"}`, `{"task.isolation.base":"` + root + `/link/../x"}`,
		`{"skills":["*/a.md"]}`, `{"skills":["{skills,../out}/*.md"]}`, `{"prompts":["l?nk/*"]}`, `{"extensions":["/*"]}`,
		`{"packages":[{"source":"link"}]}`, `{"extensions":["` + out + "\u00a0" + `"]}`,
	} {
		_, _, _, err := LoadSettings(d, Policy{}, []byte(settings))
		assert.ErrorAs(t, err, new(*OutsideError), settings)
	}
	for _, settings := range []string{`{"skills":["-../out/a.md","!../out/**"]}`, `{"packages":["npm:pi-example","git:example.com/a/b"]}`, `{"task":{"enabled":true}}`} {
		_, _, _, err := LoadSettings(d, Policy{}, []byte(settings))
		assert.NoError(t, err, settings)
	}
	d.Within = nil
	_, _, _, err := LoadSettings(d, Policy{}, []byte(`{"skills":["../out"],"shellPath":"/bin/sh"}`))
	assert.NoError(t, err, "a client of this machine")
}

// TestSwappedLinksOfHeldClients checks that a file which a client has named, and which is replaced by a link after it
// was accepted, is not read.
func TestSwappedLinksOfHeldClients(t *testing.T) {
	t.Parallel()
	d, root, out := heldDirs(t)
	file := filepath.Join(root, "named.md")
	require.NoError(t, os.WriteFile(file, []byte("inside"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(out, "a.md"), []byte("outside"), 0o600))
	accept := d.Within
	swapped := false
	d.Within = func(path string) bool {
		yes := accept(path)
		if !swapped {
			swapped = true
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Symlink(filepath.Join(out, "a.md"), file))
		}
		return yes
	}
	texts, _ := LoadAppend(d, []string{file})
	assert.Equal(t, []string{file}, texts, "taken for a text")
	assert.True(t, swapped)

	swapped = false
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte("inside"), 0o600))
	templates, problems := LoadTemplates(Sources{Dirs: d, Named: []Named{{Text: "named.md", Base: root, Location: Path}}})
	assert.Empty(t, templates)
	assert.NotEmpty(t, problems)
	assert.True(t, swapped)
}

// TestLinksOfHeldClients checks that links in a directory which a client has named lead to no file that it may not name.
func TestLinksOfHeldClients(t *testing.T) {
	t.Parallel()
	d, root, out := heldDirs(t)
	named := []Named{{Text: "skills", Base: root, Location: Path}}
	for _, held := range []bool{true, false} {
		if !held {
			d.Within = nil
		}
		want := 1
		if held {
			want = 0
		}
		skills, problems := LoadSkills(Sources{Dirs: d, Named: named})
		assert.Len(t, skills, want)
		assert.Len(t, problems, 1-want)
		templates, problems := LoadTemplates(Sources{Dirs: d, Named: named})
		assert.Len(t, templates, want)
		assert.Len(t, problems, 1-want)
		found, problems := LoadExtensions(ExtensionSources{Dirs: d, Named: []Named{{Text: "skills/x.ts", Base: root, Location: Path}}})
		assert.Len(t, found, want)
		assert.Len(t, problems, 1-want)
		texts, _ := LoadAppend(d, []string{filepath.Join(out, "a.md")})
		assert.Equal(t, held, strings.HasPrefix(texts[0], "/"), texts[0])
		assert.Equal(t, held, d.CheckPrompts("", "link/a.md") != nil)
		assert.Equal(t, held, d.CheckPrompts("../out/a.md", "") != nil)
		assert.NoError(t, d.CheckPrompts("You are terse.", "/no/such/file"))
	}
}
