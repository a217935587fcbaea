// Package process tests the process itself: arguments and exit codes, standard input and output,
// signals, terminals and single runs.
package process

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
