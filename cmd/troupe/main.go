// Command troupe runs coding agents and speaks the pi RPC protocol on stdin and
// stdout. It is the wiring: flags and environment become a Config, the concrete
// providers are named here and nowhere else.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	cmap "github.com/orcaman/concurrent-map"
	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/session"
	"troupe/protocol"
	"troupe/protocol/pi"
	"troupe/providers"
	"troupe/providers/anthropic"
	"troupe/providers/auth"
	"troupe/providers/bedrock"
	"troupe/providers/catalog"
	"troupe/providers/cloud"
	"troupe/providers/discover"
	"troupe/providers/google"
	"troupe/providers/openai"
	"troupe/providers/registry"
	"troupe/providers/responses"
	"troupe/providers/scripted"
	"troupe/providers/wire"
	"troupe/store"
	"troupe/store/config"
	"troupe/tools"
)

// version is set by the linker for releases.
var version = "0.1.0-dev"

// Exit codes. A signal ends with 128 and its number.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	hideSecrets()
	code, done := asInit()
	if !done {
		code = run(os.Args[1:])
	}
	exit(code)
}

func exit(code int) {
	stderr.flush(flushTime)
	os.Exit(code)
}

func run(args []string) int {
	// A closed stdout is an error of the write, not a death. It is caught and not
	// ignored, since what we start would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if code, done := runCommand(args); done {
		return code
	}
	o, err := parseArgs(args)
	if err != nil {
		return refuse(err)
	}
	log := logger(o)
	if code, ok := o.checkExtensions("", nil); !ok {
		return code
	}
	if err := o.checkFirstWord(); err != nil {
		return refuse(err)
	}
	o.creates = o.mode != "" || asPi()
	switch {
	case o.version:
		return showVersion()
	case o.help:
		return show(usage())
	case o.export != "":
		return exportFile(o)
	case o.mode == "" && (o.print || o.words() > 0 || len(o.files) > 0 || piped(os.Stdin)):
		o.mode = "text"
	case o.mode == "" && !o.listModels:
		return refuse(errors.New("there is no terminal interface: give a message, or --mode rpc"))
	}
	if err := o.check(); err != nil {
		return refuse(err)
	}
	cfg, err := configure(o, log)
	for _, w := range o.warnings {
		log.Warn().Msg(w)
	}
	if err != nil {
		fmt.Fprintln(stderr, "troupe:", err)
		return exitError
	}
	done, err := profile(o.pprof)
	if err != nil {
		fmt.Fprintln(stderr, "troupe:", err)
		return exitError
	}
	defer done()
	switch {
	case o.listModels:
		return listModels(cfg, strings.Join(o.messages, " "))
	case o.mode == "rpc":
		return serve(cfg, stdio(), log, make(chan actors.Stop, maxStops))
	}
	return runOnce(o, cfg, log)
}

// refuse prints one line that names the mistake in the command line and the help that has the right form
// described. The exit code of pi is that of any other error.
func refuse(err error) int {
	program, hint, code := "troupe", " (try troupe --help)", exitUsage
	var wrong usageError
	switch {
	case errors.As(err, new(suggestion)):
		hint = ""
	case asPi():
		hint = " (try pi --help)"
	case errors.As(err, &wrong) && wrong.topic != "" && wrong.topic != "help":
		hint = " (try troupe help " + wrong.topic + ")"
	}
	if asPi() {
		program, code = "pi", exitError
	}
	fmt.Fprintf(stderr, "%s: %s%s\n", program, err, hint)
	return code
}

// logger writes to stderr: stdout belongs to the protocol.
func logger(o *options) zerolog.Logger {
	level := zerolog.WarnLevel
	if o.verbose {
		level = zerolog.DebugLevel
	}
	if word := os.Getenv("TROUPE_LOG"); word != "" {
		if l, err := zerolog.ParseLevel(word); err == nil {
			level = l
		} else {
			o.warnings = append(o.warnings, badValue("TROUPE_LOG", word, wanted("debug, info, warn or error")).Error()+"; ignored")
		}
	}
	if word := os.Getenv("TROUPE_LOG_FORMAT"); word != "" && !slices.Contains(logFormats, word) {
		o.warnings = append(o.warnings, badValue("TROUPE_LOG_FORMAT", word, wanted(either(logFormats))).Error()+"; ignored")
	}
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.MessageFieldName = "msg" // protoactor's dead letters carry a field named message
	return zerolog.New(stderr.logWriter(o.logFormat)).Level(level).With().Timestamp().Logger()
}

