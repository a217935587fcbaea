// Package sessions tests sessions and their files: many at once, attached and parked, branches,
// compaction, and samples that pi wrote.
package sessions

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
