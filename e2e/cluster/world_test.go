package cluster_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/cluster/jetstream"
	"troupe/actors/cluster/postgres"
	"troupe/e2e/cluster/engines"
)

const machines = 3

// world is three machines with a node and, for JetStream, a server each, and clients.
type world struct {
	t       *testing.T
	dir     string
	rand    *rand.Rand
	nats    *engines.Nats
	pg      *engines.Postgres
	admin   cluster.Engine // by a way that nobody cuts
	nodes   [machines]*engines.Process
	fronts  [machines]*engines.Proxy   // what clients reach a node by
	ways    [machines][]*engines.Proxy // of a node to the engine's servers
	links   map[[2]int]*engines.Proxy  // of a node to another
	disks   []*engines.Disk
	troupe  bool
	stop    func() // ends the clients
	clients sync.WaitGroup
	opt     worldOptions
	still   atomic.Bool // for a time clients say less

	sessions []cluster.SessionID
	history  *clustertest.History
	mu       sync.Mutex
	acks     map[cluster.SessionID][]time.Time
	faults   []fault
}

// fault is what was done, and to whose sessions.
type fault struct {
	name  string
	at    time.Time
	whose []cluster.SessionID
}

// nodeBinary is built once a run.
var nodeBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "troupe-cluster-node-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir, "./node").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "node"), err
})

type worldOptions struct {
	postgres bool
	sync     string // sync_interval; "" for always
	disks    bool   // each server's store on a file system whose power can be cut
	greedy   bool
	troupe   bool          // daemons, not the smallest of nodes
	clients  int           // besides one for each session
	pause    time.Duration // between a client's commands, at most
}

func newWorld(t *testing.T, seed uint64, opt worldOptions) *world {
	needsCluster(t)
	w := &world{
		t: t, dir: t.TempDir(), rand: rand.New(rand.NewPCG(seed, 31)), opt: opt, links: map[[2]int]*engines.Proxy{},
		history: clustertest.NewHistory(), acks: map[cluster.SessionID][]time.Time{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			tailLogs(t, w.dir)
		}
	})
	w.startEngine(opt)
	if opt.troupe {
		system := ""
		if w.nats != nil {
			system = w.nats.System()
		}
		w.history.Keys, w.troupe = entryKeys, true
		w.startTroupe(system)
		w.startClients(seed, opt)
		return w
	}
	binary, err := nodeBinary()
	require.NoError(t, err)
	var ports [machines]int
	for i := range ports {
		ports[i] = engines.Free()
		w.fronts[i] = w.proxy(ports[i])
	}
	for i := range machines {
		var peers []string
		for j := range machines {
			if i != j {
				w.links[[2]int{i, j}] = w.proxy(ports[j])
				peers = append(peers, fmt.Sprintf("n%d=%s", j, w.links[[2]int{i, j}].Addr()))
			}
		}
		args := []string{
			binary, "-name", fmt.Sprint("n", i), "-listen", fmt.Sprintf("127.0.0.1:%d", ports[i]), "-engine", w.way(i),
			"-peers", strings.Join(peers, ","), "-effects", filepath.Join(w.dir, "effects"),
		}
		if opt.greedy {
			args = append(args, "-greedy")
		}
		w.nodes[i] = &engines.Process{Name: fmt.Sprint("n", i), Dir: w.dir, Args: args}
		require.NoError(t, w.nodes[i].Start())
		t.Cleanup(w.nodes[i].Kill)
	}
	for i := range 24 {
		w.sessions = append(w.sessions, cluster.SessionID(fmt.Sprintf("session-%02d", i)))
	}
	w.startClients(seed, opt)
	return w
}

