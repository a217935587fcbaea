package actors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/conn"
	"troupe/actors/relay"
	"troupe/protocol"
)

var moves = flag.Int("relay.moves", 60, "how often TestMoved moves a session")

var everyCut = flag.Bool("relay.cuts", false, "cut the wire between nodes at every byte, and not at some")

// wires are the ways between the nodes of a test.
type wires struct {
	mu    sync.Mutex
	nodes map[string]*node
	next  [2]int // where the next wire is cut: bytes to the node, and from it; -1 for nowhere
	open  []*wire

	refuse error // every wire; nil for none
}

// Dial implements [cluster.Forwarder].
func (w *wires) Dial(_ context.Context, to cluster.Node, who cluster.Identity) (cluster.Conn, error) {
	w.mu.Lock()
	n, cut := w.nodes[to.Name], w.next
	w.next = [2]int{-1, -1}
	w.mu.Unlock()
	if n == nil {
		return nil, cluster.ErrRefused
	}
	if w.refuse != nil {
		return nil, w.refuse
	}
	c := &wire{out: newPipe(cut[0]), in: newPipe(cut[1])}
	c.out.other, c.in.other = c.in, c.out
	w.mu.Lock()
	w.open = append(w.open, c)
	w.mu.Unlock()
	of := n.cfg.Conn
	of.MultiSession, of.Peer, of.Retain, of.Drain, of.ViewOnly = true, true, who.Retain, who.Drain, who.ViewOnly
	if who.Lossy {
		of.Lag, of.MaxOutput = 16<<10, 8<<10
	}
	n.daemon.Connect(of, &behind{c})
	return c, nil
}

// cutAll breaks every wire.
func (w *wires) cutAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		c.out.fail()
		c.in.fail()
	}
	w.open = nil
}

// wire is a way to another node, as the relay has it.
type wire struct {
	out, in *pipe
	rest    []byte
}

func (c *wire) Read() ([]byte, error) {
	for {
		if i := strings.LastIndexByte(string(c.rest), '\n'); i >= 0 {
			lines := slices.Clone(c.rest[:i+1])
			c.rest = c.rest[i+1:]
			return lines, nil
		}
		buf := make([]byte, 4<<10)
		n, err := c.in.Read(buf)
		c.rest = append(c.rest, buf[:n]...)
		if err != nil {
			return nil, err
		}
	}
}

func (c *wire) Write(lines []byte) error {
	_, err := c.out.Write(lines)
	return err
}
func (c *wire) CloseWrite() error { c.out.end(); return nil }
func (c *wire) Close() error      { c.out.fail(); c.in.fail(); return nil }

// behind is the same as the other node has it.
type behind struct{ c *wire }

func (b *behind) Read(p []byte) (int, error)  { return b.c.out.Read(p) }
func (b *behind) Write(p []byte) (int, error) { return b.c.in.Write(p) }
func (b *behind) Close() error                { b.c.in.end(); return nil }
func (b *behind) String() string              { return "another node" }

// pipe is one way, which holds as much as a network does.
type pipe struct {
	mu     sync.Mutex
	moved  *sync.Cond
	buf    []byte
	passed int
	cut    int // bytes after which it breaks, and its other way with it
	ended  bool
	failed bool
	other  *pipe
}

const pipeHolds = 16 << 10

var errCut = errors.New("the wire was cut")

func newPipe(cut int) *pipe {
	p := &pipe{cut: cut}
	p.moved = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.moved.Broadcast()
}

func (p *pipe) end()  { p.change(func() { p.ended = true }) }
func (p *pipe) fail() { p.change(func() { p.failed = true }) }

func (p *pipe) Write(b []byte) (n int, err error) {
	for n < len(b) {
		p.mu.Lock()
		for len(p.buf) >= pipeHolds && !p.failed {
			p.moved.Wait()
		}
		if p.failed || p.ended {
			p.mu.Unlock()
			return n, errCut
		}
		part := b[n:min(len(b), n+pipeHolds-len(p.buf))]
		broken := p.cut >= 0 && p.passed+len(part) >= p.cut
		if broken {
			part = part[:p.cut-p.passed]
		}
		p.buf = append(p.buf, part...)
		p.passed += len(part)
		n += len(part)
		p.moved.Broadcast()
		p.mu.Unlock()
		if broken {
			p.fail()
			p.other.fail()
			return n, errCut
		}
	}
	return n, nil
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) == 0 {
		switch {
		case p.failed:
			return 0, errCut
		case p.ended:
			return 0, io.EOF
		}
		p.moved.Wait()
	}
	n := copy(b, p.buf)
	p.buf = p.buf[n:]
	p.moved.Broadcast()
	return n, nil
}

// nodesOf starts nodes that reach each other.
func nodesOf(t *testing.T, names ...string) (*wires, *clustertest.Memory, []*node) {
	return nodesWith(t, func(*Config) {}, names...)
}

func nodesWith(t *testing.T, change func(*Config), names ...string) (*wires, *clustertest.Memory, []*node) {
	engine, h := clustertest.New(1, 0), &actortest.History{}
	w := &wires{nodes: map[string]*node{}, next: [2]int{-1, -1}}
	var nodes []*node
	for _, name := range names {
		n := startNode(t, engine, h, name, func(c *Config) {
			c.Epoch = "e" + name
			c.Relay = &relay.Shared{Members: c.Sessions.Cluster.Member, Dial: w, Roots: everywhere(name), Held: c.Sessions.Cluster.Held, Log: zerolog.Nop()}
			change(c)
		})
		w.mu.Lock()
		w.nodes[name] = n
		w.mu.Unlock()
		nodes = append(nodes, n)
	}
	time.Sleep(2 * time.Second) // until they have heard of each other
	return w, engine, nodes
}

// reach has a node be reached by others from now on, or not.
func (w *wires) reach(name string, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[name] = n
}

// lose takes a node away at once.
func (w *wires) lose(name string) {
	w.mu.Lock()
	n := w.nodes[name]
	delete(w.nodes, name)
	w.mu.Unlock()
	n.lose()
	w.cutAll()
}

// through is a client of a node that has named itself.
func through(n *node, client, more string, changes ...func(*conn.Config)) *node {
	n.bench.peers %= 20 // ids begin with a letter
	c := &node{bench: n.connect(append([]func(*conn.Config){func(of *conn.Config) { of.MultiSession, of.Retain = true, true }}, changes...)...), name: n.name, member: n.member, way: n.way}
	c.Call(n.t, fmt.Sprintf(`{"type":"hello","clientId":%q%s}`, client, more))
	return c
}

// openOn opens a session that belongs on a node, by a command whose id says so.
func (c *node) openOn(name, client string) string {
	for i := 0; ; i++ {
		command := fmt.Sprintf("open-%s-%s-%d", client, name, i)
		id := string(cluster.NewSessionID(client, command))
		at, err := c.member.Place(cluster.SessionID(id), cluster.Wants{Root: "w"})
		require.NoError(c.t, err)
		if at.Name != name {
			continue
		}
		c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:","retain":true}`, command))
		v := c.wait(command)
		require.True(c.t, v.Get("success").Bool(), v.Raw)
		require.Equal(c.t, id, v.Get("data.sessionId").Str)
		return id
	}
}

var ofTheNode = regexp.MustCompile(`"node":"[^"]*"|"epoch":"[^"]*"`)

// wait is the answer to a line, once there is exactly one.
func (c *node) wait(id string) gjson.Result {
	c.t.Helper()
	for range 1000 {
		if strings.Contains(strings.Join(c.Lines(), "\n"), `{"id":"`+id+`","type":"response"`) {
			break
		}
		c.pass(20 * time.Millisecond)
	}
	return c.Answer(c.t, id)
}

const userSaid = `"role":"user","content":[{"type":"text","text":"`

// heard are the lines of events of a session that its node has said.
func heard(c *node, session string) (lines []string) {
	for _, e := range c.Events(session) {
		if kind := e.Get("type").Str; kind != "session_moved" && kind != "resync" {
			lines = append(lines, e.Raw)
		}
	}
	return lines
}

