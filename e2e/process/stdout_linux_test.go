package process

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"troupe/e2e/harness"
)

// TestStdoutRoom checks that the stdout pipe is enlarged to 1 MiB, enough for the events of
// aborting a hundred tasks.
func TestStdoutRoom(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	ours, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer ours.Close()
	cmd := exec.Command(harness.Binary, "--mode", "rpc")
	cmd.Dir, cmd.Env, cmd.Stdout = p.Work, p.Environ(), theirs
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	_, err = in.Write([]byte(`{"type":"ping"}` + "\n"))
	require.NoError(t, err)
	_, err = ours.Read(make([]byte, 1<<10))
	require.NoError(t, err)
	room, err := unix.FcntlInt(ours.Fd(), unix.F_GETPIPE_SZ, 0)
	require.NoError(t, err)
	require.Equal(t, 1<<20, room)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
