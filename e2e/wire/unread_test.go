package wire

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestUnreadAnswers checks a client that sends many large queries before it reads. The daemon's
// memory stays bounded, and all answers arrive in order.
func TestUnreadAnswers(t *testing.T) {
	const messages, times = 2000, 60
	queries := []string{"get_entries", "get_tree", "get_session_tree", "get_messages", "get_fork_messages"}
	p := harness.NewPlace(t)
	file := filepath.Join(p.Root, "long.jsonl")
	p.WriteFile(file, harness.LongSession(p.Work, messages))
	cmd := exec.Command(harness.Binary, "--mode", "rpc", "--session", file)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	var all strings.Builder
	for i := range times * len(queries) {
		fmt.Fprintf(&all, `{"id":"%d","type":%q}`+"\n", i, queries[i%len(queries)])
	}
	_, err = io.WriteString(in, all.String()) // returns when the daemon has read nearly all of it
	require.NoError(t, err)
	cpu, calm := 0, 0
	harness.Eventually(t, "the daemon to have done what it does", func() bool {
		now := cpuTicks(t, cmd.Process.Pid)
		calm++
		if now != cpu {
			cpu, calm = now, 0
		}
		return calm > 20
	})
	lines := bufio.NewReaderSize(out, 1<<20)
	total := 0
	for i := range times * len(queries) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "answer %d", i)
		require.True(t, strings.HasPrefix(line, fmt.Sprintf(`{"id":"%d","type":"response","command":%q,"success":true`, i, queries[i%len(queries)])), line[:100])
		total += len(line)
	}
	peak := harness.PeakMemory(t, cmd.Process.Pid)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	t.Logf("%d MB of answers, %d MB of memory at the peak", total>>20, peak>>20)
	assert.Less(t, peak, 250<<20, "unbounded it would be 700 MB")
}

// cpuTicks returns the processor time that a process has used, in clock ticks.
func cpuTicks(t *testing.T, pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	user, err := strconv.Atoi(f[12])
	require.NoError(t, err)
	system, err := strconv.Atoi(f[13])
	require.NoError(t, err)
	return user + system
}