// said is how often a user has said something in a log.
func said(log, text string) int { return strings.Count(log, userSaid+text+`"`) }

// TestRelayedBytes (C10): what a client reads through a node that does not have the session is,
// byte for byte, what it reads from the one that has it, but for the names of both.
func TestRelayedBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := func(n *node) []string {
			c := through(n, "client-one", `,"features":["seq","deltaUpdates","stateEvents"]`)
			s := c.openOn("b", "client-one")
			for _, line := range []string{
				`{"type":"get_state"%s}`, `{"type":"set_session_name","name":"a name"%s}`,
				`{"type":"prompt","message":"~x~ pace=50 parts=8 tool=look rounds=2"%s}`,
				`{"type":"get_messages"%s}`, `{"type":"get_entries"%s}`, `{"type":"no_such_thing","x":[1,2]%s}`, `{"type":"set_model"%s}`, `{"type":"prompt","message":7%s}`,
				`{"type":"attach"%s,"snapshot":{}}`, `{"type":"detach"%s}`, `{"type":"get_state"%s}`, `{"type":"attach"%s}`, `{"type":"bash","command":"echo hi"%s}`,
				`{"type":"close_session"%s}`, `{"type":"get_state"%s}`,
			} {
				c.Call(t, fmt.Sprintf(line, at(s)))
				c.pass(10 * time.Second)
			}
			lines := c.Lines()[1:] // hello is the node's own
			for i := range lines {
				lines[i] = ofTheNode.ReplaceAllString(lines[i], "")
			}
			require.NoError(t, c.leave())
			return lines
		}
		world := func(gateway int) (lines []string) {
			_, _, nodes := nodesOf(t, "a", "b")
			lines = script(nodes[gateway])
			for _, n := range nodes {
				n.end()
			}
			return lines
		}
		begun := time.Now()
		direct := world(1)
		time.Sleep(time.Hour - time.Since(begun)) // stamps differ by an hour
		relayed := world(0)
		times := regexp.MustCompile(`"(timestamp|[a-zA-Z]*[sS]ince|modified|created|t)":("[^"]*"|\d+)|"id":"[0-9a-f]{8}"|"parentId":"[0-9a-f]{8}"|"leafId":"[0-9a-f]{8}"|"entryId":"[0-9a-f]{8}"`)
		for i := range max(len(direct), len(relayed)) {
			require.Less(t, i, len(direct), relayed)
			require.Less(t, i, len(relayed), direct[i:])
			require.Equal(t, times.ReplaceAllString(direct[i], ""), times.ReplaceAllString(relayed[i], ""))
		}
		assert.Greater(t, len(direct), 40)
	})
}

// TestDirectoriesOfASession: a client that names a session sees the files of the node that has it,
// and else those of the node that it is a client of.
func TestDirectoriesOfASession(t *testing.T) {
	dirs := map[string]string{"a": t.TempDir(), "b": t.TempDir()}
	for name, dir := range dirs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "of-"+name), nil, 0o600))
	}
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesWith(t, func(c *Config) { c.Conn.Default.Cwd = dirs[strings.TrimPrefix(c.Epoch, "e")] }, "a", "b")
		c := through(nodes[0], "client-one", "")
		files := func(of string) string {
			return c.Call(t, `{"type":"list_directories","files":true`+of+`}`).Get("data.files").Raw
		}
		assert.Equal(t, `["of-a"]`, files(""))
		assert.Equal(t, `["of-a"]`, files(at(c.openOn("a", "client-one"))))
		assert.Equal(t, `["of-b"]`, files(at(c.openOn("b", "client-one"))))
		require.NoError(t, c.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestInMemoryInARoot: a session in memory is made by the node that is asked, in the root that was named there; what only a session that is
// kept can have is refused.
func TestInMemoryInARoot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesWith(t, func(*Config) {}, "a", "b")
		c := through(nodes[0], "client-one", "")
		for said, want := range map[string]string{
			`"cwd":"w:"`: "", `"cwd":"none:x"`: "nowhere", `"cwd":"g:"`: "invalid_params", `"cwd":"w:","wants":{"labels":{"gpu":"yes"}}`: "invalid_params",
		} {
			v := c.Call(t, `{"type":"open_session","noSession":true,`+said+`}`)
			assert.Equal(t, want, code(v), v.Raw)
		}
		v := c.Call(t, `{"type":"open_session","noSession":true,"cwd":"w:"}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		is := c.Call(t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="` + v.Get("data.sessionId").Str + `")`)
		assert.Equal(t, emptyDir, is.Get("cwd").Str, is.Raw)
		require.NoError(t, c.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestRelayCut (N8): the wire between nodes is cut at any byte, either way. Each command is
// answered once, and has its effect once, in the order in which they were said, and what the client
// reads of the session, also by attaching again where it is told to, is byte for byte what one reads
// at its node (C10).
func TestRelayCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b")
		a, b := nodes[0], nodes[1]
		var unseen, told int
		cut := func(way, after int) (passed int) {
			client := fmt.Sprintf("client-%d-%05d", way, after)
			w.mu.Lock()
			w.next = [2]int{-1, -1}
			w.next[way] = after
			w.mu.Unlock()
			c := through(a, client, `,"features":["deltaUpdates","seq"]`)
			s := c.openOn("b", client)
			direct := through(b, "client-direct", `,"features":["deltaUpdates","seq"]`)
			direct.Call(t, `{"type":"attach"`+at(s)+`}`)
			c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ one"` + at(s) + `}`)
			c.Line(`{"id":"x-p2","type":"follow_up","message":"~x~ two"` + at(s) + `}`)
			c.Line(`{"id":"x-g1","type":"get_state"` + at(s) + `}`)
			c.pass(10 * time.Second)
			for _, id := range []string{"x-p1", "x-p2", "x-g1"} {
				v := c.wait(id)
				require.True(t, v.Get("success").Bool(), "cut %d %d: %s", way, after, v.Raw)
			}
			text := b.lines(s)
			require.Equal(t, 1, said(text, "~x~ one"), "cut %d %d: %s", way, after, text)
			require.Equal(t, 1, said(text, "~x~ two"), "cut %d %d: %s", way, after, text)
			require.Less(t, strings.Index(text, userSaid+"~x~ one"), strings.Index(text, userSaid+"~x~ two"))
			if before := heard(c, s); slices.Contains(c.Kinds(s), "resync") {
				told++
				last := int64(0)
				if n := len(before); n > 0 {
					last = gjson.Get(before[n-1], "seq").Int()
				}
				v := c.Call(t, fmt.Sprintf(`{"type":"attach"%s,"since":{"epoch":"eb","seq":%d}}`, at(s), last))
				require.Equal(t, "exact", v.Get("data.replay").Str, v.Raw)
				c.pass(time.Second)
			} else {
				unseen++
			}
			require.Equal(t, heard(direct, s), heard(c, s), "cut %d %d", way, after)
			require.NoError(t, direct.leave())
			w.mu.Lock()
			first := w.open[0]
			w.open = nil
			w.mu.Unlock()
			c.Call(t, `{"type":"close_session"`+at(s)+`}`)
			require.NoError(t, c.leave())
			return []int{first.out.passed, first.in.passed}[way]
		}
		step := 37
		if *everyCut {
			step = 1
		}
		for way := range 2 {
			all := cut(way, -1)
			require.Greater(t, all, 300)
			for k := 0; k < all; k += step {
				cut(way, k)
			}
		}
		assert.NotZero(t, unseen, "nothing was open, or nothing was said behind it")
		assert.NotZero(t, told)
		a.end()
		b.end()
	})
}

