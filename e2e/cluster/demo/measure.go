package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"troupe/e2e/cluster/engines"
	"troupe/e2e/figures"
)

// sessionsARound is how many sessions are on the node that is killed.
const sessionsARound = 8

// measure loses a node again and again, each time with sessions on it, and asks each of them for
// something through another node at once. The answer is acknowledged: it is in the log.
func (d *demo) measure(ctx context.Context, rounds int) {
	d.hop()
	d.firstDelta()
	d.through()
	d.load()
	d.silence("killed", rounds, func(n *engines.Process) { n.Kill() }, func(n *engines.Process) {
		figures.Must(n.Start())
		d.up(ctx, n.Name)
	})
	d.silence("stopped", rounds, func(n *engines.Process) { n.Signal(syscall.SIGSTOP) }, func(n *engines.Process) { n.Signal(syscall.SIGCONT) })
	d.drain()
}

// silence says how long sessions are silent whose node is lost, until it is back.
func (d *demo) silence(how string, rounds int, lose, back func(n *engines.Process)) {
	var silent []time.Duration
	for round := range rounds {
		victim := []string{"bob", "cleo"}[round%2]
		c := d.dial("ada")
		sessions := c.sessionsOn(victim)
		lose(d.nodes[victim])
		lost := time.Now()
		ids := map[string]bool{}
		for _, s := range sessions {
			ids[c.say(map[string]any{"type": "set_session_name", "sessionId": s, "name": "after"})] = true
		}
		for len(ids) > 0 {
			m := c.next()
			if id, _ := m["id"].(string); ids[id] {
				if delete(ids, id); m["success"] != true {
					figures.Fail("after the node was %s: %v", how, m["error"])
				}
				silent = append(silent, time.Since(lost))
			}
		}
		_ = c.conn.Close()
		back(d.nodes[victim])
		time.Sleep(2 * time.Second) // the others have heard of it
	}
	fmt.Printf("node %s, next command acknowledged: %d sessions, p50 %.2f s, p90 %.2f s, p99 %.2f s, most %.2f s\n", how, len(silent),
		figures.P50(silent).Seconds(), figures.Quantile(silent, 0.9).Seconds(), figures.Quantile(silent, 0.99).Seconds(), slices.Max(silent).Seconds())
}

