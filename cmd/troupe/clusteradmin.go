package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
	"troupe/actors/cluster/jetstream"
	"troupe/actors/cluster/peer"
	"troupe/actors/cluster/postgres"
	"troupe/actors/session"
	"troupe/store"
)

// adminOptions are the flags of "troupe cluster".
type adminOptions struct {
	clusterOptions
	nodes                []string
	replicas, partitions int
	words                []string // the verb and what it is about
}

// sections returns the flags of troupe cluster: those of every verb, and those of init.
func (a *adminOptions) sections() []section {
	return []section{{"Options", a.engineFlags()}, {"Options of init", []flag{
		{"--node", "NAME", "Create keys for this node. May be repeated.", more(&a.nodes), "", "w1"},
		{"--replicas", "N", "How many servers have a copy of each record. NATS only.", number(&a.replicas, 1, math.MaxInt32), "3", "5"},
		{"--partitions", "N", "Into how many streams sessions are divided. NATS only.", number(&a.partitions, 1, math.MaxInt32), "3 for each replica", "32"},
		{"--cluster-allow-single", "", "Accept one server without replicas. Data is lost with its disk.", be(&a.Single, true), "", ""},
	}}}
}

func parseAdmin(args []string) (a *adminOptions, err error) {
	a = new(adminOptions)
	rest, err := takeFlags(args, a.sections())
	if err != nil {
		return nil, err
	}
	for i, word := range rest {
		if word == "--" {
			a.words = append(a.words, rest[i+1:]...)
			break
		}
		if strings.HasPrefix(word, "-") {
			name, _, _ := strings.Cut(word, "=")
			return nil, unknownOptionError(name, a.sections())
		}
		a.words = append(a.words, word)
	}
	return a, nil
}

// adminTime is how long a command waits for the engine.
const adminTime = 30 * time.Second

// administrations are the verbs of troupe cluster.
var administrations = map[string]func(*adminOptions, context.Context) error{
	"init": (*adminOptions).init, "status": (*adminOptions).status, "spread": (*adminOptions).spread, "check": (*adminOptions).check,
	"drain": (*adminOptions).drainNode, "export": (*adminOptions).export, "move": (*adminOptions).move,
}

