// Package wire tests the commands of the protocol and their responses over pipes.
//
//   - testdata/scripts has one script for each command.
//   - The other tests cover behaviour that a script cannot show: control commands during
//     long work, idempotency keys, host tools, and clients that do not read their output.
package wire

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
