package extension

import (
	"errors"
	"maps"
	"slices"
	"sync"

	words "troupe/protocol/extension"
	"troupe/tools"
)

// Children is hosts in processes of their own: one for all sessions without a sandbox, and
// one for those that have the same sandbox, which binds the whole process.
type Children struct {
	o ChildOptions

	mu     sync.Mutex
	list   map[tools.Sandbox]*Child
	closed bool
}

// NewChildren starts nothing yet. The sandbox is what sessions say.
func NewChildren(o ChildOptions) *Children {
	return &Children{o: o, list: map[tools.Sandbox]*Child{}}
}

// Open begins a VM in the process for its sandbox.
func (c *Children) Open(spec words.Spec, sink func(words.Said)) words.VM {
	return c.of(sandboxOf(spec)).Open(spec, sink)
}

// Warm starts the process of sessions without a sandbox, which takes as long as the start of
// the daemon: beside that, it costs no time. One that does not start is started again when a
// session wants it, and says then why not.
func (c *Children) Warm() { _, _ = c.of(tools.Sandbox{}).running(false) }

func (c *Children) of(sandbox tools.Sandbox) *Child {
	c.mu.Lock()
	defer c.mu.Unlock()
	child := c.list[sandbox]
	if child == nil {
		o := c.o
		o.Sandbox = sandbox
		child = NewChild(o)
		child.closed = c.closed
		c.list[sandbox] = child
	}
	return child
}

// Close ends all processes. It waits a bounded time.
func (c *Children) Close() error {
	c.mu.Lock()
	c.closed = true
	list := slices.Collect(maps.Values(c.list))
	c.mu.Unlock()
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, child := range list {
		all.Go(func() { errs[i] = child.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

func sandboxOf(spec words.Spec) tools.Sandbox {
	s := tools.Sandbox{Files: tools.SandboxFiles(spec.Sandbox), NoNetwork: spec.NoNetwork}
	if s.Files == tools.SandboxWorkspace {
		s.Workspace = spec.Cwd
		s = s.With(spec.Places)
	}
	return s
}
