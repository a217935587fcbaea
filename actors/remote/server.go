package remote

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/kernel"
	"troupe/store/web"
)

// Limits of what strangers may take.
const (
	maxConnections   = 1024
	maxStrangers     = 1024 // TCP connections that are no WebSocket: anybody may open one
	maxHeader        = 16 << 10
	handshakeTime    = 10 * time.Second
	goodbyeTime      = time.Second
	failuresAMinute  = 20 // of one address
	clientLag        = 1 << 20
	clientOutput     = 16 << 20
	writePatience    = 30 * time.Second // for a client that does not read
	rpcPatience      = 60 * time.Second
	maxBody          = 16 << 20
	heartbeatEvery   = 15 * time.Second
	checkTokensEvery = 500 * time.Millisecond // with withdrawTime less than a second
	withdrawTime     = 250 * time.Millisecond // for a WebSocket to say goodbye
)

// Config is what a server is told.
type Config struct {
	Daemon *actors.Daemon
	Log    zerolog.Logger // who comes and goes; never what is said

	// Configure makes the connection of a client of the socket. preface is nil for one
	// that speaks the protocol at once.
	Configure func(preface *Preface) (conn.Config, error)
	Network   conn.Config // of clients on TCP

	Tokens  *Tokens
	Hosts   []string // host:port by which the server may be called
	Origins []string // of pages that may connect, as browsers write them
	TLS     *tls.Config

	// Of a node of a cluster; nil for a daemon that is alone.
	Metrics func(w io.Writer) error // writes them as text for Prometheus
	Ready   func() bool             // it is in touch with the cluster

	AllowLogin bool // clients on TCP that may do everything may sign in to providers, too
	Compress   bool // WebSockets of clients that can be compressed are
}

// Server takes clients:
//
//	/healthz, /readyz      whether it lives, and takes clients
//	/, /ui/…               the page; it holds no data
//	POST /v1/login         a one-time code for a device's token
//	/v1/ws                 a connection: records as messages of a WebSocket
//	POST /v1/rpc           commands as lines, their answers as lines
//	/v1/events             what a session says, as server-sent events
//	/v1/image/…            a picture of a session's entry, by its ref
type Server struct {
	Config

	mu          sync.Mutex
	connections int
	strangers   map[net.Conn]bool
	peers       map[*peerClient]bool
	failures    map[string]int // logins and handshakes that failed in this minute, by address
	minute      time.Time
	draining    atomic.Bool

	http     *http.Server
	done     chan struct{}
	goodbyes sync.WaitGroup // that are being said
}

// New makes a server.
func New(cfg Config) *Server {
	s := &Server{Config: cfg, failures: map[string]int{}, strangers: map[net.Conn]bool{}, peers: map[*peerClient]bool{}, done: make(chan struct{})}
	s.http = &http.Server{
		Handler: s, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: handshakeTime, MaxHeaderBytes: maxHeader, IdleTimeout: 2 * time.Minute,
		ErrorLog: nil, TLSConfig: cfg.TLS, ConnState: s.count,
	}
	return s
}

// ServeLines takes clients of a socket of the file system.
func (s *Server) ServeLines(l net.Listener) { s.beside(func() { s.accept(l, s.takeLines) }) }

// count bounds the connections of TCP that may still be anybody's. One that became a
// WebSocket is counted by enter.
func (s *Server) count(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		if len(s.strangers) >= maxStrangers {
			_ = c.Close()
			return
		}
		s.strangers[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.strangers, c)
	}
}

// ServeTCP takes clients of TCP.
func (s *Server) ServeTCP(l net.Listener) {
	if s.TLS != nil {
		l = tls.NewListener(l, s.TLS)
	}
	s.beside(func() { _ = s.http.Serve(l) })
	s.beside(s.watchTokens)
	s.beside(web.Prepare)
}

// beside runs f on a goroutine. A panic costs what it was for: a client, a request.
func (s *Server) beside(f func()) { kernel.Beside(f, s.crashed) }

func (s *Server) crashed(reason any) { crashed(&s.Log, reason) }

func crashed(log *zerolog.Logger, reason any) {
	log.Error().Interface("panic", reason).Bytes("stack", debug.Stack()).Msg("client lost after an internal error")
}

func (s *Server) watchTokens() {
	tick := time.NewTicker(checkTokensEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Tokens.Withdraw()
		case <-s.done:
			return
		}
	}
}

// Drain says that the end has begun.
func (s *Server) Drain() { s.draining.Store(true) }

