package actors

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/session"
)

// node is a daemon of a cluster, on a disk of its own.
type node struct {
	*bench
	name   string
	member *cluster.Member
	way    *clustertest.Memory
	kill   context.CancelFunc // of its signs of life
	lost   bool               // see [node.lose]
	asked  int                // how often it was asked which session it has
}

const copies = "/agent/troupe/cluster"

// everywhere is the roots of a node: sessions in w and d may be on any, those in n have no files, and only the node has the last one.
func everywhere(name string) map[string]cluster.Root {
	return map[string]cluster.Root{
		"w": {Path: emptyDir, Mode: cluster.Shared}, "g": {Path: "/roots/g", Mode: cluster.Git}, "n": {Path: filepath.Join(noFiles, name), Mode: cluster.None},
		"d": {Path: dirs(), Mode: cluster.Shared}, "only-" + name: {Path: emptyDir, Mode: cluster.Shared},
	}
}

// dirs is where directories are that tests remove.
func dirs() string { return filepath.Join(filepath.Dir(emptyDir), "dirs") }

// oneNode runs a test in fake time with a node that is a cluster by itself, and ends it.
func oneNode(t *testing.T, test func(t *testing.T, n *node), changes ...func(*Config)) {
	bubble(t, func(t *testing.T) {
		n := startNode(t, clustertest.New(1, 0), &actortest.History{}, "a", changes...)
		test(t, n)
		n.end()
	})
}

// twoNodes runs a test in fake time with two nodes of a cluster, and ends those that were not lost.
func twoNodes(t *testing.T, test func(t *testing.T, a, b *node), changes ...func(*Config)) {
	bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a, b := startNode(t, engine, h, "a", changes...), startNode(t, engine, h, "b", changes...)
		test(t, a, b)
		for _, n := range []*node{a, b} {
			if !n.lost {
				n.end()
			}
		}
	})
}

// startNode starts a node on an engine. Its sessions may be anywhere, unless it is told otherwise.
func startNode(t *testing.T, engine *clustertest.Memory, h *actortest.History, name string, changes ...func(*Config)) *node {
	return startNodeOn(t, engine, h, name, name+"-1", actortest.NewDisk(), changes...)
}

// startNodeOn starts a life of a node on a disk.
func startNodeOn(t *testing.T, engine *clustertest.Memory, h *actortest.History, name, boot string, disk *actortest.Disk, changes ...func(*Config)) *node {
	n := &node{name: name, way: engine.Client()}
	n.member = cluster.Join(cluster.MemberConfig{
		Self: cluster.Node{Name: name, Boot: boot, Addr: name, Roots: everywhere(name), Labels: map[string]string{"is": name}}, Log: n.way, Registry: n.way, Patience: 5 * time.Second,
	})
	ctx, kill := context.WithCancel(t.Context())
	n.kill = kill
	over := make(chan error, 1)
	go func() { over <- n.member.Run(ctx) }()
	t.Cleanup(func() {
		kill()
		<-over
		time.Sleep(10 * time.Second) // what was said to an engine that is away
	})
	n.bench = startWith(t, nil, h, disk, actortest.NewModels(), append([]func(*Config){func(c *Config) {
		c.Conn.MultiSession = true
		c.Sessions.Cluster = &session.Cluster{
			Member: n.member, Engine: n.way, Dir: copies,
			Wants: func(string) cluster.Wants { return cluster.Wants{Labels: map[string]string{}} },
		}
	}}, changes...)...)
	time.Sleep(time.Second)
	return n
}

// Call sends a command, and lets time pass until it is answered: the engine takes some.
func (n *node) Call(t testing.TB, command string) gjson.Result {
	t.Helper()
	return n.answer(n.Send(command))
}

func (n *node) answer(id string) gjson.Result {
	n.t.Helper()
	for range 1000 {
		n.pass(20 * time.Millisecond)
		if !slices.Contains(n.Unanswered(), id) {
			break
		}
	}
	return n.Answer(n.t, id)
}

