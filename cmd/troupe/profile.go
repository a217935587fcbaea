package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profile records what the process spends, into cpu.pprof and, when done is
// called, allocs.pprof of a directory.
func profile(dir string) (done func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		report(cpu.Close())
		allocs, err := os.Create(filepath.Join(dir, "allocs.pprof"))
		if err != nil {
			report(err)
			return
		}
		runtime.GC()
		report(pprof.Lookup("allocs").WriteTo(allocs, 0))
		report(allocs.Close())
	}, nil
}

func report(err error) {
	if err != nil {
		fmt.Fprintln(stderr, "troupe: profile:", err)
	}
}
