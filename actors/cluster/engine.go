package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// What engines have in common.

// Begin takes the steps with which an engine begins, each until it is done or another try is of no use. Where
// one fails e is closed and not returned.
func Begin[E io.Closer](ctx context.Context, e E, steps ...func(context.Context) error) (begun E, err error) {
	for _, step := range steps {
		for err := step(ctx); err != nil; err = step(ctx) {
			again := errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown)
			if !again || pause(ctx, longestWait) != nil {
				return begun, errors.Join(err, e.Close())
			}
		}
	}
	return e, nil
}

// pause waits; it fails when ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Harmless is the error of what may be asked twice: whether it was done does not matter.
func Harmless(err error) error {
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// CheckName fails with ErrSettings for what no session and no node is called.
func CheckName[T ~string](name T) error {
	if !Valid(string(name)) {
		return fmt.Errorf("%w: %q is no name of a session or a node", ErrSettings, name)
	}
	return nil
}

// Common is what every engine has: what was heard of nodes, and who is told what is wrong. It is safe for
// concurrent use; of the zero value nobody is told.
type Common struct {
	Tell  func(string)
	Looks bool // see Refuse

	nodes sync.Map // what was heard of each, by its name
}

// Warn tells whoever runs this node.
func (c *Common) Warn(format string, args ...any) {
	if c.Tell != nil {
		c.Tell(fmt.Sprintf(format, args...))
	}
}

// Refuse is the error of settings on which no node starts; who only looks at what is there, or has it moved, is told.
func (c *Common) Refuse(err error) error {
	if err != nil && c.Looks {
		c.Warn("no node would start: %v", err)
		err = nil
	}
	return err
}

// Damaged is that of [Log].
func (c *Common) Damaged(id SessionID, source string, err error) {
	c.Warn("session %s: %s gives a damaged log: %v", id, source, err)
}

// Hear takes what a node has said of itself: it may be older than what was heard before, which its beat says. It fails
// with ErrDamaged.
func (c *Common) Hear(body []byte) error {
	var n Node
	if err := json.Unmarshal(body, &n); err != nil || !Valid(n.Name) {
		return fmt.Errorf("%w: a node says %q", ErrDamaged, body)
	}
	c.nodes.Store(n.Name, n)
	return nil
}

// Nodes is that of [Registry].
func (c *Common) Nodes() (nodes []Node) {
	for _, n := range c.nodes.Range {
		nodes = append(nodes, n.(Node))
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}
