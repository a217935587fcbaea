package conn

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// TestWhoOnlyWatches names every command that a client may send which may change nothing.
// A new one is refused until somebody has thought about it.
func TestWhoOnlyWatches(t *testing.T) {
	var may []string
	for _, s := range protocol.Commands {
		cmd, is := reflect.Zero(s.Params).Interface().(protocol.Command)
		if is && onlyLooks(cmd) {
			may = append(may, s.Name)
		}
	}
	slices.Sort(may)
	assert.Equal(t, []string{
		"attach", "detach", "get_available_models", "get_available_thinking_levels", "get_branch_messages", "get_budget", "get_commands",
		"get_context_usage", "get_dialogs", "get_entries", "get_fork_messages", "get_last_assistant_text", "get_messages", "get_permissions",
		"get_protocol_info", "get_session_stats", "get_session_tree", "get_state", "get_subagent_messages", "get_subagents", "get_tools", "get_tree", "hello",
		"list_open_sessions", "list_sessions", "ping", "set_subagent_subscription", "unwatch_sessions", "watch_sessions",
	}, may, fmt.Sprintf("%q", may))
	for _, cmd := range []protocol.Command{
		protocol.ListSessions{SessionDir: "/x"}, protocol.GetSubagentMessages{SessionFile: "/x.jsonl"},
	} {
		assert.False(t, onlyLooks(cmd), "%#v looks into a file that somebody names", cmd)
	}
}
