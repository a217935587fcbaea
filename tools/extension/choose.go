package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	words "troupe/protocol/extension"
	"troupe/tools"
	"troupe/tools/extension/bundle"
)

// Engines that run extensions.
const (
	EngineAuto  = ""      // Node's where one of a session's extensions needs it and it is there, else quick
	EngineQuick = "quick" // the one that is built in
	EngineNode  = "node"
)

// found is an extension as it is loaded, or why it cannot be.
type found struct {
	entry *bundle.Entry
	err   error
}

// find reads or bundles the extensions of a session. Who they need decides what runs them.
func (v *vm) find() []found {
	list := make([]found, len(v.spec.Entries))
	for i, e := range v.spec.Entries {
		if why := v.broken[e.Path]; why != "" {
			list[i].err = errors.New(why)
			continue
		}
		if entry, ok := v.host.cache.Get(e.Path); ok {
			list[i].entry = entry
		} else if entry, ok := v.host.nodes.Get(e.Path); ok {
			list[i].entry = entry
		} else {
			list[i] = bundled1(e.Path)
		}
	}
	return list
}

func bundled1(path string) found {
	b, err := bundle.Extension(path, bundled)
	if err != nil {
		return found{err: err}
	}
	return found{entry: &bundle.Entry{Bundle: *b}}
}

// engine is what runs the extensions of a session: all of them, since they share one realm.
func (v *vm) engine(list []found) (engine, error) {
	node, why := v.wantsNode(list)
	if node == "" {
		for i, f := range list {
			switch {
			case f.entry == nil:
			case v.host.o.Engine == EngineNode:
				list[i] = found{err: fmt.Errorf("extensions are to run in Node.js: %w", why)}
			case f.entry.ForNode: // bundled when there was one
				list[i] = bundled1(v.spec.Entries[i].Path)
				fallthrough
			default:
				v.lacksNode(v.spec.Entries[i].Path, list[i].entry, why)
			}
		}
		return newQuick(v)
	}
	for i, f := range list {
		if f.entry != nil && !f.entry.ForNode && f.entry.Code != nil { // bytecode is not for Node
			if entry, ok := v.host.nodes.Get(v.spec.Entries[i].Path); ok {
				list[i].entry = entry
			} else {
				list[i] = bundled1(v.spec.Entries[i].Path)
			}
		}
	}
	return newNode(v, node)
}

// wantsNode is the program that runs the extensions, "" for the engine that is built in;
// the error says why it is that although they need Node.
func (v *vm) wantsNode(list []found) (program string, err error) {
	switch v.host.o.Engine {
	case EngineQuick:
		return "", errors.New("--extension-host is quick")
	case EngineNode:
		return v.host.findNode()
	}
	needs := func(f found) bool {
		if f.entry == nil {
			return false
		}
		_, ok := f.entry.NeedsNode()
		return ok
	}
	if !slices.ContainsFunc(list, needs) {
		return "", nil
	}
	return v.host.findNode()
}

// lacksNode says which part of an extension is not there.
func (v *vm) lacksNode(path string, e *bundle.Entry, why error) {
	if e == nil {
		return
	}
	if i, ok := e.NeedsNode(); ok {
		v.sink(words.Log{Level: "warn", Text: fmt.Sprintf("extension %s imports %s in %s: what only Node.js has of it throws when it is used (%s)", path, i.Name, i.By, why)})
	}
}

// gates are the events that an extension guards that cannot be loaded.
func (h *Inline) gates(path string) []string {
	return bundle.Gates(path, h.cache, h.nodes)
}

// oldestNode is the oldest major version of Node that will do.
const oldestNode = 20

// nodeProgram is Node as it was found.
type nodeProgram struct {
	once sync.Once
	path string
	err  error
}

// findNode finds Node: TROUPE_NODE, or what PATH has. It is started once to see whether it is new
// enough.
func (h *Inline) findNode() (string, error) {
	n := &h.node
	n.once.Do(func() {
		n.path = cmp.Or(os.Getenv("TROUPE_NODE"), "node")
		version, err := versionOf(n.path, h.o.Guard)
		if errors.Is(err, tools.ErrNoProgram) || errors.Is(err, os.ErrNotExist) {
			//lint:ignore ST1005 Node.js is a name
			n.path, n.err = "", errors.New("Node.js was not found in TROUPE_NODE or PATH")
			return
		}
		major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		if m, e := strconv.Atoi(major); err != nil || e != nil || m < oldestNode {
			n.path, n.err = "", fmt.Errorf("%s is not Node.js %d or newer: it says %q", n.path, oldestNode, version)
		}
	})
	return n.path, n.err
}

// versionWait is how long Node may take to say which it is.
const versionWait = 5 * time.Second

func versionOf(program string, guard *tools.Guard) (string, error) {
	procs := tools.NewProcs(guard)
	defer procs.KillAll(0)
	p, err := tools.Spawn(tools.SpawnSpec{Procs: procs, Command: program, Args: []string{"--version"}, Env: os.Environ()})
	if err != nil {
		return "", err
	}
	p.Stdin.Close()
	defer p.Stdout.Close()
	defer p.Stderr.Close()
	ctx, cancel := context.WithTimeout(context.Background(), versionWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { procs.KillAll(0) })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(p.Stdout, 1<<10))
	return strings.TrimSpace(string(text)), err
}
