package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/jsonc"

	"troupe/protocol"
)

// Settings are the keys of settings.json that mean something without a
// terminal. Every field has its default after Defaults. Sizes are in tokens,
// times in milliseconds.
type Settings struct {
	DefaultProvider      string                            // "": chosen automatically
	DefaultModel         string                            // "": chosen automatically
	DefaultThinkingLevel protocol.ThinkingLevel            // medium
	ModelThinkingLevels  map[string]protocol.ThinkingLevel // by provider/id; beats DefaultThinkingLevel
	EnabledModels        []string                          // patterns; nil: all
	ThinkingBudgets      ThinkingBudgets
	DefaultTools         []string // names, or +name and -name; nil: the built-in choice

	SteeringMode  protocol.QueueMode     // one-at-a-time
	FollowUpMode  protocol.QueueMode     // one-at-a-time
	InterruptMode protocol.InterruptMode // immediate

	Compaction    Compaction
	BranchSummary BranchSummary
	Retry         Retry
	Images        Images
	TTSR          TTSR
	Todo          Todo
	Task          Task
	ModelRoles    map[string]string // models by the names of roles, such as smol

	ShellPath          string // "": found automatically
	ShellCommandPrefix string // a line put before every command
	InheritEnv         bool   // false: children do not see the keys of model providers
	SessionDir         string // "": below the agent directory

	HTTPProxy         string // "": from the environment
	HTTPIdleTimeoutMs int64  // 300000

	Auth          Auth // of the user's file; the daemon's
	DiscoverLocal bool // likewise: servers of models are looked for on this machine

	defaultTrust string                // ask, always, never; of projects that nothing is saved about
	Project      protocol.ProjectTrust // what was decided, and what was left out for it
	// Undecided says that nobody has said whether the project is trusted, nor that nobody
	// is to be asked.
	Undecided bool

	Skills              []Named // files and directories; see Named
	Prompts             []Named
	EnableSkillCommands bool // true

	Extensions  []Named
	Hooks       []Named // what extensions were called up to pi 0.34
	CustomTools []Named // likewise
	Packages    []PackageRef

	Given json.RawMessage // what was set, as an object, nil for nothing: the user's, the trusted project's over it, the session's over both
}

// ThinkingBudgets are tokens for thinking by level; 0 leaves the choice to the
// provider.
type ThinkingBudgets struct{ Minimal, Low, Medium, High, XHigh, Max int64 }

// DefaultHTTPIdleTimeoutMs is how long a provider may be silent, in
// milliseconds.
const DefaultHTTPIdleTimeoutMs = 300000

// Compaction says when history is summarised and how much stays.
type Compaction struct {
	Enabled          bool  // true; automatic compaction only
	ReserveTokens    int64 // 16384
	KeepRecentTokens int64 // 20000
	ModelOverrides   map[string]CompactionOverride
}

// CompactionOverride replaces single values for one model; nil keeps them.
type CompactionOverride struct {
	ReserveTokens    *int64 `json:"reserveTokens"`
	KeepRecentTokens *int64 `json:"keepRecentTokens"`
}

// For returns the values for a model, named provider/id.
func (c Compaction) For(model string) (reserveTokens, keepRecentTokens int64) {
	reserveTokens, keepRecentTokens = c.ReserveTokens, c.KeepRecentTokens
	if o := c.ModelOverrides[model]; o.ReserveTokens != nil {
		reserveTokens = *o.ReserveTokens
	}
	if o := c.ModelOverrides[model]; o.KeepRecentTokens != nil {
		keepRecentTokens = *o.KeepRecentTokens
	}
	return reserveTokens, keepRecentTokens
}

// BranchSummary is about summaries of branches that are left.
type BranchSummary struct {
	ReserveTokens int64 // 16384
}

// Retry is about failed model calls.
type Retry struct {
	Enabled         bool  // true
	MaxRetries      int64 // 3
	BaseDelayMs     int64 // 2000, doubled each time
	MaxAgentDelayMs int64 // 60000: the longest wait of our own
	Provider        ProviderRetry
}

