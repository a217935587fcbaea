// Package children tests the daemon in fake time: sessions of tasks, reached through any node of a
// cluster.
package children

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
