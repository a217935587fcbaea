package core

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// TestEveryCommand: the machine has a rule for each command of a session, which
// answers it or begins what will.
func TestEveryCommand(t *testing.T) {
	for _, row := range protocol.Commands {
		if row.Scope == protocol.ScopeConnection {
			continue
		}
		m := New()
		m.Step(0, &ids{}, Restored{})
		cmd := reflect.Zero(row.Params).Interface().(protocol.Command)
		require.NotPanics(t, func() {
			require.NotEmpty(t, m.Step(0, &ids{}, Command{Seq: 1, Name: row.Name, Cmd: cmd}), row.Name)
		}, row.Name)
	}
}