// ProviderRetry is about retries below the agent's own.
type ProviderRetry struct {
	MaxRetries      int64 // -1: what the client's dialect does
	MaxRetryDelayMs int64 // 60000; 0: no limit
	TimeoutMs       int64 // until a response begins; 0: HTTPIdleTimeoutMs
}

// Images is about pictures on their way to a model.
type Images struct {
	AutoResize  bool // true
	BlockImages bool // false; true keeps all pictures from models
}

// TTSR is about rules that interrupt a stream.
type TTSR struct {
	Enabled       bool   // true
	ContextMode   string // discard, keep
	RepeatMode    string // once, after-gap
	RepeatGap     int64  // 10 turns
	InterruptMode string // always, prose-only, tool-only, never
	DisabledRules []string
}

// Todo is about reminders of open items.
type Todo struct {
	Reminders    bool  // true
	RemindersMax int64 // 3
}

// Named is a file, a directory or a pattern named in a list of resources. A
// leading ! takes away what matches, + and - a single path.
type Named struct {
	Text     string
	Base     string   // the directory relative paths start from
	Location Location // whose settings name it
}

// Defaults are the settings without any file.
func Defaults() *Settings {
	return &Settings{
		DefaultThinkingLevel: protocol.ThinkingMedium,
		SteeringMode:         protocol.QueueOneAtATime,
		FollowUpMode:         protocol.QueueOneAtATime,
		InterruptMode:        protocol.InterruptImmediate,
		Compaction:           Compaction{Enabled: true, ReserveTokens: 16384, KeepRecentTokens: 20000},
		BranchSummary:        BranchSummary{ReserveTokens: 16384},
		Retry: Retry{
			Enabled: true, MaxRetries: 3, BaseDelayMs: 2000, MaxAgentDelayMs: 60000,
			Provider: ProviderRetry{MaxRetries: -1, MaxRetryDelayMs: 60000},
		},
		Images:              Images{AutoResize: true},
		TTSR:                TTSR{Enabled: true, ContextMode: "discard", RepeatMode: "once", RepeatGap: 10, InterruptMode: "always"},
		Todo:                Todo{Reminders: true, RemindersMax: 3},
		Task:                defaultTask(),
		HTTPIdleTimeoutMs:   DefaultHTTPIdleTimeoutMs,
		EnableSkillCommands: true,
	}
}

