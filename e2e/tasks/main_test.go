// Package tasks tests subagents: processes that crash while tasks run, full disks, no git.
package tasks

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
