package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var npmLock sync.Mutex

// npm installs a folder's locked packages and returns node's path. Without node
// or a registry the test is skipped, except in CI.
func npm(t *testing.T, dir string) (node string) {
	t.Helper()
	npmLock.Lock() // two installations at once undo each other
	defer npmLock.Unlock()
	node, err := exec.LookPath("node")
	if err == nil {
		if _, err = os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil {
			install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", dir)
			var out []byte
			if out, err = install.CombinedOutput(); err != nil {
				t.Logf("npm ci: %s", out)
			}
		}
	}
	if err != nil {
		if os.Getenv("TROUPE_CI") != "" {
			t.Fatalf("pi's client cannot be installed: %v", err)
		}
		t.Skipf("pi's client cannot be installed: %v", err)
	}
	return node
}

// TestRpcClient lets pi's own published client class drive the binary.
func TestRpcClient(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("rpcclient")
	require.NoError(t, err)
	node := npm(t, dir)
	p := newPlace(t)
	p.llm.plays(
		tool("c1", "bash", `{"command":"echo hi"}`), text("It says ", "hi."), // prompt with a tool
		text("a").and(gate("never")), // aborted
	)
	cmd := exec.Command(node, filepath.Join(dir, "driver.mjs"))
	cmd.Dir, cmd.Env = p.work, append(p.environ(), "TROUPE_BINARY="+binary)
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err)
	assert.NotContains(t, string(out), "FAILED")
	assert.Contains(t, string(out), "ok compaction switch")
	if t.Failed() || !strings.Contains(string(out), "ok") {
		t.Logf("%s", out)
	}
}