// administer is "troupe cluster".
func administer(args []string) error {
	a, err := parseAdmin(args)
	if err != nil {
		return wrong("cluster", err)
	}
	verbs := below("cluster", commands())
	if len(a.words) == 0 {
		return verbMissing("cluster", verbs)
	}
	verb := administrations[a.words[0]]
	if verb == nil {
		return unknownVerb("cluster", a.words[0], verbs)
	}
	topic := "cluster " + a.words[0]
	if err := checkArguments(topic, a.words[1:]); err != nil {
		return err
	}
	if err := a.checkWords(); err != nil {
		return wrong(topic, err)
	}
	file, err := readClusterFile(store.AgentDir("", os.Getenv, homeDir()))
	if err != nil {
		return err
	}
	a.clusterOptions = a.clusterOptions.with(file)
	if a.Engine != "" && engineKind(a.Engine) == "" {
		return wrong(topic, badValue("--cluster", withoutSecrets(a.Engine), wantEngine))
	}
	if err := a.checkSystem(); err != nil {
		return wrong(topic, err)
	}
	if a.replicas+a.partitions > 0 && engineKind(a.Engine) != "nats" {
		return wrong(topic, errors.New("--replicas and --partitions need --cluster nats://…: other engines have neither"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTime)
	defer cancel()
	return verb(a, ctx)
}

// checkWords refuses what no session and no node is called, and options of init that another command has.
func (a *adminOptions) checkWords() error {
	if a.words[0] != "init" && len(a.nodes)+a.replicas+a.partitions > 0 {
		return errors.New("--node, --replicas and --partitions are options of troupe cluster init")
	}
	for i, name := range a.words[1:] {
		if isFile := a.words[0] == "export" && i == 1; !isFile && !cluster.Valid(name) {
			return fmt.Errorf("%q is not the name of a session or a node: want letters, digits, - and _", name)
		}
	}
	return nil
}

// side is how nodes are spoken to.
func (a *adminOptions) side() (*peer.Side, error) {
	if a.Keys == "" {
		return nil, wrong("cluster", errors.New("--cluster-dir is missing: give the directory with the keys of any node"))
	}
	keys, err := peer.Load(a.Keys)
	if err != nil {
		return nil, badKeys(err)
	}
	return peer.NewSide(keys, version), nil
}

// init makes the authority of a cluster and the keys of nodes, and sets up the engine.
func (a *adminOptions) init(ctx context.Context) error {
	if a.Keys == "" && a.Engine == "" {
		return wrong("cluster init", errors.New("cluster init: want --cluster-dir, for keys, or --cluster, for the engine, or both"))
	}
	if len(a.nodes) > 0 && a.Keys == "" {
		return wrong("cluster init", errors.New("--node needs --cluster-dir, where the keys are written"))
	}
	if a.Keys != "" {
		made, err := peer.NewAuthority(a.Keys)
		if err != nil {
			return err
		}
		if made {
			fmt.Println("the authority of a new cluster:", filepath.Join(a.Keys, peer.CAFile)+"; keep", filepath.Join(a.Keys, peer.CAKeyFile), "away from the nodes")
		}
		for _, name := range a.nodes {
			dir := filepath.Join(a.Keys, name)
			if _, err := os.Stat(filepath.Join(dir, peer.CertFile)); err == nil {
				return fmt.Errorf("%s has keys already: choose another name for the node", dir)
			}
			if err := peer.NewNode(a.Keys, dir, name); err != nil {
				return err
			}
			fmt.Println("the keys of node", name+":", dir, "is its --cluster-dir")
		}
	}
	if a.Engine == "" {
		return nil
	}
	warn := func(why string) { fmt.Fprintln(stderr, "troupe: warning:", why) }
	var err error
	if engineKind(a.Engine) == "postgres" {
		err = postgres.Init(ctx, postgres.Config{URL: a.Engine, Single: a.Single, Warn: warn})
	} else {
		err = jetstream.Init(ctx, a.nats(nil, warn), jetstream.Options{Replicas: a.replicas, Partitions: a.partitions})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", withoutSecrets(a.Engine), err)
	}
	fmt.Println("the engine is set up:", withoutSecrets(a.Engine))
	return nil
}

// with does something with the engine.
func (a *adminOptions) withEngine(ctx context.Context, do func(cluster.Engine) error) error {
	if a.Engine == "" {
		return wrong("cluster", errors.New("the engine is unknown: give --cluster URL, or set engine in cluster.json"))
	}
	var keys *peer.Keys
	if strings.HasPrefix(a.Engine, "tls://") {
		var err error
		if keys, err = peer.Load(a.Keys); err != nil {
			return badKeys(err)
		}
	}
	e, err := a.open(ctx, keys, true, func(why string) { fmt.Fprintln(stderr, "troupe: warning:", why) })
	if err != nil {
		return fmt.Errorf("%s: %w", withoutSecrets(a.Engine), err)
	}
	return errors.Join(do(e), e.Close())
}

// status prints what the engine and the nodes say of themselves.
func (a *adminOptions) status(ctx context.Context) error {
	return a.withEngine(ctx, func(e cluster.Engine) error {
		st, err := e.Status(ctx)
		if err != nil {
			return err
		}
		fmt.Println(st.Engine)
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "GROUP\tLEADER\tRECORDS\tBYTES\tOTHERS")
		leads := map[string]int{}
		for _, g := range st.Groups {
			leader := g.Leader
			if leads[leader]++; leader == "" {
				leader = "NONE"
			}
			var others []string
			for _, s := range g.Others {
				state := s.Name
				if !s.Current {
					state += fmt.Sprintf(" (behind by %d)", s.Lag)
				}
				others = append(others, state)
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", g.Name, leader, g.Records, g.Bytes, strings.Join(others, ", "))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		nodes, err := heardOf(ctx, e)
		if err != nil {
			return err
		}
		fmt.Println()
		w = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NODE\tSTATE\tADDRESS\tVERSION\tFORMATS\tSESSIONS\tROOTS\tLABELS")
		for _, n := range nodes {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\treads %d-%d, writes %d-%d\t%d\t%s\t%s\n", n.Name, n.state, n.Addr, n.Version,
				n.Reads[0], n.Reads[1], n.Writes[0], n.Writes[1], n.Sessions, listRoots(n.Roots), listLabels(n.Labels))
		}
		return w.Flush()
	})
}

// heard is a node and whether it lives.
type heard struct {
	cluster.Node
	state string
}

// heardOf listens for longer than a node that lives is silent.
func heardOf(ctx context.Context, e cluster.Engine) ([]heard, error) {
	first := map[string]uint64{}
	for _, n := range e.Nodes() {
		first[n.Name] = n.Beat
	}
	select {
	case <-time.After(6 * cluster.Stock.Every):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var nodes []heard
	for _, n := range e.Nodes() {
		if now, found, err := e.Node(ctx, n.Name); err == nil && found && (now.Boot != n.Boot || now.Beat > n.Beat) {
			n = now // PostgreSQL tells of others only those who beat
		}
		h := heard{n, "lives"}
		if beat, was := first[n.Name]; was && beat == n.Beat {
			if h.state = "SILENT"; n.Draining {
				h.state = "has ended"
			}
		} else if n.Draining {
			h.state = "draining"
		} else if n.Stuck {
			h.state = "lives, and cannot write to its disk"
		}
		nodes = append(nodes, h)
	}
	return nodes, nil
}

func (a *adminOptions) spread(ctx context.Context) error {
	return a.withEngine(ctx, func(e cluster.Engine) error { return e.Spread(ctx) })
}

func listRoots(roots map[string]cluster.Root) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(roots)) {
		list = append(list, fmt.Sprintf("%s (%s)", name, roots[name].Mode))
	}
	return strings.Join(list, ", ")
}

func listLabels(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+labels[name])
	}
	return strings.Join(list, " ")
}

