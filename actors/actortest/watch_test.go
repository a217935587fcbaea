package actortest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLettersExist: a message that is renamed takes its name along to the letters
// that may find nobody.
func TestLettersExist(t *testing.T) {
	types := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				types[spec.Name.Name] = true
			}
			return true
		})
		return nil
	}))
	for why, kinds := range ourLetters {
		for _, kind := range kinds {
			require.True(t, types[kind], "no message %s %s", kind, why)
		}
	}
}
