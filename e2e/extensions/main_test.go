// Package extensions tests extensions in TypeScript: hooks, tools, dialogs, providers, and the
// extensions that pi brings.
package extensions

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
