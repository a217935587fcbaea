//go:build linux

// Package figures is what programs that measure have in common: how a process is, how times are
// spread, and that whatever goes wrong ends the measurement in one place.
package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type failure struct{ err error }

// Fail ends what is under way: see [Caught].
func Fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Must fails if there is an error.
func Must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get is a value that comes without an error.
func Get[T any](v T, err error) T {
	Must(err)
	return v
}

// Caught is deferred by who begins something, and gets the error with which that has failed.
func Caught(err *error) {
	switch f := recover().(type) {
	case nil:
	case failure:
		*err = f.err
	default:
		panic(f)
	}
}

// Memory is a line of /proc/PID/status, as VmRSS, in MB of 2^20 bytes.
func Memory(pid int, key string) float64 {
	return kilobytes(fmt.Sprintf("/proc/%d/status", pid), key)
}

// kilobytes reads a line in kB of a file of /proc, as MB.
func kilobytes(file, key string) float64 {
	raw := Get(os.ReadFile(file))
	_, rest, _ := strings.Cut(string(raw), key+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		Fail("no %s in %s", key, file)
	}
	return Get(strconv.ParseFloat(fields[0], 64)) / 1024
}

// PrivateMemory is the memory that a process has written and shares with no other (Anonymous
// of proc_pid_smaps(5)), in MB of 2^20 bytes. It is freed when the process ends. Pages of the
// executable do not count: all its processes share them, and the kernel may drop them.
// (Private_Dirty counts them as well while a new executable has not been written to disk.)
func PrivateMemory(pid int) float64 { return rollup(pid, "Anonymous") }

// ProportionalMemory is the resident memory of a process in which a shared page counts in
// proportion to the processes that share it (Pss), in MB of 2^20 bytes.
func ProportionalMemory(pid int) float64 { return rollup(pid, "Pss") }

func rollup(pid int, key string) float64 {
	return kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), key)
}

// Children are the processes that a process has started.
func Children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(raw)) {
			pids = append(pids, Get(strconv.Atoi(field)))
		}
	}
	return pids
}

// CPU is how long a process has computed so far, to the nanosecond.
func CPU(pid int) time.Duration {
	var ts unix.Timespec
	Must(unix.ClockGettime(int32(^pid<<3|2), &ts)) // CPUCLOCK_SCHED of the process
	return time.Duration(ts.Nano())
}

// End returns a channel that receives the time at which a process ended. It is closed if that
// does not happen.
func End(pid int) <-chan time.Time {
	fd := Get(unix.PidfdOpen(pid, 0))
	at := make(chan time.Time, 1)
	go func() {
		defer close(at)
		defer unix.Close(fd)
		n := -1
		for n < 0 { // a signal has come
			n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		}
		if n == 1 {
			at <- time.Now()
		}
	}()
	return at
}

// MS and US are a time in milliseconds and microseconds.
func MS(d time.Duration) float64 { return float64(d) / 1e6 }
func US(d time.Duration) float64 { return float64(d) / 1e3 }

// Quantile sorts times, of which there have to be some, and is the one below which the part q
// of them are.
func Quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		Fail("nothing was measured")
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

// P50 is their median.
func P50(d []time.Duration) time.Duration { return Quantile(d, 0.5) }
