package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestStdinKinds checks that every kind of stdin is read to its end and that its file flags are
// unchanged for other processes that share it.
func TestStdinKinds(t *testing.T) {
	const input = `{"id":"1","type":"get_state"}` + "\n" + `{"id":"2","type":"get_state"}` + "\n"
	for name, open := range conduits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t)
			theirs, ours := open(t)
			defer theirs.Close()
			write := func() {
				_, err := ours.WriteString(input)
				require.NoError(t, err)
			}
			if name == "file" { // whose end is reached at once
				write()
			}
			cmd := exec.Command(harness.Binary, "--mode", "rpc")
			cmd.Dir, cmd.Env = p.Work, p.Environ()
			cmd.Stdin = theirs
			var out strings.Builder
			cmd.Stdout = &out
			_ = theirs.Fd() // puts it into blocking mode, as exec would
			before := flags(t, theirs)
			require.NoError(t, cmd.Start())
			if name != "file" {
				write()
			}
			require.NoError(t, ours.Close())
			require.NoError(t, cmd.Wait())
			assert.Equal(t, 2, strings.Count(out.String(), `"command":"get_state"`), out.String())
			assert.Equal(t, before, flags(t, theirs), "somebody else's descriptor was changed")
		})
	}
}

// conduits are the kinds of connections between processes, each with an end to read from and one to
// write to.
var conduits = map[string]func(t *testing.T) (r, w *os.File){
	"pipe": func(t *testing.T) (*os.File, *os.File) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		return r, w
	},
	"socket": func(t *testing.T) (*os.File, *os.File) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	},
	"named pipe": func(t *testing.T) (*os.File, *os.File) {
		path := filepath.Join(t.TempDir(), "fifo")
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		both, err := os.OpenFile(path, os.O_RDWR, 0) // so that neither end waits for the other
		require.NoError(t, err)
		defer both.Close()
		r, err := os.Open(path)
		require.NoError(t, err)
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		return r, w
	},
	"file": func(t *testing.T) (*os.File, *os.File) {
		path := filepath.Join(t.TempDir(), "file")
		w, err := os.Create(path)
		require.NoError(t, err)
		r, err := os.Open(path)
		require.NoError(t, err)
		return r, w
	},
}

// flags returns the flags of the open file, which processes share.
func flags(t *testing.T, f *os.File) uintptr {
	raw, err := f.SyscallConn()
	require.NoError(t, err)
	var got uintptr
	require.NoError(t, raw.Control(func(fd uintptr) {
		var errno syscall.Errno
		got, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		require.Zero(t, errno)
	}))
	return got
}
