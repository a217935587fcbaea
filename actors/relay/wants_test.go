package relay

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/actors/cluster"
	"troupe/protocol"
)

// self is the one member that is asked.
type self struct{ Members }

func (self) Self() string { return "a" }

// TestWants: a directory that is named by its path is wherever its root is the same; in a root that is
// pinned, or in none, it is on this node only.
func TestWants(t *testing.T) {
	s := &Shared{Members: self{}, Roots: map[string]cluster.Root{
		"own": {Path: "/own", Mode: cluster.Pinned}, "all": {Path: "/all", Mode: cluster.Shared},
	}}
	for _, c := range []struct{ cwd, root, node, here string }{
		{"/own/x", "own", "a", "/own/x"},
		{"/all/x", "all", "", "/all/x"},
		{"/other", "", "a", "/other"},
		{"own:x", "own", "", "/own/x"},
		{"all:x", "all", "", "/all/x"},
		{"none:x", "none", "", ""},
	} {
		o, here, err := s.Wants(protocol.OpenSession{Cwd: c.cwd}, "/base")
		assert.Nil(t, err, c.cwd)
		assert.Equal(t, c.root+" "+c.node+" "+c.here, o.Wants.Root+" "+o.Wants.Node+" "+here, c.cwd)
	}
	_, _, err := s.Wants(protocol.OpenSession{Cwd: "own:../x"}, "/base")
	assert.NotNil(t, err)
}