// LoadSettings reads the user's settings.json, decides what the project may
// bring, puts the project's settings on top, and then those of one session, which
// its client has sent. It returns the directories with the access that was
// decided, for everything else that is read.
//
// A key of the project replaces the user's; objects are merged key by key, and
// lists of resources are joined. Keys may be nested or written with dots. A file
// that is no JSON (comments and trailing commas are allowed) is a problem and
// does not count; neither does a single value of the wrong kind. What does not
// count for another reason is a problem, too: it is unknown, this version does not
// obey it, or the project is not trusted with it. No file is ever written.
//
// What is wrong with the session's settings is the error: their author waits for
// the answer.
//
// So is a limit that cannot be obeyed, in whichever of the files that count: without
// it nothing would be limited.
func LoadSettings(d Dirs, policy Policy, session []byte) (*Settings, Dirs, []Problem, error) {
	s := Defaults()
	own := layer{path: "settings", base: d.Cwd, location: Path}
	if len(session) > 0 {
		tree, problem := parse(own.path, session)
		if problem != nil {
			return nil, d, nil, errors.New(problem.Error())
		}
		own.tree, own.src = tree, session
	}
	var found problems
	users := omp(d.Agent, User, &found)
	found = append(found, s.apply(users)...)
	user := layer{path: filepath.Join(d.Agent, "settings.json"), base: d.Agent, location: User}
	user.read(&found)
	found = append(found, s.apply(user)...)
	setting := cmp.Or(own.tree.Get("defaultProjectTrust").Str, s.defaultTrust)

	access, by, unsure := Decide(d, policy, setting)
	found = append(found, unsure...)
	d.Access = access
	s.Project = protocol.ProjectTrust{Trusted: access == Everything, DecidedBy: by}
	s.Undecided = policy.Above == nil && access != Everything && by == "defaultProjectTrust" && setting != trustNever
	project := layer{path: filepath.Join(d.project(), "settings.json"), base: d.project(), location: Project}
	if project.path == user.path { // somebody works in the directory above the agent's
		project.path = ""
	}
	in := d.take("")
	s.applyOmp(d, in, access, &found)
	switch {
	case project.path == "":
	case in.leadsOut(project.path):
		found.add(project.path, errLeadsOut)
		s.leaveOut(".pi/settings.json")
	default:
		project.access = access
		project.read(&found)
		found = append(found, s.apply(project)...)
	}
	leftOut, notObeyed := partsPresent(d)
	s.leaveOut(leftOut...)
	if len(notObeyed) > 0 {
		found.add(d.Cwd, fmt.Errorf("this version does not obey %s", some(notObeyed)))
	}
	if names := s.Project.LeftOut; len(names) > 0 {
		found.add(d.Cwd, fmt.Errorf("the project is not trusted (%s), so these are left out: %s. "+
			"To trust it use --approve, or put {%q: true} into %s",
			by, some(names), real(d.Cwd), filepath.Join(d.Agent, "troupe", "trust.json")))
	}
	if policy.Budget != nil {
		budget := layer{path: "--budget", base: d.Cwd, location: Path, src: policy.Budget, tree: gjson.ParseBytes(policy.Budget)}
		found = append(found, s.apply(budget)...)
	}
	for _, p := range found {
		if errors.As(p.Err, new(limiting)) {
			return nil, d, nil, errors.New(p.Error())
		}
	}
	if err := d.checkNamed(own); err != nil {
		return nil, d, nil, err
	}
	if wrong := s.apply(own); len(wrong) > 0 {
		for _, p := range wrong {
			if !errors.As(p.Err, new(notCounted)) {
				return nil, d, nil, fmt.Errorf("settings: %w", p.Err)
			}
		}
		found = append(found, wrong...)
	}
	given := []gjson.Result{user.tree}
	if access == Everything {
		given = append(given, project.tree)
	}
	s.Given = mergedOf(append(given, own.tree)...)
	return s, d, found, nil
}

// mergedOf is objects merged key by key, the later ones over those before.
func mergedOf(list ...gjson.Result) json.RawMessage {
	values := map[string]gjson.Result{}
	for _, tree := range list {
		tree.ForEach(func(k, v gjson.Result) bool {
			if old, ok := values[k.Str]; ok && old.IsObject() && v.IsObject() {
				v = gjson.Parse(cmp.Or(string(mergedOf(old, v)), "{}"))
			}
			values[k.Str] = v
			return true
		})
	}
	all := map[string]json.RawMessage{}
	for k, v := range values {
		all[k] = json.RawMessage(v.Raw)
	}
	text, err := json.Marshal(all)
	if err != nil || len(all) == 0 {
		return nil
	}
	return text
}

// leaveOut notes what the project is not trusted with, by the rows of the table.
func (s *Settings) leaveOut(names ...string) {
	for _, name := range names {
		if len(s.Project.LeftOut) < maxNames && !slices.Contains(s.Project.LeftOut, name) {
			s.Project.LeftOut = append(s.Project.LeftOut, name)
		}
	}
}

// maxNames bounds lists of names in messages and in get_state.
const maxNames = 50

// some joins names, which anybody may have chosen.
func some(names []string) string {
	more := ""
	if n := len(names) - maxNames; n > 0 {
		names, more = names[:maxNames], fmt.Sprintf(" and %d more", n)
	}
	short := make([]string, len(names))
	for i, name := range names {
		if r := []rune(name); len(r) > 200 {
			name = string(r[:200]) + "…"
		}
		short[i] = name
	}
	return strings.Join(short, ", ") + more
}

// layer is one source of settings.
type layer struct {
	path     string // in problems
	base     string // where relative paths start
	location Location
	only     string // the group of keys that counts; "" for all
	access   Access // of a project's
	src      []byte
	tree     gjson.Result
}

