package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/session"
	"troupe/protocol"
	"troupe/protocol/schema"
	"troupe/store"
	"troupe/store/config"
	"troupe/store/export"
)

// Subcommands do something without running an agent: they print, list or export.

// show prints what was asked for.
func show(text string) int {
	if _, err := io.WriteString(onScreen(os.Stdout), text); err != nil {
		return unwritten(err)
	}
	return exitOK
}

// unwritten is the exit code when output was lost. A reader that had enough, as
// head does, need not be told: the code is what a death by SIGPIPE would give.
func unwritten(err error) int {
	if readerGone(err) {
		return 128 + int(syscall.SIGPIPE)
	}
	return exitCode(err)
}

// exitCode is that with which the process ends: what went wrong is said in a line on stderr.
func exitCode(err error) int {
	var usage usageError
	var signalled signalError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return refuse(usage)
	case errors.As(err, &signalled):
		return 128 + int(signalled)
	}
	fmt.Fprintln(stderr, "troupe:", err)
	return exitError
}

// readerGone says that the other end of our output was closed.
func readerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// describe prints what the protocol looks like: as JSON Schema or TypeScript for
// tools that generate code, as Markdown for people.
func describe(args []string) int {
	form := ""
	_, err := arguments("schema", args, []section{{"Options", schemaFlags(&form)}})
	if err != nil {
		return exitCode(err)
	}
	switch form {
	case "ts":
		return show(schema.TypeScript())
	case "md":
		return show(string(reference()))
	}
	return show(string(schema.JSON()))
}

func schemaFlags(form *string) []flag {
	return []flag{
		{"--ts", "", "Print TypeScript.", be(form, "ts"), "JSON Schema", ""},
		{"--md", "", "Print Markdown.", be(form, "md"), "JSON Schema", ""},
	}
}

// reference is protocol/REFERENCE.md: the wire, and what a project may bring.
func reference() []byte { return slices.Concat(schema.Reference(), config.Reference()) }

// exportFile renders a session file as HTML, without touching it.
func exportFile(o *options) int {
	out := ""
	if len(o.messages) > 0 {
		out = o.messages[0]
	}
	path, err := writePage(o.export, out)
	if err != nil {
		return exitCode(fmt.Errorf("--export: %w", err))
	}
	return show(path + "\n")
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
	page, err := session.Page(log.View(), export.Document{Name: st.Name, Generator: "troupe " + version})
	if err != nil {
		return "", err
	}
	out = cmp.Or(out, "pi-session-"+strings.TrimSuffix(filepath.Base(in), ".jsonl")+".html")
	return out, session.WriteOutput(out, page)
}

// piVersion is the newest pi whose clients work with troupe. Under the name pi
// troupe stands for it: clients ask for the version, and some refuse an older one.
const piVersion = "0.87.1"

// asPi says that we were called pi.
func asPi() bool { return len(os.Args) > 0 && filepath.Base(os.Args[0]) == "pi" }

func showVersion() int {
	if asPi() {
		return show(piVersion + "\n")
	}
	return show("troupe " + version + "\n")
}

// piCommands are words that pi takes for commands as its first argument.
var piCommands = []string{"install", "remove", "uninstall", "update", "list", "config", "auth"}

// listModels prints the models there are credentials for.
func listModels(cfg *actors.Config, pattern string) int {
	catalog, problems := cfg.Sessions.Models.Catalog()
	if problems != nil {
		fmt.Fprintln(stderr, "troupe:", problems)
	}
	models := slices.DeleteFunc(catalog.Available(), func(m *protocol.Model) bool { return !resembles(m.Provider+"/"+m.ID, pattern) })
	if len(models) == 0 && pattern != "" {
		return show(fmt.Sprintf("No models matching %q\n", pattern))
	}
	slices.SortStableFunc(models, func(a, b *protocol.Model) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.ID, b.ID))
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "provider\tmodel\tcontext\tmax-out\tthinking\timages")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, m := range models {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Provider, m.ID, tokens(m.ContextWindow), tokens(m.MaxTokens), yes[m.Reasoning], yes[m.Accepts("image")])
	}
	_ = w.Flush() // a Builder takes all
	return show(table.String())
}

// resembles says whether each word of a pattern is in a name, letter by letter,
// as in pi: others may stand between them.
func resembles(name, pattern string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(pattern)) {
		rest := strings.ToLower(name)
		for _, r := range word {
			at := strings.IndexRune(rest, r)
			if at < 0 {
				return false
			}
			rest = rest[at+utf8.RuneLen(r):]
		}
	}
	return true
}

// tokens is a number of tokens as pi's table has it: 128K, 65.5K, 1M.
func tokens(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e6, "M"}, {1e3, "K"}} {
		switch {
		case n < unit.size:
		case n%unit.size == 0:
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		default:
			return strconv.FormatFloat(float64(n)/float64(unit.size), 'f', 1, 64) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// pickSession lets a person at a terminal choose a session of the directory.
func pickSession(lister *store.Lister, q store.Query) (string, error) {
	if !isatty.IsTerminal(os.Stdin.Fd()) {
		return "", errors.New("--resume needs a terminal; use --continue, or --session with a path or the beginning of an id")
	}
	q.Limit = 20
	list, err := lister.List(q)
	if err != nil || len(list) == 0 {
		return "", errors.Join(errors.New("there is no session of this directory to resume: start one with a message"), err)
	}
	for i, s := range list {
		title := cmp.Or(s.Name, s.FirstMessage)
		line, _, _ := strings.Cut(title, "\n")
		fmt.Fprintf(stderr, "%3d  %s  %3d messages  %.60s\n", i+1, s.Modified, s.MessageCount, harmless(line))
	}
	fmt.Fprint(stderr, "Which? ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	n, bad := strconv.Atoi(strings.TrimSpace(answer))
	if err != nil || bad != nil || n < 1 || n > len(list) {
		return "", errors.New("no session was chosen: type one of the numbers")
	}
	return list[n-1].Path, nil
}

// harmless makes visible what a terminal would obey: anybody may have written
// the text.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// forkSession copies the branch of another session into a new one, which may be
// for another directory.
func forkSession(shared *session.Shared, path, dir string, log zerolog.Logger) (string, error) {
	old, err := store.OpenLog(store.OS{}, path, store.Options{})
	if err != nil {
		return "", fmt.Errorf("--fork: %w", err)
	}
	defer func() {
		if err := old.Close(); err != nil {
			log.Warn().Err(err).Msg("closing the forked session")
		}
	}()
	if path, err = session.ForkFile(shared, old.View(), dir); err != nil {
		return "", fmt.Errorf("--fork: %w", err)
	}
	return path, nil
}
