// Package chaos kills processes at random moments and at failpoints and then checks session files,
// work trees, child processes and leases.
package chaos

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