// check reads a session's log, or all, from every server that has it.
func (a *adminOptions) check(ctx context.Context) error {
	return a.withEngine(ctx, func(e cluster.Engine) error {
		if len(a.words) == 2 {
			return checkLog(ctx, e, cluster.SessionID(a.words[1]), true)
		}
		bad, all := 0, 0
		for page, more := "", true; more; more = page != "" {
			ids, next, err := e.List(ctx, page, 1000)
			if err != nil {
				return err
			}
			for _, id := range ids {
				all++
				if checkLog(ctx, e, id, false) != nil {
					bad++
				}
			}
			page = next
		}
		fmt.Printf("%d sessions, %d with something wrong\n", all, bad)
		if bad > 0 {
			return errors.New("some logs are damaged, as listed: copies that are whole can be exported with troupe cluster export")
		}
		return nil
	})
}

// checkLog prints the copies of a log, or only those with which something is wrong.
func checkLog(ctx context.Context, e cluster.Engine, id cluster.SessionID, every bool) error {
	known, err := session.LogIndexed(ctx, e, id) // before the copies: a session that lives goes on
	var copies []logCopy
	if err == nil {
		copies, err = copiesOf(ctx, e, id)
	}
	if err != nil {
		fmt.Printf("%s: %s\n", id, err)
		return err
	}
	var last cluster.Mark
	for _, c := range copies {
		if c.Last.Seq > last.Seq {
			last = c.Last
		}
	}
	switch {
	case last.Seq == 0 && known.Seq == 0 && !slices.ContainsFunc(copies, func(c logCopy) bool { return c.Err != nil }):
		return fmt.Errorf("%w: %s", cluster.ErrNoSession, id)
	case last.Seq < known.Seq:
		err = fmt.Errorf("%s: its last record is %d, and %d is known: its end is lost", id, last.Seq, known.Seq)
	case last.Seq == known.Seq && last.Sum != known.Sum:
		err = fmt.Errorf("%s: record %d is not the one that is known: it is another log", id, last.Seq)
	}
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range copies {
		problem := c.Err
		if problem == nil && c.Last.Seq < last.Seq {
			problem = fmt.Errorf("it ends at %d, and another at %d", c.Last.Seq, last.Seq)
		}
		switch {
		case problem != nil:
			err = fmt.Errorf("%s on %s: %w", id, c.Server, problem)
			fmt.Println(err)
		case every:
			fmt.Printf("%s on %s: %d records, %d bytes, whole up to %d\n", id, c.Server, c.Records, c.Bytes, c.Last.Seq)
		}
	}
	return err
}

// logCopy is a session's log as one server has it.
type logCopy struct {
	Server  string
	Records int
	Bytes   int
	Last    cluster.Mark
	Err     error // what is wrong with it
}

// copiesOf reads the log of a session from every server that has it, and checks each.
func copiesOf(ctx context.Context, log cluster.Log, id cluster.SessionID) (copies []logCopy, err error) {
	tail, err := log.Tail(ctx, id)
	for _, from := range log.Sources() {
		if from.Server && err == nil {
			copies = append(copies, copyOf(ctx, from, id, tail.Seq))
		}
	}
	return copies, err
}

