package actors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
	"troupe/store/resource"
	"troupe/tools"
)

// workspace is what a session works with beside its log: settings, resources,
// tools, where its files are. It is made once and outlives crashes;
// reload_resources makes another.
type workspace struct {
	cwd        string
	home       string
	dir        string   // where new session files go
	shared     bool     // sessions of other working directories are in dir as well
	own        []string // directories whose session files are the user's own; see store.DirChoice.Own
	memory     bool
	modelAsked bool          // the model was asked for: by a flag, or by open_session
	fs         store.FS      // of session files
	options    store.Options // of session files
	settings   session.Settings
	dirs       resource.Dirs
	files      *resource.Settings
	retry      RetryPolicy
	tools      *tools.Registry
	env        *tools.Env
	procs      *tools.Procs
	texts      func() *texts // templates, skills and prompt parts, read when first needed
	readTexts  func() *texts
	request    providers.Request // what every request of the session has in common
}

// assemble reads what a session needs to know before it can begin. Broken
// files are named in the log and left out; only what the caller asked for and
// cannot have is an error.
func assemble(cfg *Config, spec OpenSpec, gates protocol.Gates, procs *tools.Procs) (*workspace, *protocol.Error) {
	cwd := spec.Cwd
	if st, err := os.Stat(cwd); err != nil || !st.IsDir() {
		return nil, protocol.CodeCwdMissing.Errorf("Working directory does not exist: %s", cwd)
	}
	files, dirs, problems, err := cfg.loadSettings(cwd, gates, spec.Settings)
	if err != nil {
		return nil, protocol.CodeInvalidParams.Errorf("%s", err)
	}
	cfg.complain(problems)
	w := &workspace{
		cwd: cwd, home: cfg.Home, memory: spec.Memory, fs: cfg.fs(), options: cfg.logOptions(), files: files,
		retry: RetryPolicy{
			Base: time.Duration(files.Retry.BaseDelayMs) * time.Millisecond,
			Max:  time.Duration(files.Retry.MaxAgentDelayMs) * time.Millisecond,
		},
		tools: cfg.Tools, procs: procs, dirs: dirs,
	}
	choice := cfg.sessionDir(cwd, files)
	w.dir, w.shared = choice.Dir()
	w.own = choice.Own(dirs.Access == resource.Everything)
	if err := w.configure(cfg, spec, gates); err != nil {
		return nil, err
	}
	w.env = &tools.Env{
		Cwd: cwd, Home: cfg.Home, Shell: files.ShellPath, ShellPrefix: files.ShellCommandPrefix,
		AutoResize: files.Images.AutoResize, Files: cfg.Files, Procs: w.procs,
	}
	w.readTexts = func() *texts { return readTexts(cfg, spec, dirs, files) }
	w.forgetTexts()
	return w, nil
}

// loadSettings reads what counts for a session of a working directory.
func (c *Config) loadSettings(cwd string, gates protocol.Gates, own []byte) (*resource.Settings, resource.Dirs, []resource.Problem, error) {
	return resource.LoadSettings(resource.Dirs{Agent: c.AgentDir, Cwd: cwd, Home: c.Home},
		resource.Policy{Consent: c.Consent, Strict: gates.ContextOnly}, own)
}

func (c *Config) sessionDir(cwd string, files *resource.Settings) store.DirChoice {
	return store.DirChoice{
		Flag: c.SessionDir, Env: c.Env("PI_CODING_AGENT_SESSION_DIR"), Setting: files.SessionDir,
		AgentDir: c.AgentDir, Cwd: cwd, Home: c.Home,
	}
}

// SessionDir is where the sessions of a working directory are, and whether
// those of others are there as well.
func SessionDir(c *Config, cwd string) (dir string, shared bool) {
	gates, _ := c.Dialect.Gates(c.Features...)
	files, _, _, _ := c.loadSettings(cwd, gates, nil) // problems are named when the session is opened
	return c.sessionDir(cwd, files).Dir()
}

