package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"troupe/actors/cluster"
)

// listen hears the beats of all nodes, and begins with those that are stored.
func (e *Engine) listen(ctx context.Context) error {
	hear := func(m *nats.Msg) { _ = e.Hear(m.Data) } // what is no node nobody has asked for; twice is once
	if _, err := e.nc.Subscribe("t.heard.*", hear); err != nil {
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	return messages(ctx, e.nc, "NODES", map[string]any{"multi_last": []string{"t.node.*"}}, func(m *nats.Msg) error {
		hear(m)
		return nil
	})
}

// Node is that of [cluster.Registry]: the leader is asked.
func (e *Engine) Node(ctx context.Context, name string) (cluster.Node, bool, error) {
	n, seq, err := e.node(ctx, name)
	return n, seq > 0, err
}

func (e *Engine) node(ctx context.Context, name string) (n cluster.Node, seq uint64, err error) {
	if err := cluster.CheckName(name); err != nil {
		return n, 0, err
	}
	s, _, err := e.fromLeader(ctx, "NODES", map[string]any{"last_by_subj": "t.node." + name})
	if err == nil && s.Message.Seq > 0 {
		err = json.Unmarshal(s.Message.Data, &n)
	}
	return n, s.Message.Seq, err
}

// Beat is that of [cluster.Registry]. Each beat follows the one before it: of two processes with one
// name the elder's finds the younger's first.
func (e *Engine) Beat(ctx context.Context, n cluster.Node) error {
	if err := cluster.CheckName(n.Name); err != nil {
		return err
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
	body, _ := json.Marshal(n)
	seq, err := e.publish(ctx, "NODES", "t.node."+n.Name, e.beat, nats.Header{}, body)
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
	case e.boot == n.Boot && seq > e.beat:
		return cluster.ErrFenced
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
}

// SetIndex is that of [cluster.Index].
func (e *Engine) SetIndex(ctx context.Context, id cluster.SessionID, text []byte) error {
	if err := cluster.CheckName(id); err != nil {
		return err
	}
	return e.call(ctx, &nats.Msg{Subject: "t.index." + string(id), Data: text}, nil)
}

// Indexed is that of [cluster.Index].
func (e *Engine) Indexed(ctx context.Context, ids []cluster.SessionID) (map[cluster.SessionID][]byte, error) {
	texts := map[cluster.SessionID][]byte{}
	for part := range slices.Chunk(ids, batch) {
		var subjects []string
		for _, id := range part {
			subjects = append(subjects, "t.index."+string(id))
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
