// Package wire tests the commands of the protocol: what a client writes on a pipe, and
// what it reads.
//
//   - testdata/scripts are stories, one for each command.
//   - The other tests are about what no transcript shows: answers while a run is
//     busy, idempotency keys, host tools, output that nobody reads.
package wire

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