// network is how the session's requests travel.
func network(f *resource.Settings) providers.Network {
	n := providers.Network{Proxy: f.HTTPProxy}
	switch idle := f.HTTPIdleTimeoutMs; {
	case idle == 0: // pi's way to say never
		n.Stall = protocol.StallLimits{ConnectMs: -1, FirstMs: -1, ContentMs: -1}
	case idle != resource.DefaultHTTPIdleTimeoutMs:
		n.Stall = protocol.StallLimits{FirstMs: idle, ContentMs: idle}
	}
	if limit := f.Retry.Provider.TimeoutMs; limit > 0 {
		n.Stall.ConnectMs = limit
	}
	return n
}

// forgetTexts lets go of templates, skills and prompt parts until they are
// needed.
func (w *workspace) forgetTexts() { w.texts = sync.OnceValue(w.readTexts) }

// configure turns settings files, flags and the caller's wishes into the part
// of the configuration that the machine's rules depend on.
func (w *workspace) configure(cfg *Config, spec OpenSpec, gates protocol.Gates) *protocol.Error {
	f := w.files
	catalog, problem := cfg.Models.Catalog()
	cfg.complainOnce(problem)
	patterns := cfg.ModelPatterns
	if len(patterns) == 0 {
		patterns = f.EnabledModels
	}
	scope, warnings := providers.ResolveScope(catalog, patterns)
	for _, text := range warnings {
		cfg.complainOnce(errors.New(text))
	}
	wishes := providers.Wishes{Scope: scope, DefaultProvider: f.DefaultProvider, DefaultModel: f.DefaultModel}
	if spec.Model != "" || spec.Provider != "" {
		choice, err := providers.ResolveModel(catalog, spec.Provider, spec.Model)
		if err != nil {
			return protocol.CodeModelNotFound.Errorf("%s", err)
		}
		wishes.Flag = &choice
		w.modelAsked = true
	}
	choice := providers.ChooseModel(catalog, wishes)
	choice = w.waitForDefault(cfg, choice, catalog, scope, problem)
	cfg.useNamed(f)
	cfg.use(choice.Model)
	for _, m := range scope {
		cfg.use(m.Model)
	}
	if named, err := providers.ResolveModel(catalog, f.DefaultProvider, f.DefaultModel); err == nil && f.DefaultModel != "" {
		cfg.use(named.Model)
	}
	if choice.Warning != "" {
		cfg.complainOnce(errors.New(choice.Warning))
	}
	w.settings = session.Settings{
		Gates: gates, SteeringMode: f.SteeringMode, FollowUpMode: f.FollowUpMode, InterruptMode: f.InterruptMode,
		AutoRetry: f.Retry.Enabled, MaxRetries: int(f.Retry.MaxRetries), AutoCompaction: f.Compaction.Enabled,
		ReserveTokens: f.Compaction.ReserveTokens, ReserveFor: map[string]int64{},
		Model: choice.Model, Level: w.level(spec, choice), KnownTools: cfg.Tools.Names(),
		Check: cfg.checkCall, Confirm: cfg.Confirm, Ephemeral: spec.Memory, Project: f.Project,
	}
	if level := gates.Clamp(choice.Model, w.settings.Level); level != w.settings.Level {
		cfg.complainOnce(fmt.Errorf("thinking level %s: this dialect has none above %s; the feature %s or the dialect %s has",
			w.settings.Level, level, protocol.FeatureMaxLevel, protocol.DialectPi1))
	}
	for model := range f.Compaction.ModelOverrides {
		w.settings.ReserveFor[model], _ = f.Compaction.For(model)
	}
	w.settings.StreamRules = cfg.streamRules(w.dirs, f.TTSR)
	if f.Todo.Reminders {
		w.settings.MaxReminders = int(f.Todo.RemindersMax)
	}
	cfg.nameUnknownTools("settings defaultTools", f.DefaultTools)
	if !slices.Equal(spec.Tools, cfg.Default.Tools) { // those of the command line were named when it was read
		cfg.nameUnknownTools("open_session", spec.Tools)
	}
	usual := cfg.Tools.DefaultActive()
	if gates.TodoTool {
		usual = append(slices.Clone(usual), session.TodoTool.Name)
	}
	w.settings.Tools = activeTools(spec.Tools, f.DefaultTools, usual, cfg.Tools)
	for _, c := range scope {
		w.settings.Scope = append(w.settings.Scope, session.ScopedModel{Model: c.Model, Level: c.Level})
	}
	w.request = providers.Request{
		Budgets: budgets(f.ThinkingBudgets), BlockImages: f.Images.BlockImages, Cache: cfg.cacheRetention(),
		Network: network(f),
	}
	return nil
}

