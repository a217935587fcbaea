package session

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"time"
	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/link"
	"troupe/actors/toolbox"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
	"troupe/store/config"
	"troupe/tools"
	"troupe/tools/policy"
)

// workspace is what a session works with beside its log: settings, resources,
// tools, where its files are. It is made once and outlives crashes;
// reload_resources makes another.
type workspace struct {
	cwd        string
	logs       logDir
	modelAsked bool                   // the model was asked for: by a flag, or by open_session
	levelAsked protocol.ThinkingLevel // likewise, also as a suffix of the model; "" if it was not
	settings   core.Settings
	dirs       config.Dirs
	files      *config.Settings
	tools      toolbox.Box // the daemon's own
	env        *tools.Env
	prompts    prompts
	request    providers.Request // what every request of the session has in common
	brought
}

// brought is what files of the user and the project bring.
type brought struct {
	extensions  []config.Extension
	agents      config.Agents
	permissions *policy.Set
}

// checkCwd says why a session cannot work in a directory.
func checkCwd(cwd string) *protocol.Error {
	if !filepath.IsAbs(cwd) { // trust and grants are those of a directory, whoever asks from wherever
		return protocol.CodeCwdMissing.Errorf("Working directory is not absolute: %s", cwd)
	}
	if st, err := os.Stat(cwd); err != nil || !st.IsDir() {
		return protocol.CodeCwdMissing.Errorf("Working directory does not exist: %s", cwd)
	}
	return nil
}

// newWorkspace reads what a session needs to know before it can begin. Broken
// files are named in the log and left out; only what the caller asked for and
// cannot have is an error.
func newWorkspace(shared *Shared, spec link.OpenSpec, rules protocol.Rules, procs *tools.Procs) (*workspace, *protocol.Error) {
	cwd := spec.Cwd
	if err := checkCwd(cwd); err != nil {
		return nil, err
	}
	files, dirs, problems, err := shared.loadSettings(spec, rules)
	if err == nil {
		err = dirs.CheckPrompts(spec.SystemPrompt, spec.AppendSystemPrompt)
	}
	if errors.As(err, new(*config.OutsideError)) {
		return nil, protocol.CodeForbidden.Errorf("%s", err)
	}
	if err != nil {
		return nil, protocol.CodeInvalidParams.Errorf("%s", err)
	}
	shared.complaints.all(problems)
	w := &workspace{cwd: cwd, files: files, dirs: dirs}
	packages, found := shared.findExtensions(dirs, files)
	w.extensions = found
	w.permissions = shared.readPermissions(dirs, spec.Child, func() []string { return config.Programs(dirs, files, packages, found) })
	sandbox, refused := shared.sandbox(spec, w.permissions.Sandbox(), cwd)
	if refused != nil {
		return nil, refused
	}
	w.loadAgents(shared)
	w.tools = w.ownBox(shared, spec, rules, sandbox.On())
	w.logs = newLogDir(shared, shared.sessionDir(cwd, files), dirs.Access == config.Everything, spec.Memory)
	if err := w.configure(shared, spec, rules); err != nil {
		return nil, err
	}
	w.env = &tools.Env{
		Cwd: cwd, Home: shared.Home, Shell: files.ShellPath, ShellPrefix: files.ShellCommandPrefix,
		AutoResize: files.Images.AutoResize, Files: shared.Files, Procs: procs, Sandbox: sandbox,
	}
	w.prompts.read = func(more extension.Resources) *promptResources {
		return readPromptResources(shared, spec, dirs, files, packages, more)
	}
	return w, nil
}

// findExtensions finds packages and extensions: of these none, if somebody said so.
func (h *Shared) findExtensions(dirs config.Dirs, files *config.Settings) ([]config.Package, []config.Extension) {
	packages, found, problems := config.FindExtensions(dirs, files, h.Extensions)
	h.complaints.all(problems)
	if h.Extensions.Host == config.HostOff {
		return packages, nil
	}
	return packages, found
}

