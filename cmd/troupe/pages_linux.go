package main

import (
	"bufio"
	"os"
	"strconv"
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

// pieces reads /proc/self/smaps (proc(5)) as far as the executable goes, which is mapped
// first: what lies behind it takes longer to count. nil if there is none.
func pieces() (list []piece) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer func() { _ = maps.Close() }()
	var p *piece
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch kB := strings.TrimSuffix(strings.TrimSpace(value), " kB"); name {
		case "Rss:":
			p.resident, _ = strconv.Atoi(kB)
		case "Anonymous:":
			p.clean = p.clean && kB == "0"
		default:
			from, to, is := strings.Cut(name, "-")
			if !is || strings.HasSuffix(name, ":") {
				continue
			}
			if !strings.HasSuffix(value, " "+exe) {
				return list
			}
			list = append(list, piece{clean: strings.HasPrefix(value, "r-")})
			p = &list[len(list)-1]
			p.from, p.to = address(from), address(to)
		}
	}
	return list
}

func address(hex string) uintptr {
	n, _ := strconv.ParseUint(hex, 16, 64)
	return uintptr(n)
}
