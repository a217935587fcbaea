package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostFields is how many fields of its own a struct of an actor may have. What
// has more holds states that are tested in combination: give groups of them an
// owner with methods.
const mostFields = 12

// wide are the structs that may have more, and why.
var wide = map[string]string{
	"link.OpenSpec":  "a list of options",
	"session.Config": "a list of options", "core.Settings": "a list of options", "core.TaskSettings": "a list of options",
}

// goroutines are the rooms of actors that start goroutines, and why.
var goroutines = map[string]string{
	"kernel": "it is the room for that",
	"worker": "a stream is read while its session is told of it; the job waits for the end of both",
}

// actorFiles are the sources of the rooms of actors that hold actors, by room.
func actorFiles(t *testing.T) map[string][]*ast.File {
	rooms := map[string][]*ast.File{}
	for _, room := range []string{"kernel", "link", "worker", "toolbox", "extension", "session", "conn", "relay", "logins", "remote", "cluster", "core"} {
		names, err := filepath.Glob("../../actors/" + room + "/*.go")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			rooms[room] = append(rooms[room], file)
		}
		require.NotEmpty(t, rooms[room], room)
	}
	return rooms
}

// TestFieldsHaveOwners counts the fields of structs.
func TestFieldsHaveOwners(t *testing.T) {
	var found []string
	for room, files := range actorFiles(t) {
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if st, ok := spec.Type.(*ast.StructType); ok && st.Fields.NumFields() > mostFields {
					name := room + "." + spec.Name.Name
					found = append(found, name)
					assert.Contains(t, wide, name, "%s has %d fields, more than %d", name, st.Fields.NumFields(), mostFields)
				}
				return true
			})
		}
	}
	for name := range wide {
		assert.Contains(t, found, name, "%s needs no exception", name)
	}
}

// TestGoroutinesBeginInTheKernel: a goroutine of an actor that nobody recovers
// ends the process, so one room starts them all.
func TestGoroutinesBeginInTheKernel(t *testing.T) {
	var found []string
	for room, files := range actorFiles(t) {
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				starts := false
				switch n := n.(type) {
				case *ast.GoStmt:
					starts = true
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					starts = ok && x.Name == "time" && n.Sel.Name == "AfterFunc" ||
						n.Sel.Name == "Go" && !(ok && x.Name == "kernel") // of a sync.WaitGroup
				}
				if starts && !slices.Contains(found, room) {
					found = append(found, room)
					assert.Contains(t, goroutines, room)
				}
				return true
			})
		}
	}
	for room := range goroutines {
		assert.Contains(t, found, room, "%s needs no exception", room)
	}
}
