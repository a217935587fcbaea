// Package durability tests the daemon in fake time: the files after failed writes, crashes and
// parking.
package durability

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