// TestRelayFailsOver: a session whose node is lost goes on for a client of another node: one that
// counts events attaches again, and reads a snapshot of another epoch; what was asked and not
// answered is answered once.
func TestRelayFailsOver(t *testing.T) {
	for _, features := range []string{`["seq","deltaUpdates"]`, `["deltaUpdates"]`} {
		t.Run(features, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, _, nodes := nodesOf(t, "a", "b", "c")
				c := through(nodes[0], "client-one", `,"features":`+features)
				s := c.openOn("b", "client-one")
				c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ pace=500 parts=8"` + at(s) + `}`)
				c.pass(2 * time.Second)
				require.Len(t, nodes[1].models.Asked(), 1)
				w.lose("b")
				lost := time.Now()
				c.Line(`{"id":"x-p2","type":"follow_up","message":"~x~ two"` + at(s) + `}`)
				v := c.wait("x-p2")
				require.True(t, v.Get("success").Bool(), v.Raw)
				assert.Less(t, time.Since(lost), 2*time.Second)
				moved := c.Events(s, "session_moved")
				require.Len(t, moved, 1)
				assert.Contains(t, []string{"a", "c"}, moved[0].Get("to").Str)
				assert.Equal(t, "failover", moved[0].Get("why").Str)
				if strings.Contains(features, "seq") {
					require.Len(t, c.Events(s, "resync"), 1)
					before := len(c.Events(s))
					c.pass(time.Second)
					assert.Len(t, c.Events(s), before, "it hears nothing before it attaches again")
					back := c.Call(t, `{"type":"attach"`+at(s)+`,"since":{"epoch":"eb","seq":3}}`)
					assert.Equal(t, "snapshot epoch", back.Get("data.replay").Str+" "+back.Get("data.why").Str, back.Raw)
					assert.Equal(t, "e"+moved[0].Get("to").Str, back.Get("data.epoch").Str)
				}
				c.pass(30 * time.Second)
				kinds := c.Kinds(s)
				assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
				all := c.Call(t, `{"type":"get_messages"`+at(s)+`}`)
				assert.Equal(t, 1, said(all.Raw, "~x~ two"))
				assert.Contains(t, c.Call(t, `{"type":"list_open_sessions"}`).Raw, `"node":"`+moved[0].Get("to").Str)
				require.NoError(t, c.leave())
				nodes[0].end()
				nodes[2].end()
			})
		})
	}
}

// TestRelayWatched: what a gateway passes on, how long that takes and how long a fail-over did are measured.
func TestRelayWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := new(cluster.Metrics)
		w, _, nodes := nodesWith(t, func(c *Config) {
			if c.Epoch == "ea" {
				c.Relay.Metrics = m
			}
		}, "a", "b", "c")
		value := func(name string) float64 {
			t.Helper()
			var text strings.Builder
			require.NoError(t, m.Write(&text, nil))
			for line := range strings.Lines(text.String()) {
				if is, found := strings.CutPrefix(line, "troupe_cluster_"+name+" "); found {
					v, err := strconv.ParseFloat(strings.TrimSpace(is), 64)
					require.NoError(t, err)
					return v
				}
			}
			return 0
		}
		c := through(nodes[0], "client-one", `,"features":["seq"]`)
		s := c.openOn("b", "client-one")
		lines, answers := value("relay_lines_total"), value("relay_seconds_count")
		for range 5 {
			c.Call(t, `{"type":"get_state"`+at(s)+`}`)
		}
		assert.Equal(t, []float64{5, 5, 0}, []float64{value("relay_lines_total") - lines, value("relay_seconds_count") - answers, value("failover_seconds_count")})
		w.lose("b")
		c.Line(`{"id":"x-p2","type":"follow_up","message":"~x~ two"` + at(s) + `}`)
		require.True(t, c.wait("x-p2").Get("success").Bool())
		assert.EqualValues(t, 1, value("failover_seconds_count"))
		assert.InDelta(t, 1.2, value("failover_seconds_sum"), 0.6)
		c.pass(10 * time.Second)
		require.NoError(t, c.leave())
		nodes[0].end()
		nodes[2].end()
	})
}

// TestRelayFailsOverUnasked: a client that asks for nothing hears how its run goes on, also on the
// node that it is a client of, and whoever of the relay and the node takes the session up first.
func TestRelayFailsOverUnasked(t *testing.T) {
	for _, names := range []string{"ab", "abc"} {
		for early := range 6 {
			t.Run(fmt.Sprint(names, early), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, _, nodes := nodesOf(t, strings.Split(names, "")...)
					c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
					s := c.openOn("b", "client-one")
					c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ pace=500 parts=8"` + at(s) + `}`)
					c.pass(2*time.Second + time.Duration(early)*73*time.Millisecond)
					w.lose("b")
					c.pass(30 * time.Second)
					kinds := c.Kinds(s)
					assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
					require.NoError(t, c.leave())
					nodes[0].end()
					for _, n := range nodes[2:] {
						n.end()
					}
				})
			})
		}
	}
}

// TestRelayIsLate: a client that asks for nothing is told once that all is over, also where its run has gone on, and has
// ended, before it was led there: to another node, and to its own. It is told how.
func TestRelayIsLate(t *testing.T) {
	for _, how := range []string{"a completed", "c completed", "a aborted", "c aborted"} {
		next, outcome, _ := strings.Cut(how, " ")
		prompt := map[string]string{
			"completed": "tool=danger rounds=1 calls=1 work=90000", "aborted": "tool=danger rounds=1 calls=1 work=90000 pace=1000 parts=100",
		}[outcome]
		for _, features := range []string{`["deltaUpdates"]`, `["deltaUpdates","seq"]`} {
			t.Run(how+features, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, _, nodes := nodesOf(t, "a", "b", "c")
					a, c := nodes[0], nodes[2]
					one := through(a, "client-one", `,"features":`+features)
					s := one.openBehind("b", next, "client-one")
					two := through(map[string]*node{"a": a, "c": c}[next], "client-two", "")
					two.Call(t, `{"type":"attach"`+at(s)+`}`)
					one.Line(`{"id":"x-p1","type":"prompt","message":"~x~ ` + prompt + `"` + at(s) + `}`)
					one.pass(time.Second)
					a.way.Cut(clustertest.Gone)
					c.way.Cut(clustertest.Gone)
					w.lose("b")
					one.pass(13 * time.Second) // both look for it now and then only
					a.way.Cut(clustertest.Whole)
					c.way.Cut(clustertest.Whole)
					for {
						if outcome == "aborted" {
							two.Call(t, `{"type":"abort"`+at(s)+`}`)
						}
						v := two.Call(t, `{"type":"get_state"`+at(s)+`}`)
						if v.Get("success").Bool() && !v.Get("data.isStreaming").Bool() {
							break
						}
					}
					assert.NotContains(t, one.Kinds(s), "session_moved", "it is led there later")
					one.pass(10 * time.Second)
					kinds := one.Kinds(s)
					if strings.Contains(features, "seq") {
						assert.Equal(t, []string{"session_moved", "resync"}, kinds[len(kinds)-2:], kinds)
					} else {
						assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
						assert.Equal(t, 1, strings.Count(strings.Join(kinds, " "), "agent_settled"), kinds)
						assert.Equal(t, outcome, one.Events(s, "agent_settled")[0].Get("outcome").Str)
						open, _ := one.unended(s)
						assert.Empty(t, open, kinds)
					}
					require.NoError(t, one.leave())
					require.NoError(t, two.leave())
					a.end()
					c.end()
				})
			})
		}
	}
}

// unended is what a client has been told has begun and not that it has ended, and what has ended that had not begun.
func (c *node) unended(session string) (open, wrong []string) {
	for _, e := range c.Events(session) {
		for _, row := range protocol.Events {
			what := string(row.Opens+row.Closes) + " " + e.Get("toolCallId").Str
			switch {
			case row.Name != e.Get("type").Str || row.Opens+row.Closes == "" || row.Closes == protocol.SpanWork:
			case row.Opens != "" && slices.Contains(open, what):
				wrong = append(wrong, "begun twice: "+e.Raw)
			case row.Opens != "":
				open = append(open, what)
			case !slices.Contains(open, what):
				wrong = append(wrong, "ended without a beginning: "+e.Raw)
			default:
				open = slices.DeleteFunc(open, func(o string) bool { return o == what })
			}
		}
	}
	return open, wrong
}

