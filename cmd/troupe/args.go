package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/store/config"
	"troupe/tools"
)

// options is the command line.
type options struct {
	mode    string // rpc, text, json
	help    bool
	version bool
	verbose bool

	print, listModels bool
	export            string
	pprof             string

	provider, model, apiKey string
	models                  []string
	thinking                string

	session, sessionID, sessionDir, fork, name, cwd, agentDir string
	cont, resume, noSession                                   bool

	systemPrompt       string
	appendSystemPrompt []string
	tools              []string // nil is the default set
	excludeTools       []string
	noTools            bool
	noBuiltinTools     bool
	confirm            []string
	noContext          bool
	skills, prompts    []string
	noSkills           bool
	noPrompts          bool
	consent            config.Consent
	budget             []byte // limits, as settings; nil for none
	extensions         config.ExtensionFlags
	extensionErrors    string          // report, fatal, ignore
	unknown            []unknownOption // long options that an extension may have

	dialect      string
	features     []string
	multiSession bool
	eof          string
	drainLimit   time.Duration
	parkAfter    time.Duration
	durability   string
	maxLine      int
	maxSessions  int
	sandbox      tools.Sandbox
	permission   string
	approvals    time.Duration // how long one waits
	unattended   string        // what becomes of one where nobody is there

	warnings []string // flags that were taken and do nothing
	files    []string // @file arguments
	messages []string // other arguments
}

// flag is one row of the table that parsing and help are derived from.
type flag struct {
	names string // "--model", or "-p, --print"
	arg   string // what follows, "" for nothing
	doc   string
	set   func(v string) error
}

// section is a heading of the help text.
type section struct {
	title string
	flags []flag
}

func set(to *string) func(string) error { return func(v string) error { *to = v; return nil } }

// be is a flag without a value.
func be[T any](to *T, v T) func(string) error { return func(string) error { *to = v; return nil } }

func duration(to *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err == nil && d < 0 {
			err = errors.New("want a time that is not negative")
		}
		*to = d
		return err
	}
}

func list(to *[]string) func(string) error {
	return func(v string) error {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*to = append(*to, part)
			}
		}
		return nil
	}
}

func more(to *[]string) func(string) error {
	return func(v string) error { *to = append(*to, v); return nil }
}

func oneOf(to *string, values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("want %s", strings.Join(values, ", "))
		}
		*to = v
		return nil
	}
}

// number is a whole number from min on, within what others calculate with.
func number(to *int, min int) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || int(n) < min {
			return fmt.Errorf("want a number from %d to %d", min, math.MaxInt32)
		}
		*to = int(n)
		return nil
	}
}

// nothing takes a flag of pi that has no meaning without a screen.
func nothing(string) error { return nil }

func dialectNames() []string {
	var names []string
	for _, d := range protocol.Dialects() {
		names = append(names, string(d))
	}
	return names
}

// sections is the table for a command line that o becomes.
func (o *options) sections() []section { return append(o.ofAgents(), o.ofDaemon()...) }

