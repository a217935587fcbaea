package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"troupe/providers"
)

// variable is an environment variable, or several of which the first that is set counts.
type variable struct{ names, doc string }

// environment lists the variables that troupe reads, except those with API keys.
var environment = []variable{
	{"TROUPE_AGENT_DIR, PI_CODING_AGENT_DIR", "The agent directory."},
	{"PI_RPC_DIALECT", "The default of --dialect."},
	{"TROUPE_LOG", "The log level on stderr: debug, info, warn (default) or error."},
	{"TROUPE_LOG_FORMAT", "The default of --log-format: text, json or auto."},
	{"TROUPE_SCRIPT", "A file of answers for the built-in model scripted/demo."},
	{"TROUPE_WORKTREE_DIR", "The directory for workspaces of isolated tasks."},
	{"TROUPE_NODE", "The Node.js for extensions that need one."},
	{"LLAMA_BASE_URL, OLLAMA_HOST", "The address of a model server: llama.cpp, Ollama."},
	{"HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "The proxy for requests to providers."},
}

// exitCodes lists the exit codes.
var exitCodes = []variable{
	{"0", "Success. With --mode rpc, the input has ended, or the client has closed the output."},
	{"1", "An error; lost output counts as one."},
	{"2", "A wrong command line. With auth check, invalid credentials."},
	{"3", "With login, nobody signed in."},
	{"129, 130, 143", "Ended by SIGHUP, SIGINT or SIGTERM."},
	{"141", "Stdout is a pipe that was closed, with -p or --mode json."},
}

// keyVariables lists the variables with the API key of each vendor, and what else a vendor accepts.
func keyVariables() (list []variable) {
	also := map[string]string{
		providers.CloudAWS: "or AWS credentials", providers.CloudGoogle: "or Google Cloud credentials",
		providers.CloudEntra: "or Microsoft Entra", providers.CloudAnthropic: "or workload identity federation",
	}
	for _, v := range providers.Vendors {
		if v.ID != providers.ScriptedAPI && v.Now == "" {
			list = append(list, variable{v.ID, strings.TrimSpace(strings.Join(v.Env, ", ") + " " + also[v.Cloud])})
		}
	}
	return list
}

// Widths of the help, in characters.
const (
	helpWidth  = 100
	helpColumn = 30
)

// helpWriter lays out the help.
type helpWriter struct{ strings.Builder }

// row writes a name and its description, which stands beside it if the name is short enough.
func (w *helpWriter) row(name, doc string) {
	line := "  " + name
	if utf8.RuneCountInString(line) > helpColumn-2 && doc != "" {
		w.WriteString(line + "\n")
		line = ""
	}
	for i, part := range wrapped(doc, helpWidth-helpColumn) {
		if i > 0 {
			line = ""
		}
		fmt.Fprintf(w, "%s%s%s\n", line, strings.Repeat(" ", helpColumn-utf8.RuneCountInString(line)), part)
	}
	if doc == "" {
		w.WriteString(line + "\n")
	}
}

// wrapped breaks a text into lines.
func wrapped(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// label is the flag with the placeholder of its value.
func (f *flag) label() string { return strings.TrimSpace(f.names + " " + f.arg) }

// sample is the flag with an example value.
func (f *flag) sample() string {
	if f.example == "" {
		return ""
	}
	names := strings.Split(f.names, ", ")
	return names[len(names)-1] + " " + f.example
}

// description is the text of a flag with its default and its example.
func (f *flag) description() string {
	text := f.doc
	if f.def != "" {
		text += " Default: " + f.def + "."
	}
	if sample := f.sample(); sample != "" {
		text += " Example: " + sample
	}
	return strings.TrimSpace(text)
}

func (w *helpWriter) sections(list []section) {
	for _, s := range list {
		fmt.Fprintf(w, "\n%s\n", s.title)
		if s.title == unusedFlags {
			var names []string
			for _, f := range s.flags {
				names = append(names, f.label())
			}
			fmt.Fprintf(w, "  %s\n", strings.Join(names, ", "))
			continue
		}
		for _, f := range s.flags {
			w.row(f.label(), f.description())
		}
	}
}

func (w *helpWriter) examples(list [][2]string) {
	for _, e := range list {
		w.WriteString("  " + e[0] + "\n")
		if e[1] != "" {
			w.WriteString("      " + e[1] + "\n")
		}
	}
}

// call is how a command is called.
func (c *command) call() string {
	words := []string{"troupe"}
	for _, word := range []string{c.name, c.args} {
		if word != "" {
			words = append(words, word)
		}
	}
	if c.name != "" && c.sections != nil {
		words = append(words, "[options]")
	}
	return strings.Join(words, " ")
}

// help returns the help of a command.
func (c *command) help(all []command) string {
	w := new(helpWriter)
	fmt.Fprintf(w, "usage: %s\n\n", c.call())
	for _, line := range wrapped(c.summary+" "+c.details, helpWidth) {
		w.WriteString(line + "\n")
	}
	if verbs := below(c.name, all); len(verbs) > 0 {
		w.WriteString("\nCommands\n")
		for _, verb := range verbs {
			sub, _ := find([]string{c.name, verb}, all)
			w.row(strings.TrimSpace(verb+" "+sub.args), sub.summary)
		}
	}
	if c.sections != nil {
		w.sections(c.sections())
	}
	w.WriteString("\nExamples\n")
	w.examples(c.examples)
	switch {
	case c.only != nil:
		w.WriteString("\nThese options of troupe --mode rpc are accepted, too (troupe help describes them)\n")
		for _, line := range wrapped(strings.Join(flagNames(accepted(new(options).sections(), c.only)), ", "), helpWidth-2) {
			w.WriteString("  " + line + "\n")
		}
	case c.rpc:
		w.WriteString("\nThe options of troupe --mode rpc are accepted, too: troupe help.\n")
	}
	return w.String()
}

// helpOfKeys is the word for the list of variables with API keys.
const helpOfKeys = "keys"

// help is troupe help.
func help(args []string) int {
	all := commands()
	switch c, n := find(args, all); {
	case len(args) == 0:
		return show(usage())
	case len(args) == 1 && args[0] == helpOfKeys:
		w := new(helpWriter)
		w.keys()
		w.WriteString("\ntroupe auth check shows which credentials were found, and troupe login stores some.\n")
		return show(w.String())
	case c != nil && n == len(args):
		return show(c.help(all))
	case len(args) == 1 && len(below(args[0], all)) > 0:
		var text []string
		for _, verb := range below(args[0], all) {
			c, _ = find([]string{args[0], verb}, all)
			text = append(text, c.help(all))
		}
		return show(strings.Join(text, "\n"))
	}
	first := append(verbs(all), helpOfKeys)
	if known := below(args[0], all); len(args) > 1 && len(known) > 0 {
		return exitCode(unknownVerb(args[0], args[1], known))
	}
	return exitCode(unknownTopic(args, first))
}

func unknownTopic(args, topics []string) error {
	word := strings.Join(args, " ")
	if best := closest(word, topics); best != "" {
		return usageError{suggestion{fmt.Errorf("there is no help on %q (did you mean %q?)", word, best)}, "help"}
	}
	return usageError{fmt.Errorf("there is no help on %q: want %s", word, either(topics)), "help"}
}

func (w *helpWriter) keys() {
	w.WriteString("API keys: the environment variables of each provider; the first one that is set counts\n")
	for _, v := range keyVariables() {
		fmt.Fprintf(w, "  %-*s %s\n", helpColumn-3, v.names, v.doc)
	}
}

// usage returns the help of a run without a verb, with a list of all commands.
func usage() string {
	w := new(helpWriter)
	w.WriteString("troupe runs coding agents. It speaks the RPC protocol of the coding agent pi: one JSON object per line.\n\n")
	all := commands()
	for i := range all {
		verb, _, two := strings.Cut(all[i].name, " ")
		if parent, _ := find([]string{verb}, all); two && parent != nil {
			continue // the help of its verb lists it
		}
		fmt.Fprintf(w, "  %s\n        %s\n", all[i].call(), all[i].summary)
	}
	w.WriteString("\nEach command prints its own options with --help, as troupe help COMMAND does.\n\nExamples\n")
	w.examples(all[0].examples)
	w.sections(all[0].sections())
	w.WriteString("\n")
	w.keys()
	w.WriteString("\nOther environment variables\n")
	for _, v := range environment {
		w.row(v.names, v.doc)
	}
	w.WriteString("\nExit codes\n")
	for _, v := range exitCodes {
		w.row(v.names, v.doc)
	}
	return w.String()
}
