package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestAlone checks that a daemon without --cluster starts no cluster goroutine, listens on no port
// and writes no cluster file.
func TestAlone(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("done"))
	d := p.Start()
	d.Prompt("go")
	pid := d.Cmd.Process.Pid
	sockets := map[string]bool{} // by their inodes
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, fd := range fds {
		if is, _ := os.Readlink(fd); strings.HasPrefix(is, "socket:[") {
			sockets[strings.Trim(is, "socket:[]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && sockets[f[9]] {
				assert.NotEqual(t, "0A", f[3], "it listens: %s", line)
			}
		}
	}
	require.NoError(t, d.Cmd.Process.Signal(syscall.SIGQUIT))
	d.WaitExit()
	dump := d.Stderr()
	require.Contains(t, dump, "goroutine 1 ")
	require.Contains(t, dump, "troupe/actors", "it has the goroutines of everything")
	for _, of := range []string{"nats-io", "jackc/pgx", "troupe/actors/cluster", "troupe/actors/relay"} {
		assert.NotContains(t, dump, of)
	}
	require.NoError(t, filepath.WalkDir(p.AgentDir(), func(path string, e os.DirEntry, err error) error {
		assert.NotContains(t, strings.TrimPrefix(path, p.AgentDir()), "cluster")
		return err
	}))
}
