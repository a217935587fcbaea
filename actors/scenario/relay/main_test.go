// Package relay tests the daemon in fake time: sessions reached through another node.
package relay

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