func (n *node) open() string {
	n.t.Helper()
	v := n.Call(n.t, `{"type":"open_session"}`)
	require.True(n.t, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// run has a prompt answered to its end.
func (n *node) run(session, text string) {
	n.t.Helper()
	n.Say(session, "prompt", text)
	n.pass(10 * time.Second)
}

// take opens a session of the cluster here, as a relay does for its client.
func (n *node) take(id string) string {
	n.t.Helper()
	var v gjson.Result
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		v = n.Call(n.t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, copies+"/"+id+".jsonl"))
		if code(v) != "not_here" {
			break
		}
	}
	require.True(n.t, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// lines is the log of a session as every node sees it.
func (n *node) lines(id string) string {
	n.t.Helper()
	var text strings.Builder
	tail, err := n.way.Tail(n.t.Context(), cluster.SessionID(id))
	require.NoError(n.t, err)
	_, err = cluster.Load(n.t.Context(), n.way, cluster.SessionID(id), cluster.Mark{}, tail.Seq, func(r cluster.Record) error {
		if r.Kind == cluster.Lines {
			text.Write(r.Lines)
		}
		return nil
	})
	require.NoError(n.t, err)
	return text.String()
}

// same checks that the copy of a session is its log, byte for byte (C12).
func (n *node) same(id string) {
	n.t.Helper()
	assert.Equal(n.t, n.lines(id), string(n.disk.Mem().ReadFile(copies+"/"+id+".jsonl")))
}

const helloAs = `{"type":"hello","clientId":%q}`

// TestKept: what a session says is in the cluster before anybody is told; what it is called is
// its id; when it ends it is released, and another node has it at once, with all that was said.
func TestKept(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.run(id, "~a~ one")
		a.same(id)
		assert.Contains(t, a.lines(id), "~a~ one")
		assert.Equal(t, id, a.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.sessionId").Str)
		refused := b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, copies+"/"+id+".jsonl"))
		assert.Equal(t, "not_here", code(refused))
		a.Call(t, fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, id))
		begun := time.Now()
		require.Equal(t, id, b.take(id))
		assert.Less(t, time.Since(begun), 100*time.Millisecond)
		b.run(id, "~b~ two")
		assert.EqualValues(t, 4, b.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
		b.same(id)
		b.Call(t, fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, id))
		a.take(id) // behind its mark
		a.same(id)
	})
}

// lose takes a node away at once: it gives no more signs of life, and what it says reaches nobody.
func (n *node) lose() {
	n.lost = true
	n.kill()
	n.way.Cut(clustertest.Gone)
}

// TestNodeLostInAStream: the owner is lost in the middle of an answer (T1). Another node has the session
// within 1.5 s and makes the request again; a command that comes again acts once, and one that
// was not in the log acts.
func TestNodeLostInAStream(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		for _, n := range []*node{a, b} {
			n.Call(t, fmt.Sprintf(helloAs, "client-me"))
		}
		id := a.open()
		a.Line(`{"id":"p1","type":"prompt","message":"~x~ pace=500 parts=8"` + at(id) + `}`)
		a.pass(2 * time.Second)
		require.Len(t, a.models.Asked(), 1)
		a.lose()
		lost := time.Now()
		require.Equal(t, id, b.take(id))
		assert.Less(t, time.Since(lost), 1500*time.Millisecond)
		b.Line(`{"id":"p1","type":"prompt","message":"~x~ pace=500 parts=8"` + at(id) + `}`)
		again := b.answer("p1")
		assert.True(t, again.Get("success").Bool() && again.Get("replayed").Bool(), again.Raw)
		b.pass(20 * time.Second)
		assert.Len(t, b.models.Asked(), 1)
		kinds := b.Kinds(id)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		text := b.lines(id)
		assert.Equal(t, 1, strings.Count(text, `"role":"user"`), text)
		assert.Contains(t, text, `"customType":"troupe.failover","data":{"from":"a"}`)
		b.same(id)
		b.Line(`{"id":"p2","type":"prompt","message":"~y~ two"` + at(id) + `}`)
		assert.False(t, b.answer("p2").Get("replayed").Bool())
		b.pass(10 * time.Second)
		assert.Equal(t, 2, strings.Count(b.lines(id), `"role":"user"`))
	})
}

