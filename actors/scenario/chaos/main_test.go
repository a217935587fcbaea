// Package chaos tests the daemon in fake time: random clients against random faults, by seed.
package chaos

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
