package process

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestStdoutKinds checks that every kind of stdout receives all lines whole and in order, even if
// the client lets it fill up. Its file flags are unchanged for other processes that share it.
func TestStdoutKinds(t *testing.T) {
	const n = 4000 // answers of more than half a kilobyte: a pipe holds less than half of them
	var input strings.Builder
	for i := range n {
		fmt.Fprintf(&input, `{"id":"%d","type":"get_state"}`+"\n", i)
	}
	for name, open := range conduits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			ours, theirs := open(t)
			defer ours.Close()
			cmd := exec.Command(harness.Binary, "--mode", "rpc")
			cmd.Dir, cmd.Env = p.Work, p.Environ()
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			cmd.Stdout = theirs
			_ = theirs.Fd() // puts it into blocking mode, as exec would
			before := flags(t, theirs)
			require.NoError(t, cmd.Start())

			// First send one command at a time and read each answer before the next command. This
			// is skipped for a file, where the reader would be too early. Then send all commands
			// before reading any answer.
			lines := bufio.NewScanner(ours)
			lines.Buffer(nil, 1<<20)
			for i := range 3 {
				if name == "file" {
					break
				}
				_, err = fmt.Fprintf(in, `{"id":"single %d","type":"get_state"}`+"\n", i)
				require.NoError(t, err)
				require.True(t, lines.Scan())
				require.Equal(t, fmt.Sprint("single ", i), gjson.GetBytes(lines.Bytes(), "id").Str)
			}
			for line := range strings.Lines(input.String()) { // one write per line
				_, err = io.WriteString(in, line)
				require.NoError(t, err)
			}
			require.NoError(t, in.Close())
			assert.Equal(t, before, flags(t, theirs), "somebody else's descriptor was changed")
			require.NoError(t, theirs.Close())
			if name == "file" {
				require.NoError(t, cmd.Wait())
			}
			for i := range n {
				require.True(t, lines.Scan(), "%d: %v", i, lines.Err())
				require.Equal(t, fmt.Sprint(i), gjson.GetBytes(lines.Bytes(), "id").Str)
			}
			require.False(t, lines.Scan())
			if name != "file" {
				require.NoError(t, cmd.Wait())
			}
		})
	}
}
