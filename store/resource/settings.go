package resource

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

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

	ShellPath          string // "": found automatically
	ShellCommandPrefix string // a line put before every command
	InheritEnv         bool   // false: children do not see the keys of model providers
	SessionDir         string // "": below the agent directory

	Transport                 string // auto, sse, websocket, websocket-cached
	HTTPProxy                 string // "": from the environment
	HTTPIdleTimeoutMs         int64  // 300000
	WebsocketConnectTimeoutMs int64  // 15000
	CacheWarming              string // off, streaming, idle (default)

	Extensions          []Named // files and directories; see Named
	Skills              []Named
	Prompts             []Named
	EnableSkillCommands bool // true
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
	MaxDelayMs      int64 // 60000: the longest wait a server may ask for
	MaxAgentDelayMs int64 // 60000: the longest wait of our own
	Provider        ProviderRetry
}

// ProviderRetry is about retries below the agent's own.
type ProviderRetry struct {
	MaxRetries      int64 // 0
	MaxRetryDelayMs int64 // 60000; 0: no limit
	TimeoutMs       int64 // 0: HTTPIdleTimeoutMs
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

// Task is about sub-agents.
type Task struct {
	Batch             bool  // true
	MaxConcurrency    int64 // 32; 0: no limit
	MaxRecursionDepth int64 // 2; -1: no limit
	MaxRuntimeMs      int64 // 0: no limit
	Budget            Budget
	Verification      Verification
	Isolation         Isolation
}

// Budget limits what a session may use; nil means no limit.
type Budget struct {
	MaxWallTimeMs, MaxInputTokens, MaxOutputTokens, MaxTotalTokens, MaxToolCalls, MaxSubagents *int64
	MaxCostUsd                                                                                 *float64
	WarnAtRatio                                                                                float64 // 0.8
}

// Limited says whether there is any limit to watch.
func (b Budget) Limited() bool {
	return b.MaxCostUsd != nil || slices.ContainsFunc([]*int64{
		b.MaxWallTimeMs, b.MaxInputTokens, b.MaxOutputTokens, b.MaxTotalTokens, b.MaxToolCalls, b.MaxSubagents,
	}, func(limit *int64) bool { return limit != nil })
}

// Verification is about checking what an isolated sub-agent did.
type Verification struct {
	Enabled                 bool // false
	DefaultProfile          string
	RequireForIsolated      bool  // false
	MaxRetries              int64 // 1
	FailureContextLineLimit int64 // 200
	Profiles                map[string]VerificationProfile
}

// VerificationProfile is a named list of commands.
type VerificationProfile struct {
	Mode      string                `json:"mode"` // none, command
	Commands  []VerificationCommand `json:"commands"`
	OnFailure string                `json:"onFailure"` // return_failure, discard_patch, retry_once
}

// VerificationCommand is one check.
type VerificationCommand struct {
	Name      string `json:"name"`
	Command   string `json:"command"`
	TimeoutMs int64  `json:"timeoutMs"` // 0: none
	Optional  bool   `json:"optional"`  // its failure does not count
}

// Isolation is about the private copies sub-agents work in.
type Isolation struct {
	Merge   string // patch, branch
	Apply   bool   // true
	Commits string // generic, ai
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
			Enabled: true, MaxRetries: 3, BaseDelayMs: 2000, MaxDelayMs: 60000, MaxAgentDelayMs: 60000,
			Provider: ProviderRetry{MaxRetryDelayMs: 60000},
		},
		Images: Images{AutoResize: true},
		TTSR:   TTSR{Enabled: true, ContextMode: "discard", RepeatMode: "once", RepeatGap: 10, InterruptMode: "always"},
		Todo:   Todo{Reminders: true, RemindersMax: 3},
		Task: Task{
			Batch: true, MaxConcurrency: 32, MaxRecursionDepth: 2, Budget: Budget{WarnAtRatio: 0.8},
			Verification: Verification{MaxRetries: 1, FailureContextLineLimit: 200},
			Isolation:    Isolation{Merge: "patch", Apply: true, Commits: "generic"},
		},
		Transport: "auto", HTTPIdleTimeoutMs: DefaultHTTPIdleTimeoutMs, WebsocketConnectTimeoutMs: 15000, CacheWarming: "idle",
		EnableSkillCommands: true,
	}
}