// TestNodeLostInATool: a tool that was running is not started again, and the model is told (T2).
func TestNodeLostInATool(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.Say(id, "prompt", "~x~ tool=danger rounds=1 calls=2 work=60000")
		for i := 0; len(a.Events(id, "tool_execution_start")) == 0; i++ {
			require.Less(t, i, 100)
			a.pass(10 * time.Millisecond)
		}
		a.lose()
		b.take(id)
		b.pass(20 * time.Second)
		text := b.lines(id)
		assert.Contains(t, text, "the node that ran it was lost; it may or may not have finished")
		assert.Empty(t, b.Events(id, "tool_execution_start"))
		assert.Len(t, b.models.Asked(), 1)
	})
}

// TestNodeLostInAnApproval: what the owner had asked about is asked again under its id, where the session is then, and
// runs once somebody has said yes (T3).
func TestNodeLostInAnApproval(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.Say(id, "prompt", "~x~ rounds=1 calls=1 tool=danger")
		a.pass(time.Second)
		asked := a.Events(id, "extension_ui_request")
		require.Len(t, asked, 1)
		a.lose()
		b.take(id)
		b.pass(time.Second)
		again := b.Events(id, "extension_ui_request")
		require.Len(t, again, 1)
		assert.Equal(t, asked[0].Get("id").Str, again[0].Get("id").Str)
		b.Line(`{"type":"extension_ui_response","id":"` + again[0].Get("id").Str + `","confirmed":true` + at(id) + `}`)
		b.pass(time.Minute)
		assert.Len(t, b.Events(id, "tool_execution_start"), 1)
		settled := b.Events(id, "agent_settled")
		require.Len(t, settled, 1)
		assert.Equal(t, "completed", settled[0].Get("outcome").Str)
		assert.Equal(t, 1, strings.Count(b.lines(id), `"role":"toolResult"`))
	}, confirm)
}

// TestFenced: an owner that was cut off, and comes back after somebody has claimed, says nothing
// more: no event, no answer that is one, no effect (C7).
func TestFenced(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.Say(id, "prompt", "~x~ pace=500 parts=40")
		a.pass(2 * time.Second)
		a.way.Cut(clustertest.Gone)
		require.Equal(t, id, b.take(id))
		a.way.Cut(clustertest.Whole)
		a.pass(time.Second)
		before := len(a.Events(id))
		cmd := a.Send(`{"type":"prompt","message":"too late","streamingBehavior":"followUp"` + at(id) + `}`)
		v := a.answer(cmd)
		assert.False(t, v.Get("success").Bool(), v.Raw)
		a.pass(time.Minute)
		assert.Len(t, a.Events(id), before)
		assert.NotContains(t, b.lines(id), "too late")
		assert.NotContains(t, a.Call(t, `{"type":"list_open_sessions"}`).Raw, id)
		b.pass(time.Minute)
		kinds := b.Kinds(id)
		assert.Equal(t, "agent_settled", kinds[len(kinds)-1])
		b.same(id)
	})
}

// TestEngineAway: while the engine is away for a moment a session waits, and nothing is interrupted;
// for longer a command is refused, and the session goes on when the engine is there again.
func TestEngineAway(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		id := a.open()
		a.run(id, "~a~ one")
		a.way.Cut(clustertest.Gone)
		waits := a.Say(id, "prompt", "~b~ two")
		read := a.Send(`{"type":"get_state"` + at(id) + `}`)
		a.pass(3 * time.Second)
		require.Contains(t, a.Unanswered(), waits)
		require.Contains(t, a.Unanswered(), read)
		assert.Len(t, a.Events(id, "session_waiting"), 1)
		a.way.Cut(clustertest.Whole)
		assert.True(t, a.answer(waits).Get("success").Bool())
		assert.True(t, a.answer(read).Get("success").Bool())
		a.pass(10 * time.Second)
		a.same(id)

		a.way.Cut(clustertest.Gone)
		refused := a.answer(a.Say(id, "prompt", "~c~ three"))
		assert.Contains(t, []string{"not_durable", "session_unavailable"}, code(refused), refused.Raw)
		a.way.Cut(clustertest.Whole)
		a.pass(10 * time.Second)
		a.run(id, "~d~ four")
		assert.Contains(t, a.lines(id), "~d~ four")
		assert.NotContains(t, a.lines(id), "~c~ three")
		a.same(id)
	})
}

