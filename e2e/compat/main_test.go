// Package compat tests that troupe is a drop-in replacement for pi.
//
//   - testdata/traces are recordings of real pi and oh-my-pi, replayed against troupe.
//   - testdata/shapes are the keys of every record of five versions of pi. TestShapes
//     reports the keys that troupe lacks. Package shape records them.
//   - testdata/seeds are documents of clients. Their examples are run.
//   - Real versions of pi, and their client class, run where Node is installed.
package compat

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
