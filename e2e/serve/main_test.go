// Package serve tests troupe serve and the clients that connect to it: over a socket, HTTP
// and WebSockets, by hand and cut at any byte.
package serve

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
