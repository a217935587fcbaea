// Package providers tests the APIs of model providers: cloud credentials, discovered servers, and
// failing answers.
package providers

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
