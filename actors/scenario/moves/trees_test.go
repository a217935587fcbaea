package moves

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/scenario/nodetest"
	"troupe/actors/session"
)

// treesOf starts nodes with a root of mode git. The function tree returns the path of a file in the
// worktree that a session has on a node.
func treesOf(t *testing.T, names ...string) (w *nodetest.Network, nodes []*nodetest.Node, tree func(node, session, file string) string) {
	dir := t.TempDir()
	origin := filepath.Join(dir, "origin")
	run := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", origin, "-c", "user.name=ann", "-c", "user.email=ann@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(origin, "sub"), 0o755))
	run("init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(origin, "sub", "file"), []byte("one"), 0o644))
	run("add", ".")
	run("commit", "-q", "-m", "first")
	engine, h := clustertest.New(1, 0), &actortest.History{}
	w = nodetest.NewNetwork()
	for _, name := range names {
		n := nodetest.Start(t, engine, h, name, func(c *actors.Config) {
			c.DrainLimit = 15 * time.Second
			c.Sessions.Guard.Close() // its script would keep time from passing
			c.Sessions.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
			w.Use(c, name)
			c.Sessions.Cluster.Trees = session.Trees{}
			c.Sessions.Cluster.Trees.Add("g", origin, filepath.Join(dir, name))
		})
		w.SetNode(name, n)
		nodes = append(nodes, n)
	}
	time.Sleep(2 * time.Second)
	return w, nodes, func(node, session, file string) string { return filepath.Join(dir, node, session, file) }
}

// TestTreesMove checks that a session in a root of mode git has its own worktree, which is restored
// on the next node to its state after the last settled turn, also for a subdirectory, and that the
// model receives a message about it.
func TestTreesMove(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, nodes, tree := treesOf(t, "a", "b")
		b := nodes[1]
		c := nodetest.NewClient(nodes[0], "client-one", "")
		s := ""
		for i := 0; s == ""; i++ {
			c.Line(fmt.Sprintf(`{"id":"x-o%d","type":"open_session","cwd":"g:sub","retain":true}`, i))
			v := c.AwaitResponse(fmt.Sprint("x-o", i))
			require.True(t, v.Get("success").Bool(), v.Raw)
			if id := v.Get("data.sessionId").Str; v.Get("data.state.sessionFile").Exists() && exists(tree("a", id, "sub/file")) {
				s = id
			}
		}
		assert.Contains(t, c.Call(t, `{"type":"list_open_sessions"}`).Raw, tree("a", s, "sub"))
		require.NoError(t, os.WriteFile(tree("a", s, "sub/file"), []byte("two"), 0o644))
		require.NoError(t, os.WriteFile(tree("a", s, "sub/new"), []byte("new"), 0o644))
		c.Run(s, "~x~ one")
		require.NoError(t, os.WriteFile(tree("a", s, "sub/late"), []byte("late"), 0o644))
		c.Line(`{"id":"x-p","type":"prompt","message":"~y~ pace=500 parts=20"` + harness.At(s) + `}`)
		require.True(t, c.AwaitResponse("x-p").Get("success").Bool())
		c.Advance(2 * time.Second)
		w.Lose("a")
		b.Take(s)
		text := func(node, file string) string {
			text, _ := os.ReadFile(tree(node, s, file))
			return string(text)
		}
		assert.Equal(t, "two new ", text("b", "sub/file")+" "+text("b", "sub/new")+" "+text("b", "sub/late"))
		b.Advance(30 * time.Second)
		lines := b.Log(s)
		assert.Contains(t, lines, "The directory is now "+tree("b", s, "sub")+". Its files are as they were when the last turn had settled")
		require.NoError(t, os.WriteFile(tree("b", s, "sub/file"), []byte("three"), 0o644))
		b.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		require.NoError(t, os.Remove(tree("b", s, "sub/new")))
		b.Take(s) // no other node has had it
		b.Run(s, "~z~ three")
		b.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		b.End()
	})
}

