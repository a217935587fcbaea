package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dropStart unmaps what is read-only of the executable: the start has looked at the
// initial values of every library that is linked, most of which this process never uses.
// A page that is wanted again comes back from the page cache.
func dropStart() {
	for _, p := range pieces() {
		if p.clean {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, p.from, p.to-p.from, unix.MADV_DONTNEED) // as if it had never been asked for
		}
	}
}

// piece is a part of the executable in memory.
type piece struct {
	from, to uintptr
	resident int  // kB
	clean    bool // cannot be written and has not been, by relocation: the file has all of it
}

// pieces reads /proc/self/smaps (proc(5)); nil if there is none.
func pieces() (list []piece) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	var p *piece
	for line := range strings.Lines(string(maps)) {
		line = strings.TrimSuffix(line, "\n")
		var from, to uintptr
		var access string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); n == 3 {
			if p = nil; strings.HasSuffix(line, " "+exe) {
				list = append(list, piece{from: from, to: to, clean: strings.HasPrefix(access, "r-")})
				p = &list[len(list)-1]
			}
			continue
		}
		if p == nil {
			continue
		}
		var kB int
		if n, _ := fmt.Sscanf(line, "Rss: %d", &kB); n == 1 {
			p.resident = kB
		}
		if n, _ := fmt.Sscanf(line, "Anonymous: %d", &kB); n == 1 {
			p.clean = p.clean && kB == 0
		}
	}
	return list
}