// Close lets go of the network, once the daemon has ended and with it all connections:
// clients have a moment to hear that.
func (s *Server) Close() {
	close(s.done)
	said := make(chan struct{})
	s.beside(func() {
		defer close(said)
		s.goodbyes.Wait()
	})
	select {
	case <-said:
	case <-time.After(goodbyeTime):
	}
	_ = s.http.Close()
}

// ServeHTTP looks at who is asked for and from where, before anything else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	within(w, handshakeTime, writePatience) // anybody may send half a body, or read no answer
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", web.Policy)
	h.Set("Cache-Control", "no-store")
	if !slices.Contains(s.Hosts, strings.ToLower(r.Host)) {
		s.refuse(w, r, http.StatusForbidden, "this is not a name of this server")
		return
	}
	if slices.ContainsFunc(r.Header.Values("Origin"), func(origin string) bool { return !slices.Contains(s.Origins, origin) }) {
		s.refuse(w, r, http.StatusForbidden, "pages of that origin may not ask this server")
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Origin") == "" {
		s.refuse(w, r, http.StatusForbidden, "other pages may not ask this server")
		return
	}
	if methods := methodsOf(r.URL.Path); !slices.Contains(methods, r.Method) {
		h.Set("Allow", strings.Join(methods, ", "))
		s.refuse(w, r, http.StatusMethodNotAllowed, "want "+strings.Join(methods, " or "))
		return
	}
	switch path := r.URL.Path; {
	case path == "/healthz":
		_, _ = io.WriteString(w, "ok\n")
	case path == "/readyz":
		s.ready(w)
	case path == "/v1/login":
		s.login(w, r)
	case path == "/v1/ws":
		s.authorised(w, r, s.websocket)
	case path == "/v1/rpc":
		s.authorised(w, r, s.returns(s.rpc))
	case path == "/v1/events":
		s.authorised(w, r, s.returns(s.events))
	case path == "/metrics" && s.Metrics != nil:
		s.authorised(w, r, s.returns(s.metrics))
	case strings.HasPrefix(path, imagePath):
		s.authorised(w, r, s.returns(s.image))
	default:
		s.asset(w, r)
	}
}

// methodsOf are those in which a path may be asked for.
func methodsOf(path string) []string {
	switch path {
	case "/v1/login", "/v1/rpc":
		return []string{http.MethodPost}
	case "/v1/ws", "/v1/events":
		return []string{http.MethodGet}
	}
	return []string{http.MethodGet, http.MethodHead}
}

// within bounds how long a request may take to come, and its answer to go; 0 is for ever.
func within(w http.ResponseWriter, read, write time.Duration) {
	until := func(d time.Duration) (at time.Time) {
		if d > 0 {
			at = time.Now().Add(d)
		}
		return at
	}
	limits := http.NewResponseController(w)
	_ = limits.SetReadDeadline(until(read))
	_ = limits.SetWriteDeadline(until(write))
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.Log.Warn().Str("peer", r.RemoteAddr).Str("path", r.URL.Path).Int("status", status).Msg(why)
	said := refusal{Code: refusalCodes[status], Type: "response", Error: why}
	if status == http.StatusTooManyRequests {
		wait := s.nextMinute()
		said.Data = map[string]int64{"retryAfterMs": wait.Milliseconds()}
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(said)
}

// refusalCodes are the codes of requests that are refused, for programs.
var refusalCodes = map[int]string{
	http.StatusBadRequest: "invalid_params", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "unsupported", http.StatusUpgradeRequired: "invalid_params", http.StatusRequestTimeout: "timeout", http.StatusRequestEntityTooLarge: "too_large",
	http.StatusUnsupportedMediaType: "unsupported", http.StatusTooManyRequests: "rate_limited",
	http.StatusInternalServerError: "internal", http.StatusServiceUnavailable: "overloaded", http.StatusGatewayTimeout: "timeout",
}

// nextMinute is how long failures are still counted with those before.
func (s *Server) nextMinute() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.minute.Add(time.Minute)), time.Second)
}