// TestTreesTooOld checks a worktree that could not be pushed after the last turn, because the
// remote was unreachable: on the next node the model receives one message that its files are older.
// A node that was drained keeps its unsaved worktree. If the worktree was saved, no message is
// added.
func TestTreesTooOld(t *testing.T) {
	for _, way := range []string{"lost", "drained", "lost in a run", "saved"} {
		t.Run(way, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				w, nodes, tree := treesOf(t, "a", "b")
				c := nodetest.NewClient(nodes[0], "client-one", "")
				c.Line(`{"id":"x-o","type":"open_session","cwd":"g:sub","retain":true}`)
				s := c.AwaitResponse("x-o").Get("data.sessionId").Str
				from, to := nodes[0], nodes[1]
				if exists(tree("b", s, "")) {
					from, to = to, from
				}
				says := func(id, command string) {
					c.Line(fmt.Sprintf(`{"id":%q,%s%s}`, id, command, harness.At(s)))
					v := c.AwaitResponse(id)
					require.True(t, v.Get("success").Bool(), v.Raw)
					c.Advance(5 * time.Second)
				}
				change := func(id, text string) { // the command only records that something was run
					require.NoError(t, os.WriteFile(tree(from.Name, s, "sub/file"), []byte(text), 0o644))
					says(id, `"type":"bash","command":"make"`)
				}
				change("x-1", "two")
				origin := filepath.Dir(tree("origin", "x", ""))
				if way != "saved" {
					require.NoError(t, os.Rename(origin, origin+"-away"))
				}
				change("x-2", "three")
				if way == "lost in a run" {
					says("x-3", `"type":"prompt","message":"~x~ pace=500 parts=40"`)
				}
				if way == "drained" {
					begun := time.Now()
					from.Member.Drain()
					from.End()
					assert.Greater(t, time.Since(begun), 10*time.Second, "it was tried again")
					assert.LessOrEqual(t, time.Since(begun), 20*time.Second)
					from.Member.Drain() // as a node does when it has ended
					said, _, err := to.Engine.Node(t.Context(), from.Name)
					require.NoError(t, err)
					assert.Equal(t, []cluster.SessionID{cluster.SessionID(s)}, said.Unsaved)
					kept, err := exec.Command("git", "-C", tree(from.Name, ".repository", ""), "for-each-ref", "--format=%(refname)", "refs/troupe/lost/"+s).Output()
					require.NoError(t, err)
					assert.NotEmpty(t, kept)
				} else {
					w.Lose(from.Name)
				}
				if way != "saved" {
					for range 20 { // it claims the session and releases it again
						v := to.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, nodetest.CopiesDir+"/"+s+".jsonl"))
						require.Contains(t, []string{"session_unavailable", "not_here"}, harness.Code(v), v.Raw)
						to.Advance(500 * time.Millisecond)
					}
					readElsewhere(t, to, s)
					require.NoError(t, os.Rename(origin+"-away", origin))
				}
				to.Take(s)
				to.Advance(30 * time.Second)
				text, err := os.ReadFile(tree(to.Name, s, "sub/file"))
				require.NoError(t, err)
				told := strings.Count(to.Log(s), "which was before the end of the last turn")
				if way == "saved" {
					assert.Equal(t, "three", string(text))
					assert.Zero(t, told)
				} else {
					assert.Equal(t, "two", string(text))
					assert.Equal(t, 1, told)
				}
				to.End()
			})
		})
	}
}

// readElsewhere reads a session without attach on a node that cannot open it, within five seconds.
func readElsewhere(t *testing.T, at *nodetest.Node, session string) {
	r := nodetest.NewClient(at, "client-reader", "")
	for _, asked := range []string{"get_messages", "get_tree", "get_entries"} {
		began := time.Now()
		r.Line(fmt.Sprintf(`{"id":"r-%s","type":%q,"sessionId":%q}`, asked, asked, session))
		v := r.AwaitResponse("r-" + asked)
		require.True(t, v.Get("success").Bool(), v.Raw)
		assert.Contains(t, v.Raw, "make", asked)
		assert.Less(t, time.Since(began), 5*time.Second, asked)
	}
	require.NoError(t, r.Leave())
}