// homeDir is where HOME says, and without it where the system's users file says,
// as in Node: a daemon started with an empty environment must not leave its files
// in the working directory.
func homeDir() string {
	if home, err := os.UserHomeDir(); err == nil {
		return home
	}
	if u, err := user.Current(); err == nil {
		return u.HomeDir
	}
	return ""
}

// configure makes the Config: it fails for what the person asked for and cannot
// have, before anything is written to stdout.
func configure(o *options, log zerolog.Logger) (*actors.Config, error) {
	home := homeDir()
	cwd, err := workingDir(o.cwd, home)
	if err != nil {
		return nil, err
	}
	if err := o.sandbox.Check(); err != nil {
		return nil, err
	}
	agentDir := store.AgentDir(o.agentDir, os.Getenv, home)
	guard := tools.NewGuard()
	own := config.WatchOwn(agentDir)
	runs := kernel.New()
	host := o.newExtensionHost(guard, log, runs)
	o.warm(host)
	models := newRegistry(agentDir, home, cwd, own, guard, refusals(log), newLogins(agentDir, cwd, own, guard, log))
	dialect := cmp.Or(o.dialect, os.Getenv("PI_RPC_DIALECT"))
	if _, _, ok := protocol.Dialect(dialect).Open(); !ok {
		return nil, badValue("PI_RPC_DIALECT", dialect, wanted(either(dialectNames())))
	}
	features := o.features
	if o.mode != "rpc" { // nobody there reads what an older protocol does not have
		features = append(features, string(protocol.FeatureMaxLevel))
	}
	toolset := tools.New()
	active, err := activeTools(o, toolset)
	if err != nil {
		return nil, err
	}
	cfg := &actors.Config{
		Log: log, Epoch: epoch(), Dispatcher: runs,
		Conn: conn.Config{
			Codec:   pi.Codec{},
			Dialect: protocol.Dialect(dialect), Features: features, MultiSession: o.multiSession,
			MaxLine: o.maxLine, Drain: o.eof == "drain",
		},
		DrainLimit: o.drainLimit,
		Sessions: session.NewShared(session.Config{
			Version: version, MaxSessions: o.maxSessions, ParkAfter: o.parkAfter, GiveBack: giveBack,
			AgentDir: agentDir, SessionDir: o.sessionDir, Home: home, Consent: o.consent, Budget: o.budget, NoContext: o.noContext,
			Prompts: o.prompts, Skills: o.skills, NoPrompts: o.noPrompts, NoSkills: o.noSkills,
			ModelPatterns: o.models, Confirm: o.confirm, Durability: o.durability, Sandbox: o.sandbox, PermissionMode: o.permission, ApprovalTimeout: o.approvals, DenyUnattended: o.unattended == "deny",
			Extensions: o.extensionFlags(), ExtensionHost: host, ExtensionOptions: o.extensionOptions(), SimilarOption: similarOption,
			IgnoreExtensionErrors: o.extensionErrors == errorsIgnore, Argv: os.Args,
			Env: os.Getenv, Environ: os.Environ(), Tools: toolset, Files: new(tools.Files), Guard: guard, Models: models, Logins: models,
			Extend: func(list []providers.Registration) (session.Models, []error) { return models.With(list) },
			Default: link.OpenSpec{
				Cwd: cwd, CwdSet: o.cwd != "", Memory: o.noSession, Name: o.name, Provider: o.provider, Model: o.model,
				Level: protocol.ThinkingLevel(o.thinking), Tools: active, FreeTools: o.tools == nil && !o.noTools, WithoutTools: o.excludeTools,
			},
		}, log),
	}
	if err := texts(o, cwd, &cfg.Sessions.Default); err != nil {
		return nil, err
	}
	models.Discover(context.Background())
	if err := chooseModel(o, models); err != nil {
		return nil, err
	}
	_, rules, _ := protocol.Dialect(dialect).Open(features...)
	if err := session.CheckLimits(cfg.Sessions, rules, o.multiSession); err != nil {
		return nil, err
	}
	return cfg, chooseSession(o, cfg, log)
}

// refusals logs every request that a provider did not answer, with what it said:
// clients are shown a sentence of it, and nothing of what was repeated. pi writes
// nothing of it to stderr, and clients show their users what comes there, so it
// is for those who ask: --verbose, or TROUPE_LOG=info.
func refusals(log zerolog.Logger) func(*protocol.Model, protocol.StreamError, time.Duration) {
	return func(model *protocol.Model, err protocol.StreamError, again time.Duration) {
		line := log.Info().Str("provider", model.Provider).Str("model", model.ID).Str("kind", string(err.Kind))
		if err.Status != 0 {
			line = line.Int("status", err.Status)
		}
		if err.Body != "" {
			line = line.Str("body", err.Body)
		} else {
			line = line.Str("error", err.Message)
		}
		if again > 0 {
			line = line.Int64("againInMs", again.Milliseconds())
		}
		line.Msg("model request failed")
	}
}

