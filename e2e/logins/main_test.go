// Package logins tests logins at providers, against fakes of their hosts, and auth.json
// beside a real pi.
package logins

import (
	"testing"

	"troupe/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
