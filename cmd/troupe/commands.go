package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// command is one row of the table of verbs. Dispatch, help, completion, the manual page and docs/cli.md
// are derived from it.
type command struct {
	name     string // "serve pair"; "" for a run without a verb
	args     string // its arguments, as the help shows them
	summary  string // one sentence
	details  string // further sentences
	sections func() []section
	rpc      bool                    // it also accepts the flags of a run without a verb
	only     []string                // those of them that it accepts, nil for all
	asPi     bool                    // it exists under the name pi, too
	choices  func() []string         // words that its first argument may be
	run      func(args []string) int // gets the words after the name; nil if the command it belongs to reads them
	examples [][2]string             // a command line and its effect
}

// flagsOf makes a table of flags of its sections.
func flagsOf(sections ...section) func() []section { return func() []section { return sections } }

// commands returns the table of verbs. It is built when a verb, the help or a completion is asked for:
// "troupe --mode rpc" starts without it.
func commands() []command {
	return slices.Concat(promptCommands(), serverCommands(), clusterCommands(), loginCommands(), otherCommands())
}

func choicesOf(words []string) func() []string { return func() []string { return words } }

func promptCommands() []command {
	return []command{{
		args: "-p [options] [@file] [message]", summary: "Run one prompt and print the answer.",
		sections: new(options).sections,
		examples: [][2]string{
			{`troupe -p "Which Go version does this module need?"`, "Print the answer to a question about the working directory."},
			{`git diff | troupe -p "Review this."`, "Send the output of a program with the prompt."},
			{`troupe -p -c "And the tests?"`, "Continue the newest session of the working directory."},
		},
	}, {
		args: "--mode rpc [options]", summary: "Serve one client on stdin and stdout.",
		examples: [][2]string{{`echo '{"type":"get_state"}' | troupe --mode rpc`, "Send one command and print the response."}},
	}}
}

func serverCommands() []command {
	to := func() []section { return []section{{"Options", toFlag(new(string))}} }
	return []command{{
		name: "serve", summary: "Serve many clients on a socket, and browsers on TCP.",
		sections: new(serveOptions).sections, rpc: true, run: serveClients,
		examples: [][2]string{
			{"troupe serve --listen 127.0.0.1:7717", "Serve programs and browsers of this machine."},
			{"troupe serve --listen 0.0.0.0:7717 --tls-cert cert.pem --tls-key key.pem", "Serve other machines."},
		},
	}, {
		name: "serve pair", args: "[full|view]", summary: "Print an address that admits one more browser to the running server.",
		details: "full admits it with all rights, view lets it watch only. Default: full.", choices: choicesOf(scopes), sections: to,
		run: func(args []string) int { return exitCode(pairBrowser(args)) }, examples: [][2]string{{"troupe serve pair view", "Admit a browser that only watches."}},
	}, {
		name: "serve devices", summary: "List the browsers that are admitted.",
		run: func(args []string) int { return exitCode(listDevices(args)) }, examples: [][2]string{{"troupe serve devices", ""}},
	}, {
		name: "serve revoke", args: "DEVICE", summary: "Withdraw the admission of a browser.",
		run: func(args []string) int { return exitCode(revokeDevice(args)) }, examples: [][2]string{{"troupe serve revoke d-7Kq2", "DEVICE is the first column of troupe serve devices."}},
	}, {
		name: "connect", summary: "Connect stdin and stdout to a running troupe serve.",
		details:  "The session works in the directory of the client. Options that concern the whole server belong to troupe serve.",
		sections: to, rpc: true, only: perClient, run: func(args []string) int { return exitCode(connect(args)) },
		examples: [][2]string{{"troupe connect --continue", "Open the newest session of this directory in the server."}},
	}, {
		name: "health", summary: "Exit with 0 if troupe serve takes clients.", sections: to,
		run: func(args []string) int { return exitCode(health(args)) }, examples: [][2]string{{"troupe health --to /run/troupe.sock", "Check a server in a container."}},
	}}
}