// newRegistry joins the catalogue, the user's configuration and the wires.
func newRegistry(agentDir, home, cwd string, own func() config.Own, guard *tools.Guard, failed func(*protocol.Model, protocol.StreamError, time.Duration), logins *auth.Store) *registry.Registry {
	client := wire.NewClient(wire.ClientConfig{Failed: failed})
	return registry.New(registry.Config{
		AgentDir: agentDir, Builtin: catalog.FS,
		APIs: map[string]providers.Provider{
			anthropic.API:         anthropic.New(client),
			openai.CompletionsAPI: openai.New(client),
			openai.MistralAPI:     openai.New(client),
			responses.API:         responses.New(client),
			responses.AzureAPI:    responses.New(client),
			google.API:            google.New(client),
			google.VertexAPI:      google.New(client),
			bedrock.API:           bedrock.New(client),
			scripted.API:          scripted.New(scripted.Options{Script: os.Getenv("TROUPE_SCRIPT")}),
		},
		Clouds: cloud.All(home, func() string { return own().Auth.Proxy }),
		Logins: logins, Discover: discover.Find, Local: func() []string {
			if own().DiscoverLocal {
				return discover.Places(os.Getenv("OLLAMA_HOST"))
			}
			return nil
		},
		Offline: scripted.API,
		Command: keyCommand(cwd, guard),
	})
}

func workingDir(flag, home string) (string, error) {
	cwd, err := os.Getwd()
	if err != nil && flag == "" {
		return "", fmt.Errorf("working directory: %w", err)
	}
	if flag != "" {
		if cwd, err = filepath.Abs(store.ExpandHome(flag, home)); err != nil {
			return "", fmt.Errorf("--cwd %s: %w", flag, err)
		}
	}
	if st, err := os.Stat(cwd); err != nil || !st.IsDir() {
		return "", fmt.Errorf("working directory does not exist: %s; --cwd names another one", cwd)
	}
	return cwd, nil
}

func epoch() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

// maxStops is who may ask for the end: a signal, the parent's death, a single run.
const maxStops = 3

// stdio is the connection to the program that has started this process. From then on
// os.Stdin is empty: AWS's SDK passes it on to the program of credential_process, which
// would read commands of the client.
func stdio() conn.Transport {
	out := onScreen(os.Stdout)
	if out == os.Stdout {
		out = eager(os.Stdout)
	}
	in := os.Stdin
	if empty, err := os.Open(os.DevNull); err == nil {
		os.Stdin = empty
	}
	return conn.Stdio{In: in, Out: out}
}

// serve runs the daemon until its client says no more, or a signal or stop ends
// it.
func serve(cfg *actors.Config, client conn.Transport, log zerolog.Logger, stop chan actors.Stop) int {
	cmap.SHARD_COUNT = 1 // protoactor makes 1024 maps of so many shards each: 3 ms and 3 MB with the default
	tuneGC()
	signals, code := make(chan os.Signal, 4), make(chan int, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	over := make(chan struct{})
	go obey(signals, log, stop, code, over)
	go watchParent(func() {
		log.Info().Msg("parent is gone: stopping")
		stop <- actors.Stop{Abort: true}
	})
	err := actors.Run(cfg, client, stop)
	close(over)
	if err != nil {
		log.Error().Err(err).Msg("output was cut short")
	}
	select {
	case c := <-code:
		return c
	default:
	}
	if err != nil && !readerGone(err) {
		return exitError
	}
	return exitOK
}

// patience is how old a signal must be for another one to mean: at once. Those
// that come together, as SIGTERM and SIGHUP from some supervisors, mean one end.
const patience = time.Second

// obey ends the daemon in order at the first signal, and gives the exit code for
// it; a later one ends it at once, and so does one that comes when the daemon is
// over and only its answer is still being printed.
func obey(signals <-chan os.Signal, log zerolog.Logger, stop chan<- actors.Stop, code chan<- int, over <-chan struct{}) {
	first := <-signals
	since := time.Now()
	select {
	case <-over:
		exit(128 + int(first.(syscall.Signal)))
	default:
	}
	code <- 128 + int(first.(syscall.Signal))
	log.Info().Stringer("signal", first).Msg("stopping")
	stop <- actors.Stop{Abort: true}
	for next := range signals {
		if time.Since(since) >= patience {
			exit(128 + int(next.(syscall.Signal)))
		}
	}
}
