package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// What engines have in common.

// Again does something until it is done, or another try is of no use.
func Again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
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
	Tell func(string)

	mu    sync.Mutex // guards what follows
	nodes map[string]Node
}

// Warn tells whoever runs this node.
func (c *Common) Warn(format string, args ...any) {
	if c.Tell != nil {
		c.Tell(fmt.Sprintf(format, args...))
	}
}

// Damaged is that of [Log].
func (c *Common) Damaged(id SessionID, source string, err error) {
	c.Warn("session %s: %s gives a damaged log: %v", id, source, err)
}

// Hear takes what a node has said of itself, unless something newer was heard. It fails with ErrDamaged.
func (c *Common) Hear(body []byte) error {
	var n Node
	if err := json.Unmarshal(body, &n); err != nil || !Valid(n.Name) {
		return fmt.Errorf("%w: a node says %q", ErrDamaged, body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil {
		c.nodes = map[string]Node{}
	}
	if old := c.nodes[n.Name]; old.Boot != n.Boot || old.Beat <= n.Beat {
		c.nodes[n.Name] = n
	}
	return nil
}

// Nodes is that of [Registry].
func (c *Common) Nodes() (nodes []Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		nodes = append(nodes, c.nodes[name])
	}
	return nodes
}
