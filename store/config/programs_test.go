package config

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPrograms checks that files which the settings name as programs are listed with their imports, whether
// they exist or not.
func TestPrograms(t *testing.T) {
	project := "work/proj/.pi/"
	w := folders(t, "work/proj/a/ext.ts=import {x} from './util'; import y from \"../shared/y.js\"; require(`./data.json`)", "work/proj/a/util.ts=export * from './more'", "work/proj/a/more/index.ts",
		"work/proj/pack/extensions/p.ts", project+"extensions/auto.ts=import '../../lib/z'",
		project+`settings.json={"extensions":["../a/ext.ts","+../plus.ts","!../not.ts","../glob/*.ts"],"hooks":["../gone.ts"],"customTools":["../ct"],"packages":["../pack",{"source":"../later"}],"shellPath":"tools/sh"}`)
	w.dirs.Access = Everything
	s, problems := w.settings()
	require.Empty(t, problems)
	packages, found, _ := FindExtensions(w.dirs, s, ExtensionFlags{})
	list := Programs(w.dirs, s, packages, found)
	for _, name := range []string{"a/ext.ts", "a/util.ts", "a/util.js", "a/more/index.ts", "a/more.ts", "shared/y.ts", "shared/y.js", "a/data.json", "a/node_modules", "node_modules", "lib/z.ts",
		"plus.ts", "glob", "gone.ts", "ct", "pack", "later", "tools/sh"} {
		assert.Contains(t, list, filepath.Join(w.dirs.Cwd, name))
	}
	assert.NotContains(t, list, w.dirs.Cwd)
	assert.NotContains(t, list, filepath.Join(w.dirs.Cwd, "not.ts"))
}