// TestEngineSaysNothing: what may be in the log all the same is not refused as if it were not: its answer says that this is not
// known, and the command that comes again under its id acts once.
func TestEngineSaysNothing(t *testing.T) {
	for _, said := range []string{`{"id":"x","type":"prompt","message":"~b~ two"`, `{"id":"x","type":"bash","command":"echo two"`, `{"id":"x","type":"set_session_name","name":"two"`} {
		t.Run(gjson.Get(said+"}", "type").Str, func(t *testing.T) {
			oneNode(t, func(t *testing.T, a *node) {
				a.Call(t, fmt.Sprintf(helloAs, "client-me"))
				id := a.open()
				a.run(id, "~a~ one")
				a.way.Cut(clustertest.Deaf)
				a.Line(said + at(id) + `}`)
				for range 2000 {
					if a.pass(20 * time.Millisecond); strings.Contains(strings.Join(a.Lines(), "\n"), `{"id":"x","type":"response"`) {
						break
					}
				}
				refused := a.Answer(t, "x")
				require.Equal(t, "session_unavailable", code(refused), refused.Raw)
				assert.EqualValues(t, 1000, refused.Get("data.retryAfterMs").Int(), refused.Raw)
				assert.Contains(t, refused.Get("error").Str, "not known")
				a.way.Cut(clustertest.Whole)
				a.pass(5 * time.Second)
				for range 2 {
					before := len(a.Lines())
					a.Line(said + at(id) + `}`)
					a.pass(15 * time.Second)
					assert.Contains(t, strings.Join(a.Lines()[before:], "\n"), `{"id":"x","type":"response"`)
				}
				text := a.lines(id)
				assert.Equal(t, strings.Count(said, "~b~ two"), strings.Count(text, `"text":"~b~ two"`), text)
				assert.Equal(t, strings.Count(said, `"name":"two"`), strings.Count(text, `"name":"two"`), text)
				a.same(id)
			})
		})
	}
}

// TestReadWhileTheEngineIsAway: what a session has said is read from the copy of the node that is asked while the engine cannot
// be, all that was acknowledged where the session was; and from the log again as soon as that is there.
func TestReadWhileTheEngineIsAway(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.run(id, "~a~ one")
		a.run(id, "~b~ two")
		a.way.Cut(clustertest.Gone)
		refused := a.answer(a.Say(id, "prompt", "~c~ three"))
		require.Equal(t, "session_unavailable", code(refused), refused.Raw)
		for range 2 {
			for _, asked := range []string{"get_messages", "get_entries", "get_tree", "get_session_stats"} {
				began := time.Now()
				read := a.Call(t, fmt.Sprintf(`{"type":%q%s}`, asked, at(id)))
				require.True(t, read.Get("success").Bool(), "%s: %s", asked, read.Raw)
				assert.Less(t, time.Since(began), 20*time.Second, asked)
				if asked != "get_session_stats" {
					assert.Contains(t, read.Raw, "~a~ one", asked)
					assert.Contains(t, read.Raw, "~b~ two", asked)
					assert.NotContains(t, read.Raw, "~c~ three", asked)
				}
			}
		}
		a.way.Cut(clustertest.Whole)
		a.pass(10 * time.Second)
		a.run(id, "~d~ four")
		a.same(id)
		assert.Contains(t, a.Call(t, `{"type":"get_messages"`+at(id)+`}`).Raw, "~d~ four")
	})
}

// TestEngineAwayAtTheFirstPrompt: the same of a session in which nothing was said before.
func TestEngineAwayAtTheFirstPrompt(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		id := a.open()
		refuse := a.Say(id, "prompt", "~a~ one")
		a.way.Cut(clustertest.Gone)
		refused := a.answer(refuse)
		require.Contains(t, []string{"not_durable", "session_unavailable"}, code(refused), refused.Raw)
		a.way.Cut(clustertest.Whole)
		a.pass(10 * time.Second)
		a.Call(t, `{"type":"get_state"`+at(id)+`}`)
		a.run(id, "~b~ two")
		assert.Contains(t, a.lines(id), "~b~ two")
		a.same(id)
	})
}