// read reads a layer's file.
func (l *layer) read(p *problems) {
	src, err := read(l.path, protocol.MaxSettingsFile)
	switch {
	case err == nil:
	case isAbsent(err):
		return
	default:
		p.add(l.path, err)
		return
	}
	l.src = []byte(src)
	tree, problem := parse(l.path, l.src)
	if problem != nil {
		*p = append(*p, *problem)
		return
	}
	l.tree = tree
}

// parse reads an object in JSON with comments and trailing commas. A text
// without any value is an empty object.
func parse(path string, src []byte) (gjson.Result, *Problem) {
	src = jsonc.ToJSON(src) // what remains stands where it stood
	if len(bytes.TrimSpace(src)) == 0 {
		return gjson.Result{}, nil
	}
	if p := checkJSON(path, src); p != nil {
		return gjson.Result{}, p
	}
	tree := gjson.ParseBytes(src)
	if !tree.IsObject() {
		return gjson.Result{}, &Problem{Path: path, Line: 1, Column: 1, Err: errors.New("settings are not an object")}
	}
	return tree, nil
}

// notCounted says that keys which are right were passed over.
type notCounted struct{ why, keys string }

func (n notCounted) Error() string { return n.why + " " + n.keys }

// apply puts a layer's values over those that are there.
func (s *Settings) apply(l layer) (found problems) {
	values := map[string]gjson.Result{}
	var unknown, missing, notHere []string
	walk("", l.tree, func(key string, v gjson.Result) {
		part, known := partOf(key)
		if part.Key != key && part.Missing == "" && !part.Screen { // below a key that is no group
			known = false
		}
		switch {
		case !l.concerns(key):
			return
		case !known && holdsParts(key):
			found = append(found, l.problem(key, v, errors.New("want an object")))
			return
		case !known && limits(key):
			found = append(found, l.problem(key, v, errors.New("unknown")))
			return
		case !known:
			unknown = append(unknown, key)
			return
		case part.Screen:
			return
		case part.Effect == Reserved && l.location == Project:
			notHere = append(notHere, key)
			return
		case l.location == Project && !part.admitted(l.access, v):
			s.leaveOut(part.Key)
		default:
			values[key] = v
		}
		if part.Missing != "" && !saysNothing(v) {
			if text := fmt.Sprintf("%s (%s)", part.Key, part.Missing); !slices.Contains(missing, text) {
				missing = append(missing, text)
			}
		}
	})
	var fields []field // a table that is not made where there is nothing to look up
	if len(values) > 0 {
		fields = s.fields(l.base, l.location)
	}
	for _, f := range fields {
		v, ok := values[f.key]
		if !ok {
			continue
		}
		if err := f.set(v); err != nil {
			found = append(found, l.problem(f.key, v, err))
		}
	}
	for _, n := range []struct {
		why  string
		keys []string
	}{
		{"unknown settings:", unknown},
		{"this version does not obey the settings", missing},
		{"these settings count only in the user's file:", notHere},
	} {
		if len(n.keys) > 0 {
			found.add(l.path, notCounted{n.why, some(n.keys)})
		}
	}
	return found
}

// limiting is what is wrong with a key that limits something.
type limiting struct{ error }

// limits says whether a key sets a limit, so that it is obeyed or refused.
func limits(key string) bool {
	return key == "task" || slices.ContainsFunc([]string{"task.budget.", "task.verification."}, func(group string) bool { return strings.HasPrefix(key+".", group) })
}

// problem is what is wrong with the value of a key. What a project that is not
// trusted has wrong stops nobody.
func (l layer) problem(key string, v gjson.Result, err error) Problem {
	line, column := position(l.src, v.Index)
	err = fmt.Errorf("%s: %w", key, err)
	ours := l.location != Project || l.access == Everything
	if limits(key) && ours && !errors.As(err, new(tooHigh)) {
		err = limiting{err}
	}
	return Problem{l.path, line, column, err}
}

// saysNothing is true of values that switch nothing on.
func saysNothing(v gjson.Result) bool {
	switch v.Type {
	case gjson.Null, gjson.False:
		return true
	case gjson.String:
		return slices.Contains([]string{"", "auto", "sse", "off", "none"}, v.Str)
	case gjson.JSON:
		empty := true
		v.ForEach(func(_, _ gjson.Result) bool { empty = false; return false })
		return empty
	}
	return false
}

