// Package supervision tests the daemon in fake time: crashes of actors.
package supervision

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
