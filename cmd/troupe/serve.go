package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
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

// Bounds of --ring, in bytes.
const (
	minRing = 64 << 10
	maxRing = 64 << 20
)

// scopes are the rights of a browser.
var scopes = []string{string(remote.ScopeFull), string(remote.ScopeView)}

// sections returns the flags of troupe serve, which fill s.
func (s *serveOptions) sections() []section {
	return append([]section{{"Server", []flag{
		{"--socket", "PATH", "The socket for programs of this user.", set(&s.socket), "$XDG_RUNTIME_DIR/troupe/troupe.sock, or troupe/run/troupe.sock in the agent directory", "/run/troupe.sock"},
		{"--ring", "BYTES", "How many bytes of events each session keeps for clients that reconnect.", number(&s.ring, minRing, maxRing), "262144", "1048576"},
		{"--drain", "DURATION", "How long runs may continue when the server stops.", duration(&s.drain, 0), "15s", "1m"},
		{"--on-attention", "COMMAND", "Run a command when a session needs you: an approval waits, or a run has ended.", set(&s.attention), "", "notify-me"},
	}}, {"Browsers and other machines", []flag{
		{"--listen", "ADDRESS", "Listen on TCP, too, and serve the page. Other machines need TLS or a proxy.", set(&s.listen), "not at all", "127.0.0.1:7717"},
		{"--token-file", "FILE", "The file of the token for programs.", set(&s.token.Path), "troupe/serve.token in the agent directory", "/etc/troupe/token"},
		{"--tls-cert", "FILE", "The certificate for https; needs --tls-key.", set(&s.cert), "", "cert.pem"},
		{"--tls-key", "FILE", "The private key of the certificate.", set(&s.key), "", "key.pem"},
		{"--behind-proxy", "", "A proxy in front of the server provides https.", be(&s.behindProxy, true), "", ""},
		{"--public-url", "URL", "The address that browsers use.", set(&s.publicURL), "", "https://troupe.example.com"},
		{"--allow-host", "HOST:PORT", "One more name of the server. May be repeated.", value{set: func(v string) error { s.hosts = append(s.hosts, strings.ToLower(v)); return nil }}, "", "build.lan:7717"},
		{"--allow-origin", "ORIGIN", "One more origin whose pages may connect. May be repeated.", value{set: func(v string) error { s.origins = append(s.origins, strings.TrimSuffix(v, "/")); return nil }}, "", "https://app.example.com"},
		{"--pair", "SCOPE", "The rights of the first browser: full or view.", oneOf(&s.pair, scopes...), "full", ""},
		{"--allow-login", "", "Allow signing in to providers over TCP.", be(&s.allowLogin, true), "", ""},
		{"--compress", "", "Compress WebSockets.", be(&s.compress, true), "", ""},
		{"--root", "DIR|NAME=PATH", "A directory in which clients over TCP may name files; in a cluster, a directory in which sessions may work: NAME=PATH[,pinned|shared], NAME=git+URL[#BRANCH][,PATH] or NAME=none. May be repeated.", value{set: s.addRoot}, "the home directory and the working directory", "/srv/projects"},
	}}}, s.cluster.sections()...)
}

func (s *serveOptions) addRoot(v string) error {
	if isClusterRoot(v) {
		return s.cluster.root(v)
	}
	dir, err := filepath.Abs(v)
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return wanted("a directory that exists, or NAME=PATH")
	}
	s.roots = append(s.roots, dir)
	return nil
}

