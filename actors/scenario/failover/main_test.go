// Package failover tests the daemon in fake time: sessions whose node is lost or cut off.
package failover

import (
	"testing"

	"troupe/actors/scenario/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
