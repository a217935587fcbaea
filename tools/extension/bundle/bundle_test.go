package bundle

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tree writes files and gives their folder.
func tree(t *testing.T, files map[string]string) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// shims provides node:fs and a package.
var shims = Options{Provides: func(name string) (string, Provided) {
	switch name {
	case "fs", "node:fs":
		return "node:fs", Shim
	case "@pi/agent":
		return "@pi/agent", Shim
	}
	return name, Foreign
}}

func TestExtension(t *testing.T) {
	dir := tree(t, map[string]string{
		"ext.ts": `import { readFileSync, nothing } from "fs";
import * as path from "./lib/path";
import type { Gone } from "./gone";
import { used } from "pkg";
import text from "./note.md";
export default function (pi: { on(e: string): void }, onUpdate?: () => void) { pi.on("tool_call"); readFileSync(path.here, used, text) }`,
		"lib/path.ts":                   "export const here = import.meta.url + __dirname;\nexport enum E { A }",
		"note.md":                       "# note",
		"node_modules/pkg/package.json": `{"name":"pkg","main":"index.cjs"}`,
		"node_modules/pkg/index.cjs":    `exports.used = __filename; try { require("absent") } catch {}`,
	})
	b, err := Extension(filepath.Join(dir, "ext.ts"), shims)
	require.NoError(t, err)
	require.Equal(t, []string{"node:fs"}, b.Shims)
	require.Equal(t, []Import{{"absent", filepath.Join(dir, "node_modules/pkg/index.cjs")}}, b.Missing)
	require.Empty(t, b.NodeOnly)
	require.Equal(t, []string{"tool_call"}, b.Gates)
	require.Len(t, b.Inputs, 4)
	require.Contains(t, b.Code, `__troupe.require("node:fs")`)
	require.Contains(t, b.Code, `__troupe.missing("absent")`)
	require.Contains(t, b.Code, `__troupe.meta("`+dir+`/lib/path.ts")`)
	require.Contains(t, b.Code, `__troupe_dirname = "`+dir+`/lib"`)
	require.Contains(t, b.Code, `__troupe_filename = "`+dir+`/node_modules/pkg/index.cjs"`)
	require.Contains(t, b.Code, "onUpdate", "names of parameters say which order a tool's execute has")
	require.Contains(t, b.Code, "# note")

	places, err := ReadMap(b.Map)
	require.NoError(t, err)
	line := 1 + strings.Count(b.Code[:strings.Index(b.Code, "pi.on(")], "\n")
	source, at, _, ok := places.Find(line, 5)
	require.True(t, ok)
	require.Equal(t, filepath.Join(dir, "ext.ts"), source)
	require.Equal(t, 6, at)
	require.Contains(t, places.Stack("/x/b.ts", "    at f (/x/b.ts:"+strconv.Itoa(line)+":5)\n    at g (/other.js:1:1)"), "at f ("+dir+"/ext.ts:6:")
}

func TestWhatOnlyNodeHas(t *testing.T) {
	dir := tree(t, map[string]string{
		"ext.ts":                             `import http from "node:http"; import "./a.js"; import addon from "./x.node"; export default () => http(addon)`,
		"a.js":                               `require("net"); require("punycode/")`,
		"x.node":                             "\x7fELF",
		"node_modules/punycode/package.json": `{"main":"p.js"}`,
		"node_modules/punycode/p.js":         `exports.x = 1`,
	})
	b, err := Extension(filepath.Join(dir, "ext.ts"), shims)
	require.NoError(t, err)
	require.ElementsMatch(t, []Import{
		{"node:http", filepath.Join(dir, "ext.ts")}, {"./x.node", filepath.Join(dir, "ext.ts")}, {"net", filepath.Join(dir, "a.js")},
	}, b.NodeOnly)
}