// trusted says whether what lies in the project counts.
func (w *workspace) trusted() bool { return w.dirs.Access == config.Everything }

// loadSettings reads what counts for a session of a working directory.
func (h *Shared) loadSettings(spec link.OpenSpec, rules protocol.Rules) (*config.Settings, config.Dirs, []config.Problem, error) {
	cwd, own, child := spec.Cwd, spec.Settings, spec.Child
	policy := config.Policy{Consent: h.Consent, Run: h.trusts(cwd), Strict: rules.ContextOnly, Budget: h.Budget}
	if child != nil {
		policy.Above = &child.Trust
	}
	return config.LoadSettings(config.Dirs{Agent: h.AgentDir, Cwd: cwd, Home: h.Home, Within: spec.Allowed}, policy, own)
}

func (h *Shared) sessionDir(cwd string, files *config.Settings) store.DirChoice {
	return store.DirChoice{
		Flag: h.SessionDir, Env: h.Env("PI_CODING_AGENT_SESSION_DIR"), Setting: files.SessionDir,
		AgentDir: h.AgentDir, Cwd: cwd, Home: h.Home,
	}
}

// SessionDir is where the sessions of a working directory are, and whether
// those of others are there as well.
func SessionDir(h *Shared, rules protocol.Rules, cwd string) (dir string, shared bool) {
	files, _, _, _ := h.loadSettings(link.OpenSpec{Cwd: cwd}, rules) // problems are named when the session is opened
	return h.sessionDir(cwd, files).Dir()
}

// CheckLimits says what of the limits of the default session cannot be obeyed, so
// that it does not begin: a setting, or what a model costs. Without a default session
// it is only settings.
func CheckLimits(h *Shared, rules protocol.Rules, noDefault bool) error {
	files, _, _, err := h.loadSettings(link.OpenSpec{Cwd: h.Default.Cwd}, rules) // problems are named when the session is opened
	if err != nil || noDefault {
		return err
	}
	if files.Task.Budget.Limits.None() {
		return nil
	}
	w, failed := newWorkspace(h, h.Default, rules, tools.NewProcs(h.Guard))
	if failed != nil {
		return failed
	}
	if err := core.PriceError(w.settings.Model, w.settings.Budget); err != nil {
		return err
	}
	return nil
}

// network is how the session's requests travel.
func network(f *config.Settings) providers.Network {
	n := providers.Network{Proxy: f.HTTPProxy}
	switch idle := f.HTTPIdleTimeoutMs; {
	case idle == 0: // pi's way to say never
		n.Stall = protocol.StallLimits{ConnectMs: -1, FirstMs: -1, ContentMs: -1}
	case idle != config.DefaultHTTPIdleTimeoutMs:
		n.Stall = protocol.StallLimits{FirstMs: idle, ContentMs: idle}
	}
	if limit := f.Retry.Provider.TimeoutMs; limit > 0 {
		n.Stall.ConnectMs = limit
	}
	return n
}

