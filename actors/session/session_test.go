package session

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/failpoint"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store/config"
	"troupe/tools"
)

// rig is one session actor by itself: probes are its parent and the writers and
// routers of its clients. What the mailbox holds, and in which order, is the
// test's to say.
type rig struct {
	t       *testing.T
	sys     *actor.ActorSystem
	kernel  *kernel.Kernel
	shared  *Shared
	rules   protocol.Rules
	dir     string
	parent  *actortest.Probe
	session *actor.PID
	seq     uint64
}

// person is a client of the session: one probe hears what its writer and its
// router are told.
type person struct {
	*actortest.Probe
	link.Client
}

// newWorld has no session yet.
func newWorld(t *testing.T, plan string) *rig {
	faults, err := failpoint.Parse(plan)
	require.NoError(t, err)
	sys := actor.NewActorSystem(actortest.Quiet())
	dir := t.TempDir()
	_, rules, _ := protocol.DialectUnion.Open()
	return &rig{
		t: t, sys: sys, parent: actortest.NewProbe(sys), rules: rules, dir: dir,
		kernel: &kernel.Kernel{Log: zerolog.Nop(), Dispatcher: kernel.New(), Faults: faults},
		shared: NewShared(Config{
			AgentDir: dir, Home: dir, Consent: config.Refused, NoContext: true, NoPrompts: true, NoSkills: true,
			Env: func(string) string { return "" }, Tools: actortest.Tools(new(actortest.History)), Files: new(tools.Files), Guard: tools.NewGuard(),
			Models: actortest.NewModels(), Exec: actortest.Exec, FS: actortest.NewDisk().FS(),
		}, zerolog.Nop()),
	}
}

// spec is of a session in memory, with a model that answers.
func (r *rig) spec(of link.OpenSpec) link.OpenSpec {
	of.Cwd, of.Memory, of.Provider, of.Model, of.Tools = r.dir, true, "acme", "plain", actortest.ToolNames
	return of
}

// newRig begins a session for a first client.
func newRig(t *testing.T, plan string, spec link.OpenSpec) (*rig, person) {
	t.Helper()
	r := newWorld(t, plan)
	first := r.person()
	r.session = r.parent.Spawn(r.sys, sessionProps(r.kernel, r.shared, "s1", link.SpawnSession{Spec: r.spec(spec), Client: first.Client, Rules: r.rules}, r.shared.newRingAccount()))
	synctest.Wait()
	return r, first
}

func (r *rig) person() person {
	probe := actortest.NewProbe(r.sys)
	wire, _, _ := protocol.DialectUnion.Open()
	return person{probe, link.Client{
		Writer: probe.PID, Router: probe.PID, Window: link.NewWindow(1<<20, r.sys.Root), Wire: &wire, Tag: "s1",
	}}
}

// tell puts messages into the session's mailbox, and lets everything settle.
func (r *rig) tell(messages ...any) {
	for _, m := range messages {
		r.sys.Root.Send(r.session, m)
	}
	synctest.Wait()
}

func (r *rig) request(p person, name string, cmd protocol.Command) link.Request {
	r.seq++
	return link.Request{Command: core.Command{Seq: r.seq, Name: name, Cmd: cmd}, Client: p.Client}
}

// hear returns the errors of the answers that a client was given, by command,
// "" for a success, and the types of the events.
func (p person) hear() (answers map[string]string, events []string) {
	answers = map[string]string{}
	for _, m := range p.Take() {
		records, ok := m.(link.Records)
		if !ok {
			continue
		}
		for _, it := range records.Items {
			switch {
			case it.Response == nil:
				events = append(events, protocol.RowsOf(it.Event)[0].Name)
			case it.Response.Err != nil:
				answers[it.Response.Command] = it.Response.Err.Error()
			default:
				answers[it.Response.Command] = ""
			}
		}
	}
	return answers, events
}

// closed answers the Closed of a session as the parent and the routers do.
func (r *rig) closed() {
	r.t.Helper()
	gone := actortest.Expect[link.Closed](r.t, r.parent)
	r.tell(link.RouteClosed{})
	for _, router := range gone.Routers {
		r.tell(link.RouteClosed{Router: router})
	}
}

