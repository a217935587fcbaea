package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/protocol"
	"troupe/store"
	"troupe/store/export"
)

// errands are the things troupe does without running an agent.

// schema prints what the protocol looks like, for tools that generate code.
func schema(args []string) int {
	switch {
	case len(args) == 0:
		fmt.Print(string(protocol.Schema()))
	case len(args) == 1 && args[0] == "--ts":
		fmt.Print(protocol.TypeScript())
	default:
		return refuse(errors.New("usage: troupe schema [--ts]"))
	}
	return exitOK
}

// exportFile renders a session file as HTML, without touching it.
func exportFile(o *options) int {
	out := ""
	if len(o.messages) > 0 {
		out = o.messages[0]
	}
	path, err := writePage(o.export, out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "troupe:", err)
		return exitError
	}
	fmt.Println(path)
	return exitOK
}

func writePage(in, out string) (string, error) {
	log, err := store.OpenLog(store.OS{}, in, store.Options{})
	if err != nil {
		return "", err
	}
	defer log.Close()
	st, err := log.View().State()
	if err != nil {
		return "", err
	}
	page, err := actors.Page(log.View(), export.Document{Name: st.Name, Generator: "troupe " + version})
	if err != nil {
		return "", err
	}
	if out == "" {
		out = "pi-session-" + strings.TrimSuffix(filepath.Base(in), ".jsonl") + ".html"
	}
	return out, os.WriteFile(out, page, 0o600)
}

// listModels prints the models there are credentials for.
func listModels(cfg *actors.Config, pattern string) int {
	catalog, problems := cfg.Models.Catalog()
	if problems != nil {
		fmt.Fprintln(os.Stderr, "troupe:", problems)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "provider\tmodel\tcontext\tmax-out\tthinking\timages")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, m := range catalog.Available() {
		if !strings.Contains(strings.ToLower(m.Provider+"/"+m.ID+" "+m.Name), strings.ToLower(pattern)) {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", m.Provider, m.ID, m.ContextWindow, m.MaxTokens, yes[m.Reasoning], yes[m.Accepts("image")])
	}
	if err := w.Flush(); err != nil {
		return exitError
	}
	return exitOK
}

// pickSession lets a person at a terminal choose a session of the directory.
func pickSession(lister *store.Lister, q store.Query) (string, error) {
	if !isatty.IsTerminal(os.Stdin.Fd()) {
		return "", errors.New("--resume needs a terminal; use --continue, or --session with a path or the beginning of an id")
	}
	q.Limit = 20
	list, err := lister.List(q)
	if err != nil || len(list) == 0 {
		return "", errors.Join(errors.New("no sessions to resume here"), err)
	}
	for i, s := range list {
		title := s.Name
		if title == "" {
			title = s.FirstMessage
		}
		line, _, _ := strings.Cut(title, "\n")
		fmt.Fprintf(os.Stderr, "%3d  %s  %3d messages  %.60s\n", i+1, s.Modified, s.MessageCount, line)
	}
	fmt.Fprint(os.Stderr, "Which? ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	n, bad := strconv.Atoi(strings.TrimSpace(answer))
	if err != nil || bad != nil || n < 1 || n > len(list) {
		return "", errors.New("no session was chosen")
	}
	return list[n-1].Path, nil
}

// forkSession copies the branch of another session into a new one, which may be
// for another directory.
func forkSession(cfg *actors.Config, path, dir string, log zerolog.Logger) error {
	old, err := store.OpenLog(store.OS{}, path, store.Options{})
	if err != nil {
		return fmt.Errorf("--fork: %w", err)
	}
	defer func() {
		if err := old.Close(); err != nil {
			log.Warn().Err(err).Msg("closing the forked session")
		}
	}()
	if cfg.Default.Path, err = actors.ForkFile(cfg, old.View(), dir); err != nil {
		return fmt.Errorf("--fork: %w", err)
	}
	return nil
}