// configure turns settings files, flags and the caller's wishes into the part
// of the configuration that the machine's rules depend on.
func (w *workspace) configure(shared *Shared, spec link.OpenSpec, rules protocol.Rules) *protocol.Error {
	choice, scope, err := w.chooseModel(shared, spec)
	if err != nil {
		return err
	}
	if !spec.Inherited.Level {
		w.levelAsked = spec.Level
	}
	if w.modelAsked && !spec.Inherited.Model {
		w.levelAsked = cmp.Or(w.levelAsked, choice.Level)
	}
	f := w.files
	w.settings = core.Settings{
		Rules: rules,
		Modes: core.Modes{
			SteeringMode: f.SteeringMode, FollowUpMode: f.FollowUpMode, InterruptMode: f.InterruptMode,
			AutoRetry: f.Retry.Enabled, AutoCompaction: f.Compaction.Enabled,
			PermissionMode: protocol.PermissionMode(w.permissions.Mode(policy.Mode(cmp.Or(spec.PermissionMode, shared.PermissionMode)))),
		},
		MaxRetries: int(f.Retry.MaxRetries), ReserveTokens: f.Compaction.ReserveTokens, ReserveFor: map[string]int64{},
		Model: choice.Model, Level: w.level(spec, choice), KnownTools: w.tools.Infos(),
		Check:   w.tools.CheckWith,
		Confirm: shared.Confirm, Permissions: w.permissions.Active(), ApprovalTimeout: shared.ApprovalTimeout.Milliseconds(), Ephemeral: spec.Memory, Project: f.Project,
		NoFiles: shared.Cluster.noFiles(w.cwd),
	}
	if level := rules.Clamp(choice.Model, w.settings.Level); level != w.settings.Level {
		shared.complaints.about(fmt.Errorf("thinking level %s: this dialect has none above %s; the feature %s or the dialect %s has",
			w.settings.Level, level, protocol.FeatureMaxLevel, protocol.DialectPi1))
	}
	for model := range f.Compaction.ModelOverrides {
		w.settings.ReserveFor[model], _ = f.Compaction.For(model)
	}
	w.settings.Budget = f.Task.Budget
	if m := choice.Model; core.Unpriced(m, f.Task.Budget.Limits) && !f.Task.Budget.NeedsPrice() {
		shared.complaints.about(fmt.Errorf("the cost of the session is limited, but it is not known what %s/%s costs: what it uses counts as nothing (task.budget.requirePrice is false)", m.Provider, m.ID))
	}
	w.settings.StreamRules = shared.streamRules(w.dirs, f.TTSR)
	if f.Todo.Reminders {
		w.settings.MaxReminders = int(f.Todo.RemindersMax)
	}
	if len(w.extensions) == 0 { // else when it is known what they bring
		w.nameUnknownTools(shared, w.tools, spec)
	}
	if err := w.checkTools(shared, spec); err != nil {
		return err
	}
	usual := w.usualTools(shared, rules)
	w.settings.Tools = slices.DeleteFunc(w.tools.Active(spec.Tools, f.DefaultTools, usual), spec.LeavesOut)
	w.settings.TodosOff = spec.LeavesOut(core.TodoTool) ||
		!slices.Contains(w.tools.Active(spec.Tools, f.DefaultTools, append(slices.Clip(usual), core.TodoTool)), core.TodoTool)
	for _, c := range scope {
		w.settings.Scope = append(w.settings.Scope, core.ScopedModel{Model: c.Model, Level: c.Level})
	}
	w.configureTasks(shared, spec)
	w.request = providers.Request{
		Budgets: budgets(f.ThinkingBudgets), BlockImages: f.Images.BlockImages, Cache: shared.cacheRetention(),
		Network: network(f),
	}
	return nil
}

// checkTools refuses a list of tools none of which exists, unless an extension may bring them: the session would
// be without tools, most likely because of a misspelled name.
//
// In a root without files the tools that use files are missing on purpose, and a list of them is valid.
func (w *workspace) checkTools(shared *Shared, spec link.OpenSpec) *protocol.Error {
	if len(w.extensions) > 0 || spec.Child != nil || shared.Cluster.noFiles(w.cwd) {
		return nil
	}
	source, list := "tools", spec.Tools
	if list == nil {
		source, list = "settings defaultTools", w.files.DefaultTools
	}
	if err := w.tools.Empty(list); err != nil {
		return protocol.CodeInvalidParams.Errorf("%s: %s", source, err)
	}
	return nil
}

// usualTools are those that are active unless somebody says which.
func (w *workspace) usualTools(shared *Shared, rules protocol.Rules) []string {
	usual := shared.Tools.DefaultActive()
	if rules.TodoTool {
		usual = append(usual, core.TodoTool)
	}
	if w.offersTasks(rules) {
		usual = append(usual, core.TaskTool)
	}
	return usual
}

