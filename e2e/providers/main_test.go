// Package providers tests the wires of model providers: credentials of clouds, servers that
// are discovered, and answers that fail.
package providers

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