func clusterCommands() []command {
	engine := func() []section { return new(adminOptions).sections()[:1] }
	row := func(name, args, summary string, examples ...[2]string) command {
		return command{name: "cluster " + name, args: args, summary: summary, sections: engine, examples: examples}
	}
	setUp := row("init", "", "Create the keys of nodes, and set up the engine.",
		[2]string{"troupe cluster init --cluster-dir keys --node w1 --node w2 --node w3", "Create the keys of three nodes."},
		[2]string{"troupe cluster init --cluster nats://e1:4222,e2:4222,e3:4222", "Set up the engine."})
	setUp.sections = new(adminOptions).sections
	return []command{{
		name: "cluster", args: "VERB", summary: "Administer several daemons that share sessions.",
		details: "What the options leave out comes from cluster.json in the agent directory.", sections: engine, run: func(args []string) int { return exitCode(administer(args)) },
		examples: [][2]string{{"troupe cluster status", "Show the engine, the nodes and their sessions."}},
	},
		setUp,
		row("status", "", "Show the engine, and the nodes with their sessions.", [2]string{"troupe cluster status --cluster nats://e1:4222", ""}),
		row("spread", "", "Distribute the leaders of the engine over its servers.", [2]string{"troupe cluster spread", ""}),
		row("drain", "NODE", "Move all sessions of a node to others, and wait until it has ended.", [2]string{"troupe cluster drain w2 --cluster-dir keys/w1", "The keys of any node will do."}),
		row("move", "SESSION NODE", "Move a session to a node.", [2]string{"troupe cluster move review-42 w3 --cluster-dir keys/w1", ""}),
		row("check", "[SESSION]", "Compare the copies of one session, or of all, on the servers of the engine.", [2]string{"troupe cluster check review-42", ""}),
		row("export", "SESSION [FILE]", "Write a session as a file of pi. Default: SESSION.jsonl.", [2]string{"troupe cluster export review-42 review.jsonl", ""}),
	}
}

func loginCommands() []command {
	table := func(word string) func() []section {
		return (&credentialArgs{word: word}).sections
	}
	return []command{{
		name: "login", args: "[PROVIDER]", summary: "Sign in to a provider or store an API key.", details: "Without PROVIDER it shows a list to choose from.",
		sections: table("login"), choices: providerNames, run: func(args []string) int { return credentials("login", args) },
		examples: [][2]string{
			{"troupe login openai", "Sign in with a browser."},
			{"troupe login anthropic --api-key < key.txt", "Store the key that a file contains."},
		},
	}, {
		name: "logout", args: "PROVIDER", summary: "Remove the credentials of a provider.",
		sections: table("logout"), choices: providerNames, run: func(args []string) int { return credentials("logout", args) }, examples: [][2]string{{"troupe logout openai", ""}},
	}, {
		name: "auth check", args: "[PROVIDER]", summary: "Show which credentials would be used.", details: "It exits with 0 if a provider is ready, 1 if none is, 2 if credentials are invalid.", asPi: true,
		sections: table("auth"), choices: providerNames, run: func(args []string) int { return credentials("auth", args) }, examples: [][2]string{{"troupe auth check openai --json", "Print one line of JSON."}},
	}}
}

