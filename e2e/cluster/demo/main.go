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
	"troupe/e2e/figures"
)

// script is a model that takes its time.
const script = `{"delayMs": 60, "chunk": 8, "answers": [
  {"when": "count", "steps": [{"text": "One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen, twenty."}], "times": 100},
  {"when": "first word", "steps": [{"text": "Word."}], "times": 1000000},
  {"when": "/./", "steps": [{"text": "You said it to a session that has lost its machine, and here I am."}], "times": 1000000}]}`

func main() {
	keep := flag.Bool("stay", false, "go on until the input ends: each line is a message")
	rounds := flag.Int("measure", 0, "no demo: how long sessions are silent, in so many rounds, when their node is killed or stopped; what a hop costs")
	resting := flag.Int("rest", 0, "no demo: what nodes and the engine take with so many sessions that nobody uses, more than 1,000")
	busy := flag.Duration("busy", 0, "with -rest: how long a hundred more of them are asked something all the time, while processes are watched")
	flag.Parse()
	if err := run(*keep, *rounds, *resting, *busy); err != nil {
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

func run(stay bool, rounds, resting int, busy time.Duration) (err error) {
	defer figures.Caught(&err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute+busy)
	defer cancel()
	d := &demo{nodes: map[string]*engines.Process{}, dir: figures.Get(os.MkdirTemp("", "troupe-cluster-"))}
	defer func() { _ = os.RemoveAll(d.dir) }()
	defer d.close()
	d.start(ctx, resting)
	switch {
	case rounds > 0:
		d.measure(ctx, rounds)
	case resting > 0:
		d.rest(ctx, resting)
		if busy > 0 {
			d.work(busy)
		}
	default:
		d.talk(ctx, stay)
	}
	return nil
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
func (d *demo) start(ctx context.Context, resting int) {
	say("building troupe and nats-server")
	d.troupe = filepath.Join(d.dir, "troupe")
	if out, err := exec.Command("go", "build", "-o", d.troupe, "./cmd/troupe").CombinedOutput(); err != nil {
		figures.Fail("go build: %w: %s", err, out)
	}
	server := figures.Get(engines.Server("."))
	say("three servers of the engine")
	d.engine = figures.Get(engines.StartNats(engines.NatsOptions{Binary: server, Dir: d.dir, N: 3}))
	figures.Must(d.engine.Listening(ctx))
	keys, work := filepath.Join(d.dir, "keys"), filepath.Join(d.dir, "work")
	figures.Must(os.Mkdir(work, 0o755))
	figures.Must(os.WriteFile(filepath.Join(d.dir, "script.json"), []byte(script), 0o600))
	names := []string{"ada", "bob", "cleo"}
	figures.Must(d.command("init", "--cluster-system", d.engine.System(), "--cluster-dir", keys, "--node", names[0], "--node", names[1], "--node", names[2]).Run())
	say("three nodes: ada, bob and cleo")
	for i, name := range names {
		d.run(name, append([]string{
			"--cluster", d.engine.URL(i), "--cluster-system", d.engine.System(), "--cluster-dir", filepath.Join(keys, name), "--root", "work=" + work + ",shared",
		}, parks(resting)...))
	}
	for _, name := range names {
		d.up(ctx, name)
	}
}

// command is one of "troupe cluster".
func (d *demo) command(args ...string) *exec.Cmd {
	cmd := exec.Command(d.troupe, append([]string{"cluster", "--cluster", d.engine.URL(0)}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// run starts a daemon: a node, or one that is alone.
func (d *demo) run(name string, args []string) {
	home := filepath.Join(d.dir, name)
	figures.Must(os.MkdirAll(filepath.Join(home, "run"), 0o700))
	d.nodes[name] = &engines.Process{Name: name, Dir: home, Env: []string{"HOME=" + home, "TROUPE_SCRIPT=" + filepath.Join(d.dir, "script.json")}, Args: append([]string{
		d.troupe, "serve", "--socket", d.socket(name), "--agent-dir", home, "--provider", "scripted", "--model", "demo",
	}, args...)}
	figures.Must(d.nodes[name].Start())
}

// up waits until a node takes clients.
func (d *demo) up(ctx context.Context, name string) {
	n := d.nodes[name]
	figures.Must(engines.Until(ctx, name, func() bool {
		c, err := net.Dial("unix", d.socket(name))
		if err == nil {
			_ = c.Close()
		}
		return err == nil || !n.Alive()
	}))
	if !n.Alive() {
		log, _ := os.ReadFile(filepath.Join(n.Dir, name+".log"))
		figures.Fail("node %s has ended:\n%s", name, log)
	}
}

func (d *demo) socket(node string) string { return filepath.Join(d.dir, node, "run", "s.sock") }

// talk has a conversation through a node that does not have the session.
func (d *demo) talk(ctx context.Context, stay bool) {
	c := d.dial("ada")
	session, owner := c.elsewhere("ada")
	say("a client of ada has opened a session, which is on " + owner)
	prompt := func(text string) {
		fmt.Println("\n> " + text)
		c.ask(map[string]any{"type": "prompt", "sessionId": session, "message": text})
	}
	prompt("count to twenty")
	c.hear(ctx, func(ev map[string]any) bool { return c.text > 40 })
	killed := time.Now()
	d.nodes[owner].Kill()
	fmt.Println()
	say(fmt.Sprintf("%s was killed while it answered", owner))
	c.hear(ctx, func(ev map[string]any) bool {
		if ev["type"] == "session_moved" {
			say(fmt.Sprintf("the session is on %v now, %.1f s later; its model is asked again", ev["to"], time.Since(killed).Seconds()))
		}
		return ev["type"] == "agent_settled"
	})
	fmt.Println()
	prompt("and now?")
	c.hear(ctx, settled)
	fmt.Println()
	all := c.ask(map[string]any{"type": "get_messages", "sessionId": session})
	say(fmt.Sprintf("the session has %d messages, all that was acknowledged among them", len(all["messages"].([]any))))
	if !stay {
		return
	}
	say("type messages; the end of input ends the cluster")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		prompt(in.Text())
		c.hear(ctx, settled)
		fmt.Println()
	}
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

func (d *demo) dial(node string) *client {
	conn := figures.Get(net.Dial("unix", d.socket(node)))
	c := &client{conn: conn, in: bufio.NewReaderSize(conn, 1<<20)}
	c.ask(map[string]any{"type": "hello", "clientId": "demo-" + fmt.Sprint(time.Now().UnixNano()), "features": []string{"deltaUpdates"}})
	return c
}

// open makes a session, and says which node it is on.
func (c *client) open() (session, node string) {
	session, _ = c.ask(map[string]any{"type": "open_session", "cwd": "work:"})["sessionId"].(string)
	for _, s := range c.ask(map[string]any{"type": "list_open_sessions"})["sessions"].([]any) {
		if s := s.(map[string]any); s["sessionId"] == session {
			node, _ = s["node"].(string)
		}
	}
	return session, node
}

// elsewhere makes sessions until one is on another node.
func (c *client) elsewhere(node string) (session, owner string) {
	for owner == "" || owner == node {
		session, owner = c.open()
	}
	return session, owner
}

// ask says a command and waits for its answer. Events that come meanwhile are kept.
func (c *client) ask(cmd map[string]any) map[string]any {
	for id := c.say(cmd); ; {
		m := c.next()
		if m["id"] != id || m["type"] != "response" {
			c.late = append(c.late, m)
			continue
		}
		if m["success"] != true {
			figures.Fail("%v: %v", cmd["type"], m["error"])
		}
		data, _ := m["data"].(map[string]any)
		return data
	}
}

// rename gives a session a name, which is an entry in its log.
func (c *client) rename(session, name string) {
	c.ask(map[string]any{"type": "set_session_name", "sessionId": session, "name": name})
}

// say says a command.
func (c *client) say(cmd map[string]any) (id string) {
	c.asked++
	id = fmt.Sprint("d", c.asked)
	cmd["id"] = id
	figures.Get(c.conn.Write(append(figures.Get(json.Marshal(cmd)), '\n')))
	return id
}

func (c *client) next() (m map[string]any) {
	figures.Must(json.Unmarshal(figures.Get(c.in.ReadBytes('\n')), &m))
	return m
}

// hear prints what the model says until enough was heard.
func (c *client) hear(ctx context.Context, enough func(map[string]any) bool) {
	deadline, _ := ctx.Deadline()
	_ = c.conn.SetReadDeadline(deadline)
	defer func() { _ = c.conn.SetReadDeadline(time.Time{}) }()
	for {
		var m map[string]any
		if len(c.late) > 0 {
			m, c.late = c.late[0], c.late[1:]
		} else {
			m = c.next()
		}
		if u, ok := m["assistantMessageEvent"].(map[string]any); ok && u["type"] == "text_delta" {
			fmt.Print(u["delta"])
			c.text += len(u["delta"].(string))
		}
		if enough(m) {
			return
		}
	}
}

func say(what string) { fmt.Println("·", strings.TrimSpace(what)) }
