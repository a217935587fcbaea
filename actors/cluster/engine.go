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

// NodeTable is what was heard of nodes. It is safe for concurrent use; the zero value is empty.
type NodeTable struct {
	mu    sync.Mutex
	nodes map[string]Node
}

// Hear takes what a node has said of itself, unless something newer was heard. It fails with ErrDamaged.
func (t *NodeTable) Hear(body []byte) error {
	var n Node
	if err := json.Unmarshal(body, &n); err != nil || !Valid(n.Name) {
		return fmt.Errorf("%w: a node says %q", ErrDamaged, body)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil {
		t.nodes = map[string]Node{}
	}
	if old := t.nodes[n.Name]; old.Boot != n.Boot || old.Beat <= n.Beat {
		t.nodes[n.Name] = n
	}
	return nil
}

// Nodes is that of [Registry].
func (t *NodeTable) Nodes() (nodes []Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		nodes = append(nodes, t.nodes[name])
	}
	return nodes
}
