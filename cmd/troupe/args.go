package main

import (
	"fmt"
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
	mode      string // rpc, text, json
	help      bool
	version   bool
	verbose   bool
	logFormat string // auto, text, json; "" for the variable
	creates   bool   // a missing file of --session is created, as in pi

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

// flag is one row of the table from which parsing, help, completion, the manual page and docs/cli.md are derived.
type flag struct {
	names   string // "--model", or "-p, --print"
	arg     string // the placeholder of its value, "" for a switch
	doc     string
	value   value
	def     string // the default as it is shown, "" for none
	example string // a value, "" where doc lists all of them
}

// value parses and stores the value of a flag.
type value struct {
	set     func(v string) error // a [wanted] error is completed with the flag and v
	choices []string             // all valid values, nil where there are others
}

// wanted says which values are valid.
type wanted string

func (w wanted) Error() string { return "want " + string(w) }

// badValue is the error for a value that a flag has refused.
func badValue(name, v string, err error) error {
	if _, ok := err.(wanted); ok { // one inside another error has its value already
		return fmt.Errorf("%s: %w, got %q", name, err, v)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// unusedFlags is the heading of the flags that only pi's terminal interface needs.
const unusedFlags = "Accepted for compatibility with pi, without effect"

// section is a heading of the help text.
type section struct {
	title string
	flags []flag
}

func set(to *string) value {
	return value{set: func(v string) error { *to = v; return nil }}
}

// be is a flag without a value.
func be[T any](to *T, v T) value { return value{set: func(string) error { *to = v; return nil }} }

// wantDuration says how a duration is written.
const wantDuration = wanted("a duration, such as 90s or 10m")

func duration(to *time.Duration, min time.Duration) value {
	return value{set: func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < min {
			return wantDuration
		}
		*to = d
		return nil
	}}
}

func list(to *[]string) value {
	return value{set: func(v string) error {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*to = append(*to, part)
			}
		}
		return nil
	}}
}

func more(to *[]string) value {
	return value{set: func(v string) error { *to = append(*to, v); return nil }}
}

func oneOf(to *string, choices ...string) value {
	return value{choices: choices, set: func(v string) error {
		if !slices.Contains(choices, v) {
			return wanted(either(choices))
		}
		*to = v
		return nil
	}}
}

// either joins choices: "a, b or c".
func either(choices []string) string {
	last := len(choices) - 1
	if last < 1 {
		return strings.Join(choices, "")
	}
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// number is a whole number between two bounds, both included.
func number(to *int, min, max int) value {
	return value{set: func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < int64(min) || n > int64(max) {
			return wanted(fmt.Sprintf("a number from %d to %d", min, max))
		}
		*to = int(n)
		return nil
	}}
}

// ignored accepts a flag of pi that has no meaning without a terminal interface.
func ignored() value { return value{set: func(string) error { return nil }} }

func featureNames() []string {
	var names []string
	for _, f := range protocol.Features() {
		names = append(names, string(f))
	}
	return names
}

func dialectNames() []string {
	var names []string
	for _, d := range protocol.Dialects() {
		names = append(names, string(d))
	}
	return names
}

// parseArgs reads the command line. Its error is one line for stderr.
func parseArgs(args []string) (*options, error) {
	o := &options{eof: "drain", durability: "process", extensionErrors: errorsReport, parkAfter: session.DefaultParkAfter}
	sections := o.sections()
	byName := map[string]*flag{}
	for _, s := range sections {
		for i := range s.flags {
			for name := range strings.SplitSeq(s.flags[i].names, ", ") {
				byName[name] = &s.flags[i]
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
		name, v, inline := strings.Cut(arg, "=")
		f := byName[name]
		switch {
		case f == nil && !isLong(name):
			return nil, unknownOptionError(name, sections)
		case f == nil: // one of an extension's, which says whether it has a value
			u := unknownOption{name: name, value: v, inline: inline}
			if i+1 < len(args) && !inline && isValue(args[i+1]) {
				i++
				u.value = args[i]
			}
			o.unknown = append(o.unknown, u)
			continue
		}
		var err error
		if i, err = f.set(name, v, inline, args, i); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// check refuses combinations that cannot be meant.
func (o *options) check() error {
	if o.mode == "rpc" && len(o.files) > 0 {
		return fmt.Errorf("unexpected argument %q: in RPC mode clients send files with the command prompt", "@"+o.files[0])
	}
	if o.mode == "rpc" && len(o.messages) > 0 {
		return fmt.Errorf("unexpected argument %q: in RPC mode prompts come on stdin", o.messages[0])
	}
	if o.thinking != "" && !protocol.ThinkingLevel(o.thinking).Valid() {
		o.warnings = append(o.warnings, badValue("--thinking", o.thinking, wanted(either(thinkingLevels))).Error()+"; ignored")
		o.thinking = ""
	}
	for _, f := range o.features {
		if !slices.Contains(protocol.Features(), protocol.Feature(f)) {
			o.warnings = append(o.warnings, badValue("--features", f, wanted(either(featureNames()))).Error()+"; ignored")
		}
	}
	sources := 0
	for _, given := range []bool{o.session != "", o.cont, o.sessionID != "", o.noSession, o.fork != "", o.resume} {
		if given {
			sources++
		}
	}
	if sources > 1 {
		return fmt.Errorf("--session, --continue, --resume, --fork, --session-id and --no-session exclude each other: give one of them")
	}
	return nil
}
