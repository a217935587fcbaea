// Package tasks tests the daemon in fake time: sessions with subagents.
package tasks

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