// TestUnavailableIsNoAnswer: a command that was answered with session_unavailable is carried out when it comes again under
// its id, once.
func TestUnavailableIsNoAnswer(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		a.Call(t, fmt.Sprintf(helloAs, "client-me"))
		id := a.open()
		a.run(id, "~a~ one")
		a.way.Cut(clustertest.Gone)
		a.pass(2 * time.Second)
		said := `{"id":"x-n","type":"set_session_name","name":"mine"` + at(id) + `}`
		a.Line(said)
		for range 2000 {
			if a.pass(20 * time.Millisecond); strings.Contains(strings.Join(a.Lines(), "\n"), `{"id":"x-n","type":"response"`) {
				break
			}
		}
		require.Equal(t, "session_unavailable", code(a.Answer(t, "x-n")))
		a.way.Cut(clustertest.Whole)
		a.pass(5 * time.Second)
		for range 2 {
			before := len(a.Lines())
			a.Line(said)
			a.pass(5 * time.Second)
			answer := strings.Join(a.Lines()[before:], "\n")
			assert.Contains(t, answer, `{"id":"x-n","type":"response"`)
			assert.Contains(t, answer, `"success":true`)
		}
		assert.Equal(t, 1, strings.Count(a.lines(id), `"name":"mine"`))
	})
}

// TestStopWhileTheEngineIsAway: a session that waits for the engine does not keep a daemon from ending
// that is out of patience.
func TestStopWhileTheEngineIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a := startNode(t, engine, h, "a", func(c *Config) { c.AbortLimit = time.Second })
		id := a.open()
		a.run(id, "~a~ one")
		a.way.Cut(clustertest.Gone)
		a.Say(id, "prompt", "~b~ two")
		a.Send(`{"type":"get_state"` + at(id) + `}`)
		a.pass(100 * time.Millisecond)
		began := time.Now()
		a.stop <- Stop{Abort: true}
		a.bench.wait()
		assert.Less(t, time.Since(began), 3*time.Second)
	})
}

// TestParkedIsReleased: a parked session is nobody's. The next command has it again, or, if another
// node has it meanwhile, says so.
func TestParkedIsReleased(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		id := a.open()
		a.run(id, "~a~ one")
		a.pass(2 * time.Minute)
		a.parked(id)
		a.run(id, "~b~ two")
		a.same(id)
		a.pass(2 * time.Minute)
		require.Equal(t, id, b.take(id))
		b.run(id, "~c~ three")
		assert.Equal(t, "not_here", code(a.Call(t, `{"type":"get_state"`+at(id)+`}`)))
		b.pass(2 * time.Minute)
		assert.EqualValues(t, 6, a.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
		a.same(id)
	}, func(c *Config) { c.Sessions.ParkAfter = time.Minute })
}

// TestCopyOfAnotherHistory: a file under the right name that is not the copy is set aside (D5), and
// what is behind the mark of one that is was never there.
func TestCopyOfAnotherHistory(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		id := a.open()
		a.run(id, "~a~ one")
		path := copies + "/" + id + ".jsonl"
		for i, meddle := range []func(string) string{
			func(s string) string {
				return s + `{"type":"custom","id":"aaaaaaaa","parentId":null,"customType":"x"}` + "\n"
			},
			func(s string) string { return strings.Replace(s, "~a~ one", "~a~ two", 1) },
			func(s string) string { return s[:len(s)/2] },
			func(string) string { return "" },
		} {
			a.Call(t, `{"type":"close_session"`+at(id)+`}`)
			overwrite(t, a.disk.Mem(), path, []byte(meddle(string(a.disk.Mem().ReadFile(path)))))
			a.take(id)
			a.same(id)
			assert.Equal(t, i == 1 || i == 2, a.disk.Mem().ReadFile(fmt.Sprintf("%s.aside-%d", path, i)) != nil, i)
		}
	})
}

