package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/registry"
	"troupe/store"
	"troupe/store/config"
	"troupe/tools"
)

// Exit codes of login and auth check beside the usual ones.
const (
	exitCancelled = 3 // nobody signed in
	exitInvalid   = 2 // credentials are there and cannot be used
)

// credentialArgs is the command line of login, logout and auth check.
type credentialArgs struct {
	word, provider, model, agentDir string
	command                         string // that prints the key; "" for none
	noBrowser, key, device          bool
	asJSON, keep, asInPi            bool
	timeout                         time.Duration
}

// credentials carries out login, logout and auth check.
func credentials(word string, args []string) int {
	a, err := parseCredentials(word, args)
	if err != nil {
		return refuse(err)
	}
	home := homeDir()
	cwd, err := workingDir("", home)
	if err != nil {
		return exitCode(err)
	}
	log, guard := logger(&options{}), tools.NewGuard()
	defer guard.Close()
	agentDir := store.AgentDir(a.agentDir, os.Getenv, home)
	own := config.WatchOwn(agentDir)
	models := newRegistry(agentDir, home, cwd, own, guard, refusals(log), newLogins(agentDir, cwd, own, guard, log))
	defer models.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch a.word {
	case "login":
		return a.login(ctx, models, guard)
	case "logout":
		return a.logout(ctx, models)
	}
	return a.check(ctx, models)
}

// sections returns the flags of login, logout or auth check, which fill a.
func (a *credentialArgs) sections() []section {
	flags := []flag{{"--agent-dir", "DIR", "The agent directory, in which auth.json is.", set(&a.agentDir), "TROUPE_AGENT_DIR, then PI_CODING_AGENT_DIR, then ~/.pi/agent", "/srv/agent"}}
	switch a.word {
	case "auth":
		flags = append([]flag{
			{"--provider", "PROVIDER", "The provider; prints one word for scripts, as pi does.", set(&a.provider), "", "openai"},
			{"--model", "MODEL", "The provider of this model; prints one word for scripts, as pi does.", set(&a.model), "", "openai/gpt-5.5"},
			{"--json", "", "Print a line of JSON for each provider.", be(&a.asJSON, true), "", ""},
			{"--no-refresh", "", "Do not renew logins that have expired.", be(&a.keep, true), "", ""},
		}, flags...)
	case "login":
		flags = append([]flag{
			{"--api-key", "", "Store an API key, which is read from the terminal or from a pipe.", be(&a.key, true), "", ""},
			{"--store-command", "COMMAND", "Store a command that prints the key, instead of the key.", value{set: func(v string) error {
				if a.command = v; strings.TrimSpace(v) == "" {
					return wanted("a command that prints the key")
				}
				return nil
			}}, "", `"pass show openai"`},
			{"--device", "", "Sign in with a code that is typed on another device.", be(&a.device, true), "", ""},
			{"--no-browser", "", "Print the address instead of opening it.", be(&a.noBrowser, true), "", ""},
			{"--timeout", "DURATION", "How long to wait for the login.", duration(&a.timeout, 1), "5m", "90s"},
		}, flags...)
	}
	return []section{{"Options", flags}}
}

func parseCredentials(word string, args []string) (a credentialArgs, err error) {
	a.word = word
	name := word
	if word == "auth" {
		name = "auth check"
	}
	words, err := arguments(name, args, a.sections())
	if err != nil {
		return a, err
	}
	a.asInPi = a.provider != "" || a.model != ""
	switch {
	case len(words) > 0 && a.provider != "":
		err = unexpected(name, words[0])
	case len(words) > 0:
		a.provider = words[0]
	}
	switch {
	case err != nil:
	case a.command != "" && a.provider == "":
		err = missing(name, "PROVIDER with --store-command")
	case a.device && (a.command != "" || a.key), a.command != "" && a.key:
		err = errors.New("--api-key, --device and --store-command exclude each other: give one of them")
	}
	return a, wrong(name, err)
}

// login signs in, at a terminal or without one.
func (a credentialArgs) login(ctx context.Context, models *registry.Registry, guard *tools.Guard) int {
	t := &terminal{guard: guard, noBrowser: a.noBrowser, lines: make(chan string)}
	if a.provider == "" {
		var names []string
		for _, p := range models.Auth("").Providers {
			if len(p.Methods) > 1 {
				names = append(names, p.ID)
			}
		}
		var err error
		if a.provider, err = t.Choose(ctx, "Sign in to", names...); err != nil {
			fmt.Fprintln(stderr, "troupe: login cancelled: no provider was chosen; name one: troupe login PROVIDER")
			return exitCancelled
		}
	}
	how := protocol.Login{Provider: a.provider, TimeoutMs: int(a.timeout.Milliseconds())}
	switch {
	case a.key:
		how.Method = "api_key"
	case a.device:
		how.Method = "device"
	}
	var done protocol.LoginResult
	var failed *protocol.Error
	if a.command != "" {
		done.Provider, failed = a.provider, models.StoreCommand(ctx, a.provider, a.command, t)
	} else {
		done, failed = models.Login(ctx, how, t)
	}
	switch {
	case failed == nil:
		if a.command != "" {
			fmt.Fprintf(stderr, "troupe: the command is stored; `troupe auth check %s` does not run it, the first request does\n", a.provider)
			return exitOK
		}
		if done.Account != "" {
			done.Provider += " as " + done.Account
		}
		fmt.Fprintf(stderr, "troupe: signed in to %s\n", done.Provider)
		return exitOK
	case failed.Code == protocol.CodeLoginCancelled, failed.Code == protocol.CodeLoginTimeout:
		fmt.Fprintln(stderr, "troupe:", failed.Message)
		return exitCancelled
	case failed.Code == protocol.CodeInvalidParams, failed.Code == protocol.CodeLoginUnsupported:
		return a.refuseLogin(models, failed)
	}
	fmt.Fprintln(stderr, "troupe:", failed.Message)
	return exitError
}

