// Package moves tests the daemon in fake time: sessions that move to another node.
package moves

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
