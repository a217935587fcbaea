package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// sessionsARound is how many sessions are on the node that is killed.
const sessionsARound = 8

// measure kills a node again and again, each time with sessions on it, and asks each of them for
// something through another node at once. The answer is acknowledged: it is in the log.
func (d *demo) measure(ctx context.Context, rounds int) error {
	for _, of := range []func() error{d.hop, d.firstDelta, d.load} {
		if err := of(); err != nil {
			return err
		}
	}
	var silent []time.Duration
	for round := range rounds {
		victim := []string{"bob", "cleo"}[round%2]
		c, err := d.dial("ada")
		if err != nil {
			return err
		}
		var sessions []string
		for len(sessions) < sessionsARound {
			s, owner, err := c.open()
			if err != nil {
				return err
			}
			if _, err := c.ask(map[string]any{"type": "set_session_name", "sessionId": s, "name": "before"}); err != nil {
				return err
			}
			if owner == victim {
				sessions = append(sessions, s)
			}
		}
		d.nodes[victim].Kill()
		killed := time.Now()
		ids := map[string]bool{}
		for _, s := range sessions {
			id, err := c.say(map[string]any{"type": "set_session_name", "sessionId": s, "name": "after"})
			if err != nil {
				return err
			}
			ids[id] = true
		}
		for len(ids) > 0 {
			m, err := c.next()
			if err != nil {
				return err
			}
			if id, _ := m["id"].(string); ids[id] {
				if delete(ids, id); m["success"] != true {
					return fmt.Errorf("after the kill: %v", m["error"])
				}
				silent = append(silent, time.Since(killed))
			}
		}
		_ = c.conn.Close()
		if err := d.nodes[victim].Start(); err != nil {
			return err
		}
		if err := d.up(ctx, victim); err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // the others have heard of it
	}
	slices.Sort(silent)
	fmt.Printf("node killed, next command acknowledged: %d sessions, p50 %.2f s, p90 %.2f s, p99 %.2f s, most %.2f s\n",
		len(silent), at(silent, 50).Seconds(), at(silent, 90).Seconds(), at(silent, 99).Seconds(), silent[len(silent)-1].Seconds())
	return d.drain(ctx)
}

// drain has a node give its sessions up while they are asked for something all the time.
func (d *demo) drain(ctx context.Context) error {
	c, err := d.dial("ada")
	if err != nil {
		return err
	}
	var sessions []string
	for len(sessions) < sessionsARound {
		s, owner, err := c.open()
		if err != nil {
			return err
		}
		if owner == "bob" {
			sessions = append(sessions, s)
		}
	}
	drain := exec.Command(d.troupe, "cluster", "drain", "bob", "--cluster", d.engine.URL(0), "--cluster-dir", filepath.Join(d.dir, "keys", "ada"))
	drain.Stdout, drain.Stderr = os.Stdout, os.Stderr
	if err := drain.Start(); err != nil {
		return err
	}
	drained := make(chan error, 1)
	go func() { drained <- drain.Wait() }()
	longest := make([]time.Duration, len(sessions))
	for over := false; !over; {
		select {
		case err := <-drained:
			if over = true; err != nil {
				return fmt.Errorf("troupe cluster drain: %w", err)
			}
		default:
		}
		for i, s := range sessions {
			begun := time.Now()
			if _, err := c.ask(map[string]any{"type": "set_session_name", "sessionId": s, "name": "n"}); err != nil {
				return err
			}
			longest[i] = max(longest[i], time.Since(begun))
		}
	}
	slices.Sort(longest)
	fmt.Printf("node drained: the longest a session took for a command, of %d: p50 %.3f s, most %.3f s\n", len(longest), at(longest, 50).Seconds(), longest[len(longest)-1].Seconds())
	return nil
}

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// both opens a session, with a client of the node that has it, and one of another.
func (d *demo) both() (session, owner string, near, far *client, err error) {
	if far, err = d.dial("ada"); err != nil {
		return
	}
	for owner == "" || owner == "ada" {
		if session, owner, err = far.open(); err != nil {
			return
		}
	}
	if near, err = d.dial(owner); err != nil {
		return
	}
	_, err = near.ask(map[string]any{"type": "attach", "sessionId": session})
	return
}

