// Package consent tests the daemon in fake time: dialogs, approvals and grants.
package consent

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
