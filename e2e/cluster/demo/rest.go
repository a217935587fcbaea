package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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

// askEvery is how often a session is asked that is busy: it is parked in between.
const askEvery = 3 * time.Second

// work asks a hundred sessions, through every node, and says each minute what all processes take, and
// at the end what they take when the sessions rest again: what grows with nothing but time is a leak.
func (d *demo) work(long time.Duration) {
	type result struct {
		refused int
		err     error
	}
	results := make(chan result, 4)
	over := time.Now().Add(long)
	for i := range cap(results) {
		c := d.dial([]string{"ada", "bob", "cleo"}[i%3])
		sessions := map[string]bool{}
		for len(sessions) < 25 {
			s, _ := c.open()
			sessions[s] = true
		}
		go func() {
			refused, err := c.rounds(sessions, over)
			results <- result{refused, err}
		}()
	}
	for minute := 0; time.Now().Before(over); minute++ {
		fmt.Printf("minute %d: %s\n", minute, d.memory())
		time.Sleep(min(time.Minute, time.Until(over)))
	}
	refused := 0
	for range cap(results) {
		r := <-results
		figures.Must(r.err)
		refused += r.refused
	}
	time.Sleep(restFor)
	fmt.Printf("at rest again, %d messages were refused: %s\n", refused, d.memory())
}

// memory is what every node and server has.
func (d *demo) memory() string {
	var all []string
	for _, name := range []string{"ada", "bob", "cleo", "e1", "e2", "e3"} {
		all = append(all, fmt.Sprintf("%s %.1f MB", name, figures.Memory(d.process(name).Pid(), "VmRSS")))
	}
	return strings.Join(all, ", ")
}

// rounds asks sessions until it is over. A message that is refused, as when the engine takes too long to answer,
// is asked again in the next round.
func (c *client) rounds(sessions map[string]bool, over time.Time) (refused int, err error) {
	defer figures.Caught(&err)
	for time.Now().Before(over) {
		next := time.Now().Add(askEvery)
		refused += c.round(sessions)
		time.Sleep(time.Until(next))
	}
	return refused, nil
}

// round asks each session once, and waits until all have answered or refused.
func (c *client) round(sessions map[string]bool) (refused int) {
	for s := range sessions {
		c.say(map[string]any{"type": "prompt", "sessionId": s, "message": "first word"})
	}
	for settled := 0; settled+refused < len(sessions); {
		switch m := c.next(); {
		case m["success"] == false:
			refused++
		case m["type"] == "agent_settled":
			settled++
		}
	}
	return refused
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
