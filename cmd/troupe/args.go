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

// unusedFlags is the heading of the flags that only pi's terminal interface needs.
const unusedFlags = "Accepted for compatibility with pi, without effect"

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
			{"--mode", "MODE", "rpc reads commands on stdin and writes responses and events to stdout. text and json run the prompts of the command line and print the last answer or every event.", oneOf(&o.mode, "rpc", "text", "json")},
			{"-p, --print", "", "Print the last answer and exit: --mode text, unless a mode is given.", be(&o.print, true)},
			{"--export", "FILE", "Write a session file as one HTML page. An argument names the page; by default it is in this directory.", set(&o.export)},
			{"--list-models", "", "List the models that have credentials; an argument filters the list.", be(&o.listModels, true)},
			{"-v, --version", "", "Print the version.", be(&o.version, true)},
			{"-h, --help", "", "Print this help.", be(&o.help, true)},
			{"--pprof", "DIR", "Write CPU and memory profiles to this directory on exit.", set(&o.pprof)},
			{"--verbose", "", "Log more to stderr.", be(&o.verbose, true)},
		}},
		{"Model", []flag{
			{"--provider", "NAME", "The provider of the model.", set(&o.provider)},
			{"--model", "PATTERN", "The model: an id, provider/id or part of a name. A suffix such as :high sets the thinking level.", set(&o.model)},
			{"--models", "LIST", "The models that cycle_model cycles through: patterns or globs, each with an optional thinking level.", list(&o.models)},
			{"--thinking", "LEVEL", "The thinking level: off, minimal, low, medium, high, xhigh or max; limited to the levels of the model.", set(&o.thinking)},
			{"--api-key", "KEY", "The API key for the provider of the chosen model, for this run only.", set(&o.apiKey)},
		}},
		{"Session", []flag{
			{"--session", "PATH|ID", "Open a session by the path of its file or by the first characters of its id. As with every flag that opens a stored session, --model, --thinking and --name replace the stored values.", set(&o.session)},
			{"-c, --continue", "", "Continue the newest session of the working directory.", be(&o.cont, true)},
			{"-r, --resume", "", "Choose a session of the working directory from a list; needs a terminal.", be(&o.resume, true)},
			{"--fork", "PATH|ID", "Start a new session with a copy of the current branch of another session.", set(&o.fork)},
			{"--session-id", "ID", "The id of the session: it is opened if it exists, otherwise created. If two processes create it at once, the second one fails.", set(&o.sessionID)},
			{"--session-dir", "DIR", "The directory of session files.", set(&o.sessionDir)},
			{"--no-session", "", "Keep the session in memory only.", be(&o.noSession, true)},
			{"-n, --name", "NAME", "The display name of the session.", set(&o.name)},
			{"--cwd", "DIR", "The working directory.", set(&o.cwd)},
			{"--agent-dir", "DIR", "The agent directory, shared with pi. Default: TROUPE_AGENT_DIR, then PI_CODING_AGENT_DIR, then ~/.pi/agent.", set(&o.agentDir)},
			{"--durability", "MODE", "process (default): acknowledged data survives a crash of troupe. sync: also a power failure, by fsync.", oneOf(&o.durability, "process", "sync")},
		}},
		{"Context and tools", []flag{
			{"--system-prompt", "TEXT|FILE", "Replace the built-in system prompt.", set(&o.systemPrompt)},
			{"--append-system-prompt", "TEXT|FILE", "Append to the system prompt. May be repeated.", more(&o.appendSystemPrompt)},
			{"-nbt, --no-builtin-tools", "", "Start without built-in tools; those of extensions and of --tools stay.", be(&o.noBuiltinTools, true)},
			{"-nc, --no-context-files", "", "Do not load AGENTS.md and CLAUDE.md.", be(&o.noContext, true)},
			{"-t, --tools", "LIST", "The active tools: read, bash, edit, write, grep, find, ls, and those of extensions. Names, patterns such as re*, or changes to the usual tools: +grep, -write.", func(v string) error {
				o.tools = append([]string{}, o.tools...) // an empty list is no tool at all
				return list(&o.tools)(v)
			}},
			{"-nt, --no-tools", "", "Start without tools, or only with those of --tools.", be(&o.noTools, true)},
			{"-xt, --exclude-tools", "LIST", "Leave out these tools.", list(&o.excludeTools)},
			{"--confirm", "LIST", "Ask the client to confirm each call of these tools, by extension_ui_request with the method confirm.", list(&o.confirm)},
			{"--permission-mode", "MODE", "What happens to tool calls that no rule of permissions.json covers. auto (default): all run. edits: reading, and editing in the working directory, run; the rest asks. ask: reading runs, the rest asks. readonly: reading runs, the rest is refused.", oneOf(&o.permission, "auto", "edits", "ask", "readonly")},
			{"--approval-timeout", "TIME", "How long an approval waits for an answer, such as 30s or 1h, before the call is refused. Default: no limit.", func(v string) (err error) {
				o.approvals, err = time.ParseDuration(v)
				if err == nil && o.approvals < time.Millisecond {
					err = errors.New("want a time above zero")
				}
				return err
			}},
			{"--unattended", "MODE", "What to do with an approval when no client can answer, in retained sessions: wait (default) or deny. Other sessions always deny.", oneOf(&o.unattended, "wait", "deny")},
			{"--sandbox", "MODE", "Where tools and the programs they start may write. off (default): everywhere. workspace: in the working directory and in directories for temporary files. readonly: nowhere. Linux only.", func(v string) (err error) {
				o.sandbox.Files, err = tools.ParseSandbox(v)
				return err
			}},
			{"--sandbox-network", "MODE", "off: programs that sessions start have no network. Default: on. Linux only.", func(v string) error {
				o.sandbox.NoNetwork = v == "off"
				return oneOf(new(string), "on", "off")(v)
			}},
			{"--budget", "LIST", "The limits of a session: cost=2.5,wall=30m,tokens=2M,input=…,output=…,tools=500,subagents=20. warn=0.7 sets the fraction at which clients are warned. none removes all limits.", o.limit},
			{"--skill", "PATH", "Load a skill file or directory. May be repeated.", more(&o.skills)},
			{"-ns, --no-skills", "", "Load only the skills of --skill.", be(&o.noSkills, true)},
			{"--prompt-template", "PATH", "Load a prompt template. May be repeated.", more(&o.prompts)},
			{"-np, --no-prompt-templates", "", "Load only the templates of --prompt-template.", be(&o.noPrompts, true)},
			{"-a, --approve", "", "Trust project configuration in this run: it may run programs, change endpoints and relax limits.", be(&o.consent, config.Approved)},
			{"-na, --no-approve", "", "Do not trust project configuration: load only AGENTS.md and CLAUDE.md of a project.", be(&o.consent, config.Refused)},
		}},
	}
}

