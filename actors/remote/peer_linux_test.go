package remote

import (
	"bytes"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process of another user is turned away, even where the socket can be reached.
func TestSocketOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	l, err := net.Listen("unix", "@"+t.Name()) // its name has no directory that would keep anybody out
	require.NoError(t, err)
	defer l.Close()
	address := &syscall.SockaddrUnix{Name: "@" + t.Name()}
	connected := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which is somebody else, ends with this
		const nobody = 65534
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); e != 0 {
			connected <- -1
			return
		}
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			err = syscall.Connect(fd, address)
		}
		if err != nil {
			fd = -1
		}
		connected <- fd
	}()
	fd := <-connected
	require.GreaterOrEqual(t, fd, 0)
	c, err := l.Accept()
	require.NoError(t, err)
	var log bytes.Buffer
	s := New(Config{Log: zerolog.New(&log)})
	s.takeLines(c)
	assert.Contains(t, log.String(), "user 65534 is not this one")
	theirs := os.NewFile(uintptr(fd), "client")
	defer theirs.Close()
	said, err := io.ReadAll(theirs)
	assert.NoError(t, err)
	assert.Empty(t, said)
	assert.Zero(t, s.connections)
}
