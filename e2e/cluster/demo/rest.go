package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"troupe/e2e/cluster/engines"
	"troupe/e2e/figures"
)

// restFor is how long processes are watched that have nothing to do.
const restFor = 10 * time.Second

// rest says what sessions take that nobody uses: of a node with a thousand of them, beside a
// daemon that is alone and has as many, and of the engine that keeps the logs of all.
func (d *demo) rest(ctx context.Context, n int) {
	d.run("alone", parks(n))
	d.up(ctx, "alone")
	const aNode = 1000
	for _, part := range []struct {
		on    string
		n     int
		watch []string
	}{{"alone", aNode, []string{"alone"}}, {"ada", aNode, []string{"ada", "e1"}}, {"bob", n - aNode, []string{"e1", "e2", "e3"}}} {
		d.fill(part.on, part.n)
		time.Sleep(3 * time.Second) // all are parked, and what they were made with is given back
		for _, name := range part.watch {
			fmt.Printf("%s, with %d sessions on %s: %s\n", name, part.n, part.on, watch(d.process(name).Pid()))
		}
	}
}

// parks are the flags of a daemon whose sessions are parked soon, as many as there are; none for none.
func parks(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{"--park-after", "1s", "--max-sessions", strconv.Itoa(n)}
}

// fill opens sessions at a node, which stay there, and gives each an entry.
func (d *demo) fill(node string, n int) {
	c := d.dial(node)
	for range n {
		session, _ := c.ask(map[string]any{"type": "open_session", "cwd": d.dir, "retain": true})["sessionId"].(string)
		c.rename(session, "resting")
	}
	figures.Must(c.conn.Close())
}

// process is a node, or a server of the engine.
func (d *demo) process(name string) *engines.Process {
	for _, s := range d.engine.Servers {
		if s.Name == name {
			return &s.Process
		}
	}
	return d.nodes[name]
}

// watch says how much memory a process has, and how much of a core it takes.
func watch(pid int) string {
	before := figures.CPU(pid)
	time.Sleep(restFor)
	took := figures.CPU(pid) - before
	return fmt.Sprintf("%.1f MB, %.2f %% of a core", figures.Memory(pid, "VmRSS"), 100*took.Seconds()/restFor.Seconds())
}
