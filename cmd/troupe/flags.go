package main

import (
	"math"
	"time"

	"troupe/protocol"
	"troupe/store/config"
	"troupe/tools"
)

// sections returns the flags of a run without a verb, which fill o.
func (o *options) sections() []section { return append(o.agentFlags(), o.daemonFlags()...) }

func (o *options) agentFlags() []section {
	return []section{{"Mode", o.modeFlags()}, {"Model", []flag{
		{"--provider", "NAME", "The provider of the model.", set(&o.provider), "", "anthropic"},
		{"--model", "PATTERN", "The model: an id, provider/id or part of a name. A suffix such as :high sets the thinking level.", set(&o.model), "the first model with credentials, unless settings.json names one", "openai/gpt-5.5:high"},
		{"--models", "LIST", "The models that cycle_model cycles through: patterns or globs, each with an optional thinking level.", list(&o.models), "", "claude-*,gpt-5.5:low"},
		{"--thinking", "LEVEL", "The thinking level: off, minimal, low, medium, high, xhigh or max; limited to the levels of the model.", value{set: set(&o.thinking).set, choices: thinkingLevels}, "", ""},
		{"--api-key", "KEY", "The API key for the provider of the chosen model, for this run only. Other users of the machine may see it in the list of processes; a variable is safer.", set(&o.apiKey), "", "sk-your-key"},
	}}, {"Session", o.sessionFlags()}, {"Context and tools", append(o.contextFlags(), o.permissionFlags()...)}}
}

// thinkingLevels are the values of --thinking.
var thinkingLevels = []string{"off", "minimal", "low", "medium", "high", "xhigh", "max"}

func (o *options) modeFlags() []flag {
	return []flag{
		{"--mode", "MODE", "rpc reads commands on stdin and writes responses and events to stdout. text and json run the prompts of the command line and print the last answer or every event.", oneOf(&o.mode, "rpc", "text", "json"), "text, if there is a prompt", ""},
		{"-p, --print", "", "Print the last answer and exit: --mode text, unless a mode is given.", be(&o.print, true), "", ""},
		{"--export", "FILE", "Write a session file as one HTML page. An argument names the page; by default it is in this directory.", set(&o.export), "", "session.jsonl page.html"},
		{"--list-models", "", "List the models that have credentials; an argument filters the list.", be(&o.listModels, true), "", "haiku"},
		{"-v, --version", "", "Print the version.", be(&o.version, true), "", ""},
		{"-h, --help", "", "Print this help.", be(&o.help, true), "", ""},
		{"--pprof", "DIR", "Write CPU and memory profiles to this directory on exit.", set(&o.pprof), "", "/tmp/profiles"},
		{"--verbose", "", "Log more to stderr.", be(&o.verbose, true), "", ""},
		{"--log-format", "FORMAT", "The form of log lines on stderr: text, json, or auto, which is text on a terminal and json elsewhere.", oneOf(&o.logFormat, logFormats...), "TROUPE_LOG_FORMAT, then auto", ""},
	}
}

func (o *options) sessionFlags() []flag {
	return []flag{
		{"--session", "PATH|ID", "Open a session by the path of its file or by the first characters of its id. As with every flag that opens a stored session, --model, --thinking and --name replace the stored values.", set(&o.session), "a new session", "~/work/session.jsonl"},
		{"-c, --continue", "", "Continue the newest session of the working directory.", be(&o.cont, true), "", ""},
		{"-r, --resume", "", "Choose a session of the working directory from a list; needs a terminal.", be(&o.resume, true), "", ""},
		{"--fork", "PATH|ID", "Start a new session with a copy of the current branch of another session.", set(&o.fork), "", "0199a1b2"},
		{"--session-id", "ID", "The id of the session: it is opened if it exists, otherwise created. If two processes create it at once, the second one fails.", set(&o.sessionID), "", "review-42"},
		{"--session-dir", "DIR", "The directory of session files.", set(&o.sessionDir), "a directory of the project in sessions/ of the agent directory", "/var/lib/sessions"},
		{"--no-session", "", "Keep the session in memory only.", be(&o.noSession, true), "", ""},
		{"-n, --name", "NAME", "The display name of the session.", set(&o.name), "", "review"},
		{"--cwd", "DIR", "The working directory.", set(&o.cwd), "the current directory", "~/project"},
		{"--agent-dir", "DIR", "The agent directory, shared with pi.", set(&o.agentDir), "TROUPE_AGENT_DIR, then PI_CODING_AGENT_DIR, then ~/.pi/agent", "/srv/agent"},
		{"--durability", "MODE", "process: acknowledged data survives a crash of troupe. sync: also a power failure, by fsync.", oneOf(&o.durability, "process", "sync"), "process", ""},
	}
}

