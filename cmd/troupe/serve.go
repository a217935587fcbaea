package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	cmap "github.com/orcaman/concurrent-map"
	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/remote"
	"troupe/actors/session"
	"troupe/protocol"
	"troupe/protocol/pi"
	"troupe/store"
)

// serveOptions are the flags of "troupe serve" that --mode rpc does not have.
type serveOptions struct {
	socket, listen, publicURL, cert, key, pair string
	token                                      remote.TokenFile
	hosts, origins, roots                      []string
	ring                                       int
	behindProxy, allowLogin, compress          bool
	attention                                  string // what is run when a session wants somebody
	drain                                      time.Duration
	cluster                                    clusterOptions
	rest                                       []string // those that it has
}

const serveUsage = "usage: troupe serve [--socket PATH] [--listen ADDRESS [--token-file FILE] [--public-url URL] [--allow-host HOST:PORT] " +
	"[--allow-origin ORIGIN] [--tls-cert FILE --tls-key FILE] [--behind-proxy] [--pair full|view] [--allow-login] [--compress] [--root DIRECTORY]] [--on-attention COMMAND] [--ring BYTES] [--drain DURATION] " +
	"[--cluster URL --cluster-dir DIRECTORY [--node NAME] [--advertise HOST:PORT] [--cluster-listen ADDRESS] [--cluster-system URL] [--cluster-wait DURATION] [--cluster-cache SIZE] [--tool-grace DURATION] " +
	"[--cluster-allow-single] [--label NAME=VALUE] [--root NAME=PATH[,MODE]] [--failover continue|stop] [--export-on-close DIRECTORY]] " + optionsOfRPC

const (
	devicesUsage = "usage: troupe serve devices"
	pairUsage    = "usage: troupe serve pair [full|view] [--to SOCKET]"
	revokeUsage  = "usage: troupe serve revoke DEVICE"
	connectUsage = "usage: troupe connect [--to SOCKET] " + optionsOfRPC
	healthUsage  = "usage: troupe health [--to SOCKET]"
)

// remotely serves clients from outside, or is one of them.
func remotely(word string, args []string) int {
	var err error
	switch {
	case word == "connect":
		err = connect(args)
	case word == "health":
		err = health(args)
	case word == "cluster":
		err = administer(args)
	case len(args) > 0 && args[0] == "devices":
		err = listDevices(args[1:])
	case len(args) > 0 && args[0] == "pair":
		err = pairBrowser(args[1:])
	case len(args) > 0 && args[0] == "revoke":
		err = revokeDevice(args[1:])
	default:
		return serveClients(args)
	}
	return exitCode(err)
}

type usageError struct{ error }

// Bounds of --ring, in bytes.
const (
	minRing = 64 << 10
	maxRing = 64 << 20
)

func parseServe(args []string) (*serveOptions, error) {
	s := &serveOptions{drain: 15 * time.Second}
	values := map[string]func(string) error{
		"--socket": set(&s.socket), "--listen": set(&s.listen), "--token-file": set(&s.token.Path), "--public-url": set(&s.publicURL),
		"--tls-cert": set(&s.cert), "--tls-key": set(&s.key), "--on-attention": set(&s.attention),
		"--allow-host":   func(v string) error { s.hosts = append(s.hosts, strings.ToLower(v)); return nil },
		"--allow-origin": func(v string) error { s.origins = append(s.origins, strings.TrimSuffix(v, "/")); return nil },
		"--root": func(v string) (err error) {
			if isClusterRoot(v) {
				return s.cluster.root(v)
			}
			if v, err = filepath.Abs(v); err == nil {
				_, err = os.Stat(v)
			}
			s.roots = append(s.roots, v)
			return err
		},
		"--ring": func(v string) (err error) {
			if s.ring, err = strconv.Atoi(v); err != nil || s.ring < minRing || s.ring > maxRing {
				return fmt.Errorf("want bytes from %d to %d", minRing, maxRing)
			}
			return nil
		},
		"--pair":  func(v string) error { s.pair = v; return checkScope(v) },
		"--drain": func(v string) (err error) { s.drain, err = time.ParseDuration(v); return err },
	}
	maps.Copy(values, s.cluster.flags())
	switches := map[string]*bool{"--behind-proxy": &s.behindProxy, "--allow-login": &s.allowLogin, "--compress": &s.compress, "--cluster-allow-single": &s.cluster.Single}
	var err error
	if s.rest, err = takeFlags(args, values, switches); err != nil {
		return nil, err
	}
	if (s.cert == "") != (s.key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together")
	}
	if s.listen == "" && (s.token.Path != "" || s.publicURL != "" || s.cert != "" || s.behindProxy || s.allowLogin || s.compress || s.pair != "" || len(s.hosts)+len(s.origins)+len(s.roots) > 0) {
		return nil, errors.New("flags for clients on TCP need --listen")
	}
	if s.drain < 0 {
		return nil, errors.New("--drain: want a duration, such as 15s")
	}
	s.pair = cmp.Or(s.pair, string(remote.ScopeFull))
	return s, nil
}

