package prelude

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed *.js
var files embed.FS

// Module is a module of the prelude.
type Module struct {
	ID       string   // the first of its names
	Names    []string // one that ends in /* stands for all below it
	File     string
	NodeOnly bool
	StandsIn bool // of what only Node has it is as much as packages need that merely import it
}

// Modules are all of them, by name.
var modules = sync.OnceValue(func() map[string]*Module {
	all := map[string]*Module{}
	for _, name := range names() {
		first, rest, _ := strings.Cut(beginning(name), "\n")
		list, ok := strings.CutPrefix(first, "// provides: ")
		if !ok {
			continue
		}
		m := &Module{File: name}
		if code, only := strings.CutPrefix(rest, "// node-only"); only {
			m.NodeOnly, m.StandsIn = true, strings.TrimSpace(code) != ""
		}
		for n := range strings.SplitSeq(list, ",") {
			m.Names = append(m.Names, strings.TrimSpace(n))
		}
		m.ID = m.Names[0]
		for _, n := range m.Names {
			all[n] = m
		}
	}
	return all
})

// names are the files of the prelude, in order.
func names() []string {
	list, err := fs.Glob(files, "*.js")
	if err != nil {
		panic(err) // the pattern is ours
	}
	slices.Sort(list)
	return list
}

// beginning is as much of a file as says what it is: to read all of them takes as long as to
// load ten extensions.
func beginning(name string) string {
	f, err := files.Open(name)
	if err != nil {
		panic(err) // it is built in
	}
	defer f.Close()
	b := make([]byte, 1<<10)
	n, err := f.Read(b)
	if err != nil {
		panic(err)
	}
	return string(b[:n])
}

// Source is its JavaScript.
func (m *Module) Source() string { return read(m.File) }

func read(name string) string {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is built in
	}
	return string(data)
}

// Find gives the module that a name stands for.
func Find(name string) (*Module, bool) {
	all := modules()
	if m, ok := all[name]; ok {
		return m, true
	}
	for dir := name; ; {
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return nil, false
		}
		dir = dir[:i]
		if m, ok := all[dir+"/*"]; ok {
			return m, true
		}
	}
}

// Core is the dispatcher: a script that evaluates to a function.
func Core() string { return read("core.js") }

// Version changes with every change of the prelude.
var Version = sync.OnceValue(func() string {
	sum, block := sha256.New(), make([]byte, 64<<10)
	for _, name := range names() {
		f, err := files.Open(name)
		if err != nil {
			panic(err) // it is built in
		}
		sum.Write([]byte("\x00" + name + "\x00"))
		if _, err := io.CopyBuffer(sum, f, block); err != nil {
			panic(err)
		}
		f.Close()
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})
