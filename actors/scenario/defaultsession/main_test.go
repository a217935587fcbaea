// Package defaultsession tests the daemon in fake time: default sessions on a cluster.
package defaultsession

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
