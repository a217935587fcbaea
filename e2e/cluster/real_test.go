package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/e2e/cluster/engines"
)

// troupeBinary is built once a run.
var troupeBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "troupe-cluster-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir, "../../cmd/troupe").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "troupe"), err
})

// startTroupe starts daemons as nodes; sessions are opened through them in turn.
func (w *world) startTroupe(system string) {
	troupe, err := troupeBinary()
	require.NoError(w.t, err)
	keys, work := filepath.Join(w.dir, "keys"), filepath.Join(w.dir, "work")
	require.NoError(w.t, os.MkdirAll(work, 0o755))
	out, err := exec.Command(troupe, "cluster", "init", "--cluster", w.url(), "--cluster-system", system, "--cluster-dir", keys,
		"--node", "n0", "--node", "n1", "--node", "n2").CombinedOutput()
	require.NoError(w.t, err, string(out))
	script := filepath.Join(w.dir, "script.json")
	require.NoError(w.t, os.WriteFile(script, []byte(`{"answers": [{"when": "/./", "steps": [{"text": "yes"}], "times": 1000000}]}`), 0o600))
	for i := range machines {
		name := fmt.Sprint("n", i)
		home := filepath.Join(w.dir, name)
		require.NoError(w.t, os.MkdirAll(filepath.Join(home, "run"), 0o700))
		// A quarter of the commands are shell commands: what is measured is not how long these wait in a shared directory.
		require.NoError(w.t, os.WriteFile(filepath.Join(home, "cluster.json"), []byte(`{"toolGraceMs": 0}`), 0o600))
		socket := filepath.Join(home, "run", "s.sock")
		w.fronts[i] = w.proxyTo("unix", socket)
		// Where the others reach this one, too, is a way that can be cut; there is one for all.
		port := engines.Free()
		peer := w.proxyTo("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		for j := range machines {
			w.links[[2]int{j, i}] = peer
		}
		w.nodes[i] = &engines.Process{Name: name, Dir: home, Env: []string{"HOME=" + home, "TROUPE_SCRIPT=" + script}, Args: []string{
			troupe, "serve", "--socket", socket, "--agent-dir", home, "--cluster", w.way(i), "--cluster-dir", filepath.Join(keys, name),
			"--cluster-listen", fmt.Sprintf("127.0.0.1:%d", port), "--advertise", peer.Addr(), "--root", "work=" + work + ",shared",
			"--provider", "scripted", "--model", "demo",
		}}
		require.NoError(w.t, w.nodes[i].Start())
		w.t.Cleanup(w.nodes[i].Kill)
		w.t.Cleanup(func() {
			if w.t.Failed() {
				tailLogs(w.t, home)
			}
		})
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for i := range 24 {
		c := &wire{w: w, name: fmt.Sprintf("opener-%02d", i)}
		var answer gjson.Result
		require.NoError(w.t, engines.Until(ctx, "a session", func() bool {
			one, stop := context.WithTimeout(ctx, 5*time.Second)
			defer stop()
			answer, err = c.say(one, i%machines, map[string]any{"type": "open_session", "cwd": "work:", "retain": true, "id": "open"})
			if err == nil && !answer.Get("success").Bool() {
				err = errors.New(answer.Raw)
			}
			return err == nil
		}), "%v", err)
		w.sessions = append(w.sessions, cluster.SessionID(answer.Get("data.sessionId").String()))
		c.close()
	}
}

// url is where the engine is, by a way that nobody cuts.
func (w *world) url() string {
	if w.pg != nil {
		return w.pg.URL()
	}
	return w.nats.URL(0)
}

// wire is one client of the daemons: a connection to each.
type wire struct {
	w     *world
	name  string
	conns [machines]net.Conn
	in    [machines]*bufio.Reader
	knows [machines]map[cluster.SessionID]bool
	n     int
}

func (c *wire) close() {
	for i := range c.conns {
		c.drop(i)
	}
}

func (c *wire) drop(node int) {
	if c.conns[node] != nil {
		_ = c.conns[node].Close()
		c.conns[node] = nil
	}
}

// say says a command and waits for its answer.
func (c *wire) say(ctx context.Context, node int, cmd map[string]any) (answer gjson.Result, err error) {
	defer func() {
		if err != nil {
			c.drop(node)
		}
	}()
	if c.conns[node] == nil {
		conn, err := net.DialTimeout("tcp", c.w.fronts[node].Addr(), time.Second)
		if err != nil {
			return answer, err
		}
		c.conns[node], c.in[node], c.knows[node] = conn, bufio.NewReaderSize(conn, 1<<20), map[cluster.SessionID]bool{}
		hello, err := c.say(ctx, node, map[string]any{"type": "hello", "id": "hello", "clientId": c.name})
		if err == nil && !hello.Get("success").Bool() {
			err = errors.New(hello.Raw)
		}
		if err != nil {
			return answer, err
		}
	}
	conn := c.conns[node]
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	over := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer over()
	line, _ := json.Marshal(cmd)
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return answer, err
	}
	for {
		line, err := c.in[node].ReadBytes('\n')
		if err != nil {
			return answer, err
		}
		if m := gjson.ParseBytes(line); m.Get("type").String() == "response" && m.Get("id").String() == cmd["id"] {
			return m, nil
		}
	}
}