// TestRelayEndsWhatHasBegun: a client of another node that does not ask for snapshots is told the end of all that it has seen begin
// when the node is lost, whether the run goes on or not, and when only the wire was cut; and at last that nothing goes on.
func TestRelayEndsWhatHasBegun(t *testing.T) {
	prompts := []string{"pace=500 parts=8", "tool=danger rounds=1 calls=2 work=4000", "tool=note rounds=3 calls=1 pace=100"}
	for _, names := range []string{"ab", "abc"} {
		for _, happens := range []string{"lost", "lost, and stops", "cut", "cut until it is over"} {
			for i, prompt := range prompts {
				t.Run(fmt.Sprint(names, happens, i), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						stops := strings.Contains(happens, "stops")
						w, _, nodes := nodesWith(t, func(c *Config) { c.Sessions.Cluster.Stop, c.Relay.Stops = stops, stops }, strings.Split(names, "")...)
						c := through(nodes[0], "client-one", `,"features":["deltaUpdates","compactionEvents"]`)
						s := c.openOn("b", "client-one")
						c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ ` + prompt + `"` + at(s) + `}`)
						c.pass(1300 * time.Millisecond)
						open, _ := c.unended(s)
						require.NotEmpty(t, open, c.Lines()[len(c.Lines())-2:])
						switch happens {
						case "cut":
							w.cutAll()
						case "cut until it is over":
							w.reach("b", nil)
							w.cutAll()
							c.pass(20 * time.Second)
							w.reach("b", nodes[1])
						default:
							w.lose("b")
						}
						c.pass(time.Minute)
						kinds := c.Kinds(s)
						open, wrong := c.unended(s)
						assert.Empty(t, append(open, wrong...), kinds)
						assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
						assert.Equal(t, 1, strings.Count(strings.Join(kinds, " "), "agent_settled"), kinds)
						require.NoError(t, c.leave())
						for _, n := range nodes {
							if n.name != "b" || !strings.HasPrefix(happens, "lost") {
								n.end()
							}
						}
					})
				})
			}
		}
	}
}

// TestFencedEndsWhatHasBegun: the same of a client of the node that had the session and finds that another one has it. The session itself
// says nothing any more (C7): the relay does, behind session_moved. When it is led there the run may still go on, and may be over.
func TestFencedEndsWhatHasBegun(t *testing.T) {
	for _, stops := range []bool{false, true} {
		for _, c := range []struct {
			prompt   string
			features string
			away     time.Duration
		}{
			{"pace=500 parts=8", `["deltaUpdates"]`, 0},
			{"tool=danger rounds=1 calls=2 work=9000", `["deltaUpdates"]`, 3 * time.Second},
			{"tool=danger rounds=1 calls=2 work=9000", `["deltaUpdates","seq"]`, 3 * time.Second},
		} {
			t.Run(fmt.Sprint(stops, c), func(t *testing.T) {
				bubble(t, func(t *testing.T) { fencedEnds(t, stops, c.prompt, c.features, c.away) })
			})
		}
	}
}

func fencedEnds(t *testing.T, stops bool, prompt, features string, away time.Duration) {
	w, _, nodes := nodesWith(t, func(c *Config) { c.Sessions.Cluster.Stop, c.Relay.Stops = stops, stops }, "a", "b")
	a, b := nodes[0], nodes[1]
	c := through(a, "client-one", `,"features":`+features)
	s := c.openOn("a", "client-one")
	c.Line(`{"id":"x-p1","type":"prompt","message":"~x~ ` + prompt + `"` + at(s) + `}`)
	c.pass(1300 * time.Millisecond)
	begun := c.Kinds(s)
	require.NotContains(t, begun, "agent_settled")
	a.way.Cut(clustertest.Gone)
	w.reach("a", nil)
	other := through(b, "client-two", `,"features":["deltaUpdates"]`)
	v := other.Call(t, `{"type":"attach"`+at(s)+`}`)
	require.True(t, v.Get("success").Bool(), v.Raw)
	other.pass(away)
	a.way.Cut(clustertest.Whole)
	c.pass(time.Minute)
	kinds := c.Kinds(s)
	if strings.Contains(features, "seq") { // it is told to attach again, and reads how it is
		assert.Equal(t, []string{"session_moved", "resync"}, kinds[len(begun):])
	} else {
		open, _ := c.unended(s)
		assert.Empty(t, open, kinds)
		assert.Equal(t, 1, strings.Count(strings.Join(kinds, " "), "agent_settled"), kinds)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Equal(t, "session_moved", kinds[len(begun)], kinds)
	}
	require.NoError(t, c.leave())
	require.NoError(t, other.leave())
	a.end()
	b.end()
}

// TestRelayAnswersFirst: a client that has asked for something while its session was lost gets the answer before anything that
// the session says where it goes on; one that has asked for nothing hears it at once.
func TestRelayAnswersFirst(t *testing.T) {
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprint(asks), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, _, nodes := nodesOf(t, "a", "b", "c")
				c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
				s := c.openBehind("b", "a", "client-one")
				c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=500 parts=8"` + at(s) + `}`)
				c.pass(2 * time.Second)
				w.lose("b")
				before := len(c.Lines())
				if asks {
					c.Line(`{"id":"x-q","type":"get_session_stats"` + at(s) + `}`)
				}
				c.pass(5 * time.Second)
				var kinds []string
				for _, line := range c.Lines()[before:] {
					if v := gjson.Parse(line); v.Get("sessionId").Str == s && !strings.HasPrefix(v.Get("type").Str, "session_") {
						kinds = append(kinds, v.Get("type").Str)
					}
				}
				require.Contains(t, kinds, "agent_start")
				require.Equal(t, []string{"message_end", "turn_end", "agent_end"}, kinds[:3], "what was begun has ended")
				if asks {
					assert.Equal(t, "response", kinds[3], kinds)
				}
				require.NoError(t, c.leave())
				nodes[0].end()
				nodes[2].end()
			})
		})
	}
}

// openBehind opens a session that belongs on a node, and on another one when that is lost.
func (c *node) openBehind(name, next, client string) string {
	c.t.Helper()
	for i := 0; ; i++ {
		command := fmt.Sprintf("open-%s-%s-%d", client, name, i)
		id := string(cluster.NewSessionID(client, command))
		on := func(without string) string {
			nodes := slices.DeleteFunc(c.member.Seen(), func(n cluster.Seen) bool { return n.Name == without })
			at, err := cluster.Place(cluster.SessionID(id), cluster.Wants{Root: "w"}, nodes)
			require.NoError(c.t, err)
			return at.Name
		}
		if on("") != name || on(name) != next {
			continue
		}
		c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:","retain":true}`, command))
		v := c.wait(command)
		require.True(c.t, v.Get("success").Bool(), v.Raw)
		return id
	}
}

