package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestLookFirst checks that a client that reads a file when it receives the start of an edit or
// write finds the old text. Editors rely on this for their diffs. On a busy machine the reader may
// be late, so only one of several rounds must be without a miss.
func TestLookFirst(t *testing.T) {
	const edits, rounds = 15, 5
	for _, dialect := range []string{"union", "pi1"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			best := 0
			for range rounds {
				if best = max(best, looks(t, p, dialect, edits)); best == edits {
					break
				}
			}
			assert.Equal(t, edits, best)
		})
	}
	t.Run("a single run", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.ToolCall("c", "write", `{"path":"f","content":"x"}`), harness.Text("done"))
		_, errs, code := p.RunOnce("", p.ModelArgs("-p", "go")...)
		assert.Zero(t, code, errs)
		assert.FileExists(t, filepath.Join(p.Work, "f"))
	})
}

// looks returns how many of the edits were seen in time.
func looks(t *testing.T, p *harness.Place, dialect string, edits int) (seen int) {
	t.Helper()
	file := filepath.Join(p.Work, "f")
	p.WriteFile(file, "0")
	for i := range edits {
		args := fmt.Sprintf(`{"path":"f","oldText":"%d","newText":"%d"}`, i, i+1)
		name := "edit"
		if i%3 == 2 {
			name, args = "write", fmt.Sprintf(`{"path":"f","content":"%d"}`, i+1)
		}
		p.Model.Enqueue(harness.ToolCall(fmt.Sprint("c", i), name, args))
	}
	p.Model.Enqueue(harness.Text("done"))
	cmd := exec.Command(harness.Binary, p.ModelArgs("--mode", "rpc", "--no-session", "--dialect", dialect)...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, `{"type":"prompt","message":"go"}`+"\n")
	require.NoError(t, err)
	lines, at := bufio.NewReader(out), 0
	for {
		line, err := lines.ReadBytes('\n')
		require.NoError(t, err)
		switch gjson.GetBytes(line, "type").Str {
		case "tool_execution_start":
			now, err := os.ReadFile(file)
			require.NoError(t, err)
			if string(now) == fmt.Sprint(at) {
				seen++
			}
			at++
		case "tool_execution_end":
			require.False(t, gjson.GetBytes(line, "isError").Bool(), string(line))
		case "agent_settled":
			in.Close()
			require.NoError(t, cmd.Wait())
			require.Equal(t, edits, at)
			return seen
		}
	}
}