func (r *rig) end() {
	require.NoError(r.t, r.sys.Root.PoisonFuture(r.parent.PID).Wait())
	r.kernel.Dispatcher.Close()
	time.Sleep(2 * time.Second) // the library's throttle of dead letters sleeps for one
}

// TestEndBehindCommands: the end of the process is announced to a session by its
// parent, who may be faster than the routers. What a client has sent before the
// end of its input is carried out all the same, also if it does not hear of the
// session yet; the session ends behind it.
func TestEndBehindCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := newRig(t, "", link.OpenSpec{Retain: true})
		r.tell(link.Leave{Router: first.Router})
		actortest.Expect[link.Left](t, first.Probe)
		second := r.person()
		r.tell(
			link.Join{Client: second.Client},
			link.Leave{Final: true}, // of all: see link.EndAll
			r.request(second, "attach", protocol.AttachSession{SessionID: "s1"}),
			r.request(second, "prompt", protocol.Prompt{Message: "~a~ rounds=1 pace=1000"}),
			link.Leave{Router: second.Router, Final: true},
		)
		time.Sleep(time.Minute)
		synctest.Wait()
		answers, events := second.hear()
		require.Equal(t, map[string]string{"attach": "", "prompt": ""}, answers)
		assert.Contains(t, strings.Join(events, " "), "tool_execution_end")
		assert.Equal(t, "agent_settled", events[len(events)-1])
		r.closed()
		r.end()
	})
}

// TestLeavesAsTheProcessEnds: a client that was asked about a call goes by itself while the process
// ends for another one that takes the session up. Nobody has said no: nothing becomes of the call.
func TestLeavesAsTheProcessEnds(t *testing.T) {
	all, own := link.Leave{Final: true, GoesOn: true}, link.Leave{} // of all: see link.EndAll
	for name, order := range map[string][]*link.Leave{"before": {&own, &all}, "meanwhile": {&all, &own}} {
		synctest.Test(t, func(t *testing.T) {
			r, first := newRig(t, "", link.OpenSpec{Retain: true, PermissionMode: "ask"})
			r.tell(
				r.request(first, "attach", protocol.AttachSession{SessionID: "s1"}),
				r.request(first, "prompt", protocol.Prompt{Message: "~a~ rounds=1 tool=danger"}),
			)
			_, events := first.hear()
			require.Contains(t, events, "approval_request", name)
			for _, m := range order {
				if m == &own {
					m.Router = first.Router
				}
				r.tell(*m)
			}
			r.closed()
			_, events = first.hear()
			assert.NotContains(t, events, "tool_execution_end", name)
			assert.Len(t, r.shared.Models.(*actortest.Models).Asked(), 1, name)
			r.end()
		})
	}
}

// TestLeaveWhileOthersDrain: a client that does not wait for runs does not wait for
// the end of a session, either, that another one has asked for.
func TestLeaveWhileOthersDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := newRig(t, "", link.OpenSpec{})
		second := r.person()
		r.tell(
			link.Join{Client: second.Client},
			r.request(second, "attach", protocol.AttachSession{SessionID: "s1"}),
			r.request(first, "prompt", protocol.Prompt{Message: "~a~ stall"}),
			r.request(first, "close_session", protocol.CloseSession{SessionID: "s1", Mode: "drain"}),
		)
		second.Take()
		r.tell(link.Leave{Router: second.Router, Abort: true})
		actortest.Expect[link.Left](t, second.Probe)
		r.parent.Take()
		r.tell(link.Leave{Router: first.Router, Abort: true})
		r.closed()
		r.end()
	})
}

// TestRouterIsGone: a session whose router has ended before it was asked for, or
// ends without a word, ends as with its last client.
func TestRouterIsGone(t *testing.T) {
	for _, before := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newWorld(t, "")
			sessions := r.sys.Root.Spawn(ParentProps(r.kernel, r.shared))
			router, other := r.person(), actortest.NewProbe(r.sys)
			end := func() { require.NoError(t, r.sys.Root.PoisonFuture(router.PID).Wait()) }
			if before {
				end()
			}
			r.sys.Root.Send(sessions, link.SpawnSession{Spec: r.spec(link.OpenSpec{}), Client: router.Client, Key: "1", Rules: r.rules})
			synctest.Wait()
			if !before {
				end()
			}
			synctest.Wait()
			r.sys.Root.Send(sessions, link.ListOpen{Seq: 1, From: other.PID})
			synctest.Wait()
			assert.Empty(t, actortest.Expect[link.OpenList](t, other).Sessions)
			require.NoError(t, r.sys.Root.PoisonFuture(sessions).Wait())
			r.end()
		})
	}
}

