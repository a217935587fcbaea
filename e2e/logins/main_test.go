// Package logins tests logins at providers, using fake servers, and the use of auth.json together
// with a real pi.
package logins

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
