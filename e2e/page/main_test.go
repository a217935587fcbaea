// Package page tests the page of troupe serve in a browser.
package page

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