func (s *Server) ready(w http.ResponseWriter) {
	if s.draining.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	if s.Ready != nil && !s.Ready() {
		http.Error(w, "no lease", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// metrics are for who may do everything.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, by who) {
	if by.scope != ScopeFull {
		s.refuse(w, r, http.StatusForbidden, "this client may only watch")
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	if err := s.Metrics(w); err != nil {
		s.Log.Info().Err(err).Msg("metrics response was not read completely")
	}
}

// asset serves a file of the page.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	assets, err := web.Assets()
	if err != nil {
		s.refuse(w, r, http.StatusInternalServerError, "the page is not whole")
		return
	}
	a, is := assets[r.URL.Path]
	if !is {
		s.refuse(w, r, http.StatusNotFound, "there is nothing here")
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.Type)
	h.Set("Content-Security-Policy", a.Policy)
	h.Set("ETag", `"`+a.Tag+`"`)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if a.Forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == `"`+a.Tag+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := a.Body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.Gzipped()
	}
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}

// failed counts a failure of an address, and says whether those were too many.
func (s *Server) failed(r *http.Request, count bool) (tooMany bool) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.minute) > time.Minute {
		s.minute = now
		clear(s.failures)
	}
	if count {
		s.failures[address]++
	}
	return s.failures[address] > failuresAMinute
}

// login trades in a one-time code.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Code, Name string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&asked); err != nil {
		s.refuse(w, r, http.StatusBadRequest, "not a login")
		return
	}
	token, device, err := s.Tokens.Login(asked.Code, asked.Name)
	if errors.Is(err, errBadCode) { // a good code is let in, as a good token is: all who come through a proxy have one address
		if s.failed(r, true) {
			s.refuse(w, r, http.StatusTooManyRequests, "too many failures from that address")
			return
		}
		s.refuse(w, r, http.StatusUnauthorized, err.Error())
		return
	}
	if err != nil {
		s.Log.Error().Err(err).Msg("device could not be stored")
		s.refuse(w, r, http.StatusInternalServerError, "the device could not be stored")
		return
	}
	s.Log.Info().Str("peer", r.RemoteAddr).Str("device", device.ID).Str("name", device.Name).Str("scope", string(device.Scope)).Msg("signed in")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "scope": device.Scope, "expires": device.Used.Add(deviceLife)})
}

// who is behind a request.
type who struct {
	device string
	scope  Scope
}

// authorised lets a request through that has a credential, in its header, or for a
// browser's WebSocket, which has no others, as a subprotocol. An address has none: it
// would be logged.
// What it takes for that is given back with over, by next.
func (s *Server) authorised(w http.ResponseWriter, r *http.Request, next func(w http.ResponseWriter, r *http.Request, by who, over func())) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := strings.EqualFold(scheme, "Bearer")
	if !given && r.URL.Path == "/v1/ws" {
		token, given = offered(r)
	}
	device, scope, ok := s.Tokens.Check(token)
	if !given || !ok {
		if s.failed(r, given) { // who has a credential is let in: all who come through a proxy have one address
			s.refuse(w, r, http.StatusTooManyRequests, "too many failures from that address")
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.refuse(w, r, http.StatusUnauthorized, "unauthorized")
		return
	}
	if s.draining.Load() {
		s.refuse(w, r, http.StatusServiceUnavailable, "the daemon ends")
		return
	}
	if !s.enter() {
		s.refuse(w, r, http.StatusServiceUnavailable, "too many connections")
		return
	}
	peer, path := r.RemoteAddr, r.URL.Path
	s.Log.Info().Str("peer", peer).Str("device", device).Str("path", path).Msg("connected")
	next(w, r, who{device, scope}, func() {
		s.leave()
		s.Log.Info().Str("peer", peer).Str("device", device).Str("path", path).Msg("disconnected")
	})
}

// returns makes a handler of one that has finished when it returns. If the credential is withdrawn meanwhile the
// request ends: its context, its body on the way and its answer.
func (s *Server) returns(next func(http.ResponseWriter, *http.Request, who)) func(http.ResponseWriter, *http.Request, who, func()) {
	return func(w http.ResponseWriter, r *http.Request, by who, over func()) {
		defer over()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer s.Tokens.Watch(by.device, func() {
			cancel()
			past, limits := time.Unix(1, 0), http.NewResponseController(w)
			_ = limits.SetReadDeadline(past)
			_ = limits.SetWriteDeadline(past)
		})()
		next(w, r.WithContext(ctx), by)
	}
}

func (s *Server) visitor(name string, by who) visitor {
	return visitor{log: &s.Log, name: name, device: by.device}
}