// TestGraceOfSharedDirectories: where a directory is on the lost node, too, nothing runs in it before that node has ended what
// runs there, however it was lost; anything else is done at once. A node that gave the session up has nothing running.
func TestGraceOfSharedDirectories(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b", "c")
		for _, n := range nodes {
			n.cfg.Sessions.Cluster.Grace = 15 * time.Second
		}
		c := through(nodes[0], "client-one", "")
		took := func(s, command string) time.Duration {
			begun := time.Now()
			id := fmt.Sprint("x-g", len(c.Lines()))
			c.Line(fmt.Sprintf(`{"id":%q,%s%s}`, id, command, at(s)))
			v := c.wait(id)
			for i := 0; i < 2 && !v.Exists(); i++ {
				v = c.wait(id)
			}
			require.True(t, v.Get("success").Bool(), v.Raw)
			return time.Since(begun)
		}
		moves, lost := c.openBehind("b", "a", "client-one"), c.openBehind("b", "c", "client-one")
		for _, s := range []string{moves, lost} {
			c.run(s, "~x~ one")
			assert.Less(t, took(s, `"type":"bash","command":"quick"`), time.Second)
		}
		took(moves, `"type":"move_session","node":"a"`)
		assert.Less(t, took(moves, `"type":"bash","command":"quick"`), time.Second)
		w.lose("b")
		assert.Less(t, took(lost, `"type":"set_session_name","name":"one"`), 2*time.Second)
		c.Line(`{"id":"x-p","type":"prompt","message":"~y~ tool=danger rounds=1"` + at(lost) + `}`)
		require.True(t, c.wait("x-p").Get("success").Bool())
		c.pass(10 * time.Second)
		assert.Empty(t, c.Events(lost, "tool_execution_end"))
		waited := 10*time.Second + took(lost, `"type":"bash","command":"quick"`)
		assert.Greater(t, waited, 13*time.Second)
		assert.LessOrEqual(t, waited, 15*time.Second)
		c.pass(time.Second)
		assert.Len(t, c.Events(lost, "tool_execution_end"), 1)
		assert.Less(t, took(lost, `"type":"bash","command":"quick"`), time.Second)
		require.NoError(t, c.leave())
		nodes[0].end()
		nodes[2].end()
	})
}

// TestRelayRepeats: a command that comes again over a hop acts once, and its answer says so, whether the wire to
// the session's node is the one it came by first or another, and whichever client's connection it is.
func TestRelayRepeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b", "d")
		c := through(nodes[0], "client-one", "")
		s := c.openOn("b", "client-one")
		const name = `{"id":"x-n","type":"set_session_name","name":"n"`
		c.Line(name + at(s) + `}`)
		require.True(t, c.wait("x-n").Get("success").Bool())
		replayed := func(of *node) {
			t.Helper()
			n := strings.Count(strings.Join(of.Lines(), "\n"), `{"id":"x-n","type":"response"`)
			of.Line(name + at(s) + `}`)
			of.pass(2 * time.Second)
			var answers []gjson.Result
			for _, line := range of.Lines() {
				if v := gjson.Parse(line); v.Get("id").Str == "x-n" {
					answers = append(answers, v)
				}
			}
			require.Len(t, answers, n+1)
			assert.True(t, answers[n].Get("success").Bool() && answers[n].Get("replayed").Bool(), answers[n].Raw)
		}
		replayed(c)
		w.cutAll()
		c.pass(time.Second)
		replayed(c)
		again := through(nodes[2], "client-one", "")
		again.Call(t, `{"type":"attach"`+at(s)+`}`)
		replayed(again)
		assert.Equal(t, 1, strings.Count(nodes[0].lines(s), `"name":"n"`))
		require.NoError(t, c.leave())
		require.NoError(t, again.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestRelayLag (L2): a client of another node that does not read harms nobody: the run goes on, others
// hear it, what waits is bounded, and it is told to attach again.
func TestRelayLag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", `,"features":["seq","deltaUpdates"]`, func(of *conn.Config) { of.Lag, of.MaxOutput = 16<<10, 8<<10 })
		s := c.openOn("b", "client-one")
		other := through(nodes[1], "client-two", `,"features":["deltaUpdates"]`)
		other.Call(t, `{"type":"attach"`+at(s)+`}`)
		c.Stop()
		other.Say(s, "prompt", "~x~ rounds=20 parts=4000 bytes=100")
		other.pass(5 * time.Minute)
		require.Len(t, other.Events(s, "agent_settled"), 1, "nobody waits")
		_, out := c.window.Balance()
		assert.Less(t, out, 400<<10)
		state := c.Send(`{"type":"get_state"` + at(s) + `}`)
		c.Go()
		c.pass(time.Second)
		read := c.Events(s)
		require.NotEmpty(t, read)
		assert.Equal(t, "resync lagged", read[len(read)-1].Get("type").Str+" "+read[len(read)-1].Get("reason").Str)
		assert.True(t, c.wait(state).Get("success").Bool())
		v := c.Call(t, `{"type":"attach"`+at(s)+`,"snapshot":{}}`)
		assert.Equal(t, "snapshot", v.Get("data.replay").Str)
		other.run(s, "~x~ more")
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		require.NoError(t, c.leave())
		require.NoError(t, other.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestDrainUnderLoad (O5): a node that ends gives its sessions up; clients of other nodes hear them go on,
// and every command is answered.
func TestDrainUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		a, b := nodes[0], nodes[1]
		c := through(a, "client-one", `,"features":["deltaUpdates"]`)
		var all []string
		for i := range 8 {
			client := fmt.Sprintf("client-%d", i)
			c.Call(t, fmt.Sprintf(`{"type":"hello","clientId":%q,"features":["deltaUpdates"]}`, client))
			all = append(all, c.openOn("b", client))
		}
		for i, s := range all {
			c.Line(fmt.Sprintf(`{"id":"x-p%d","type":"prompt","message":"~x~ pace=%d parts=8"%s}`, i, 100*i, at(s)))
		}
		c.pass(time.Second)
		follow := func(i int) {
			c.Line(fmt.Sprintf(`{"id":"x-f%d","type":"follow_up","message":"~x~ two"%s}`, i, at(all[i])))
		}
		const late = 4 // from here on what follows is said when the node takes no commands any more
		for i := range late {
			follow(i)
			c.wait(fmt.Sprintf("x-f%d", i))
		}
		b.member.Drain()
		b.daemon.Stop(Stop{})
		c.pass(100 * time.Millisecond)
		for i := late; i < len(all); i++ {
			assert.Empty(t, c.Events(all[i], "session_moved"), "it still answers there")
			follow(i)
		}
		c.pass(time.Minute)
		for i, s := range all {
			v := c.wait(fmt.Sprintf("x-f%d", i))
			require.True(t, v.Get("success").Bool(), v.Raw)
			assert.Equal(t, 1, said(a.lines(s), "~x~ two"), a.lines(s))
			kinds := c.Kinds(s)
			require.Len(t, c.Events(s, "session_moved"), 1, kinds)
			assert.Empty(t, c.Events(s, "session_waiting"), "it is on one node or the other")
			moved := slices.Index(kinds, "session_moved")
			assert.Equal(t, "agent_settled", kinds[moved-1], kinds)
			if i < late {
				assert.Len(t, kinds, moved+1)
				continue
			}
			assert.Equal(t, []string{"agent_start", "agent_settled"}, []string{kinds[moved+1], kinds[len(kinds)-1]}, kinds)
		}
		require.NoError(t, c.leave())
		a.end()
	})
}

// TestDrainLong: who asks a node for something that gives its sessions up waits as long as that takes, also longer
// than for a session that no node has.
func TestDrainLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		s := c.openOn("b", "client-one")
		c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=1500 parts=8"` + at(s) + `}`)
		c.pass(time.Second)
		nodes[1].member.Drain()
		nodes[1].daemon.Stop(Stop{})
		c.pass(100 * time.Millisecond)
		asked := time.Now()
		c.Line(`{"id":"x-f","type":"follow_up","message":"~x~ two"` + at(s) + `}`)
		late := through(nodes[0], "client-two", `,"features":["deltaUpdates"]`)
		late.Line(`{"id":"x-n","type":"attach"` + at(s) + `}`)
		for _, v := range []gjson.Result{c.wait("x-f"), late.wait("x-n")} {
			require.True(t, v.Get("success").Bool(), v.Raw)
		}
		assert.Greater(t, time.Since(asked), relay.DefaultWait, "else it tells nothing")
		require.NoError(t, c.leave())
		require.NoError(t, late.leave())
		nodes[0].end()
	})
}

