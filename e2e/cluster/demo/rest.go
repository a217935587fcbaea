package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"troupe/e2e/cluster/engines"
)

// restFor is how long processes are watched that have nothing to do.
const restFor = 10 * time.Second

// rest says what sessions take that nobody uses: of a node with a thousand of them, beside a
// daemon that is alone and has as many, and of the engine that keeps the logs of all.
func (d *demo) rest(ctx context.Context, n int) error {
	home := filepath.Join(d.dir, "alone")
	if err := os.MkdirAll(filepath.Join(home, "run"), 0o700); err != nil {
		return err
	}
	alone := &engines.Process{Name: "alone", Dir: home, Env: []string{"HOME=" + home}, Args: []string{
		d.troupe, "serve", "--socket", d.socket("alone"), "--agent-dir", home, "--provider", "scripted", "--model", "demo",
	}}
	alone.Args = append(alone.Args, parks(n)...)
	if err := alone.Start(); err != nil {
		return err
	}
	d.nodes["alone"] = alone
	if err := d.up(ctx, "alone"); err != nil {
		return err
	}
	const aNode = 1000
	for _, part := range []struct {
		on    string
		n     int
		watch []string
	}{{"alone", aNode, []string{"alone"}}, {"ada", aNode, []string{"ada", "e1"}}, {"bob", n - aNode, []string{"e1", "e2", "e3"}}} {
		if err := d.fill(part.on, part.n); err != nil {
			return err
		}
		time.Sleep(3 * time.Second) // all are parked, and what they were made with is given back
		for _, name := range part.watch {
			said, err := watch(d.process(name))
			if err != nil {
				return err
			}
			fmt.Printf("%s, with %d sessions on %s: %s\n", name, part.n, part.on, said)
		}
	}
	return nil
}

// parks are the flags of a daemon whose sessions are parked soon, as many as there are.
func parks(n int) []string { return []string{"--park-after", "1s", "--max-sessions", strconv.Itoa(n)} }

// fill opens sessions at a node, which stay there, and gives each an entry.
func (d *demo) fill(node string, n int) error {
	c, err := d.dial(node)
	if err != nil {
		return err
	}
	for range n {
		opened, err := c.ask(map[string]any{"type": "open_session", "cwd": d.dir, "retain": true})
		if err != nil {
			return err
		}
		if _, err := c.ask(map[string]any{"type": "set_session_name", "sessionId": opened["sessionId"], "name": "resting"}); err != nil {
			return err
		}
	}
	return c.conn.Close()
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
func watch(p *engines.Process) (string, error) {
	before, err := cpu(p.Pid())
	if err != nil {
		return "", err
	}
	time.Sleep(restFor)
	after, err := cpu(p.Pid())
	if err != nil {
		return "", err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	return fmt.Sprintf("%.1f MB, %.2f %% of a core", float64(kb)/1000, 100*(after-before).Seconds()/restFor.Seconds()), err
}

// cpu is how long a process has computed.
func cpu(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	var ticks int
	for _, field := range strings.Fields(rest)[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil
}
