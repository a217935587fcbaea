// Package flow tests the daemon in fake time: clients that read slowly or not at all, and
// throughput.
package flow

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
