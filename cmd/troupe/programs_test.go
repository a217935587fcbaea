package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// starts are the functions that start a program, by import path. Those of tools are ours: what calls
// them decides which program it is.
var starts = map[string][]string{
	"os/exec": {"Command", "CommandContext", "Cmd"}, "os": {"StartProcess"}, "syscall": {"Exec", "ForkExec", "StartProcess"},
	"golang.org/x/sys/unix": {"Exec"}, "troupe/tools": {"Spawn", "Exec"},
}

// startsOf returns the functions of a file that start a program or pass on a function that does.
func startsOf(t *testing.T, dir, path string) (found []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	names := map[string][]string{} // by the name of the import in this file
	for _, imp := range file.Imports {
		of := strings.Trim(imp.Path.Value, `"`)
		list, ok := starts[of]
		if !ok {
			continue
		}
		name := of[strings.LastIndex(of, "/")+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		require.NotEqual(t, ".", name, "%s: a dot import hides what starts a program", path)
		names[name] = list
	}
	for _, decl := range file.Decls {
		begins := false
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StarExpr: // *exec.Cmd names a type
				_, name := n.X.(*ast.SelectorExpr)
				return !name
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(names[pkg.Name], n.Sel.Name) {
					begins = true
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && dir == "tools" && slices.Contains(starts["troupe/tools"], f.Name) {
					begins = true
				}
			}
			return true
		})
		if begins {
			found = append(found, "`"+dir+"` "+nameOf(decl))
		}
	}
	return found
}

func nameOf(decl ast.Decl) string {
	if f, ok := decl.(*ast.FuncDecl); ok {
		return f.Name.Name
	}
	return "a variable"
}

// TestProgramsOfTheDaemon compares the places in the sources that start a program with the table in
// docs/security.md.
func TestProgramsOfTheDaemon(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{"actors", "cmd", "protocol", "providers", "store", "tools"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", root), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			dir, err := filepath.Rel("../..", filepath.Dir(path))
			if err != nil {
				return err
			}
			if e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || dir == "tools/testenv" {
				return nil // testenv runs the tests of a package
			}
			for _, name := range startsOf(t, filepath.ToSlash(dir), path) {
				found[name] = true
			}
			return nil
		}))
	}
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, part, ok := strings.Cut(string(page), "\n## Programs that troupe starts\n")
	require.True(t, ok)
	part, _, _ = strings.Cut(part, "\n## ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(part, -1) {
		cells := strings.Split(row, "|")
		for _, name := range strings.Split(cells[len(cells)-2], ", ") {
			if name = strings.TrimSpace(name); strings.HasPrefix(name, "`") {
				listed[name] = true
			}
		}
	}
	for name := range found {
		assert.True(t, listed[name], "%s starts a program and is missing in docs/security.md", name)
	}
	for name := range listed {
		assert.True(t, found[name], "%s is in docs/security.md and starts no program", name)
	}
}