// chooseModel finds the session's first model, and those that it goes through.
func (w *workspace) chooseModel(shared *Shared, spec link.OpenSpec) (choice providers.Choice, scope []providers.Choice, _ *protocol.Error) {
	f := w.files
	catalog, problem := shared.Models.Catalog()
	shared.complaints.about(problem)
	patterns := shared.ModelPatterns
	if len(patterns) == 0 {
		patterns = f.EnabledModels
	}
	scope, warnings := providers.ResolveScope(catalog, patterns)
	for _, text := range warnings {
		shared.complaints.about(errors.New(text))
	}
	wishes := providers.Wishes{Scope: scope, DefaultProvider: f.DefaultProvider, DefaultModel: f.DefaultModel}
	if spec.Model != "" || spec.Provider != "" {
		choice, err := providers.ResolveModel(catalog, spec.Provider, spec.Model)
		if awaited := w.awaitedModel(spec.Provider, spec.Model); awaited.Model != nil && (err != nil || spec.Provider == "" && providers.Foreign(catalog, spec.Model)) {
			choice, err = awaited, nil
		}
		if err != nil {
			return choice, nil, protocol.CodeModelNotFound.Errorf("%s", err)
		}
		wishes.Flag = &choice
		w.modelAsked = true
	}
	choice = w.waitForDefault(shared, providers.ChooseModel(catalog, wishes), catalog, scope, problem)
	shared.used.named(f, shared.ModelPatterns)
	shared.used.use(choice.Model)
	for _, m := range scope {
		shared.used.use(m.Model)
	}
	if named, err := providers.ResolveModel(catalog, f.DefaultProvider, f.DefaultModel); err == nil && f.DefaultModel != "" {
		shared.used.use(named.Model)
	}
	if choice.Warning != "" {
		shared.complaints.about(errors.New(choice.Warning))
	}
	return choice, scope, nil
}

// newRequest returns a request to a model, without the model and the conversation. left is how often
// the settings allow it to be repeated. How it fails depends on the dialect, which may have changed
// since the last request.
func (w *workspace) newRequest(left int) providers.Request {
	req, rules := w.request, w.settings.Rules
	req.FullErrors = rules.FullErrors
	req.Repeats = silentRepeats(w.files.Retry.Provider, rules, left)
	return req
}

const (
	oldPiRepeats = 2               // how often pi up to 0.74 repeats a request before it reports a failure
	maxQuietWait = 2 * time.Second // the default of retry.baseDelayMs: longer waits are announced
)

// silentRepeats returns how a request is repeated before the session sees a failure: at most left times.
// With the session's retries switched off, only retry.provider.maxRetries counts.
func silentRepeats(set config.ProviderRetry, rules protocol.Rules, left int) providers.Repeats {
	r := providers.Repeats{MaxWait: time.Duration(set.MaxRetryDelayMs) * time.Millisecond}
	if left == core.RetriesOff {
		r.Max = int(max(set.MaxRetries, 0))
		return r
	}
	wanted := int(set.MaxRetries)
	if wanted < 0 && !rules.FailAtOnce {
		wanted = oldPiRepeats
	}
	r.Max, r.MaxQuiet = max(0, min(wanted, left)), maxQuietWait
	return r
}

// waitForDefault keeps a new session from another model than the settings' while
// models.json, where it may be described, cannot be read. If it can, the settings
// name a model that does not exist.
func (w *workspace) waitForDefault(shared *Shared, choice providers.Choice, catalog *protocol.Catalog, scope []providers.Choice, problem error) providers.Choice {
	provider, id := w.files.DefaultProvider, w.files.DefaultModel
	if w.modelAsked || len(scope) > 0 || id == "" || catalog.Find(provider, id) != nil {
		return choice
	}
	if problem == nil {
		shared.complaints.about(fmt.Errorf("settings: the default model %s/%s is not known", provider, id))
		return choice
	}
	return providers.Choice{
		Model:   protocol.MissingModel(provider, id),
		Warning: fmt.Sprintf("the model %s/%s is not known: prompts are refused until it is, or another one is chosen", provider, id),
	}
}