func otherCommands() []command {
	return []command{{
		name: "models discover", args: "[URL]", summary: "Find model servers on this machine.", run: discoverModels,
		examples: [][2]string{{"troupe models discover http://127.0.0.1:11434", "Show the models of a server and the entry for models.json."}},
	}, {
		name: "schema", summary: "Print the protocol as JSON Schema, TypeScript or Markdown.", asPi: true, run: describe,
		sections: flagsOf(section{"Options", schemaFlags(new(string))}), examples: [][2]string{{"troupe schema --ts > protocol.ts", "Write the types of the protocol."}},
	}, {
		name: "help", args: "[COMMAND | keys]", summary: "Print the help of a command, or the variables for API keys.", run: help, choices: choicesOf([]string{helpOfKeys}),
		examples: [][2]string{{"troupe help cluster drain", ""}, {"troupe help keys", "List the variable of each provider."}},
	}, {
		name: "completion", args: "SHELL", summary: "Print a script that completes commands and options: for bash, zsh or fish.", run: completion, choices: choicesOf(shells),
		examples: [][2]string{{"source <(troupe completion bash)", "In ~/.bashrc, or with zsh in ~/.zshrc."}, {"troupe completion fish > ~/.config/fish/completions/troupe.fish", ""}},
	}, {
		name: "man", summary: "Print the manual page.", details: "make install installs it.", run: manual, examples: [][2]string{{"troupe man | man -l -", "Read it."}},
	}, {
		name: "version", summary: "Print the version.", run: func(args []string) int {
			if _, err := arguments("version", args, nil); err != nil {
				return exitCode(err)
			}
			return showVersion()
		}, examples: [][2]string{{"troupe version", ""}},
	}}
}

// find returns the command that some words begin with, and how many words its name has. That of one verb is
// preferred to a longer one only if no longer one fits.
func find(words []string, all []command) (found *command, length int) {
	for n := min(2, len(words)); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		if i := slices.IndexFunc(all, func(c command) bool { return c.name == name }); i >= 0 {
			return &all[i], n
		}
	}
	return nil, 0
}

// verbs lists the first words of all commands.
func verbs(all []command) (list []string) {
	for _, c := range all {
		if verb, _, _ := strings.Cut(c.name, " "); verb != "" && !slices.Contains(list, verb) {
			list = append(list, verb)
		}
	}
	return list
}

// below lists the second words of the commands that begin with a verb.
func below(verb string, all []command) (list []string) {
	for _, c := range all {
		if second, ok := strings.CutPrefix(c.name, verb+" "); ok {
			list = append(list, second)
		}
	}
	return list
}

// runCommand runs the command that the command line begins with. done is false if it begins with none.
func runCommand(args []string) (code int, done bool) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "@") {
		return 0, false
	}
	all := commands()
	c, n := find(args, all)
	switch {
	case c != nil && (c.asPi || !asPi()):
		if helpAsked(args) {
			return show(c.help(all)), true
		}
		if c.run == nil { // the command that it belongs to reads its verb
			c, n = find(args[:1], all)
		}
		return c.run(args[n:]), true
	case args[0] == extHostErrand && len(args) <= 2:
		return extHost(args[len(args)-1]), true
	case asPi() || len(below(args[0], all)) == 0: // a message, unless pi has that word
	case helpAsked(args):
		return help(args[:1]), true
	case len(args) > 1:
		return refuse(unknownVerb(args[0], args[1], below(args[0], all))), true
	default:
		return refuse(verbMissing(args[0], below(args[0], all))), true
	}
	if slices.Contains(piCommands, args[0]) {
		return refuse(fmt.Errorf("%q is a command of pi that this version does not have; as a message write: -p %s", args[0], args[0])), true
	}
	return 0, false
}

// helpAsked says whether the words of a command contain --help or -h.
func helpAsked(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--help") || slices.Contains(args, "-h")
}

// checkFirstWord refuses a prompt that is probably a mistyped command. With --mode or -p a program or a person
// has said that it is a prompt.
func (o *options) checkFirstWord() error {
	if o.mode != "" || o.print || o.help || o.version || o.listModels || o.export != "" || len(o.messages) == 0 || asPi() {
		return nil
	}
	word := o.messages[0]
	switch verb := closest(word, verbs(commands())); verb {
	case "":
		return nil
	case word:
		return suggestion{fmt.Errorf("%q is a command and comes first: troupe %s; to send it as a message: troupe -p %s", word, word, word)}
	default:
		return suggestion{fmt.Errorf("unknown command %q (did you mean %q?); to send it as a message: troupe -p %s", word, verb, word)}
	}
}

