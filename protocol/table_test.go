package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
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
		requireDialects(t, s.Since, s.Name)
		require.Same(t, Lookup(s.Name), Lookup(s.Name))
		require.NotZero(t, s.Scope, s.Name)
		require.Equal(t, s.Traits, TraitsOf(reflect.Zero(s.Params).Interface().(Command)), "%s has other traits under another name", s.Name)
		if s.Scope == ScopeConnection { // no session asks for the others
			require.Zero(t, s.is&^(Looks|AboutFiles|ActsOnce|ParentsOnly|Repeatable), s.Name)
		}
		for _, f := range s.Parameters() {
			require.NotEmpty(t, f.Name, "%s", s.Params)
			require.NotEmpty(t, f.Doc, "%s.%s needs a doc tag", s.Params, f.Name)
			requireDialects(t, s.Params.Field(f.Index).Tag.Get("since"), f.Name)
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
		requireDialects(t, e.Since, e.Name)
		members := e.Members
		if members.Kind() == reflect.Pointer {
			members = members.Elem()
		}
		for i := range members.NumField() {
			requireDialects(t, members.Field(i).Tag.Get("since"), e.Name)
		}
	}
}

// unasked are events of ours that are told to clients that have asked for nothing: what
// they tell of comes about only by what such a client has from troupe alone, or ends its
// session.
var unasked = []string{"session_failed", "session_moved", "session_waiting", "resync", "draining"}

// TestOurEventsAreAskedFor: clients of pi are not told events that no pi has.
func TestOurEventsAreAskedFor(t *testing.T) {
	var found []string
	for _, e := range Events {
		if e.Since == "troupe" && e.Needs == "" && e.Only == nil && e.To == Everybody {
			found = append(found, e.Name)
		}
	}
	require.ElementsMatch(t, unasked, found)
}

// requireDialects: every name is one that a user can choose, or stands for who
// has none.
func requireDialects(t *testing.T, since, where string) {
	for _, name := range strings.Fields(since) {
		_, ok := dialects[Dialect(name)]
		require.True(t, ok && name != "union" || name == "omp18" || name == "troupe", "%s: no dialect %s", where, name)
	}
}