// awaitedModel takes the place of a model that is not known and that an extension may
// bring; none if none can.
func (w *workspace) awaitedModel(provider, id string) providers.Choice {
	if provider == "" {
		provider, id, _ = strings.Cut(id, "/")
	}
	if len(w.extensions) == 0 || provider == "" || id == "" {
		return providers.Choice{}
	}
	id, level := providers.SplitLevel(id)
	return providers.Choice{Model: protocol.MissingModel(provider, id), Level: level}
}

// level is the thinking level a session begins with: the caller's, the one
// written behind the model, the settings' for the model, the settings'.
func (w *workspace) level(spec link.OpenSpec, choice providers.Choice) protocol.ThinkingLevel {
	level := w.files.DefaultThinkingLevel
	if m := choice.Model; m != nil {
		if l, ok := w.files.ModelThinkingLevels[m.Provider+"/"+m.ID]; ok {
			level = l
		}
	}
	return choice.Model.Clamp(cmp.Or(spec.Level, choice.Level, level))
}

func budgets(b config.ThinkingBudgets) map[protocol.ThinkingLevel]int64 {
	return map[protocol.ThinkingLevel]int64{
		protocol.ThinkingMinimal: b.Minimal, protocol.ThinkingLow: b.Low, protocol.ThinkingMedium: b.Medium,
		protocol.ThinkingHigh: b.High, protocol.ThinkingXHigh: b.XHigh, protocol.ThinkingMax: b.Max,
	}
}

// nameUnknownTools names, once, the tools that were asked for and are not in a box.
func (w *workspace) nameUnknownTools(shared *Shared, box toolbox.Box, spec link.OpenSpec) {
	own := toolbox.Known(shared.Tools).With(toolbox.Submit{})
	has := func(name string) bool {
		return own.Knows(name) || box.Knows(name)
	}
	for _, wanted := range w.agents.Wanted {
		shared.complaints.all(wanted.Unknown(has))
	}
	name := func(source string, names []string) {
		for _, n := range names {
			if !has(n) {
				shared.complaints.about(fmt.Errorf("%s: unknown tool %s", source, n))
			}
		}
	}
	name("settings defaultTools", w.files.DefaultTools)
	if !slices.Equal(spec.Tools, shared.Default.Tools) {
		name("open_session", spec.Tools)
	}
	if len(w.extensions) > 0 { // else those of the command line were named when it was read
		name("--tools", shared.Default.Tools)
		name("--exclude-tools", spec.WithoutTools)
		name("--confirm", shared.Confirm)
	}
}

func (h *Shared) logOptions() store.Options {
	return store.Options{Sync: h.Durability == "sync", Exclusive: true, NoLocks: func(error) {
		h.complaints.about(errNoLocks)
	}}
}

var errNoLocks = errors.New("session files cannot be locked on this file system: nothing keeps two processes from writing to one session")

// logDir is where a session's file is, and how it is written.
type logDir struct {
	path    string
	shared  bool     // sessions of other working directories are there as well
	own     []string // directories whose session files are the user's own; see store.DirChoice.Own
	memory  bool     // new sessions are in no file
	fs      store.FS
	options store.Options
	keep    func(id, cwd string) (file string, by store.Keeper) // of new sessions; nil without a cluster
}

func newLogDir(shared *Shared, choice store.DirChoice, trusted, memory bool) logDir {
	d := logDir{own: choice.Own(trusted), memory: memory, fs: shared.fs(), options: shared.logOptions()}
	d.path, d.shared = choice.Dir()
	if cl := shared.Cluster; cl != nil {
		d.own = append(d.own, cl.Dir)
		d.keep = func(id, cwd string) (string, store.Keeper) {
			return cl.file(id), shared.keep(id, cl.wants(cluster.Wants{}, cwd))
		}
	}
	return d
}