// newRequest begins a request to a model, of a run or for a summary. How it fails
// is a matter of the dialect, which may have changed since the last.
func (w *workspace) newRequest() providers.Request {
	req, gates, provider := w.request, w.settings.Gates, w.files.Retry.Provider
	req.FullErrors = gates.FullErrors
	req.Repeats = providers.Repeats{Max: int(provider.MaxRetries), MaxWait: time.Duration(provider.MaxRetryDelayMs) * time.Millisecond}
	if req.Repeats.Max < 0 && !gates.FailAtOnce {
		req.Repeats.Max = silentRepeats
	}
	return req
}

// silentRepeats is how often pi up to 0.74 asks again before it says that a
// request failed.
const silentRepeats = 2

// waitForDefault keeps a new session from another model than the settings' while
// models.json, where it may be described, cannot be read. If it can, the settings
// name a model that does not exist.
func (w *workspace) waitForDefault(cfg *Config, choice providers.Choice, catalog *protocol.Catalog, scope []providers.Choice, problem error) providers.Choice {
	provider, id := w.files.DefaultProvider, w.files.DefaultModel
	if w.modelAsked || len(scope) > 0 || id == "" || catalog.Find(provider, id) != nil {
		return choice
	}
	if problem == nil {
		cfg.complainOnce(fmt.Errorf("settings: the default model %s/%s is not known", provider, id))
		return choice
	}
	return providers.Choice{
		Model:   protocol.MissingModel(provider, id),
		Warning: fmt.Sprintf("the model %s/%s is not known: prompts are refused until it is, or another one is chosen", provider, id),
	}
}

// level is the thinking level a session begins with: the caller's, the one
// written behind the model, the settings' for the model, the settings'.
func (w *workspace) level(spec OpenSpec, choice providers.Choice) protocol.ThinkingLevel {
	level := w.files.DefaultThinkingLevel
	if m := choice.Model; m != nil {
		if l, ok := w.files.ModelThinkingLevels[m.Provider+"/"+m.ID]; ok {
			level = l
		}
	}
	if choice.Level != "" {
		level = choice.Level
	}
	if spec.Level != "" {
		level = spec.Level
	}
	return choice.Model.Clamp(level)
}

func budgets(b resource.ThinkingBudgets) map[protocol.ThinkingLevel]int64 {
	return map[protocol.ThinkingLevel]int64{
		protocol.ThinkingMinimal: b.Minimal, protocol.ThinkingLow: b.Low, protocol.ThinkingMedium: b.Medium,
		protocol.ThinkingHigh: b.High, protocol.ThinkingXHigh: b.XHigh, protocol.ThinkingMax: b.Max,
	}
}

// activeTools is the set a session begins with: the caller's, else the
// settings', which may add to (+name) or take from (-name) the built-in choice.
func activeTools(asked, configured, usual []string, reg *tools.Registry) []string {
	if asked != nil {
		return known(asked, reg)
	}
	if len(configured) == 0 {
		return usual
	}
	var set []string
	changes := slices.ContainsFunc(configured, func(n string) bool { return strings.HasPrefix(n, "+") || strings.HasPrefix(n, "-") })
	if changes {
		set = slices.Clone(usual)
	}
	for _, name := range configured {
		switch {
		case strings.HasPrefix(name, "-"):
			set = slices.DeleteFunc(set, func(n string) bool { return n == name[1:] })
		default:
			set = append(set, strings.TrimPrefix(name, "+"))
		}
	}
	return known(set, reg)
}