// refuseLogin prints why there is no such login.
func (a credentialArgs) refuseLogin(models *registry.Registry, failed *protocol.Error) int {
	known := models.Auth("").Providers
	if !slices.ContainsFunc(known, func(p protocol.ProviderAuth) bool { return p.ID == a.provider }) {
		return exitCode(wrong("login", unknownProvider(a.provider, known)))
	}
	fmt.Fprintln(stderr, "troupe:", failed.Message)
	return exitUsage
}

// unknownProvider is the error for the name of a provider.
func unknownProvider(name string, known []protocol.ProviderAuth) error {
	var names []string
	for _, p := range known {
		names = append(names, p.ID)
	}
	if best := closest(name, names); best != "" {
		return suggestion{fmt.Errorf("unknown provider %q (did you mean %q?)", name, best)}
	}
	return suggestion{fmt.Errorf("unknown provider %q: troupe help keys lists those that troupe knows, models.json may add others", name)}
}

func (a credentialArgs) logout(ctx context.Context, models *registry.Registry) int {
	out, failed := models.Logout(ctx, a.provider, true)
	switch {
	case failed != nil:
		fmt.Fprintln(stderr, "troupe:", failed.Message)
		return exitError
	case !out.Removed:
		fmt.Fprintf(stderr, "troupe: auth.json has nothing for %s\n", a.provider)
	case out.Revoked:
		fmt.Fprintf(stderr, "troupe: signed out of %s, which has taken the login back\n", a.provider)
	default:
		fmt.Fprintf(stderr, "troupe: removed %s from auth.json\n", a.provider)
	}
	if out.Remaining != "" {
		fmt.Fprintf(stderr, "troupe: %s still gives it credentials\n", out.Remaining)
	}
	return exitOK
}

// check says how credentials stand, with pi's exit codes: 0 ready, 1 not ready, 2
// invalid. Of several providers one that is ready is enough.
func (a credentialArgs) check(ctx context.Context, models *registry.Registry) int {
	if a.model != "" {
		catalog, _ := models.Catalog()
		choice, err := providers.ResolveModel(catalog, a.provider, a.model)
		if err != nil {
			return refuse(err)
		}
		a.provider = choice.Model.Provider
	}
	if !a.keep {
		models.Renew(ctx, a.provider)
	}
	if _, err := models.Catalog(); err != nil { // what of the files is not used, and why
		fmt.Fprintln(stderr, "troupe:", err)
	}
	report := models.Auth(a.provider)
	if a.provider != "" && len(report.Providers) == 0 {
		if !a.asInPi {
			return exitCode(wrong("auth check", unknownProvider(a.provider, models.Auth("").Providers)))
		}
		report.Providers = []protocol.ProviderAuth{{ID: a.provider, Name: a.provider, State: protocol.AuthNone, Methods: []string{}, Reason: "provider_not_found"}}
	}
	code := exitError
	var text strings.Builder
	for _, p := range report.Providers {
		switch {
		case p.State == protocol.AuthInvalid && code != exitOK:
			code = exitInvalid
		case usable(p):
			code = exitOK
		}
		if p.State == protocol.AuthNone && a.provider == "" {
			continue
		}
		if a.asInPi { // a word for scripts
			fmt.Fprintln(&text, checked(p).Status)
			continue
		}
		fmt.Fprintf(&text, "%s: %s", p.ID, p.State)
		for _, more := range []string{p.Source, p.Variable, p.Account, p.Reason, p.Hint} {
			if more != "" {
				fmt.Fprintf(&text, ", %s", more)
			}
		}
		text.WriteByte('\n')
	}
	if a.asJSON {
		text.Reset()
		for _, p := range report.Providers {
			line, err := json.Marshal(checked(p))
			if err != nil {
				return exitError
			}
			text.Write(append(line, '\n'))
		}
	}
	if text.Len() == 0 && a.provider == "" {
		fmt.Fprintln(stderr, "troupe: no provider has credentials: sign in with troupe login, or set a key (docs/logins.md)")
	}
	if shown := show(text.String()); shown != exitOK {
		return shown
	}
	return code
}