func (w *world) proxy(port int) *engines.Proxy {
	return w.proxyTo("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

func (w *world) proxyTo(network, target string) *engines.Proxy {
	p, err := engines.NewProxyTo(network, target)
	require.NoError(w.t, err)
	w.t.Cleanup(p.Close)
	return p
}

// startEngine starts the servers, and makes the ways of nodes to them.
func (w *world) startEngine(opt worldOptions) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if opt.postgres {
		w.pg = postgresPair(w.t)
		for i := range machines {
			w.ways[i] = []*engines.Proxy{w.proxy(w.pg.Ports[0]), w.proxy(w.pg.Ports[1])}
		}
		e, err := postgres.Open(ctx, postgresConfig(w.t, w.pg))
		require.NoError(w.t, err)
		w.admin = e
	} else {
		o := engines.NatsOptions{N: machines, Dir: w.dir, Sync: opt.sync}
		if opt.disks {
			for i := range machines {
				d, err := engines.NewDisk(w.dir, fmt.Sprint("disk", i), 256)
				require.NoError(w.t, err, "a power cut needs root, loop devices and ext4")
				w.t.Cleanup(d.Close)
				w.disks = append(w.disks, d)
			}
			o.Store = func(i int) string { return filepath.Join(w.disks[i].Dir, "store") }
		}
		w.nats = natsServers(w.t, o)
		for i := range machines {
			for _, s := range w.nats.Servers {
				w.ways[i] = append(w.ways[i], w.proxy(s.Port))
			}
		}
		cfg := natsConfig(w.t, w.nats, 0)
		if opt.sync != "" {
			cfg.System = ""
		}
		e, err := jetstream.Open(ctx, cfg)
		require.NoError(w.t, err)
		w.admin = e
	}
	w.t.Cleanup(func() { _ = w.admin.Close() })
}

// way is where a node finds the engine.
func (w *world) way(i int) string {
	var urls []string
	for j := range w.ways[i] {
		urls = append(urls, w.ways[i][(i+j)%len(w.ways[i])].Addr())
	}
	if w.pg != nil {
		return fmt.Sprintf("postgres://troupe@%s/postgres?sslmode=disable&target_session_attrs=read-write", strings.Join([]string{w.ways[i][0].Addr(), w.ways[i][1].Addr()}, ","))
	}
	return "nats://troupe:troupe@" + strings.Join(urls, ",nats://troupe:troupe@")
}

func (w *world) ask(ctx context.Context, node int, c clustertest.Command) (clustertest.Answer, error) {
	return engines.Ask(ctx, w.fronts[node].Addr(), c)
}

// pause is the longest between two commands of a client.
func (w *world) pause() time.Duration {
	if w.still.Load() {
		return 300 * time.Millisecond
	}
	return w.opt.pause
}

func (w *world) startClients(seed uint64, opt worldOptions) {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.t.Cleanup(stop)
	for i := range len(w.sessions) + opt.clients {
		sessions := w.sessions
		if i < len(sessions) {
			sessions = sessions[i : i+1]
		}
		c := &clustertest.Client{
			Name: fmt.Sprintf("client-%02d", i), Sessions: sessions, Nodes: machines, Do: w.ask, Try: time.Second, Pause: w.pause,
			History: w.history, Rand: rand.New(rand.NewPCG(seed, 1000+uint64(i))),
			Answered: func(id cluster.SessionID, _, ended time.Time) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.acks[id] = append(w.acks[id], ended)
			},
		}
		if opt.troupe {
			on := &wire{w: w, name: c.Name}
			c.Do = on.do
		}
		w.clients.Go(func() { c.Run(ctx) })
	}
}

