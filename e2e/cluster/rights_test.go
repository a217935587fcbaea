package cluster_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
	"troupe/actors/cluster/jetstream"
	"troupe/e2e/cluster/engines"
)

// rightsOf are the rights of a node's user of the engine, as the manual has them: what is not there is refused.
func rightsOf(t *testing.T, node string) string {
	manual, err := os.ReadFile("../../docs/cluster/setup.md")
	require.NoError(t, err)
	_, rights, found := strings.Cut(string(manual), "permissions: {")
	require.True(t, found)
	rights, _, found = strings.Cut(rights, "\n}")
	require.True(t, found)
	require.Contains(t, rights, "t.node.w1")
	return "permissions: {" + strings.ReplaceAll(rights, "t.node.w1", "t.node."+node) + "\n}"
}

// restricted is a server on which each node is a user of its own, with the rights that it needs and no others, and two
// daemons that are these nodes.
type restricted struct {
	*world
	creds  [2]string // of the nodes
	keys   string
	troupe string
}

// canary is what is nowhere in the engine, whatever is done.
func canary(of string) string { return "canary-" + of + "-7f3a9c" }

func newRestricted(t *testing.T) *restricted {
	needsCluster(t)
	w := &restricted{world: &world{t: t, dir: t.TempDir()}}
	t.Cleanup(func() {
		if t.Failed() {
			tailLogs(t, w.dir)
		}
	})
	users := ""
	for i := range w.creds {
		pair, err := nkeys.CreateUser()
		require.NoError(t, err)
		seed, err := pair.Seed()
		require.NoError(t, err)
		public, err := pair.PublicKey()
		require.NoError(t, err)
		w.creds[i] = filepath.Join(w.dir, fmt.Sprintf("n%d.creds", i))
		require.NoError(t, os.WriteFile(w.creds[i], seed, 0o600))
		users += fmt.Sprintf(", { nkey: %s, %s }", public, rightsOf(t, fmt.Sprint("n", i)))
	}
	w.nats = natsServers(t, engines.NatsOptions{N: 1, Dir: w.dir, Adjust: func(config string) string {
		return strings.Replace(config, "{ user: troupe, password: troupe }", "{ user: troupe, password: troupe }"+users, 1)
	}})
	var err error
	w.troupe, err = troupeBinary()
	require.NoError(t, err)
	w.keys = filepath.Join(w.dir, "keys")
	out, err := exec.Command(w.troupe, "cluster", "init", "--cluster", w.nats.URL(0), "--cluster-allow-single", "--cluster-dir", w.keys,
		"--node", "n0", "--node", "n1").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "work"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "script.json"),
		[]byte(`{"answers": [{"when": "/./", "steps": [{"text": "this-is-in-the-engine"}], "times": 1000}]}`), 0o600))
	for i := range w.creds {
		w.start(i, w.creds[i])
	}
	return w
}