// walk visits the keys of an object as the table of parts knows them: what it
// has no row for is visited whole.
func walk(prefix string, object gjson.Result, visit func(key string, v gjson.Result)) {
	object.ForEach(func(key, v gjson.Result) bool {
		name := prefix + strings.Clone(key.Str)
		if v.IsObject() && holdsParts(name) {
			walk(name+".", v, visit)
		} else {
			visit(name, v)
		}
		return true
	})
}

// field is a key, how its value is taken over, and what it can do to who opens a project
// that has it: see [Part]. A set that fails changes nothing.
type field struct {
	key      string
	set      func(gjson.Result) error
	effect   Effect
	harmless func(gjson.Result) bool
}

// fields is the table of all keys that are obeyed. Old names stand before the ones that
// replaced them, which win if a file has both.
func (s *Settings) fields(base string, location Location) []field {
	queueModes := []protocol.QueueMode{protocol.QueueAll, protocol.QueueOneAtATime}
	return append(s.Task.fields(location), []field{
		{"defaultProvider", str(&s.DefaultProvider), Redirects, nil},
		{"defaultModel", str(&s.DefaultModel), Redirects, nil},
		{"defaultThinkingLevel", oneOf(&s.DefaultThinkingLevel, protocol.ThinkingLevels...), Tunes, nil},
		{"modelThinkingLevels", merge(&s.ModelThinkingLevels, validLevel), Tunes, nil},
		{"enabledModels", strs(&s.EnabledModels), Redirects, nil},
		{"thinkingBudgets.minimal", count(&s.ThinkingBudgets.Minimal), Tunes, nil},
		{"thinkingBudgets.low", count(&s.ThinkingBudgets.Low), Tunes, nil},
		{"thinkingBudgets.medium", count(&s.ThinkingBudgets.Medium), Tunes, nil},
		{"thinkingBudgets.high", count(&s.ThinkingBudgets.High), Tunes, nil},
		{"thinkingBudgets.xhigh", count(&s.ThinkingBudgets.XHigh), Tunes, nil},
		{"thinkingBudgets.max", count(&s.ThinkingBudgets.Max), Tunes, nil},
		{"defaultTools", strs(&s.DefaultTools), Widens, onlyTakesAway},

		{"queueMode", oneOf(&s.SteeringMode, queueModes...), Tunes, nil},
		{"steeringMode", oneOf(&s.SteeringMode, queueModes...), Tunes, nil},
		{"followUpMode", oneOf(&s.FollowUpMode, queueModes...), Tunes, nil},
		{"interruptMode", oneOf(&s.InterruptMode, protocol.InterruptImmediate, protocol.InterruptWait), Tunes, nil},

		{"compaction.enabled", boolean(&s.Compaction.Enabled), Tunes, nil},
		{"compaction.reserveTokens", count(&s.Compaction.ReserveTokens), Tunes, nil},
		{"compaction.keepRecentTokens", count(&s.Compaction.KeepRecentTokens), Tunes, nil},
		{"compaction.modelOverrides", merge(&s.Compaction.ModelOverrides, validOverride), Tunes, nil},
		{"branchSummary.reserveTokens", count(&s.BranchSummary.ReserveTokens), Tunes, nil},

		// Requests cost money: a project may only have fewer of them, and later.
		{"retry.enabled", boolean(&s.Retry.Enabled), Tunes, nil},
		{"retry.maxRetries", count(&s.Retry.MaxRetries), Loosens, atMost(3)},
		{"retry.baseDelayMs", count(&s.Retry.BaseDelayMs), Loosens, atLeast(2000)},
		{"retry.maxAgentDelayMs", count(&s.Retry.MaxAgentDelayMs), Loosens, atLeast(60_000)},
		{"retry.provider.maxRetries", count(&s.Retry.Provider.MaxRetries), Loosens, atMost(2)},
		{"retry.provider.maxRetryDelayMs", count(&s.Retry.Provider.MaxRetryDelayMs), Tunes, nil},
		{"retry.provider.timeoutMs", count(&s.Retry.Provider.TimeoutMs), Tunes, nil},

		{"images.autoResize", boolean(&s.Images.AutoResize), Tunes, nil},
		{"images.blockImages", boolean(&s.Images.BlockImages), Loosens, is(true)},

		{"ttsr.enabled", boolean(&s.TTSR.Enabled), Loosens, is(true)},
		{"ttsr.contextMode", oneOf(&s.TTSR.ContextMode, "discard", "keep"), Tunes, nil},
		{"ttsr.repeatMode", oneOf(&s.TTSR.RepeatMode, "once", "after-gap"), Tunes, nil},
		{"ttsr.repeatGap", count(&s.TTSR.RepeatGap), Tunes, nil},
		{"ttsr.interruptMode", oneOf(&s.TTSR.InterruptMode, "always", "prose-only", "tool-only", "never"), Loosens, nil},
		{"ttsr.disabledRules", strs(&s.TTSR.DisabledRules), Loosens, nil},

		{"todoCompletion.enabled", boolean(&s.Todo.Reminders), Tunes, nil},
		{"todoCompletion.maxReminders", count(&s.Todo.RemindersMax), Tunes, nil},
		{"bash.inheritEnv", boolean(&s.InheritEnv), Widens, is(false)},
		{"todo.reminders", boolean(&s.Todo.Reminders), Tunes, nil},
		{"todo.remindersMax", count(&s.Todo.RemindersMax), Tunes, nil},
		{"todo.reminders.max", count(&s.Todo.RemindersMax), Tunes, nil},

		{"modelRoles", merge(&s.ModelRoles, anyText), Redirects, nil},

		{"defaultProjectTrust", oneOf(&s.defaultTrust, trustAsk, trustAlways, trustNever), Reserved, nil},
		{"shellPath", str(&s.ShellPath), Starts, nil},
		{"shellCommandPrefix", str(&s.ShellCommandPrefix), Starts, nil},
		{"sessionDir", str(&s.SessionDir), Redirects, nil},

		{"auth.reuse", users(location, s.Auth.setReuse), Reserved, nil},
		{"auth.broker", users(location, str(&s.Auth.Broker)), Reserved, nil},
		{"discover.local", users(location, boolean(&s.DiscoverLocal)), Reserved, nil},
		{"httpProxy", str(&s.HTTPProxy), Redirects, nil},
		{"httpIdleTimeoutMs", count(&s.HTTPIdleTimeoutMs), Tunes, nil},

		{"prompts", named(&s.Prompts, base, location), Widens, nil}, // paths and patterns, from everywhere
		{"skills", s.skills(base, location), Widens, nil},
		{"enableSkillCommands", boolean(&s.EnableSkillCommands), Tunes, nil},
		{"extensions", named(&s.Extensions, base, location), Starts, nil},
		{"hooks", named(&s.Hooks, base, location), Starts, nil},
		{"customTools", named(&s.CustomTools, base, location), Starts, nil},
		{"packages", packages(&s.Packages, base, location), Starts, nil},
	}...)
}

