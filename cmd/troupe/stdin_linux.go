package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// polled returns stdin so that the runtime's poller waits for input, and no
// thread: handing a line from a thread that was blocked to one that may run
// costs a third of an idle round trip. Only a pipe can be opened a second time,
// and must be: O_NONBLOCK on the descriptor that was inherited would hold for
// every process that has it, too. What cannot be polled is read as it is.
func polled(stdin *os.File) *os.File {
	if info, err := stdin.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return stdin
	}
	again, err := os.OpenFile("/proc/self/fd/0", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil { // no /proc, or the pipe is somebody else's
		return stdin
	}
	return again
}
