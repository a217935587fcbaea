// Package chaos kills processes at random moments and at failpoints, and checks what is
// left: session files, work trees, children, leases.
package chaos

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