func (o *options) ofAgents() []section {
	return []section{
		{"Mode", []flag{
			{"--mode", "MODE", "rpc: commands on stdin, answers and events on stdout. text, json: run the messages of the command line, print the last answer or every event.", oneOf(&o.mode, "rpc", "text", "json")},
			{"-p, --print", "", "Print the last answer and end: --mode text, unless a mode is given.", be(&o.print, true)},
			{"--export", "FILE", "Write a session file as HTML, to the name that follows or one in this directory.", set(&o.export)},
			{"--list-models", "", "Print the models there are credentials for; an argument filters them.", be(&o.listModels, true)},
			{"-v, --version", "", "Print the version.", be(&o.version, true)},
			{"-h, --help", "", "Print this text.", be(&o.help, true)},
			{"--pprof", "DIR", "Write profiles of CPU and memory there at the end.", set(&o.pprof)},
			{"--verbose", "", "Log more to stderr.", be(&o.verbose, true)},
		}},
		{"Model", []flag{
			{"--provider", "NAME", "The model's provider.", set(&o.provider)},
			{"--model", "PATTERN", "The model: id, provider/id or part of a name, with :thinking behind it if wanted.", set(&o.model)},
			{"--models", "LIST", "What cycle_model cycles through: patterns and globs, each with :thinking if wanted.", list(&o.models)},
			{"--thinking", "LEVEL", "off, minimal, low, medium, high, xhigh or max; clamped to the model.", set(&o.thinking)},
			{"--api-key", "KEY", "The key for the chosen model's provider, for this run.", set(&o.apiKey)},
		}},
		{"Session", []flag{
			{"--session", "PATH|ID", "Open a session file, or the one whose id begins so.", set(&o.session)},
			{"-c, --continue", "", "Open the newest session of the working directory.", be(&o.cont, true)},
			{"-r, --resume", "", "Choose a session of the working directory, at a terminal.", be(&o.resume, true)},
			{"--fork", "PATH|ID", "Begin a session with a copy of another one's branch.", set(&o.fork)},
			{"--session-id", "ID", "The id of the new session; opens it if it exists. Of two processes that begin it, the second is refused.", set(&o.sessionID)},
			{"--session-dir", "DIR", "Where session files are.", set(&o.sessionDir)},
			{"--no-session", "", "Keep the session in memory.", be(&o.noSession, true)},
			{"-n, --name", "NAME", "The session's display name.", set(&o.name)},
			{"--cwd", "DIR", "The working directory.", set(&o.cwd)},
			{"--agent-dir", "DIR", "pi's agent directory; default TROUPE_AGENT_DIR, PI_CODING_AGENT_DIR, ~/.pi/agent.", set(&o.agentDir)},
			{"--durability", "MODE", "process: what was acknowledged survives the process (default). sync: and the machine.", oneOf(&o.durability, "process", "sync")},
		}},
		{"Context and tools", []flag{
			{"--system-prompt", "TEXT|FILE", "Replace the built-in system prompt.", set(&o.systemPrompt)},
			{"--append-system-prompt", "TEXT|FILE", "Add to the system prompt. May be repeated.", more(&o.appendSystemPrompt)},
			{"-nbt, --no-builtin-tools", "", "No tools but those of extensions, and of --tools.", be(&o.noBuiltinTools, true)},
			{"-nc, --no-context-files", "", "Read no AGENTS.md or CLAUDE.md.", be(&o.noContext, true)},
			{"-t, --tools", "LIST", "The active tools: read, bash, edit, write, grep, find, ls, and what extensions have.", func(v string) error {
				o.tools = append([]string{}, o.tools...) // an empty list is no tool at all
				return list(&o.tools)(v)
			}},
			{"-nt, --no-tools", "", "No tools, or only those of --tools.", be(&o.noTools, true)},
			{"-xt, --exclude-tools", "LIST", "Without these tools.", list(&o.excludeTools)},
			{"--confirm", "LIST", "Ask the client before a call of these tools: extension_ui_request, method confirm.", list(&o.confirm)},
			{"--permission-mode", "MODE", "What happens to tool calls of which no rule of permissions.json says anything: auto, they run (default); edits, reading and editing in the working directory run, the rest asks; ask, reading runs, the rest asks; readonly, reading runs, the rest is refused.", oneOf(&o.permission, "auto", "edits", "ask", "readonly")},
			{"--approval-timeout", "TIME", "How long an approval waits for an answer, as 30s or 1h; then the call does not run. By default for ever.", func(v string) (err error) {
				o.approvals, err = time.ParseDuration(v)
				if err == nil && o.approvals < time.Millisecond {
					err = errors.New("want a time above zero")
				}
				return err
			}},
			{"--unattended", "MODE", "What becomes of a question where nobody is attached who can answer, in a session that goes on without clients: wait for somebody (default), or deny, which is no at once. In others it is no.", oneOf(&o.unattended, "wait", "deny")},
			{"--sandbox", "MODE", "Where programs that sessions start may write, and the tools that write: off, everywhere (default); workspace, in the working directory and directories for temporary files; readonly, nowhere. Linux.", func(v string) (err error) {
				o.sandbox.Files, err = tools.ParseSandbox(v)
				return err
			}},
			{"--sandbox-network", "MODE", "off: programs that sessions start have no network. on is the default. Linux.", func(v string) error {
				o.sandbox.NoNetwork = v == "off"
				return oneOf(new(string), "on", "off")(v)
			}},
			{"--budget", "LIST", "What a session may use up: cost=2.5,wall=30m,tokens=2M,input=…,output=…,tools=500,subagents=20, and warn=0.7, the part of it from which a client is warned; none is no limit.", o.limit},
			{"--skill", "PATH", "Load a skill file or directory. May be repeated.", more(&o.skills)},
			{"-ns, --no-skills", "", "Load no skills but those of --skill.", be(&o.noSkills, true)},
			{"--prompt-template", "PATH", "Load a prompt template. May be repeated.", more(&o.prompts)},
			{"-np, --no-prompt-templates", "", "Load no templates but those of --prompt-template.", be(&o.noPrompts, true)},
			{"-a, --approve", "", "Trust the projects of this run: what they bring may start programs, redirect, loosen and widen.", be(&o.consent, config.Approved)},
			{"-na, --no-approve", "", "Trust none, and load nothing of a project but AGENTS.md and CLAUDE.md.", be(&o.consent, config.Refused)},
		}},
	}
}

