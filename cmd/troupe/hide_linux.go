package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hideSecrets keeps from other programs what this one was started with. The
// kernel shows everybody of the same user the memory in which a process was
// given its environment and arguments (/proc/PID/environ, cmdline), and whatever
// a model runs is of the same user. So the values are copied and erased there,
// and no child can look into the rest of our memory either. Variables that the
// runtime reads by itself, and our own, by which daemons find their children,
// stay: they are no secrets.
func hideSecrets() {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if erased(name) {
			_ = os.Setenv(name, value) // into new memory; a name the system gave us is valid
		}
	}
	for i, arg := range os.Args {
		os.Args[i] = strings.Clone(arg)
	}
	args, env, ok := startMemory()
	if !ok {
		return // without /proc there is no such view either
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if name, value, found := bytes.Cut(kv, []byte{'='}); found && erased(string(name)) {
			clear(value)
		}
	}
	eraseKeys(args)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func erased(name string) bool {
	switch name {
	case "GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GOCOVERDIR", "GORACE":
		return false
	}
	return !strings.HasPrefix(name, "TROUPE_")
}

// eraseKeys overwrites the values of --api-key. The zero bytes between arguments
// stay: the kernel looks for the last one.
func eraseKeys(args []byte) {
	const flag = "--api-key"
	next := false
	for arg := range bytes.SplitSeq(args, []byte{0}) {
		value, inline := bytes.CutPrefix(arg, []byte(flag+"="))
		if next || inline {
			copy(value, bytes.Repeat([]byte{'*'}, len(value)))
		}
		next = string(arg) == flag
	}
}

// startMemory is where the kernel has put our arguments and environment.
func startMemory() (args, env []byte, ok bool) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return nil, nil, false
	}
	// pid (comm) state …, where comm may hold anything; arg_start is field 48.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const argStart = 48 - 3
	if len(fields) < argStart+4 {
		return nil, nil, false
	}
	var at [4]uintptr
	for i := range at {
		n, err := strconv.ParseUint(fields[argStart+i], 10, 64)
		if err != nil || n == 0 {
			return nil, nil, false
		}
		at[i] = uintptr(n)
	}
	return memory(at[0], at[1]), memory(at[2], at[3]), true
}

// memory is what lies between two addresses that the kernel named.
func memory(from, to uintptr) []byte {
	if to <= from {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&from)), to-from)
}