// LoadSettings reads the user's settings.json and, on top of it, the
// project's. A key of the project replaces the user's; objects are merged key
// by key, and lists of resources are joined. Keys may be nested or written
// with dots. Unknown keys are ignored. A file that is no JSON (comments and
// trailing commas are allowed) is a problem and does not count; neither does
// a single value of the wrong kind. No file is ever written.
func LoadSettings(d Dirs) (*Settings, []Problem) {
	s := Defaults()
	var p problems
	s.load(filepath.Join(d.Agent, "settings.json"), d.Agent, User, &p)
	if !d.IgnoreProject {
		s.load(filepath.Join(d.project(), "settings.json"), d.project(), Project, &p)
	}
	return s, p
}

func (s *Settings) load(path, base string, location Location, p *problems) {
	if text, ok := p.readIfThere(path); ok {
		*p = append(*p, s.apply(path, []byte(text), base, location)...)
	}
}

// apply puts a file's values over those that are there.
func (s *Settings) apply(path string, src []byte, base string, location Location) (found problems) {
	src = JSONC(src)
	if len(strings.TrimSpace(string(src))) == 0 {
		return nil // as good as absent
	}
	if p := checkJSON(path, src); p != nil {
		return problems{*p}
	}
	tree := gjson.ParseBytes(src)
	if !tree.IsObject() {
		return problems{{Path: path, Line: 1, Column: 1, Err: fmt.Errorf("settings are not an object")}}
	}
	values := map[string]gjson.Result{}
	flatten(values, "", tree)
	for _, f := range s.fields(base, location) {
		v, ok := values[f.key]
		if !ok {
			continue
		}
		if err := f.set(v); err != nil {
			line, column := position(src, v.Index)
			found = append(found, Problem{path, line, column, fmt.Errorf("%s: %w", f.key, err)})
		}
	}
	return found
}

// flatten lists every value by its path. A key that contains dots comes out
// as if it were nested.
func flatten(values map[string]gjson.Result, prefix string, object gjson.Result) {
	object.ForEach(func(key, v gjson.Result) bool {
		values[prefix+key.Str] = v
		if v.IsObject() {
			flatten(values, prefix+key.Str+".", v)
		}
		return true
	})
}

// field is a key and how its value is taken over. A set that fails changes
// nothing.
type field struct {
	key string
	set func(gjson.Result) error
}

