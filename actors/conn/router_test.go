package conn

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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
		"get_context_usage", "get_dialogs", "get_entries", "get_fork_messages", "get_image", "get_last_assistant_text", "get_messages", "get_permissions",
		"get_protocol_info", "get_session_stats", "get_session_tree", "get_state", "get_subagent_messages", "get_subagents", "get_tools", "get_tree", "hello",
		"list_open_sessions", "list_sessions", "ping", "set_subagent_subscription", "unwatch_sessions", "watch_sessions",
	}, may, fmt.Sprintf("%q", may))
	for _, cmd := range []protocol.Command{
		protocol.ListSessions{SessionDir: "/x"}, protocol.GetSubagentMessages{SessionFile: "/x.jsonl"},
	} {
		assert.False(t, onlyLooks(cmd), "%#v looks into a file that somebody names", cmd)
	}
}

// TestPathsOverTheNetwork names every command with a member that is a path: where a client
// may look at some files only, it may name no others.
func TestPathsOverTheNetwork(t *testing.T) {
	p := paths{home: "/home", cwd: "/ok", lists: true, allowed: func(path string) bool { return strings.HasPrefix(path, "/ok") && path != "/ok/lnk/x" }}
	as := []string{"export_html", "get_subagent_messages", "list_directories", "new_session", "switch_session"} // which a session resolves, or has to be absolute
	found := 0
	for _, s := range protocol.Commands {
		for i := range s.Params.NumField() {
			f := s.Params.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Type.Kind() != reflect.String || !isPath(name) {
				continue
			}
			assert.Contains(t, []string{"file", "directory", "absolute"}, f.Tag.Get("path"), "%s %s: say which path it is", s.Name, name)
			found++
			for path, fine := range map[string]bool{"/ok/a": true, "a/b": true, "a//b/.": true, "/etc/passwd": false, "../x": false, "a/../../x": false, "~/x": false, "/ok/../etc": false} {
				cmd := reflect.New(s.Params).Elem()
				cmd.Field(i).SetString(path)
				placed := p.placed(protocol.Request{Spec: &s, Cmd: cmd.Interface().(protocol.Command)}).Cmd
				assert.Equal(t, fine, p.outside(placed) == nil, "%s %s %s", s.Name, name, path)
				if asked := reflect.ValueOf(placed).Field(i).String(); slices.Contains(as, s.Name) {
					assert.Equal(t, path, asked, "%s %s", s.Name, name)
				} else {
					assert.True(t, filepath.IsAbs(asked) && filepath.Clean(asked) == asked, "%s %s %s is %s", s.Name, name, path, asked)
				}
			}
		}
	}
	assert.Greater(t, found, 8)
	for _, cmd := range []protocol.Command{protocol.OpenSession{SessionPath: "lnk/x"}, protocol.OpenSession{Cwd: "./lnk/x"}, protocol.ListSessions{SessionDir: "lnk/x"}} {
		assert.NotNil(t, p.outside(p.placed(protocol.Request{Cmd: cmd}).Cmd), "%#v: a link leads out", cmd)
	}
	assert.Nil(t, p.outside(protocol.ListDirectories{}))
	p.cwd = "/elsewhere"
	assert.NotNil(t, p.outside(protocol.ListDirectories{}))
	p.allowed = nil
	assert.Nil(t, p.outside(protocol.ListDirectories{Path: "/"}))
}

func isPath(member string) bool {
	lower := strings.ToLower(member)
	return strings.HasSuffix(lower, "path") || strings.HasSuffix(lower, "dir") || strings.HasSuffix(lower, "file") || slices.Contains([]string{"cwd", "under", "parentSession"}, member)
}