// usable says whether a request would go with credentials. A login that is over, and could
// not be renewed this moment, has none.
func usable(p protocol.ProviderAuth) bool {
	return p.State == protocol.AuthReady || p.State == protocol.AuthExpiring || p.State == protocol.AuthExpired && p.Reason == ""
}

// checkLine is a line of auth check --json: the words of pi, and ours beside them.
type checkLine struct {
	Status   string `json:"status"` // ready, not_ready, invalid
	Provider string `json:"provider"`
	AuthType string `json:"authType,omitempty"` // oauth, api_key
	Why      string `json:"reason,omitempty"`   // invalid_state, credentials_not_configured, provider_not_found; ours: login_not_used, refresh_failed
	protocol.ProviderAuth
}

func checked(p protocol.ProviderAuth) checkLine {
	line := checkLine{Status: "not_ready", Provider: p.ID, Why: "credentials_not_configured", ProviderAuth: p}
	line.Hint = cmp.Or(p.Hint, p.Reason)
	switch {
	case p.Reason == "provider_not_found":
		line.Why, line.Hint = p.Reason, ""
	case p.State == protocol.AuthInvalid:
		line.Status, line.Why = "invalid", "invalid_state"
	case p.State == protocol.AuthExpired && p.Reason != "":
		line.Why = "refresh_failed"
	case p.State == protocol.AuthUnsupported:
		line.Why = "login_not_used"
	case usable(p):
		line.Status, line.Why, line.AuthType = "ready", "", "api_key"
		if p.Source == "stored_oauth" || p.Source == "broker" {
			line.AuthType = "oauth"
		}
	}
	return line
}

// terminal is who signs in at a terminal, or in a pipe: it implements
// [providers.Dialog]. Nothing secret is written to it.
type terminal struct {
	guard     *tools.Guard
	noBrowser bool
	opened    bool
	reading   bool
	lines     chan string // of stdin; closed at its end
}

// line is the next line that is typed or piped.
func (t *terminal) line(ctx context.Context) (string, error) {
	if !t.reading {
		t.reading = true
		go func() {
			defer close(t.lines)
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				t.lines <- in.Text()
			}
		}()
	}
	select {
	case line, more := <-t.lines:
		if !more {
			return "", providers.ErrLoginCancelled
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (t *terminal) Open(ctx context.Context, page providers.LoginPage) (string, error) {
	fmt.Fprintf(stderr, "\n%s:\n\n  %s\n\n", page.Text, page.URL)
	screen := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" || runtime.GOOS == "darwin"
	if !t.noBrowser && !t.opened && screen && isatty.IsTerminal(os.Stdin.Fd()) {
		t.opened = true
		t.browse(cmp.Or(page.Launch, page.URL))
	}
	if page.Code != "" {
		fmt.Fprintf(stderr, "Type this code there, within %v:\n\n  %s\n\n", page.Left.Round(time.Second), page.Code)
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	fmt.Fprint(stderr, "Without a browser on this machine, or if its last page cannot be shown: paste the address of that page here.\n")
	answer, err := t.line(ctx)
	if errors.Is(err, providers.ErrLoginCancelled) && !isatty.IsTerminal(os.Stdin.Fd()) { // nobody types, but a browser may come
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	return answer, err
}

// browse has the system open an address, if it can.
func (t *terminal) browse(address string) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	if !strings.HasPrefix(address, "https://") {
		return
	}
	p, err := tools.Spawn(tools.SpawnSpec{Procs: tools.NewProcs(t.guard), Command: program, Args: []string{address}, Dir: "/", Env: os.Environ()})
	if err == nil {
		p.Stdin.Close()
		p.Stdout.Close()
		p.Stderr.Close()
	}
}

func (t *terminal) Pastes() bool { return true }

func (t *terminal) Ask(ctx context.Context, question string) (string, error) {
	if isatty.IsTerminal(os.Stdin.Fd()) {
		restore, err := hideTyping(os.Stdin)
		if err != nil {
			return "", fmt.Errorf("what is typed here would be seen: give the key in a pipe (%w)", err)
		}
		defer fmt.Fprintln(stderr)
		defer restore()
	}
	fmt.Fprint(stderr, question, ": ")
	return t.line(ctx)
}

func (t *terminal) Choose(ctx context.Context, question string, options ...string) (string, error) {
	for {
		fmt.Fprintln(stderr, question)
		for i, o := range options {
			fmt.Fprintf(stderr, "  %d  %s\n", i+1, o)
		}
		answer, err := t.line(ctx)
		if err != nil {
			return "", err
		}
		if n, err := strconv.Atoi(strings.TrimSpace(answer)); err == nil && n >= 1 && n <= len(options) {
			return options[n-1], nil
		}
		for _, o := range options {
			if strings.EqualFold(strings.TrimSpace(answer), o) {
				return o, nil
			}
		}
	}
}

func (t *terminal) Tell(text string) { fmt.Fprintln(stderr, text) }
