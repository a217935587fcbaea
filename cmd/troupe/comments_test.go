package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// mostLines is how many lines a function may have that is no test.
const mostLines = 80

// named is a name in the brackets of a comment: of its room, of a member, or of another room.
var named = regexp.MustCompile(`\[\*?(?:([a-z]\w*)\.)?([A-Z][a-z]\w*)(?:\.(\w+))?\]`)

// sources are the Go files of the tree, with where they are.
var sources = sync.OnceValues(func() (list []*ast.File, set *token.FileSet) {
	set = token.NewFileSet()
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		list = append(list, file)
		return err
	})
	if err != nil || len(list) < 500 {
		panic(fmt.Sprintf("%d files: %v", len(list), err))
	}
	return list, set
})

// TestFunctionsAreShort: who reads one sees all of it.
func TestFunctionsAreShort(t *testing.T) {
	files, set := sources()
	for _, file := range files {
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && !strings.HasSuffix(set.Position(f.Pos()).Filename, "_test.go") {
				lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
				assert.LessOrEqual(t, lines, mostLines, "%s: %s", set.Position(f.Pos()), f.Name.Name)
			}
		}
	}
}

// TestCommentsNameWhatExists resolves the names in brackets of comments, as far as they are ours:
// a reader follows them.
func TestCommentsNameWhatExists(t *testing.T) {
	files, set := sources()
	declared := map[string]map[string]bool{}
	room := func(file *ast.File) string { return strings.TrimSuffix(file.Name.Name, "_test") }
	for _, file := range files {
		if declared[room(file)] == nil {
			declared[room(file)] = map[string]bool{}
		}
		for _, d := range file.Decls {
			declare(declared[room(file)], d)
		}
	}
	seen := 0
	for _, file := range files {
		for _, group := range file.Comments {
			for _, m := range named.FindAllStringSubmatch(group.Text(), -1) {
				of, name := declared[room(file)], m[2]
				if m[1] != "" {
					of = declared[m[1]]
				}
				if m[3] != "" {
					name += "." + m[3]
				}
				if of != nil {
					seen++
					assert.True(t, of[name], "%s: %s is not declared", set.Position(group.Pos()), m[0])
				}
			}
		}
	}
	assert.Greater(t, seen, 200)
}

// declare notes what a declaration names, members as in Machine.Step.
func declare(names map[string]bool, d ast.Decl) {
	if f, is := d.(*ast.FuncDecl); is {
		if f.Recv == nil {
			names[f.Name.Name] = true
		} else {
			names[typeName(f.Recv.List[0].Type)+"."+f.Name.Name] = true
		}
		return
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, id := range spec.Names {
				names[id.Name] = true
			}
		case *ast.TypeSpec:
			names[spec.Name.Name] = true
			for _, member := range members(spec.Type) {
				names[spec.Name.Name+"."+member] = true
			}
		}
	}
}

// members are the fields of a struct and the methods of an interface; an embedded one has the
// name of its type.
func members(of ast.Expr) (names []string) {
	var list *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		if len(f.Names) == 0 {
			names = append(names, typeName(f.Type))
		}
		for _, id := range f.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

// typeName is the name of a type, without its package, pointer and parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	default:
		return ""
	}
}