// owned are the sessions that nodes own, as the logs say.
func (w *world) owned(nodes ...int) (ids []cluster.SessionID) {
	for _, id := range w.sessions {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		tail, err := w.admin.Tail(ctx, id)
		cancel()
		if err == nil && tail.Kind != cluster.Release && slices.ContainsFunc(nodes, func(n int) bool { return tail.Node == fmt.Sprint("n", n) }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// note says that something goes wrong now, with these sessions.
func (w *world) note(name string, whose []cluster.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fault{name, time.Now(), whose})
	w.t.Logf("%s %s (%d sessions)", time.Now().Format("15:04:05.000"), name, len(whose))
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// victim is a node that owns sessions, the more likely the more.
func (w *world) victim() int {
	id := w.sessions[w.rand.IntN(len(w.sessions))]
	for n := range machines {
		if slices.Contains(w.owned(n), id) {
			return n
		}
	}
	return w.rand.IntN(machines)
}

// idlest is the node that owns the fewest sessions.
func (w *world) idlest() (node int) {
	fewest := len(w.sessions) + 1
	for n := range machines {
		if owns := len(w.owned(n)); owns < fewest {
			node, fewest = n, owns
		}
	}
	return node
}

// heirs are the nodes that have sessions now which another one had.
func (w *world) heirs(sessions []cluster.SessionID, was int) (nodes []int) {
	for n := range machines {
		if n != was && slices.ContainsFunc(w.owned(n), func(id cluster.SessionID) bool { return slices.Contains(sessions, id) }) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// server that leads most partitions, or one that does not.
func (w *world) server(leads bool) int {
	st, err := w.admin.Status(context.Background())
	count := make([]int, machines)
	if err == nil {
		for _, g := range st.Groups {
			for i, s := range w.nats.Servers {
				if s.Name == g.Leader {
					count[i]++
				}
			}
		}
	}
	order := []int{0, 1, 2}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(count[b], count[a]) })
	if leads {
		return order[0]
	}
	return order[2]
}

// The faults there are, by the names of the cases.
func (w *world) fault(name string) {
	start := func(p *engines.Process) { require.NoError(w.t, p.Start()) }
	switch name {
	case "K1": // the owner is killed
		n := w.victim()
		w.note(name, w.owned(n))
		w.nodes[n].Kill()
		time.Sleep(between(w.rand, 2*time.Second, 4*time.Second))
		start(w.nodes[n])
	case "K2": // a node that clients of other sessions are connected to
		n := w.idlest()
		its := w.owned(n)
		w.note(name, slices.DeleteFunc(slices.Clone(w.sessions), func(id cluster.SessionID) bool { return slices.Contains(its, id) }))
		w.nodes[n].Kill()
		time.Sleep(between(w.rand, 2*time.Second, 4*time.Second))
		start(w.nodes[n])
	case "K3": // and the next one while it loads
		n := w.victim()
		w.note(name, w.owned(n))
		w.nodes[n].Kill()
		time.Sleep(1200 * time.Millisecond)
		m := (n + 1) % machines
		w.nodes[m].Kill()
		start(w.nodes[n])
		time.Sleep(2 * time.Second)
		start(w.nodes[m])
	case "K5", "K5L": // a server of the engine is killed; one that leads
		s := w.nats.Servers[w.server(name == "K5L")]
		w.note(name, w.sessions)
		s.Kill()
		time.Sleep(between(w.rand, 2*time.Second, 5*time.Second))
		start(&s.Process)
	case "KM": // a machine: node and server
		n := w.victim()
		w.note(name, w.owned(n))
		w.nodes[n].Kill()
		w.nats.Servers[n].Kill()
		time.Sleep(3 * time.Second)
		start(&w.nats.Servers[n].Process)
		start(w.nodes[n])
	case "K6", "K6N", "K6S": // everything; all nodes; all servers of the engine
		w.note(name, w.sessions)
		all := w.processes()
		switch servers := len(all) - machines; name {
		case "K6N":
			all = all[servers:]
		case "K6S":
			all = all[:servers]
		}
		for _, p := range all {
			p.Signal(syscall.SIGKILL)
		}
		for _, p := range all {
			p.Wait()
			start(p)
		}
	case "K5A": // each server in turn, among them who leads the nodes and who leads all: the next one when the group has a leader again
		w.note(name, w.sessions)
		for _, s := range w.nats.Servers {
			s.Kill()
			time.Sleep(time.Second)
			start(&s.Process)
			w.working()
		}
	case "S1", "S2": // the owner stands still
		n, d := w.victim(), 4*time.Second
		if name == "S1" {
			d = 500 * time.Millisecond
		}
		w.note(name, w.owned(n))
		w.nodes[n].Signal(syscall.SIGSTOP)
		time.Sleep(d)
		w.nodes[n].Signal(syscall.SIGCONT)
	case "S3": // the owner stands still, and then the one that has its sessions next, before the first goes on
		n := w.victim()
		its := w.owned(n)
		w.note(name, its)
		w.nodes[n].Signal(syscall.SIGSTOP)
		time.Sleep(2500 * time.Millisecond)
		next := w.heirs(its, n)
		for _, m := range next {
			w.nodes[m].Signal(syscall.SIGSTOP)
		}
		time.Sleep(500 * time.Millisecond)
		w.nodes[n].Signal(syscall.SIGCONT)
		time.Sleep(2500 * time.Millisecond)
		for _, m := range next {
			w.nodes[m].Signal(syscall.SIGCONT)
		}
	case "S60": // the owner stands still for as long as nobody waits for it, and carries out then what it was given: a session knows its newest 1,024 commands
		n := w.victim()
		w.note(name, w.owned(n))
		w.still.Store(true)
		defer w.still.Store(false)
		w.nodes[n].Signal(syscall.SIGSTOP)
		time.Sleep(time.Minute)
		w.nodes[n].Signal(syscall.SIGCONT)
	case "SS": // a server that leads stands still
		s := w.nats.Servers[w.server(true)]
		w.note(name, w.sessions)
		s.Signal(syscall.SIGSTOP)
		time.Sleep(4 * time.Second)
		s.Signal(syscall.SIGCONT)
	case "N1", "N1H", "N2", "N4": // a node is cut off: from everybody, into a hole, from the engine only, in one direction only
		n := w.victim()
		way := map[string]engines.Way{"N1": engines.Cut, "N1H": engines.Hole, "N2": engines.Cut, "N4": engines.Downward}[name]
		w.note(name, w.owned(n))
		ps := slices.Clone(w.ways[n])
		if name[:2] == "N1" {
			ps = append(ps, w.fronts[n])
			for pair, p := range w.links {
				if pair[0] == n || pair[1] == n {
					ps = append(ps, p)
				}
			}
		}
		w.cut(ps, way, between(w.rand, 2*time.Second, 4*time.Second))
	case "N3": // a server from the others
		s := w.rand.IntN(machines)
		w.note(name, w.sessions)
		var ps []*engines.Proxy
		for pair, p := range w.nats.Links {
			if pair[0] == s || pair[1] == s {
				ps = append(ps, p)
			}
		}
		w.cut(ps, []engines.Way{engines.Cut, engines.Hole}[w.rand.IntN(2)], 4*time.Second)
	case "N5": // one link of three: of the nodes, and of their servers
		n := w.rand.IntN(machines)
		m := (n + 1) % machines
		w.note(name, w.owned(n, m))
		ps := []*engines.Proxy{w.links[[2]int{n, m}], w.links[[2]int{m, n}]}
		if w.nats != nil {
			ps = append(ps, w.nats.Links[[2]int{n, m}], w.nats.Links[[2]int{m, n}])
		}
		w.cut(ps, engines.Cut, 4*time.Second)
	case "N6": // links are cut one by one, and come back in another order
		w.note(name, w.sessions)
		ps := slices.Collect(maps.Values(w.links))
		if w.nats != nil {
			ps = slices.AppendSeq(ps, maps.Values(w.nats.Links))
		}
		shuffle := func() { w.rand.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] }) }
		for _, way := range []engines.Way{engines.Cut, engines.Open} {
			shuffle()
			for _, p := range ps {
				p.Set(way)
				time.Sleep(time.Duration(w.rand.IntN(400)) * time.Millisecond)
			}
		}
	case "D3": // a bit is flipped in every block of a server, which the others do not mend; and then another server leads
		s := w.nats.Servers[w.server(true)]
		w.note(name, w.sessions)
		s.Kill()
		blocks, err := filepath.Glob(filepath.Join(s.Store, "jetstream", "*", "streams", "*", "msgs", "*.blk"))
		require.NoError(w.t, err)
		require.NotEmpty(w.t, blocks)
		for _, path := range blocks {
			block, err := os.ReadFile(path)
			require.NoError(w.t, err)
			if len(block) > 0 {
				block[w.rand.IntN(len(block))] ^= 1 << w.rand.IntN(8)
				require.NoError(w.t, os.WriteFile(path, block, 0o600))
			}
		}
		start(&s.Process)
		time.Sleep(9 * time.Second)
		s = w.nats.Servers[w.server(true)]
		s.Kill()
		time.Sleep(3 * time.Second)
		start(&s.Process)
	case "N7": // slow links
		n := w.victim()
		w.note(name, w.owned(n))
		for _, d := range []time.Duration{100 * time.Millisecond, 2 * time.Second, 100 * time.Millisecond, 0} { // in between all that comes by is held for two seconds
			for _, p := range w.ways[n] {
				p.Slow(d)
			}
			if d > 0 {
				time.Sleep(2 * time.Second)
			}
		}
	case "P1": // the power of all machines
		w.note(name, w.sessions)
		w.power(0, 1, 2)
		w.plug(0, 1, 2)
	case "P2": // of one, and of another before the first has caught up
		n := w.rand.IntN(machines)
		w.note(name, w.sessions)
		w.power(n)
		time.Sleep(2 * time.Second)
		w.plug(n)
		time.Sleep(1500 * time.Millisecond)
		w.power((n + 1) % machines)
		time.Sleep(time.Second)
		w.plug((n + 1) % machines)
	case "P3": // Jepsen's nats-server#7567
		a := w.rand.IntN(machines)
		n, b := (a+1)%machines, (a+2)%machines
		w.note(name, w.sessions)
		w.signal(a, syscall.SIGSTOP)
		time.Sleep(500 * time.Millisecond)
		w.power(n)
		w.signal(b, syscall.SIGSTOP)
		w.signal(a, syscall.SIGCONT)
		w.plug(n)
		time.Sleep(10 * time.Second)
		w.signal(b, syscall.SIGCONT)
	case "G1": // the primary is killed, and started again
		w.note(name, w.sessions)
		w.pg.Primary.Kill()
		time.Sleep(time.Second)
		start(w.pg.Primary)
	case "G1C": // connections of all nodes are ended by the server, again and again
		w.note(name, w.sessions)
		for range 20 {
			require.NoError(w.t, w.pg.HangUp(context.Background()))
			time.Sleep(200 * time.Millisecond)
		}
	case "G1I": // a transaction that somebody has left open holds the row of a session
		w.note(name, w.sessions[:1])
		require.NoError(w.t, w.pg.Hold(context.Background(), string(w.sessions[0]), 4*time.Second))
	case "G1P": // the primary is lost for good, and the standby takes its place
		w.note(name, w.sessions)
		w.pg.Primary.Kill()
		require.NoError(w.t, w.pg.Promote(context.Background()))
	default:
		w.t.Fatalf("there is no fault %s", name)
	}
}