// TestCopiesAreBounded: copies of sessions that are open stay, of the others those that were used last. A
// session without one is read as a whole.
func TestCopiesAreBounded(t *testing.T) {
	var cl *session.Cluster
	oneNode(t, func(t *testing.T, a *node) {
		var ids []string
		for i := range 5 {
			id := a.open()
			a.run(id, "~a~ one")
			if i > 0 {
				a.Call(t, `{"type":"close_session"`+at(id)+`}`)
			}
			ids = append(ids, id)
		}
		a.take(ids[1])
		a.Call(t, `{"type":"close_session"`+at(ids[1])+`}`)
		there := func() (list []bool) {
			for _, id := range ids {
				file := a.disk.Mem().ReadFile(copies + "/" + id + ".jsonl")
				assert.Equal(t, file != nil, a.disk.Mem().ReadFile(copies+"/"+id+".jsonl.mark") != nil)
				list = append(list, file != nil)
			}
			return list
		}
		a.pass(2 * time.Minute)
		a.open()
		require.Equal(t, []bool{true, true, true, true, true}, there())
		size := len(a.disk.Mem().ReadFile(copies+"/"+ids[1]+".jsonl")) + len(a.disk.Mem().ReadFile(copies+"/"+ids[1]+".jsonl.mark"))
		cl.Cache = int64(2*size + size/2)
		a.pass(2 * time.Minute)
		a.open()
		assert.Equal(t, []bool{true, true, false, false, false}, there())
		a.take(ids[2])
		a.same(ids[2])
		a.run(ids[2], "~b~ two")
		a.same(ids[2])
	}, func(c *Config) { cl = c.Sessions.Cluster })
}

// TestNodeLostInACommand: a command of the user that was running when its node was lost does not run
// again because it comes again, and nobody is told that it has ended, whether it has a key or not.
func TestNodeLostInACommand(t *testing.T) {
	for _, key := range []string{"", `,"idempotencyKey":"k1"`} {
		t.Run(key, func(t *testing.T) {
			twoNodes(t, func(t *testing.T, a, b *node) {
				for _, n := range []*node{a, b} {
					n.Call(t, fmt.Sprintf(helloAs, "client-me"))
				}
				id := a.open()
				quick := `{"id":"b0","type":"bash","command":"quick"` + at(id) + `}`
				if key != "" { // else the other one is the first that the log hears of
					a.Line(quick)
					require.True(t, a.answer("b0").Get("success").Bool())
				}
				cut := `{"id":"b1","type":"bash","command":"sleep=60000"` + key + at(id) + `}`
				a.Line(cut)
				a.pass(time.Second)
				a.lose()
				b.take(id)
				b.Line(cut)
				v := b.answer("b1")
				assert.Contains(t, v.Get("error").Str, "may or may not have finished", v.Raw)
				b.Line(quick)
				assert.Equal(t, key != "", b.answer("b0").Get("replayed").Bool())
				assert.Equal(t, 1, strings.Count(b.lines(id), `"bashExecution"`))
				if key != "" {
					v := b.Call(t, `{"type":"bash","command":"sleep=60000"`+key+at(id)+`}`)
					assert.Equal(t, "cancelled", code(v), v.Raw)
				}
			})
		})
	}
}