// TestWhatIsLeftToNode: a package that the engine does not load in time runs in Node, also where
// another package imports it.
func TestWhatIsLeftToNode(t *testing.T) {
	dir := tree(t, map[string]string{
		"ext.ts":                   `import { x } from "reader"; export default () => x`,
		"node_modules/reader/i.js": `exports.x = require("jsdom")`, "node_modules/reader/package.json": `{"main":"i.js"}`,
		"node_modules/jsdom/index.js": `exports.JSDOM = require("vm").createContext({})`,
	})
	b, err := Extension(filepath.Join(dir, "ext.ts"), shims)
	require.NoError(t, err)
	i, needs := b.NeedsNode()
	require.True(t, needs)
	require.Equal(t, Import{"jsdom", filepath.Join(dir, "node_modules/reader/i.js")}, i)
	require.NotContains(t, b.Code, "createContext", "Node loads it from where it lies")
}

func TestErrorsHaveAPlace(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"syntax":         {"let a = 1;\nlet b = ;", `ext.ts:2:9: Unexpected ";"`},
		"on line 1":      {`let x = import.meta.url + ;`, `ext.ts:1:27: Unexpected ";"`},
		"missing file":   {"\nimport './nothere'; export default 1", `ext.ts:2:8: Could not resolve "./nothere"`},
		"missing export": {"import { no } from './lib.js'; export default no", `ext.ts:1:10: No matching export in "lib.js" for import "no"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{"ext.ts": c.source, "lib.js": "export const yes = 1"})
			_, err := Extension(filepath.Join(dir, "ext.ts"), shims)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, strings.ReplaceAll(err.Error(), dir[1:]+"/", ""), c.want)
			require.True(t, strings.HasPrefix(err.Error(), dir), err)
		})
	}
	_, err := Extension("/no/such/ext.ts", shims)
	require.EqualError(t, err, "Extension path does not exist: /no/such/ext.ts")
}

// TestLateImports checks that what import() and require name fails when that runs, and that the bundle is made again
// when it can be had.
func TestLateImports(t *testing.T) {
	dir := tree(t, map[string]string{
		"ext.ts": `export default async () => {
			if (process.env.NEVER) { await import("../absent/a.ts"); require("./absent.js"); await import("file:///absent.js"); await import("#absent"); }
			await import("./broken"); await import("./holed.js"); await import("./fine"); return import.meta.resolve("./absent");
		}`,
		"broken.ts": "let a = ;", "holed.ts": `import "./nothere"`, "fine.ts": `export const fine = 4711; export const late = () => import("./broken")`,
	})
	path := filepath.Join(dir, "ext.ts")
	b, err := Extension(path, shims)
	require.NoError(t, err)
	require.Equal(t, []string{"#absent", "../absent/a.ts", "./absent.js", "file:///absent.js"}, sortedNames(b.Missing))
	for _, text := range []string{`missing("../absent/a.ts")`, `broken.ts:1:9: Unexpected`, `Could not resolve`, "4711"} {
		require.Contains(t, b.Code, text)
	}
	var inputs []string
	for _, in := range b.Inputs {
		inputs = append(inputs, filepath.Base(in.Path))
	}
	require.Equal(t, []string{"broken.ts", "ext.ts", "fine.ts", "holed.ts"}, inputs)

	c := OpenCache(filepath.Join(dir, "cache"), "", func() string { return "v1" })
	require.NoError(t, c.Put(&Entry{Bundle: *b}))
	_, ok := c.Get(path)
	require.True(t, ok)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "absent.ts"), nil, 0o600))
	_, ok = c.Get(path)
	require.False(t, ok)
}

func sortedNames(imports []Import) (names []string) {
	for _, i := range imports {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	return names
}

// An extension behind a link imports what lies beside the file, not beside the link.
func TestImportsAreOfTheRealPath(t *testing.T) {
	dir := tree(t, map[string]string{"real/ext.ts": `import { a } from "./b"; export default () => a`, "real/b.ts": "export const a = 7"})
	link := filepath.Join(dir, "link.ts")
	require.NoError(t, os.Symlink(filepath.Join(dir, "real/ext.ts"), link))
	b, err := Extension(link, shims)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "real/ext.ts"), b.Path)
	require.Contains(t, b.Code, `__troupe.loaded("`+dir+`/real/ext.ts"`, "a bundle in the cache may have been asked for by another name")
}

func TestModuleOnDemand(t *testing.T) {
	dir := tree(t, map[string]string{"a/ext.ts": "", "a/lib.cjs": "exports.x = 3", "node_modules/p/index.js": "export const y = 4"})
	from := filepath.Join(dir, "a/ext.ts")
	b, err := Module("./lib.cjs", from, false, shims)
	require.NoError(t, err)
	require.Contains(t, b.Code, "module.exports")
	b, err = Module("p", from, true, shims)
	require.NoError(t, err)
	require.Contains(t, b.Code, "export {")
	file, err := Resolve("p", from, shims)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "node_modules/p/index.js"), file)
	_, err = Module("nope", from, false, shims)
	require.EqualError(t, err, "Cannot find module 'nope'")
}

func TestCache(t *testing.T) {
	dir := tree(t, map[string]string{"ext.ts": `import "./b"; export default 1`, "b.ts": "// on tool_call"})
	path := filepath.Join(dir, "ext.ts")
	b, err := Extension(path, shims)
	require.NoError(t, err)
	store := filepath.Join(dir, "cache")
	c := OpenCache(store, "", func() string { return "v1" })
	require.NotNil(t, c)
	_, ok := c.Get(path)
	require.False(t, ok)
	want := &Entry{Bundle: *b, Code: []byte("bytecode\n\x00")}
	require.NoError(t, c.Put(want))
	file := c.file(path)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	got, ok := c.Get(path)
	require.True(t, ok)
	require.Equal(t, want.Code, got.Code)
	require.Equal(t, want.Map, got.Map)
	require.Equal(t, want.Inputs, got.Inputs)
	_, ok = OpenCache(store, "", func() string { return "v2" }).Get(path)
	require.False(t, ok, "another engine or prelude")

	t.Run("touched", func(t *testing.T) { // as a checkout does
		later := time.Now().Add(time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "b.ts"), later, later))
		_, ok := c.Get(path)
		require.True(t, ok)
	})
	t.Run("damaged", func(t *testing.T) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, bad := range [][]byte{data[:len(data)-1], append([]byte("x"), data...), {}, []byte("{}\n")} {
			require.NoError(t, os.WriteFile(file, bad, 0o600))
			_, ok := c.Get(path)
			require.False(t, ok)
		}
		flipped := append([]byte(nil), data...)
		flipped[len(flipped)-2] ^= 1
		require.NoError(t, os.WriteFile(file, flipped, 0o600))
		_, ok := c.Get(path)
		require.False(t, ok)
		require.NoError(t, os.WriteFile(file, data, 0o600))
	})
	t.Run("changed", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "b.ts"), []byte("// on tool_cal_"), 0o644))
		_, ok := c.Get(path)
		require.False(t, ok)
	})
	t.Run("trimmed", func(t *testing.T) {
		old, left := filepath.Join(store, "old.qbc"), filepath.Join(store, "new-1")
		long := time.Now().Add(-48 * time.Hour)
		for _, f := range []string{old, left} {
			require.NoError(t, os.WriteFile(f, nil, 0o600))
			require.NoError(t, os.Truncate(f, cacheLimit))
			require.NoError(t, os.Chtimes(f, long, long))
		}
		require.NoError(t, c.Put(want))
		require.NoFileExists(t, old)
		require.NoFileExists(t, left)
		require.FileExists(t, file)
	})
	t.Run("open to others", func(t *testing.T) {
		require.NoError(t, os.Chmod(store, 0o777))
		require.Nil(t, OpenCache(store, "", func() string { return "v1" }))
	})
	var none *Cache
	_, ok = none.Get(path)
	require.False(t, ok)
	require.NoError(t, none.Put(want))
}

// What a guard that no longer loads guarded is known from its source, and from when it
// last could be loaded.
// TestCacheOfWhatIsMissing: a package that is installed later is found.
func TestCacheOfWhatIsMissing(t *testing.T) {
	dir := tree(t, map[string]string{"a/ext.ts": `import x from "@scope/late/part"; export default x`, "node_modules/other/x.js": ""})
	path := filepath.Join(dir, "a", "ext.ts")
	b, err := Extension(path, shims)
	require.NoError(t, err)
	c := OpenCache(filepath.Join(dir, "cache"), "", func() string { return "v1" })
	require.NoError(t, c.Put(&Entry{Bundle: *b, Code: []byte("code")}))
	_, ok := c.Get(path)
	require.True(t, ok)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules", "@scope", "late"), 0o700))
	_, ok = c.Get(path)
	require.False(t, ok)
}

func TestGatesOfWhatCannotBeLoaded(t *testing.T) {
	dir := tree(t, map[string]string{"a.ts": `import { gate } from "./gate"; export default gate`, "gate.ts": `export const gate = (pi) => pi.on("tool_call")`})
	path := filepath.Join(dir, "a.ts")
	c := OpenCache(filepath.Join(dir, "cache"), "", func() string { return "v1" })
	b, err := Extension(path, shims)
	require.NoError(t, err)
	require.Equal(t, []string{"tool_call"}, Gates(path, nil), "a file beside it names one")
	require.NoError(t, c.Put(&Entry{Bundle: *b, Code: []byte("x")}))
	require.NoError(t, os.Remove(filepath.Join(dir, "gate.ts")))
	require.Equal(t, []string{"tool_call"}, Gates(path, nil, c))
	require.NoError(t, os.WriteFile(path, []byte(`pi.on("user_bash") pi.on(`), 0o644))
	require.Equal(t, []string{"tool_call", "user_bash"}, Gates(path, nil, c))
	require.NoError(t, os.Remove(path))
	require.Equal(t, []string{"tool_call"}, Gates(path, nil, c), "one that is gone is missed")
}

// TestGatesOfSeveralFiles: what guards something need not stand in the file that is loaded,
// and none of its files need be well formed.
func TestGatesOfSeveralFiles(t *testing.T) {
	const gate = `pi.on("tool_call", async () => {`
	both := []string{"tool_call", "user_bash"}
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"beside it":           {map[string]string{"a.ts": `import { reg } from "./helper";`, "helper.ts": gate}, both[:1]},
		"by way of others":    {map[string]string{"a.ts": `export * from "./lib"`, "lib/index.ts": `require("../deep.js") {`, "deep.ts": gate}, both[:1]},
		"in a circle":         {map[string]string{"a.ts": `import "./b.mjs"`, "b.mjs": `import "./a.ts"; "user_bash"`}, both[1:]},
		"while it runs":       {map[string]string{"a.ts": `await import(/* which? */ dir + name)`, "gates/x.ts": gate}, both[:1]},
		"by a template":       {map[string]string{"a.ts": "await import(`./gates/${name}.ts`)", "gates/x.ts": gate}, both[:1]},
		"by the manifest":     {map[string]string{"package.json": `{"imports":{"#gate":"./lib/x.ts"}}`, "a.ts": `import "#gate"`, "lib/x.ts": gate}, both[:1]},
		"not there":           {map[string]string{"a.ts": `import { reg } from "./helper";`}, both},
		"of another":          {map[string]string{"a.ts": `import "./helper"; read("./none")`, "helper.ts": "{", "b.ts": gate}, nil},
		"of a package":        {map[string]string{"a.ts": `import(x)`, "node_modules/p/index.js": gate}, nil},
		"too large to search": {map[string]string{"a.ts": `import "./big.js"`, "big.js": strings.Repeat(" ", mostSearched+1)}, both},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Gates(filepath.Join(tree(t, tc.files), "a.ts")))
		})
	}
	pipe := filepath.Join(tree(t, map[string]string{"a.ts": `import "./pipe.js"`}), "pipe.js")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.Equal(t, both, Gates(filepath.Join(filepath.Dir(pipe), "a.ts")), "what may never end is not read")
}

// TestGatesOfWhatWasNeverThere: that an earlier version could be loaded says nothing of a
// file that it did not have.
func TestGatesOfWhatWasNeverThere(t *testing.T) {
	dir := tree(t, map[string]string{"a.ts": `export default 1`})
	path := filepath.Join(dir, "a.ts")
	b, err := Extension(path, shims)
	require.NoError(t, err)
	c := OpenCache(filepath.Join(dir, "cache"), "", func() string { return "v1" })
	require.NoError(t, c.Put(&Entry{Bundle: *b, Code: []byte("x")}))
	require.Empty(t, Gates(path, c))
	require.NoError(t, os.WriteFile(path, []byte(`import "./gate"`), 0o644))
	require.Equal(t, []string{"tool_call", "user_bash"}, Gates(path, c))
}