func parseServe(args []string) (*serveOptions, error) {
	s := &serveOptions{drain: 15 * time.Second}
	var err error
	if s.rest, err = takeFlags(args, s.sections()); err != nil {
		return nil, err
	}
	if (s.cert == "") != (s.key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together: give both")
	}
	if s.listen == "" && (s.token.Path != "" || s.publicURL != "" || s.cert != "" || s.behindProxy || s.allowLogin || s.compress || s.pair != "" || len(s.hosts)+len(s.origins)+len(s.roots) > 0) {
		return nil, errors.New("flags for clients on TCP need --listen, such as --listen 127.0.0.1:7717")
	}
	if s.listen != "" {
		if _, _, err := net.SplitHostPort(s.listen); err != nil {
			return nil, badValue("--listen", s.listen, wanted("HOST:PORT"))
		}
	}
	s.pair = cmp.Or(s.pair, string(remote.ScopeFull))
	return s, nil
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

// parseServer reads the flags of troupe serve and those of a run without a verb.
func parseServer(args []string) (*serveOptions, *options, error) {
	s, err := parseServe(args)
	if err != nil {
		return nil, nil, err
	}
	o, err := parseArgs(s.rest)
	switch {
	case err != nil:
		return nil, nil, err
	case len(o.files) > 0:
		return nil, nil, unexpected("serve", "@"+o.files[0])
	case len(o.messages) > 0:
		if verbs := below("serve", commands()); closest(o.messages[0], verbs) != "" {
			return nil, nil, unknownVerb("serve", o.messages[0], verbs)
		}
		return nil, nil, unexpected("serve", o.messages[0])
	}
	return s, o, nil
}

// serveClients runs a daemon until a signal ends it.
func serveClients(args []string) int {
	s, o, err := parseServer(args)
	if err != nil {
		return exitCode(wrong("serve", err))
	}
	s.takePassed()
	o.mode, o.multiSession = "rpc", true
	o.permission = cmp.Or(o.permission, "ask")
	log := logger(o)
	if os.Getenv("TROUPE_LOG") == "" && !o.verbose {
		log = log.Level(zerolog.InfoLevel)
	}
	if code, ok := o.checkExtensions("serve", s.sections()); !ok {
		return code
	}
	if err := o.check(); err != nil {
		return exitCode(wrong("serve", err))
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
			return fmt.Errorf("--listen: %w", err)
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
	tuneGC()
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
		return errors.New("another process runs this node of the cluster now: two need two names")
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
			return badValue("--public-url", s.publicURL, wanted("https://HOST or http://HOST"))
		}
		host := hostOf(u.Scheme, strings.ToLower(u.Host))
		of.Hosts = append(of.Hosts, host)
		of.Origins = append(of.Origins, u.Scheme+"://"+host)
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return fmt.Errorf("--tls-cert, --tls-key: %w", err)
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
	"--mode", "--cwd", "--session", "--session-id", "--continue", "--no-session", "--name", "--provider", "--model", "--thinking", "--tools", "--no-tools",
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
	o.mode, o.creates = "rpc", true
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
	sections := new(options).sections()
	own := accepted(sections, perClient)
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "-") || name == "-" || flagNamed(name, own) != nil {
			continue
		}
		if flagNamed(name, sections) == nil {
			return nil, unknownOptionError(name, append(own, section{"", toFlag(new(string))}))
		}
		return nil, fmt.Errorf("%s is for the daemon: give it to troupe serve", name)
	}
	return o, nil
}

// health asks a daemon whether it lives and takes clients, and prints ok if so. It is for
// containers and supervisors, which look at the exit code.
func health(args []string) error {
	to, rest, err := destination(args)
	if err == nil {
		_, err = arguments("health", rest, nil)
	}
	if err != nil {
		return wrong("health", err)
	}
	c, err := dialDaemon(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := remote.Ping(c, healthTime); err != nil {
		return fmt.Errorf("the server does not answer, see its log: %w", err)
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
		return wrong("connect", err)
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

func toFlag(to *string) []flag {
	return []flag{{"--to", "SOCKET", "The socket of the server.", set(to), "that of troupe serve without --socket", "/run/troupe.sock"}}
}

// destination takes --to out of arguments.
func destination(args []string) (to string, rest []string, err error) {
	rest, err = takeFlags(args, []section{{"Options", toFlag(&to)}})
	return to, slices.DeleteFunc(rest, func(arg string) bool { return arg == "--" }), err
}

func devicesDir() string {
	return filepath.Join(store.AgentDir("", os.Getenv, homeDir()), "troupe")
}

func listDevices(args []string) error {
	if _, err := arguments("serve devices", args, nil); err != nil {
		return err
	}
	list, err := remote.ReadDevices(devicesDir())
	if err != nil {
		return err
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEVICE\tSCOPE\tLAST USED\tNAME")
	for _, d := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", shownName(d.ID), shownName(string(d.Scope)), d.Used.Local().Format(time.DateTime), shownName(d.Name))
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
	if err == nil {
		rest, err = arguments("serve pair", rest, nil)
	}
	if len(rest) > 0 && err == nil {
		if err = oneOf(&scope, scopes...).set(rest[0]); err != nil {
			err = badValue("serve pair", rest[0], err)
		}
	}
	if err != nil {
		return wrong("serve pair", err)
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
	words, err := arguments("serve revoke", args, nil)
	if err != nil {
		return err
	}
	found, err := remote.Revoke(devicesDir(), words[0])
	if err == nil && !found {
		err = fmt.Errorf("there is no device %q: troupe serve devices lists them", words[0])
	}
	return err
}
