package main

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pipeOutput is a stdout that can also be written to without waiting, so that a
// short answer needs no other thread. Only a pipe can be opened a second time,
// and must be: O_NONBLOCK on the descriptor that was inherited would hold for
// every process that has it, too.
type pipeOutput struct {
	*os.File
	fd int // the second one; lives as long as the process
}

// socketOutput is the same for a socket, which is told with each call.
type socketOutput struct {
	*os.File
	fd int
}

// pipeRoom is how many bytes a pipe to the client is to hold, 64 KiB by default: what the
// abort of a hundred children says is written without waiting for the client, who then reads
// it in a few reads and not in ten, with a change of processes for each.
const pipeRoom = 1 << 20

// eager makes of stdout a conn.TryWriter, if that is possible.
func eager(stdout *os.File) io.Writer {
	info, err := stdout.Stat()
	if err != nil {
		return stdout
	}
	switch info.Mode() & os.ModeType {
	case os.ModeNamedPipe:
		// Not os.OpenFile: the runtime's poller would wake up whenever the client reads.
		if fd, err := unix.Open("/proc/self/fd/1", unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeRoom) // more than a user may have: as it is
			return pipeOutput{stdout, fd}
		} // no /proc, or the pipe is somebody else's
	case os.ModeSocket:
		return socketOutput{stdout, 1}
	}
	return stdout
}

func (p pipeOutput) TryWrite(b []byte) (int, error) { return tried(unix.Write(p.fd, b)) }

func (p socketOutput) TryWrite(b []byte) (int, error) {
	return tried(unix.SendmsgN(p.fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
}

func tried(n int, err error) (int, error) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}
