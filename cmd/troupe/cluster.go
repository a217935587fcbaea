package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/cluster"
	"troupe/actors/cluster/jetstream"
	"troupe/actors/cluster/peer"
	"troupe/actors/cluster/postgres"
	"troupe/actors/relay"
	"troupe/actors/session"
	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/tools"
)

// clusterOptions are how a daemon is one node of a cluster: flags of "troupe serve", and the
// file cluster.json of the agent directory, whose keys these are. A flag wins.
type clusterOptions struct {
	Engine    string                  `json:"engine"`    // --cluster; "" for a daemon that is alone
	Node      string                  `json:"node"`      // --node; by default the name in the certificate
	Advertise string                  `json:"advertise"` // --advertise: where other nodes reach this one
	Listen    string                  `json:"listen"`    // --cluster-listen; by default the port of Advertise
	Keys      string                  `json:"keys"`      // --cluster-dir
	System    string                  `json:"system"`    // --cluster-system: the engine for a user of its system account
	Single    bool                    `json:"allowSingle"`
	Labels    map[string]string       `json:"labels"`
	Roots     map[string]cluster.Root `json:"roots"`
	BeatMs    int                     `json:"beatMs"`
	Miss      int                     `json:"miss"`
	Failover  string                  `json:"failover"` // continue, stop
	WaitMs    int                     `json:"waitMs"`   // --cluster-wait
	Export    string                  `json:"exportOnClose"`
	Cache     int64                   `json:"cacheBytes"`  // --cluster-cache
	GraceMs   *int                    `json:"toolGraceMs"` // --tool-grace; nil for the default
}

// clusterFile is where the options are that are not on the command line.
const clusterFile = "cluster.json"

// Bounds of what nodes agree about by hand: each node has to have the same.
const (
	minBeat = 50
	maxBeat = 10_000
	maxMiss = 40

	defaultGraceMs = 15_000
	minGraceMs     = 5_000
	maxGraceMs     = 600_000
)

// engineFlags are the flags that a node and the commands for administrators share.
func (o *clusterOptions) engineFlags() []flag {
	return []flag{
		{"--cluster", "URL", "The engine: nats://… or tls://…, with several servers separated by commas, or postgres://….", set(&o.Engine), "", "nats://e1:4222,e2:4222,e3:4222"},
		{"--cluster-dir", "DIR", "The directory with the keys of a node: ca.pem, node.pem and node.key.", set(&o.Keys), "", "/etc/troupe/cluster"},
		{"--cluster-system", "URL", "The engine, with a user of its system account, to read how the servers sync.", set(&o.System), "", "nats://sys:secret@e1:4222"},
	}
}

// sections returns the flags of a node.
func (o *clusterOptions) sections() []section {
	return []section{{"Cluster", append(o.engineFlags(), []flag{
		{"--node", "NAME", "The name of the node.", set(&o.Node), "the name in the certificate", "w1"},
		{"--advertise", "HOST:PORT", "The address at which other nodes reach this one.", set(&o.Advertise), "", "w1.lan:7718"},
		{"--cluster-listen", "ADDRESS", "The address to listen on for other nodes.", set(&o.Listen), "the port of --advertise, on all addresses", "10.0.0.1:7718"},
		{"--cluster-wait", "DURATION", "How long a command waits for a session that no node has.", milliseconds(&o.WaitMs), "10s", "30s"},
		{"--cluster-cache", "SIZE", "How much disk the copies of sessions may take.", value{set: func(v string) (err error) {
			o.Cache, err = parseSize(v)
			return err
		}}, "1G", "200M"},
		{"--tool-grace", "DURATION", "How long the first tool waits in a shared root after its node was lost; 0s disables this. The same on all nodes.", value{set: func(v string) error {
			o.GraceMs = new(int)
			return milliseconds(o.GraceMs).set(v)
		}}, "15s", "30s"},
		{"--cluster-allow-single", "", "Accept one server without replicas. Data is lost with its disk.", be(&o.Single, true), "", ""},
		{"--label", "NAME=VALUE", "A property that sessions may require. May be repeated.", value{set: o.label}, "", "gpu=yes"},
		{"--failover", "MODE", "What happens to the run of a lost node: continue or stop.", oneOf(&o.Failover, "continue", "stop"), "continue", ""},
		{"--export-on-close", "DIR", "Write a session as a file of pi into this directory each time it is closed.", set(&o.Export), "", "/srv/sessions"},
	}...)}}
}

