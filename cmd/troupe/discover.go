package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"

	"troupe/providers"
	"troupe/providers/discover"
)

// discoverModels shows what servers of models on this machine have, or the one at an
// address, and how to use it. Nothing is written.
func discoverModels(args []string) int {
	places := discover.Places(os.Getenv("OLLAMA_HOST"))
	args, err := arguments("models discover", args, nil)
	if err != nil {
		return exitCode(err)
	}
	if len(args) == 1 {
		places = args
	}
	found := make([]providers.LocalServer, len(places))
	failed := make([]error, len(places))
	var all sync.WaitGroup
	for i := range places {
		all.Go(func() { found[i], failed[i] = discover.Find(context.Background(), places[i], "") })
	}
	all.Wait()
	var text strings.Builder
	code := exitError
	for i, place := range places {
		if failed[i] == nil {
			code = exitOK
			describeServer(&text, place, found[i])
		}
	}
	if code != exitOK {
		if len(args) == 1 {
			fmt.Fprintln(stderr, "troupe:", failed[0])
		} else {
			fmt.Fprintf(stderr, "troupe: no model server answers at %s: start one, or give its URL\n", strings.Join(places, ", "))
		}
		return code
	}
	return show(text.String())
}

// describeServer writes what a server has, and what to put into models.json for it.
func describeServer(text *strings.Builder, place string, server providers.LocalServer) {
	fmt.Fprintf(text, "%s at %s\n", server.Kind, place)
	w := tabwriter.NewWriter(text, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "  model\tcontext\timages\tthinking\tloaded")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, m := range server.Models {
		length := "?"
		if m.Context > 0 {
			length = tokens(m.Context)
		}
		if m.AtMost {
			length = "up to " + length
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", m.ID, length, yes[m.Vision], yes[m.Thinking], yes[m.Loaded])
	}
	_ = w.Flush() // a Builder takes all
	for _, m := range server.Models {
		if complaint := discover.Complaint(server.Kind, m); complaint != "" {
			fmt.Fprintf(text, "  %s\n", complaint)
		}
	}
	name := discover.ProviderName(server.Kind)
	fmt.Fprintf(text, "  to use it, in models.json: {\"providers\": {%q: {\"baseUrl\": %q, \"discover\": true}}}\n\n", name, place)
}
