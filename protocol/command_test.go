package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// embedding lists the structs of a file that have a marker among their fields.
func embedding(t *testing.T, file, marker string) (names []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if body, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range body.Fields.List {
				if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && id.Name == marker {
					names = append(names, spec.Name.Name)
				}
			}
		}
		return true
	})
	require.NotEmpty(t, names, file)
	return names
}

// TestEveryCommand: each command has a row, so that it can be sent.
func TestEveryCommand(t *testing.T) {
	rows := map[string]bool{}
	for _, s := range Commands {
		rows[s.Params.Name()] = true
	}
	for _, name := range embedding(t, "command.go", "isCommand") {
		require.True(t, rows[name], "%s has no row in table.go", name)
	}
}

// TestEveryEvent: each event has a row, so that it can be told, and only events
// have; a span that an event opens is closed by another.
func TestEveryEvent(t *testing.T) {
	rows := map[string]bool{}
	opens, closes := map[Span]bool{}, map[Span]bool{"": true, SpanWork: true}
	for _, e := range Events {
		of := e.Event
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		rows[of.Name()] = true
		opens[e.Opens], closes[e.Closes] = true, true
		first := byEvent()[e.Event][0]
		require.Equal(t, []any{first.Opens, first.Closes, first.To, first.Dialog}, []any{e.Opens, e.Closes, e.To, e.Dialog}, "%s is something else under another name", e.Name)
	}
	for _, name := range append(embedding(t, "event.go", "isEvent"), "MessageUpdate", "SessionStatus") {
		require.True(t, rows[name], "%s has no row in events.go", name)
		delete(rows, name)
	}
	require.Empty(t, rows)
	opens[SpanWork] = true // by its first run
	require.Equal(t, opens, closes)
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " ": "", "a": "a", "a b": "a b", "a  b": "a b", " a": "a", "a ": "a", "a\tb": "a b", "a\x00b": "a\x00b",
		"é  b": "é b", "é b": "é b", "a\u0085b": "a b", "a\u2028\u2029b": "a b", "a\u00a0b": "a b", "\r\n": "", "ab c d": "ab c d",
	} {
		require.Equal(t, want, oneLine(in), "%q", in)
	}
}
