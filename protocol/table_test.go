package protocol

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTable checks what every row must have.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Commands {
		require.False(t, seen[s.Name], "%s twice", s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Doc, s.Name)
		require.NotEmpty(t, s.Since, s.Name)
		require.Same(t, Lookup(s.Name), Lookup(s.Name))
		require.NotZero(t, s.Scope, s.Name)
		require.Equal(t, s.Traits, TraitsOf(reflect.Zero(s.Params).Interface().(Command)), "%s has other traits under another name", s.Name)
		if s.Scope == ScopeConnection { // no session asks for the others
			require.Equal(t, Traits{Scope: ScopeConnection}, s.Traits, s.Name)
		}
		for _, f := range s.Parameters() {
			require.NotEmpty(t, f.Name, "%s", s.Params)
			require.NotEmpty(t, f.Doc, "%s.%s needs a doc tag", s.Params, f.Name)
		}
		if s.Result != nil {
			zero := reflect.New(s.Result)
			if s.Result.Kind() == reflect.Pointer {
				zero.Elem().Set(reflect.New(s.Result.Elem()))
			}
			out := AppendValue(nil, zero.Elem().Interface())
			require.True(t, json.Valid(out), "%s: %s", s.Name, out)
		}
	}
	for _, e := range Events {
		require.NotEmpty(t, e.Doc, e.Name)
		require.NotEmpty(t, e.Since, e.Name)
	}
}
