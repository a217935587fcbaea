// Package serve tests troupe serve and the clients that connect to it over a Unix socket, HTTP and
// WebSockets, including malformed requests and connections that are cut at any byte.
package serve

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