func (o *options) ofDaemon() []section {
	return []section{
		{"Extensions", []flag{
			{"-e, --extension", "SOURCE", "Load an extension: a file, a directory, npm:NAME or git:HOST/PATH. May be repeated.", more(&o.extensions.Sources)},
			{"-ne, --no-extensions", "", "Load only the extensions of the command line.", be(&o.extensions.None, true)},
			{"--hook", "PATH", "Load a hook of pi 0.34 or older. May be repeated.", more(&o.extensions.Hooks)},
			{"--tool", "PATH", "Load a custom tool of pi 0.34 or older. May be repeated.", more(&o.extensions.Tools)},
			{"--extension-host", "NAME", "What runs extensions. auto (default): a built-in engine in a process of its own, or Node.js if an extension imports a module that only Node.js has. quick: never Node.js. node: always Node.js. inline: the engine inside the daemon. off: load none.", oneOf(&o.extensions.Host, "auto", "quick", "inline", "node", config.HostOff)},
			{"--extension-errors", "MODE", "What to do if an extension does not load: report (default), fatal or ignore.", oneOf(&o.extensionErrors, errorsReport, errorsFatal, errorsIgnore)},
		}},
		{"Protocol", []flag{
			{"--dialect", "NAME", strings.Join(dialectNames(), ", ") + ". Default: PI_RPC_DIALECT, then union.", oneOf(&o.dialect, dialectNames()...)},
			{"--features", "LIST", "Protocol features to enable; get_protocol_info lists them.", list(&o.features)},
			{"--seq", "", "Number the events: the feature seq.", func(string) error {
				o.features = append(o.features, string(protocol.FeatureSeq))
				return nil
			}},
			{"--multi-session", "", "No default session: each command names a session that open_session has returned.", be(&o.multiSession, true)},
			{"--max-sessions", "N", "The maximum number of open sessions.", number(&o.maxSessions, 1)},
			{"--park-after", "DURATION", "How long a session is idle before its memory is released; 0 disables this. Default: 10m.", duration(&o.parkAfter)},
			{"--max-line", "BYTES", "The maximum length of an input line.", number(&o.maxLine, 1024)},
			{"--eof", "MODE", "What to do with an active run at the end of input: drain (default) lets it finish, abort stops it.", oneOf(&o.eof, "drain", "abort")},
			{"--eof-limit", "DURATION", "The time limit for drain, such as 90s or 10m.", duration(&o.drainLimit)},
		}},
		{unusedFlags, []flag{
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