// sessionsOn opens sessions until there are some on a node.
func (c *client) sessionsOn(node string) (sessions []string) {
	for len(sessions) < sessionsARound {
		s, owner := c.open()
		c.rename(s, "before")
		if owner == node {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// drain has a node give its sessions up while they are asked for something all the time.
func (d *demo) drain() {
	c := d.dial("ada")
	sessions := c.sessionsOn("bob")
	drain := d.command("drain", "bob", "--cluster-dir", filepath.Join(d.dir, "keys", "ada"))
	figures.Must(drain.Start())
	drained := make(chan error, 1)
	go func() { drained <- drain.Wait() }()
	longest := make([]time.Duration, len(sessions))
	for over := false; !over; {
		select {
		case err := <-drained:
			over = true
			figures.Must(err)
		default:
		}
		for i, s := range sessions {
			begun := time.Now()
			c.rename(s, "n")
			longest[i] = max(longest[i], time.Since(begun))
		}
	}
	fmt.Printf("node drained: the longest a session took for a command, of %d: p50 %.3f s, most %.3f s\n", len(longest), figures.P50(longest).Seconds(), slices.Max(longest).Seconds())
}

// both opens a session, with a client of the node that has it, and one of another.
func (d *demo) both() (session, owner string, near, far *client) {
	far = d.dial("ada")
	session, owner = far.elsewhere("ada")
	near = d.dial(owner)
	near.ask(map[string]any{"type": "attach", "sessionId": session})
	return session, owner, near, far
}

// firstDelta compares how long a client waits for the first word of an answer, likewise.
func (d *demo) firstDelta() {
	session, _, near, far := d.both()
	took := map[*client][]time.Duration{}
	for range 40 {
		for _, c := range []*client{near, far} {
			begun := time.Now()
			c.say(map[string]any{"type": "prompt", "sessionId": session, "message": "first word"})
			c.until("message_update")
			took[c] = append(took[c], time.Since(begun))
			near.until("agent_settled")
			far.until("agent_settled")
		}
	}
	fmt.Printf("prompt, first delta: at its node p50 %.2f ms; through another p50 %.2f ms\n", figures.MS(figures.P50(took[near])), figures.MS(figures.P50(took[far])))
}

// until waits for an event of a kind.
func (c *client) until(kind string) {
	for c.next()["type"] != kind {
	}
}

// through says how many bytes a second come at the node itself and through another one, where nobody looks into them:
// the entries of a session with long ones, asked for again and again.
func (d *demo) through() {
	session, _, near, far := d.both()
	for range 16 {
		near.say(map[string]any{"type": "prompt", "sessionId": session, "message": "long " + strings.Repeat("words and ", 50_000)})
		near.until("agent_settled")
		far.until("agent_settled")
	}
	size, took := map[*client]int{}, map[*client]time.Duration{}
	for range 20 {
		for _, c := range []*client{near, far} {
			begun := time.Now()
			id := c.say(map[string]any{"type": "get_entries", "sessionId": session})
			size[c] += c.skip(id)
			took[c] += time.Since(begun)
		}
	}
	rate := func(c *client) float64 { return float64(size[c]) / 1e6 / took[c].Seconds() }
	fmt.Printf("%d MB of answers: at its node %.0f MB/s, through another %.0f MB/s\n", size[near]/1e6, rate(near), rate(far))
}

// skip reads up to the answer of a command, and says how many bytes that were.
func (c *client) skip(id string) (n int) {
	for answer := false; ; {
		line, err := c.in.ReadSlice('\n')
		n += len(line)
		answer = answer || bytes.Contains(line[:min(len(line), 300)], []byte(`"`+id+`"`))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			figures.Must(err)
		case answer:
			return n
		}
	}
}

// load says how long a session of 10,000 entries is not served when it is moved to a node that has no copy
// of it, and to one that has.
func (d *demo) load() {
	session, owner, near, far := d.both()
	const n = 10_000
	last := map[string]any{"type": "get_last_assistant_text", "sessionId": session}
	for i := range n {
		near.say(map[string]any{"type": "set_session_name", "sessionId": session, "name": fmt.Sprint("name ", i)})
		if i%100 == 99 {
			near.ask(last)
		}
	}
	took := map[string][]time.Duration{}
	for i := range 9 { // one that did not have it, and gets it with and without a copy, each time
		to := []string{"ada", owner}[i%2]
		for _, has := range []string{"no copy", "a copy"} {
			if has == "no copy" {
				d.forget(to, session)
			}
			begun := time.Now()
			near.ask(map[string]any{"type": "move_session", "sessionId": session, "node": to})
			far.ask(last)
			took[has] = append(took[has], time.Since(begun))
			if has == "no copy" {
				near.ask(map[string]any{"type": "move_session", "sessionId": session, "node": []string{owner, "ada"}[i%2]})
				far.ask(last)
			}
		}
	}
	for has, took := range took {
		fmt.Printf("a session of %d entries moved to a node that has %s of it: the next answer p50 %.0f ms, most %.0f ms later\n", n, has,
			figures.MS(figures.P50(took)), figures.MS(slices.Max(took)))
	}
}

// forget removes the copy that a node has of a session of another.
func (d *demo) forget(node, session string) {
	copies := figures.Get(filepath.Glob(filepath.Join(d.nodes[node].Dir, "troupe", "cluster", session+"*")))
	for _, file := range copies {
		figures.Must(os.Remove(file))
	}
}

// hop compares what a command costs at the node that has the session and through another one.
func (d *demo) hop() {
	session, _, near, far := d.both()
	const n = 3000
	for _, what := range []struct {
		name string
		cmd  map[string]any
	}{
		{"a read (get_state)", map[string]any{"type": "get_last_assistant_text", "sessionId": session}},
		{"an append (set_session_name)", map[string]any{"type": "set_session_name", "sessionId": session, "name": "n"}},
	} {
		took := map[*client][]time.Duration{}
		for range n / 30 { // in turns, so that both have the same machine
			for _, c := range []*client{near, far} {
				for range 30 {
					begun := time.Now()
					c.ask(what.cmd)
					took[c] = append(took[c], time.Since(begun))
				}
			}
		}
		p50 := func(c *client) float64 { return figures.MS(figures.P50(took[c])) }
		p99 := func(c *client) float64 { return figures.MS(figures.Quantile(took[c], 0.99)) }
		fmt.Printf("%s: at its node p50 %.3f ms, p99 %.3f ms; through another p50 %.3f ms, p99 %.3f ms; a hop is %.3f ms\n",
			what.name, p50(near), p99(near), p50(far), p99(far), p50(far)-p50(near))
	}
}