// TestDrainIdle (O5): sessions that rest are on another node at once, and who asks them for something
// meanwhile waits for no more than that.
func TestDrainIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b", "c")
		b := nodes[1]
		c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		long := c.openOn("b", "client-one")
		var all []string
		for i := range 8 {
			client := fmt.Sprintf("client-%d", i)
			c.Call(t, fmt.Sprintf(`{"type":"hello","clientId":%q,"features":["deltaUpdates"]}`, client))
			all = append(all, c.openOn("b", client))
			c.run(all[i], "~x~ one")
		}
		c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=1000 parts=8"` + at(long) + `}`)
		c.pass(time.Second)
		begun := time.Now()
		b.member.Drain()
		b.daemon.Stop(Stop{})
		c.pass(time.Millisecond)
		for i, s := range all {
			c.Line(fmt.Sprintf(`{"id":"x-n%d","type":"set_session_name","name":"n"%s}`, i, at(s)))
		}
		for i := range all {
			for !strings.Contains(strings.Join(c.Lines(), "\n"), fmt.Sprintf(`{"id":"x-n%d","type":"response"`, i)) {
				c.pass(5 * time.Millisecond)
				require.Less(t, time.Since(begun), 300*time.Millisecond, i)
			}
		}
		c.pass(12 * time.Second)
		for _, s := range append(all, long) {
			moved := c.Events(s, "session_moved")
			require.Len(t, moved, 1, c.Kinds(s))
			assert.Contains(t, []string{"a", "c"}, moved[0].Get("to").Str)
			assert.Equal(t, "released", moved[0].Get("why").Str)
		}
		assert.NotContains(t, strings.Join(c.Lines(), "\n"), `{"type":"draining"`, "the client's own node goes on")
		require.NoError(t, c.leave())
		nodes[0].end()
		nodes[2].end()
	})
}

// TestMoved (O5): a session that rests is moved to and fro; its client is told each time, once, and goes on.
func TestMoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b", "c")
		c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		s := c.openOn("b", "client-one")
		c.run(s, "~x~ one")
		for _, node := range []string{"nobody", "B"} {
			assert.Equal(t, "nowhere", code(c.Call(t, `{"type":"move_session","node":"`+node+`"`+at(s)+`}`)))
		}
		v := c.Call(t, `{"type":"move_session","node":"b"`+at(s)+`}`)
		assert.True(t, v.Get("success").Bool(), v.Raw)
		c.pass(time.Second)
		assert.Empty(t, c.Events(s, "session_moved"), "it is there")
		next := func(i int) string { return []string{"c", "a", "b"}[i%3] }
		for i := range *moves {
			to := next(i)
			v := c.Call(t, `{"type":"move_session","node":"`+to+`"`+at(s)+`}`)
			require.True(t, v.Get("success").Bool(), v.Raw)
			v = c.Call(t, fmt.Sprintf(`{"type":"set_session_name","name":"n%d"%s}`, i, at(s)))
			require.True(t, v.Get("success").Bool(), v.Raw)
			moved := c.Events(s, "session_moved")
			require.Len(t, moved, i+1)
			require.Equal(t, to, moved[i].Get("to").Str)
			assert.Equal(t, 1, strings.Count(nodes[0].lines(s), fmt.Sprintf(`"name":"n%d"`, i)))
		}
		c.Say(s, "prompt", "~x~ pace=500 parts=8")
		c.pass(time.Second)
		assert.Equal(t, "session_busy", code(c.Call(t, `{"type":"move_session","node":"`+next(*moves)+`"`+at(s)+`}`)))
		c.pass(time.Minute)
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		require.NoError(t, c.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestMovedWhileAsked: what clients of the node that gives a session away, and of others, ask for meanwhile is answered where it is
// next, each once, and nobody reads that the session closes.
func TestMovedWhileAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		one, two := through(nodes[0], "client-one", ""), through(nodes[1], "client-two", "")
		s := one.openOn("a", "client-one")
		one.run(s, "~x~ one")
		two.Call(t, `{"type":"attach"`+at(s)+`}`)
		asked := map[*node][]string{}
		for i := range 16 {
			to := []string{"b", "a"}[i%2]
			one.Line(fmt.Sprintf(`{"id":"m%d","type":"move_session","node":%q%s}`, i, to, at(s)))
			for k := range 12 {
				for _, c := range []*node{one, two} {
					id := fmt.Sprintf("n%d-%d-%s", i, k, c.name)
					c.Line(fmt.Sprintf(`{"id":%q,"type":"set_session_name","name":%q%s}`, id, id, at(s)))
					asked[c] = append(asked[c], id)
				}
				one.pass(time.Duration(i) * 400 * time.Microsecond)
			}
			one.wait(fmt.Sprint("m", i))
			one.pass(2 * time.Second)
		}
		for c, ids := range asked {
			for _, id := range ids {
				v := c.wait(id)
				require.True(t, v.Get("success").Bool(), v.Raw)
				assert.Equal(t, 1, strings.Count(nodes[0].lines(s), `"name":"`+id+`"`), id)
			}
		}
		require.NoError(t, one.leave())
		require.NoError(t, two.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestReadThroughANodeWithoutTheEngine: a node that cannot ask where a session is answers what its copy says, and refuses the rest
// when that has waited.
func TestReadThroughANodeWithoutTheEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a")
		c := through(nodes[0], "client-one", "")
		s := c.openOn("a", "client-one")
		c.run(s, "~x~ one")
		require.True(t, c.Call(t, `{"type":"close_session"`+at(s)+`}`).Get("success").Bool())
		c.pass(2 * time.Second)
		nodes[0].way.Cut(clustertest.Gone)
		began := time.Now()
		c.Line(`{"id":"x-a","type":"get_messages"` + at(s) + `}`)
		v := c.wait("x-a")
		assert.Contains(t, v.Raw, "~x~ one")
		assert.Less(t, time.Since(began), relay.DefaultWait)
		c.Line(`{"id":"x-b","type":"attach"` + at(s) + `}`)
		v = c.wait("x-b")
		assert.Equal(t, "session_unavailable", code(v), v.Raw)
		nodes[0].way.Cut(clustertest.Whole)
		c.pass(5 * time.Second)
		require.NoError(t, c.leave())
		nodes[0].end()
	})
}