// TestKeysOverNodes: what a client has named with a key is not done again where its session goes on, though the files of the
// nodes are in different places: a prompt, a command, a new session. What a session has used up is known there, too.
func TestKeysOverNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a := startNode(t, engine, h, "a")
		b := startNode(t, engine, h, "b", func(c *Config) { c.Sessions.Cluster.Dir = "/elsewhere" })
		id := a.open()
		require.True(t, a.Call(t, `{"type":"set_budget","limits":{"maxOutputTokens":1000000}`+at(id)+`}`).Get("success").Bool())
		named := `"idempotencyKey":"k-%d"`
		require.True(t, a.answer(a.Say(id, "prompt", "~a~ one", fmt.Sprintf(named, 1))).Get("success").Bool())
		a.pass(10 * time.Second)
		used := a.Call(t, `{"type":"get_budget"`+at(id)+`}`).Get("data.snapshot.outputTokens").Int()
		require.Positive(t, used)
		require.True(t, a.Call(t, fmt.Sprintf(`{"type":"set_budget","limits":{"maxOutputTokens":%d}`, used+1)+at(id)+`}`).Get("success").Bool())
		bash := `{"type":"bash","command":"quick",` + fmt.Sprintf(named, 2) + at(id) + `}`
		require.True(t, a.Call(t, bash).Get("success").Bool())
		next := `{"type":"new_session",` + fmt.Sprintf(named, 3) + at(id) + `}`
		require.True(t, a.Call(t, next).Get("success").Bool())
		a.pass(time.Second)
		made := a.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.sessionId").Str
		require.NotEqual(t, id, made)
		a.run(id, "~m~ of the new one")
		a.lose()

		var v gjson.Result
		for begun := time.Now(); time.Since(begun) < 3*time.Second && !v.Get("success").Bool(); {
			v = b.Call(t, `{"type":"open_session","sessionPath":"/elsewhere/`+id+`.jsonl"}`)
		}
		require.True(t, v.Get("success").Bool(), v.Raw)
		again := b.answer(b.Say(id, "prompt", "~a~ one", fmt.Sprintf(named, 1)))
		assert.Equal(t, "started", again.Get("data.disposition").Str, again.Raw)
		require.True(t, b.Call(t, bash).Get("success").Bool())
		b.pass(10 * time.Second)
		assert.Empty(t, b.models.Asked())
		lines := b.lines(id)
		assert.Equal(t, 1, strings.Count(lines, `"bashExecution"`))
		budget := b.Call(t, `{"type":"get_budget"`+at(id)+`}`)
		assert.Equal(t, used, budget.Get("data.snapshot.outputTokens").Int(), budget.Raw)
		assert.Equal(t, used+1, budget.Get("data.limits.maxOutputTokens").Int(), budget.Raw)
		b.Say(id, "prompt", "~b~ two")
		b.pass(10 * time.Second)
		over := b.answer(b.Say(id, "prompt", "~c~ three"))
		assert.Equal(t, "budget_exceeded", code(over), over.Raw)
		require.True(t, b.Call(t, next).Get("success").Bool())
		assert.Equal(t, made, b.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.sessionId").Str)
		assert.Contains(t, b.Call(t, `{"type":"get_messages"`+at(id)+`}`).Raw, "of the new one")
		b.end()
	})
}

// TestNodeLostWithRuns: sessions that had something under way when their node was lost go on though
// nobody asks for them; the others wait. Every node lists all of them.
func TestNodeLostWithRuns(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *node) {
		rests, runs := a.open(), a.open()
		a.run(rests, "~r~ rest")
		a.Say(runs, "prompt", "~x~ pace=500 parts=20")
		a.pass(3 * time.Second)
		listed := b.Call(t, `{"type":"list_sessions"}`)
		assert.Equal(t, `["~x~ pace=500 parts=20","~r~ rest"]`, listed.Get("data.sessions.#.firstMessage").Raw, listed.Raw)
		assert.Equal(t, copies+"/"+runs+".jsonl", listed.Get("data.sessions.0.path").Str)
		a.lose()
		b.pass(3 * time.Second)
		open := b.Call(t, `{"type":"list_open_sessions"}`)
		assert.Contains(t, open.Raw, runs)
		assert.NotContains(t, open.Raw, rests)
		b.pass(30 * time.Second)
		assert.Contains(t, b.lines(runs), "part 19 for ~x~")
		b.Call(t, `{"type":"attach","sessionId":"`+runs+`"}`)
		assert.EqualValues(t, 2, b.Call(t, `{"type":"get_state"`+at(runs)+`}`).Get("data.messageCount").Int())
	})
}

// TestTakenIn: a file that pi has written goes on in the cluster, whole, and cannot be opened again
// without it; what is exported is what the log has.
func TestTakenIn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		alone := start(t)
		s := alone.open()
		alone.run(s, "~a~ one")
		path := alone.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.sessionFile").Str
		alone.end()
		was := alone.disk.Mem().ReadFile(path)

		engine, h := clustertest.New(1, 0), &actortest.History{}
		a, b := startNode(t, engine, h, "a"), startNode(t, engine, h, "b")
		require.NoError(t, a.disk.Mem().MkdirAll("/sessions"))
		a.disk.Mem().WriteFile(path, was)
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path)
		v := a.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		id := v.Get("data.state.sessionId").Str
		assert.Equal(t, string(was), a.lines(id)[:len(was)])
		handle := v.Get("data.sessionId").Str
		assert.Equal(t, id, handle, "as it is called on every node")
		a.run(handle, "~b~ two")
		a.same(id)
		assert.Equal(t, "session_moved", code(a.Call(t, open)))
		a.Call(t, `{"type":"close_session"`+at(handle)+`}`)
		b.take(id)
		assert.EqualValues(t, 4, b.Call(t, `{"type":"get_state"`+at(id)+`}`).Get("data.messageCount").Int())
		require.NoError(t, session.Export(t.Context(), b.way, b.disk.FS(), id, copies+"/export.jsonl"))
		assert.Equal(t, b.lines(id), string(b.disk.Mem().ReadFile(copies+"/export.jsonl")))
		a.end()
		b.end()

		again := start(t, func(c *Config) { c.Sessions.FS = a.disk.FS() })
		assert.Equal(t, "session_moved", code(again.Call(t, open)))
		again.end()
	})
}