func (o *options) contextFlags() []flag {
	return []flag{
		{"--system-prompt", "TEXT|FILE", "Replace the built-in system prompt.", set(&o.systemPrompt), "", "prompt.md"},
		{"--append-system-prompt", "TEXT|FILE", "Append to the system prompt. May be repeated.", more(&o.appendSystemPrompt), "", `"Answer in French."`},
		{"-nc, --no-context-files", "", "Do not load AGENTS.md and CLAUDE.md.", be(&o.noContext, true), "", ""},
		{"-t, --tools", "LIST", "The active tools: read, bash, edit, write, grep, find, ls, and those of extensions. Names, patterns such as re*, or changes to the usual tools: +grep, -write.", value{set: func(v string) error {
			o.tools = append([]string{}, o.tools...) // an empty list is no tool at all
			return list(&o.tools).set(v)
		}}, "read, bash, edit and write, and the tools of extensions", "read,grep,find,ls"},
		{"-nt, --no-tools", "", "Start without tools, or only with those of --tools.", be(&o.noTools, true), "", ""},
		{"-nbt, --no-builtin-tools", "", "Start without built-in tools; those of extensions and of --tools stay.", be(&o.noBuiltinTools, true), "", ""},
		{"-xt, --exclude-tools", "LIST", "Leave out these tools.", list(&o.excludeTools), "", "bash,write"},
		{"--skill", "PATH", "Load a skill file or directory. May be repeated.", more(&o.skills), "", "skills/review"},
		{"-ns, --no-skills", "", "Load only the skills of --skill.", be(&o.noSkills, true), "", ""},
		{"--prompt-template", "PATH", "Load a prompt template. May be repeated.", more(&o.prompts), "", "prompts/review.md"},
		{"-np, --no-prompt-templates", "", "Load only the templates of --prompt-template.", be(&o.noPrompts, true), "", ""},
		{"-a, --approve", "", "Trust project configuration in this run: it may run programs, change endpoints and relax limits.", be(&o.consent, config.Approved), "", ""},
		{"-na, --no-approve", "", "Do not trust project configuration: load only AGENTS.md and CLAUDE.md of a project.", be(&o.consent, config.Refused), "", ""},
	}
}

func (o *options) permissionFlags() []flag {
	return []flag{
		{"--confirm", "LIST", "Ask the client to confirm each call of these tools, by extension_ui_request with the method confirm.", list(&o.confirm), "", "bash,write"},
		{"--permission-mode", "MODE", "What happens to tool calls that no rule of permissions.json covers. auto: all run. edits: reading, and editing in the working directory, run; the rest asks. ask: reading runs, the rest asks. readonly: reading runs, the rest is refused.", oneOf(&o.permission, "auto", "edits", "ask", "readonly"), "auto; ask for troupe serve", ""},
		{"--approval-timeout", "DURATION", "How long an approval waits for an answer before the call is refused.", duration(&o.approvals, time.Millisecond), "no limit", "30s"},
		{"--unattended", "MODE", "What to do with an approval when no client can answer, in retained sessions: wait or deny. Other sessions always deny.", oneOf(&o.unattended, "wait", "deny"), "wait", ""},
		{"--sandbox", "MODE", "Where tools and the programs they start may write. off: everywhere. workspace: in the working directory and in directories for temporary files. readonly: nowhere. Linux only.", value{choices: sandboxModes, set: func(v string) (err error) {
			if o.sandbox.Files, err = tools.ParseSandbox(v); err != nil {
				return wanted(either(sandboxModes))
			}
			return nil
		}}, "off", ""},
		{"--sandbox-network", "MODE", "on: programs that sessions start may use the network. off: they have none. Linux only.", value{choices: onOff, set: func(v string) error {
			o.sandbox.NoNetwork = v == "off"
			return oneOf(new(string), onOff...).set(v)
		}}, "on", ""},
		{"--budget", "LIST", "The limits of a session: cost in US dollars, wall as a duration, tokens, input, output, tools and subagents as numbers. warn sets the fraction at which clients are warned. The value none removes a limit.", value{set: o.limit}, "no limits, unless settings.json has some", "cost=2.5,wall=30m,tokens=2M,tools=500,warn=0.7"},
	}
}