// TestNodeOfDirectoryLost (O7): a session whose directory is on a lost node only is nowhere else. Who asks for it has
// waited, and is told which node that was. It goes on when that is there again.
func TestNodeOfDirectoryLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, engine, nodes := nodesOf(t, "a", "b")
		c := through(nodes[1], "client-one", "")
		v := c.Call(t, `{"type":"open_session","cwd":"/","retain":true}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		s := v.Get("data.sessionId").Str
		c.run(s, "~x~ one")
		lost := time.Now()
		w.lose("b")
		other := through(nodes[0], "client-two", "")
		other.Line(`{"id":"x-a","type":"attach"` + at(s) + `}`)
		v = other.wait("x-a")
		assert.Equal(t, "node_lost b", code(v)+" "+v.Get("data.node").Str, v.Raw)
		assert.InDelta(t, lost.UnixMilli(), v.Get("data.since").Int(), 500)
		assert.InDelta(t, relay.DefaultWait.Seconds(), time.Since(lost).Seconds(), 1)
		other.reads(s)
		again := startNodeOn(t, engine, &actortest.History{}, "b", "b-2", nodes[1].disk.Killed(), func(of *Config) {
			of.Relay = &relay.Shared{Members: of.Sessions.Cluster.Member, Dial: w, Roots: everywhere("b"), Held: of.Sessions.Cluster.Held, Log: zerolog.Nop()}
		})
		w.mu.Lock()
		w.nodes["b"] = again
		w.mu.Unlock()
		other.Line(`{"id":"x-b","type":"attach"` + at(s) + `}`)
		v = other.wait("x-b")
		require.True(t, v.Get("success").Bool(), v.Raw)
		other.run(s, "~x~ two")
		kinds := other.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		again.end()
		require.NoError(t, other.leave())
		nodes[0].end()
	})
}

// TestNewerSession (C16, U1): a session that a newer version has written, and one whose node speaks another wire, are left alone, and
// who asks for them is told at once that it is the version.
func TestNewerSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, engine, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		s, other := c.openOn("b", "client-one"), c.openOn("a", "client-one")
		for _, id := range []string{s, other} {
			c.run(id, "~x~ one")
			c.Call(t, `{"type":"close_session"`+at(id)+`}`)
		}
		for _, id := range []string{s, other} {
			engine.Newer(cluster.SessionID(id), true)
			tail := nodes[0].length(id)
			for i, command := range []string{"attach", "get_messages"} {
				asked := time.Now()
				v := c.asks(fmt.Sprint("x-u", i, id), command, id)
				assert.Equal(t, "upgrade_needed", code(v), v.Raw)
				assert.Less(t, time.Since(asked), time.Second)
			}
			assert.Equal(t, tail, nodes[0].length(id), "nobody has claimed it")
			engine.Newer(cluster.SessionID(id), false)
			require.True(t, c.asks("x-b"+id, "attach", id).Get("success").Bool())
			c.Call(t, `{"type":"close_session"`+at(id)+`}`)
		}
		w.cutAll()
		w.refuse = cluster.ErrUpgrade
		asked := time.Now()
		v := c.asks("x-v", "attach", s)
		assert.Equal(t, "upgrade_needed", code(v), v.Raw)
		assert.Less(t, time.Since(asked), time.Second)
		require.NoError(t, c.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// length is how many records the engine has of a session.
func (n *node) length(id string) (records int) {
	n.way.Damage(cluster.SessionID(id), func(r []cluster.Record) []cluster.Record {
		records = len(r)
		return r
	})
	return records
}

// asks asks something about a session.
func (c *node) asks(id, command, session string) gjson.Result {
	c.t.Helper()
	c.Line(`{"id":"` + id + `","type":"` + command + `"` + at(session) + `}`)
	return c.wait(id)
}

// reads reads a session whose node is lost: its log can be read at once, as often as one likes, and nobody has it behind
// that.
func (c *node) reads(session string) {
	c.t.Helper()
	begun := time.Now()
	for i, of := range []struct{ command, has string }{
		{"get_messages", "data.messages.#(role==user).content.0.text"},
		{"get_messages", "data.messages.#(role==user).content.0.text"},
		{"get_entries", "data.entries.#(message.role==user).message.content.0.text"},
		{"get_tree", "data.tree.0"},
		{"get_session_stats", "data.userMessages"},
		{"get_fork_messages", "data.messages.0.text"},
		{"get_last_assistant_text", "data.text"},
	} {
		v := c.asks(fmt.Sprint("x-r", i), of.command, session)
		require.True(c.t, v.Get("success").Bool(), v.Raw)
		assert.True(c.t, v.Get(of.has).Exists() && v.Get(of.has).Raw != "null", v.Raw)
		assert.Equal(c.t, session, v.Get("sessionId").Str)
	}
	assert.Less(c.t, time.Since(begun), 2*time.Second)
	assert.NotContains(c.t, c.Call(c.t, `{"type":"list_open_sessions"}`).Raw, session)
}

// TestLeftOnTheWay: a client that goes while its command is on the way to a session of another node, or to one that nobody
// has any more, gives it again by another connection: it is carried out then, and not taken for one that is under way.
func TestLeftOnTheWay(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprint(closed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, _, nodes := nodesOf(t, "a", "b")
				c := through(nodes[0], "client-one", "")
				s := c.openOn("b", "client-one")
				c.run(s, "~x~ one")
				if closed {
					c.Call(t, `{"type":"close_session"`+at(s)+`}`)
				}
				named := `{"id":"x-n","type":"set_session_name","name":"mine"` + at(s) + `}`
				for i := range 20 {
					gone := through(nodes[0], "client-two", "")
					gone.Line(fmt.Sprintf(`{"id":"x-a%d","type":"attach"%s}`, i, at(s)) + "\n" + named)
					gone.Break()
					_ = gone.leave()
				}
				next := through(nodes[0], "client-two", "")
				require.True(t, next.asks("x-a", "attach", s).Get("success").Bool())
				next.Line(named)
				v := next.wait("x-n")
				assert.True(t, v.Get("success").Bool(), v.Raw)
				require.NoError(t, next.leave())
				require.NoError(t, c.leave())
				nodes[0].end()
				nodes[1].end()
			})
		})
	}
}

// TestAdopted: a session whose directory was on a lost node goes on where somebody gives it another one, and stays
// there; its model is told. One that is open, or may be on any node, is not adopted.
func TestAdopted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b", "d")
		far := through(nodes[1], "client-one", "")
		s := far.Call(t, `{"type":"open_session","cwd":"/","retain":true}`).Get("data.sessionId").Str
		far.run(s, "~x~ one")
		c := through(nodes[0], "client-two", `,"features":["deltaUpdates"]`)
		adopt := func(id, cwd string) gjson.Result {
			c.Line(fmt.Sprintf(`{"id":"x-a%d","type":"adopt_session","cwd":%q%s}`, len(c.Lines()), cwd, at(id)))
			return c.wait(fmt.Sprintf("x-a%d", len(c.Lines())))
		}
		c.Line(`{"id":"x-t","type":"attach"` + at(s) + `}`)
		require.True(t, c.wait("x-t").Get("success").Bool())
		assert.Equal(t, "session_in_use", code(adopt(s, emptyDir)))
		assert.Equal(t, "invalid_params", code(adopt(s, "/none/such")))
		assert.Equal(t, "unknown_session", code(adopt("nobody", emptyDir)))
		moves := c.openOn("d", "client-two")
		c.run(moves, "~x~ one")
		c.Call(t, `{"type":"close_session"`+at(moves)+`}`)
		assert.Equal(t, "invalid_params", code(adopt(moves, emptyDir)))
		w.lose("b")
		c.pass(2 * time.Second)
		v := adopt(s, emptyDir)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Equal(t, "b "+emptyDir, v.Get("data.from").Str+" "+v.Get("data.cwd").Str)
		other := through(nodes[2], "client-three", "")
		for _, of := range []*node{c, other} {
			of.Line(`{"id":"x-b","type":"attach"` + at(s) + `}`)
			require.True(t, of.wait("x-b").Get("success").Bool())
		}
		require.NoError(t, other.leave())
		c.run(s, "~x~ two")
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Equal(t, 1, strings.Count(nodes[0].lines(s), "The directory is now "+emptyDir))
		for _, o := range c.Call(t, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
			assert.Equal(t, "a "+emptyDir, o.Get("node").Str+" "+o.Get("cwd").Str)
		}
		assert.Equal(t, "nowhere", code(c.Call(t, `{"type":"move_session","node":"d"`+at(s)+`}`)), "its directory is here")
		require.NoError(t, c.leave())
		nodes[0].end()
		nodes[2].end()
	})
}

// TestClusterInfo: who asks is told of all nodes, also of those that are lost, and of what they have open.
func TestClusterInfo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b", "d")
		c := through(nodes[0], "client-one", "")
		s := c.openOn("b", "client-one")
		c.run(s, "~x~ one")
		c.pass(2 * time.Second)
		nodes[2].member.Drain()
		c.pass(time.Second)
		info := func() string {
			v := c.Call(t, `{"type":"get_cluster"}`).Get("data")
			assert.Equal(t, "a true memory one", fmt.Sprint(v.Get("node"), v.Get("lease"), v.Get("engine"), v.Get("groups.0.leader")), v.Raw)
			assert.Equal(t, "shared", v.Get("nodes.0.roots.w").Str)
			text := v.Get("sessions.#.node").Raw
			for _, n := range v.Get("nodes").Array() {
				text += fmt.Sprintf(" %s %s %d", n.Get("name").Str, n.Get("state").Str, n.Get("sessions").Int())
			}
			return text
		}
		assert.Equal(t, `["b"] a lives 0 b lives 1 d draining 0`, info())
		w.lose("b")
		w.lose("d")
		c.pass(3 * time.Second)
		assert.Equal(t, `["a"] a lives 1 b silent 1 d ended 0`, info())
		viewer := through(nodes[0], "client-two", "", func(of *conn.Config) { of.ViewOnly = true })
		assert.Equal(t, "forbidden", code(viewer.Call(t, `{"type":"get_cluster"}`)))
		require.NoError(t, c.leave())
		require.NoError(t, viewer.leave())
		nodes[0].end()
	})
}

// TestRelayFollows: a client of a node that is cut off from the engine, and loses its session to
// another one, is led there as soon as the node knows.
func TestRelayFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b")
		a, b := nodes[0], nodes[1]
		c := through(a, "client-one", `,"features":["deltaUpdates"]`)
		s := c.openOn("a", "client-one")
		c.run(s, "~x~ one")
		a.way.Cut(clustertest.Gone)
		w.mu.Lock()
		delete(w.nodes, "a")
		w.mu.Unlock()
		other := through(b, "client-two", `,"features":["deltaUpdates"]`)
		v := other.Call(t, `{"type":"attach"`+at(s)+`}`)
		require.True(t, v.Get("success").Bool(), v.Raw)
		a.way.Cut(clustertest.Whole)
		c.pass(2 * time.Second)
		c.Line(`{"id":"x-p2","type":"prompt","message":"~x~ two"` + at(s) + `}`)
		v = c.wait("x-p2")
		require.True(t, v.Get("success").Bool(), v.Raw)
		c.pass(10 * time.Second)
		assert.Len(t, c.Events(s, "session_moved"), 1)
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Contains(t, b.lines(s), "~x~ two")
		var ends []gjson.Result
		for _, e := range other.Events(s) {
			if e.Get("type").Str == "agent_settled" {
				ends = append(ends, e)
			}
		}
		assert.Len(t, ends, 1, "the other hears the same")
		require.NoError(t, c.leave())
		require.NoError(t, other.leave())
		a.end()
		b.end()
	})
}

// TestOwnerStandsStill: an owner that is cut off from the engine, while the wire to it is whole, is left
// as soon as another node may have its sessions: what it has not answered is answered there.
func TestOwnerStandsStill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		a, b := nodes[0], nodes[1]
		c := through(a, "client-one", `,"features":["deltaUpdates"]`)
		s := c.openOn("b", "client-one")
		c.run(s, "~x~ one")
		b.way.Cut(clustertest.Gone)
		cut := time.Now()
		c.Line(`{"id":"x-p2","type":"prompt","message":"~x~ two"` + at(s) + `}`)
		v := c.wait("x-p2")
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Less(t, time.Since(cut), 2*time.Second)
		c.pass(10 * time.Second)
		kinds := c.Kinds(s)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1], kinds)
		assert.Equal(t, 1, said(a.lines(s), "~x~ two"))
		b.way.Cut(clustertest.Whole)
		c.pass(10 * time.Second)
		require.NoError(t, c.leave())
		a.end()
		b.end()
	})
}

// TestAttachFarByOtherNames: a client that uses a session of another node attaches to it by its id as durable and by the path that
// lists give, as on the node that has the session.
func TestAttachFarByOtherNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, nodes := nodesOf(t, "a", "b")
		script := func(n *node, s string) (answers []string) {
			c := through(n, "client-two", "")
			for i, names := range []string{`"sessionId":"` + s + `"`, `"durableId":"` + s + `"`, `"sessionPath":"` + copies + `/` + s + `.jsonl"`} {
				for _, role := range []string{"", `,"role":"viewer"`} {
					c.Line(fmt.Sprintf(`{"id":"x-%d%d","type":"attach",%s%s}`, i, len(role), names, role))
					c.pass(time.Second)
					answers = append(answers, ofTheNode.ReplaceAllString(c.Answer(t, fmt.Sprintf("x-%d%d", i, len(role))).Raw, ""))
				}
			}
			require.False(t, c.Call(t, `{"type":"prompt","message":"~x~"`+at(s)+`}`).Get("success").Bool(), "it is a viewer")
			require.NoError(t, c.leave())
			return answers
		}
		c := through(nodes[1], "client-one", "")
		s := c.openOn("b", "client-one")
		c.run(s, "~x~ one")
		assert.Equal(t, script(nodes[1], s), script(nodes[0], s))
		require.NoError(t, c.leave())
		nodes[0].end()
		nodes[1].end()
	})
}

// TestOneHop: what another node leads here goes no further.
func TestOneHop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", "")
		s := c.openOn("a", "client-one")
		c.run(s, "~x~ one")
		wire, err := w.Dial(t.Context(), cluster.Node{Name: "b"}, cluster.Identity{})
		require.NoError(t, err)
		require.NoError(t, wire.Write([]byte(`{"id":"1","type":"attach"`+at(s)+`}`+"\n")))
		line, err := wire.Read()
		require.NoError(t, err)
		assert.Equal(t, "not_here", gjson.GetBytes(line, "code").Str, string(line))
		require.NoError(t, wire.Close())
		require.NoError(t, c.leave())
		for _, n := range nodes {
			n.end()
		}
	})
}

// TestWatchNodes: who watches sessions is told of those of all nodes, also when they begin on a node that comes
// later, move, or are lost with theirs.
func TestWatchNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, engine, nodes := nodesOf(t, "a", "b")
		c := through(nodes[0], "client-one", `,"features":["deltaUpdates"]`)
		first := c.openOn("b", "client-one")
		c.run(first, "~x~ one")
		watcher := through(nodes[0], "client-two", `,"features":["sessionEvents","deltaUpdates"]`)
		list := watcher.Call(t, `{"type":"watch_sessions"}`).Get("data.sessions").Array()
		require.Len(t, list, 1)
		assert.Equal(t, first+" b idle", list[0].Get("sessionId").Str+" "+list[0].Get("node").Str+" "+list[0].Get("status").Str)
		told := func() string {
			var all []string
			for _, line := range watcher.Lines() {
				if e := gjson.Parse(line); e.Get("type").Str == "session_status" {
					all = append(all, fmt.Sprintf("%s %s", e.Get("node").Str, e.Get("status").Str))
				}
			}
			return strings.Join(slices.Compact(all), ", ")
		}
		require.Empty(t, told())
		c.Line(`{"id":"x-p","type":"prompt","message":"~x~ pace=500 parts=4"` + at(first) + `}`)
		c.pass(10 * time.Second)
		assert.Equal(t, "b running, b idle", told())
		c.Call(t, `{"type":"move_session","node":"a"`+at(first)+`}`)
		c.run(first, "~x~ two")
		assert.True(t, strings.HasPrefix(told(), "b running, b idle, b closing, b closed, a opening, a idle, a running, a idle"), told())
		c.Call(t, `{"type":"move_session","node":"b"`+at(first)+`}`)
		c.run(first, "~x~ three")
		assert.True(t, strings.HasSuffix(told(), "b running, b idle"), told())
		w.lose("b")
		c.pass(5 * time.Second)
		assert.Contains(t, told(), "b idle, b closed", "nobody has it")

		joined := startNode(t, engine, &actortest.History{}, "d", func(of *Config) {
			of.Epoch = "ed"
			of.Relay = &relay.Shared{Members: of.Sessions.Cluster.Member, Dial: w, Roots: everywhere("d"), Held: of.Sessions.Cluster.Held, Log: zerolog.Nop()}
		})
		w.mu.Lock()
		w.nodes["d"] = joined
		w.mu.Unlock()
		direct := through(joined, "client-three", `,"features":["deltaUpdates"]`)
		direct.openOn("d", "client-three")
		direct.pass(2 * time.Second)
		assert.True(t, strings.HasSuffix(told(), "d idle"), told())
		watcher.Call(t, `{"type":"unwatch_sessions"}`)
		direct.Call(t, `{"type":"hello","clientId":"client-four"}`)
		direct.openOn("d", "client-four")
		direct.pass(time.Second)
		was := told()
		direct.Call(t, `{"type":"hello","clientId":"client-five"}`)
		direct.openOn("d", "client-five")
		direct.pass(time.Second)
		assert.Equal(t, was, told())
		for _, of := range []*node{c, watcher, direct} {
			require.NoError(t, of.leave())
		}
		nodes[0].end()
		joined.end()
	})
}