// TestTakenUpMeanwhile: a client is led to a session that it has heard of on another node, and wants taken up here: another one was
// faster. It hears on, also where it has asked for something.
func TestTakenUpMeanwhile(t *testing.T) {
	for _, hears := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newWorld(t, "")
			r.shared.Cluster = &Cluster{Member: cluster.Join(cluster.MemberConfig{Self: cluster.Node{Name: "a"}})}
			sessions := r.sys.Root.Spawn(ParentProps(r.kernel, r.shared))
			first, second := r.person(), r.person()
			spec := r.spec(link.OpenSpec{ID: "s1", Retain: true})
			r.sys.Root.Send(sessions, link.SpawnSession{Spec: spec, Client: first.Client, Key: "1", Rules: r.rules})
			r.sys.Root.Send(sessions, link.SpawnSession{Spec: spec, Client: second.Client, Key: "1", Rules: r.rules, Hears: hears})
			synctest.Wait()
			r.session = actortest.Expect[link.SessionSpawned](t, second.Probe).PID
			r.tell(r.request(second, "prompt", protocol.Prompt{Message: "~a~"}))
			time.Sleep(time.Minute)
			synctest.Wait()
			answers, events := second.hear()
			require.Equal(t, map[string]string{"prompt": ""}, answers)
			if hears {
				require.NotEmpty(t, events)
				assert.Equal(t, "agent_settled", events[len(events)-1])
			} else {
				assert.Empty(t, events)
			}
			require.NoError(t, r.sys.Root.PoisonFuture(sessions).Wait())
			r.end()
		})
	}
}

// TestOpenedAgainBehindItsEnd: who wants a session of the cluster here that has just left this node gets it once the actor is gone that
// had it, which has its name until then.
func TestOpenedAgainBehindItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWorld(t, "")
		r.shared.Cluster = &Cluster{Member: cluster.Join(cluster.MemberConfig{Self: cluster.Node{Name: "a"}})}
		sessions := r.sys.Root.Spawn(ParentProps(r.kernel, r.shared))
		first, second, other := r.person(), r.person(), actortest.NewProbe(r.sys)
		spawn := func(who person) {
			r.sys.Root.Send(sessions, link.SpawnSession{Spec: r.spec(link.OpenSpec{ID: "s1", Retain: true}), Client: who.Client, Key: "1", Rules: r.rules})
			synctest.Wait()
		}
		spawn(first)
		r.session = actortest.Expect[link.SessionSpawned](t, first.Probe).PID
		r.tell(r.request(first, "close_session", protocol.CloseSession{SessionID: "s1"}))
		spawn(second)
		require.Empty(t, second.Take())
		r.tell(link.RouteClosed{Router: first.Router})
		time.Sleep(time.Second)
		synctest.Wait()
		got := actortest.Expect[link.SessionSpawned](t, second.Probe)
		require.Nil(t, got.Err)
		r.sys.Root.Send(sessions, link.ListOpen{Seq: 1, From: other.PID})
		synctest.Wait()
		assert.Len(t, actortest.Expect[link.OpenList](t, other).Sessions, 1)
		require.NoError(t, r.sys.Root.PoisonFuture(sessions).Wait())
		r.end()
	})
}

