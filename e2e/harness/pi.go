package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/e2e/need"
)

// Pi is a published version of pi, installed from a lock file below e2e/rpcclient.
type Pi struct {
	Version string
	Dir     string // of package.json, below e2e/rpcclient
	Package string // its name in the registry
	Node    string // in Dir; empty for the one of the machine
	Dist    string // of its JavaScript files, in the package
	bundle  bool   // the program is the one of Dist's directory bundle: the package needs others that are not installed
}

// Pi0457 is the default target of the protocol. Pi0871 is the newest version that runs on the Node
// of a current distribution. Pi160 is the newest version. The others are versions whose client class has other methods:
// the one that introduced hooks, and two in between.
var (
	Pi0311 = Pi{Version: "0.31.1", Dir: "0.31", Package: "@mariozechner/pi-coding-agent", Dist: "dist"}
	Pi0457 = Pi{Version: "0.45.7", Dir: ".", Package: "@mariozechner/pi-coding-agent", Dist: "dist"}
	Pi0742 = Pi{Version: "0.74.2", Dir: "0.74", Package: "@earendil-works/pi-coding-agent", Dist: "dist"}
	Pi0871 = Pi{Version: "0.87.1", Dir: "newer", Package: "@earendil-works/pi-coding-agent", Node: "node_modules/.bin/node", Dist: "dist"}
	Pi152  = Pi{Version: "1.5.2", Dir: "1.5", Package: "@earendil-works/pi-coding-agent", Node: "node_modules/.bin/node", Dist: "dist"}
	Pi160  = Pi{Version: "1.6.0", Dir: "1.6", Package: "@earendil-works/pi-coding-agent", Node: "node_modules/.bin/node", Dist: "dist", bundle: true}
)

// Pis lists the versions of which the whole program can run.
var Pis = []Pi{Pi0457, Pi0871, Pi160}

// Install installs the locked packages. It returns the path of node and the directory of pi's
// JavaScript files.
func (v Pi) Install(t *testing.T) (node, dist string) {
	t.Helper()
	dir := v.dir(t)
	node = NPMInstall(t, dir)
	if v.Node != "" {
		node = filepath.Join(dir, v.Node)
	}
	return node, filepath.Join(v.PackageDir(t), v.Dist)
}

// Program returns the directory of the whole program, cli.js and index.js, in a dist of Install.
func (v Pi) Program(dist string) string {
	if v.bundle {
		return filepath.Join(dist, "bundle")
	}
	return dist
}

// PackageDir is the directory of the package, which exists after Install.
func (v Pi) PackageDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(v.dir(t), "node_modules", v.Package)
}

func (v Pi) dir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "rpcclient", v.Dir))
	require.NoError(t, err)
	return dir
}

// NPMInstall installs the packages of a lock file if they are missing, and returns the path of
// node. It skips the test if Node is not installed or the registry cannot be reached.
func NPMInstall(t *testing.T, dir string) (node string) {
	t.Helper()
	node = need.Program(t, "node")
	unlock, err := lock(filepath.Join(dir, "package.json")) // two installations at once undo each other
	require.NoError(t, err)
	defer unlock()
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err == nil {
		return node
	}
	npm := need.Program(t, "npm")
	out, err := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", dir).CombinedOutput()
	if err != nil {
		t.Logf("npm ci: %s", out)
		need.Missing(t, "npm packages", fmt.Sprintf("npm ci in %s: %v", filepath.Base(dir), err))
	}
	return node
}

// StartPi starts pi itself instead of troupe, with the same home, working directory and model
// server.
func (p *Place) StartPi(v Pi, args ...string) *Daemon {
	p.T.Helper()
	node, dist := v.Install(p.T)
	cmd := exec.Command(node, append([]string{filepath.Join(v.Program(dist), "cli.js"), "--mode", "rpc", "--provider", "mock", "--model", "mock-1"}, args...)...)
	cmd.Dir, cmd.Env = p.Work, append(p.Environ(), "PI_OFFLINE=1")
	d := p.StartCmd(cmd)
	d.Foreign = true
	return d
}