// fresh begins a new session of a working directory.
func (d *logDir) fresh(id, cwd, parent string) *store.Log {
	h := store.NewHeader(id, cwd, parent, time.Now().UnixMilli())
	if d.memory {
		return store.NewLog(d.fs, "", h, d.options)
	}
	path, o := d.place(h, d.path)
	o.UniqueID = id != "" && d.keep == nil
	return store.NewLog(d.fs, path, h, o)
}

// place is where the file of a new session goes, and how it is written: in a directory, or where the
// copies of those are that the cluster keeps.
func (d *logDir) place(h protocol.Header, dir string) (path string, o store.Options) {
	o = d.options
	if d.keep == nil {
		return filepath.Join(dir, store.FileName(h)), o
	}
	path, o.Commit = d.keep(h.ID, h.Cwd)
	return path, o
}

// durability is what an answer to prompt promises about a log.
func (d *logDir) durability(log *store.Log) string {
	switch {
	case log.Path() == "":
		return "none"
	case d.options.Sync:
		return "sync"
	}
	return "process"
}

// resolve makes a client's path absolute.
func (w *workspace) resolve(path string) string {
	path = store.ExpandHome(path, w.env.Home)
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.cwd, path)
	}
	return filepath.Clean(path)
}

// outside refuses a path that leads to where the client may name no files: one that is relative
// to the working directory only the session can follow.
func (s *Session) outside(r link.Request) *protocol.Error {
	var paths []string
	switch cmd := r.Cmd.(type) {
	case protocol.ExportHTML:
		paths = []string{cmd.OutputPath}
	case protocol.SwitchSession:
		paths = []string{cmd.SessionPath}
	case protocol.NewSession:
		paths = []string{cmd.ParentSession}
	case protocol.ListSessions:
		paths = []string{cmd.SessionDir, cmd.Under}
	}
	for _, path := range paths {
		if r.Allowed != nil && path != "" && !r.Allowed(s.work.resolve(path)) {
			return protocol.CodeForbidden.Errorf("This client may not name files there: %s", path)
		}
	}
	if cmd, exports := r.Cmd.(protocol.ExportHTML); exports && r.Allowed != nil && cmd.OutputPath != "" {
		if !s.mayWrite(r.Allowed)(s.work.resolve(cmd.OutputPath)) {
			return protocol.CodeForbidden.Errorf("Clients over the network may not write to the agent directory: %s", cmd.OutputPath)
		}
	}
	return nil
}

func (h *Shared) cacheRetention() providers.CacheRetention {
	if h.Env("PI_CACHE_RETENTION") == "long" {
		return providers.CacheLong
	}
	return providers.CacheShort
}

// streamRules are the rules that interrupt a stream.
func (h *Shared) streamRules(dirs config.Dirs, f config.TTSR) core.RuleSettings {
	set := core.RuleSettings{Keep: f.ContextMode == "keep", Mode: f.InterruptMode}
	if !f.Enabled {
		return set
	}
	if f.RepeatMode == "after-gap" {
		set.Gap = int(f.RepeatGap)
	}
	rules, problems := config.LoadStreamRules(dirs, f.DisabledRules)
	h.complaints.all(problems)
	for _, r := range rules {
		rule := core.Rule{Trigger: r.Trigger, StreamRule: protocol.StreamRule{
			Name: r.Name, Path: r.Path, Content: r.Content, Description: r.Description, TTSRTrigger: r.TriggerText,
			Globs: r.Globs, AlwaysApply: r.AlwaysApply, InterruptMode: r.InterruptMode, Condition: r.Conditions, Scope: r.ScopeTexts,
			Source: protocol.RuleSource{Provider: "native", ProviderName: "troupe", Path: r.Path, Level: string(r.Location)},
		}}
		for _, s := range r.Scopes {
			rule.Scopes = append(rule.Scopes, core.RuleScope{Kind: s.Kind, Tool: s.Tool, Files: s.Files})
		}
		set.Rules = append(set.Rules, rule)
	}
	return set
}