// TestTreesWaitForTheRemote checks that a node that drains while the remote is unreachable keeps
// its session, reports it as unsaved, and that the session can be read on another node. Once the
// remote is back, the worktree is saved and complete on the next node.
func TestTreesWaitForTheRemote(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, nodes, tree := treesOf(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		c.Line(`{"id":"x-o","type":"open_session","cwd":"g:sub","retain":true}`)
		s := c.AwaitResponse("x-o").Get("data.sessionId").Str
		from, to := nodes[0], nodes[1]
		if exists(tree("b", s, "")) {
			from, to = to, from
		}
		origin := filepath.Dir(tree("origin", "x", ""))
		require.NoError(t, os.Rename(origin, origin+"-away"))
		require.NoError(t, os.WriteFile(tree(from.Name, s, "sub/file"), []byte("two"), 0o644))
		c.Line(`{"id":"x-1","type":"bash","command":"make"` + harness.At(s) + `}`)
		require.True(t, c.AwaitResponse("x-1").Get("success").Bool())
		c.Advance(5 * time.Second)
		if from == nodes[0] {
			require.NoError(t, c.Leave())
		}
		over := make(chan struct{})
		from.Member.Drain()
		go func() {
			from.End()
			close(over)
		}()
		time.Sleep(4 * time.Second)
		select {
		case <-over:
			t.Fatal("it has ended before it had saved its session")
		default:
		}
		unsaved := func() []cluster.SessionID {
			said, _, err := to.Engine.Node(t.Context(), from.Name)
			require.NoError(t, err)
			return said.Unsaved
		}
		assert.Equal(t, []cluster.SessionID{cluster.SessionID(s)}, unsaved())
		readElsewhere(t, to, s)
		require.NoError(t, os.Rename(origin+"-away", origin))
		<-over
		time.Sleep(time.Second)
		assert.Empty(t, unsaved())
		to.Take(s)
		to.Advance(10 * time.Second)
		text, err := os.ReadFile(tree(to.Name, s, "sub/file"))
		require.NoError(t, err)
		assert.Equal(t, "two", string(text))
		assert.NotContains(t, to.Log(s), "which was before the end of the last turn")
		to.End()
	})
}

// TestTreesOfNothing checks that a session in a directory without files, which is in no commit, can
// be moved.
func TestTreesOfNothing(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, nodes, tree := treesOf(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		c.Line(`{"id":"x-o","type":"open_session","cwd":"g:sub","retain":true}`)
		s := c.AwaitResponse("x-o").Get("data.sessionId").Str
		from, to := "a", "b"
		if exists(tree("b", s, "")) {
			from, to = to, from
		}
		c.Run(s, "~x~ one")
		require.NoError(t, os.Remove(tree(from, s, "sub/file")))
		c.Line(`{"id":"x-m","type":"move_session","node":"` + to + `"` + harness.At(s) + `}`)
		v := c.AwaitResponse("x-m")
		require.True(t, v.Get("success").Bool(), v.Raw)
		c.Run(s, "~y~ two")
		assert.Len(t, c.Events(s, "agent_settled"), 2)
		assert.True(t, exists(tree(to, s, "sub")))
		require.NoError(t, c.Leave())
		for _, n := range nodes {
			n.End()
		}
	})
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestTreesAreGivenUp checks that changes that were made in a worktree outside of a turn are on the
// node to which the session is moved. A session whose remote is unreachable cannot be opened until
// it is back.
func TestTreesAreGivenUp(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, nodes, tree := treesOf(t, "a", "b")
		c := nodetest.NewClient(nodes[0], "client-one", "")
		open := func() (v gjson.Result) {
			id := fmt.Sprint("x-o", len(c.Lines()))
			c.Line(`{"id":"` + id + `","type":"open_session","cwd":"g:","retain":true}`)
			return c.AwaitResponse(id)
		}
		origin := filepath.Dir(tree("origin", "x", ""))
		require.NoError(t, os.Rename(origin, origin+"-away"))
		v := open()
		assert.Equal(t, "session_unavailable", harness.Code(v), v.Raw)
		assert.Contains(t, v.Get("error").Str, "git ls-remote")
		require.NoError(t, os.Rename(origin+"-away", origin))
		s := open().Get("data.sessionId").Str
		from, to := "a", "b"
		if exists(tree("b", s, "")) {
			from, to = to, from
		}
		require.True(t, exists(tree(from, s, "sub/file")))
		c.Run(s, "~x~ one")
		require.NoError(t, os.WriteFile(tree(from, s, "new"), []byte("new"), 0o644))
		c.Line(`{"id":"x-m","type":"move_session","node":"` + to + `"` + harness.At(s) + `}`)
		v = c.AwaitResponse("x-m")
		require.True(t, v.Get("success").Bool(), v.Raw)
		c.Run(s, "~y~ two")
		text, err := os.ReadFile(tree(to, s, "new"))
		require.NoError(t, err)
		assert.Equal(t, "new", string(text))
		require.NoError(t, c.Leave())
		nodes[0].End()
		nodes[1].End()
	})
}