func (w *world) processes() (all []*engines.Process) {
	if w.nats != nil {
		for _, s := range w.nats.Servers {
			all = append(all, &s.Process)
		}
	}
	return append(all, w.nodes[:]...)
}

func (w *world) cut(ps []*engines.Proxy, way engines.Way, d time.Duration) {
	for _, p := range ps {
		p.Set(way)
	}
	time.Sleep(d)
	for _, p := range ps {
		p.Set(engines.Open)
	}
}

func (w *world) signal(machine int, s syscall.Signal) {
	w.nodes[machine].Signal(s)
	w.nats.Servers[machine].Signal(s)
}

// power cuts the power of machines, all at the same moment.
func (w *world) power(which ...int) {
	var all sync.WaitGroup
	for _, i := range which {
		all.Go(func() {
			w.signal(i, syscall.SIGKILL)
			if err := w.disks[i].Cut(); err != nil {
				w.t.Errorf("the power of disk %d cannot be cut: %v", i, err)
			}
		})
	}
	all.Wait()
	for _, i := range which {
		w.nodes[i].Wait()
		w.nats.Servers[i].Wait()
	}
}

// plug starts machines again.
func (w *world) plug(which ...int) {
	for _, i := range which {
		require.NoError(w.t, w.disks[i].Plug())
		require.NoError(w.t, w.nats.Servers[i].Start())
		require.NoError(w.t, w.nodes[i].Start())
	}
}