// do is a command of the laws on the wire: the name of a session is its last key, and one in four
// is a shell command whose effect is a line in a file.
func (c *wire) do(ctx context.Context, node int, cmd clustertest.Command) (a clustertest.Answer, err error) {
	if c.conns[node] == nil || !c.knows[node][cmd.Session] {
		c.n++
		r, err := c.say(ctx, node, map[string]any{"type": "attach", "id": fmt.Sprint("a", c.n), "sessionId": cmd.Session})
		if err != nil {
			return a, err
		}
		if !r.Get("success").Bool() {
			return clustertest.Answer{Err: r.Get("error").String()}, nil
		}
		c.knows[node][cmd.Session] = true
	}
	client, number, _ := strings.Cut(cmd.Key, "/")
	if cmd.Op == "get" {
		c.n++
		r, err := c.say(ctx, node, map[string]any{"type": "get_state", "id": fmt.Sprint("g", c.n), "sessionId": cmd.Session})
		if err != nil {
			return a, err
		}
		if !r.Get("success").Bool() {
			return clustertest.Answer{Err: cmpOr(r.Get("error").String(), "refused")}, nil
		}
		a.Last = r.Get("data.sessionName").String()
		a.Hidden = !strings.HasPrefix(a.Last, client+"/") // somebody else has named it since
		return a, nil
	}
	said := map[string]any{"type": "set_session_name", "id": number, "sessionId": cmd.Session, "name": cmd.Key}
	if len(number)%2 == 0 && strings.HasSuffix(number, "7") {
		effects := filepath.Join(c.w.dir, "effects")
		said = map[string]any{"type": "bash", "id": number, "sessionId": cmd.Session,
			"command": fmt.Sprintf(`echo '{"session":"%s","key":"%s"}' >> %s`, cmd.Session, cmd.Key, effects)}
	}
	r, err := c.say(ctx, node, said)
	if err != nil {
		return a, err
	}
	if !r.Get("success").Bool() {
		refused := cmpOr(r.Get("error").String(), "refused")
		return clustertest.Answer{Err: refused, Final: strings.HasPrefix(refused, "interrupted: ")}, nil
	}
	// Whether it was done twice the logs say, and the effects: an answer that was under way is not marked.
	return clustertest.Answer{Replayed: true, Hidden: said["type"] == "bash"}, nil
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// entryKeys are the keys of the commands whose effect entries are.
func entryKeys(lines []byte) (keys []string) {
	for line := range strings.Lines(string(lines)) {
		e := gjson.Parse(line)
		switch {
		case e.Get("type").String() == "session_info":
			keys = append(keys, e.Get("name").String())
		case e.Get("message.role").String() == "bashExecution":
			command := e.Get("message.command").String()
			if _, rest, ok := strings.Cut(command, `"key":"`); ok {
				key, _, _ := strings.Cut(rest, `"`)
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func realOptions() worldOptions {
	opt := options()
	opt.troupe, opt.clients = true, 0
	return opt
}

// TestTroupe_jetstream: the same laws of daemons, on their wire, with their files.
func TestTroupe_jetstream(t *testing.T) {
	w := newWorld(t, *chaosSeed, realOptions())
	assert.Empty(t, play(t, w, faults("K1 K5L S2 N1 K6", "K1 K2 K3 K5 K5L KM K6 S1 S2 SS N1 N1H N2 N3 N4 N5")))
}

// TestTroupe_postgres: and with the other engine.
func TestTroupe_postgres(t *testing.T) {
	long(t)
	opt := realOptions()
	opt.postgres = true
	w := newWorld(t, *chaosSeed, opt)
	assert.Empty(t, play(t, w, "K1 S2"))
}
