package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// worldImports are imports of tests that start processes.
var worldImports = []string{"os/exec", "troupe/tools"}

// worldCalls are methods and functions by which tests write files or use the environment.
var worldCalls = []string{"TempDir", "MkdirTemp", "CreateTemp", "Getenv", "LookupEnv", "Environ", "Setenv", "Chdir"}

// notIsolated are packages whose tests are not isolated yet.
var notIsolated = []string{"troupe/actors", "troupe/actors/scenario/...", "troupe/e2e/..."}

// TestIsolated: where tests write files, start processes or read the environment, TestMain isolates them first.
func TestIsolated(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,TestImports,XTestImports", "troupe/...").Output()
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var p struct {
			ImportPath, Dir                                      string
			TestGoFiles, XTestGoFiles, TestImports, XTestImports []string
		}
		require.NoError(t, dec.Decode(&p))
		if p.ImportPath == testenvPath || within(p.ImportPath, notIsolated) {
			continue
		}
		var reason string
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if slices.Contains(worldImports, imp) {
				reason = "import " + imp
			}
		}
		isolated := false
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			require.NoError(t, err)
			if call := firstCall(file, worldCalls); call != "" {
				reason = call + " in " + name
			}
			isolated = isolated || isolates(file)
		}
		if reason != "" {
			assert.True(t, isolated, "%s: TestMain has to call testenv.Isolate (%s)", p.ImportPath, reason)
		}
	}
}

// firstCall returns the first selector of a file that is one of names.
func firstCall(file *ast.File, names []string) (found string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && found == "" && slices.Contains(names, sel.Sel.Name) {
			found = sel.Sel.Name
		}
		return found == ""
	})
	return found
}

// isolates reports whether a file has a TestMain that calls testenv.Isolate.
func isolates(file *ast.File) (yes bool) {
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "TestMain" {
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if ok && sel.Sel.Name == "Isolate" {
					x, ok := sel.X.(*ast.Ident)
					yes = yes || ok && x.Name == "testenv"
				}
				return true
			})
		}
	}
	return yes
}