func (o *options) ofDaemon() []section {
	return []section{
		{"Extensions", []flag{
			{"-e, --extension", "SOURCE", "An extension: a file, a directory, npm:NAME or git:HOST/PATH. May be repeated.", more(&o.extensions.Sources)},
			{"-ne, --no-extensions", "", "No extensions but those of the command line.", be(&o.extensions.None, true)},
			{"--hook", "PATH", "A hook of pi up to 0.34. May be repeated.", more(&o.extensions.Hooks)},
			{"--tool", "PATH", "A custom tool of pi up to 0.34. May be repeated.", more(&o.extensions.Tools)},
			{"--extension-host", "NAME", "What runs them: auto (default), an engine in a process beside the daemon, or Node.js where one of them imports what only that has; quick, never Node.js; node, always; inline, the daemon itself; off, nothing.", oneOf(&o.extensions.Host, "auto", "quick", "inline", "node", config.HostOff)},
			{"--extension-errors", "MODE", "One that does not load is reported (default), is fatal, or is ignored.", oneOf(&o.extensionErrors, errorsReport, errorsFatal, errorsIgnore)},
		}},
		{"Protocol", []flag{
			{"--dialect", "NAME", strings.Join(dialectNames(), ", ") + "; default PI_RPC_DIALECT or union.", oneOf(&o.dialect, dialectNames()...)},
			{"--features", "LIST", "Features to switch on; see get_protocol_info.", list(&o.features)},
			{"--seq", "", "Number every record: the feature seq.", func(string) error {
				o.features = append(o.features, string(protocol.FeatureSeq))
				return nil
			}},
			{"--multi-session", "", "No default session: every command names one that open_session made.", be(&o.multiSession, true)},
			{"--max-sessions", "N", "How many sessions may be open at once.", number(&o.maxSessions, 1)},
			{"--park-after", "DURATION", "How long a session is idle before its memory is given back; 0 is never. Default 10m.", duration(&o.parkAfter)},
			{"--max-line", "BYTES", "The longest input line.", number(&o.maxLine, 1024)},
			{"--eof", "MODE", "At the end of input, drain: let the run finish (default), or abort it.", oneOf(&o.eof, "drain", "abort")},
			{"--eof-limit", "DURATION", "How long to drain, as 90s or 10m.", duration(&o.drainLimit)},
		}},
		{"Taken for pi's sake, without effect", []flag{
			{"--theme", "NAME", "", nothing},
			{"--no-themes", "", "", nothing},
			{"--offline", "", "", nothing},
			{"--no-lsp", "", "", nothing},
			{"--no-pty", "", "", nothing},
			{"--quiet", "", "", nothing},
		}},
	}
}

