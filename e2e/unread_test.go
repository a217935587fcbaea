package e2e

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
)

// TestUnreadAnswers: a client that asks for everything again and again, and then
// begins to read, costs the daemon a bounded amount of memory, and has every
// answer in the order of its questions.
func TestUnreadAnswers(t *testing.T) {
	const messages, times = 2000, 60
	queries := []string{"get_entries", "get_tree", "get_session_tree", "get_messages", "get_fork_messages"}
	p := newPlace(t)
	file := filepath.Join(p.root, "long.jsonl")
	p.write(file, longSession(p.work, messages))
	cmd := exec.Command(binary, "--mode", "rpc", "--session", file)
	cmd.Dir, cmd.Env = p.work, p.environ()
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
	eventually(t, "the daemon to have done what it does", func() bool {
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
	peak := highWater(t, cmd.Process.Pid)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	t.Logf("%d MB of answers, %d MB of memory at the peak", total>>20, peak>>20)
	assert.Less(t, peak, 250<<20, "unbounded it would be 700 MB")
}

// highWater is the most memory that a process has had, in bytes.
func highWater(t *testing.T, pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			kb, err := strconv.Atoi(f[1])
			require.NoError(t, err)
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// cpuTicks is the processor time that a process has used.
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