// usageError is a wrong command line. topic is the command whose help says more.
type usageError struct {
	error
	topic string
}

func (e usageError) Unwrap() error { return e.error }

// wrong is a wrong command line of a command.
func wrong(topic string, err error) error {
	if err == nil || errors.As(err, new(usageError)) {
		return err
	}
	return usageError{err, topic}
}

// missing is the error for an argument that a command needs.
func missing(command, argument string) error {
	return usageError{fmt.Errorf("%s: %s is missing", command, argument), command}
}

// verbMissing is the error for a command that needs a second word.
func verbMissing(command string, verbs []string) error {
	return usageError{fmt.Errorf("%s: a command is missing: want %s", command, either(verbs)), command}
}

// unexpected is the error for an argument that a command does not take.
func unexpected(command, argument string) error {
	return usageError{fmt.Errorf("%s: unexpected argument %q", command, argument), command}
}

// unknownVerb is the error for the second word of a command line.
func unknownVerb(command, verb string, verbs []string) error {
	full := command + " " + verb
	if best := closest(verb, verbs); best != "" {
		return usageError{suggestion{fmt.Errorf("unknown command %q (did you mean %q?)", full, command+" "+best)}, command}
	}
	return usageError{fmt.Errorf("unknown command %q: want %s", full, either(verbs)), command}
}

// takeFlags takes the flags of a command out of its arguments: those with a value, which follows them or stands
// after "=", and switches. rest is all other words, in their order.
func takeFlags(args []string, sections []section) (rest []string, err error) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(rest, args[i:]...), nil
		}
		name, v, inline := strings.Cut(args[i], "=")
		f := flagNamed(name, sections)
		if f == nil {
			rest = append(rest, args[i])
			continue
		}
		if i, err = f.set(name, v, inline, args, i); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// set gives the flag args[i] its value: v, the text after its "=", if inline, else the next argument. It returns
// the index of the last argument that belongs to the flag. name is the flag as it was written.
func (f *flag) set(name, v string, inline bool, args []string, i int) (int, error) {
	switch {
	case f.arg == "" && inline:
		return i, fmt.Errorf("%s takes no value", name)
	case f.arg != "" && !inline:
		if i++; i == len(args) {
			return i, fmt.Errorf("%s needs a value: %s", name, f.arg)
		}
		v = args[i]
	}
	if err := f.value.set(v); err != nil {
		return i, badValue(name, v, err)
	}
	return i, nil
}

// arguments takes the flags of a command out of its arguments and checks the others against the table of commands.
func arguments(command string, args []string, sections []section) (words []string, err error) {
	rest, err := takeFlags(args, sections)
	if err != nil {
		return nil, wrong(command, err)
	}
	for i, word := range rest {
		if word == "--" {
			words = append(words, rest[i+1:]...)
			break
		}
		if strings.HasPrefix(word, "-") && word != "-" {
			name, _, _ := strings.Cut(word, "=") // the value may be a secret
			return nil, wrong(command, unknownOptionError(name, sections))
		}
		words = append(words, word)
	}
	return words, checkArguments(command, words)
}

// checkArguments checks how many arguments a command has got.
func checkArguments(command string, words []string) error {
	c, _ := find(strings.Fields(command), commands())
	names := strings.Fields(c.args)
	if len(words) > len(names) {
		return unexpected(command, words[len(names)])
	}
	for _, name := range names[len(words):] {
		if !strings.HasPrefix(name, "[") {
			return missing(command, name)
		}
	}
	return nil
}

func flagNamed(name string, sections []section) *flag {
	for _, s := range sections {
		for i, f := range s.flags {
			if slices.Contains(strings.Split(f.names, ", "), name) {
				return &s.flags[i]
			}
		}
	}
	return nil
}
