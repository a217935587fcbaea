package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
	"github.com/tidwall/jsonc"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/auth"
)

// providerEntry is one provider of models.json, or of the built-in catalogue,
// which has the same form.
type providerEntry struct {
	Name           string                    `json:"name"`
	BaseURL        string                    `json:"baseUrl"`
	API            string                    `json:"api"`
	APIKey         string                    `json:"apiKey"`
	Auth           string                    `json:"auth"`     // ours: the cloud whose credentials count in place of a key
	Discover       bool                      `json:"discover"` // ours: the server is asked which models it has
	Login          *auth.Device              `json:"login"`    // ours: one signs in by a code
	Headers        map[string]string         `json:"headers"`
	AuthHeader     bool                      `json:"authHeader"` // send Authorization: Bearer KEY as well
	Compat         json.RawMessage           `json:"compat"`
	Stall          protocol.StallLimits      `json:"stall"` // ours: overrides of the stall limits
	Models         []jsontext.Value          `json:"models"`
	ModelOverrides map[string]jsontext.Value `json:"modelOverrides"`

	models    []modelEntry
	overrides map[string]modelEntry
	whole     bool // there are no other models, whatever is built in
}

// modelEntry is one model of a provider, or changes to one.
type modelEntry struct {
	ID            string                `json:"id"`
	Name          string                `json:"name"`
	API           string                `json:"api"`
	BaseURL       string                `json:"baseUrl"`
	Reasoning     *bool                 `json:"reasoning"`
	Input         []string              `json:"input"`
	Cost          *costEntry            `json:"cost"`
	ContextWindow int64                 `json:"contextWindow"`
	MaxTokens     int64                 `json:"maxTokens"`
	Headers       map[string]string     `json:"headers"`
	Compat        json.RawMessage       `json:"compat"`
	LevelMap      map[string]*string    `json:"thinkingLevelMap"`
	Stall         *protocol.StallLimits `json:"stall"`
}

// costEntry is a price list, whose fields may be missing in overrides.
type costEntry struct {
	Input      *float64            `json:"input"`
	Output     *float64            `json:"output"`
	CacheRead  *float64            `json:"cacheRead"`
	CacheWrite *float64            `json:"cacheWrite"`
	Tiers      []protocol.CostTier `json:"tiers"`
}

// Defaults of a model that does not say.
const (
	defaultWindow    = 128_000
	defaultMaxTokens = 16_384
)

// namedEntry is a provider with its id; order matters in the list.
type namedEntry struct {
	id string
	providerEntry
}

// parseModels reads models.json: JSON with comments and trailing commas. If
// anything is wrong nothing of it counts, and the error names every problem.
func parseModels(text []byte, isBuiltin func(string) bool) ([]namedEntry, error) {
	text = jsonc.ToJSON(text)
	if !protocol.ValidJSON(text) {
		return nil, protocol.SyntaxError(text)
	}
	root := gjson.ParseBytes(text)
	list := root.Get("providers")
	if !root.IsObject() || list.Exists() && !list.IsObject() {
		return nil, errors.New(`"providers" must be an object`)
	}
	var out []namedEntry
	var problems []error
	list.ForEach(func(id, raw gjson.Result) bool {
		config, errs := parseProvider([]byte(raw.Raw))
		if len(errs) == 0 {
			errs = config.check(isBuiltin(id.Str))
		}
		for _, err := range errs {
			problems = append(problems, fmt.Errorf("provider %q: %w", id.Str, err))
		}
		out = append(out, namedEntry{id.Str, config})
		return true
	})
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return out, nil
}