// start starts a node with some credentials.
func (w *restricted) start(i int, creds string) {
	t, name := w.t, fmt.Sprint("n", i)
	home := filepath.Join(w.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Join(home, "run"), 0o700))
	text, err := os.ReadFile(creds)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.keys, name, "engine.creds"), text, 0o600))
	for file, text := range map[string]string{
		"auth.json":    fmt.Sprintf(`{"anthropic": {"type": "api_key", "key": %q}}`, canary("login")),
		"cluster.json": `{"toolGraceMs": 0}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(home, file), []byte(text), 0o600))
	}
	socket := filepath.Join(home, "run", "s.sock")
	if w.fronts[i] == nil {
		w.fronts[i] = w.proxyTo("unix", socket)
	}
	w.nodes[i] = &engines.Process{
		Name: name, Dir: home, Env: []string{"HOME=" + home, "TROUPE_SCRIPT=" + filepath.Join(w.dir, "script.json"), "ANTHROPIC_API_KEY=" + canary("key")},
		Args: []string{
			w.troupe, "serve", "--socket", socket, "--agent-dir", home, "--cluster", "nats://" + w.nats.Servers[0].Addr, "--cluster-allow-single",
			"--cluster-dir", filepath.Join(w.keys, name), "--root", "work=" + filepath.Join(w.dir, "work") + ",shared",
			"--root", "lib=git+http://user:" + canary("remote") + "@127.0.0.1:1/lib.git", "--provider", "scripted", "--model", "demo",
		},
	}
	require.NoError(t, w.nodes[i].Start())
	t.Cleanup(w.nodes[i].Kill)
	t.Cleanup(func() {
		if t.Failed() {
			tailLogs(t, home)
		}
	})
}

// found is where in the store of the engine a text is.
func (w *restricted) found(text string) (where []string) {
	require.NoError(w.t, filepath.WalkDir(w.nats.Servers[0].Store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".conf" || filepath.Ext(path) == ".log" {
			if errors.Is(err, fs.ErrNotExist) { // it was replaced meanwhile
				err = nil
			}
			return err
		}
		body, err := os.ReadFile(path)
		if bytes.Contains(body, []byte(text)) {
			where = append(where, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}))
	return where
}

// TestRights_jetstream (A1, C18): a node does all its work with the rights that the manual lists, and can do nothing else to
// the engine, such as speak for another node; and the engine never has a key, a login, an environment or the address of a repository.
func TestRights_jetstream(t *testing.T) {
	beside(t)
	w := newRestricted(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := &wire{w: w.world, name: "client-1"}
	defer c.close()
	n := 0
	say := func(node int, cmd map[string]any) gjson.Result {
		n++
		cmd["id"] = fmt.Sprint("c", n)
		one, stop := context.WithTimeout(ctx, 15*time.Second)
		defer stop()
		v, err := c.say(one, node, cmd)
		require.NoError(t, err, "%v", cmd)
		return v
	}
	ok := func(node int, cmd map[string]any) gjson.Result {
		t.Helper()
		v := say(node, cmd)
		require.True(t, v.Get("success").Bool(), "%v: %s", cmd, v.Raw)
		return v.Get("data")
	}
	for i := range w.creds {
		require.NoError(t, engines.Until(ctx, "two nodes", func() bool {
			one, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			v, err := c.say(one, i, map[string]any{"type": "get_cluster", "id": "g"})
			return err == nil && len(v.Get(`data.nodes.#(state=="lives")#`).Array()) == 2
		}))
	}
	admin := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(ctx, w.troupe, append([]string{"cluster"}, append(args, "--cluster", "nats://"+w.nats.Servers[0].Addr, "--cluster-allow-single",
			"--cluster-dir", filepath.Join(w.keys, "n0"))...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}

	id := ok(0, map[string]any{"type": "open_session", "cwd": "work:", "retain": true}).Get("sessionId").String()
	ok(1, map[string]any{"type": "attach", "sessionId": id})
	ok(1, map[string]any{"type": "set_session_name", "sessionId": id, "name": "canaries"})
	for node := range w.creds {
		ok(node, map[string]any{"type": "prompt", "sessionId": id, "message": "go", "streamingBehavior": "followUp"})
		out := ok(node, map[string]any{"type": "bash", "sessionId": id, "command": "env"}).Get("output").String()
		require.Contains(t, out, "HOME=")
		require.NotContains(t, out, "canary", "tools get what a node is known by, or the keys of its providers")
	}
	refused := say(0, map[string]any{"type": "open_session", "cwd": "lib:"})
	require.False(t, refused.Get("success").Bool(), "nobody is there")
	assert.NotContains(t, refused.Raw, "canary", "nor a client the address of a repository")
	ok(0, map[string]any{"type": "list_sessions"})
	owner := int(ok(0, map[string]any{"type": "list_open_sessions"}).Get(`sessions.#(sessionId=="` + id + `").node`).String()[1] - '0')
	admin("move", id, fmt.Sprint("n", 1-owner))
	require.Contains(t, admin("status"), "n1")
	require.Contains(t, admin("check"), "0 with something wrong")
	exported := filepath.Join(w.dir, "exported.jsonl")
	admin("export", id, exported)
	text, err := os.ReadFile(exported)
	require.NoError(t, err)
	require.Contains(t, string(text), "this-is-in-the-engine")
	w.nodes[1-owner].Kill()
	ok(owner, map[string]any{"type": "set_session_name", "sessionId": id, "name": "behind the loss"})

	// What is stored of all that.
	require.NotEmpty(t, w.found("this-is-in-the-engine"), "what is said is there, and would be found")
	require.NotEmpty(t, w.found(`"name":"n0"`))
	for _, of := range []string{"login", "key", "remote"} {
		assert.Empty(t, w.found(canary(of)), of)
	}
	for _, file := range []string{"node.key", "engine.creds"} {
		text, err := os.ReadFile(filepath.Join(w.keys, "n0", file))
		require.NoError(t, err)
		secret := strings.TrimSpace(string(text))
		if block, _ := pem.Decode(text); block != nil {
			secret = strings.Split(strings.TrimSpace(string(text)), "\n")[1]
		}
		assert.Empty(t, w.found(secret), file)
	}

	// What a node can not do: the engine refuses each, and says so.
	w.nodes[0].Kill()
	w.nodes[1].Kill()
	var mu sync.Mutex
	var violated error
	opt, err := nats.NkeyOptionFromSeed(w.creds[0])
	require.NoError(t, err)
	nc, err := nats.Connect("nats://"+w.nats.Servers[0].Addr, opt, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		violated = err
	}))
	require.NoError(t, err)
	defer nc.Close()
	refuses := func(what string, do func() error) {
		t.Helper()
		require.NoError(t, do(), what)
		require.NoError(t, nc.Flush(), what)
		require.NoError(t, engines.Until(ctx, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return violated != nil
		}))
		assert.ErrorIs(t, violated, nats.ErrPermissionViolation, what)
		violated = nil
	}
	for _, subject := range []string{
		"t.node.n1", "t.meta", "t.heard.n1", "anything", "$JS.API.STREAM.PURGE.LOG0", "$JS.API.STREAM.DELETE.LOG0", "$JS.API.STREAM.MSG.DELETE.LOG0",
		"$JS.API.STREAM.UPDATE.LOG0", "$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.SNAPSHOT.LOG0", "$JS.API.STREAM.RESTORE.LOG0",
		"$JS.API.STREAM.LEADER.STEPDOWN.LOG0", "$JS.API.CONSUMER.CREATE.LOG0", "$SYS.REQ.SERVER.PING.JSZ",
	} {
		refuses(subject, func() error { return nc.Publish(subject, []byte("{}")) })
	}
	for _, subject := range []string{">", "t.log.>", "t.node.*", "$JS.API.>"} {
		refuses(subject, func() error { _, err := nc.SubscribeSync(subject); return err })
	}

	// And by our own client: with the credentials of another node nobody is the node.
	e, err := jetstream.Open(ctx, jetstream.Config{URL: "nats://" + w.nats.Servers[0].Addr, Creds: w.creds[0], Single: true, Warn: func(s string) { t.Log(s) }})
	require.NoError(t, err)
	defer e.Close()
	before, found, err := e.Node(ctx, "n1")
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, e.Beat(ctx, cluster.Node{Name: "n0", Boot: "another"}))
	require.ErrorIs(t, e.Beat(ctx, cluster.Node{Name: "n1", Boot: "another"}), cluster.ErrSettings)
	require.ErrorIs(t, e.Trim(ctx, cluster.SessionID(id), 100), cluster.ErrSettings)
	after, _, err := e.Node(ctx, "n1")
	require.NoError(t, err)
	assert.Equal(t, before, after)
	w.start(0, w.creds[0])
	w.start(1, w.creds[0])
	require.NoError(t, engines.Until(ctx, "the node that has the credentials of another to say so", func() bool {
		text, err := os.ReadFile(filepath.Join(w.nodes[1].Dir, "n1.log"))
		return err == nil && strings.Contains(string(text), `Permissions Violation for Publish to \"t.node.n1\"`)
	}))
	c.close()
	require.NoError(t, engines.Until(ctx, "the other to be silent for the node that has its own", func() bool {
		one, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		v, err := c.say(one, 0, map[string]any{"type": "get_cluster", "id": "g"})
		return err == nil && v.Get("data.lease").Raw+v.Get("data.nodes.#.state").Raw == `true["lives","silent"]`
	}))
}
