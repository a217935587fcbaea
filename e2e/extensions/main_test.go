// Package extensions tests TypeScript extensions: hooks, tools, dialogs, providers, and the example
// extensions of pi.
package extensions

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