func str(dst *string) func(gjson.Result) error {
	return func(v gjson.Result) error {
		if v.Type != gjson.String {
			return fmt.Errorf("want a string")
		}
		*dst = strings.Clone(v.Str)
		return nil
	}
}

func oneOf[S ~string](dst *S, choices ...S) func(gjson.Result) error {
	return func(v gjson.Result) error {
		if v.Type == gjson.String && slices.Contains(choices, S(v.Str)) {
			*dst = S(strings.Clone(v.Str))
			return nil
		}
		var names []string
		for _, c := range choices {
			names = append(names, string(c))
		}
		return fmt.Errorf("want one of %s", strings.Join(names, ", "))
	}
}

func boolean(dst *bool) func(gjson.Result) error {
	return func(v gjson.Result) error {
		if !v.IsBool() {
			return fmt.Errorf("want true or false")
		}
		*dst = v.Bool()
		return nil
	}
}

// maxSafeInteger is the largest number JavaScript counts up to.
const maxSafeInteger = 1<<53 - 1

// integer takes whole numbers from least on.
func integer(dst *int64, least int64) func(gjson.Result) error {
	return func(v gjson.Result) error {
		n := v.Int()
		if v.Type != gjson.Number || v.Num != float64(n) || n < least || n > maxSafeInteger {
			return fmt.Errorf("want a whole number of at least %d", least)
		}
		*dst = n
		return nil
	}
}

