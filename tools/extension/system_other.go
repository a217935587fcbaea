//go:build !linux

package extension

import (
	"io/fs"
	"runtime"
	"time"
)

func systemNames() (release, version, name string) { return "", "", runtime.GOOS }

func totalMemory() uint64 { return 0 }

// statRecord is a file as Node describes it, as far as every system knows.
func statRecord(info fs.FileInfo) map[string]any {
	kinds := map[string]uint32{"file": 0o100000, "dir": 0o040000, "link": 0o120000, "fifo": 0o010000, "socket": 0o140000, "char": 0o020000, "block": 0o060000}
	ms := float64(info.ModTime().UnixNano()) / 1e6
	return map[string]any{
		"size": info.Size(), "mode": uint32(info.Mode().Perm()) | kinds[kindOf(info.Mode())], "nlink": 1, "uid": 0, "gid": 0, "dev": 0, "ino": 0,
		"blocks": (info.Size() + 511) / 512, "blksize": 4096, "atimeMs": ms, "mtimeMs": ms, "ctimeMs": ms, "birthtimeMs": ms,
	}
}

func cpuOf(int) time.Duration { return -1 }
