package extension

import (
	"fmt"
	"slices"

	"troupe/protocol"
	"troupe/protocol/extension"
)

// asked are the events that extensions are asked about, or told in a form of their own.
var asked = []string{
	"session_start", "session_shutdown", "session_before_switch", "session_before_fork", "session_before_tree", "session_before_compact",
	"session_switch", "session_fork", "session_compact", "session_compact_failed", "session_tree", "session_info_changed", "session", "project_trust", "resources_discover",
	"input", "before_agent_start", "agent_before_settle", "tool_call", "tool_result", "context", "context_with_system", "user_bash", "model_select", "thinking_level_select",
	"ui_prompt_start", "ui_prompt_end",
}

// known are all events that may come.
var known = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range slices.Concat(asked, RequestEvents) {
		names[name] = true
	}
	for _, row := range protocol.Events {
		if row.Needs == "" {
			names[row.Name] = true
		}
	}
	return names
}()

// Unsupported says what of that which extensions have registered counts for nothing.
func Unsupported(r extension.Registrations) (texts []string) {
	for _, name := range r.Listens {
		if !known[name] {
			texts = append(texts, fmt.Sprintf("extensions: the event %s never comes here", name))
		}
	}
	for _, t := range r.Tools {
		switch t.Exposure {
		case "", "direct", "model-only", "hidden":
		default:
			texts = append(texts, fmt.Sprintf("extension %s: exposure %q of the tool %s is taken for direct", t.Path, t.Exposure, t.Name))
		}
	}
	return texts
}
