package conn

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// TestOnlyLooks: what a client may do that may only look is named here, command by
// command. A new one is refused until somebody has thought about it.
func TestOnlyLooks(t *testing.T) {
	var may []string
	for i := range protocol.Commands {
		spec := &protocol.Commands[i]
		cmd := reflect.New(spec.Params).Elem().Interface().(protocol.Command)
		if onlyLooks(protocol.Request{Name: spec.Name, Spec: spec, Cmd: cmd}) {
			may = append(may, spec.Name)
		}
	}
	assert.ElementsMatch(t, []string{
		"hello", "get_protocol_info", "attach", "detach", "list_open_sessions", "watch_sessions", "unwatch_sessions",
		"get_state", "get_messages", "get_available_models", "get_available_thinking_levels", "get_permissions",
		"get_fork_messages", "get_branch_messages", "list_sessions", "get_session_tree", "get_tree", "get_entries",
		"get_session_stats", "get_last_assistant_text", "get_context_usage", "get_tools", "get_commands", "get_budget", "get_dialogs",
	}, may)
	assert.False(t, onlyLooks(protocol.Request{Cmd: protocol.ListSessions{SessionDir: "/etc"}}))
	assert.False(t, onlyLooks(protocol.Request{Cmd: protocol.ListSessions{Scope: "all", SessionDir: "/etc"}}))
}