// checkScope says whether there is such a scope of devices.
func checkScope(scope string) error {
	if scope != string(remote.ScopeFull) && scope != string(remote.ScopeView) {
		return errors.New("want full or view")
	}
	return nil
}

// socketPath is where a daemon of this user is reached.
func socketPath(given, agentDir string) string {
	if given != "" {
		return given
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "troupe", "troupe.sock")
	}
	return filepath.Join(agentDir, "troupe", "run", "troupe.sock")
}

// serveClients runs a daemon until a signal ends it.
func serveClients(args []string) int {
	s, err := parseServe(args)
	if err != nil {
		return refuse(err)
	}
	o, err := parseArgs(s.rest)
	if err == nil && len(o.messages)+len(o.files) > 0 {
		err = fmt.Errorf("unexpected argument; %s", serveUsage)
	}
	if err != nil {
		return refuse(err)
	}
	s.takePassed()
	o.mode, o.multiSession = "rpc", true
	o.permission = cmp.Or(o.permission, "ask")
	log := logger(o)
	if os.Getenv("TROUPE_LOG") == "" && !o.verbose {
		log = log.Level(zerolog.InfoLevel)
	}
	if code, ok := o.checkExtensions(); !ok {
		return code
	}
	if err := o.check(); err != nil {
		return refuse(err)
	}
	cfg, err := configure(o, log)
	for _, w := range o.warnings {
		log.Warn().Msg(w)
	}
	profiled := func() {}
	if err == nil {
		profiled, err = profile(o.pprof)
	}
	if err == nil {
		cfg.Sessions.AskTrust = true // somebody is there who can be asked
		err = s.run(cfg, log)
		profiled()
	}
	return exitCode(err)
}

// signalError is the signal that has ended the daemon.
type signalError syscall.Signal

func (e signalError) Error() string { return syscall.Signal(e).String() }

