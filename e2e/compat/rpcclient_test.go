package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// between lists versions of pi whose client class has other methods: the one with hooks, an
// intermediate one, and the newest, of which only the client class is used.
var between = []harness.Pi{harness.Pi0311, harness.Pi0742, harness.Pi152}

// eachPi runs a test with every version of pi.
func eachPi(t *testing.T, test func(t *testing.T, v harness.Pi)) { each(t, harness.Pis, test) }

func each(t *testing.T, pis []harness.Pi, test func(t *testing.T, v harness.Pi)) {
	t.Parallel()
	for _, v := range pis {
		t.Run(v.Version, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// TestRpcClient checks that pi's published client class can drive the binary.
func TestRpcClient(t *testing.T) {
	drive(t, func(*harness.Place) string { return harness.Binary })
}

// TestRpcClientConnect checks the same through troupe connect and a running daemon.
func TestRpcClientConnect(t *testing.T) {
	drive(t, func(p *harness.Place) string {
		s := p.Serve()
		script := filepath.Join(p.Root, "connect")
		line := fmt.Sprintf("#!/bin/sh\nexec '%s' connect --to '%s' --permission-mode auto \"$@\"\n", harness.Binary, s.Socket)
		require.NoError(p.T, os.WriteFile(script, []byte(line), 0o700))
		return script
	})
}

// drive lets pi's client class drive a program that accepts the flags of the binary.
func drive(t *testing.T, program func(*harness.Place) string) {
	each(t, slices.Concat(harness.Pis, between), func(t *testing.T, v harness.Pi) {
		node, dist := v.Install(t)
		p := harness.NewPlace(t)
		p.Model.Enqueue(
			harness.ToolCall("c1", "bash", `{"command":"echo hi"}`), harness.Text("It says ", "hi."), // prompt with a tool
			harness.Text("a").Then(harness.Gate("never")), // aborted
			harness.Text("b").Then(harness.Gate("never")), // aborted, by newer clients
		)
		driver, err := filepath.Abs("../rpcclient/driver.mjs")
		require.NoError(t, err)
		cmd := exec.Command(node, driver, filepath.Join(dist, "modes", "rpc", "rpc-client.js"))
		cmd.Dir, cmd.Env = p.Work, append(p.Environ(), "TROUPE_BINARY="+program(p))
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err)
		assert.NotContains(t, string(out), "FAILED")
		assert.Contains(t, string(out), "ok compaction switch")
		for step, first := range map[string]string{"steer, follow up and abort": "0.31.1", "fork": "0.31.1", "name, commands": "0.74.2", "clone": "0.74.2", "entries and tree": "0.87.1"} {
			assert.Equal(t, v.Version >= first, strings.Contains(string(out), "ok "+step), step)
		}
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
}