func (o *clusterOptions) label(v string) error {
	name, text, ok := strings.Cut(v, "=")
	if !ok || name == "" {
		return wanted("NAME=VALUE")
	}
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[name] = text
	return nil
}

// milliseconds is a duration that is stored as a number.
func milliseconds(to *int) value {
	return value{set: func(v string) error {
		var d time.Duration
		err := duration(&d, 0).set(v)
		*to = int(d.Milliseconds())
		return err
	}}
}

// parseSize takes a number of bytes, or one with K, M or G behind it.
func parseSize(v string) (int64, error) {
	digits, unit := strings.TrimRight(v, "KMG"), int64(1)
	switch v[len(digits):] {
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	case "G":
		unit = 1 << 30
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit || unit == 1 && digits != v {
		return 0, wanted("a size, such as 1G or 200M")
	}
	return n * unit, nil
}

// isClusterRoot says whether the value of --root is a root of a cluster, NAME=…, and not a
// directory.
func isClusterRoot(v string) bool {
	name, _, ok := strings.Cut(v, "=")
	return ok && peer.ValidName(name)
}

// root takes NAME=PATH[,MODE], NAME=git+REMOTE[#BRANCH][,PATH] or NAME=none.
func (o *clusterOptions) root(v string) error {
	name, rest, _ := strings.Cut(v, "=")
	root := cluster.Root{Mode: cluster.Pinned}
	if remote, is := strings.CutPrefix(rest, "git+"); is {
		root.Mode = cluster.Git
		root.Remote, root.Path, _ = strings.Cut(remote, ",")
	} else if rest == string(cluster.None) {
		root.Mode = cluster.None
	} else {
		path, mode, given := strings.Cut(rest, ",")
		if root.Path = path; given {
			root.Mode = cluster.Mode(mode)
		}
	}
	if o.Roots == nil {
		o.Roots = map[string]cluster.Root{}
	}
	if _, twice := o.Roots[name]; twice {
		return fmt.Errorf("the root %s is given twice: choose another name", name)
	}
	o.Roots[name] = root
	return nil
}

// with is the flags on top of the file: what is not given is the file's, and each label and root
// counts for itself.
func (o clusterOptions) with(file clusterOptions) clusterOptions {
	file.Labels, file.Roots = maps.Clone(file.Labels), maps.Clone(file.Roots)
	to, flags := reflect.ValueOf(&file).Elem(), reflect.ValueOf(o)
	for i := range flags.NumField() {
		switch flag, field := flags.Field(i), to.Field(i); {
		case flag.IsZero():
		case flag.Kind() != reflect.Map || field.IsNil():
			field.Set(flag)
		default:
			for of := flag.MapRange(); of.Next(); {
				field.SetMapIndex(of.Key(), of.Value())
			}
		}
	}
	return file
}

// readClusterFile reads cluster.json. Who has none has the zero value. A file that is not
// understood is an error: a node must not be alone by mistake.
func readClusterFile(agentDir string) (o clusterOptions, err error) {
	path := filepath.Join(agentDir, clusterFile)
	text, err := os.ReadFile(path)
	text = bounded.WithoutMark(text)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if string(bytes.TrimSpace(text)) == "null" {
		return o, fmt.Errorf("%s: want an object", path)
	}
	if err := dec.Decode(&o); err != nil {
		return o, fmt.Errorf("%s: %w", path, err)
	}
	if dec.More() {
		return o, fmt.Errorf("%s: want one object, got more after it", path)
	}
	if err := eachOnce(text, reflect.TypeFor[clusterOptions]()); err != nil {
		return o, fmt.Errorf("%s: %w", path, err)
	}
	for name := range o.Roots {
		root := o.Roots[name]
		root.Mode = cmp.Or(root.Mode, cluster.Pinned)
		o.Roots[name] = root
	}
	return o, nil
}

// eachOnce says which member of an object is there twice, or is no field of a type but for its case: the decoder takes both.
func eachOnce(object []byte, of reflect.Type) (err error) {
	left := map[string]bool{}
	for _, f := range reflect.VisibleFields(of) {
		left[f.Tag.Get("json")] = true
	}
	gjson.ParseBytes(object).ForEach(func(key, _ gjson.Result) bool {
		if !left[key.Str] {
			err = fmt.Errorf("the key %q is unknown or given twice", key.Str)
		}
		delete(left, key.Str)
		return err == nil
	})
	return err
}

// check says what is wrong with the options, and completes them.
func (o *clusterOptions) check() error {
	if o.Engine == "" {
		if !reflect.DeepEqual(*o, clusterOptions{}) {
			return errors.New("options of a cluster need --cluster URL, or the key engine in cluster.json")
		}
		return nil
	}
	if kind := engineKind(o.Engine); kind == "" {
		return badValue("--cluster", withoutSecrets(o.Engine), wantEngine)
	}
	if err := o.checkSystem(); err != nil {
		return err
	}
	if o.Keys == "" {
		return errors.New("--cluster needs --cluster-dir, the directory with ca.pem, node.pem and node.key: troupe cluster init makes them")
	}
	o.Failover = cmp.Or(o.Failover, "continue")
	if o.Failover != "continue" && o.Failover != "stop" {
		return badValue("--failover", o.Failover, wanted("continue or stop"))
	}
	if o.BeatMs = cmp.Or(o.BeatMs, int(cluster.Stock.Every.Milliseconds())); o.BeatMs < minBeat || o.BeatMs > maxBeat {
		return badValue("beatMs", strconv.Itoa(o.BeatMs), wanted(fmt.Sprintf("%d to %d", minBeat, maxBeat)))
	}
	if o.Miss = cmp.Or(o.Miss, cluster.Stock.Miss); o.Miss < 2 || o.Miss > maxMiss {
		return badValue("miss", strconv.Itoa(o.Miss), wanted(fmt.Sprintf("2 to %d", maxMiss)))
	}
	if o.WaitMs < 0 {
		return badValue("waitMs", strconv.Itoa(o.WaitMs), wanted("0 or more"))
	}
	if o.GraceMs = cmp.Or(o.GraceMs, new(defaultGraceMs)); *o.GraceMs != 0 && (*o.GraceMs < minGraceMs || *o.GraceMs > maxGraceMs) {
		return badValue("--tool-grace", o.grace().String(), wanted(fmt.Sprintf("0 or %s to %s, the same on all nodes", minGraceMs*time.Millisecond, maxGraceMs*time.Millisecond)))
	}
	if o.Cache < 0 {
		return badValue("cacheBytes", strconv.FormatInt(o.Cache, 10), wanted("a number of bytes"))
	}
	if o.Export != "" {
		if err := checkDir(o.Export); err != nil {
			return badValue("--export-on-close", o.Export, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		if builtin := name == cluster.OSLabel || name == cluster.ArchLabel || strings.HasPrefix(name, cluster.RootLabel) || strings.HasPrefix(name, cluster.ProviderLabel); builtin {
			return fmt.Errorf("--label %s: each node sets this label itself; choose another name", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Roots)) {
		if !peer.ValidName(name) {
			return badValue("--root", name, wanted("a name of letters, digits, - and _"))
		}
		if err := checkRoot(o.Roots[name]); err != nil {
			return badValue("--root "+name, o.Roots[name].Path, err)
		}
	}
	return nil
}

// wantEngine says how the address of an engine is written.
const wantEngine = wanted("nats://HOST:PORT,… or postgres://…")

// checkSystem says what is wrong with the engine's other address.
func (o *clusterOptions) checkSystem() error {
	if o.System != "" && engineKind(o.System) != "nats" {
		return badValue("--cluster-system", withoutSecrets(o.System), wanted("nats://HOST:PORT,…"))
	}
	return nil
}

func checkRoot(root cluster.Root) error {
	switch root.Mode {
	case cluster.None:
		if root.Path != "" {
			return fmt.Errorf("a root of mode none has no files, and so no path: leave out %s", root.Path)
		}
		return nil
	case cluster.Git:
		if root.Remote == "" {
			return errors.New("the mode git needs the address of a repository: git+ADDRESS[#BRANCH][,PATH]")
		}
		if root.Path != "" && !filepath.IsAbs(root.Path) {
			return wanted("an absolute path")
		}
		return nil
	case cluster.Pinned, cluster.Shared:
	default:
		return badValue("mode", string(root.Mode), wanted("pinned, shared, git or none"))
	}
	return checkDir(root.Path)
}

func checkDir(path string) error {
	if !filepath.IsAbs(path) {
		return wanted("an absolute path")
	}
	if st, err := os.Stat(path); err != nil {
		return err
	} else if !st.IsDir() {
		return wanted("a directory")
	}
	return nil
}

// engineKind is which engine an address is of; "" for none.
func engineKind(list string) string {
	scheme, _, _ := strings.Cut(list, "://")
	switch scheme {
	case "nats", "tls":
		if !natsAddresses(scheme, list) {
			return ""
		}
		return "nats"
	case "postgres", "postgresql":
		return "postgres"
	}
	return ""
}

// natsAddresses says whether each of some addresses is one: those behind the first may have no scheme.
func natsAddresses(scheme, list string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = scheme + "://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return false
		}
	}
	return true
}

// withoutSecrets is an address as it may be shown.
func withoutSecrets(url string) string {
	var shown []string
	for one := range strings.SplitSeq(url, ",") {
		scheme, rest, ok := strings.Cut(one, "://")
		if !ok {
			scheme, rest = "", one
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = rest[at+1:]
		}
		if rest, _, _ = strings.Cut(rest, "?"); ok {
			rest = scheme + "://" + rest
		}
		shown = append(shown, rest)
	}
	return strings.Join(shown, ",")
}

// credsFile is the engine's credentials in the directory of a node's keys.
const credsFile = "engine.creds"

// open connects to the engine.
func (o *clusterOptions) open(ctx context.Context, keys *peer.Keys, looks bool, warn func(string)) (cluster.Engine, error) {
	if engineKind(o.Engine) == "postgres" {
		return postgres.Open(ctx, postgres.Config{URL: o.Engine, Single: o.Single, Looks: looks, Warn: warn})
	}
	cfg := o.nats(keys, warn)
	cfg.Looks = looks
	return jetstream.Open(ctx, cfg)
}

func (o *clusterOptions) nats(keys *peer.Keys, warn func(string)) jetstream.Config {
	cfg := jetstream.Config{URL: o.Engine, Single: o.Single, System: o.System, Warn: warn}
	if path := filepath.Join(o.Keys, credsFile); o.Keys != "" {
		if _, err := os.Stat(path); err == nil {
			cfg.Creds = path
		}
	}
	if keys != nil && strings.HasPrefix(o.Engine, "tls://") {
		cfg.TLS = keys.Engine()
	}
	return cfg
}

// badKeys is the error for --cluster-dir.
func badKeys(err error) error {
	return fmt.Errorf("--cluster-dir: %w; want the directory of a node, as troupe cluster init makes it", err)
}

// node is this daemon as one of a cluster.
type node struct {
	options *clusterOptions
	engine  cluster.Engine
	member  *cluster.Member
	side    *peer.Side
	peers   net.Listener
	log     zerolog.Logger
	metrics *cluster.Metrics
	begun   time.Time
	leased  atomic.Int64       // milliseconds behind begun when it last had a lease
	drain   chan struct{}      // is closed when somebody has asked for the end of this node
	once    sync.Once          // of drain
	stop    context.CancelFunc // of its beats
	over    <-chan struct{}    // is closed then
	guard   *tools.Guard
}

const (
	startTime = 30 * time.Second // how long a node waits for the engine at its start
	startTold = 2 * time.Second  // how long nobody is told
)

// join makes the daemon a node: its sessions are on the log of the cluster, clients reach those
// of other nodes.
func (o *clusterOptions) join(ctx context.Context, cfg *actors.Config, log zerolog.Logger) (*node, error) {
	keys, err := peer.Load(o.Keys)
	if err != nil {
		return nil, badKeys(err)
	}
	o.Node = cmp.Or(o.Node, keys.Node)
	if o.Node != keys.Node {
		return nil, fmt.Errorf("--node %s: the certificate in %s is that of %s", o.Node, o.Keys, keys.Node)
	}
	if err := o.listenWhere(); err != nil {
		return nil, err
	}
	n := &node{options: o, log: log, guard: cfg.Sessions.Guard, metrics: new(cluster.Metrics), begun: time.Now(), drain: make(chan struct{})}
	if n.peers, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("--cluster-listen: %w", err)
	}
	if o.Advertise == "" {
		if o.Advertise = n.peers.Addr().String(); n.peers.Addr().(*net.TCPAddr).IP.IsUnspecified() {
			return nil, errors.Join(fmt.Errorf("--cluster-listen %s needs --advertise HOST:PORT, where other nodes reach this one", o.Listen), n.peers.Close())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	waits := time.AfterFunc(startTold, func() {
		log.Warn().Str("engine", withoutSecrets(o.Engine)).Stringer("for", startTime).Msg("waiting for the engine of the cluster")
	})
	defer waits.Stop()
	n.engine, err = o.open(ctx, keys, false, func(why string) { log.Warn().Msg(why) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", withoutSecrets(o.Engine), err), n.peers.Close())
	}
	trees, roots, err := o.trees(cfg.Sessions.AgentDir)
	if err == nil {
		err = strangers(ctx, n.engine, keys.CA, time.Duration(o.BeatMs*(o.Miss+1))*time.Millisecond)
	}
	if err != nil {
		return nil, errors.Join(err, n.peers.Close(), n.engine.Close())
	}
	self := cluster.Node{
		Name: o.Node, Boot: rand.Text(), Addr: o.Advertise, Labels: o.ownLabels(cfg.Sessions), Roots: roots, Version: version, CA: keys.CA,
		Reads: [2]int{1, cluster.Format}, Writes: [2]int{1, cluster.Format},
	}
	engine := cluster.Measured(n.engine, n.metrics)
	n.member = cluster.Join(cluster.MemberConfig{
		Self: self, Log: engine, Registry: engine,
		Timing:  cluster.Timing{Every: time.Duration(o.BeatMs) * time.Millisecond, Miss: o.Miss},
		Metrics: n.metrics,
		Said: func(what string, values ...any) {
			log.Info().Fields(values).Msg(what)
		},
	})
	n.side = peer.NewSide(keys, version)
	cfg.Relay = &relay.Shared{Members: n.member, Dial: n.side, Wait: time.Duration(o.WaitMs) * time.Millisecond, Log: log, Roots: o.Roots, Metrics: n.metrics, Drain: n.askedToDrain, Stops: o.Failover == "stop"}
	cfg.Sessions.Cluster = &session.Cluster{
		Member: n.member, Engine: engine, Dir: filepath.Join(cfg.Sessions.AgentDir, relay.Copies), Stop: o.Failover == "stop", Export: o.Export, Cache: o.Cache, Trees: trees, Grace: o.grace(),
		Wants: func(cwd string) cluster.Wants {
			opens, _, err := cfg.Relay.Wants(protocol.OpenSession{Cwd: cwd}, cwd)
			if err != nil {
				return cluster.Wants{Node: o.Node}
			}
			return opens.Wants
		},
	}
	cfg.Relay.Held = cfg.Sessions.Cluster.Held
	log.Info().Str("node", o.Node).Str("engine", withoutSecrets(o.Engine)).Str("peers", o.Advertise).Msg("a node of a cluster")
	return n, nil
}

// strangers refuses an engine on which a node of another authority lives: neither could speak to the other, and sessions would be placed
// on both. Whether one lives whose last beat is stored shows within the time of some beats.
func strangers(ctx context.Context, engine cluster.Registry, ca []string, within time.Duration) error {
	ours := func(n cluster.Node) bool {
		return n.CA == nil || slices.ContainsFunc(n.CA, func(one string) bool { return slices.Contains(ca, one) })
	}
	others := slices.DeleteFunc(engine.Nodes(), ours)
	if len(others) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(within):
	}
	for _, was := range others {
		is, found, err := engine.Node(ctx, was.Name)
		switch {
		case err != nil:
			return err
		case found && !ours(is) && (is.Boot != was.Boot || is.Beat > was.Beat):
			return fmt.Errorf("node %s of this engine has keys of another authority: troupe cluster init was run twice; --cluster-dir has to come from the one that made those", is.Name)
		}
	}
	return nil
}

// trees is the roots of mode git, and completes where they are on this node, and those of mode none. What others are told of
// the roots has no addresses, in which there may be keys.
func (o *clusterOptions) trees(agentDir string) (trees session.Trees, told map[string]cluster.Root, err error) {
	trees, told = session.Trees{}, map[string]cluster.Root{}
	for name, root := range o.Roots {
		switch root.Mode {
		case cluster.None: // an empty directory: a session has to be somewhere
			root.Path = filepath.Join(agentDir, "troupe", "cluster", "none", name)
			err = errors.Join(err, os.MkdirAll(root.Path, 0o700))
			o.Roots[name] = root
		case cluster.Git:
			root.Path = cmp.Or(root.Path, filepath.Join(agentDir, "troupe", "cluster", "roots", name))
			trees.Add(name, root.Remote, root.Path)
			root.Remote = ""
			o.Roots[name] = root
		}
		told[name] = root
	}
	return trees, told, err
}

// listenWhere completes where other nodes are waited for.
func (o *clusterOptions) listenWhere() error {
	if o.Advertise != "" {
		host, port, err := net.SplitHostPort(o.Advertise)
		if err == nil && (host == "" || port == "0" || net.ParseIP(host).IsUnspecified()) {
			return badValue("--advertise", o.Advertise, wanted("HOST:PORT that other nodes can reach"))
		}
		if err != nil {
			return badValue("--advertise", o.Advertise, wanted("HOST:PORT"))
		}
		o.Listen = cmp.Or(o.Listen, ":"+port)
	}
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	return nil
}

// ownLabels are the labels that were given, and those that a node has of itself.
func (o *clusterOptions) ownLabels(shared *session.Shared) map[string]string {
	labels := map[string]string{cluster.OSLabel: runtime.GOOS, cluster.ArchLabel: runtime.GOARCH}
	maps.Copy(labels, o.Labels) // none of which is one of these: see check
	for name, root := range o.Roots {
		labels[cluster.RootLabel+name] = string(root.Mode)
	}
	if catalog, err := shared.Models.Catalog(); err == nil {
		for provider, has := range catalog.Keys {
			if has {
				labels[cluster.ProviderLabel+provider] = cluster.LabelYes
			}
		}
	}
	return labels
}

// run gives signs of life. When another process has begun under the same name this one has
// nothing left to say, and is told so.
func (n *node) run(disk interface{ TryDisk() bool }, fenced func()) {
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.over = ctx.Done()
	go n.feed(n.guard)
	go n.tryDisk(disk)
	go func() {
		if err := n.member.Run(ctx); err != nil {
			n.log.Error().Err(err).Msg("another process is this node now")
			fenced()
		}
	}()
}

// grace is how long the first tool of a session waits in a shared directory behind a lost node.
func (o *clusterOptions) grace() time.Duration { return time.Duration(*o.GraceMs) * time.Millisecond }

// endsBefore is how much earlier than others may begin tools in a shared directory those of this node are ended: it takes
// the guard a second and a half at most.
const endsBefore = 3 * time.Second

// feed has commands run on as long as nobody can have taken the node for dead, if it shares a directory with others. Where that
// cannot be said, since the node is cut off or stands still, they are ended.
func (n *node) feed(guard interface{ Feed(time.Duration) }) {
	grace := n.options.grace()
	shares := func(root cluster.Root) bool { return root.Mode == cluster.Shared }
	if grace == 0 || !slices.ContainsFunc(slices.Collect(maps.Values(n.options.Roots)), shares) {
		return
	}
	for tick := time.NewTicker(grace / 10); ; {
		if _, leased := n.member.Lease(); leased {
			guard.Feed(grace - endsBefore)
		}
		select {
		case <-tick.C:
		case <-n.over:
			tick.Stop()
			return
		}
	}
}

// tryDisk sees every few seconds whether the node can write.
func (n *node) tryDisk(disk interface{ TryDisk() bool }) {
	for tick := time.NewTicker(diskEvery); ; {
		disk.TryDisk()
		select {
		case <-tick.C:
		case <-n.over:
			tick.Stop()
			return
		}
	}
}

// diskEvery is how old what a node says of its disk may be.
const diskEvery = 5 * time.Second

// askedToDrain has the node give its sessions up and end.
func (n *node) askedToDrain() { n.once.Do(func() { close(n.drain) }) }

// readyAfter is how long a node may be without a lease before it says that it takes no clients.
const readyAfter = 10 * time.Second

// ready says whether the node has had a lease lately.
func (n *node) ready() bool {
	now := time.Since(n.begun)
	if _, ok := n.member.Lease(); ok {
		n.leased.Store(now.Milliseconds())
		return true
	}
	return now-time.Duration(n.leased.Load())*time.Millisecond < readyAfter
}

// measured writes what the node has counted, and how it is.
func (n *node) measured(w io.Writer) error {
	lease := 0.0
	if _, ok := n.member.Lease(); ok {
		lease = 1
	}
	gauges := map[string]float64{"troupe_cluster_lease": lease}
	for _, of := range n.member.Seen() {
		if of.Lives {
			gauges[fmt.Sprintf("troupe_cluster_node_sessions{node=%q}", of.Name)] = float64(of.Sessions)
		}
		if of.Name != n.member.Self() {
			gauges[fmt.Sprintf("troupe_cluster_beat_age_seconds{node=%q}", of.Name)] = time.Since(of.When).Seconds()
		}
	}
	for state, count := range n.member.States() {
		gauges[fmt.Sprintf("troupe_cluster_sessions{state=%q}", state)] = float64(count)
	}
	return n.metrics.Write(w, gauges)
}

// close ends what the node has in the cluster, once the daemon has ended.
func (n *node) close() {
	if n.stop != nil {
		n.stop()
	}
	_ = n.peers.Close()
	if _, leased := n.member.Lease(); leased { // the last that is heard of it: that it has no session any more, and is nowhere
		n.member.Says(func(n *cluster.Node) { n.Addr = "" })
		n.member.Drain()
	}
	if err := n.engine.Close(); err != nil {
		n.log.Warn().Err(err).Msg("leaving the engine")
	}
}