func (s *serveOptions) run(cfg *actors.Config, log zerolog.Logger) error {
	cmap.SHARD_COUNT = 1 // see serve
	tuneGC()
	path := socketPath(s.socket, cfg.Sessions.AgentDir)
	lines, unlock, err := remote.Listen(path)
	if err != nil {
		return err
	}
	defer unlock()
	defer func() { _ = lines.Close() }()
	var network net.Listener
	if s.listen != "" {
		if network, err = net.Listen("tcp", s.listen); err != nil {
			return err
		}
		defer func() { _ = network.Close() }()
	}
	of := remote.Config{Log: log, Network: cfg.Conn, AllowLogin: s.allowLogin, Compress: s.compress, Configure: func(p *remote.Preface) (conn.Config, error) { return clientConfig(cfg, p) }}
	if network != nil {
		if err := s.network(&of, network.Addr().(*net.TCPAddr), cfg.Sessions); err != nil {
			return err
		}
	}
	release, err := remote.LockState(cfg.Sessions.AgentDir)
	if err != nil {
		return err
	}
	defer release()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cfg.DrainLimit = s.drain
	cfg.Sessions.RingBytes = s.ring
	own, err := s.joinCluster(signals, cfg, &of, log)
	if err != nil {
		return err
	}
	var drain chan struct{}
	if own != nil {
		of.Metrics, of.Ready, drain = own.measured, own.ready, own.drain
	}
	of.Daemon = actors.Start(cfg)
	server := remote.New(of)
	fenced := make(chan struct{})
	if own != nil {
		defer own.close()
		own.run(cfg.Sessions, func() { close(fenced) })
		server.ServePeers(own.peers, own.side)
		cfg.Sessions.Cluster.OnDeath(server.LosePeer)
	}
	server.ServeLines(lines)
	if s.attention != "" {
		go attend(of.Daemon, log, tellBy(s.attention, cfg.Sessions, log))
	}
	fmt.Fprintln(stderr, "troupe: clients connect with: troupe connect --to", path)
	if network != nil {
		server.ServeTCP(network)
		fmt.Fprintln(stderr, "troupe: web page, valid for one browser and 10 minutes:", of.Tokens.Invite(remote.Scope(s.pair)))
	}
	var first os.Signal
	select {
	case first = <-signals:
	case <-drain:
		first = syscall.SIGTERM
	case <-fenced:
		of.Daemon.Stop(actors.Stop{Abort: true})
		of.Daemon.Wait()
		server.Close()
		return errors.New("another process is this node of the cluster now")
	}
	log.Info().Stringer("signal", first).Msg("stopping")
	if own != nil {
		own.member.Drain()
	}
	server.Drain()
	_ = lines.Close()
	finish(of.Daemon, signals, signalError(first.(syscall.Signal)))
	server.Close()
	return signalError(first.(syscall.Signal))
}

// finish waits for the end of the daemon; another signal aborts what it waits for, one more
// does not wait.
func finish(daemon *actors.Daemon, signals <-chan os.Signal, first signalError) {
	daemon.Stop(actors.Stop{})
	go func() {
		<-signals
		daemon.Stop(actors.Stop{Abort: true})
		<-signals
		exit(128 + int(first))
	}()
	daemon.Wait()
}

// untilSignal does what may take long at the start. A signal ends the process meanwhile: nothing has begun that
// would have to come to an end.
func untilSignal(signals <-chan os.Signal, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case by := <-signals:
		return signalError(by.(syscall.Signal))
	}
}