// fields is the table of all keys. Old names stand before the ones that
// replaced them, which win if a file has both.
func (s *Settings) fields(base string, location Location) []field {
	queueModes := []protocol.QueueMode{protocol.QueueAll, protocol.QueueOneAtATime}
	return []field{
		{"defaultProvider", str(&s.DefaultProvider)},
		{"defaultModel", str(&s.DefaultModel)},
		{"defaultThinkingLevel", oneOf(&s.DefaultThinkingLevel, protocol.ThinkingLevels...)},
		{"modelThinkingLevels", merge(&s.ModelThinkingLevels, validLevel)},
		{"enabledModels", strs(&s.EnabledModels)},
		{"thinkingBudgets.minimal", count(&s.ThinkingBudgets.Minimal)},
		{"thinkingBudgets.low", count(&s.ThinkingBudgets.Low)},
		{"thinkingBudgets.medium", count(&s.ThinkingBudgets.Medium)},
		{"thinkingBudgets.high", count(&s.ThinkingBudgets.High)},
		{"thinkingBudgets.xhigh", count(&s.ThinkingBudgets.XHigh)},
		{"thinkingBudgets.max", count(&s.ThinkingBudgets.Max)},
		{"defaultTools", strs(&s.DefaultTools)},

		{"queueMode", oneOf(&s.SteeringMode, queueModes...)},
		{"steeringMode", oneOf(&s.SteeringMode, queueModes...)},
		{"followUpMode", oneOf(&s.FollowUpMode, queueModes...)},
		{"interruptMode", oneOf(&s.InterruptMode, protocol.InterruptImmediate, protocol.InterruptWait)},

		{"compaction.enabled", boolean(&s.Compaction.Enabled)},
		{"compaction.reserveTokens", count(&s.Compaction.ReserveTokens)},
		{"compaction.keepRecentTokens", count(&s.Compaction.KeepRecentTokens)},
		{"compaction.modelOverrides", merge(&s.Compaction.ModelOverrides, validOverride)},
		{"branchSummary.reserveTokens", count(&s.BranchSummary.ReserveTokens)},

		{"retry.enabled", boolean(&s.Retry.Enabled)},
		{"retry.maxRetries", count(&s.Retry.MaxRetries)},
		{"retry.baseDelayMs", count(&s.Retry.BaseDelayMs)},
		{"retry.maxDelayMs", count(&s.Retry.MaxDelayMs)},
		{"retry.maxAgentDelayMs", count(&s.Retry.MaxAgentDelayMs)},
		{"retry.provider.maxRetries", count(&s.Retry.Provider.MaxRetries)},
		{"retry.provider.maxRetryDelayMs", count(&s.Retry.Provider.MaxRetryDelayMs)},
		{"retry.provider.timeoutMs", count(&s.Retry.Provider.TimeoutMs)},

		{"images.autoResize", boolean(&s.Images.AutoResize)},
		{"images.blockImages", boolean(&s.Images.BlockImages)},

		{"ttsr.enabled", boolean(&s.TTSR.Enabled)},
		{"ttsr.contextMode", oneOf(&s.TTSR.ContextMode, "discard", "keep")},
		{"ttsr.repeatMode", oneOf(&s.TTSR.RepeatMode, "once", "after-gap")},
		{"ttsr.repeatGap", count(&s.TTSR.RepeatGap)},
		{"ttsr.interruptMode", oneOf(&s.TTSR.InterruptMode, "always", "prose-only", "tool-only", "never")},
		{"ttsr.disabledRules", strs(&s.TTSR.DisabledRules)},

		{"todoCompletion.enabled", boolean(&s.Todo.Reminders)},
		{"todoCompletion.maxReminders", count(&s.Todo.RemindersMax)},
		{"bash.inheritEnv", boolean(&s.InheritEnv)},
		{"todo.reminders", boolean(&s.Todo.Reminders)},
		{"todo.remindersMax", count(&s.Todo.RemindersMax)},

		{"task.batch", boolean(&s.Task.Batch)},
		{"task.maxConcurrency", count(&s.Task.MaxConcurrency)},
		{"task.maxRecursionDepth", integer(&s.Task.MaxRecursionDepth, -1)},
		{"task.maxRuntimeMs", count(&s.Task.MaxRuntimeMs)},
		{"task.budget.maxWallTimeMs", limit(&s.Task.Budget.MaxWallTimeMs)},
		{"task.budget.maxInputTokens", limit(&s.Task.Budget.MaxInputTokens)},
		{"task.budget.maxOutputTokens", limit(&s.Task.Budget.MaxOutputTokens)},
		{"task.budget.maxTotalTokens", limit(&s.Task.Budget.MaxTotalTokens)},
		{"task.budget.maxCostUsd", costLimit(&s.Task.Budget.MaxCostUsd)},
		{"task.budget.maxToolCalls", limit(&s.Task.Budget.MaxToolCalls)},
		{"task.budget.maxSubagents", limit(&s.Task.Budget.MaxSubagents)},
		{"task.budget.warnAtRatio", ratio(&s.Task.Budget.WarnAtRatio)},
		{"task.verification.enabled", boolean(&s.Task.Verification.Enabled)},
		{"task.verification.defaultProfile", str(&s.Task.Verification.DefaultProfile)},
		{"task.verification.requireForIsolated", boolean(&s.Task.Verification.RequireForIsolated)},
		{"task.verification.maxRetries", count(&s.Task.Verification.MaxRetries)},
		{"task.verification.failureContextLineLimit", count(&s.Task.Verification.FailureContextLineLimit)},
		{"task.verification.profiles", merge(&s.Task.Verification.Profiles, validProfile)},
		{"task.isolation.merge", oneOf(&s.Task.Isolation.Merge, "patch", "branch")},
		{"task.isolation.apply", boolean(&s.Task.Isolation.Apply)},
		{"task.isolation.commits", oneOf(&s.Task.Isolation.Commits, "generic", "ai")},

		{"shellPath", str(&s.ShellPath)},
		{"shellCommandPrefix", str(&s.ShellCommandPrefix)},
		{"sessionDir", str(&s.SessionDir)},

		{"websockets", oldWebsockets(&s.Transport)},
		{"transport", oneOf(&s.Transport, "auto", "sse", "websocket", "websocket-cached")},
		{"httpProxy", str(&s.HTTPProxy)},
		{"httpIdleTimeoutMs", count(&s.HTTPIdleTimeoutMs)},
		{"websocketConnectTimeoutMs", count(&s.WebsocketConnectTimeoutMs)},
		{"cacheWarming", oneOf(&s.CacheWarming, "off", "streaming", "idle")},

		{"extensions", named(&s.Extensions, base, location)},
		{"prompts", named(&s.Prompts, base, location)},
		{"skills", s.skills(base, location)},
		{"enableSkillCommands", boolean(&s.EnableSkillCommands)},
	}
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

// limit takes a count, or null for no limit.
func limit(dst **int64) func(gjson.Result) error {
	return func(v gjson.Result) error {
		if v.Type == gjson.Null {
			*dst = nil
			return nil
		}
		var n int64
		if err := count(&n)(v); err != nil {
			return err
		}
		*dst = &n
		return nil
	}
}

func costLimit(dst **float64) func(gjson.Result) error {
	return func(v gjson.Result) error {
		switch {
		case v.Type == gjson.Null:
			*dst = nil
		case v.Type == gjson.Number && v.Num >= 0:
			n := v.Num
			*dst = &n
		default:
			return fmt.Errorf("want an amount of dollars")
		}
		return nil
	}
}

func ratio(dst *float64) func(gjson.Result) error {
	return func(v gjson.Result) error {
		if v.Type != gjson.Number || v.Num < 0 || v.Num > 1 {
			return fmt.Errorf("want a number between 0 and 1")
		}
		*dst = v.Num
		return nil
	}
}

func stringList(v gjson.Result) ([]string, error) {
	if !v.IsArray() {
		return nil, fmt.Errorf("want a list of strings")
	}
	list := []string{}
	for _, item := range v.Array() {
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
		for name, value := range *dst {
			merged[name] = value
		}
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

func validProfile(p VerificationProfile) error {
	if !slices.Contains([]string{"", "none", "command"}, p.Mode) {
		return fmt.Errorf("unknown mode %s", p.Mode)
	}
	if !slices.Contains([]string{"", "return_failure", "discard_patch", "retry_once"}, p.OnFailure) {
		return fmt.Errorf("unknown onFailure %s", p.OnFailure)
	}
	for _, c := range p.Commands {
		if c.Command == "" || c.TimeoutMs < 0 {
			return fmt.Errorf("a command needs its text, and a timeout that is not negative")
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

// oldWebsockets takes the switch that transport replaced.
func oldWebsockets(dst *string) func(gjson.Result) error {
	return func(v gjson.Result) error {
		var on bool
		if err := boolean(&on)(v); err != nil {
			return err
		}
		*dst = "sse"
		if on {
			*dst = "websocket"
		}
		return nil
	}
}
