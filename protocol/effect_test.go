package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestEffects lists the commands that are idempotent and those with an effect outside the log. Clients may always
// repeat the former; the latter are recorded in the log of a cluster before they start. A new command has to be
// classified here if it is one of them.
func TestEffects(t *testing.T) {
	of := map[Effect][]string{}
	for _, s := range Commands {
		of[s.Effect()] = append(of[s.Effect()], s.Name)
	}
	assert.Equal(t, []string{
		"get_state", "get_messages", "get_available_models", "get_available_thinking_levels", "get_permissions", "get_fork_messages", "get_branch_messages",
		"list_sessions", "get_session_tree", "get_tree", "get_entries", "get_image", "get_session_stats", "get_last_assistant_text", "get_context_usage",
		"get_tools", "get_commands", "get_budget", "get_subagents", "get_subagent_messages", "set_subagent_subscription", "get_dialogs",
		"get_auth", "get_login_providers", "cancel_login", "get_protocol_info", "ping", "hello", "close_session", "move_session", "get_cluster",
		"attach", "detach", "list_open_sessions", "watch_sessions", "list_directories", "unwatch_sessions",
	}, of[EffectNone])
	assert.Equal(t, []string{"bash", "export_html", "login", "logout", "drain_node", "open_session", "adopt_session", "delete_session"}, of[EffectOutside])
}

// TestRetryInfo: the data of an error that is not about its command never says both that it may have run and
// when to send it again.
func TestRetryInfo(t *testing.T) {
	err := CodeNodeLost.Errorf("lost")
	err.Data = RetryInfo{Retryable: true, Node: "w1", Since: 5}
	assert.JSONEq(t, `{"outcome":"unknown","retryable":false,"node":"w1","since":5}`, string(AppendValue(nil, err.MayHaveRun().Data)))
	assert.JSONEq(t, `{"retryable":true,"retryAfterMs":1000,"node":"w1","since":5}`, string(AppendValue(nil, err.NotRun(time.Second).Data)))
	assert.JSONEq(t, `{"retryable":true,"node":"w1","since":5}`, string(AppendValue(nil, err.Data)), "the error itself stays as it is")
	for name, c := range map[string]struct{ begun, unknown bool }{"bash": {true, true}, "prompt": {true, true}, "steer": {false, false}, "get_state": {true, false}} {
		assert.Equal(t, c.unknown, CodeInternal.Errorf("x").CutOff(Lookup(name), c.begun).OutcomeIsUnknown(), name)
	}
}