// TestDrainedInARun: a run that does not end before its daemon does goes on on the next node.
func TestDrainedInARun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		drain := func(c *Config) { c.DrainLimit = time.Second }
		a, b := startNode(t, engine, h, "a", drain), startNode(t, engine, h, "b")
		id := a.open()
		a.Say(id, "prompt", "~x~ pace=500 parts=20")
		a.pass(2 * time.Second)
		a.member.Drain()
		a.end()
		begun := time.Now()
		b.take(id)
		assert.Less(t, time.Since(begun), 300*time.Millisecond)
		b.pass(30 * time.Second)
		assert.Contains(t, b.lines(id), "part 19 for ~x~")
		assert.NotContains(t, b.lines(id), "aborted")
		b.end()
	})
}

// TestReadNeedsLease: who cannot know whether a session is still its own shows nothing of it (C8).
func TestReadNeedsLease(t *testing.T) {
	oneNode(t, func(t *testing.T, a *node) {
		id := a.open()
		a.run(id, "~a~ one")
		a.way.Cut(clustertest.Gone)
		a.pass(2 * time.Second)
		read := a.Send(`{"type":"get_state"` + at(id) + `}`)
		a.pass(time.Second)
		require.Contains(t, a.Unanswered(), read)
		a.way.Cut(clustertest.Whole)
		assert.True(t, a.answer(read).Get("success").Bool())
	})
}

// TestExportOnClose: a session that is closed is where pi looks for it, with all of it, again when
// it has gone on, and not over a file that has.
func TestExportOnClose(t *testing.T) {
	oneNode(t, func(t *testing.T, n *node) {
		handle := n.open()
		n.run(handle, "~a~ one")
		id := n.Call(t, `{"type":"get_state"`+at(handle)+`}`).Get("data.sessionId").Str
		closeIt := func(handle string) {
			n.Call(t, `{"type":"close_session"`+at(handle)+`}`)
			n.pass(time.Second)
		}
		exports := func() (list []string) {
			dirs, _ := n.disk.FS().ReadDir("/exports")
			for _, dir := range dirs {
				files, _ := n.disk.FS().ReadDir("/exports/" + dir.Name())
				for _, file := range files {
					list = append(list, "/exports/"+dir.Name()+"/"+file.Name())
				}
			}
			return list
		}
		closeIt(handle)
		closeIt(n.open()) // nothing was said in it
		require.Len(t, exports(), 1)
		parts, err := n.disk.FS().ReadDir("/exports")
		require.NoError(t, err)
		assert.Len(t, parts, 1)
		path := exports()[0]
		assert.Equal(t, n.lines(id), string(n.disk.Mem().ReadFile(path)))
		assert.Regexp(t, `^/exports/--.*--/[^/]*_`+id+`\.jsonl$`, path)

		handle = n.take(id)
		n.run(handle, "~b~ two")
		closeIt(handle)
		assert.Equal(t, n.lines(id), string(n.disk.Mem().ReadFile(path)))

		other := append(n.disk.Mem().ReadFile(path), "{}\n"...)
		n.disk.Mem().WriteFile(path, other)
		handle = n.take(id)
		n.run(handle, "~c~ three")
		closeIt(handle)
		assert.Equal(t, string(other), string(n.disk.Mem().ReadFile(path)), "it has gone on by itself")
		parts, err = n.disk.FS().ReadDir("/exports")
		require.NoError(t, err)
		assert.Len(t, parts, 1)
	}, func(c *Config) { c.Sessions.Cluster.Export = "/exports" })
}