// firstDelta compares how long a client waits for the first word of an answer, likewise.
func (d *demo) firstDelta() error {
	session, _, near, far, err := d.both()
	if err != nil {
		return err
	}
	took := map[*client][]time.Duration{}
	for range 40 {
		for _, c := range []*client{near, far} {
			begun := time.Now()
			if _, err := c.say(map[string]any{"type": "prompt", "sessionId": session, "message": "first word"}); err != nil {
				return err
			}
			c.until("message_update")
			took[c] = append(took[c], time.Since(begun))
			near.until("agent_settled")
			far.until("agent_settled")
		}
	}
	slices.Sort(took[near])
	slices.Sort(took[far])
	fmt.Printf("prompt, first delta: at its node p50 %.2f ms; through another p50 %.2f ms\n", ms(at(took[near], 50)), ms(at(took[far], 50)))
	return nil
}

// until waits for an event of a kind.
func (c *client) until(kind string) {
	for m, err := c.next(); err == nil && m["type"] != kind; m, err = c.next() {
	}
}

// load says how long a session of 10,000 entries is not served when it is moved to a node that has no copy
// of it, and back.
func (d *demo) load() error {
	session, owner, near, far, err := d.both()
	if err != nil {
		return err
	}
	const n = 10_000
	for i := range n {
		if _, err := near.say(map[string]any{"type": "set_session_name", "sessionId": session, "name": fmt.Sprint("name ", i)}); err != nil {
			return err
		}
		if i%100 == 99 {
			if _, err := near.ask(map[string]any{"type": "get_last_assistant_text", "sessionId": session}); err != nil {
				return err
			}
		}
	}
	for _, to := range []struct{ node, has string }{{"ada", "no copy"}, {owner, "a copy"}} {
		begun := time.Now()
		if _, err := near.ask(map[string]any{"type": "move_session", "sessionId": session, "node": to.node}); err != nil {
			return err
		}
		if _, err := far.ask(map[string]any{"type": "get_last_assistant_text", "sessionId": session}); err != nil {
			return err
		}
		fmt.Printf("a session of %d entries moved to a node that has %s of it: the next answer %.0f ms later\n", n, to.has, ms(time.Since(begun)))
	}
	return nil
}

// hop compares what a command costs at the node that has the session and through another one.
func (d *demo) hop() error {
	session, _, near, far, err := d.both()
	if err != nil {
		return err
	}
	const n = 3000
	for _, what := range []struct {
		name string
		cmd  map[string]any
	}{
		{"a read (get_state)", map[string]any{"type": "get_last_assistant_text", "sessionId": session}},
		{"an append (set_session_name)", map[string]any{"type": "set_session_name", "sessionId": session, "name": "n"}},
	} {
		var direct, relayed []time.Duration
		for range n / 30 { // in turns, so that both have the same machine
			for _, of := range []struct {
				c  *client
				to *[]time.Duration
			}{{near, &direct}, {far, &relayed}} {
				for range 30 {
					begun := time.Now()
					if _, err := of.c.ask(what.cmd); err != nil {
						return err
					}
					*of.to = append(*of.to, time.Since(begun))
				}
			}
		}
		slices.Sort(direct)
		slices.Sort(relayed)
		fmt.Printf("%s: at its node p50 %.3f ms, p99 %.3f ms; through another p50 %.3f ms, p99 %.3f ms; a hop is %.3f ms\n", what.name,
			ms(at(direct, 50)), ms(at(direct, 99)), ms(at(relayed, 50)), ms(at(relayed, 99)), ms(at(relayed, 50)-at(direct, 50)))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