// working waits until every session has been acknowledged something from now on.
func (w *world) working() {
	from := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = engines.Until(ctx, "work", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range w.sessions {
			if acks := w.acks[id]; len(acks) == 0 || acks[len(acks)-1].Before(from) {
				return false
			}
		}
		return true
	})
	w.t.Logf("all sessions work again %.1f s after the last start", time.Since(from).Seconds())
}

// end sees that all sessions are served through every node (C15), and judges.
func (w *world) end() (violations []string) {
	unserved := w.allServed()
	return append(unserved, w.judge()...)
}

// judge stops the clients, and says what of the laws was broken.
func (w *world) judge() (violations []string) {
	w.stop()
	w.clients.Wait()
	time.Sleep(3 * time.Second) // what was given up may still come
	for _, n := range w.nodes { // and nobody writes while the logs are read through one server after the other
		n.Kill()
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "effects"))
	if !os.IsNotExist(err) {
		require.NoError(w.t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	logs, unread := w.through(ctx)
	violations = w.history.Judge(ctx, logs, w.sessions, clustertest.ReadEffects(text))
	violations = append(violations, w.copies(ctx)...)
	acked, abandoned := w.history.Count()
	w.t.Logf("%d acknowledged, %d replayed, %d given up, %d reads, %d faults, %d violations", acked, w.history.Replayed, abandoned, w.history.Reads, len(w.faults), len(violations))
	w.report()
	return append(unread, violations...)
}

// copies (C12) says which copies on the disks of daemons are not their log, or the beginning of it: whoever was lost or fenced has no
// more.
func (w *world) copies(ctx context.Context) (violations []string) {
	files, err := filepath.Glob(filepath.Join(w.dir, "n?", "troupe", "cluster", "*.jsonl"))
	require.NoError(w.t, err)
	require.Equal(w.t, w.troupe, len(files) > 0)
	for _, path := range files {
		id := cluster.SessionID(strings.TrimSuffix(filepath.Base(path), ".jsonl"))
		has, err := os.ReadFile(path)
		require.NoError(w.t, err)
		tail, err := w.admin.Tail(ctx, id)
		require.NoError(w.t, err)
		var log []byte
		_, err = cluster.Load(ctx, w.admin, id, cluster.Mark{}, tail.Seq, func(r cluster.Record) error {
			if r.Kind == cluster.Lines {
				log = append(log, r.Lines...)
			}
			return nil
		})
		require.NoError(w.t, err)
		if !bytes.HasPrefix(log, has) {
			violations = append(violations, fmt.Sprintf("C12: %s has %d bytes, and is not the beginning of the log, which has %d", path, len(has), len(log)))
		}
	}
	if w.troupe {
		w.t.Logf("%d of %d copies are those of their logs", len(files)-len(violations), len(files))
	}
	return violations
}

// through is a way to the logs through every server, and what cannot be read.
func (w *world) through(ctx context.Context) (logs []cluster.Log, violations []string) {
	if w.nats == nil { // by connections that have not seen a primary end; the standby that was promoted has none
		cfg := postgresConfig(w.t, w.pg)
		cfg.Single = true
		e, err := postgres.Open(ctx, cfg)
		require.NoError(w.t, err)
		w.t.Cleanup(func() { _ = e.Close() })
		return []cluster.Log{e}, nil
	}
	for _, s := range w.nats.Servers {
		one, cancel := context.WithTimeout(ctx, 20*time.Second)
		e, err := jetstream.Open(one, jetstream.Config{URL: "nats://troupe:troupe@" + s.Front.Addr(), Warn: func(s string) { w.t.Log(s) }})
		cancel()
		if err != nil {
			violations = append(violations, fmt.Sprintf("C2: nothing can be read through %s: %v", s.Name, err))
			continue
		}
		w.t.Cleanup(func() { _ = e.Close() })
		logs = append(logs, e)
	}
	return logs, violations
}

// allServed (C15): once faults end every session takes a command through every node. The engine
// has to have its leaders first, which takes up to 15 seconds.
func (w *world) allServed() (violations []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	begun := time.Now()
	for _, id := range w.sessions {
		for node := range machines {
			all.Go(func() {
				c := clustertest.Command{Op: "put", Session: id, Key: fmt.Sprintf("end-%s-%d/1", id, node)}
				ask := w.ask
				if w.troupe {
					on := &wire{w: w, name: fmt.Sprintf("end-%s-%d", id, node)}
					defer on.close()
					ask = on.do
				}
				for {
					one, stop := context.WithTimeout(ctx, 2500*time.Millisecond)
					a, err := ask(one, node, c)
					stop()
					if err == nil && a.Err == "" {
						w.history.Acked(c, a)
						return
					}
					if ctx.Err() != nil {
						mu.Lock()
						defer mu.Unlock()
						violations = append(violations, fmt.Sprintf("C15: %s does not take a command through node %d: %v %s", id, node, err, a.Err))
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	w.t.Logf("all sessions through all nodes: %.1f s after the faults", time.Since(begun).Seconds())
	return violations
}

// report says how long sessions were silent: the longest pause between two acknowledgements of
// a session that begins within 8 s of a fault. One that the next fault falls into counts for the fault that has more of it.
func (w *world) report() {
	silences := map[string][]time.Duration{}
	var names []string
	for i, f := range w.faults {
		end := f.at.Add(8 * time.Second)
		next := end.Add(time.Hour)
		if i+1 < len(w.faults) {
			next = w.faults[i+1].at
		}
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
		for _, id := range f.whose {
			longest := time.Duration(0)
			acks := w.acks[id]
			for k := 1; k < len(acks); k++ {
				from, to := acks[k-1], acks[k]
				if to.After(f.at) && from.Before(end) && from.Before(next) && to.Sub(next) < next.Sub(from) {
					longest = max(longest, to.Sub(from))
				}
			}
			if longest > 0 {
				silences[f.name] = append(silences[f.name], longest)
			}
		}
	}
	for _, name := range names {
		s := silences[name]
		slices.Sort(s)
		at := func(p float64) float64 { return s[min(len(s)-1, int(p*float64(len(s))))].Seconds() }
		if len(s) > 0 {
			w.t.Logf("silence after %-4s p50 %.2f  p90 %.2f  p99 %.2f s  (%d sessions)", name, at(0.5), at(0.9), at(0.99), len(s))
		}
	}
}
