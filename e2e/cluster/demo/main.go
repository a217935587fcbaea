// Command demo is a cluster on one machine, for a look: three NATS servers, three nodes, and a
// conversation through one of them whose session is on another. That other one is killed while it
// answers; the conversation goes on. What is typed at the end goes to the same session.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"troupe/e2e/cluster/engines"
)

// script is a model that takes its time.
const script = `{"delayMs": 60, "chunk": 8, "answers": [
  {"when": "count", "steps": [{"text": "One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen, twenty."}], "times": 100},
  {"when": "first word", "steps": [{"text": "Word."}], "times": 1000},
  {"when": "/./", "steps": [{"text": "You said it to a session that has lost its machine, and here I am."}], "times": 1000}]}`

func main() {
	keep := flag.Bool("stay", false, "go on until the input ends: each line is a message")
	rounds := flag.Int("measure", 0, "no demo: how long sessions are silent, in so many rounds, when their node is killed; what a hop costs")
	resting := flag.Int("rest", 0, "no demo: what nodes and the engine take with so many sessions that nobody uses, more than 1,000")
	flag.Parse()
	if err := run(*keep, *rounds, *resting); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is the processes.
type demo struct {
	dir, troupe string
	engine      *engines.Nats
	nodes       map[string]*engines.Process
}

func run(stay bool, rounds, resting int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	d := &demo{nodes: map[string]*engines.Process{}}
	var err error
	if d.dir, err = os.MkdirTemp("", "troupe-cluster-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(d.dir) }()
	defer d.close()
	if err := d.start(ctx, resting); err != nil {
		return err
	}
	switch {
	case rounds > 0:
		return d.measure(ctx, rounds)
	case resting > 0:
		return d.rest(ctx, resting)
	}
	return d.talk(ctx, stay)
}

func (d *demo) close() {
	for _, n := range d.nodes {
		n.Kill()
	}
	if d.engine != nil {
		d.engine.Close()
	}
}

// start starts servers and nodes.
func (d *demo) start(ctx context.Context, resting int) error {
	say("building troupe and nats-server")
	d.troupe = filepath.Join(d.dir, "troupe")
	if out, err := exec.Command("go", "build", "-o", d.troupe, "./cmd/troupe").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	server, err := engines.Server(".")
	if err != nil {
		return err
	}
	say("three servers of the engine")
	if d.engine, err = engines.StartNats(engines.NatsOptions{Binary: server, Dir: d.dir, N: 3}); err != nil {
		return err
	}
	if err := d.engine.Listening(ctx); err != nil {
		return err
	}
	keys, work := filepath.Join(d.dir, "keys"), filepath.Join(d.dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.dir, "script.json"), []byte(script), 0o600); err != nil {
		return err
	}
	init := exec.Command(d.troupe, "cluster", "init", "--cluster", d.engine.URL(0), "--cluster-system", d.engine.System(), "--cluster-dir", keys,
		"--node", "ada", "--node", "bob", "--node", "cleo")
	init.Stdout, init.Stderr = os.Stdout, os.Stderr
	if err := init.Run(); err != nil {
		return fmt.Errorf("troupe cluster init: %w", err)
	}
	say("three nodes: ada, bob and cleo")
	for i, name := range []string{"ada", "bob", "cleo"} {
		home := filepath.Join(d.dir, name)
		if err := os.MkdirAll(filepath.Join(home, "run"), 0o700); err != nil {
			return err
		}
		n := &engines.Process{Name: name, Dir: home, Env: []string{"HOME=" + home, "TROUPE_SCRIPT=" + filepath.Join(d.dir, "script.json")}, Args: []string{
			d.troupe, "serve", "--socket", d.socket(name), "--agent-dir", home, "--cluster", d.engine.URL(i), "--cluster-system", d.engine.System(),
			"--cluster-dir", filepath.Join(keys, name), "--root", "work=" + work + ",shared", "--provider", "scripted", "--model", "demo",
		}}
		if resting > 0 {
			n.Args = append(n.Args, parks(resting)...)
		}
		if err := n.Start(); err != nil {
			return err
		}
		d.nodes[name] = n
	}
	for name := range d.nodes {
		if err := d.up(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// up waits until a node takes clients.
func (d *demo) up(ctx context.Context, name string) error {
	n := d.nodes[name]
	err := engines.Until(ctx, name, func() bool {
		c, err := net.Dial("unix", d.socket(name))
		if err == nil {
			_ = c.Close()
		}
		return err == nil || !n.Alive()
	})
	if err == nil && !n.Alive() {
		log, _ := os.ReadFile(filepath.Join(n.Dir, name+".log"))
		err = fmt.Errorf("node %s has ended:\n%s", name, log)
	}
	return err
}

func (d *demo) socket(node string) string { return filepath.Join(d.dir, node, "run", "s.sock") }

// talk has a conversation through a node that does not have the session.
func (d *demo) talk(ctx context.Context, stay bool) error {
	var c *client
	var owner, session string
	var err error
	if c, err = d.dial("ada"); err != nil {
		return err
	}
	for owner == "" || owner == "ada" { // until the session is on another node than the client
		if session, owner, err = c.open(); err != nil {
			return err
		}
	}
	say("a client of ada has opened a session, which is on " + owner)
	prompt := func(text string) (time.Time, error) {
		fmt.Println("\n> " + text)
		_, err := c.ask(map[string]any{"type": "prompt", "sessionId": session, "message": text})
		return time.Now(), err
	}
	if _, err := prompt("count to twenty"); err != nil {
		return err
	}
	c.hear(ctx, func(ev map[string]any) bool { return c.text > 40 })
	killed := time.Now()
	d.nodes[owner].Kill()
	fmt.Println()
	say(fmt.Sprintf("%s was killed while it answered", owner))
	if !c.hear(ctx, func(ev map[string]any) bool {
		if ev["type"] == "session_moved" {
			say(fmt.Sprintf("the session is on %v now, %.1f s later; its model is asked again", ev["to"], time.Since(killed).Seconds()))
		}
		return ev["type"] == "agent_settled"
	}) {
		return fmt.Errorf("the conversation did not go on")
	}
	fmt.Println()
	if _, err := prompt("and now?"); err != nil {
		return err
	}
	if !c.hear(ctx, settled) {
		return fmt.Errorf("there is no second answer")
	}
	fmt.Println()
	all, err := c.ask(map[string]any{"type": "get_messages", "sessionId": session})
	if err != nil {
		return err
	}
	say(fmt.Sprintf("the session has %d messages, all that was acknowledged among them", len(all["messages"].([]any))))
	if !stay {
		return nil
	}
	say("type messages; the end of input ends the cluster")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if _, err := prompt(in.Text()); err != nil {
			return err
		}
		c.hear(ctx, settled)
		fmt.Println()
	}
	return nil
}

func settled(ev map[string]any) bool { return ev["type"] == "agent_settled" }

// client is a client of a node's socket.
type client struct {
	conn  net.Conn
	in    *bufio.Reader
	asked int
	text  int // bytes of the answer so far
	late  []map[string]any
}

func (d *demo) dial(node string) (*client, error) {
	conn, err := net.Dial("unix", d.socket(node))
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: bufio.NewReaderSize(conn, 1<<20)}
	_, err = c.ask(map[string]any{"type": "hello", "clientId": "demo-" + fmt.Sprint(time.Now().UnixNano()), "features": []string{"deltaUpdates"}})
	return c, err
}

// open makes a session, and says which node it is on.
func (c *client) open() (session, node string, err error) {
	opened, err := c.ask(map[string]any{"type": "open_session", "cwd": "work:"})
	if err != nil {
		return "", "", err
	}
	session, _ = opened["sessionId"].(string)
	list, err := c.ask(map[string]any{"type": "list_open_sessions"})
	if err != nil {
		return "", "", err
	}
	for _, s := range list["sessions"].([]any) {
		if s := s.(map[string]any); s["sessionId"] == session {
			node, _ = s["node"].(string)
		}
	}
	return session, node, nil
}

// ask says a command and waits for its answer. Events that come meanwhile are kept.
func (c *client) ask(cmd map[string]any) (map[string]any, error) {
	id, err := c.say(cmd)
	if err != nil {
		return nil, err
	}
	for {
		m, err := c.next()
		if err != nil {
			return nil, err
		}
		if m["id"] != id || m["type"] != "response" {
			c.late = append(c.late, m)
			continue
		}
		if m["success"] != true {
			return nil, fmt.Errorf("%v: %v", cmd["type"], m["error"])
		}
		data, _ := m["data"].(map[string]any)
		return data, nil
	}
}

// say says a command.
func (c *client) say(cmd map[string]any) (id string, err error) {
	c.asked++
	id = fmt.Sprint("d", c.asked)
	cmd["id"] = id
	line, err := json.Marshal(cmd)
	if err != nil {
		return "", err
	}
	_, err = c.conn.Write(append(line, '\n'))
	return id, err
}

func (c *client) next() (m map[string]any, err error) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return m, json.Unmarshal(line, &m)
}

// hear prints what the model says until enough was heard.
func (c *client) hear(ctx context.Context, enough func(map[string]any) bool) bool {
	deadline, _ := ctx.Deadline()
	_ = c.conn.SetReadDeadline(deadline)
	defer func() { _ = c.conn.SetReadDeadline(time.Time{}) }()
	for {
		var m map[string]any
		if len(c.late) > 0 {
			m, c.late = c.late[0], c.late[1:]
		} else {
			var err error
			if m, err = c.next(); err != nil {
				return false
			}
		}
		if u, ok := m["assistantMessageEvent"].(map[string]any); ok && u["type"] == "text_delta" {
			fmt.Print(u["delta"])
			c.text += len(u["delta"].(string))
		}
		if enough(m) {
			return true
		}
	}
}

func say(what string) { fmt.Println("·", strings.TrimSpace(what)) }