// wants is the configuration of a WebSocket: with a default session, for clients that name
// none, if the address says which.
func (s *Server) wants(r *http.Request, by who) (conn.Config, error) {
	query := r.URL.Query()
	named := query.Get("session")
	if len(query) == 0 {
		return s.network(by), nil
	}
	args, is := map[string][]string{"new": nil, "continue": {"--continue"}}[named]
	switch {
	case len(query) > 1 || named == "" || strings.Trim(named, sessionID) != "":
		return conn.Config{}, errors.New("want session=new, session=continue or session=ID, and nothing else")
	case by.scope != ScopeFull:
		return conn.Config{}, errors.New("who may only look opens no session")
	case !is:
		args = []string{"--session", named}
	}
	own, err := s.Configure(&Preface{Cwd: s.Network.Default.Cwd, Args: args})
	if err != nil {
		return own, err
	}
	cfg := s.network(by)
	if cfg.Allowed != nil && !cfg.Allowed(own.Default.Cwd) {
		return own, errors.New("the directory of the daemon is below none of its --root directories")
	}
	cfg.Default, cfg.MultiSession = own.Default, false
	return cfg, nil
}

// sessionID is what the id of a session consists of; a path has more.
const sessionID = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// network is the configuration of a client's connection.
func (s *Server) network(by who) conn.Config {
	cfg := s.Network
	cfg.MultiSession, cfg.Retain, cfg.Lag, cfg.MaxOutput, cfg.Drain = true, true, clientLag, clientOutput, true
	cfg.ViewOnly, cfg.Device = by.scope != ScopeFull, by.device
	cfg.Logins = conn.LoginsNone
	if s.AllowLogin && by.scope == ScopeFull {
		cfg.Logins = conn.LoginsAfar
	}
	return cfg
}

// websocket serves a connection, and is not waited for: what the request has brought, and
// the stack that has handled it, is let go.
func (s *Server) websocket(w http.ResponseWriter, r *http.Request, by who, over func()) {
	protocols := []string{linesProtocol, recordProtocol}
	if unspoken(r, protocols) {
		defer over()
		s.refuse(w, r, http.StatusBadRequest, "the subprotocols are "+strings.Join(protocols, " and "))
		return
	}
	cfg, err := s.wants(r, by)
	if err != nil {
		defer over()
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	taken := &small{ResponseWriter: w}
	options := websocket.AcceptOptions{Subprotocols: protocols, InsecureSkipVerify: true} // Host and Origin were looked at, and more strictly
	if s.Compress {
		options.CompressionMode = websocket.CompressionNoContextTakeover // each message by itself: no memory of each client
	}
	ws, err := websocket.Accept(taken, r, &options)
	if err != nil {
		defer over()
		if taken.status != 0 {
			s.refuse(w, r, taken.status, strings.TrimSpace(string(taken.why)))
			return
		}
		s.Log.Warn().Err(err).Str("peer", r.RemoteAddr).Msg("WebSocket handshake failed")
		return
	}
	ws.SetReadLimit(int64(cfg.LongestLine()))
	client := &socketClient{
		visitor: s.visitor("WebSocket "+r.RemoteAddr, by), ws: ws, out: taken.out, single: !strings.EqualFold(ws.Subprotocol(), linesProtocol),
		packs: w.Header().Get("Sec-WebSocket-Extensions") != "",
	}
	done := s.Tokens.Watch(by.device, func() {
		s.beside(func() { _ = ws.Close(websocket.StatusPolicyViolation, "access was withdrawn") }) // it waits for the client's goodbye
		kernel.Later(withdrawTime, func() { _ = ws.CloseNow() }, client.crashed)                   // and may be answered by commands
	})
	client.bye = func(c *socketClient, of error) {
		s.goodbye(c, of)
		done()
		over()
	}
	cfg.Single = true
	client.beatLater()
	s.Daemon.Connect(cfg, client)
}

// goodbye ends a WebSocket and says why, without waiting for the client to answer, nor long
// for one that does not read.
func (s *Server) goodbye(c *socketClient, of error) {
	if of != nil {
		s.Log.Info().Err(of).Stringer("client", c).Msg("connection ended")
	}
	status, why := websocket.StatusNormalClosure, "bye"
	switch {
	case errors.Is(of, conn.ErrReplaced):
		status, why = statusReplaced, of.Error()
	case c.wrong.Load() == int64(websocket.StatusUnsupportedData):
		status, why = websocket.StatusUnsupportedData, "a command is a message of text"
	case c.wrong.Load() != 0:
		status, why = websocket.StatusProtocolError, "that is no WebSocket"
	case s.draining.Load():
		status, why = websocket.StatusGoingAway, "the daemon ends"
	}
	if errors.Is(of, conn.ErrUnread) { // nor would it read why
		s.beside(func() { _ = c.ws.CloseNow() })
		return
	}
	_ = c.out.SetWriteDeadline(time.Now().Add(goodbyeTime))
	s.goodbyes.Add(1)
	s.beside(func() {
		defer s.goodbyes.Done()
		_ = c.ws.Close(status, why)
	})
}
