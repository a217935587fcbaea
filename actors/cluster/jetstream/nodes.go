package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"troupe/actors/cluster"
)

// listen hears the beats of all nodes, and begins with those that are stored.
func (e *Engine) listen(ctx context.Context) error {
	hear := func(m *nats.Msg) {
		var n cluster.Node
		if json.Unmarshal(m.Data, &n) != nil || !cluster.Valid(n.Name) {
			return
		}
		e.heard.Lock()
		defer e.heard.Unlock()
		if old := e.nodes[n.Name]; old.Boot != n.Boot || old.Beat <= n.Beat {
			e.nodes[n.Name] = n
		}
	}
	sub, err := e.nc.Subscribe("t.heard.*", hear)
	if err != nil {
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	err = messages(ctx, e.nc, "NODES", map[string]any{"multi_last": []string{"t.node.*"}}, func(m *nats.Msg) error {
		hear(m)
		return nil
	})
	if err != nil {
		_ = sub.Unsubscribe()
	}
	return err
}

// Nodes is that of [cluster.Registry].
func (e *Engine) Nodes() []cluster.Node {
	e.heard.Lock()
	defer e.heard.Unlock()
	var nodes []cluster.Node
	for _, name := range slices.Sorted(maps.Keys(e.nodes)) {
		nodes = append(nodes, e.nodes[name])
	}
	return nodes
}

// Node is that of [cluster.Registry]: the leader is asked.
func (e *Engine) Node(ctx context.Context, name string) (cluster.Node, bool, error) {
	n, seq, err := e.node(ctx, name)
	return n, seq > 0, err
}

func (e *Engine) node(ctx context.Context, name string) (n cluster.Node, seq uint64, err error) {
	if !cluster.Valid(name) {
		return n, 0, fmt.Errorf("%w: %q is no name of a node", cluster.ErrSettings, name)
	}
	s, _, err := e.fromLeader(ctx, "NODES", map[string]any{"last_by_subj": "t.node." + name})
	if absent(err) {
		return n, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(s.Message.Data, &n)
	}
	return n, s.Message.Seq, err
}

// Beat is that of [cluster.Registry]. Each beat follows the one before it: of two processes with one
// name the elder's finds the younger's first.
func (e *Engine) Beat(ctx context.Context, n cluster.Node) error {
	if !cluster.Valid(n.Name) {
		return fmt.Errorf("%w: %q is no name of a node", cluster.ErrSettings, n.Name)
	}
	e.beating.Lock()
	defer e.beating.Unlock()
	if e.boot != n.Boot {
		_, seq, err := e.node(ctx, n.Name)
		if err != nil {
			return err
		}
		e.beat = seq
	}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	seq, err := e.publish(ctx, "NODES", "t.node."+n.Name, e.beat, nil, body)
	if err == nil {
		e.boot, e.beat = n.Boot, seq
		return nil
	}
	if !errors.Is(err, cluster.ErrConflict) {
		return err
	}
	there, seq, lookErr := e.node(ctx, n.Name)
	switch {
	case lookErr != nil:
		return lookErr
	case there.Boot == n.Boot: // an earlier beat of which nobody has said so
		e.boot, e.beat = n.Boot, seq
		if there.Beat == n.Beat {
			return nil
		}
	case e.boot == n.Boot && seq > e.beat:
		return cluster.ErrFenced
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
}

// SetIndex is that of [cluster.Index].
func (e *Engine) SetIndex(ctx context.Context, id cluster.SessionID, text []byte) error {
	if !cluster.Valid(string(id)) {
		return fmt.Errorf("%w: %q is no session", cluster.ErrSettings, id)
	}
	return e.call(ctx, &nats.Msg{Subject: "t.index." + string(id), Data: text}, nil)
}

// Indexed is that of [cluster.Index].
func (e *Engine) Indexed(ctx context.Context, ids []cluster.SessionID) (map[cluster.SessionID][]byte, error) {
	texts := map[cluster.SessionID][]byte{}
	for part := range slices.Chunk(ids, batch) {
		var subjects []string
		for _, id := range part {
			if cluster.Valid(string(id)) {
				subjects = append(subjects, "t.index."+string(id))
			}
		}
		err := messages(ctx, e.nc, "INDEX", map[string]any{"multi_last": subjects, "batch": batch}, func(m *nats.Msg) error {
			texts[cluster.SessionID(strings.TrimPrefix(m.Header.Get("Nats-Subject"), "t.index."))] = m.Data
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return texts, nil
}
