package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime reads the processor clock of another process.
func cpuTime(pid int) (float64, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|2), &ts) // CPUCLOCK_SCHED of the process
	return float64(ts.Nano()) / 1e9, err
}

// watchEnd returns a channel that receives the time at which a process ended.
func watchEnd(pid int) (<-chan time.Time, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	at := make(chan time.Time, 1)
	go func() {
		defer unix.Close(fd)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, _ := unix.Poll(fds, 10_000)
			if n == 1 {
				at <- time.Now()
				return
			}
			if n == 0 {
				close(at)
				return
			}
		}
	}()
	return at, nil
}