// joinCluster makes the daemon a node of a cluster, nil if it is to be alone.
func (s *serveOptions) joinCluster(signals <-chan os.Signal, cfg *actors.Config, of *remote.Config, log zerolog.Logger) (*node, error) {
	file, err := readClusterFile(cfg.Sessions.AgentDir)
	if err != nil {
		return nil, err
	}
	o := s.cluster.with(file)
	if err := o.check(); err != nil || o.Engine == "" {
		return nil, err
	}
	var own *node
	err = untilSignal(signals, func(ctx context.Context) (err error) {
		own, err = o.join(ctx, cfg, log)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, root := range o.Roots { // clients may name what is in them
		if below := remote.Below([]string{root.Path}); root.Path != "" && of.Network.Allowed != nil {
			others := of.Network.Allowed
			of.Network.Allowed = func(path string) bool { return others(path) || below(path) }
		}
	}
	return own, nil
}

// network says who may come over TCP, and by which names.
func (s *serveOptions) network(of *remote.Config, addr *net.TCPAddr, sessions *session.Shared) (err error) {
	if !addr.IP.IsLoopback() && s.cert == "" && !s.behindProxy {
		return fmt.Errorf("--listen %s can be reached by others: give --tls-cert and --tls-key, or --behind-proxy if a proxy does that", s.listen)
	}
	roots := s.roots
	if roots == nil {
		roots = []string{sessions.Home, sessions.Default.Cwd}
	}
	of.Network.Allowed = remote.Below(append(roots, store.Root(sessions.AgentDir), sessions.SessionDir))
	agentDir, port := sessions.AgentDir, fmt.Sprint(addr.Port)
	if of.Tokens, err = remote.OpenTokens(filepath.Join(agentDir, "troupe"), s.token); err != nil {
		return fmt.Errorf("--listen needs a credential: %w", err)
	}
	names := []string{"localhost", "127.0.0.1", "::1"}
	if !addr.IP.IsLoopback() && !addr.IP.IsUnspecified() {
		names = append(names, addr.IP.String())
	}
	scheme := "http"
	if s.cert != "" {
		scheme = "https"
	}
	of.Tokens.Page = s.page(scheme, addr)
	of.Hosts, of.Origins = slices.Clone(s.hosts), slices.Clone(s.origins)
	for _, name := range names {
		of.Hosts = append(of.Hosts, net.JoinHostPort(name, port), hostOf(scheme, net.JoinHostPort(name, port)))
	}
	for _, host := range of.Hosts {
		of.Origins = append(of.Origins, scheme+"://"+hostOf(scheme, host))
		if s.behindProxy { // which has its own scheme, and of which no more is known
			of.Origins = append(of.Origins, "https://"+hostOf("https", host))
		}
	}
	if s.publicURL != "" {
		u, err := url.Parse(s.publicURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return fmt.Errorf("--public-url %s: want https://HOST", s.publicURL)
		}
		host := hostOf(u.Scheme, strings.ToLower(u.Host))
		of.Hosts = append(of.Hosts, host)
		of.Origins = append(of.Origins, u.Scheme+"://"+host)
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return err
		}
		of.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	for _, origin := range s.origins {
		of.Log.Warn().Str("origin", origin).Msg("pages of this origin may connect, with a credential")
	}
	if addr.IP.IsUnspecified() {
		of.Log.Warn().Str("address", s.listen).Msg("everybody who can reach this machine can reach this port")
	}
	return nil
}

// takePassed takes what systemd has passed to this process, the token of
// LoadCredential=token:… among it unless another was given. Nothing of it is there for
// what is started here.
func (s *serveOptions) takePassed() {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && s.token.Path == "" {
		path := filepath.Join(dir, "token")
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) { // else it passes others
			s.token = remote.TokenFile{Path: path, Passed: true}
		}
	}
	for _, name := range []string{"CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
}

// hostOf is how a browser calls a host: without the port that everybody knows.
func hostOf(scheme, host string) string {
	return strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
}

// page is the address of the page, as people call it.
func (s *serveOptions) page(scheme string, addr *net.TCPAddr) string {
	switch {
	case s.publicURL != "":
		return s.publicURL
	case addr.IP.IsUnspecified():
		return fmt.Sprintf("%s://localhost:%d", scheme, addr.Port)
	}
	return scheme + "://" + addr.String()
}

// perClient are the options of --mode rpc that one client can have for itself; the
// others are the daemon's.
var perClient = []string{
	"--mode", "--cwd", "--session", "--session-id", "--continue", "-c", "--no-session", "--name", "-n", "--provider", "--model", "--thinking", "--tools", "-t", "--no-tools",
	"--system-prompt", "--append-system-prompt", "--dialect", "--features", "--multi-session", "--eof", "--permission-mode", "--verbose",
}

// clientConfig is the connection of a client of the socket: what the daemon was
// started with, and on top of it the flags that it has itself.
func clientConfig(cfg *actors.Config, p *remote.Preface) (conn.Config, error) {
	of := cfg.Conn
	of.MultiSession, of.Final = false, false
	of.Default = cfg.Sessions.Default.Fresh()
	if p == nil {
		of.MultiSession, of.Retain = true, true
		return of, nil
	}
	o, err := clientOptions(p.Args)
	if err != nil {
		return of, err
	}
	o.mode = "rpc"
	if err := o.check(); err != nil {
		return of, err
	}
	spec := &of.Default
	cwd := p.Cwd
	if o.cwd != "" { // relative to where the client was started
		if cwd = store.ExpandHome(o.cwd, cfg.Sessions.Home); !filepath.IsAbs(cwd) {
			cwd = filepath.Join(p.Cwd, cwd)
		}
	}
	if spec.Cwd, err = workingDir(cwd, cfg.Sessions.Home); err != nil {
		return of, err
	}
	spec.CwdSet, spec.Memory, spec.Name = o.cwd != "", o.noSession || spec.Memory, o.name
	spec.PermissionMode = o.permission
	if o.provider != "" || o.model != "" {
		spec.Provider, spec.Model = o.provider, o.model
	}
	if o.thinking != "" {
		spec.Level = protocol.ThinkingLevel(o.thinking)
	}
	if o.tools != nil || o.noTools {
		spec.Tools, spec.FreeTools = append([]string{}, o.tools...), false
	}
	if err := texts(o, spec.Cwd, spec); err != nil {
		return of, err
	}
	of.MultiSession, of.Drain = o.multiSession, o.eof == "drain"
	of.Dialect = protocol.Dialect(cmp.Or(o.dialect, string(of.Dialect)))
	of.Features = append(slices.Clone(of.Features), o.features...)
	of.Codec = pi.Codec{}
	return of, findSession(o, cfg.Sessions, of, spec, cfg.Log)
}

// clientOptions are the flags of one client.
func clientOptions(args []string) (*options, error) {
	o, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(name, "-") && name != "-" && !slices.Contains(perClient, name) {
			return nil, fmt.Errorf("%s is for the daemon: give it to troupe serve", name)
		}
	}
	return o, nil
}

// health asks a daemon whether it lives and takes clients, and prints ok if so. It is for
// containers and supervisors, which look at the exit code.
func health(args []string) error {
	to, rest, err := destination(args)
	if err != nil || len(rest) > 0 {
		return usageError{cmp.Or(err, errors.New(healthUsage))}
	}
	c, err := dialDaemon(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := remote.Ping(c, healthTime); err != nil {
		return fmt.Errorf("the daemon does not answer: %w", err)
	}
	show("ok\n")
	return nil
}

// healthTime is how long a daemon may take to answer.
const healthTime = 10 * time.Second

// connect is a client of a daemon: what comes on stdin goes there, what it says
// comes on stdout.
func connect(args []string) error {
	to, rest, err := destination(args)
	if err == nil {
		_, err = clientOptions(rest)
	}
	if err != nil {
		return usageError{err}
	}
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	c, err := dialDaemon(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return remote.Relay(c, remote.Preface{Cwd: cwd, Args: rest}, os.Stdin, os.Stdout)
}

// dialDaemon finds the daemon on a socket, "" for the usual one.
func dialDaemon(to string) (*net.UnixConn, error) {
	path := socketPath(to, store.AgentDir("", os.Getenv, homeDir()))
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("no daemon answers at %s: start one with troupe serve (%w)", path, err)
	}
	return c, nil
}

// destination takes --to out of arguments.
func destination(args []string) (to string, rest []string, err error) {
	rest, err = takeFlags(args, map[string]func(string) error{"--to": set(&to)}, nil)
	return to, slices.DeleteFunc(rest, func(arg string) bool { return arg == "--" }), err
}

func devicesDir() string {
	return filepath.Join(store.AgentDir("", os.Getenv, homeDir()), "troupe")
}

func listDevices(args []string) error {
	if len(args) > 0 {
		return usageError{errors.New(devicesUsage)}
	}
	list, err := remote.ReadDevices(devicesDir())
	if err != nil {
		return err
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEVICE\tSCOPE\tLAST USED\tNAME")
	for _, d := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.ID, d.Scope, d.Used.Local().Format(time.DateTime), shownName(d.Name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	show(text.String())
	return nil
}

// shownName is the name of a device for a terminal, which shows nothing of some characters and obeys others.
func shownName(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "‹U+%04X›", r)
		}
	}
	return b.String()
}

// pairBrowser prints the address at which the running daemon lets in one more browser.
func pairBrowser(args []string) error {
	scope := string(remote.ScopeFull)
	to, rest, err := destination(args)
	if len(rest) > 0 {
		scope = rest[0]
	}
	if err = cmp.Or(err, checkScope(scope)); err != nil || len(rest) > 1 {
		return usageError{errors.New(pairUsage)}
	}
	c, err := dialDaemon(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	address, err := remote.Pair(c, remote.Scope(scope), healthTime)
	if err != nil {
		return err
	}
	show(address + "\n")
	return nil
}

func revokeDevice(args []string) error {
	if len(args) != 1 {
		return usageError{errors.New(revokeUsage)}
	}
	found, err := remote.Revoke(devicesDir(), args[0])
	if err == nil && !found {
		err = fmt.Errorf("no device %s: see troupe serve devices", args[0])
	}
	return err
}
