package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"troupe/actors/cluster"
)

// Client writes to sessions and reads them through whichever node answers. A command is repeated
// with its key until it is answered, now and then although it was, and now and then given up.
type Client struct {
	Name     string
	Sessions []cluster.SessionID
	Nodes    int
	// Do asks a node. An error says that nobody knows what became of it.
	Do      func(ctx context.Context, node int, c Command) (Answer, error)
	Try     time.Duration        // how long it waits for an answer
	Pause   func() time.Duration // between commands, at most; nil for none
	History *History
	Rand    *rand.Rand
	// Answered is told how long a session took for a command; nil for nobody.
	Answered func(session cluster.SessionID, begun, ended time.Time)

	n    int
	last map[cluster.SessionID]int // acknowledged
	at   int
}

// Run works until ctx ends.
func (c *Client) Run(ctx context.Context) {
	c.last = map[cluster.SessionID]int{}
	c.at = c.Rand.IntN(c.Nodes)
	for ctx.Err() == nil {
		session := c.Sessions[c.Rand.IntN(len(c.Sessions))]
		if c.Rand.IntN(6) == 0 {
			c.read(ctx, session)
		} else {
			c.put(ctx, session)
		}
		if c.Pause != nil {
			select {
			case <-time.After(time.Duration(c.Rand.Int64N(int64(c.Pause())))):
			case <-ctx.Done():
			}
		}
	}
}

func (c *Client) ask(ctx context.Context, cmd Command) (Answer, bool) {
	one, cancel := context.WithTimeout(ctx, c.Try)
	defer cancel()
	a, err := c.Do(one, c.at, cmd)
	switch {
	case err != nil && c.Nodes > 1: // who is not answered asks another node
		c.at = (c.at + 1 + c.Rand.IntN(c.Nodes-1)) % c.Nodes
	case a.Err != "":
		c.at = c.Rand.IntN(c.Nodes)
	}
	return a, err == nil && a.Err == ""
}

func (c *Client) put(ctx context.Context, session cluster.SessionID) {
	c.n++
	cmd := Command{Op: "put", Session: session, Key: fmt.Sprintf("%s/%d", c.Name, c.n)}
	for begun := time.Now(); ; {
		a, ok := c.ask(ctx, cmd)
		if ok {
			if c.Answered != nil {
				c.Answered(session, begun, time.Now())
			}
			c.History.Acked(cmd, a)
			if !a.Hidden {
				c.last[session] = c.n
			}
			if c.Rand.IntN(10) > 0 {
				return
			}
			c.at = c.Rand.IntN(c.Nodes) // again on purpose, through another node
			if a, ok := c.ask(ctx, cmd); ok && !a.Replayed {
				c.History.violated("C3: %s was acknowledged, and done again in record %d", cmd.Key, a.Seq)
			}
			return
		}
		if ctx.Err() != nil || a.Final || c.Rand.IntN(40) == 0 {
			c.History.Abandoned(cmd.Key)
			return
		}
		select {
		case <-time.After(time.Duration(10+c.Rand.IntN(40)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (c *Client) read(ctx context.Context, session cluster.SessionID) {
	cmd := Command{Op: "get", Session: session, Key: c.Name + "/"}
	known := c.last[session]
	if c.Rand.IntN(2) == 0 {
		c.at = c.Rand.IntN(c.Nodes)
	}
	if a, ok := c.ask(ctx, cmd); ok && (!a.Hidden || a.Last == "") {
		c.History.Read(cmd, a, known)
	}
}
