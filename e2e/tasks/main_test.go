// Package tasks tests subagents: crashes of processes, full disks, and machines without git.
package tasks

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
