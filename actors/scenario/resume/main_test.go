// Package resume tests the daemon in fake time: clients whose connection breaks and that return.
package resume

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