var decodeOptions = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// parseProvider reads a provider model by model, to report all that is wrong.
func parseProvider(raw []byte) (config providerEntry, problems []error) {
	if err := jsonv2.Unmarshal(raw, &config, decodeOptions); err != nil {
		return config, []error{schemaError(err)}
	}
	config.overrides = make(map[string]modelEntry, len(config.ModelOverrides))
	config.models = make([]modelEntry, len(config.Models))
	for i, raw := range config.Models {
		if err := jsonv2.Unmarshal(raw, &config.models[i], decodeOptions); err != nil {
			problems = append(problems, fmt.Errorf("model %d: %w", i+1, schemaError(err)))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(config.ModelOverrides)) {
		var m modelEntry
		if err := jsonv2.Unmarshal(config.ModelOverrides[id], &m, decodeOptions); err != nil {
			problems = append(problems, fmt.Errorf("override of %q: %w", id, schemaError(err)))
		}
		config.overrides[id] = m
	}
	config.Models, config.ModelOverrides = nil, nil
	if config.Discover && config.API == "" {
		config.API = "openai-completions" // which all of them speak
	}
	return config, problems
}

// schemaError says what is wrong without repeating the value, which may be a
// key.
func schemaError(err error) error {
	var e *jsonv2.SemanticError
	if !errors.As(err, &e) || e.GoType == nil {
		return errors.New("not what it should be")
	}
	name := cmp.Or(strings.TrimPrefix(strings.ReplaceAll(string(e.JSONPointer), "/", "."), "."), "the entry")
	want := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Int64: "a whole number", reflect.Float64: "a number",
		reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
	}[e.GoType.Kind()]
	return fmt.Errorf("%s must be %s", name, want)
}

