package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/actors/link"
	"troupe/actors/session"
	"troupe/actors/toolbox"
	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/providers"
	"troupe/providers/registry"
	"troupe/store"
	"troupe/store/config"
	"troupe/tools"
)

// chooseModel checks --provider, --model and --api-key at once: a typo is a
// failure to start, not an answer to the first command.
func chooseModel(o *options, models *registry.Registry) error {
	if o.provider == "" && o.model == "" {
		if o.apiKey != "" {
			return errors.New("--api-key needs --provider or --model")
		}
		return nil
	}
	catalog, problems := models.Catalog()
	choice, err := providers.ResolveModel(catalog, o.provider, o.model)
	provider, _, named := strings.Cut(o.model, "/")
	if unknown := err != nil || o.provider == "" && providers.Foreign(catalog, o.model); unknown && (named || o.provider != "") && o.extended() {
		if o.apiKey != "" {
			models.SetKey(cmp.Or(o.provider, provider), o.apiKey)
		}
		return nil // an extension may bring it: the session says whether one has
	}
	if err != nil {
		err = fmt.Errorf("%w: troupe --list-models lists the models that have credentials", err)
		if problems != nil {
			err = fmt.Errorf("%w\n%w", err, problems)
		}
		return err
	}
	if o.apiKey != "" {
		models.SetKey(choice.Model.Provider, o.apiKey)
	}
	return nil
}

// activeTools turns --tools, --no-tools, --no-builtin-tools and --exclude-tools into
// a set; nil is the default one. A tool that is to be left out and does not exist is
// an error: who wrote Bash or * wants a tool gone that would stay. Of a name that an
// extension may have the session says whether it is unknown.
func activeTools(o *options, reg *tools.Registry) ([]string, error) {
	own := sync.OnceValue(func() toolbox.Box { return toolbox.Known(reg) })
	extended := sync.OnceValue(o.extended)
	known := func(name string) bool {
		return own().Knows(name) || extended()
	}
	if err := own().Empty(o.tools); err != nil && !extended() {
		return nil, fmt.Errorf("--tools: %w", err)
	}
	for _, name := range o.excludeTools {
		if _, is := own().Lookup(name); !is && !extended() {
			return nil, unknownTool("--exclude-tools", name, reg)
		}
	}
	set := o.tools
	if set == nil && (o.noTools || o.noBuiltinTools) {
		set = []string{}
	}
	if set != nil { // from the usual ones the session takes them
		set = slices.DeleteFunc(slices.Clone(set), func(n string) bool { return slices.Contains(o.excludeTools, n) })
	}
	for _, f := range []struct {
		flag  string
		names []string
	}{{"--tools", o.tools}, {"--confirm", o.confirm}} {
		for _, name := range f.names {
			if !known(name) {
				o.warnings = append(o.warnings, f.flag+": unknown tool "+name)
			}
		}
	}
	return set, nil
}

// unknownTool is the error for the name of a tool.
func unknownTool(name, tool string, reg *tools.Registry) error {
	if best := closest(tool, reg.Names()); best != "" {
		return suggestion{fmt.Errorf("%s: unknown tool %q (did you mean %q?)", name, tool, best)}
	}
	return fmt.Errorf("%s: unknown tool %q: want %s", name, tool, either(reg.Names()))
}

// extended says whether there are extensions that run.
func (o *options) extended() bool {
	found, _ := o.findExtensions()
	return len(found) > 0 && o.extensions.Host != config.HostOff
}

// texts reads --system-prompt and --append-system-prompt: the content of a file
// if there is one of that name, else the text itself.
func texts(o *options, cwd string, spec *link.OpenSpec) error {
	read := func(value string) (string, error) {
		path := value
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		if len(value) > 4096 || strings.ContainsAny(value, "\n\x00") {
			return value, nil
		}
		content, err := bounded.ReadFile(path, protocol.MaxTextFile)
		if errors.As(err, new(bounded.TooLarge)) {
			return "", fmt.Errorf("%s is %w", path, err)
		}
		if st, gone := os.Stat(path); gone == nil && errors.Is(err, bounded.ErrNotFile) && !st.IsDir() {
			return "", fmt.Errorf("%s is %w", path, err)
		}
		if errors.Is(err, fs.ErrPermission) {
			return "", err
		}
		if err != nil { // no file of that name
			return value, nil
		}
		return string(content), nil
	}
	var err error
	if spec.SystemPrompt, err = read(o.systemPrompt); err != nil {
		return fmt.Errorf("--system-prompt: %w", err)
	}
	var parts []string
	for _, value := range o.appendSystemPrompt {
		part, err := read(value)
		if err != nil {
			return fmt.Errorf("--append-system-prompt: %w", err)
		}
		parts = append(parts, part)
	}
	spec.AppendSystemPrompt = strings.Join(parts, "\n\n")
	return nil
}

