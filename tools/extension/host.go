package extension

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	words "troupe/protocol/extension"
	"troupe/tools"
	"troupe/tools/extension/bundle"
	"troupe/tools/extension/prelude"
	"troupe/tools/extension/quick"
)

// Limits bound what extensions may use.
type Limits struct {
	Turn     time.Duration // of JavaScript without a break
	Hook     time.Duration // of a handler without an open dialog or operation
	Load     time.Duration // of a module and its factory
	Shutdown time.Duration // of the handlers of session_shutdown
	Memory   int64         // bytes of a VM's heap
	Ops      int           // open operations of a VM
	Recycles int           // within RecycleIn: more, and a session has no extensions
}

const recycleIn = time.Minute

// DefaultLimits are the usual ones.
func DefaultLimits() Limits {
	return Limits{Turn: 5 * time.Second, Hook: 30 * time.Second, Load: 10 * time.Second, Shutdown: 5 * time.Second, Memory: 256 << 20, Ops: 1024, Recycles: 3}
}

// Options of a host.
type Options struct {
	Limits    Limits
	CacheDir  string       // of bytecode; "" keeps none
	Guard     *tools.Guard // ends the processes of extensions when this one dies
	Files     *tools.Files // locks of the built-in tools
	ExecPath  string       // what process.execPath says; "" is this program
	Version   string       // of troupe
	PiVersion string       // of the pi that we stand for
	// Models gives the models of a provider that are known, with or without a key, as
	// JSON; of all providers for "". nil knows none.
	Models func(provider string) []byte
	// ProviderName says what a provider is called; nil knows none.
	ProviderName func(provider string) string
	Engine       string // EngineAuto, EngineQuick or EngineNode
	InDaemon     bool   // no sandbox binds this process: sessions that have one get no extensions
	Turns        Turns  // on which goroutines VMs run; nil is one that is new for whatever comes

	clock func() func() time.Duration // makes the clock of a VM's turns, in tests; nil is the monotonic clock
}

// Inline is a host in this process.
type Inline struct {
	o     Options
	cache *bundle.Cache // of bytecode
	nodes *bundle.Cache // of scripts for Node
	node  nodeProgram
	codes codes
	tools *tools.Registry

	mu     sync.Mutex
	vms    map[*vm]bool
	closed bool
	kills  sync.WaitGroup // of processes whose VM is gone
}

// NewInline begins no VM yet.
func NewInline(o Options) *Inline {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Turns == nil {
		o.Turns = goroutines{}
	}
	h := &Inline{o: o, vms: map[*vm]bool{}, tools: tools.New()}
	if o.CacheDir != "" {
		h.cache, h.nodes = bundle.OpenCache(o.CacheDir, "", cacheVersion), bundle.OpenCache(o.CacheDir, "node:", cacheVersion)
	}
	h.codes.dir = o.CacheDir
	return h
}

// CacheDir is where bytecode is kept by default, "" if there is no place for it.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "troupe", "ext")
}

// Open begins a VM.
func (h *Inline) Open(spec words.Spec, sink func(words.Said)) words.VM {
	v := newVM(h, spec, sink)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		go sink(words.Gone{Why: "the host is closed"})
		return v
	}
	if h.o.InDaemon && sandboxOf(spec).On() {
		go sink(words.Gone{Why: "the daemon, in which extensions are to run, cannot be put into a sandbox: choose another --extension-host"})
		return v
	}
	h.vms[v] = true
	go v.run()
	return v
}

// Close ends all VMs at once and waits for them.
func (h *Inline) Close() error {
	h.mu.Lock()
	h.closed = true
	list := slices.Collect(maps.Keys(h.vms))
	h.mu.Unlock()
	for _, v := range list {
		v.stop("the host is closed")
	}
	for _, v := range list {
		<-v.gone
	}
	h.kills.Wait()
	return nil
}

func (h *Inline) forget(v *vm) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.vms, v)
}

// provides says what the prelude has for an import.
func provides(name string) (string, bundle.Provided) {
	m, ok := prelude.Find(name)
	switch {
	case !ok:
		return name, bundle.Foreign
	case m.NodeOnly:
		return m.ID, bundle.NodeOnly
	}
	return m.ID, bundle.Shim
}

var bundled = bundle.Options{Provides: provides}

// codes is the prelude as bytecode, made once a process and kept for the next one.
type codes struct {
	dir  string
	mu   sync.Mutex
	made map[string][]byte
}

// warm reads what every VM begins with, while nobody wants one yet.
func (h *Inline) warm() {
	_, _ = h.codes.of(nil, "core.js", prelude.Core)
	_, _ = prelude.Find("")
}

// of gives the bytecode of a script. A VM of anybody compiles it; without one, only what is
// kept is given.
func (c *codes) of(js *quick.VM, name string, source func() string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code, ok := c.made[name]; ok {
		return code, nil
	}
	file := bundle.Blob{Dir: c.dir, Name: "prelude-" + name, Version: cacheVersion()}
	code, ok := file.Read()
	if !ok {
		if js == nil {
			return nil, nil
		}
		var err error
		if code, err = js.Compile("troupe:"+name, source(), false, quick.KeepLines); err != nil {
			return nil, err
		}
		file.Write(code)
	}
	if c.made == nil {
		c.made = map[string][]byte{}
	}
	c.made[name] = code
	return code, nil
}
