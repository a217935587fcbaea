package session

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
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

// What is wrong with the files of a project is said once, and not again of each copy of it that a task works in.
func TestCopiesAreNotComplainedOf(t *testing.T) {
	shared := newWorld(t, "").shared
	var said bytes.Buffer
	shared.complaints.log = zerolog.New(&said)
	shared.isolated.in("/cache/wt")
	for _, path := range []string{"/proj", "/cache/wt/1/s-A/tree", "/cache/wt/1/s-B/tree"} {
		shared.complaints.all([]config.Problem{{Path: path, Err: errors.New("the project is not trusted")}})
	}
	assert.Equal(t, 1, strings.Count(said.String(), "not trusted"), said.String())
}