// chooseSession opens the session that the command line means. What cannot be opened
// fails here, with the file untouched.
func chooseSession(o *options, cfg *actors.Config, log zerolog.Logger) error {
	spec := &cfg.Sessions.Default
	err := findSession(o, cfg.Sessions, cfg.Conn, spec, log)
	if err == nil && spec.Path != "" { // before the daemon starts
		spec.Log, err = session.OpenSession(cfg.Sessions, spec.Path)
	}
	return err
}

// findSession finds the file of --continue, --resume, --fork, --session-id and --session.
func findSession(o *options, shared *session.Shared, of conn.Config, spec *link.OpenSpec, log zerolog.Logger) (err error) {
	_, rules, ok := of.Dialect.Open(of.Features...)
	if !ok {
		return badValue("--dialect", string(of.Dialect), wanted(either(dialectNames())))
	}
	if !o.cont && !o.resume && o.fork == "" && o.sessionID == "" && o.session == "" {
		return nil // a new session begins
	}
	dir, common := session.SessionDir(shared, rules, spec.Cwd)
	query := store.Query{Dir: dir}
	if common {
		query.Cwd = spec.Cwd
	}
	lister := store.NewLister(store.OS{})
	if found, err := inCluster(o, shared.Cluster, spec); found || err != nil {
		return err
	}
	switch {
	case o.cont:
		return continueNewest(lister, query, spec)
	case o.resume:
		spec.Path, err = pickSession(lister, query)
	case o.fork != "":
		if err = namedSession(lister, query, spec, shared, o.fork, true, false); err == nil {
			spec.Path, err = forkSession(shared, spec.Path, dir, log)
		}
	case o.sessionID != "":
		return createOrLoad(lister, query, o.sessionID, spec)
	case o.session != "":
		return namedSession(lister, query, spec, shared, o.session, false, !o.creates)
	}
	return err
}

// inCluster finds it among the sessions of the cluster, and says whether it is one of them: what is not may be in a file of this node.
func inCluster(o *options, of *session.Cluster, spec *link.OpenSpec) (found bool, err error) {
	id := cmp.Or(o.session, o.sessionID)
	switch {
	case of == nil || isPath(id):
		return false, nil
	case o.cont:
		spec.Path, err = of.Newest(spec.Cwd)
		return spec.Path != "", err
	case id == "":
		return false, nil
	}
	path, elsewhere, found, err := of.Resolve(spec.Cwd, id)
	if o.sessionID != "" && filepath.Base(path) != id+".jsonl" { // it is to begin
		return false, err
	}
	if found && elsewhere != "" {
		return false, fmt.Errorf("session %q belongs to another project: %s (use --session with its path, or --cwd)", id, elsewhere)
	}
	if found {
		spec.Path = path
	}
	return found, err
}

// isPath says whether --session names a file, and no id.
func isPath(name string) bool {
	return strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".jsonl")
}

func continueNewest(lister *store.Lister, q store.Query, spec *link.OpenSpec) error {
	head, ok, err := lister.MostRecent(q)
	if err != nil {
		return fmt.Errorf("--continue: %w", err)
	}
	if ok { // without one, a new session begins
		spec.Path = head.Path
	}
	return nil
}

// createOrLoad opens the session of an id, or begins it.
func createOrLoad(lister *store.Lister, q store.Query, id string, spec *link.OpenSpec) error {
	if err := store.CheckSessionID(id); err != nil {
		return err
	}
	heads, err := lister.Heads(q)
	if err != nil {
		return fmt.Errorf("--session-id: %w", err)
	}
	for _, h := range heads {
		if h.Header.ID == id {
			spec.Path = h.Path
			return nil
		}
	}
	spec.ID = id
	return nil
}

// namedSession finds the session that --session means: a path, or the beginning
// of an id, first among those of the working directory; with anywhere, then
// among those of all projects. With mustExist the file of a path has to be there.
func namedSession(lister *store.Lister, q store.Query, spec *link.OpenSpec, shared *session.Shared, name string, anywhere, mustExist bool) error {
	if isPath(name) {
		path := store.ExpandHome(name, shared.Home)
		if !filepath.IsAbs(path) {
			path = filepath.Join(spec.Cwd, path)
		}
		spec.Path = filepath.Clean(path)
		_, err := os.Stat(spec.Path)
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case missing && anywhere:
			return fmt.Errorf("--fork %s: there is no such file; want the file or the id of a session", spec.Path)
		case missing && mustExist:
			return fmt.Errorf("--session %s: there is no such file; to create a session use --session-id, or no flag at all", spec.Path)
		}
		return nil
	}
	head, elsewhere, ok, err := lister.Resolve(q, store.Root(shared.AgentDir), name)
	switch {
	case err != nil:
		return fmt.Errorf("--session %s: %w", name, err)
	case !ok:
		return fmt.Errorf("no session found matching %q: troupe --resume lists those of this directory", name)
	case elsewhere && !anywhere:
		return fmt.Errorf("session %q belongs to another project: %s (use --session with its path, or --cwd)", name, head.Header.Cwd)
	}
	spec.Path = head.Path
	return nil
}