// parseArgs reads the command line. Its error is one line for stderr.
func parseArgs(args []string) (*options, error) {
	o := &options{eof: "drain", durability: "process", extensionErrors: errorsReport, parkAfter: session.DefaultParkAfter}
	byName := map[string]*flag{}
	for _, s := range o.sections() {
		for _, f := range s.flags {
			for name := range strings.SplitSeq(f.names, ", ") {
				byName[name] = &f
			}
		}
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			o.messages = append(o.messages, args[i+1:]...)
			return o, nil
		case strings.HasPrefix(arg, "@"):
			o.files = append(o.files, arg[1:])
			continue
		case !strings.HasPrefix(arg, "-") || arg == "-":
			o.messages = append(o.messages, arg)
			continue
		}
		name, value, inline := strings.Cut(arg, "=")
		f := byName[name]
		switch {
		case f == nil && !isLong(name):
			return nil, fmt.Errorf("unknown option %s", name)
		case f == nil: // one of an extension's, which says whether it has a value
			u := unknownOption{name: name, value: value, inline: inline}
			if i+1 < len(args) && !inline && isValue(args[i+1]) {
				i++
				u.value = args[i]
			}
			o.unknown = append(o.unknown, u)
			continue
		case f.arg == "" && inline:
			return nil, fmt.Errorf("%s takes no value", name)
		case f.arg != "" && !inline:
			if i++; i == len(args) {
				return nil, fmt.Errorf("%s needs a value", name)
			}
			value = args[i]
		}
		if err := f.set(value); err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, value, err)
		}
	}
	return o, nil
}

// takeFlags takes the flags of a subcommand out of its arguments: those with a value,
// behind them or after "=", and those without. rest is the others, in their order.
func takeFlags(args []string, values map[string]func(string) error, switches map[string]*bool) (rest []string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		take, on := values[name], switches[name]
		switch {
		case on != nil && !inline:
			*on = true
			continue
		case take == nil:
			rest = append(rest, args[i])
			continue
		case !inline:
			if i++; i == len(args) {
				return nil, fmt.Errorf("%s needs a value", name)
			}
			value = args[i]
		}
		if err := take(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return rest, nil
}

// check refuses combinations that cannot be meant.
func (o *options) check() error {
	if o.mode == "rpc" && len(o.files) > 0 {
		return fmt.Errorf("@file arguments are not supported in RPC mode: send the content with prompt")
	}
	if o.mode == "rpc" && len(o.messages) > 0 {
		return fmt.Errorf("unexpected argument %q: in RPC mode prompts come on stdin", o.messages[0])
	}
	if o.thinking != "" && !protocol.ThinkingLevel(o.thinking).Valid() {
		o.warnings = append(o.warnings, fmt.Sprintf("--thinking %q: want off, minimal, low, medium, high, xhigh or max: ignored", o.thinking))
		o.thinking = ""
	}
	for _, f := range o.features {
		if !slices.Contains(protocol.Features(), protocol.Feature(f)) {
			o.warnings = append(o.warnings, fmt.Sprintf("--features: there is no feature %q: ignored", f))
		}
	}
	sources := 0
	for _, given := range []bool{o.session != "", o.cont, o.sessionID != "", o.noSession, o.fork != "", o.resume} {
		if given {
			sources++
		}
	}
	if sources > 1 {
		return fmt.Errorf("--session, --continue, --resume, --fork, --session-id and --no-session exclude each other")
	}
	return nil
}

// usage is the help text.
func usage() string {
	var b strings.Builder
	b.WriteString("troupe runs coding agents and speaks the pi RPC protocol: one JSON object per line.\n\n" +
		"  troupe --mode rpc [options]\n  troupe serve [--listen ADDRESS] [options]\n  troupe serve pair [full|view] | devices | revoke DEVICE\n  troupe connect [--to SOCKET] [options]\n  troupe health [--to SOCKET]\n  troupe cluster VERB\n  troupe -p [options] [@file] [message]\n  troupe schema [--ts|--md]\n" +
		"  troupe login [PROVIDER] [--api-key] [--no-browser] [--timeout DURATION]\n  troupe logout PROVIDER\n  troupe auth check [PROVIDER] [--json] [--no-refresh]\n  troupe models discover [URL]\n\nEach of them prints its own options with --help.\n")
	for _, s := range new(options).sections() {
		fmt.Fprintf(&b, "\n%s\n", s.title)
		if s.title == "Taken for pi's sake, without effect" {
			var names []string
			for _, f := range s.flags {
				names = append(names, strings.TrimSpace(f.names+" "+f.arg))
			}
			fmt.Fprintf(&b, "  %s\n", strings.Join(names, ", "))
			continue
		}
		for _, f := range s.flags {
			fmt.Fprintf(&b, "  %-32s %s\n", strings.TrimSpace(f.names+" "+f.arg), f.doc)
		}
	}
	return b.String()
}
