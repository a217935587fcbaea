// Package extensions tests the daemon in fake time: extensions of sessions.
package extensions

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