// KnownTool says whether this version has a tool.
func KnownTool(reg *tools.Registry, name string) bool {
	_, ok := reg.Lookup(name)
	return ok || name == session.TodoTool.Name
}

// nameUnknownTools names, once, the tools that a source wants and nobody has.
func (c *Config) nameUnknownTools(source string, names []string) {
	for _, n := range names {
		if name := strings.TrimLeft(n, "+-"); !KnownTool(c.Tools, name) {
			c.complainOnce(fmt.Errorf("%s: unknown tool %s", source, name))
		}
	}
}

func known(names []string, reg *tools.Registry) []string {
	set := []string{}
	for _, n := range names {
		if KnownTool(reg, n) && !slices.Contains(set, n) {
			set = append(set, n)
		}
	}
	return set
}

func (c *Config) logOptions() store.Options {
	return store.Options{Sync: c.Durability == "sync", Exclusive: true, NoLocks: func(error) {
		c.complainOnce(errNoLocks)
	}}
}

// fresh begins a new session of the working directory.
func (w *workspace) fresh(id, parent string) *store.Log {
	h := store.NewHeader(id, w.cwd, parent, time.Now().UnixMilli())
	if w.memory {
		return store.NewLog(w.fs, "", h, w.options)
	}
	o := w.options
	o.UniqueID = id != ""
	return store.NewLog(w.fs, filepath.Join(w.dir, store.FileName(h)), h, o)
}

var errNoLocks = errors.New("session files cannot be locked on this file system: nothing keeps two processes from writing to one session")

// durability is what an answer to prompt promises about a log.
func (w *workspace) durability(log *store.Log) string {
	switch {
	case log.Path() == "":
		return "none"
	case w.options.Sync:
		return "sync"
	}
	return "process"
}

// resolve makes a client's path absolute.
func (w *workspace) resolve(path string) string { return absolute(path, w.cwd, w.home) }

func (c *Config) complain(problems []resource.Problem) {
	for _, p := range problems {
		c.complainOnce(p)
	}
}

// complainOnce names a problem with a file on stderr, the first time.
func (c *Config) complainOnce(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if c.saidCount.Load() > maxSaid { // of so many projects that the list is larger than what it saves
		c.forgetSaid()
	}
	if _, said := c.said.LoadOrStore(text, true); !said {
		c.saidCount.Add(1)
		c.Log.Warn().Msg(text)
	}
}

// maxSaid bounds the problems that are remembered as named.
const maxSaid = 1000

// forgetSaid makes problems that are still there be named again.
func (c *Config) forgetSaid() {
	c.said.Clear()
	c.saidCount.Store(0)
}

func (c *Config) cacheRetention() providers.CacheRetention {
	if c.Env("PI_CACHE_RETENTION") == "long" {
		return providers.CacheLong
	}
	return providers.CacheShort
}

// streamRules are the rules that interrupt a stream.
func (c *Config) streamRules(dirs resource.Dirs, f resource.TTSR) session.RuleSettings {
	set := session.RuleSettings{
		Keep:  f.ContextMode == "keep",
		Prose: f.InterruptMode == "always" || f.InterruptMode == "prose-only",
		Calls: f.InterruptMode == "always" || f.InterruptMode == "tool-only",
	}
	if !f.Enabled || !set.Prose && !set.Calls {
		return set
	}
	if f.RepeatMode == "after-gap" {
		set.Gap = int(f.RepeatGap)
	}
	rules, problems := resource.LoadStreamRules(dirs, f.DisabledRules)
	c.complain(problems)
	for _, r := range rules {
		set.Rules = append(set.Rules, session.Rule{Trigger: r.Trigger, StreamRule: protocol.StreamRule{
			Name: r.Name, Path: r.Path, Content: r.Content, Description: r.Description, TTSRTrigger: r.TriggerText,
		}})
	}
	return set
}
