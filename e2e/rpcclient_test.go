package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pi is a published pi: where its lock file is, and what runs it.
type pi struct {
	version string
	dir     string // of package.json
	pkg     string
	node    string // in dir; empty for that of the machine
	dist    string // in the package
}

// pis are the default target of the protocol, and the newest that installs.
var pis = []pi{
	{"0.45.7", "rpcclient", "@mariozechner/pi-coding-agent", "", "dist"},
	{"0.87.1", "rpcclient/newer", "@earendil-works/pi-coding-agent", "node_modules/.bin/node", "dist"},
}

// between are the pis whose client has other methods: the one of hooks, one on the way to
// the newest that installs whole, and the newest, of which the client does.
var between = []pi{
	{"0.31.1", "rpcclient/0.31", "@mariozechner/pi-coding-agent", "", "dist"},
	{"0.74.2", "rpcclient/0.74", "@earendil-works/pi-coding-agent", "", "dist"},
	{"1.5.2", "rpcclient/1.5", "@earendil-works/pi-coding-agent", "node_modules/.bin/node", "dist"},
}

var npmLock sync.Mutex

// install installs the locked packages, and returns node's path and that of
// pi's files. Without node or a registry the test is skipped, except in CI.
func (v pi) install(t *testing.T) (node, dist string) {
	t.Helper()
	npmLock.Lock() // two installations at once undo each other
	defer npmLock.Unlock()
	dir, err := filepath.Abs(v.dir)
	require.NoError(t, err)
	if node, err = exec.LookPath("node"); err == nil {
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
			t.Fatalf("pi %s cannot be installed: %v", v.version, err)
		}
		t.Skipf("pi %s cannot be installed: %v", v.version, err)
	}
	if v.node != "" {
		node = filepath.Join(dir, v.node)
	}
	return node, filepath.Join(dir, "node_modules", v.pkg, v.dist)
}

// eachPi runs a test with every pi.
func eachPi(t *testing.T, test func(t *testing.T, v pi)) { each(t, pis, test) }

func each(t *testing.T, pis []pi, test func(t *testing.T, v pi)) {
	t.Parallel()
	for _, v := range pis {
		t.Run(v.version, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// TestRpcClient lets pi's own published client class drive the binary.
func TestRpcClient(t *testing.T) {
	drive(t, func(*place) string { return binary })
}

// TestRpcClientConnect: over a daemon that runs already it notices no difference.
func TestRpcClientConnect(t *testing.T) {
	drive(t, func(p *place) string {
		s := p.serve()
		script := filepath.Join(p.root, "connect")
		line := fmt.Sprintf("#!/bin/sh\nexec '%s' connect --to '%s' --permission-mode auto \"$@\"\n", binary, s.socket)
		require.NoError(p.t, os.WriteFile(script, []byte(line), 0o700))
		return script
	})
}

// drive lets pi's client drive a program that takes the flags of the binary.
func drive(t *testing.T, program func(*place) string) {
	each(t, slices.Concat(pis, between), func(t *testing.T, v pi) {
		node, dist := v.install(t)
		p := newPlace(t)
		p.llm.plays(
			tool("c1", "bash", `{"command":"echo hi"}`), text("It says ", "hi."), // prompt with a tool
			text("a").and(gate("never")), // aborted
			text("b").and(gate("never")), // aborted, by newer clients
		)
		driver, err := filepath.Abs("rpcclient/driver.mjs")
		require.NoError(t, err)
		cmd := exec.Command(node, driver, filepath.Join(dist, "modes", "rpc", "rpc-client.js"))
		cmd.Dir, cmd.Env = p.work, append(p.environ(), "TROUPE_BINARY="+program(p))
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err)
		assert.NotContains(t, string(out), "FAILED")
		assert.Contains(t, string(out), "ok compaction switch")
		for step, first := range map[string]string{"steer, follow up and abort": "0.31.1", "fork": "0.31.1", "name, commands": "0.74.2", "clone": "0.74.2", "entries and tree": "0.87.1"} {
			assert.Equal(t, v.version >= first, strings.Contains(string(out), "ok "+step), step)
		}
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
}
