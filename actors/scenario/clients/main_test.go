// Package clients tests the daemon in fake time: one and several clients of a daemon.
package clients

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