// Values of flags that have a parser of their own.
var (
	sandboxModes = []string{"off", "workspace", "readonly"}
	onOff        = []string{"on", "off"}
)

func (o *options) daemonFlags() []section {
	return []section{
		{"Extensions", []flag{
			{"-e, --extension", "SOURCE", "Load an extension: a file, a directory, npm:NAME or git:HOST/PATH. May be repeated.", more(&o.extensions.Sources), "", "./extension.ts"},
			{"-ne, --no-extensions", "", "Load only the extensions of the command line.", be(&o.extensions.None, true), "", ""},
			{"--hook", "PATH", "Load a hook of pi 0.34 or older. May be repeated.", more(&o.extensions.Hooks), "", "hooks/guard.ts"},
			{"--tool", "PATH", "Load a custom tool of pi 0.34 or older. May be repeated.", more(&o.extensions.Tools), "", "tools/search.ts"},
			{"--extension-host", "NAME", "What runs extensions. auto: a built-in engine in a process of its own, or Node.js if an extension imports a module that only Node.js has. quick: never Node.js. node: always Node.js. inline: the engine inside the daemon. off: load none.", oneOf(&o.extensions.Host, "auto", "quick", "inline", "node", config.HostOff), "auto", ""},
			{"--extension-errors", "MODE", "What to do if an extension does not load: report, fatal or ignore.", oneOf(&o.extensionErrors, errorsReport, errorsFatal, errorsIgnore), "report", ""},
		}},
		{"Protocol", []flag{
			{"--dialect", "NAME", "The protocol: union fits clients of every version of pi, pi1 and s0 to s4 reproduce one version each.", oneOf(&o.dialect, dialectNames()...), "PI_RPC_DIALECT, then union", ""},
			{"--features", "LIST", "Protocol features to enable; get_protocol_info lists them.", list(&o.features), "", "seq,deltaUpdates"},
			{"--seq", "", "Number the events: the feature seq.", value{set: func(string) error {
				o.features = append(o.features, string(protocol.FeatureSeq))
				return nil
			}}, "", ""},
			{"--multi-session", "", "No default session: each command names a session that open_session has returned.", be(&o.multiSession, true), "", ""},
			{"--max-sessions", "N", "The maximum number of open sessions.", number(&o.maxSessions, 1, math.MaxInt32), "1000", "100"},
			{"--park-after", "DURATION", "How long a session is idle before its memory is released; 0 disables this.", duration(&o.parkAfter, 0), "10m", "1h"},
			{"--max-line", "BYTES", "The maximum length of an input line.", number(&o.maxLine, 1024, math.MaxInt32), "67108864", "1048576"},
			{"--eof", "MODE", "What to do with an active run at the end of input: drain lets it finish, abort stops it.", oneOf(&o.eof, "drain", "abort"), "drain", ""},
			{"--eof-limit", "DURATION", "The time limit for drain.", duration(&o.drainLimit, 0), "10m", "90s"},
		}},
		{unusedFlags, []flag{
			{"--theme", "NAME", "", ignored(), "", ""},
			{"--no-themes", "", "", ignored(), "", ""},
			{"--offline", "", "", ignored(), "", ""},
			{"--no-lsp", "", "", ignored(), "", ""},
			{"--no-pty", "", "", ignored(), "", ""},
			{"--quiet", "", "", ignored(), "", ""},
		}},
	}
}
