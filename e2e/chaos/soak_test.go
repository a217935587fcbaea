package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/e2e/history"
)

// TestSoak runs many sessions over one pipe. Every response and terminal event is sent once, and no
// session receives another's events. When all sessions are closed, descriptors and children are
// back at their baseline. TROUPE_SOAK_SESSIONS=500 is the full measurement.
func TestSoak(t *testing.T) {
	t.Parallel()
	program := harness.FailpointBinary(t)
	sessions, rounds := number("TROUPE_SOAK_SESSIONS", 30), 3
	c := &cycle{
		t: t, p: harness.NewPlace(t), program: program, rng: rand.New(rand.NewPCG(1, 0)), h: &history.History{},
		mark: fmt.Sprintf("TROUPE_CHAOS=%d.soak", os.Getpid()), marks: map[string]string{},
	}
	c.p.Model.Decide(brain())
	m := c.start("")
	_, ok := m.answer(m.tell(`{"type":"get_protocol_info"}`))
	require.True(t, ok)
	pid := m.Cmd.Process.Pid
	fds, children := descriptors(pid), len(withEnv(c.mark))
	m.open(sessions)
	for round := range rounds {
		for _, s := range m.sessions {
			m.say(s, "prompt", []string{"rounds=1", "slow", "rounds=1 flood"}[round], "")
		}
		m.settle((round + 1) * sessions)
	}
	peak := rss(pid)
	for _, s := range m.sessions {
		_, ok := m.answer(m.tell(fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, s)))
		require.True(t, ok)
	}
	harness.Eventually(t, "descriptors back to the baseline", func() bool { return descriptors(pid) <= fds+2 }) // the guard's pipe
	assert.LessOrEqual(t, len(withEnv(c.mark)), children+1, "the guard stays")
	t.Logf("%d sessions: %d MiB at the peak", sessions, peak>>20)
	require.Less(t, peak, 1<<30, "500 sessions stay below 1 GiB")
	require.Equal(t, 0, m.Close())
	m.record(history.End)
	c.nobodyLeft()
	require.Empty(t, history.Check(c.h, history.Options{Canary: markOf, Files: c.files(), Free: true}))
}

// settle waits for the end of n runs.
func (m *mortal) settle(n int) {
	m.T.Helper()
	for at, settled := 0, 0; settled < n; settled++ {
		_, at = m.Wait(at, fmt.Sprintf("the end of run %d of %d", settled+1, n), func(v gjson.Result) bool {
			return v.Get("type").Str == "agent_settled"
		})
	}
}

// descriptors counts open files and pipes. Sockets are not counted, since idle connections to the
// model server are kept open.
func descriptors(pid int) (n int) {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range list {
		if to, err := os.Readlink(fd); err == nil && !strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestCutLine checks that an incomplete last line is not executed.
func TestCutLine(t *testing.T) {
	t.Parallel()
	line := `{"id":"1","type":"prompt","message":"go"}`
	for _, n := range []int{1, 7, 20, len(line) - 1} {
		p := harness.NewPlace(t)
		d := p.Start()
		_, err := io.WriteString(d.Stdin, line[:n])
		require.NoError(t, err)
		require.Equal(t, 0, d.Close())
		lines := d.Lines()
		require.Len(t, lines, 1)
		assert.False(t, gjson.Get(lines[0], "success").Bool(), lines[0])
		assert.Zero(t, p.Model.RequestCount())
	}
}
