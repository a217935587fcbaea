package main

import (
	"fmt"
	"strings"

	"troupe/providers"
)

// synopsis lists the commands and what each of them does.
var synopsis = [][2]string{
	{"troupe -p [options] [@file] [message]", "Run one prompt and print the answer."},
	{"troupe --mode rpc [options]", "Serve one client on stdin and stdout."},
	{"troupe serve [--listen ADDRESS] [options]", "Serve many clients on a socket, and browsers on TCP."},
	{"troupe serve pair [full|view] | devices | revoke DEVICE", "Admit a browser, list the admitted ones, withdraw one."},
	{"troupe connect [--to SOCKET] [options]", "Connect stdin and stdout to a running troupe serve."},
	{"troupe health [--to SOCKET]", "Exit with 0 if troupe serve takes clients."},
	{"troupe cluster VERB", "Administer several daemons that share sessions."},
	{"troupe login [PROVIDER] [--api-key] [--no-browser] [--timeout DURATION]", "Sign in to a provider or store an API key."},
	{"troupe logout PROVIDER", "Remove the credentials of a provider."},
	{"troupe auth check [PROVIDER] [--json] [--no-refresh]", "Show which credentials would be used."},
	{"troupe models discover [URL]", "Find model servers on this machine."},
	{"troupe schema [--ts|--md]", "Print the protocol as JSON Schema, TypeScript or Markdown."},
}

// variable is an environment variable, or several of which the first that is set counts.
type variable struct{ names, doc string }

// environment lists the variables that troupe reads, except those with API keys.
var environment = []variable{
	{"TROUPE_AGENT_DIR, PI_CODING_AGENT_DIR", "The agent directory."},
	{"PI_RPC_DIALECT", "The default of --dialect."},
	{"TROUPE_LOG", "The log level on stderr: debug, info, warn (default) or error."},
	{"TROUPE_SCRIPT", "A file of answers for the built-in model scripted/demo."},
	{"TROUPE_WORKTREE_DIR", "The directory for workspaces of isolated tasks."},
	{"TROUPE_NODE", "The Node.js for extensions that need one."},
	{"LLAMA_BASE_URL, OLLAMA_HOST", "The address of a model server: llama.cpp, Ollama."},
	{"HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "The proxy for requests to providers."},
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

// usage returns the help text.
func usage() string {
	var b strings.Builder
	b.WriteString("troupe runs coding agents. It speaks the RPC protocol of the coding agent pi: one JSON object per line.\n\n")
	row := func(name, doc string) { fmt.Fprintf(&b, "  %-38s %s\n", name, doc) }
	for _, s := range synopsis {
		fmt.Fprintf(&b, "  %s\n        %s\n", s[0], s[1])
	}
	b.WriteString("\nEach command prints its own options with --help.\n")
	for _, s := range new(options).sections() {
		fmt.Fprintf(&b, "\n%s\n", s.title)
		if s.title == unusedFlags {
			var names []string
			for _, f := range s.flags {
				names = append(names, strings.TrimSpace(f.names+" "+f.arg))
			}
			fmt.Fprintf(&b, "  %s\n", strings.Join(names, ", "))
			continue
		}
		for _, f := range s.flags {
			row(strings.TrimSpace(f.names+" "+f.arg), f.doc)
		}
	}
	b.WriteString("\nAPI keys: the environment variables of each provider; the first one that is set counts\n")
	for _, v := range keyVariables() {
		row(v.names, v.doc)
	}
	b.WriteString("\nOther environment variables\n")
	for _, v := range environment {
		row(v.names, v.doc)
	}
	return b.String()
}
