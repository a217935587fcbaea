package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"troupe/actors/session"
	"troupe/protocol/extension"
	"troupe/store"
	"troupe/store/config"
	"troupe/tools"
	engine "troupe/tools/extension"
)

// Words of --extension-errors.
const (
	errorsReport = "report"
	errorsFatal  = "fatal"
	errorsIgnore = "ignore"
)

// unknownOption is a long option that is none of ours. Extensions bring options of
// their own, and which they are is known when they have run.
type unknownOption struct {
	name   string
	value  string // what follows, "" for nothing
	inline bool   // the value came behind =, so that it is not an argument of its own
}

func (u unknownOption) String() string {
	switch {
	case u.inline:
		return u.name + "=" + u.value
	case u.value != "":
		return u.name + " " + u.value
	}
	return u.name
}

var longOption = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^--[A-Za-z][A-Za-z0-9_.:-]*$`) })

// isLong says whether a word has the form of an option that an extension may have.
func isLong(name string) bool { return longOption().MatchString(name) }

// isValue says whether a word may be the value of the option before it.
func isValue(arg string) bool {
	return !strings.HasPrefix(arg, "@") && (!strings.HasPrefix(arg, "-") || arg == "-")
}

// words are all the arguments, those among them that may be values of options.
func (o *options) words() int {
	n := len(o.messages)
	for _, u := range o.unknown {
		if u.value != "" && !u.inline {
			n++
		}
	}
	return n
}

// checkExtensions looks for what the command line may mean when it has an option that
// we do not know, or wants a failure of an extension to end the start. An unknown
// option is an error unless there is an extension that might have it. topic is the command whose help the error
// names, and others are the flags that it has beside those of o.
func (o *options) checkExtensions(topic string, others []section) (code int, ok bool) {
	if len(o.unknown) == 0 && o.extensionErrors != errorsFatal {
		return 0, true
	}
	found, problems := o.findExtensions()
	if len(o.unknown) > 0 && len(found) == 0 {
		return exitCode(usageError{unknownOptionError(o.unknown[0].name, append(others, o.sections()...)), topic}), false
	}
	if o.extensionErrors != errorsFatal || o.extensions.Host == config.HostOff {
		return 0, true
	}
	for _, e := range o.tryExtensions(found) {
		problems = append(problems, fmt.Errorf("failed to load extension %s: %s", e.Path, e.Message))
	}
	for _, p := range problems {
		fmt.Fprintln(stderr, "troupe:", p)
	}
	return exitError, len(problems) == 0
}

// tryExtensions loads extensions for nothing but to see whether they can be.
func (o *options) tryExtensions(found []config.Extension) []extension.LoadError {
	if len(found) == 0 {
		return nil
	}
	guard := tools.NewGuard()
	defer guard.Close()
	host := o.newExtensionHost(guard, zerolog.Nop(), nil)
	defer host.Close()
	cwd, _ := os.Getwd()
	spec := extension.Spec{Cwd: cwd, Flags: o.extensionOptions()}
	for _, x := range found {
		spec.Entries = append(spec.Entries, session.ExtensionEntry(x))
	}
	said := make(chan []extension.LoadError, 1)
	host.Open(spec, func(m extension.Said) {
		switch m := m.(type) {
		case extension.Ready:
			said <- m.Errors
		case extension.Gone:
			select {
			case said <- []extension.LoadError{{Path: "<runtime>", Message: m.Why}}:
			default:
			}
		default: // nobody listens yet
		}
	})
	return <-said
}

// findExtensions finds the extensions of the default session's directory. What is
// wrong with settings is named when the session is opened.
func (o *options) findExtensions() (found []config.Extension, problems []error) {
	home := homeDir()
	cwd, err := workingDir(o.cwd, home)
	if err != nil {
		return nil, nil
	}
	settings, dirs, _, err := config.LoadSettings(
		config.Dirs{Agent: store.AgentDir(o.agentDir, os.Getenv, home), Cwd: cwd, Home: home}, config.Policy{Consent: o.consent, Budget: o.budget}, nil)
	if err != nil {
		return nil, nil
	}
	_, found, wrong := config.FindExtensions(dirs, settings, o.extensionFlags())
	for _, p := range wrong {
		problems = append(problems, p)
	}
	return found, problems
}

// extensionFlags is what the command line says of extensions.
func (o *options) extensionFlags() config.ExtensionFlags {
	f := o.extensions
	f.Global = globalModules
	return f
}

// globalModules are the directories where npm installs what is for everybody, by its
// setting and by where it lies itself. It is not asked: that takes half a second.
func globalModules() (dirs []string) {
	if prefix := os.Getenv("npm_config_prefix"); prefix != "" {
		dirs = append(dirs, filepath.Join(prefix, "lib", "node_modules"))
	}
	for _, bin := range filepath.SplitList(os.Getenv("PATH")) {
		for _, name := range []string{"npm", "node"} {
			dir := filepath.Join(bin, "..", "lib", "node_modules")
			if _, err := os.Stat(filepath.Join(bin, name)); err == nil && filepath.IsAbs(bin) && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// warm begins with the process of extensions where the command line names some: the default
// session will want it.
func (o *options) warm(host extension.Host) {
	f := o.extensions
	if c, ok := host.(*engine.Children); ok && len(f.Sources)+len(f.Hooks)+len(f.Tools) > 0 && !o.multiSession && !o.sandbox.On() {
		go c.Warm()
	}
}

// newExtensionHost is what runs extensions; nil for nothing. It starts nothing before
// one is found. What they say is heard in turns; nil for none.
func (o *options) newExtensionHost(guard *tools.Guard, log zerolog.Logger, turns engine.Turns) extension.Host {
	switch o.extensions.Host {
	case config.HostOff:
		return nil
	case "inline":
		return engine.NewInline(engine.Options{
			Limits: engine.DefaultLimits(), CacheDir: engine.CacheDir(), Guard: guard, Files: new(tools.Files), Version: version, PiVersion: piVersion,
			Models: knownModels, ProviderName: knownName,
			InDaemon: true, Turns: turns,
		})
	default:
		return engine.NewChildren(engine.ChildOptions{
			Args: []string{extHostErrand, cmp.Or(o.extensions.Host, "auto")}, Env: os.Environ(), Procs: tools.NewProcs(guard),
			Log: func(line string) { log.Warn().Str("from", "extensions").Msg(line) }, Turns: turns,
		})
	}
}

// extensionOptions are the options that none of ours are: extensions may claim them.
func (o *options) extensionOptions() map[string]string {
	list := map[string]string{}
	for _, u := range o.unknown {
		list[strings.TrimPrefix(u.name, "--")] = u.value
	}
	return list
}