// check reports what a provider lacks or has too much of. A built-in provider
// has a base URL and an API already.
func (p *providerEntry) check(builtin bool) (problems []error) {
	fail := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(p.models) == 0 && p.BaseURL == "" && len(p.Compat) == 0 && len(p.overrides) == 0 &&
		p.APIKey == "" && p.Auth == "" && len(p.Headers) == 0 && p.Stall == (protocol.StallLimits{}) {
		fail("has neither models nor anything to change: baseUrl, apiKey, auth, headers, compat, modelOverrides")
	}
	switch {
	case p.Auth != "" && !slices.Contains(providers.CloudNames, p.Auth):
		fail("auth %q is none of %s", p.Auth, strings.Join(providers.CloudNames, ", "))
	case p.Discover && p.BaseURL == "":
		fail("discover needs a baseUrl: where the server is")
	case p.Login != nil && builtin:
		fail("login is for providers of your own, not for those of a vendor")
	case p.Login != nil && (p.Auth != "" || p.BaseURL == ""):
		fail("login needs a baseUrl, to which its tokens go, and no auth")
	case p.Auth != "" && (p.APIKey != "" || p.AuthHeader):
		fail("auth is for credentials of a cloud: leave out apiKey and authHeader, or auth")
	}
	if p.Login != nil {
		if err := p.Login.Check(); err != nil {
			fail("%w", err)
		}
	}
	problems = append(problems, checkCompat(p.Compat)...)
	for i := range p.models {
		m := &p.models[i]
		name := m.ID
		if name == "" {
			name = fmt.Sprint(i + 1)
			fail("model %s: id is missing", name)
		}
		if p.API == "" && m.API == "" && !builtin {
			fail("model %s: api is missing, here and at the provider", name)
		}
		if p.BaseURL == "" && m.BaseURL == "" && !builtin && p.API != providers.ScriptedAPI && m.API != providers.ScriptedAPI {
			fail("model %s: baseUrl is missing, here and at the provider", name)
		}
		if c := m.Cost; c != nil && (c.Input == nil || c.Output == nil || c.CacheRead == nil || c.CacheWrite == nil) {
			fail("model %s: cost needs input, output, cacheRead and cacheWrite", name)
		}
		for _, err := range m.check() {
			fail("model %s: %w", name, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.overrides)) {
		m := p.overrides[id]
		for _, err := range m.check() {
			fail("override of %s: %w", id, err)
		}
	}
	return problems
}

// check reports what is wrong with a model whether it is new or an override.
func (m *modelEntry) check() (problems []error) {
	if m.ContextWindow < 0 {
		problems = append(problems, errors.New("contextWindow is negative"))
	}
	if m.MaxTokens < 0 {
		problems = append(problems, errors.New("maxTokens is negative"))
	}
	for _, kind := range m.Input {
		if kind != "text" && kind != "image" {
			problems = append(problems, fmt.Errorf("input %q is neither text nor image", kind))
		}
	}
	for _, level := range slices.Sorted(maps.Keys(m.LevelMap)) {
		if !protocol.ThinkingLevel(level).Valid() {
			problems = append(problems, fmt.Errorf("thinkingLevelMap: there is no level %q", level))
		}
	}
	return append(problems, checkCompat(m.Compat)...)
}

// switches are the beginnings of the compat flags that are on or off.
var switches = []string{"supports", "requires", "force", "allowEmpty", "send"}

func checkCompat(raw json.RawMessage) (problems []error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	v := gjson.ParseBytes(raw)
	if !v.IsObject() {
		return []error{errors.New("compat is not an object")}
	}
	v.ForEach(func(key, value gjson.Result) bool {
		isSwitch := slices.ContainsFunc(switches, func(s string) bool { return strings.HasPrefix(key.Str, s) })
		if isSwitch && !value.IsBool() {
			problems = append(problems, fmt.Errorf("compat: %s is neither true nor false", key.Str))
		}
		return true
	})
	return problems
}

// build makes the model that m describes, on what its provider says.
func (p *providerEntry) build(provider string, m *modelEntry) *protocol.Model {
	model := &protocol.Model{
		ID: m.ID, Name: m.ID, Provider: provider, API: p.API, BaseURL: p.BaseURL,
		Input: []string{"text"}, ContextWindow: defaultWindow, MaxTokens: defaultMaxTokens,
		ProviderConfig: &protocol.ProviderConfig{Headers: p.Headers, Compat: p.Compat, Stall: p.Stall},
	}
	return m.change(model)
}

// change returns a copy of model with what m says about it.
func (m *modelEntry) change(model *protocol.Model) *protocol.Model {
	out, extra := *model, protocol.ProviderConfig{}
	if model.ProviderConfig != nil {
		extra = *model.ProviderConfig
	}
	out.ProviderConfig = &extra
	set(&out.Name, m.Name)
	set(&out.API, m.API)
	set(&out.BaseURL, m.BaseURL)
	set(&out.ContextWindow, m.ContextWindow)
	set(&out.MaxTokens, m.MaxTokens)
	given(&out.Reasoning, m.Reasoning)
	if m.Input != nil {
		out.Input = m.Input
	}
	if m.Cost != nil {
		m.Cost.change(&out)
	}
	if m.LevelMap != nil {
		extra.ThinkingValues, extra.ThinkingLevels = m.LevelMap, nil
		for _, level := range protocol.ThinkingLevels[5:] {
			if word := m.LevelMap[string(level)]; word != nil {
				extra.ThinkingLevels = append(extra.ThinkingLevels, level)
			}
		}
	}
	if m.Stall != nil {
		extra.Stall = extra.Stall.With(*m.Stall)
	}
	extra.Headers = mergeHeaders(extra.Headers, m.Headers)
	extra.Compat = mergeCompat(extra.Compat, m.Compat)
	return &out
}

// set assigns v unless it is zero, which means "not said".
func set[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}

// given assigns what v points to, if anything.
func given[T any](dst, v *T) {
	if v != nil {
		*dst = *v
	}
}

func (c *costEntry) change(model *protocol.Model) {
	given(&model.Cost.Input, c.Input)
	given(&model.Cost.Output, c.Output)
	given(&model.Cost.CacheRead, c.CacheRead)
	given(&model.Cost.CacheWrite, c.CacheWrite)
	if c.Tiers != nil {
		tiers := slices.Clone(c.Tiers)
		slices.SortFunc(tiers, func(a, b protocol.CostTier) int { return int(a.InputAbove - b.InputAbove) })
		model.ProviderConfig.Tiers = tiers
	}
}

// headerValues are those of the headers of the provider, its models and its overrides.
func (p *providerEntry) headerValues() []string {
	list := slices.Collect(maps.Values(p.Headers))
	for _, m := range p.models {
		list = slices.AppendSeq(list, maps.Values(m.Headers))
	}
	for _, m := range p.overrides {
		list = slices.AppendSeq(list, maps.Values(m.Headers))
	}
	return list
}

// mergeHeaders returns base with the headers of over, which win.
func mergeHeaders(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	for name, value := range over {
		for have := range out {
			if strings.EqualFold(have, name) {
				delete(out, have)
			}
		}
		out[name] = value
	}
	return out
}

// mergeCompat returns base with the members of over, which win; routing objects
// merge one level deeper.
func mergeCompat(base, over json.RawMessage) json.RawMessage {
	if len(base) == 0 || len(over) == 0 {
		return append(base[:len(base):len(base)], over...)
	}
	var a, b map[string]json.RawMessage
	if json.Unmarshal(base, &a) != nil || json.Unmarshal(over, &b) != nil || b == nil {
		return base
	}
	if a == nil {
		return over
	}
	for key, value := range b {
		if strings.HasSuffix(key, "Routing") {
			value = mergeCompat(a[key], value)
		}
		a[key] = value
	}
	merged, err := json.Marshal(a)
	if err != nil {
		return base
	}
	return merged
}
