// Package security tests the limits on tool calls and projects: permissions, the sandbox, and trust
// in projects.
package security

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