func count(dst *int64) func(gjson.Result) error { return integer(dst, 0) }

func stringList(v gjson.Result) ([]string, error) {
	if !v.IsArray() {
		return nil, fmt.Errorf("want a list of strings")
	}
	list := []string{}
	for _, item := range v.Array() {
		if len(list) == protocol.MaxResourceValues {
			return nil, fmt.Errorf("more than %d entries", protocol.MaxResourceValues)
		}
		if item.Type != gjson.String {
			return nil, fmt.Errorf("want a list of strings")
		}
		list = append(list, strings.Clone(item.Str))
	}
	return list, nil
}

func strs(dst *[]string) func(gjson.Result) error {
	return func(v gjson.Result) error {
		list, err := stringList(v)
		if err == nil {
			*dst = list
		}
		return err
	}
}

// merge takes over the members of an object one by one.
func merge[V any](dst *map[string]V, check func(V) error) func(gjson.Result) error {
	return func(v gjson.Result) (err error) {
		if !v.IsObject() {
			return fmt.Errorf("want an object")
		}
		merged := map[string]V{}
		maps.Copy(merged, *dst)
		v.ForEach(func(name, value gjson.Result) bool {
			var entry V
			if err = overlay(&entry, merged[name.Str], value.Raw); err == nil {
				err = check(entry)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", name.Str, err)
				return false
			}
			merged[name.Str] = entry
			return true
		})
		if err == nil {
			*dst = merged
		}
		return err
	}
}

// overlay makes dst a copy of old, which it shares nothing with, and puts the
// members of an object over it.
func overlay[V any](dst *V, old V, object string) error {
	deep, err := json.Marshal(old)
	if err == nil {
		err = json.Unmarshal(deep, dst)
	}
	if err == nil {
		err = json.Unmarshal([]byte(object), dst)
	}
	return err
}

func validLevel(l protocol.ThinkingLevel) error {
	if !l.Valid() {
		return fmt.Errorf("no thinking level: %s", l)
	}
	return nil
}

func validOverride(o CompactionOverride) error {
	for _, n := range []*int64{o.ReserveTokens, o.KeepRecentTokens} {
		if n != nil && (*n < 0 || *n > maxSafeInteger) {
			return fmt.Errorf("want whole numbers of at least 0")
		}
	}
	return nil
}

// named adds to a list of resources.
func named(dst *[]Named, base string, location Location) func(gjson.Result) error {
	return func(v gjson.Result) error {
		list, err := stringList(v)
		for _, text := range list {
			*dst = append(*dst, Named{text, base, location})
		}
		return err
	}
}

// skills takes a list or the old form, an object that holds the list and the
// switch for commands.
func (s *Settings) skills(base string, location Location) func(gjson.Result) error {
	add := named(&s.Skills, base, location)
	return func(v gjson.Result) error {
		if !v.IsObject() {
			return add(v)
		}
		if on := v.Get("enableSkillCommands"); on.Exists() {
			if err := boolean(&s.EnableSkillCommands)(on); err != nil {
				return err
			}
		}
		if dirs := v.Get("customDirectories"); dirs.Exists() {
			return add(dirs)
		}
		return nil
	}
}

// checkJSON says what is wrong with a file of JSON, and where.
func checkJSON(path string, src []byte) *Problem {
	var any json.RawMessage
	err := json.Unmarshal(src, &any)
	if err == nil {
		return nil
	}
	p := &Problem{Path: path, Err: err}
	if syntax, is := errors.AsType[*json.SyntaxError](err); is {
		p.Line, p.Column = position(src, int(syntax.Offset)-1)
	}
	return p
}

// position is the line and the column of a byte, counted from 1; columns count
// characters.
func position(src []byte, offset int) (line, column int) {
	before := string(src[:max(0, min(offset, len(src)))])
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}