// TestComesBehindAMove: a client that is led to a session which has just gone to another node is led on there, and not told that it is
// over; what it has asked for is asked there.
func TestComesBehindAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWorld(t, "")
		d := &durable{kernel: r.kernel, shared: r.shared, log: zerolog.Nop(), handle: "s1", spec: r.spec(link.OpenSpec{}), file: logFile{foreign: &foreign{}}}
		d.life.state = closed
		r.session = r.parent.Spawn(r.sys, r.kernel.Props(func() actor.Actor { return &crashGuard{newSession(d), d} }, ""))
		synctest.Wait()
		r.parent.Take()
		d.life.moved = true
		for _, hears := range []bool{false, true} {
			who := r.person()
			attach := r.request(who, "attach", protocol.AttachSession{SessionID: "s1"})
			attach.Line = []byte("{}")
			r.tell(link.Join{Client: who.Client, Hears: hears}, attach)
			gone := actortest.Expect[link.Closed](t, who.Probe)
			require.NotNil(t, gone.Moved)
			assert.Equal(t, !hears, gone.Moved.New)
			assert.Equal(t, attach.Seq, actortest.Expect[link.Late](t, r.parent).Request.Seq)
		}
		r.end()
	})
}

// TestGivenUpBeforeItIsOpened: the client of a session that crashes too often before
// the open_session reaches it is told so, and finds it no more.
func TestGivenUpBeforeItIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWorld(t, "Panic s1 opened 0+")
		sessions := r.sys.Root.Spawn(ParentProps(r.kernel, r.shared))
		client, other := r.person(), actortest.NewProbe(r.sys)
		r.sys.Root.Send(sessions, link.SpawnSession{Spec: r.spec(link.OpenSpec{}), Client: client.Client, Key: "1", Rules: r.rules})
		synctest.Wait()
		r.session = actortest.Expect[link.SessionSpawned](t, client.Probe).PID
		r.tell(r.request(client, "open_session", protocol.OpenSession{}))
		gone := actortest.Expect[link.Closed](t, client.Probe)
		require.Len(t, gone.Replies, 1)
		assert.Equal(t, protocol.CodeSessionFailed, gone.Replies[0].Response.Err.Code)
		r.sys.Root.Send(sessions, link.ListOpen{Seq: 1, From: other.PID})
		synctest.Wait()
		assert.Empty(t, actortest.Expect[link.OpenList](t, other).Sessions)
		require.NoError(t, r.sys.Root.PoisonFuture(sessions).Wait())
		r.end()
	})
}

// TestLeaveBehindASwitch: a command that waits in the machine for another session, and
// is refused because its client leaves in a hurry, is not carried out afterwards.
func TestLeaveBehindASwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := newRig(t, "", link.OpenSpec{})
		second := r.person()
		r.tell(
			r.request(second, "attach", protocol.AttachSession{SessionID: "s1"}),
			r.request(first, "new", protocol.NewSession{}),
			r.request(second, "prompt", protocol.Prompt{Message: "~a~ never"}),
			link.Leave{Router: second.Router, Abort: true},
		)
		time.Sleep(time.Minute)
		synctest.Wait()
		answers, _ := second.hear()
		require.Equal(t, map[string]string{"attach": "", "prompt": "The connection is closing"}, answers)
		answers, events := first.hear()
		require.Equal(t, map[string]string{"new": ""}, answers)
		assert.Equal(t, []string{"session_changed"}, events)
		r.parent.Take()
		r.tell(link.Leave{Router: first.Router, Abort: true})
		r.closed()
		r.end()
	})
}

// TestLeaveWhileOpening: a command that waits while the session is opened again, and
// is refused because its client leaves in a hurry, is not carried out afterwards.
func TestLeaveWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := newRig(t, "Delay 1s s1 Request 1; Panic s1 Request 1", link.OpenSpec{})
		second := r.person()
		r.tell(
			r.request(second, "attach", protocol.AttachSession{SessionID: "s1"}),
			r.request(first, "get_state", protocol.GetState{}), // breaks it
			r.request(second, "prompt", protocol.Prompt{Message: "~a~ never"}),
			link.Leave{Router: second.Router, Abort: true},
		)
		time.Sleep(time.Minute)
		synctest.Wait()
		answers, _ := second.hear()
		require.Equal(t, map[string]string{"attach": "", "prompt": "The connection is closing"}, answers)
		_, events := first.hear()
		assert.Empty(t, events)
		r.parent.Take()
		r.tell(link.Leave{Router: first.Router, Abort: true})
		r.closed()
		r.end()
	})
}
