package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watchParent calls gone when the process that started this one has ended. An
// embedder that is killed closes our stdin, but a wrapper between us may keep
// the pipe open; this sees its death, too. It costs nothing while waiting.
func watchParent(gone func()) {
	parent := os.Getppid()
	if parent <= 1 { // started by init, or by somebody in another namespace
		return
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil || os.Getppid() != parent {
		pollParent(parent, gone)
		return
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			pollParent(parent, gone)
			return
		}
		gone()
		return
	}
}

// pollParent is for kernels without pidfds.
func pollParent(parent int, gone func()) {
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	gone()
}