func copyOf(ctx context.Context, from cluster.Source, id cluster.SessionID, tail cluster.Seq) logCopy {
	c := logCopy{Server: from.Name}
	for c.Err == nil && c.Last.Seq < tail {
		was := c.Last.Seq
		c.Err = from.Read(ctx, id, was, tail, func(r cluster.Record) error {
			c.Records, c.Bytes = c.Records+1, c.Bytes+len(r.Lines)
			return c.Last.Add(r)
		})
		if c.Err == nil && c.Last.Seq == was {
			c.Err = fmt.Errorf("%w: it ends at %d, and the log at %d", cluster.ErrDamaged, was, tail)
		}
	}
	return c
}

// export writes a session as pi has it to a file.
func (a *adminOptions) export(ctx context.Context) error {
	id := a.words[1]
	path := id + ".jsonl"
	if len(a.words) == 3 {
		path = a.words[2]
	}
	return a.withEngine(ctx, func(e cluster.Engine) error {
		if err := session.Export(ctx, e, store.OS{}, id, path); err != nil {
			return fmt.Errorf("session %s: %w", id, err)
		}
		fmt.Println(path)
		return nil
	})
}

// drainNode asks a node to give its sessions up and to end, and waits until it has ended.
func (a *adminOptions) drainNode(ctx context.Context) error {
	side, err := a.side()
	if err != nil {
		return err
	}
	return a.withEngine(ctx, func(e cluster.Engine) error {
		n, found, err := e.Node(ctx, a.words[1])
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("there is no node %s: troupe cluster status lists the nodes", a.words[1])
		}
		wire, err := side.Dial(ctx, n, cluster.Identity{Device: "troupe cluster drain"})
		if err != nil {
			return fmt.Errorf("node %s at %s: %w", n.Name, n.Addr, err)
		}
		defer func() { _ = wire.Close() }()
		answer, err := ask(wire, "drain_node", map[string]string{})
		if err != nil {
			return err
		}
		if !gjson.GetBytes(answer, "success").Bool() {
			return fmt.Errorf("node %s: %s", n.Name, gjson.GetBytes(answer, "error").Str)
		}
		fmt.Println("node", n.Name, "gives its sessions up")
		return awaitEnd(os.Stdout, e, n)
	})
}

// awaitEnd waits until a node has said that it has ended, however long it says that it may take, and names those sessions whose files
// it cannot save: it tries again until its end, so that whoever reads that has time to have the remote reached. Those that it gives up
// all the same are an error, as is a node that falls silent before.
func awaitEnd(out io.Writer, of cluster.Registry, n cluster.Node) error {
	told, heard := map[cluster.SessionID]bool{}, time.Now()
	for n.Addr != "" {
		was := n.Beat
		if n = lastOf(of, n); n.Beat != was {
			heard = time.Now()
		}
		for _, id := range n.Unsaved {
			if !told[id] && n.Addr != "" {
				_, _ = fmt.Fprintln(out, "session", id, "stays on node", n.Name, "for now: its working tree cannot be saved, which is tried again until the node has to end; see its log")
			}
			told[id] = true
		}
		if time.Since(heard) > silentTime {
			break
		}
		time.Sleep(cluster.Stock.Every) // behind its last word, too: until its process has ended
	}
	for _, id := range n.Unsaved {
		_, _ = fmt.Fprintf(out, "session %s was given up, and its working tree could not be saved: node %s keeps what was changed below refs/troupe/lost/%s of the root's repository\n", id, n.Name, id)
	}
	if n.Addr != "" {
		return fmt.Errorf("node %s is not heard of any more, and has not said that it has ended: it had %d sessions", n.Name, n.Sessions)
	}
	_, _ = fmt.Fprintln(out, "node", n.Name, "has ended")
	if len(n.Unsaved) > 0 {
		return fmt.Errorf("the working trees of sessions that were given up could not be saved: %d", len(n.Unsaved))
	}
	return nil
}

// silentTime is how long a node that drains may say nothing before it is not waited for any more.
const silentTime = 10 * time.Second

// lastOf is what a life of a node has said last, as far as it can be read.
func lastOf(of cluster.Registry, n cluster.Node) cluster.Node {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if now, found, err := of.Node(ctx, n.Name); err == nil && found && now.Boot == n.Boot {
		return now
	}
	return n
}
