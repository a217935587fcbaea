package session

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/actors/actortest"
	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store/config"
)

// Who allows no level of children has no tool that starts one, in the dialects that have it
// from the beginning as well, and where it is asked for.
func TestNoLevelsNoTasks(t *testing.T) {
	shared := newWorld(t, "").shared
	for _, c := range []struct {
		depth   int64
		enabled *bool
		want    bool
	}{{2, new(true), true}, {1, nil, true}, {-1, nil, true}, {0, nil, false}, {0, new(true), false}, {2, new(false), false}} {
		w := &workspace{files: &config.Settings{Task: config.Task{MaxRecursionDepth: c.depth, Enabled: c.enabled}}}
		rules := protocol.Rules{TaskTool: true}
		_, has := w.ownBox(shared, link.OpenSpec{Tools: append([]string{core.TaskTool}, actortest.ToolNames...)}, rules, false).Lookup(core.TaskTool)
		assert.Equal(t, c.want, has, "%+v", c)
		assert.Equal(t, c.want, w.offersTasks(rules), "%+v", c)
	}
}
