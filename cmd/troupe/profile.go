package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"

	"troupe/actors/session"
)

// profile records what the process spends, if --pprof wants that. When done is called,
// cpu.pprof and allocs.pprof of a directory have it.
func profile(dir string) (done func(), err error) {
	if dir == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var cpu, allocs bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		report(session.WriteOutput(filepath.Join(dir, "cpu.pprof"), cpu.Bytes()))
		runtime.GC()
		report(pprof.Lookup("allocs").WriteTo(&allocs, 0))
		report(session.WriteOutput(filepath.Join(dir, "allocs.pprof"), allocs.Bytes()))
	}, nil
}

func report(err error) {
	if err != nil {
		fmt.Fprintln(stderr, "troupe: profile:", err)
	}
}
